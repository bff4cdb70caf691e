package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// The page at / shows what its caller may use, and has nothing that a browser would load
// from elsewhere or run.
func TestFront(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.do(t, "GET", "/", "", header{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
	policy := r.Header.Get("Content-Security-Policy")
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Vary") == "" {
		t.Errorf("%s %v", r.Status, r.Header)
	}
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") || !strings.Contains(policy, "style-src 'sha256-") {
		t.Errorf("policy %s", policy)
	}
	for _, foreign := range []string{"http://", "https://", "<script", "style=", "onclick"} {
		if strings.Contains(r.body, foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	for _, want := range []string{
		"<b>anonymous</b>", `href="/docs"`, `href="/openapi.json"`, `href="/graphql"`, "/mcp", `<a href="/tools/strict">strict</a>`,
		`<a href="/resources/note:%2F%2F%2Fone">note:///one</a>`, "color-scheme: light dark",
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	// Its links lead somewhere.
	for _, part := range strings.Split(r.body, `<a href="`)[1:] {
		path, _, _ := strings.Cut(part, `"`)
		if got := w.do(t, "GET", path, "", header{"Accept": "text/html,*/*;q=0.8"}); got.StatusCode != http.StatusOK {
			t.Errorf("%s is %s", path, got.Status)
		}
	}
	if head := w.do(t, "HEAD", "/", "", nil); head.StatusCode != http.StatusOK || head.body != "" {
		t.Errorf("HEAD: %s %q", head.Status, head.body)
	}
	if post := w.do(t, "POST", "/", "{}", nil); post.StatusCode != http.StatusMethodNotAllowed || post.Header.Get("Allow") != "GET" {
		t.Errorf("POST: %s %v", post.Status, post.Header)
	}
	for _, path := range []string{"//", "/nothing", "//tools"} {
		if got := w.do(t, "GET", path, "", nil); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s is %s", path, got.Status)
		}
	}
}

func TestFrontNegotiates(t *testing.T) {
	t.Parallel()
	w := start(t)
	for accept, asJSON := range map[string]bool{
		"": false, "*/*": false, "text/html": false, "application/json": true, "application/json, text/html": false, "text/html;q=0.5, application/json": true,
		"application/json;q=0.5, text/html": false, "Application/JSON": true, "application/json;q=x": true, ";;,,": false,
	} {
		r := w.do(t, "GET", "/", "", header{"Accept": accept})
		if got := r.Header.Get("Content-Type") == "application/json"; got != asJSON {
			t.Errorf("%q: %s", accept, r.Header.Get("Content-Type"))
		}
	}
}

// A service's own text is shown as text on the page, and is cut.
func TestFrontOfStrangers(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := service.New("stranger", service.WithLogger(bustest.Logger(t)))
	for i := range 150 {
		service.AddTool(s, service.Tool{Name: fmt.Sprintf("t%03d", i), Description: "<img src=x onerror=alert(1)> " + strings.Repeat("длинно ", 100)},
			func(context.Context, *service.Call, struct{}) (int, error) { return 0, nil })
	}
	s.AddResource(mcp.Resource{URI: `javascript:alert("1")`, Name: `"><script>`}, edgetest.ReadNothing)
	edgetest.Serve(t, bustest.Connect(t, w.Bus), s)
	var page string
	bustest.Eventually(t, "the page has them", func() bool {
		page = w.do(t, "GET", "/", "", nil).body
		return strings.Contains(page, "t000") && strings.Contains(page, "javascript:alert")
	})
	if strings.Contains(page, "<img") || strings.Contains(page, "<script") || strings.Contains(page, `href="javascript`) || len(page) > 100<<10 {
		t.Errorf("%d bytes: %.3000s", len(page), page)
	}
	if !strings.Contains(page, `<a href="/tools">All tools</a>`) || strings.Count(page, `href="/tools/`) != 100 {
		t.Errorf("%d tools", strings.Count(page, `href="/tools/`))
	}
}
