package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestPagesOfAllowedOrigins lets a page of a loopback origin make a preflight and a call,
// and read the answer. Another page may do neither.
func TestPagesOfAllowedOrigins(t *testing.T) {
	t.Parallel()
	w := start(t)
	for origin, allowed := range map[string]bool{"http://localhost:5173": true, "https://evil.example": false} {
		t.Run(origin, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, w.HTTP.URL+"/mcp", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Origin", origin)
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "content-type,mcp-method")
			pre := edgetest.Do(t, r)
			call := w.Post(t, merge(modern(mcp.MethodToolsCall, "echo"), header{"Origin": origin}), edgetest.Call("1", "echo", `{}`))
			if !allowed {
				for _, got := range []edgetest.Reply{pre, call} {
					if got.StatusCode != http.StatusForbidden || got.Header.Get("Access-Control-Allow-Origin") != "" {
						t.Errorf("%d %v", got.StatusCode, got.Header)
					}
				}
				return
			}
			if pre.StatusCode != http.StatusNoContent || pre.Header.Get("Access-Control-Allow-Headers") != "content-type,mcp-method" || !strings.Contains(pre.Header.Get("Access-Control-Allow-Methods"), "POST") {
				t.Errorf("preflight: %d %v", pre.StatusCode, pre.Header)
			}
			for _, got := range []edgetest.Reply{pre, call} {
				if got.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","), "Origin") {
					t.Errorf("%d %v", got.StatusCode, got.Header)
				}
			}
			if call.StatusCode != http.StatusOK || !strings.Contains(call.Header.Get("Access-Control-Expose-Headers"), mcp.HeaderSessionID) {
				t.Errorf("call: %d %v", call.StatusCode, call.Header)
			}
		})
	}
}
