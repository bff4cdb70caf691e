// Package tail shows what calls log, while they log it.
package tail

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// Options of a run.
type Options struct {
	// Services to follow; none for all.
	Services []string
	Filter   logs.Filter
	// JSON prints a line of JSON for each record, as it came.
	JSON bool
	// Terminal has lines laid out for people; otherwise a line has its fields between tabs.
	Terminal bool
	Style    terminal.Style
}

// Run prints records to out, and what else there is to know of them to says, until ctx
// ends.
func Run(ctx context.Context, conn *bus.Conn, o Options, out, says io.Writer) error {
	return logs.Follow(ctx, conn, o.Services, o.Filter, logs.Reader{
		Record: func(r logs.Record) error { return o.show(out, r) },
		Missed: func(service, instance string, n uint64) error {
			if n == 0 {
				_, err := fmt.Fprintf(says, "records of %s (instance %s) may be missing: for a while it did not hear that somebody follows\n", service, instance)
				return err
			}
			_, err := fmt.Fprintf(says, "%d records of %s (instance %s) are missing: more were logged than fits; narrow it by --service, --tool, --tenant, --call or --level\n", n, service, instance)
			return err
		},
		Here: func(instances, services, refused int) error {
			if instances+refused == 0 {
				_, err := fmt.Fprintln(says, "no instance answers: \"busbar services\" lists what is on the bus; services of a release before this one cannot be followed")
				return err
			}
			_, err := fmt.Fprintf(says, "following %d instances of %d services\n", instances, services)
			if refused > 0 && err == nil {
				_, err = fmt.Fprintf(says, "%d instances have as many followers as they take: what they log is not shown until one of the others ends\n", refused)
			}
			return err
		},
	})
}

func (o Options) show(out io.Writer, r logs.Record) error {
	if o.JSON {
		line, err := json.Marshal(r, json.Deterministic(true), jsontext.EscapeForHTML(false))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, terminal.SafeJSON(string(line)))
		return err
	}
	who := r.Principal
	if r.Tenant != "" {
		who += "@" + r.Tenant
	}
	said, stack := text(r, o.Terminal)
	fields := []string{r.Time.Format(time.RFC3339Nano), r.Level, r.Service, r.Name, r.Call, who, said}
	for i := range fields {
		fields[i] = terminal.SafeLine(fields[i])
	}
	if !o.Terminal {
		_, err := fmt.Fprintln(out, strings.Join(fields, "\t"))
		return err
	}
	level := fmt.Sprintf("%-9s", r.Level)
	switch r.Level {
	case "debug", "info", "notice":
	case "warning":
		level = o.Style.Yellow(level)
	default:
		level = o.Style.Red(level)
	}
	_, err := fmt.Fprintln(out, o.Style.Dim(r.Time.Local().Format("15:04:05.000")), level, o.Style.Bold(fields[3]), //nolint:gosmopolitan // for who sits there
		o.Style.Dim(fields[2]+" "+terminal.SafeLine(shortID(r.Call))+" "+fields[5]), fields[6])
	for _, line := range stack {
		if err == nil {
			_, err = fmt.Fprintln(out, "    "+o.Style.Dim(terminal.SafeLine(line)))
		}
	}
	return err
}

// shortID is as much of an id as --call takes, and audit show does.
func shortID(id string) string { return id[:min(len(id), 8)] }

// text is what a record says: a text as it is, a record of the service's log with its
// message first, anything else as JSON. apart has the lines of a stack returned by
// themselves.
func text(r logs.Record, apart bool) (said string, stack []string) {
	said = string(r.Data)
	var s string
	var of map[string]jsontext.Value
	switch {
	case len(r.Data) == 0:
		said = "(no readable data)"
	case json.Unmarshal(r.Data, &s) == nil:
		said = s
	case !r.Client && json.Unmarshal(r.Data, &of) == nil && json.Unmarshal(of["msg"], &s) == nil:
		delete(of, "msg")
		if apart && json.Unmarshal(of["stack"], &stack) == nil {
			delete(of, "stack")
		}
		said = s
		for _, key := range slices.Sorted(maps.Keys(of)) {
			said += " " + key + "=" + string(of[key])
		}
	}
	if r.Logger != "" {
		said = r.Logger + ": " + said
	}
	if r.Cut {
		said += " … (cut)"
	}
	return said, stack
}
