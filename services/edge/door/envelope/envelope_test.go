package envelope_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func start(t *testing.T) (post func(t *testing.T, body string, contentType string) (*http.Response, string)) {
	t.Helper()
	w := edgetest.Start(t)
	return func(t *testing.T, body, contentType string) (*http.Response, string) {
		t.Helper()
		resp, err := edgetest.Client.Post(w.HTTP.URL+"/v1", contentType, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
}

func action(name, parameters string) string {
	return `{"version":"1.0","action":{"name":"` + name + `","parameters":` + parameters + `}}`
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	post := start(t)
	for name, c := range map[string]struct {
		body             string
		status           int
		want             string
		reason, executed string
	}{
		"a structured result":      {action("page", `{}`), 404, `{"version":"1.0","status":"error","error":"Unknown tool: page"}`, "unknown_tool", "no"},
		"content":                  {action("safe", `{}`), 200, `{"version":"1.0","status":"success","result":{"content":[{"type":"text","text":"safe"}]}}`, "", ""},
		"a number":                 {action("number", `{"n":2}`), 200, `{"version":"1.0","status":"success","result":{"content":[{"type":"text","text":"2"}]}}`, "", ""},
		"the tool's own failure":   {action("fails", `{}`), 200, `{"version":"1.0","status":"error","error":"no such city"}`, "", ""},
		"bad parameters":           {action("strict", `{"text":1}`), 400, `{"version":"1.0","status":"error","error":"Invalid arguments: /text: got number, want string"}`, "invalid_params", "no"},
		"another version":          {`{"version":"2.0","action":{"name":"safe"}}`, 400, `{"version":"1.0","status":"error","error":"version must be \"1.0\""}`, "invalid_request", "no"},
		"no name":                  {`{"version":"1.0","action":{}}`, 400, `{"version":"1.0","status":"error","error":"action.name is missing"}`, "invalid_request", "no"},
		"parameters of a kind":     {action("safe", `[]`), 400, `{"version":"1.0","status":"error","error":"action.parameters must be an object"}`, "invalid_params", "no"},
		"misspelt parameters":      {`{"version":"1.0","action":{"name":"safe","paramters":{"n":1}}}`, 400, `{"version":"1.0","status":"error","error":"action has a name and parameters, and nothing else"}`, "invalid_request", "no"},
		"a member twice":           {`{"version":"1.0","version":"1.0","action":{"name":"safe"}}`, 400, "", "parse_error", "no"},
		"no JSON":                  {`{`, 400, "", "parse_error", "no"},
		"no object":                {`7`, 400, "", "invalid_request", "no"},
		"a defect is not told":     {action("broken", `{}`), 500, "", "internal", "unknown"},
		"several, one of them bad": {"[" + action("safe", "{}") + "," + action("nope", "{}") + ",7," + action("safe", "{}") + "]", 200, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, body := post(t, c.body, "application/json")
			if resp.StatusCode != c.status || c.want != "" && body != c.want {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, body, c.status, c.want)
			}
			if resp.Header.Get("Busbar-Reason") != c.reason || resp.Header.Get("Busbar-Executed") != c.executed || strings.Contains(body, "secret") {
				t.Errorf("%v %s", resp.Header, body)
			}
		})
	}
	t.Run("an array runs in parallel and keeps its order", func(t *testing.T) {
		t.Parallel()
		const n = 200
		var actions, want []string
		for i := range n {
			actions = append(actions, action("echo", fmt.Sprintf(`{"i":%d}`, i)))
			want = append(want, fmt.Sprintf(`{"version":"1.0","status":"success","result":{"content":[{"type":"text","text":"{\"i\":%d}"}]}}`, i))
		}
		if _, body := post(t, "["+strings.Join(actions, ",")+"]", "application/json"); body != "["+strings.Join(want, ",")+"]" {
			t.Errorf("%.300s", body)
		}
	})
	t.Run("text is refused", func(t *testing.T) {
		t.Parallel()
		if resp, _ := post(t, action("safe", "{}"), "text/plain"); resp.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%d", resp.StatusCode)
		}
	})
}
