package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
)

// batch makes some writes as one request: over REST, or as a model does.
func (k *worker) batch(ctx context.Context) {
	const size = 8
	var keys, calls []string
	member := []string{"parameters", "arguments"}[k.turn%2]
	for range size {
		key := k.key("batch")
		keys = append(keys, key)
		calls = append(calls, fmt.Sprintf(`{"name":"append","%s":{"key":%q,"ms":10}}`, member, key))
	}
	all := `{"calls":[` + strings.Join(calls, ",") + `]}`
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var slots []jsontext.Value
	whole := caller.Answer{}
	if member == "parameters" {
		resp, body, err := caller.Post(ctx, k.edge().web, "/tools:batch", all)
		var r struct {
			Results []jsontext.Value `json:"results"`
		}
		switch {
		case err != nil:
			whole = caller.Broken(err)
		case resp.StatusCode != http.StatusOK:
			whole = caller.Refused(body)
		case json.Unmarshal(body, &r) == nil:
			slots = r.Results
		}
	} else {
		whole = caller.REST(ctx, k.edge().web, caller.Call{Tool: "batch", Arguments: all})
		var r struct {
			Results []jsontext.Value `json:"results"`
		}
		if whole.OK && json.Unmarshal([]byte(whole.Text), &r) == nil {
			slots = r.Results
		}
	}
	for i, key := range keys {
		a := whole
		if len(slots) == size {
			a = caller.Result(slots[i])
		} else if a.Reason == "" {
			a = caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: fmt.Sprintf("%d slots of %d", len(slots), size)}
		}
		k.ended("batch of "+member, key, began, a)
	}
}

// approve makes a call that a person has to agree to, and agrees: by
// elicitation, or at the other edge.
func (k *worker) approve(ctx context.Context) {
	key := k.key("approved")
	what := k.write("approved", key)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	if k.turn%2 == 0 {
		k.ended("approval by elicitation", key, began, elicited(ctx, k.edge(), k.edge(), what))
		return
	}
	a := caller.REST(ctx, k.edge().web, what)
	if a.Approval != "" {
		resp, body, err := caller.Post(ctx, k.edge().web, "/approvals/"+a.Approval, `{"approve":true}`)
		switch {
		case err != nil:
			a = caller.Broken(err)
		case resp.StatusCode != http.StatusOK:
			a = caller.Refused(body)
		default:
			a = caller.Result(body)
		}
	}
	k.ended("approval held", key, began, a)
}

func elicited(ctx context.Context, first, second *edge, c caller.Call) caller.Answer {
	ask := func(e *edge, more string) (caller.Message, error) {
		return caller.ModernPost(ctx, e.web, mcp.MethodToolsCall, c.Tool, caller.MCP(1, mcp.MethodToolsCall, c.Params()+more, caller.Capable(`{"elicitation":{}}`)))
	}
	m, err := ask(first, "")
	if err != nil {
		return caller.Unsent(err) // nothing runs that nobody has agreed to
	}
	var asked struct {
		Requests map[string]jsontext.Value `json:"inputRequests"`
		State    string                    `json:"requestState"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &asked) != nil || len(asked.Requests) != 1 {
		return m.Answer()
	}
	for id := range asked.Requests {
		m, err = ask(second, fmt.Sprintf(`"requestState":%s,"inputResponses":{%s:{"action":"accept","content":{"approve":true}}},`, caller.Quoted(asked.State), caller.Quoted(id)))
	}
	if err != nil {
		return caller.Broken(err)
	}
	return m.Answer()
}

// runTask begins a task and waits until it is done. It runs again where its
// instance dies, so its effects are not counted.
func (k *worker) runTask(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	ask := func(method, name, params string) (caller.Message, error) {
		return caller.ModernPost(ctx, k.edge().web, method, name, caller.MCP(1, method, params, caller.Capable(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)))
	}
	type task struct {
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	var t task
	m, err := ask(mcp.MethodToolsCall, "job", caller.Call{Tool: "job", Arguments: fmt.Sprintf(`{"key":%q,"ms":300}`, k.key("job"))}.Params())
	if err != nil || m.Error != nil || json.Unmarshal(m.Result, &t) != nil || t.ID == "" {
		a := caller.Broken(err2(err))
		if err == nil && m.Error != nil {
			a = m.Answer()
		}
		k.ended("task", "", began, a)
		return
	}
	for t.Status == "working" && pause(ctx, 200) == nil {
		// An edge that dies answers nothing; the other one knows the task.
		if m, err := ask(mcp.MethodTasksGet, t.ID, fmt.Sprintf(`"taskId":%q,`, t.ID)); err == nil && m.Error == nil {
			_ = json.Unmarshal(m.Result, &t)
		}
	}
	k.ended("task", "", began, caller.Answer{OK: t.Status == "completed", Reason: "task", Executed: "unknown", Detail: "the task is " + t.Status})
}

func err2(err error) error {
	if err == nil {
		err = errors.New("no task in the answer")
	}
	return err
}

// resume makes a call that tells of its progress, loses the connection in the
// middle and comes back to either edge for the rest.
func (k *worker) resume(ctx context.Context) {
	began, key := time.Now(), k.key("steps")
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	const steps = 10
	s, err := caller.OpenSession(ctx, k.edge().web)
	if err != nil {
		k.ended("resumption", "", began, caller.Unsent(err))
		return
	}
	defer func() { s.Close() }()
	r := &resumption{leave: 1 + k.IntN(steps-1)}
	body := caller.MCP(3, mcp.MethodToolsCall, caller.Call{Tool: "steps", Arguments: fmt.Sprintf(`{"key":%q,"ms":600,"steps":%d}`, key, steps)}.Params(), `"progressToken":"p"`)
	for method := http.MethodPost; ; method = http.MethodGet {
		err := r.read(ctx, s, method, body)
		if r.answer != nil {
			break
		}
		if r.last == "" { // cut off before there was anything to come back to
			k.ended("resumption", key, began, caller.Broken(err2(err)))
			return
		}
		if pause(ctx, 200) != nil {
			k.ended("resumption", key, began, caller.Broken(fmt.Errorf("no answer: %w", err2(err))))
			return
		}
		body, s = "", &caller.Session{Edge: k.edge().web, ID: s.ID}
	}
	a := r.answer.Answer()
	for i, p := range r.progress {
		if p != float64(i+1) || a.OK && len(r.progress) != steps {
			k.fault("progress is not told once and in order", "%s: %v", key, r.progress)
			break
		}
	}
	k.ended("resumption", key, began, a)
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
	q, err := http.NewRequestWithContext(ctx, method, "http://"+s.Edge+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	more := []string{"Content-Type", "application/json"}
	if method == http.MethodGet {
		more = []string{"Last-Event-ID", r.last}
	}
	for h := s.Headers(more...); len(h) > 1; h = h[2:] {
		q.Header.Set(h[0], h[1])
	}
	resp, err := caller.Web.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, _ := io.ReadAll(resp.Body)
		m, err := caller.AnswerTo(b)
		if err == nil && (m.Error != nil || m.Result != nil) && method == http.MethodPost {
			r.answer = &m
		}
		return fmt.Errorf("%s %.300s", resp.Status, b)
	}
	lines := bufio.NewReader(resp.Body)
	for {
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
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		if m.Method == "" {
			r.answer = &m
			return nil
		}
		var p struct {
			Progress float64 `json:"progress"`
		}
		if err := json.Unmarshal(m.Params, &p); err == nil && m.Method == "notifications/progress" {
			r.progress = append(r.progress, p.Progress)
		}
		if len(r.progress) == r.leave && method == http.MethodPost {
			return errors.New("left on purpose")
		}
	}
}

// store keeps a resource, reads it and removes it, with keys, which its service
// keeps: these succeed whatever dies.
func (k *worker) store(ctx context.Context) {
	d := doors[k.IntN(len(doors))]
	if d.keyless || d.dear {
		d = doors[0]
	}
	c, err := k.open(ctx, d)
	if err != nil {
		k.ended(d.name+" connect", "", time.Now(), caller.Unsent(err))
		return
	}
	defer func() { c.close() }()
	uri := "soak:" + k.key("resource")
	for _, step := range []caller.Call{
		{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"first"}`, uri), Key: uri + " create"},
		{Tool: "update_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"second"}`, uri), Key: uri + " update"},
		{Tool: "read_resource", Arguments: fmt.Sprintf(`{"uri":%q}`, uri)},
		{Tool: "delete_resource", Arguments: fmt.Sprintf(`{"uri":%q}`, uri), Key: uri + " delete"},
	} {
		var a caller.Answer
		if c, a = k.keyed(ctx, d, c, step, ""); !a.OK {
			if ctx.Err() == nil {
				k.fault("a call that its service keeps the key of does not succeed", "%s of %s through %s: %v", step.Tool, uri, d.name, a)
			}
			return
		}
		if step.Tool == "read_resource" && !strings.Contains(a.Text, `"second"`) {
			k.fault("a resource is not what was written", "%s: %s", uri, a.Text)
		}
	}
}

// subscribe waits to be told of a resource's update by another edge.
func (k *worker) subscribe(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	uri := "soak:" + k.key("told")
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+k.edge().web+"/mcp", strings.NewReader(
		caller.MCP(1, mcp.MethodListen, fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]},`, uri), caller.Capable("{}"))))
	if err != nil {
		return
	}
	for h := []string{"Content-Type", "application/json", "Accept", caller.BothForms, mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, mcp.MethodListen}; len(h) > 0; h = h[2:] {
		q.Header.Set(h[0], h[1])
	}
	resp, err := caller.Web.Do(q)
	if err != nil {
		k.ended("subscription", "", began, caller.Unsent(err))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	other, heard := k.edge(), 0
	lines := bufio.NewScanner(resp.Body)
	for heard < 2 && lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, "notifications/subscriptions/acknowledged"):
			if a := caller.REST(ctx, other.web, caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"news"}`, uri), Key: uri}); !a.OK {
				k.ended("subscription", "", began, a)
				return
			}
			heard++
		case strings.Contains(line, "notifications/resources/updated") && strings.Contains(line, strconv.Quote(uri)):
			heard++
		}
	}
	a := caller.Answer{OK: heard == 2}
	if !a.OK {
		a = caller.Broken(fmt.Errorf("not told of an update within %v: %w", callTime, err2(lines.Err())))
	}
	k.ended("subscription", "", began, a)
	_ = caller.REST(context.WithoutCancel(ctx), other.web, caller.Call{Tool: "delete_resource", Arguments: fmt.Sprintf(`{"uri":%q}`, uri), Key: uri + " delete"})
}
