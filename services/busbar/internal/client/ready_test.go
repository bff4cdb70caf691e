package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		code   int
		stdout string
		stderr string
	}{
		"ready":      {200, "ready\nbus: connected\n", ExitOK, "ready\nbus: connected\n", ""},
		"not ready":  {503, "not ready\nbus: not ready: \x1b[2Jaway\n", ExitRefused, "not ready\nbus: not ready: ", ""},
		"no edge's":  {404, "page not found", ExitTransport, "", "error:"},
		"a redirect": {302, "", ExitTransport, "", "error:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/readyz" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			var out, errs strings.Builder
			code := RunReady(t.Context(), Options{URL: s.URL + "/mcp"}, &out, &errs)
			if code != c.code || !strings.HasPrefix(out.String(), c.stdout) || strings.Contains(out.String(), "\x1b") || !strings.Contains(errs.String(), c.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", code, &out, &errs)
			}
		})
	}
	if code := RunReady(t.Context(), Options{URL: "http://127.0.0.1:1"}, new(strings.Builder), new(strings.Builder)); code != ExitTransport {
		t.Errorf("nobody there: %d", code)
	}
}
