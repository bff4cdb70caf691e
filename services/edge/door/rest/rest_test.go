package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

type result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured any  `json:"structured_content"`
	IsError    bool `json:"is_error"`
}

func TestTools(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("all, page by page", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for cursor := ""; ; {
			var page struct {
				Tools []map[string]any `json:"tools"`
				Next  string           `json:"next_cursor"`
			}
			w.do(t, "GET", "/tools?limit=3&cursor="+cursor, "", nil).read(t, &page)
			for _, tool := range page.Tools {
				name := tool["name"].(string)
				if seen[name] || tool["input_schema"] == nil || tool["inputSchema"] != nil {
					t.Errorf("%s: %v", name, tool)
				}
				seen[name] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
			if len(page.Tools) != 3 {
				t.Errorf("%d tools on a page", len(page.Tools))
			}
		}
		if !seen["echo"] || !seen["strict"] || len(seen) < 15 {
			t.Errorf("%v", seen)
		}
	})
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		var tool struct {
			Name     string         `json:"name"`
			Schema   map[string]any `json:"input_schema"`
			Approval bool           `json:"requires_user_approval"`
		}
		r := w.do(t, "GET", "/tools/approved", "", nil)
		r.read(t, &tool)
		if tool.Name != "approved" || tool.Schema["type"] != "object" || !tool.Approval {
			t.Errorf("%+v", tool)
		}
		again := w.do(t, "GET", "/tools/approved", "", header{"If-None-Match": r.Header.Get("ETag")})
		if again.StatusCode != http.StatusNotModified || again.body != "" {
			t.Errorf("%d %s", again.StatusCode, again.body)
		}
	})
	t.Run("called", func(t *testing.T) {
		t.Parallel()
		for body, want := range map[string]string{`{"a":9007199254740993}`: `{"a":9007199254740993}`, "": "{}"} {
			var r result
			w.do(t, "POST", "/tools/echo", body, nil).read(t, &r)
			if len(r.Content) != 1 || r.Content[0].Text != want || r.IsError {
				t.Errorf("%+v", r)
			}
		}
		var structured result
		if w.do(t, "POST", "/tools/number", `{"n":1.5}`, nil).read(t, &structured); structured.Structured != 1.5 {
			t.Errorf("%+v", structured)
		}
	})
	t.Run("its own failure is a result", func(t *testing.T) {
		t.Parallel()
		var r result
		if w.do(t, "POST", "/tools/fails", "{}", nil).read(t, &r); !r.IsError || r.Content[0].Text != "no such city" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("given up by its client", func(t *testing.T) {
		t.Parallel()
		for _, accept := range []string{"application/json", "text/event-stream"} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				resp, err := w.client.Do(w.request(t, "POST", "/tools/hold", "{}", header{"Accept": accept}).WithContext(ctx))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			edgetest.Receive(t, "the tool runs", w.Svc.Started)
			cancel()
			edgetest.Receive(t, "the tool hears of it", w.Svc.Ended)
			<-ended
		}
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	w := start(t)
	resp, err := w.client.Do(w.request(t, "POST", "/tools/progress", "{}", header{"Accept": "text/event-stream"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	next := events(resp.Body)
	for _, want := range []string{
		`progress {"progress":1,"total":2,"message":"one\nline"}`, `progress {"progress":1,"total":2,"message":"not more than before"}`,
		`progress {"progress":2,"total":2}`, `log {"level":"error","logger":"te\nst","data":{"text":"two\nlines"}}`,
		`result {"content":[{"type":"text","text":"done"}],"is_error":false}`,
	} {
		if got := edgetest.Receive(t, want, next); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if _, more := <-next; more {
		t.Error("something after the result")
	}
	failed, err := w.client.Do(w.request(t, "POST", "/tools/unknown", "{}", header{"Accept": "text/event-stream"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = failed.Body.Close() }()
	if got := edgetest.Receive(t, "an error", events(failed.Body)); !strings.HasPrefix(got, `error {`) || !strings.Contains(got, `"reason":"unknown_tool"`) {
		t.Error(got)
	}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	w := start(t)
	if r := w.do(t, "GET", "/prompts", "", nil); !strings.Contains(r.body, `"name":"greet"`) {
		t.Error(r.body)
	}
	if r := w.do(t, "GET", "/prompts/greet", "", nil); !strings.Contains(r.body, `"arguments":[`) {
		t.Error(r.body)
	}
	if r := w.do(t, "POST", "/prompts/greet", `{"who":"Ada"}`, nil); !strings.Contains(r.body, `"Hello Ada"`) || r.StatusCode != 200 {
		t.Error(r.body)
	}
	w.do(t, "POST", "/prompts/greet", `{}`, nil).refused(t, 400, "invalid_params", "no")
	w.do(t, "GET", "/prompts/nope", "", nil).refused(t, 404, "unknown_prompt", "no")
	w.do(t, "POST", "/prompts/nope", "{}", nil).refused(t, 404, "unknown_prompt", "no")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		method, path, body string
		header             header
		status             int
		reason             string
	}{
		"an unknown tool":            {"POST", "/tools/nope", "{}", nil, 404, "unknown_tool"},
		"arguments of another type":  {"POST", "/tools/strict", `{"text":1}`, nil, 400, "invalid_params"},
		"no JSON":                    {"POST", "/tools/echo", `{"a":`, nil, 400, "parse_error"},
		"a member twice":             {"POST", "/tools/echo", `{"a":1,"a":2}`, nil, 400, "parse_error"},
		"bad UTF-8":                  {"POST", "/tools/echo", "{\"a\":\"\xff\"}", nil, 400, "parse_error"},
		"too deep":                   {"POST", "/tools/echo", `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", nil, 400, "invalid_request"},
		"not an object":              {"POST", "/tools/echo", `[1]`, nil, 400, "invalid_params"},
		"too large":                  {"POST", "/tools/echo", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "too_large"},
		"another type":               {"POST", "/tools/echo", `{}`, header{"Content-Type": "text/plain"}, 415, "invalid_request"},
		"a form":                     {"POST", "/tools/echo", `a=1`, header{"Content-Type": "application/x-www-form-urlencoded"}, 415, "invalid_request"},
		"an evil origin":             {"POST", "/tools/echo", `{}`, header{"Origin": "https://evil.example"}, 403, "forbidden"},
		"a rebound host":             {"GET", "/tools", "", header{"Host": "evil.example"}, 403, "forbidden"},
		"a token in the URL":         {"GET", "/tools?access_token=x", "", nil, 400, "invalid_request"},
		"no such path":               {"GET", "/prompts/", "", nil, 404, "method_not_found"},
		"up and away":                {"GET", "/tools/..%2f..%2fetc", "", nil, 404, "unknown_tool"},
		"a zero byte":                {"GET", "/tools/a%00b", "", nil, 404, "method_not_found"},
		"a bad limit":                {"GET", "/tools?limit=0", "", nil, 400, "invalid_params"},
		"a forged cursor":            {"GET", "/tools?cursor=x", "", nil, 400, "invalid_params"},
		"a long idempotency key":     {"POST", "/tools/echo", "{}", header{"Idempotency-Key": strings.Repeat("x", 300)}, 400, "invalid_request"},
		"a tool that asks for input": {"POST", "/tools/ask", "{}", nil, 202, "input_required"},
		"one that needs approval":    {"POST", "/tools/approved", "{}", nil, 202, "approval_required"},
		"no such approval":           {"POST", "/approvals/AAAAAAAAAAAAAAAAAAAAAAAAAA", `{"approve":true}`, nil, 404, "unknown_approval"},
		"a full service":             {"POST", "/tools/busy", "{}", nil, 200, ""}, // the second try has room
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.do(t, c.method, c.path, c.body, c.header)
			if c.reason == "" {
				if r.StatusCode != c.status {
					t.Errorf("%d %s", r.StatusCode, r.body)
				}
				return
			}
			next := r.refused(t, c.status, c.reason, "no").Next
			for part, want := range map[string]string{"limit=": "without limit there are 250", "cursor=": "GET /tools without cursor begins the list"} {
				if strings.Contains(c.path, part) && !strings.Contains(next, want) {
					t.Errorf("the way on: %s", next)
				}
			}
		})
	}
	t.Run("a method that is not served", func(t *testing.T) {
		t.Parallel()
		r := w.do(t, "DELETE", "/tools/echo", "", header{"X-HTTP-Method-Override": "POST"})
		if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, POST" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
	})
	t.Run("a defect and a lost service", func(t *testing.T) {
		t.Parallel()
		if p := w.do(t, "POST", "/tools/panics", "{}", nil).refused(t, 500, "internal", "unknown"); strings.Contains(p.Detail, "secret") {
			t.Error(p.Detail)
		}
		w.do(t, "POST", "/tools/lost-effect", "{}", nil).refused(t, 504, "peer_lost", "unknown")
	})
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("slots in the order of the calls", func(t *testing.T) {
		t.Parallel()
		var out struct {
			Results []struct {
				result
				Error    string `json:"error"`
				Reason   string `json:"reason"`
				Executed string `json:"executed"`
				Next     string `json:"next"`
				Failed   bool   `json:"is_error"`
			} `json:"results"`
		}
		w.do(t, "POST", "/tools:batch", `{"parallel":2,"calls":[{"name":"echo","parameters":{"i":0}},{"name":"nope"},{"name":"echo","args":{"i":2}},
			{"name":"fails"},{"nam":"x"},7,{"name":"echo","arguments":{"i":6}},{"name":"echo","args":{},"parameters":{"i":7}}]}`, nil).read(t, &out)
		if len(out.Results) != 8 {
			t.Fatalf("%+v", out)
		}
		for _, i := range []int{0, 2, 6} {
			if r := out.Results[i]; r.Failed || r.Content[0].Text != fmt.Sprintf(`{"i":%d}`, i) {
				t.Errorf("%d: %+v", i, r)
			}
		}
		for i, reason := range map[int]string{1: "unknown_tool", 4: "invalid_request", 5: "invalid_request", 7: "invalid_request"} {
			if r := out.Results[i]; !r.Failed || r.Reason != reason || r.Executed != "no" || r.Error == "" || !strings.HasPrefix(r.Next, "GET /") {
				t.Errorf("%d: %+v", i, r)
			}
		}
		if r := out.Results[3]; !r.Failed || r.Error != "" || r.Content[0].Text != "no such city" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("lines in and out", func(t *testing.T) {
		t.Parallel()
		const n = 3000
		var in strings.Builder
		for i := range n {
			fmt.Fprintf(&in, "{\"name\":\"echo\",\"parameters\":{\"i\":%d}}\n\n", i)
		}
		in.WriteString("{broken\n{\"name\":\"safe\"}")
		r := w.do(t, "POST", "/tools:batch", in.String(), header{"Content-Type": "application/x-ndjson"})
		lines := strings.Split(strings.TrimSpace(r.body), "\n")
		if len(lines) != n+2 {
			t.Fatalf("%d lines, the last %s", len(lines), lines[len(lines)-1])
		}
		seen := make([]bool, n+2)
		for _, line := range lines {
			var slot struct {
				result
				Index  int    `json:"index"`
				Reason string `json:"reason"`
			}
			reply{body: line}.read(t, &slot)
			seen[slot.Index] = true
			switch {
			case slot.Index < n && slot.Content[0].Text != fmt.Sprintf(`{"i":%d}`, slot.Index), slot.Index == n && slot.Reason != "parse_error",
				slot.Index == n+1 && slot.Content[0].Text != "safe":
				t.Errorf("%s", line)
			}
		}
		for i, s := range seen {
			if !s {
				t.Errorf("%d has no slot", i)
			}
		}
	})
	t.Run("a client that is gone", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		before := len(w.Svc.Ended)
		go func() {
			defer close(ended)
			r := w.request(t, "POST", "/tools:batch", `{"parallel":2,"calls":[{"name":"hold"},{"name":"hold"},{"name":"hold"}]}`, nil)
			if resp, err := w.client.Do(r.WithContext(ctx)); err == nil {
				_ = resp.Body.Close()
			}
		}()
		edgetest.Receive(t, "one runs", w.Svc.Started)
		edgetest.Receive(t, "another runs", w.Svc.Started)
		cancel()
		<-ended
		bustest.Eventually(t, "both hear of it", func() bool { return len(w.Svc.Ended) == before+2 })
		if len(w.Svc.Started) != 0 {
			t.Error("the third began")
		}
	})
	t.Run("malformed", func(t *testing.T) {
		t.Parallel()
		for _, body := range []string{`{}x`, `{"calls":1}`, `{"call":[]}`, `[]`} {
			if r := w.do(t, "POST", "/tools:batch", body, nil); r.StatusCode != 400 {
				t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
			}
		}
		w.do(t, "POST", "/tools:batch", `{"calls":[]}`, header{"Idempotency-Key": "x"}).refused(t, 400, "invalid_request", "no")
	})
}

func TestApproval(t *testing.T) {
	t.Parallel()
	w := start(t)
	held := func(t *testing.T) string {
		r := w.do(t, "POST", "/tools/approved", "{}", nil)
		r.refused(t, http.StatusAccepted, "approval_required", "no")
		var p struct {
			Data struct {
				Approval string `json:"approval"`
			} `json:"data"`
		}
		r.read(t, &p)
		if want := "/approvals/" + p.Data.Approval; r.Header.Get("Location") != want {
			t.Errorf("Location %q, want %q", r.Header.Get("Location"), want)
		}
		return "/approvals/" + p.Data.Approval
	}
	t.Run("agreed to, once", func(t *testing.T) {
		t.Parallel()
		path := held(t)
		var done result
		if w.do(t, "POST", path, `{"approve":true}`, nil).read(t, &done); done.Content[0].Text != "done" {
			t.Errorf("%+v", done)
		}
		w.do(t, "POST", path, `{"approve":true}`, nil).refused(t, 404, "unknown_approval", "unknown")
	})
	t.Run("shown before", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		made := w.do(t, "POST", "/tools/approved", `{"a":9007199254740993}`, nil)
		path := made.Header.Get("Location")
		var list struct {
			Approvals []api.Held `json:"approvals"`
		}
		w.do(t, "GET", "/approvals", "", nil).read(t, &list)
		if len(list.Approvals) != 1 || "/approvals/"+list.Approvals[0].Approval != path || list.Approvals[0].Parameters != nil {
			t.Errorf("%+v", list)
		}
		var one api.Held
		w.do(t, "GET", path, "", nil).read(t, &one)
		if one.Name != "approved" || string(one.Parameters) != `{"a":9007199254740993}` || time.Until(one.Expires) <= 0 || one.Expires.Nanosecond() != 0 {
			t.Errorf("%+v", one)
		}
		w.do(t, "POST", path, `{"approve":true}`, nil)
		w.do(t, "GET", path, "", nil).refused(t, 404, "unknown_approval", "unknown")
		if r := w.do(t, "GET", "/approvals", "", nil); r.body != `{"approvals":[]}` {
			t.Error(r.body)
		}
	})
	t.Run("denied", func(t *testing.T) {
		t.Parallel()
		path := held(t)
		w.do(t, "POST", path, `{"approve":false}`, nil).refused(t, 403, "forbidden", "no")
		w.do(t, "POST", path, `{"approve":true}`, nil).refused(t, 404, "unknown_approval", "unknown")
	})
	t.Run("not said clearly", func(t *testing.T) {
		t.Parallel()
		path := held(t)
		for _, body := range []string{`{}`, `{"approve":"yes"}`, `{"approved":true}`, ``} {
			w.do(t, "POST", path, body, nil).refused(t, 400, "invalid_request", "no")
		}
		w.do(t, "POST", path, `{"approve":true}`, nil)
	})
}
