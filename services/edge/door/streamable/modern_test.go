package streamable_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// Large responses share their room one after another, never at the same time.
func TestLargeAnswersAreTheirOwn(t *testing.T) {
	t.Parallel()
	w := start(t)
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for n := range 8 {
				want := fmt.Sprintf(`{"s":%q}`, strings.Repeat(fmt.Sprintf("%d-%d.", who, n), 4000+100*n))
				if got := w.Call(t, "echo", want).Answer(t).Text(); got != want {
					t.Errorf("caller %d has %.20s… of %d bytes for %.20s…", who, got, len(got), want)
				}
			}
		})
	}
	wg.Wait()
}

// HTTP's status and the JSON-RPC error of what is refused. test/e2e refuses much more
// (TestHTTPCorpus, TestModernHTTP).
func TestModernRefusals(t *testing.T) {
	t.Parallel()
	w := start(t)
	meta := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","_meta":{` + members + `}}}`
	}
	version, caps := `"`+mcp.MetaProtocolVersion+`":"`+mcp.Modern+`"`, `"`+mcp.MetaClientCapabilities+`":{}`
	call := modern(mcp.MethodToolsCall, "safe")
	const badParams = mcp.CodeInvalidParams
	for name, c := range map[string]struct {
		header       header
		body         string
		status, code int
		reason       string
	}{
		"no params":                     {call, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 400, mcp.CodeHeaderMismatch, "header_mismatch"},
		"no _meta":                      {call, edgetest.LegacyCall("1", "safe", "{}"), 400, badParams, "invalid_params"},
		"no version":                    {call, meta(caps), 400, badParams, "invalid_params"},
		"capabilities of wrong type":    {call, meta(version + `,"` + mcp.MetaClientCapabilities + `":[]`), 400, badParams, "invalid_params"},
		"client info of wrong type":     {call, meta(version + `,` + caps + `,"` + mcp.MetaClientInfo + `":"x"`), 400, badParams, "invalid_params"},
		"unknown log level":             {call, meta(version + `,` + caps + `,"` + mcp.MetaLogLevel + `":"loud"`), 400, badParams, "invalid_params"},
		"discover without _meta":        {modern(mcp.MethodDiscover, ""), edgetest.Legacy("1", mcp.MethodDiscover, ""), 400, badParams, "invalid_params"},
		"unknown method":                {modern("tools/destroy", ""), edgetest.Request("1", "tools/destroy", ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"ping, which is gone":           {modern(mcp.MethodPing, ""), edgetest.Request("1", mcp.MethodPing, ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"unknown tool":                  {modern(mcp.MethodToolsCall, "nope"), edgetest.Call("1", "nope", "{}"), 200, badParams, "unknown_tool"},
		"unknown prompt":                {modern(mcp.MethodPromptsGet, "nope"), edgetest.Request("1", mcp.MethodPromptsGet, `"name":"nope"`), 200, badParams, "unknown_prompt"},
		"unknown resource":              {modern(mcp.MethodResourcesRead, "note:///no"), edgetest.Request("1", mcp.MethodResourcesRead, `"uri":"note:///no"`), 200, badParams, "unknown_resource"},
		"forged cursor":                 {modern(mcp.MethodToolsList, ""), edgetest.Request("1", mcp.MethodToolsList, `"cursor":"AAAA"`), 400, badParams, "invalid_params"},
		"listen without filter":         {modern(mcp.MethodListen, ""), edgetest.Request("1", mcp.MethodListen, ""), 400, badParams, "invalid_params"},
		"listen, filter of wrong types": {modern(mcp.MethodListen, ""), listen("1", `{"toolsListChanged":1}`), 400, badParams, "invalid_params"},
		"completion of nothing":         {modern(mcp.MethodComplete, ""), edgetest.Request("1", mcp.MethodComplete, ""), 400, badParams, "invalid_params"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m := w.Post(t, c.header, c.body).Refused(t, c.status, c.code, c.reason); string(m.ID) != "1" {
				t.Errorf("id %q", m.ID)
			}
		})
	}
	for name, c := range map[string]struct {
		header header
		body   string
		status int
	}{
		"a response": {modern("", ""), `{"jsonrpc":"2.0","id":1,"result":{}}`, 400}, "half": {call, edgetest.Call("1", "safe", "{}")[:40], 400},
		"5 MiB":            {call, edgetest.Call("1", "safe", `{"a":"`+strings.Repeat("x", 5<<20)+`"}`), 413},
		"a notification":   {modern(mcp.NotifyCancelled, ""), edgetest.Cancel("1"), 202},
		"without a method": {header{mcp.HeaderProtocolVersion: mcp.Modern}, `{"jsonrpc":"2.0","method":"notifications/made/up"}`, 202},
		"version in body":  {header{}, `{"jsonrpc":"2.0","method":"notifications/x","params":{` + edgetest.Meta("") + `}}`, 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := w.Post(t, c.header, c.body); r.StatusCode != c.status || (len(r.Bytes) == 0) != (c.status == http.StatusAccepted) {
				t.Errorf("status %d: %s", r.StatusCode, r.Bytes)
			}
		})
	}
	t.Cleanup(func() {
		if n := w.Svc.Calls.Load(); n != 0 {
			t.Errorf("%d calls ran", n)
		}
	})
}

// test/e2e asks by all methods (TestHTTPMethods), test/doors as pages (TestWeb).
func TestOtherMethods(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, c := range []struct {
		method, version string
		status          int
		allow           string
	}{{"GET", mcp.Modern, 405, "POST"}, {"PATCH", mcp.V20251125, 405, "POST, GET, DELETE"}, {"HEAD", "", 405, "POST, GET, DELETE"}} {
		h := header{mcp.HeaderProtocolVersion: c.version, mcp.HeaderSessionID: "AAAAAAAAAAAAAAAAAAAAAAAAAA"} // of an earlier version, ignored
		if got := edgetest.Do(t, w.Request(t, c.method, h, nil)); got.StatusCode != c.status || got.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: status %d, Allow %q", c.method, c.version, got.StatusCode, got.Header.Get("Allow"))
		}
	}
	r := w.Request(t, http.MethodGet, header{mcp.HeaderProtocolVersion: mcp.Modern}, nil)
	r.Host = "evil.example"
	edgetest.Do(t, r).Refused(t, http.StatusForbidden, mcp.CodeForbidden, "forbidden")
}
