package streamable_test

import (
	"net/http"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestGuardStandsBeforeEveryMethod(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions, http.MethodPut} {
		for name, change := range map[string]func(*http.Request){
			"evil origin":  func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"rebound host": func(r *http.Request) { r.Host = "evil.example" },
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				r := w.request(t.Context(), t, w.http.URL, modern(mcp.MethodToolsCall, "echo"), nil)
				r.Method = method
				change(r)
				got := w.do(t, r)
				if m := got.refused(t, http.StatusForbidden, mcp.CodeForbidden, "forbidden"); m.ID != nil {
					t.Errorf("id %s", m.ID)
				}
				if got.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Error("a browser is told that it may read this")
				}
			})
		}
	}
	t.Cleanup(func() {
		if n := w.svc.Calls.Load(); n != 0 {
			t.Errorf("%d calls ran", n)
		}
	})
}
