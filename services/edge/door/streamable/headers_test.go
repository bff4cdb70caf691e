package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// 2026-07-28, streamable-http, Server Validation and Value Encoding. libs/mcp tests the encoding,
// libs/schema how parameters are compared, and test/e2e has every variant (TestModernHTTP,
// TestParameterHeaders).
func TestModernHeadersMustAgreeWithBody(t *testing.T) {
	t.Parallel()
	w := start(t)
	call := edgetest.Call("1", "safe", "{}")
	ok := modern(mcp.MethodToolsCall, "safe")
	read := func(uri string) string { return edgetest.Request("1", mcp.MethodResourcesRead, `"uri":"`+uri+`"`) }
	mirror := func(arguments string) string { return edgetest.Call("1", "mirror", arguments) }
	mirrored := modern(mcp.MethodToolsCall, "mirror")
	agree := 0
	t.Cleanup(func() {
		if n := w.Svc.Calls.Load(); n != int64(agree-1) { // the list calls nothing
			t.Errorf("%d calls ran, %d agree", n, agree)
		}
	})
	for name, c := range map[string]struct {
		header header
		body   string
		agree  bool
	}{
		"all agree":                {ok, call, true},
		"list needs no name":       {modern(mcp.MethodToolsList, ""), edgetest.Request("1", mcp.MethodToolsList, ""), true},
		"method missing":           {merge(ok, header{"Mcp-Method": absent}), call, false},
		"method of another":        {merge(ok, header{"Mcp-Method": "tools/list"}), call, false},
		"method twice":             {merge(ok, header{"Mcp-Method": "tools/call\ntools/call"}), call, false},
		"name missing":             {merge(ok, header{"Mcp-Name": absent}), call, false},
		"name of another tool":     {merge(ok, header{"Mcp-Name": "echo"}), call, false},
		"name twice":               {merge(ok, header{"Mcp-Name": "safe\nsafe"}), call, false},
		"name with blanks around":  {merge(ok, header{"Mcp-Name": "  safe\t"}), call, true},
		"name in Base64":           {merge(ok, header{"Mcp-Name": "=?base64?c2FmZQ==?="}), call, true},
		"name in bad Base64":       {merge(ok, header{"Mcp-Name": "=?base64?c2Fm!?="}), call, false},
		"uri":                      {modern(mcp.MethodResourcesRead, "note:///one"), read("note:///one"), true},
		"version missing":          {merge(ok, header{mcp.HeaderProtocolVersion: absent}), call, false},
		"version of the other era": {merge(ok, header{mcp.HeaderProtocolVersion: mcp.V20251125}), call, false},
		"version twice":            {merge(ok, header{mcp.HeaderProtocolVersion: mcp.Modern + "\n" + mcp.Modern}), call, false},
		"param":                    {merge(mirrored, header{"Mcp-Param-Region": "us-west1"}), mirror(`{"region":"us-west1"}`), true},
		"param missing":            {mirrored, mirror(`{"region":"us-west1"}`), false},
		"param differs":            {merge(mirrored, header{"Mcp-Param-Region": "eu"}), mirror(`{"region":"us-west1"}`), false},
		"param twice":              {merge(mirrored, header{"Mcp-Param-Region": "eu\neu"}), mirror(`{"region":"eu"}`), false},
		"param not in arguments":   {merge(mirrored, header{"Mcp-Param-Region": "eu"}), mirror(`{}`), false},
		"integer":                  {merge(mirrored, header{"Mcp-Param-Size": "42"}), mirror(`{"size":42}`), true},
		"unknown param header":     {merge(mirrored, header{"Mcp-Param-Other": "x\ny"}), mirror(`{}`), true},
	} {
		if c.agree {
			agree++
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.Post(t, c.header, c.body)
			if !c.agree {
				if m := r.Refused(t, http.StatusBadRequest, mcp.CodeHeaderMismatch, "header_mismatch"); string(m.ID) != "1" {
					t.Errorf("id %s", m.ID)
				}
				return
			}
			if m := r.Message(t); r.StatusCode != http.StatusOK || m.Error != nil {
				t.Errorf("status %d: %s", r.StatusCode, r.Bytes)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	w := start(t)
	in := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + mcp.MetaProtocolVersion + `":"` + version + `","` + mcp.MetaClientCapabilities + `":{}}}}`
	}
	bare := edgetest.Legacy("1", "tools/list", "")
	const served, unsupported, mismatch = 0, mcp.CodeUnsupportedVersion, mcp.CodeHeaderMismatch
	for name, c := range map[string]struct {
		header, body string
		code         int
		modern       bool
	}{
		"modern":                      {mcp.Modern, in(mcp.Modern), served, true},
		"2025-11-25":                  {mcp.V20251125, bare, served, false},
		"2025-06-18":                  {mcp.V20250618, bare, served, false},
		"2025-03-26":                  {mcp.V20250326, bare, served, false},
		"2024-11-05":                  {mcp.V20241105, bare, served, false},
		"empty":                       {"", bare, served, false},
		"from the past":               {"1900-01-01", in("1900-01-01"), unsupported, true},
		"unknown in the header alone": {"1900-01-01", bare, unsupported, true},
		"a list":                      {mcp.Modern + ", " + mcp.V20251125, bare, unsupported, true},
		"modern in the body alone":    {absent, in(mcp.Modern), mismatch, true},
		"unknown in the body alone":   {absent, in("1900-01-01"), mismatch, true},
		"legacy header, modern body":  {mcp.V20251125, in(mcp.Modern), mismatch, true},
		"modern header, legacy body":  {mcp.Modern, in(mcp.V20251125), mismatch, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.Post(t, header{mcp.HeaderProtocolVersion: c.header, mcp.HeaderMethod: "tools/list"}, c.body)
			m := r.Message(t)
			if m.Code() != c.code {
				t.Fatalf("code %d: %s", m.Code(), r.Bytes)
			}
			switch c.code {
			case served:
				if is := m.Field("resultType") != ""; is != c.modern {
					t.Errorf("modern %v: %s", is, r.Bytes)
				}
			case unsupported:
				r.Refused(t, http.StatusBadRequest, c.code, "unsupported_version")
				if got := strings.Join(m.Error.Data.Supported, " "); got != strings.Join(mcp.Supported(), " ") {
					t.Errorf("supported: %s", got)
				}
				if m.Error.Data.Requested != c.header {
					t.Errorf("requested: %q", m.Error.Data.Requested)
				}
			default:
				r.Refused(t, http.StatusBadRequest, c.code, "header_mismatch")
			}
		})
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		header header
		status int
	}{
		"plain":       {header{}, 200},
		"charset":     {header{"Content-Type": "application/json; charset=utf-8"}, 200},
		"twice":       {header{"Content-Type": "application/json\napplication/json"}, 415},
		"text":        {header{"Content-Type": "text/plain"}, 415},
		"UTF-16":      {header{"Content-Type": "application/json; charset=utf-16"}, 415},
		"gzip":        {header{"Content-Encoding": "gzip"}, 415},
		"gzip behind": {header{"Content-Encoding": "identity\ngzip"}, 415},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.Post(t, merge(modern(mcp.MethodToolsCall, "echo"), c.header), edgetest.Call("1", "echo", "{}"))
			if r.StatusCode != c.status {
				t.Errorf("status %d: %s", r.StatusCode, r.Bytes)
			}
		})
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		accept string
		status int
		stream bool
	}{
		"both":               {"application/json, text/event-stream", 200, false},
		"both, with weights": {"application/json;q=0.9, text/event-stream;q=0.8", 200, false},
		"JSON":               {"application/json", 200, false},
		"events":             {"text/event-stream", 200, true},
		"anything":           {"*/*", 200, false},
		"any text":           {"text/*", 200, true},
		"none given":         {absent, 200, false},
		"empty":              {"", 406, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.Post(t, merge(modern(mcp.MethodToolsCall, "echo"), header{"Accept": c.accept}), edgetest.Call("1", "echo", "{}"))
			if r.StatusCode != c.status {
				t.Fatalf("status %d: %s", r.StatusCode, r.Bytes)
			}
			if ct := r.Header.Get("Content-Type"); c.status == 200 && (ct == "text/event-stream") != c.stream {
				t.Errorf("Content-Type %s", ct)
			}
		})
	}
}
