package doors

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// webDoor is a path that takes requests over HTTP.
type webDoor struct{ method, path, body string }

var webDoors = []webDoor{
	{"POST", "/mcp", mcpCall(call{tool: "look", arguments: `{"key":"web"}`}, "")},
	{"GET", "/sse", ""},
	{"POST", "/messages?sessionId=x", mcpCall(call{tool: "look"}, "")},
	{"GET", "/tools", ""},
	{"POST", "/tools/look", `{"key":"web"}`},
	{"POST", "/tools:batch", `{"calls":[{"name":"look","parameters":{"key":"web"}}]}`},
	{"GET", "/resources", ""},
	{"GET", "/openapi.json", ""},
	{"GET", "/docs", ""},
	{"POST", "/approvals/x", `{"approve":true}`},
	{"POST", "/v1", `{"version":"1.0","action":{"name":"look","parameters":{"key":"web"}}}`},
	{"POST", "/graphql", `{"query":"{ __typename }"}`},
	{"GET", "/graphql", ""},
	{"GET", "/ws", ""},
	{"GET", "/audit/list", ""},
}

// ask makes a request and returns the answer without its body.
func (w *world) ask(t *testing.T, d webDoor, change func(*http.Request)) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, d.method, "http://"+w.host+d.path, strings.NewReader(d.body))
	if err != nil {
		t.Fatal(err)
	}
	if d.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+ada)
	change(r)
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// TestWeb has browsers and others misuse every path (cases 31 to 34 and 46 of
// the catalogue).
func TestWeb(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	t.Run("pages of other sites", func(t *testing.T) {
		for name, change := range map[string]func(*http.Request){
			"evil origin":      func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"no origin":        func(r *http.Request) { r.Header.Set("Origin", "null") },
			"nearly loopback":  func(r *http.Request) { r.Header.Set("Origin", "http://localhost.evil.example") },
			"two origins":      func(r *http.Request) { r.Header["Origin"] = []string{"http://localhost", "https://evil.example"} },
			"a user":           func(r *http.Request) { r.Header.Set("Origin", "http://localhost@evil.example") },
			"garbage":          func(r *http.Request) { r.Header.Set("Origin", "http://[::1]garbage") },
			"rebound host":     func(r *http.Request) { r.Host = "evil.example" },
			"evil preflight":   func(r *http.Request) { preflight(r, "https://evil.example") },
			"rebound and good": func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("Origin", "http://localhost:3000") },
		} {
			for _, d := range webDoors {
				t.Run(name+"/"+d.method+" "+d.path, func(t *testing.T) {
					t.Parallel()
					resp := w.ask(t, d, change)
					if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
						t.Errorf("%d %v", resp.StatusCode, resp.Header)
					}
				})
			}
		}
	})
	t.Run("tokens in the URL", func(t *testing.T) {
		for _, d := range webDoors {
			t.Run(d.method+" "+d.path, func(t *testing.T) {
				t.Parallel()
				resp := w.ask(t, d, func(r *http.Request) {
					q := r.URL.Query()
					q.Set("access_token", ada)
					r.URL.RawQuery = q.Encode()
				})
				if resp.StatusCode != http.StatusBadRequest {
					t.Errorf("%d %v", resp.StatusCode, resp.Header)
				}
			})
		}
	})
	t.Run("pages that may", func(t *testing.T) {
		const origin = "http://localhost:3000"
		for _, d := range webDoors {
			if d.path == "/audit/list" {
				continue // for people, not for pages
			}
			t.Run(d.method+" "+d.path, func(t *testing.T) {
				t.Parallel()
				pre := w.ask(t, d, func(r *http.Request) { preflight(r, origin) })
				if d.path != "/ws" && (pre.StatusCode != http.StatusNoContent || !strings.Contains(pre.Header.Get("Access-Control-Allow-Methods"), d.method) ||
					pre.Header.Get("Access-Control-Allow-Origin") != origin || pre.Header.Get("Access-Control-Allow-Headers") != "authorization,content-type") {
					t.Errorf("preflight: %d %v", pre.StatusCode, pre.Header)
				}
				resp := w.ask(t, d, func(r *http.Request) { r.Header.Set("Origin", origin) })
				if d.path == "/ws" {
					return // not asked for by fetch
				}
				if got := resp.Header.Get("Access-Control-Allow-Origin"); got != origin || !slices.Contains(resp.Header.Values("Vary"), "Origin") {
					t.Errorf("%d %v", resp.StatusCode, resp.Header)
				}
				for _, name := range []string{"Www-Authenticate", "Mcp-Session-Id", "Busbar-Reason", "Busbar-Executed", "Busbar-Next", "Idempotency-Replayed", "Allow", "Retry-After", "Location"} {
					if !strings.Contains(strings.ToLower(resp.Header.Get("Access-Control-Expose-Headers")), strings.ToLower(name)) {
						t.Errorf("a page may not read %s", name)
					}
				}
			})
		}
	})
	t.Run("bodies of other kinds", func(t *testing.T) {
		for name, h := range map[string]http.Header{
			"text":                {"Content-Type": {"text/plain"}},
			"a form":              {"Content-Type": {"application/x-www-form-urlencoded"}},
			"parts":               {"Content-Type": {"multipart/form-data; boundary=x"}},
			"UTF-16":              {"Content-Type": {"application/json; charset=utf-16"}},
			"nothing said":        {"Content-Type": nil},
			"said twice":          {"Content-Type": {"application/json", "application/json"}},
			"compressed":          {"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
			"compressed and more": {"Content-Type": {"application/json"}, "Content-Encoding": {"identity", "br"}},
		} {
			for _, d := range webDoors {
				if d.body == "" {
					continue
				}
				t.Run(name+"/"+d.path, func(t *testing.T) {
					t.Parallel()
					resp := w.ask(t, d, func(r *http.Request) {
						for name, v := range h {
							r.Header[name] = v
						}
					})
					if resp.StatusCode != http.StatusUnsupportedMediaType {
						t.Errorf("%d %v", resp.StatusCode, resp.Header)
					}
				})
			}
		}
	})
	t.Run("paths of REST", func(t *testing.T) {
		for path, want := range map[string]int{
			"/tools/look?access_token=ada": 400, "/tools//look": 404, "//tools/look": 404, "/Tools/look": 404, "/tools/LOOK": 404, "/tools/look/": 404,
			"/tools/look;x=y": 404, "/tools;x=y/look": 404, "/tools/..%2ftools%2flook": 404, "/tools/look%00": 404, "/tools/%6cook": 200, "/x/../tools/look": 404,
		} {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				r, body := w.raw(t, "POST "+path+" HTTP/1.1\r\nHost: "+w.host+"\r\nAuthorization: Bearer ada\r\nContent-Type: application/json\r\nContent-Length: 13\r\nConnection: close\r\n\r\n{\"key\":\"web\"}")
				if r.StatusCode != want && (want != 404 || r.StatusCode/100 != 3) {
					t.Errorf("%d %s", r.StatusCode, body)
				}
			})
		}
		for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			resp := w.ask(t, webDoor{"GET", "/tools/look", ""}, func(r *http.Request) { r.Header.Set(name, "POST") })
			if resp.StatusCode != http.StatusOK || resp.Header.Get("ETag") == "" {
				t.Errorf("%s is heard: %d %v", name, resp.StatusCode, resp.Header)
			}
		}
	})
	t.Cleanup(func() {
		// The call with the escaped name, and the calls from pages that may: MCP, REST, its batch,
		// and the envelope.
		if n := w.ledger.Runs("web"); n != 5 {
			t.Errorf("the tool ran %d times", n)
		}
	})
}

func preflight(r *http.Request, origin string) {
	r.Method, r.Body, r.ContentLength = http.MethodOptions, nil, 0
	r.Header = http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"}}
}

// raw sends bytes as they are and returns the first answer, and whatever came
// behind its head.
func (w *world) raw(t *testing.T, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", w.host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	go func() { _, _ = io.WriteString(conn, request) }()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	rest, err := io.ReadAll(in)
	if err != nil && len(rest) == 0 {
		return resp, ""
	}
	return resp, string(rest)
}

// TestWire sends requests that servers read in more than one way (case 27), and heads that are too
// large (case 30): each is refused, the connection ends, and bytes that follow are not taken for a
// request.
func TestWire(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	smuggled := "POST /tools/look HTTP/1.1\r\nHost: " + w.host + "\r\nAuthorization: Bearer ada\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"key\":\"wire\"}"
	for name, c := range map[string]struct {
		head, body string
		status     int
	}{
		"two lengths":                {"Content-Length: 0\r\nContent-Length: 44\r\n", "", 400},
		"a list of lengths":          {"Content-Length: 0, 44\r\n", "", 400},
		"a signed length":            {"Content-Length: +0\r\n", "", 400},
		"codings in a list":          {"Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", 501},
		"a coding nobody has":        {"Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", 501},
		"two codings":                {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n", 501},
		"a folded header":            {"X-A: a\r\n b\r\nContent-Length: 0\r\n x\r\n", "", 400},
		"a blank before the colon":   {"Content-Length : 0\r\n", "", 400},
		"a header without name":      {": x\r\nContent-Length: 0\r\n", "", 400},
		"a zero byte in a header":    {"X-A: a\x00b\r\nContent-Length: 0\r\n", "", 400},
		"two hosts":                  {"Host: evil.example\r\nContent-Length: 0\r\n", "", 400},
		"a header of 1 MB":           {"X-A: " + strings.Repeat("a", 1<<20) + "\r\n", "", 431},
		"a cookie of 64 KiB":         {"Cookie: a=" + strings.Repeat("a", 64<<10) + "\r\n", "", 431},
		"10,000 headers":             {manyHeaders(10_000), "", 431},
		"a chunk of impossible size": {"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n", "fffffffffffffffff\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, rest := w.raw(t, "POST /tools/look HTTP/1.1\r\nHost: "+w.host+"\r\nAuthorization: Bearer ada\r\n"+c.head+"\r\n"+c.body+smuggled)
			if resp.StatusCode != c.status || !resp.Close {
				t.Errorf("%d %v, want %d and the end", resp.StatusCode, resp.Header, c.status)
			}
			if strings.Contains(rest, "HTTP/1.1") {
				t.Errorf("what follows was answered: %.300s", rest)
			}
		})
	}
	t.Cleanup(func() {
		if n := w.ledger.Runs("wire"); n != 0 {
			t.Errorf("the tool ran %d times", n)
		}
	})
}

func manyHeaders(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-%d: a\r\n", i)
	}
	return b.String()
}
