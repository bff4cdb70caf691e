package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
)

// task begins a task and looks at it, at every edge in turn, until it has ended: one
// that was begun is never forgotten.
func (w *worker) task(ctx context.Context, kind history.Kind) {
	key := w.key()
	var t struct {
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	tries := w.repeat(ctx, unlessRan, func(ctx context.Context, edge string) caller.Answer {
		m, err := jobTool(ctx, edge, key)
		switch {
		case err != nil:
			return caller.Broken(err)
		case m.Error != nil:
			return m.Answer()
		case json.Unmarshal(m.Result, &t) != nil || t.ID == "":
			return caller.Broken(errors.New("no task in the answer"))
		}
		return caller.Answer{OK: true, Text: t.ID}
	})
	if t.ID == "" {
		w.done(kind, "modern", key, "", tries...)
		return
	}
	began := time.Now()
	asked := "nothing was answered"
	for (t.Status == "working" || t.Status == "") && time.Since(began) < w.RetryFor+callTime {
		_ = pause(ctx, 100*time.Millisecond)
		asking, cancel := context.WithTimeout(ctx, callTime)
		m, err := modern(asking, w.edge(), mcp.MethodTasksGet, t.ID, fmt.Sprintf(`"taskId":%q,`, t.ID), tasks)
		cancel()
		switch {
		case err != nil:
			asked = err.Error()
		case m.Error != nil:
			asked = m.Answer().String()
			if m.Answer().Reason == "unknown_task" {
				t.Status = "unknown"
			}
		default:
			_ = json.Unmarshal(m.Result, &t)
			asked = t.Status
		}
	}
	broken := ""
	if t.Status != "completed" {
		broken = fmt.Sprintf("the task %s is %q: %s", t.ID, t.Status, asked)
	}
	w.done(kind, "modern", key, broken, tries...)
}

// subscribe listens to a resource at one edge and changes it at another. While the
// stream is whole, its client has to hear of the change.
func (w *worker) subscribe(ctx context.Context, kind history.Kind) {
	uri := "told:" + w.key()
	var s *stream
	opened := w.repeat(ctx, always, func(ctx context.Context, edge string) (a caller.Answer) {
		var err error
		if s, err = listen(ctx, edge, uri); err != nil {
			return caller.Unsent(err)
		}
		return caller.Answer{OK: true}
	})
	if s == nil {
		w.done(kind, "modern", uri, "", opened...)
		return
	}
	defer s.close()
	create := caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"news"}`, uri), Key: uri}
	tries := w.repeat(ctx, always, func(ctx context.Context, edge string) caller.Answer { return caller.Modern(ctx, edge, create) })
	broken := ""
	if tries[len(tries)-1].OK {
		waiting := time.After(w.HeardFor)
		for heard := false; !heard; {
			select {
			case line, whole := <-s.lines:
				heard = !whole || strings.Contains(line, "notifications/resources/updated") && strings.Contains(line, strconv.Quote(uri))
			case <-waiting:
				heard, broken = true, fmt.Sprintf("not told of a change within %v, over a stream that was whole", w.HeardFor)
			}
		}
	}
	w.done(kind, "modern", uri, broken, tries...)
}

// stream is one of subscriptions/listen, of which the edge has said that it hears.
type stream struct {
	lines chan string // closed at its end
	end   context.CancelFunc
	all   sync.WaitGroup
}

func (s *stream) close() { s.end(); s.all.Wait() }

// listen opens a stream; it outlives the context, which bounds the opening.
func listen(opening context.Context, edge, uri string) (*stream, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(opening))
	defer context.AfterFunc(opening, cancel)()
	s := &stream{lines: make(chan string), end: cancel}
	r, err := caller.New(ctx, http.MethodPost, edge, "/mcp", caller.MCP(1, mcp.MethodListen, fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]},`, uri), caller.Capable("{}")), caller.ModernHeaders(mcp.MethodListen, "")...)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := caller.Web.Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	s.all.Go(func() {
		defer close(s.lines)
		defer func() { _ = resp.Body.Close() }()
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			select {
			case s.lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	})
	for line := range s.lines {
		if strings.Contains(line, "notifications/subscriptions/acknowledged") {
			return s, nil
		}
	}
	s.close()
	return nil, fmt.Errorf("the stream ended before it was acknowledged: %s", resp.Status)
}
