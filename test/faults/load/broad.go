package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
)

// batch makes some writes in one request: over REST, or as a model does.
func (w *worker) batch(ctx context.Context, kind history.Kind) {
	const size = 8
	door, member := "/tools:batch", "parameters"
	if w.IntN(2) == 0 {
		door, member = "batch", "arguments"
	}
	var keys, calls []string
	for range size {
		keys = append(keys, w.key())
		calls = append(calls, fmt.Sprintf(`{"name":"append","%s":{"key":%q,"ms":10}}`, member, keys[len(keys)-1]))
	}
	all := `{"calls":[` + strings.Join(calls, ",") + `]}`
	var r struct {
		Results []jsontext.Value `json:"results"`
	}
	whole := w.repeat(ctx, never, func(ctx context.Context, edge string) caller.Answer {
		if member == "parameters" {
			resp, body, err := caller.Post(ctx, edge, "/tools:batch", all)
			switch {
			case err != nil:
				return caller.Broken(err)
			case resp.StatusCode != http.StatusOK || json.Unmarshal(body, &r) != nil:
				return caller.Refused(body)
			}
			return caller.Answer{OK: true}
		}
		a := caller.REST(ctx, edge, caller.Call{Tool: "batch", Arguments: all})
		if a.OK {
			_ = json.Unmarshal([]byte(a.Text), &r)
		}
		return a
	})[0]
	for i, key := range keys {
		t := whole
		switch {
		case len(r.Results) == size:
			t.Answer = caller.Result(r.Results[i])
		case t.OK:
			t.Answer = caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: fmt.Sprintf("%d results of %d", len(r.Results), size)}
		}
		w.done(kind, door, key, "", t)
	}
}

// elicit makes a call that asks its user, who agrees at another edge.
func (w *worker) elicit(ctx context.Context, kind history.Kind) {
	key := w.key()
	what := caller.Call{Tool: "approved", Arguments: w.arguments(key)}
	const capable = `{"elicitation":{}}`
	var asked struct {
		Requests map[string]jsontext.Value `json:"inputRequests"`
		State    string                    `json:"requestState"`
	}
	first := w.repeat(ctx, never, func(ctx context.Context, edge string) caller.Answer {
		m, err := modern(ctx, edge, mcp.MethodToolsCall, what.Tool, what.Params(), capable)
		switch {
		case err != nil:
			return caller.Unsent(err) // nothing runs that nobody has agreed to
		case m.Error == nil && json.Unmarshal(m.Result, &asked) == nil && len(asked.Requests) == 1:
			return caller.Answer{Executed: "no", Reason: "asked", Approval: "asked"}
		}
		return m.Answer()
	})
	if len(asked.Requests) == 0 {
		broken := ""
		if first[0].OK {
			broken = "it ran, and its user was not asked"
		}
		w.done(kind, "modern", key, broken, first...)
		return
	}
	w.done(kind, "modern", key, "", append(first, w.repeat(ctx, never, func(ctx context.Context, edge string) caller.Answer {
		for id := range asked.Requests {
			m, err := modern(ctx, edge, mcp.MethodToolsCall, what.Tool, what.Params()+fmt.Sprintf(`"requestState":%s,"inputResponses":{%s:{"action":"accept","content":{"approve":true}}},`, caller.Quoted(asked.State), caller.Quoted(id)), capable)
			if err != nil {
				return caller.Broken(err)
			}
			return m.Answer()
		}
		return caller.Answer{}
	})...)...)
}

// change creates a resource, changes it, reads it and deletes it. The service keeps the keys, so each
// step succeeds in the end.
func (w *worker) change(ctx context.Context, kind history.Kind) {
	d, uri := w.door(), "changed:"+w.key()
	if d.keyless || d.costly {
		d = doors[0]
	}
	defer w.hangUp()
	var all []history.Try
	broken := ""
	for _, step := range []caller.Call{
		{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"first"}`, uri), Key: uri + " create"},
		{Tool: "update_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"second"}`, uri), Key: uri + " update"},
		{Tool: "read_resource", Arguments: fmt.Sprintf(`{"uri":%q}`, uri)},
		{Tool: "delete_resource", Arguments: fmt.Sprintf(`{"uri":%q}`, uri), Key: uri + " delete"},
	} {
		tries := w.repeat(ctx, always, func(ctx context.Context, edge string) caller.Answer { return w.through(ctx, d, edge, step) })
		all = append(all, tries...)
		last := tries[len(tries)-1]
		if !last.OK {
			broken = fmt.Sprintf("%s does not succeed: %v", step.Tool, last.Answer)
			break
		}
		if step.Tool == "read_resource" && !strings.Contains(last.Text, `"second"`) {
			broken = "it is not what was written: " + last.Text
		}
	}
	w.done(kind, d.name, uri, broken, all...)
}

// resume makes a call that tells of its progress, loses the connection in the middle and comes back to
// either edge for the rest.
func (w *worker) resume(ctx context.Context, kind history.Kind) {
	const steps = 10
	key, edge := w.key(), w.edge()
	r := &resumption{leave: 1 + w.IntN(steps-1)}
	t := try(ctx, edge, 2*callTime, func(ctx context.Context) caller.Answer {
		s, err := caller.OpenSession(ctx, edge)
		if err != nil {
			return caller.Unsent(err)
		}
		defer func() { s.Close() }()
		body := caller.MCP(3, mcp.MethodToolsCall, caller.Call{Tool: "steps", Arguments: fmt.Sprintf(`{"key":%q,"ms":600,"steps":%d}`, key, steps)}.Params(), `"progressToken":"p"`)
		for method := http.MethodPost; ; method = http.MethodGet {
			err := r.read(ctx, s, method, body)
			if r.answer != nil {
				return r.answer.Answer()
			}
			// Without an event there is nothing to come back to.
			if r.last == "" || pause(ctx, 200*time.Millisecond) != nil {
				return caller.Broken(fmt.Errorf("no answer: %w", err))
			}
			body, s = "", &caller.Session{Edge: w.edge(), ID: s.ID}
		}
	})
	broken := ""
	for i, p := range r.progress {
		if p != float64(i+1) || t.OK && len(r.progress) != steps {
			broken = fmt.Sprintf("progress is not told once and in order: %v", r.progress)
		}
	}
	w.done(kind, "legacy", key, broken, t)
}

// resumption is the answer of a legacy client that comes back.
type resumption struct {
	leave    int // the connection is lost after so much progress, once
	last     string
	progress []float64
	answer   *caller.Message
}

func (r *resumption) read(ctx context.Context, s *caller.Session, method, body string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	headers := s.Headers()
	if method == http.MethodGet {
		headers = s.Headers("Last-Event-ID", r.last)
	}
	q, err := caller.New(ctx, method, s.Edge, "/mcp", body, headers...)
	if err != nil {
		return err
	}
	resp, err := caller.Web.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, _ := io.ReadAll(resp.Body)
		if m, err := caller.AnswerTo(b); err == nil && (m.Error != nil || m.Result != nil) && method == http.MethodPost {
			r.answer = &m
		}
		return fmt.Errorf("%s %.300s", resp.Status, b)
	}
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			r.last = string(bytes.TrimSpace(id))
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		var m caller.Message
		var p struct {
			Progress float64 `json:"progress"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		if m.Method == "" {
			r.answer = &m
			return nil
		}
		if json.Unmarshal(m.Params, &p) == nil && m.Method == "notifications/progress" {
			r.progress = append(r.progress, p.Progress)
		}
		if len(r.progress) == r.leave && method == http.MethodPost {
			return errors.New("left on purpose")
		}
	}
}
