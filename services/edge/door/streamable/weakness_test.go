package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// Mistakes of the official SDK, and the right behaviour: one row per measurement of
// reliability-security.md §2.2. M-34 is TestDisconnectCancelsModern, M-35
// TestSlowReaderIsCut, M-37 in door/stdio, M-38 in libs/mcp.
func TestWeaknesses(t *testing.T) {
	t.Parallel()
	w := start(t)
	safe := modern(mcp.MethodToolsCall, "safe")
	echo := modern(mcp.MethodToolsCall, "echo")
	call := edgetest.Call("1", "safe", "{}")
	withID := func(id string) string { return edgetest.Call(id, "safe", "{}") }
	argument := func(v string) string { return edgetest.Call("1", "echo", `{"a":`+v+`}`) }
	const parse, invalid, params = mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeInvalidParams
	for name, c := range map[string]struct {
		header       header
		body         string
		status, code int
		want         string // text of the result, if it is a result
	}{
		"M-20 evil Origin":               {merge(safe, header{"Origin": "https://evil.example"}), call, 403, mcp.CodeForbidden, ""},
		"M-20 null Origin":               {merge(safe, header{"Origin": "null"}), call, 403, mcp.CodeForbidden, ""},
		"M-21 Base64 name":               {merge(safe, header{"Mcp-Name": "=?base64?c2FmZQ==?="}), call, 200, 0, "safe"},
		"M-21 raw name beyond ASCII":     {merge(safe, header{"Mcp-Name": "säfe"}), edgetest.Call("1", "säfe", "{}"), 400, mcp.CodeHeaderMismatch, ""},
		"M-22 two names":                 {merge(safe, header{"Mcp-Name": "safe\nsafe"}), call, 400, mcp.CodeHeaderMismatch, ""},
		"M-23 name twice":                {safe, strings.Replace(call, `"name":`, `"name":"echo","name":`, 1), 400, parse, ""},
		"M-23 method twice":              {safe, strings.Replace(call, `"method":`, `"method":"tools/list","method":`, 1), 400, parse, ""},
		"M-23 arguments twice":           {safe, strings.Replace(call, `"arguments":`, `"arguments":{},"arguments":`, 1), 400, parse, ""},
		"M-23 a member twice, deep down": {echo, argument(`[{"b":{"c":1,"\u0063":2}}]`), 400, parse, ""},
		"M-24 bytes behind":              {safe, call + "x", 400, parse, ""},
		"M-24 two messages":              {safe, call + call, 400, parse, ""},
		"M-24 blanks behind":             {safe, call + " \r\n", 200, 0, "safe"},
		"M-25 bad UTF-8":                 {echo, argument("\"\xff\""), 400, parse, ""},
		"M-25 overlong UTF-8":            {echo, argument("\"\xc0\xaf\""), 400, parse, ""},
		"M-25 lone surrogate":            {echo, argument(`"\ud800"`), 400, parse, ""},
		"M-25 byte order mark":           {safe, "\xef\xbb\xbf" + call, 400, parse, ""},
		"M-26 id 1.5":                    {safe, withID("1.5"), 400, invalid, ""},
		"M-26 id 2^53+1":                 {safe, withID("9007199254740993"), 400, invalid, ""},
		"M-26 id 2^63":                   {safe, withID("9223372036854775808"), 400, invalid, ""},
		"M-26 id 1e3":                    {safe, withID("1e3"), 400, invalid, ""},
		"M-26 id null":                   {safe, withID("null"), 400, invalid, ""},
		"M-26 id 2^53-1":                 {safe, withID("9007199254740991"), 200, 0, "safe"},
		"M-26 id with escapes":           {safe, withID(`"\u0061\/"`), 200, 0, "safe"},
		"M-27 Method":                    {safe, strings.Replace(call, `"method"`, `"Method"`, 1), 400, invalid, ""},
		"M-27 a response":                {header{mcp.HeaderProtocolVersion: mcp.Modern}, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, invalid, ""},
		"M-28 result and method":         {safe, strings.Replace(call, `"method"`, `"result":{},"method"`, 1), 400, invalid, ""},
		"M-29 not JSON":                  {safe, "hello", 400, parse, ""},
		"M-29 half of it":                {safe, call[:50], 400, parse, ""},
		"M-29 nothing":                   {safe, "", 400, parse, ""},
		"M-29 a string":                  {safe, `"x"`, 400, invalid, ""},
		"M-30 version of the past":       {merge(safe, header{mcp.HeaderProtocolVersion: "1900-01-01"}), strings.Replace(call, mcp.Modern, "1900-01-01", 1), 400, mcp.CodeUnsupportedVersion, ""},
		"M-31 number 1e400":              {modern(mcp.MethodToolsCall, "number"), edgetest.Call("1", "number", `{"n":1e400}`), 400, params, ""},
		"M-31 a million digits":          {echo, argument(strings.Repeat("9", 500_000)), 400, params, ""},
		"M-31 exponent of a billion":     {echo, argument("1e1000000000"), 400, params, ""},
		"M-32 charset":                   {merge(safe, header{"Content-Type": "application/json; charset=utf-16"}), call, 415, 0, ""},
		"M-32 encoding":                  {merge(safe, header{"Content-Encoding": "gzip"}), call, 415, 0, ""},
		"M-33 unknown tool":              {modern(mcp.MethodToolsCall, "nope"), edgetest.Call("1", "nope", "{}"), 200, params, ""},
		"M-33 unknown method":            {modern("x/y", ""), edgetest.Request("1", "x/y", ""), 404, mcp.CodeMethodNotFound, ""},
		"M-33 5 MiB":                     {safe, edgetest.Call("1", "safe", `{"a":"`+strings.Repeat("x", 5<<20)+`"}`), 413, invalid, ""},
		"M-33 text/plain":                {merge(safe, header{"Content-Type": "text/plain"}), call, 415, 0, ""},
		"M-33 batch":                     {safe, "[" + call + "," + call + "]", 400, invalid, ""},
		"M-36 a handler that panics":     {modern(mcp.MethodToolsCall, "panics"), edgetest.Call("1", "panics", "{}"), 200, mcp.CodeInternal, ""},
		"M-36 and the service after it":  {safe, call, 200, 0, "safe"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.post(t, c.header, c.body)
			if r.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %.300s", r.StatusCode, c.status, r.body)
			}
			if c.status == http.StatusUnsupportedMediaType {
				return
			}
			m := r.message(t)
			if m.Code() != c.code || m.Text() != c.want {
				t.Fatalf("code %d, want %d, text %q: %.300s", m.Code(), c.code, m.Text(), r.body)
			}
			if c.code == mcp.CodeInternal {
				return
			}
			if m.Error != nil && m.Error.Data.Executed != "no" {
				t.Errorf("executed %q", m.Error.Data.Executed)
			}
		})
	}
	for name, in := range map[string]string{"id": "9007199254740991", "escaped id": `"\u0061\/"`} {
		t.Run("M-26 echoes "+name, func(t *testing.T) {
			if m := w.post(t, safe, withID(in)).message(t); string(m.ID) != in {
				t.Errorf("id %s, want %s", m.ID, in)
			}
		})
	}
	for _, n := range []string{"9007199254740993", "-0", "1e-400", "0.1000"} {
		t.Run("M-31 number unchanged: "+n, func(t *testing.T) {
			if m := w.post(t, echo, argument(n)).message(t); m.Text() != `{"a":`+n+`}` {
				t.Errorf("the tool got %s", m.Text())
			}
		})
	}
}
