package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`

// openSession initializes a legacy session and returns its id.
func openSession(t testing.TB, url string) string {
	t.Helper()
	r := send(t, post(t, url, initialize))
	id := r.header.Get("Mcp-Session-Id")
	if r.status != http.StatusOK || r.message.Error != nil || len(id) < 26 {
		t.Fatalf("initialize answered %d, session %q: %s", r.status, id, clip(r.body))
	}
	return id
}

// request is a request without a body.
func request(t testing.TB, method, url string, headers ...header) *http.Request {
	t.Helper()
	r := post(t, url, "", headers...)
	r.Method, r.Body, r.ContentLength = method, nil, 0
	return r
}

// TestSessions scripts a legacy client over HTTP.
func TestSessions(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	session := func(id string) []header {
		return []header{{"MCP-Protocol-Version", legacy}, {"Mcp-Session-Id", id}}
	}
	legacyCall := func(key string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append","arguments":{"key":%q}}}`, key)
	}
	t.Run("life of a session", func(t *testing.T) {
		t.Parallel()
		id := openSession(t, e.mcp)
		if r := send(t, post(t, e.mcp, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session(id)...)); r.status != http.StatusAccepted || len(r.body) > 0 {
			t.Errorf("initialized answered %d %q", r.status, r.body)
		}
		if r := send(t, post(t, e.mcp, legacyCall("in session"), session(id)...)); r.message.Error != nil {
			t.Error(r.message.Error)
		}
		if r := send(t, request(t, http.MethodDelete, e.mcp, session(id)...)); r.status != http.StatusNoContent && r.status != http.StatusOK {
			t.Errorf("DELETE answered %d", r.status)
		}
		checkRefused(t, send(t, post(t, e.mcp, legacyCall("after session"), session(id)...)), 404, -32600, "unknown_session")
		checkRefused(t, send(t, request(t, http.MethodGet, e.mcp, session(id)...)), 404, -32600, "unknown_session")
		checkRefused(t, send(t, request(t, http.MethodDelete, e.mcp, session(id)...)), 404, -32600, "unknown_session")
		if e.ledger.Runs("after session") != 0 {
			t.Error("a call of an ended session ran")
		}
		if again := openSession(t, e.mcp); again == id {
			t.Error("the id was given out again")
		}
	})
	t.Run("ended on another edge", func(t *testing.T) {
		t.Parallel()
		_, other := startEdge(t, e.nats)
		id := openSession(t, e.mcp)
		for _, url := range []string{other.mcp, e.mcp} {
			if r := send(t, post(t, url, legacyCall("either edge"), session(id)...)); r.message.Error != nil {
				t.Error(r.message.Error)
			}
		}
		send(t, request(t, http.MethodDelete, other.mcp, session(id)...))
		eventually(t, "both edges know that it ended", func() bool {
			return send(t, post(t, e.mcp, legacyCall("x"), session(id)...)).status == 404 &&
				send(t, post(t, other.mcp, legacyCall("x"), session(id)...)).status == 404
		})
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		for _, id := range []string{"unknown", strings.Repeat("A", 26), "../x", "*", ">", "a b", strings.Repeat("x", 4096)} {
			checkRefused(t, send(t, post(t, e.mcp, legacyCall("unknown"), session(id)...)), 404, -32600, "unknown_session")
		}
		checkRefused(t, send(t, request(t, http.MethodGet, e.mcp, session("unknown")...)), 404, -32600, "unknown_session")
		checkRefused(t, send(t, request(t, http.MethodDelete, e.mcp, session("unknown")...)), 404, -32600, "unknown_session")
		if e.ledger.Runs("unknown") != 0 {
			t.Error("a call ran")
		}
	})
	t.Run("named twice", func(t *testing.T) {
		t.Parallel()
		id := openSession(t, e.mcp)
		checkRefused(t, send(t, post(t, e.mcp, legacyCall("named twice"), append(session(id), header{"Mcp-Session-Id", id})...)), 400, -32600, "invalid_request")
		if e.ledger.Runs("named twice") != 0 {
			t.Error("a call ran")
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		// A call needs nothing of a session, and some clients drop the header.
		if r := send(t, post(t, e.mcp, legacyCall("none"))); r.message.Error != nil {
			t.Error(r.message.Error)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			checkRefused(t, send(t, request(t, method, e.mcp)), 400, -32600, "invalid_request")
		}
	})
	t.Run("a version nobody knows", func(t *testing.T) {
		t.Parallel()
		r := send(t, post(t, e.mcp, legacyCall("old version"), header{"MCP-Protocol-Version", "1900-01-01"}))
		checkRefused(t, r, 400, -32022, "unsupported_version")
		if e.ledger.Runs("old version") != 0 {
			t.Error("a call ran")
		}
		r = send(t, post(t, e.mcp, strings.Replace(initialize, legacy, "1900-01-01", 1)))
		if !strings.Contains(string(r.message.Result), `"protocolVersion":"2025-11-25"`) {
			t.Errorf("initialize offers no version of ours: %s", r.body)
		}
	})
	t.Run("headers of the other era", func(t *testing.T) {
		t.Parallel()
		// An intermediary may not trust them, and we don't read them.
		r := send(t, post(t, e.mcp, legacyCall("other headers"), header{"MCP-Protocol-Version", legacy}, header{"Mcp-Method", "tools/list"}, header{"Mcp-Name", "echo"}))
		if r.message.Error != nil || e.ledger.Runs("other headers") != 1 {
			t.Errorf("answered %s", r.body)
		}
	})
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		id := openSession(t, e.mcp)
		if r := send(t, request(t, http.MethodGet, e.mcp, append(session(id), header{"Accept", "application/json"})...)); r.status != http.StatusNotAcceptable {
			t.Errorf("GET that takes no stream answered %d", r.status)
		}
		ctx, cancel := withCancel(t)
		resp, err := httpClient.Do(request(t, http.MethodGet, e.mcp, append(session(id), header{"Accept", "text/event-stream"})...).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("GET answered %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		lines := make(chan string, 16)
		go func() {
			for s := bufio.NewScanner(resp.Body); s.Scan(); {
				lines <- s.Text()
			}
		}()
		serve(t, e.nats, named("streamed"))
		for {
			if line := await(t, "list_changed", lines); strings.HasPrefix(line, "data: {") {
				if want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; !sameJSON(t, []byte(line[6:]), []byte(want)) {
					t.Errorf("came %s", line)
				}
				break
			}
		}
		cancel()
	})
}

// TestHTTPMethods asks the endpoint in ways it does not serve.
func TestHTTPMethods(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	for _, c := range []struct {
		method, version, path string
		status                int
		allow                 string
	}{
		{http.MethodGet, modern, "", 405, "POST"},
		{http.MethodDelete, modern, "", 405, "POST"},
		{http.MethodPut, modern, "", 405, "POST"},
		{http.MethodPut, legacy, "", 405, "POST, GET, DELETE"},
		{http.MethodPatch, legacy, "", 405, "POST, GET, DELETE"},
		{http.MethodOptions, legacy, "", 405, "POST, GET, DELETE"},
		{http.MethodGet, legacy, "/other", 404, ""},
		{http.MethodPost, legacy, "/", 404, ""},
	} {
		t.Run(c.method+" "+c.version+c.path, func(t *testing.T) {
			r := send(t, request(t, c.method, e.mcp+c.path, header{"MCP-Protocol-Version", c.version}))
			if r.status != c.status || r.header.Get("Allow") != c.allow {
				t.Errorf("answered %d, Allow %q; want %d, %q", r.status, r.header.Get("Allow"), c.status, c.allow)
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions} {
		t.Run(method+" from a foreign page", func(t *testing.T) {
			r := send(t, request(t, method, e.mcp, header{"Origin", "https://evil.example"}, header{"Accept", "text/event-stream"}))
			if r.status != http.StatusForbidden || r.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("answered %d, Access-Control-Allow-Origin %q", r.status, r.header.Get("Access-Control-Allow-Origin"))
			}
		})
	}
}
