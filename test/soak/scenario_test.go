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
	whole := answer{}
	if member == "parameters" {
		resp, body, err := post(ctx, k.edge(), "/tools:batch", all)
		var r struct {
			Results []jsontext.Value `json:"results"`
		}
		switch {
		case err != nil:
			whole = broken(err)
		case resp.StatusCode != http.StatusOK:
			whole = refused(body)
		case json.Unmarshal(body, &r) == nil:
			slots = r.Results
		}
	} else {
		whole = restCall(ctx, k.edge(), call{tool: "batch", arguments: all})
		var r struct {
			Results []jsontext.Value `json:"results"`
		}
		if whole.ok && json.Unmarshal([]byte(whole.text), &r) == nil {
			slots = r.Results
		}
	}
	for i, key := range keys {
		a := whole
		if len(slots) == size {
			a = result(slots[i])
		} else if a.reason == "" {
			a = answer{reason: "unreadable", executed: "unknown", detail: fmt.Sprintf("%d slots of %d", len(slots), size)}
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
	a := restCall(ctx, k.edge(), what)
	if a.approval != "" {
		resp, body, err := post(ctx, k.edge(), "/approvals/"+a.approval, `{"approve":true}`)
		switch {
		case err != nil:
			a = broken(err)
		case resp.StatusCode != http.StatusOK:
			a = refused(body)
		default:
			a = result(body)
		}
	}
	k.ended("approval held", key, began, a)
}

func elicited(ctx context.Context, first, second *edge, c call) answer {
	ask := func(e *edge, more string) (message, error) {
		return modernPost(ctx, e, mcp.MethodToolsCall, c.tool, mcpRequest(1, mcp.MethodToolsCall, toolParams(c)+more, capable(`{"elicitation":{}}`)))
	}
	m, err := ask(first, "")
	if err != nil {
		return unsent(err) // nothing runs that nobody has agreed to
	}
	var asked struct {
		Requests map[string]jsontext.Value `json:"inputRequests"`
		State    string                    `json:"requestState"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &asked) != nil || len(asked.Requests) != 1 {
		return m.answer()
	}
	for id := range asked.Requests {
		m, err = ask(second, fmt.Sprintf(`"requestState":%s,"inputResponses":{%s:{"action":"accept","content":{"approve":true}}},`, quoted(asked.State), quoted(id)))
	}
	if err != nil {
		return broken(err)
	}
	return m.answer()
}

// runTask begins a task and waits until it is done. It runs again where its
// instance dies, so its effects are not counted.
func (k *worker) runTask(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	ask := func(method, name, params string) (message, error) {
		return modernPost(ctx, k.edge(), method, name, mcpRequest(1, method, params, capable(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)))
	}
	type task struct {
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	var t task
	m, err := ask(mcp.MethodToolsCall, "job", toolParams(call{"job", fmt.Sprintf(`{"key":%q,"ms":300}`, k.key("job")), ""}))
	if err != nil || m.Error != nil || json.Unmarshal(m.Result, &t) != nil || t.ID == "" {
		a := broken(err2(err))
		if err == nil && m.Error != nil {
			a = m.answer()
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
	k.ended("task", "", began, answer{ok: t.Status == "completed", reason: "task", executed: "unknown", detail: "the task is " + t.Status})
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
	s, err := openSession(ctx, k.edge())
	if err != nil {
		k.ended("resumption", "", began, unsent(err))
		return
	}
	defer func() { s.close() }()
	r := &resumption{leave: 1 + k.IntN(steps-1)}
	body := mcpRequest(3, mcp.MethodToolsCall, toolParams(call{"steps", fmt.Sprintf(`{"key":%q,"ms":600,"steps":%d}`, key, steps), ""}), `"progressToken":"p"`)
	for method := http.MethodPost; ; method = http.MethodGet {
		err := r.read(ctx, s, method, body)
		if r.answer != nil {
			break
		}
		if r.last == "" { // cut off before there was anything to come back to
			k.ended("resumption", key, began, broken(err2(err)))
			return
		}
		if pause(ctx, 200) != nil {
			k.ended("resumption", key, began, broken(fmt.Errorf("no answer: %w", err2(err))))
			return
		}
		body, s = "", &legacySession{k.edge(), s.id}
	}
	a := r.answer.answer()
	for i, p := range r.progress {
		if p != float64(i+1) || a.ok && len(r.progress) != steps {
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
	answer   *message
}

func (r *resumption) read(ctx context.Context, s *legacySession, method, body string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+s.e.web+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	more := []string{"Content-Type", "application/json"}
	if method == http.MethodGet {
		more = []string{"Last-Event-ID", r.last}
	}
	for h := s.headers(more...); len(h) > 1; h = h[2:] {
		q.Header.Set(h[0], h[1])
	}
	resp, err := web.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, _ := io.ReadAll(resp.Body)
		m, err := answerTo(b)
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
		var m message
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
		k.ended(d.name+" connect", "", time.Now(), unsent(err))
		return
	}
	defer func() { c.close() }()
	uri := "soak:" + k.key("resource")
	for _, step := range []call{
		{"create_resource", fmt.Sprintf(`{"uri":%q,"text":"first"}`, uri), uri + " create"},
		{"update_resource", fmt.Sprintf(`{"uri":%q,"text":"second"}`, uri), uri + " update"},
		{"read_resource", fmt.Sprintf(`{"uri":%q}`, uri), ""},
		{"delete_resource", fmt.Sprintf(`{"uri":%q}`, uri), uri + " delete"},
	} {
		var a answer
		if c, a = k.keyed(ctx, d, c, step, ""); !a.ok {
			if ctx.Err() == nil {
				k.fault("a call that its service keeps the key of does not succeed", "%s of %s through %s: %v", step.tool, uri, d.name, a)
			}
			return
		}
		if step.tool == "read_resource" && !strings.Contains(a.text, `"second"`) {
			k.fault("a resource is not what was written", "%s: %s", uri, a.text)
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
		mcpRequest(1, mcp.MethodListen, fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]},`, uri), capable("{}"))))
	if err != nil {
		return
	}
	for h := []string{"Content-Type", "application/json", "Accept", bothForms, mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, mcp.MethodListen}; len(h) > 0; h = h[2:] {
		q.Header.Set(h[0], h[1])
	}
	resp, err := web.Do(q)
	if err != nil {
		k.ended("subscription", "", began, unsent(err))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	other, heard := k.edge(), 0
	lines := bufio.NewScanner(resp.Body)
	for heard < 2 && lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, "notifications/subscriptions/acknowledged"):
			if a := restCall(ctx, other, call{"create_resource", fmt.Sprintf(`{"uri":%q,"text":"news"}`, uri), uri}); !a.ok {
				k.ended("subscription", "", began, a)
				return
			}
			heard++
		case strings.Contains(line, "notifications/resources/updated") && strings.Contains(line, strconv.Quote(uri)):
			heard++
		}
	}
	a := answer{ok: heard == 2}
	if !a.ok {
		a = broken(fmt.Errorf("not told of an update within %v: %w", callTime, err2(lines.Err())))
	}
	k.ended("subscription", "", began, a)
	_ = restCall(context.WithoutCancel(ctx), other, call{"delete_resource", fmt.Sprintf(`{"uri":%q}`, uri), uri + " delete"})
}
