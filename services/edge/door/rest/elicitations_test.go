package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/api"
)

// A tool that asks is answered at the address that its answer names.
func TestElicitation(t *testing.T) {
	t.Parallel()
	w := start(t)
	asked := func(t *testing.T) string {
		r := w.do(t, "POST", "/tools/color", "{}", nil)
		r.refused(t, http.StatusAccepted, "input_required", "no")
		path := r.Header.Get("Location")
		var e api.Held
		w.do(t, "GET", path, "", nil).read(t, &e)
		if q := e.Requests["color"]; path != "/elicitations/"+e.Elicitation || q.Message != "Which color?" || !strings.Contains(string(q.Schema), "enum") || !strings.Contains(r.body, e.Elicitation) {
			t.Fatalf("%s: %+v", r.body, e)
		}
		return path
	}
	for body, want := range map[string]string{
		`{"responses":{"color":{"action":"accept","content":{"color":"red"}}}}`: "accept red",
		`{"responses":{"color":{"action":"decline"}}}`:                          "decline ",
		`{"responses":{"color":{"action":"cancel"}}}`:                           "cancel ",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			path := asked(t)
			var done result
			if w.do(t, "POST", path, body, nil).read(t, &done); len(done.Content) != 1 || done.Content[0].Text != want {
				t.Errorf("%+v", done)
			}
			w.do(t, "POST", path, body, nil).refused(t, 404, "unknown_elicitation", "unknown")
			w.do(t, "GET", path, "", nil).refused(t, 404, "unknown_elicitation", "unknown")
		})
	}
	t.Run("wrong answers leave it open", func(t *testing.T) {
		t.Parallel()
		path := asked(t)
		for body, reason := range map[string]string{
			``:                                "invalid_request",
			`{}`:                              "invalid_request",
			`{"responses":[]}`:                "invalid_request",
			`{"responses":{},"approve":true}`: "invalid_request",
			`{"responses":{}}`:                "invalid_params",
			`{"responses":{"color":null}}`:    "invalid_params",
			`{"responses":{"color":{"action":"yes"}}}`:                                   "invalid_params",
			`{"responses":{"color":{"action":"accept"}}}`:                                "invalid_params",
			`{"responses":{"color":{"action":"accept","content":{"color":"mud"}}}}`:      "invalid_params",
			`{"responses":{"color":{"action":"decline"},"colour":{"action":"decline"}}}`: "invalid_params",
		} {
			p := w.do(t, "POST", path, body, nil).refused(t, 400, reason, "no")
			if strings.Contains(p.Detail, "inputResponses") {
				t.Errorf("in MCP's words: %s", p.Detail)
			}
		}
		if r := w.do(t, "POST", path, `{"responses":{"color":{"action":"accept","content":{"color":"red"}}}}`, nil); r.StatusCode != http.StatusOK {
			t.Error(r.body)
		}
	})
	t.Run("neither is the other", func(t *testing.T) {
		t.Parallel()
		id := strings.TrimPrefix(asked(t), "/elicitations/")
		w.do(t, "POST", "/approvals/"+id, `{"approve":true}`, nil).refused(t, 404, "unknown_approval", "no")
		held := w.do(t, "POST", "/tools/approved", `{}`, nil).Header.Get("Location")
		w.do(t, "POST", strings.Replace(held, "approvals", "elicitations", 1), `{"responses":{}}`, nil).refused(t, 404, "unknown_elicitation", "no")
	})
	t.Run("a list, and the other doors' forms", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		path := w.do(t, "POST", "/tools/color", "{}", nil).Header.Get("Location")
		var list struct {
			Elicitations []api.Held `json:"elicitations"`
		}
		w.do(t, "GET", "/elicitations", "", nil).read(t, &list)
		if len(list.Elicitations) != 1 || "/elicitations/"+list.Elicitations[0].Elicitation != path || list.Elicitations[0].Requests != nil {
			t.Errorf("%+v", list)
		}
		if r := w.do(t, "GET", "/approvals", "", nil); r.body != `{"approvals":[]}` {
			t.Error(r.body)
		}
		// The same in the slot of a batch, and in the 1.0 envelope.
		if r := w.do(t, "POST", "/tools:batch", `{"calls":[{"name":"color"}]}`, nil); !strings.Contains(r.body, `"reason":"input_required"`) || !strings.Contains(r.body, `"elicitation":`) {
			t.Error(r.body)
		}
		if r := w.do(t, "POST", "/v1", `{"version":"1.0","action":{"name":"color"}}`, nil); !strings.HasPrefix(r.Header.Get("Location"), "/elicitations/") {
			t.Errorf("%v %s", r.Header, r.body)
		}
	})
}
