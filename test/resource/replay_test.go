package resource

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
)

// operatorToken reads the trail.
const operatorToken = "0perator"

// TestM16RepetitionByAServiceThatKeepsKeys: plain HTTP marks an answer that the resource or the
// prompt service took from its tables, and the trail has no second effect for it.
func TestM16RepetitionByAServiceThatKeepsKeys(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	startInstance(t, nats, resource.Env{DataEnv: service.DataEnv{DataDir: t.TempDir()}})
	prompts, err := prompt.New(t.Context(), prompt.Env{DataEnv: data(t)})
	if err != nil {
		t.Fatal(err)
	}
	servicetest.Join(t, bustest.Connect(t, nats), prompts)
	trail, err := audit.New(t.Context(), audit.Env{DataEnv: data(t), AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	servicetest.Join(t, bustest.Connect(t, nats), trail)
	base := strings.TrimSuffix(startEdge(t, nats), "/mcp")
	bustest.Eventually(t, "the prompt service", func() bool {
		resp, err := http.Get(base + "/tools/create_prompt")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	item := "/resources/" + url.PathEscape("m16:put")
	want := map[string]int{}
	for _, c := range []struct{ tool, method, path, body string }{
		{"create_resource", http.MethodPost, "/tools/create_resource", `{"uri":"m16:one","text":"x"}`},
		{"update_resource", http.MethodPost, "/tools/update_resource", `{"uri":"m16:one","text":"y","append":true}`},
		{"delete_resource", http.MethodPost, "/tools/delete_resource", `{"uri":"m16:one"}`},
		{"create_resource", http.MethodPost, "/resources", `{"uri":"m16:put","content":"x"}`},
		{"update_resource", http.MethodPut, item, `{"content":"y"}`},
		{"update_resource", http.MethodPatch, item, `{"content":"z"}`},
		{"delete_resource", http.MethodDelete, item, ``},
		{"create_prompt", http.MethodPost, "/tools/create_prompt", `{"name":"m16","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`},
		{"delete_prompt", http.MethodPost, "/tools/delete_prompt", `{"name":"m16","version":1}`},
	} {
		key := c.method + " " + c.path
		var first string
		for n, header := range []string{"", "true", "true"} {
			resp, b := withKey(t, c.method, base+c.path, key, c.body)
			if resp.StatusCode >= 300 {
				t.Fatalf("%s, call %d: %d %s", key, n, resp.StatusCode, b)
			}
			if n == 0 {
				first = string(b)
			}
			if got := resp.Header.Get("Idempotency-Replayed"); got != header || string(b) != first {
				t.Errorf("%s, call %d: Idempotency-Replayed %q, want %q; %s, at first %s", key, n, got, header, b, first)
			}
		}
		want[c.tool+" ok yes"]++
		want[c.tool+" replayed no"] += 2
	}
	var got map[string]int
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = ends(t, base); maps.Equal(got, want) {
			return
		}
	}
	t.Errorf("the trail has %v, want %v", got, want)
}

// withKey makes a request with an idempotency key.
func withKey(t *testing.T, method, url, key, body string) (resp *http.Response, b []byte) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		if resp, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if b, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		return !bustest.StoodStill(string(b))
	})
	return resp, b
}

// ends counts the ends of calls in the trail: tool, outcome and whether it ran.
func ends(t *testing.T, base string) map[string]int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/audit/list?limit=1000&method=tools/call", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Busbar-Audit", operatorToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var page audit.Page
	if err := json.UnmarshalRead(resp.Body, &page); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the trail cannot be read: %d %v", resp.StatusCode, err)
	}
	n := map[string]int{}
	for _, row := range page.Events {
		if row.Outcome == "unavailable" {
			continue // and was tried again
		}
		n[row.Name+" "+row.Outcome+" "+row.Executed]++
	}
	return n
}

// data is a quiet service's, in a directory of its own.
func data(t *testing.T) service.DataEnv {
	return service.DataEnv{Env: service.Env{Log: slog.New(slog.DiscardHandler)}, DataDir: t.TempDir()}
}
