package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// The protocol has no list of tasks, so that the command line keeps which ones it began:
// a file for each, so that commands that run concurrently do not meet.
const (
	// mostTasks are remembered; older ones are forgotten.
	mostTasks = 100
	// maxTaskID bounds an id, which is the name of a file.
	maxTaskID = 128
	// maxTaskNote bounds a file.
	maxTaskNote = 4 << 10
)

// begunTask is a task that was begun here.
type begunTask struct {
	ID    string    `json:"-"`
	URL   string    `json:"url"`
	Tool  string    `json:"tool"`
	Begun time.Time `json:"begun"`
}

// remember keeps the id of a task for RunTaskList. A task goes on without it, so that a
// failure is a warning.
func (r *run) remember(dir, id, tool string) {
	err := func() error {
		if dir == "" {
			return nil
		}
		if len(id) > maxTaskID || !filepath.IsLocal(id) || filepath.Base(id) != id {
			return errors.New("its id cannot be the name of a file")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		note, err := json.Marshal(begunTask{URL: r.edge.shownURL(), Tool: tool, Begun: time.Now()})
		if err != nil || len(note) > maxTaskNote {
			return errors.Join(err, os.ErrInvalid)
		}
		if err := os.WriteFile(filepath.Join(dir, id), note, 0o600); err != nil {
			return err
		}
		all, err := begunTasks(dir)
		for _, old := range all[:max(0, len(all)-mostTasks)] {
			if gone := os.Remove(filepath.Join(dir, old.ID)); !errors.Is(gone, os.ErrNotExist) { // another command may forget it, too
				err = errors.Join(err, gone)
			}
		}
		return err
	}()
	if err != nil {
		fmt.Fprintf(r.stderr, "warning: `busbar task ls` will not show this task: %s\n", terminal.SafeLine(err.Error()))
	}
}

// begunTasks are those that are remembered, the newest last.
func begunTasks(dir string) (all []begunTask, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		t := begunTask{ID: e.Name()}
		if readNote(filepath.Join(dir, t.ID), &t) == nil { // other files are left alone
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b begunTask) int { return a.Begun.Compare(b.Begun) })
	return all, nil
}

func readNote(path string, t *begunTask) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTaskNote))
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, t)
}

// RunTaskList is `busbar task ls`: the tasks that were begun here at an edge and that it
// still knows, the newest last.
func RunTaskList(ctx context.Context, o TaskOptions, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	all, err := begunTasks(o.Begun)
	if err != nil {
		fmt.Fprintln(stderr, r.errStyle.Red("error: ")+terminal.SafeLine(err.Error()))
		return ExitUsage
	}
	var raw []string
	var b strings.Builder
	for _, begun := range all {
		if begun.URL != r.edge.shownURL() {
			continue
		}
		t, err := r.task(ctx, begun.ID)
		if refused := (*RPCError)(nil); errors.As(err, &refused) && refused.Reason == fault.UnknownTask {
			continue // expired, or of another token
		}
		if err != nil {
			return r.fail(err, "")
		}
		raw = append(raw, oneLine(t.Raw))
		cells := []string{begun.ID, t.Status, begun.Tool, begun.Begun.Format(time.RFC3339), t.Message}
		for i, c := range cells {
			cells[i] = terminal.SafeLine(c)
		}
		if o.Terminal {
			fmt.Fprintf(&b, "%s  %s%s  %s%s  %s\n", cells[0], cells[1], pad(cells[1], len("input_required")), r.style.Bold(cells[2]), pad(cells[2], maxColumn/2), r.style.Dim(begun.Begun.Local().Format(time.TimeOnly))) // an edge keeps a task for a day at most
			continue
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	r.line.clear()
	switch {
	case o.JSON:
		return r.printRaw(jsontext.Value("["+strings.Join(raw, ",")+"]"), o.Options, ExitOK)
	case len(raw) == 0:
		fmt.Fprintln(stderr, "no tasks that were begun here with `busbar call`")
		return ExitOK
	}
	return r.print(b.String(), ExitOK)
}
