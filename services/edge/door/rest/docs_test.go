package rest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/edge/door/rest"
)

type document struct {
	OpenAPI    string                               `json:"openapi"`
	Paths      map[string]map[string]jsontext.Value `json:"paths"`
	Components struct {
		Schemas map[string]jsontext.Value `json:"schemas"`
	} `json:"components"`
}

// TestOpenAPI checks the document: its paths are the ones that are served, and answers
// match it.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	var doc document
	raw := w.do(t, "GET", "/openapi.json", "", nil)
	raw.read(t, &doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi %s", doc.OpenAPI)
	}
	served := rest.Served()
	for path, methods := range rest.Served() {
		for _, root := range []string{"/tools", "/prompts", "/resources"} {
			if strings.HasPrefix(path, root) || path == "/openapi.json" {
				served["/toolsets/{toolset}"+path] = methods
			}
		}
	}
	served["/v1"] = []string{"POST"} // has a door of its own
	for path, methods := range served {
		for _, m := range methods {
			if doc.Paths[path][strings.ToLower(m)] == nil {
				t.Errorf("%s %s is served and not described", m, path)
			}
		}
	}
	for path, methods := range doc.Paths {
		if name, ok := strings.CutPrefix(path, "/tools/"); ok && name != "{name}" {
			continue // one of the tools; see TestOpenAPIOfTools
		}
		for m := range methods {
			if m == "parameters" {
				continue // applies to all methods
			}
			if !slices.Contains(served[path], strings.ToUpper(m)) {
				t.Errorf("%s %s is described and not served", m, path)
			}
		}
	}
	// Its schemas, with the references between them made local to each.
	is := func(name, body string) {
		t.Helper()
		s, err := schema.Compile([]byte(strings.ReplaceAll(string(doc.Components.Schemas[name]), "#/components/schemas/", "#/$defs/")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Validate([]byte(body)); err != nil {
			t.Errorf("not a %s: %v: %s", name, err, body)
		}
	}
	is("Tool", w.do(t, "GET", "/tools/strict", "", nil).body)
	is("ToolResult", w.do(t, "POST", "/tools/number", `{"n":1}`, nil).body)
	is("Problem", w.do(t, "POST", "/tools/nope", `{}`, nil).body)
	is("Problem", w.do(t, "POST", "/tools/approved", `{}`, nil).body)
	is("Held", w.do(t, "GET", w.do(t, "POST", "/tools/approved", `{"a":1}`, nil).Header.Get("Location"), "", nil).body)
	is("Elicitation", w.do(t, "GET", w.do(t, "POST", "/tools/ask", `{}`, nil).Header.Get("Location"), "", nil).body)
	is("Contents", w.do(t, "GET", "/resources/note:%2F%2F%2Fone", "", nil).body)
	is("Contents", w.do(t, "GET", "/resources?uri=note:///by/7", "", nil).body)
	var batch struct {
		Results []jsontext.Value `json:"results"`
	}
	w.do(t, "POST", "/tools:batch", `{"calls":[{"name":"safe"},{"name":"nope"}]}`, nil).read(t, &batch)
	for _, slot := range batch.Results {
		is("Slot", string(slot))
	}
	if json.Unmarshal([]byte(raw.body), &map[string]any{}) != nil {
		t.Error("members stand twice")
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.do(t, "GET", "/docs", "", nil)
	policy := r.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || strings.Contains(r.body, "http://") || strings.Contains(r.body, "https://") ||
		!strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("%v %.200s", r.Header, r.body)
	}
	page := w.do(t, "GET", "/graphql", "", header{"Accept": "text/html"})
	loads := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(r.body+page.body, -1)
	if len(loads) < 10 {
		t.Fatalf("the pages load %v", loads)
	}
	for _, l := range loads {
		packed := w.do(t, "GET", l[1], "", header{"Accept-Encoding": "gzip"})
		plain := w.do(t, "GET", l[1], "", header{"Accept-Encoding": "identity"})
		if plain.StatusCode != 200 || plain.Header.Get("Content-Encoding") != "" || len(plain.body) < len(packed.body) || plain.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", l[1], plain.StatusCode, plain.Header)
		}
		if r := w.do(t, "GET", l[1], "", header{"If-None-Match": packed.Header.Get("ETag")}); r.StatusCode != 304 {
			t.Errorf("%s: %d for who has it", l[1], r.StatusCode)
		}
	}
	for accept, packed := range map[string]bool{"gzip;q=0": false, "gzip; q=0.0, *": false, "br, GZIP;q=0.5": true, "*": true, "*;q=0": false, "notgzip": false} {
		if r := w.do(t, "GET", "/docs/assets/react.js", "", header{"Accept-Encoding": accept}); (r.Header.Get("Content-Encoding") == "gzip") != packed {
			t.Errorf("%s: %v", accept, r.Header)
		}
	}
	for _, path := range []string{"/docs", "/graphql", "/docs/assets/react.js"} {
		if r := w.do(t, "HEAD", path, "", header{"Accept": "text/html"}); r.StatusCode != 200 || r.body != "" {
			t.Errorf("HEAD %s: %d %q", path, r.StatusCode, r.body)
		}
	}
	for _, path := range []string{"/docs/assets/nope.js", "/docs/assets/docs.html", "/docs/assets/..%2Fown%2Fdocs.js", "/docs/nope"} {
		w.do(t, "GET", path, "", nil).refused(t, 404, "method_not_found", "no")
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	w := start(t)
	if r := w.do(t, "GET", "/resources", "", nil); !strings.Contains(r.body, `"note:///one"`) {
		t.Error(r.body)
	}
	// Nothing on the way may clean the path.
	if r := w.do(t, "GET", "/resources/note:///by/7", "", nil); !strings.Contains(r.body, "it is 7") {
		t.Error(r.body)
	}
	w.do(t, "GET", "/resources/nothing:%2F%2F%2F", "", nil).refused(t, 404, "unknown_resource", "no")
	w.do(t, "POST", "/resources", `{"uri":"example://document1","content":"x"}`, nil).refused(t, 503, "unavailable", "no")
	w.do(t, "POST", "/resources", `{"url":"x"}`, nil).refused(t, 400, "invalid_request", "no")
	for body, message := range map[string]string{
		`{"uri":"example://x","content":"x","text":"y"}`:                                      "content and text are the same; give one of them",
		`{"uri":"example://x","content":"x","mime_type":"text/plain","mimeType":"text/html"}`: "mime_type and mimeType are the same; give one of them",
	} {
		for method, path := range map[string]string{"POST": "/resources", "PUT": "/resources/example:%2F%2Fx"} {
			if got := w.do(t, method, path, body, nil).refused(t, 400, "invalid_request", "no"); got.Detail != message {
				t.Errorf("%s %s: %q", method, body, got.Detail)
			}
		}
	}
	w.do(t, "PUT", "/resources/example:%2F%2Fx", `{"uri":"other://x"}`, nil).refused(t, 400, "invalid_request", "no")
	w.do(t, "DELETE", "/resources/example:%2F%2Fx", "", header{"If-Match": "x"}).refused(t, 400, "invalid_request", "no")
}
