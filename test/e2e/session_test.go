package e2e

import (
	"net/http"
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

// TestSessions has what a legacy client over HTTP may do besides; services/edge/door/streamable has
// the life of a session, and test/tenants sessions of others.
func TestSessions(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	// An intermediary may not trust the headers of the other era, and we don't read them.
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append","arguments":{"key":"other headers"}}}`
	r := send(t, post(t, e.mcp, call, header{"MCP-Protocol-Version", legacy}, header{"Mcp-Method", "tools/list"}, header{"Mcp-Name", "echo"}))
	if r.message.Error != nil || e.ledger.Runs("other headers") != 1 {
		t.Errorf("answered %s", r.body)
	}
	r = send(t, post(t, e.mcp, call, header{"MCP-Protocol-Version", "1900-01-01"}))
	checkRefused(t, r, 400, -32022, "unsupported_version")
	session := []header{{"MCP-Protocol-Version", legacy}, {"Mcp-Session-Id", openSession(t, e.mcp)}}
	if r := send(t, request(t, http.MethodGet, e.mcp, append(session, header{"Accept", "application/json"})...)); r.status != http.StatusNotAcceptable {
		t.Errorf("GET that takes no stream answered %d", r.status)
	}
	if r := send(t, request(t, http.MethodDelete, e.mcp, session...)); r.status != http.StatusNoContent {
		t.Errorf("DELETE answered %d", r.status)
	}
	checkRefused(t, send(t, request(t, http.MethodGet, e.mcp, session...)), 404, -32600, "unknown_session")
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
