package streamable_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestModernCall(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.call(t, "echo", `{"n": 9007199254740993, "s":"ü"}`)
	m := r.message(t)
	if m.Text() != `{"n": 9007199254740993, "s":"ü"}` {
		t.Errorf("the tool got %s", m.Text())
	}
	if m.Field("resultType") != `"complete"` || m.Field("_meta", mcp.MetaServerInfo, "name") != `"busbar"` {
		t.Errorf("result %s", m.Result)
	}
	if r.Header.Get(mcp.HeaderSessionID) != "" {
		t.Error("a session was made")
	}
}

// Large responses share their room one after another, never at the same time.
func TestLargeAnswersAreTheirOwn(t *testing.T) {
	t.Parallel()
	w := start(t)
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for n := range 8 {
				want := fmt.Sprintf(`{"s":%q}`, strings.Repeat(fmt.Sprintf("%d-%d.", who, n), 4000+100*n))
				if got := w.call(t, "echo", want).answer(t).Text(); got != want {
					t.Errorf("caller %d has %.20s… of %d bytes for %.20s…", who, got, len(got), want)
				}
			}
		})
	}
	wg.Wait()
}

// A service receives the members that the client put into _meta for it, and may put its
// own there.
func TestMetaOfServices(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.post(t, modern(mcp.MethodToolsCall, "echo"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"example.com/a\"b":[1,2],`+
		`"`+mcp.MetaProtocolVersion+`":"`+mcp.Modern+`","`+mcp.MetaClientCapabilities+`":{},"`+mcp.MetaTraceparent+`":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","locale":"pl"}}}`)
	if got := r.message(t).Field("_meta"); !strings.HasPrefix(got, `{"example.com/a\"b":[1,2],"locale":"pl","`+mcp.MetaServerInfo+`":`) {
		t.Errorf("_meta %s", got)
	}
}

func TestModernMethods(t *testing.T) {
	t.Parallel()
	w := start(t)
	complete := `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}`
	for name, c := range map[string]struct {
		method, name, params string
		path, want           string
		cached               string
	}{
		"discover":        {mcp.MethodDiscover, "", "", "supportedVersions", `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, "public"},
		"prompts/get":     {mcp.MethodPromptsGet, "greet", `"name":"greet","arguments":{"who":"Ada"}`, "messages", `[{"role":"user","content":{"type":"text","text":"Hello Ada"}}]`, ""},
		"resources/read":  {mcp.MethodResourcesRead, "note:///by/7", `"uri":"note:///by/7"`, "contents", `[{"uri":"note:///by/7","mimeType":"text/plain","text":"it is 7"}]`, "private"},
		"complete":        {mcp.MethodComplete, "", complete, "completion", `{"values":["Ada"],"total":1,"hasMore":false}`, ""},
		"templates/list":  {mcp.MethodTemplatesList, "", "", "resourceTemplates", `[{"uriTemplate":"note:///by/{id}","name":"by id"}]`, "public"},
		"prompts/list":    {mcp.MethodPromptsList, "", "", "prompts", `[{"name":"greet","arguments":[{"name":"who","required":true}]}]`, "public"},
		"a failing tool":  {mcp.MethodToolsCall, "fails", `"name":"fails"`, "content", `[{"type":"text","text":"no such city"}]`, ""},
		"input required":  {mcp.MethodToolsCall, "ask", `"name":"ask"`, "resultType", `"input_required"`, ""},
		"input answered":  {mcp.MethodToolsCall, "ask", `"name":"ask","inputResponses":{"name":{"action":"decline"}}`, "content", `[{"type":"text","text":"decline"}]`, ""},
		"arguments amiss": {mcp.MethodToolsCall, "strict", `"name":"strict","arguments":{"text":1}`, "isError", "true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.post(t, modern(c.method, c.name), edgetest.Request(`"ä\/"`, c.method, c.params))
			m := r.message(t)
			if r.StatusCode != http.StatusOK || m.Error != nil {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
			if string(m.ID) != `"ä\/"` {
				t.Errorf("id %s", m.ID)
			}
			if got := m.Field(c.path); got != c.want {
				t.Errorf("%s is %s, want %s", c.path, got, c.want)
			}
			scope, ttl := m.Field("cacheScope"), m.Field("ttlMs")
			if c.cached == "" && scope+ttl != "" || c.cached != "" && (scope != `"`+c.cached+`"` || ttl == "") {
				t.Errorf("cacheScope %s, ttlMs %s", scope, ttl)
			}
		})
	}
}

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
		"empty _meta":                   {call, meta(""), 400, badParams, "invalid_params"},
		"no version":                    {call, meta(caps), 400, badParams, "invalid_params"},
		"no capabilities":               {call, meta(version), 400, badParams, "invalid_params"},
		"capabilities null":             {call, meta(version + `,"` + mcp.MetaClientCapabilities + `":null`), 400, badParams, "invalid_params"},
		"capabilities of wrong type":    {call, meta(version + `,"` + mcp.MetaClientCapabilities + `":[]`), 400, badParams, "invalid_params"},
		"client info of wrong type":     {call, meta(version + `,` + caps + `,"` + mcp.MetaClientInfo + `":"x"`), 400, badParams, "invalid_params"},
		"unknown log level":             {call, meta(version + `,` + caps + `,"` + mcp.MetaLogLevel + `":"loud"`), 400, badParams, "invalid_params"},
		"progress token a float":        {call, meta(version + `,` + caps + `,"progressToken":1.5`), 400, badParams, "invalid_params"},
		"discover without _meta":        {modern(mcp.MethodDiscover, ""), edgetest.Legacy("1", mcp.MethodDiscover, ""), 400, badParams, "invalid_params"},
		"unknown method":                {modern("tools/destroy", ""), edgetest.Request("1", "tools/destroy", ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"ping, which is gone":           {modern(mcp.MethodPing, ""), edgetest.Request("1", mcp.MethodPing, ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"initialize, gone too":          {modern(mcp.MethodInitialize, ""), edgetest.Request("1", mcp.MethodInitialize, ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"setLevel, gone too":            {modern(mcp.MethodSetLevel, ""), edgetest.Request("1", mcp.MethodSetLevel, ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"method of other case":          {modern("Tools/list", ""), edgetest.Request("1", "Tools/list", ""), 404, mcp.CodeMethodNotFound, "method_not_found"},
		"unknown tool":                  {modern(mcp.MethodToolsCall, "nope"), edgetest.Call("1", "nope", "{}"), 200, badParams, "unknown_tool"},
		"tool of other case":            {modern(mcp.MethodToolsCall, "Safe"), edgetest.Call("1", "Safe", "{}"), 200, badParams, "unknown_tool"},
		"unknown prompt":                {modern(mcp.MethodPromptsGet, "nope"), edgetest.Request("1", mcp.MethodPromptsGet, `"name":"nope"`), 200, badParams, "unknown_prompt"},
		"unknown resource":              {modern(mcp.MethodResourcesRead, "note:///no"), edgetest.Request("1", mcp.MethodResourcesRead, `"uri":"note:///no"`), 200, badParams, "unknown_resource"},
		"forged cursor":                 {modern(mcp.MethodToolsList, ""), edgetest.Request("1", mcp.MethodToolsList, `"cursor":"AAAA"`), 400, badParams, "invalid_params"},
		"params an array":               {modern(mcp.MethodToolsList, ""), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, 400, badParams, "invalid_params"},
		"arguments an array":            {call, edgetest.Call("1", "safe", "[]"), 400, badParams, "invalid_params"},
		"a response":                    {modern("", ""), `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, mcp.CodeInvalidRequest, "invalid_request"},
		"an error response":             {modern("", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, 400, mcp.CodeInvalidRequest, "invalid_request"},
		"listen without filter":         {modern(mcp.MethodListen, ""), edgetest.Request("1", mcp.MethodListen, ""), 400, badParams, "invalid_params"},
		"listen, filter a list":         {modern(mcp.MethodListen, ""), edgetest.Request("1", mcp.MethodListen, `"notifications":["tools"]`), 400, badParams, "invalid_params"},
		"listen, filter of wrong types": {modern(mcp.MethodListen, ""), edgetest.Request("1", mcp.MethodListen, `"notifications":{"toolsListChanged":1}`), 400, badParams, "invalid_params"},
		"completion of nothing":         {modern(mcp.MethodComplete, ""), edgetest.Request("1", mcp.MethodComplete, ""), 400, badParams, "invalid_params"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m := w.post(t, c.header, c.body).refused(t, c.status, c.code, c.reason); string(m.ID) != "1" {
				t.Errorf("id %q", m.ID)
			}
		})
	}
	t.Cleanup(func() {
		if n := w.svc.Calls.Load(); n != 0 {
			t.Errorf("%d calls ran", n)
		}
	})
}

// A tool that needs a capability that the client did not declare says which.
func TestModernMissingCapability(t *testing.T) {
	t.Parallel()
	w := start(t)
	body := strings.Replace(edgetest.Call("1", "ask", "{}"), `{"elicitation":{}}`, `{}`, 1)
	m := w.post(t, modern(mcp.MethodToolsCall, "ask"), body).refused(t, 400, mcp.CodeMissingCapability, "missing_capability")
	if string(m.Error.Data.Capabilities) != `{"elicitation":{}}` {
		t.Errorf("requiredCapabilities %s", m.Error.Data.Capabilities)
	}
}

func TestModernNotifications(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		header header
		body   string
	}{
		"with headers":    {modern(mcp.NotifyCancelled, ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		"no Mcp-Method":   {header{mcp.HeaderProtocolVersion: mcp.Modern}, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		"unknown":         {header{mcp.HeaderProtocolVersion: mcp.Modern}, `{"jsonrpc":"2.0","method":"notifications/made/up"}`},
		"version in body": {header{}, `{"jsonrpc":"2.0","method":"notifications/x","params":{` + edgetest.Meta("") + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := w.post(t, c.header, c.body); r.StatusCode != http.StatusAccepted || len(r.body) != 0 {
				t.Errorf("status %d: %s", r.StatusCode, r.body)
			}
		})
	}
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, c := range []struct {
		method, version string
		status          int
		allow           string
	}{
		{"GET", mcp.Modern, 405, "POST"}, {"DELETE", mcp.Modern, 405, "POST"}, {"PUT", mcp.Modern, 405, "POST"},
		{"PUT", mcp.V20251125, 405, "POST, GET, DELETE"}, {"PATCH", "", 405, "POST, GET, DELETE"}, {"OPTIONS", "", 405, "POST, GET, DELETE"}, {"HEAD", "", 405, "POST, GET, DELETE"},
		{"GET", mcp.V20251125, 400, ""}, {"DELETE", mcp.V20251125, 400, ""},
	} {
		t.Run(c.method+" "+c.version, func(t *testing.T) {
			t.Parallel()
			h := header{mcp.HeaderProtocolVersion: c.version, mcp.HeaderSessionID: absent}
			if c.version == mcp.Modern {
				h[mcp.HeaderSessionID] = "AAAAAAAAAAAAAAAAAAAAAAAAAA" // of an earlier version, ignored
			}
			r := w.request(t.Context(), t, w.http.URL, h, nil)
			r.Method = c.method
			got := w.do(t, r)
			if got.StatusCode != c.status || got.Header.Get("Allow") != c.allow {
				t.Errorf("status %d, Allow %q", got.StatusCode, got.Header.Get("Allow"))
			}
		})
	}
}

// unsized hides the length of a body, so that it is sent in chunks.
type unsized struct{ io.Reader }

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	w := start(t)
	limit := mcp.DefaultLimits().Bytes
	frame := edgetest.Call("1", "safe", `{"a":"","b":""}`)
	// Two strings, each within its own limit, fill the body to any size.
	fill := func(size int) []byte {
		room := size - len(frame)
		body := strings.Replace(frame, `"a":""`, `"a":"`+strings.Repeat("x", room/2)+`"`, 1)
		return []byte(strings.Replace(body, `"b":""`, `"b":"`+strings.Repeat("y", room-room/2)+`"`, 1))
	}
	for name, c := range map[string]struct {
		size   int
		status int
	}{"at the limit": {limit, 200}, "one over": {limit + 1, 413}, "5 MiB": {5 << 20, 413}} {
		for _, kind := range []string{"sized", "chunked"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				var body io.Reader = bytes.NewReader(fill(c.size))
				if kind == "chunked" {
					body = unsized{body}
				}
				r := w.do(t, w.request(t.Context(), t, w.http.URL, modern(mcp.MethodToolsCall, "safe"), body))
				if c.status == 413 {
					r.refused(t, 413, mcp.CodeInvalidRequest, "too_large")
				} else if r.StatusCode != c.status {
					t.Errorf("status %d: %.200s", r.StatusCode, r.body)
				}
			})
		}
	}
}

func TestBodyEndsEarly(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, body := range map[string]string{
		"empty": "", "blank": " ", "half": edgetest.Call("1", "safe", "{}")[:40],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.post(t, modern(mcp.MethodToolsCall, "safe"), body).refused(t, 400, mcp.CodeParseError, "parse_error")
		})
	}
}

// Internal errors are not shown to clients.
func TestErrorsHideWhatIsInside(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, tool := range []string{"broken", "panics"} {
		r := w.call(t, tool, "{}")
		m := r.message(t)
		if m.Code() != mcp.CodeInternal || m.Error.Data.Executed != "unknown" || strings.Contains(string(r.body), "secret") || strings.Contains(string(r.body), "internal:") {
			t.Errorf("%s: %s", tool, r.body)
		}
	}
	if m := w.call(t, "safe", "{}").message(t); m.Text() != "safe" {
		t.Error("the service does not live on")
	}
}
