package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// 2026-07-28, streamable-http, Server Validation and Value Encoding.
func TestModernHeadersMustAgreeWithBody(t *testing.T) {
	t.Parallel()
	w := start(t)
	call := edgetest.Call("1", "safe", "{}")
	ok := modern(mcp.MethodToolsCall, "safe")
	read := func(uri string) string { return edgetest.Request("1", mcp.MethodResourcesRead, `"uri":"`+uri+`"`) }
	mirror := func(arguments string) string { return edgetest.Call("1", "mirror", arguments) }
	mirrored := modern(mcp.MethodToolsCall, "mirror")
	for name, c := range map[string]struct {
		header header
		body   string
		agree  bool
	}{
		"all agree":                       {ok, call, true},
		"list needs no name":              {modern(mcp.MethodToolsList, ""), edgetest.Request("1", mcp.MethodToolsList, ""), true},
		"a name where none is needed":     {modern(mcp.MethodToolsList, "x"), edgetest.Request("1", mcp.MethodToolsList, ""), true},
		"method missing":                  {merge(ok, header{"Mcp-Method": absent}), call, false},
		"method of another":               {merge(ok, header{"Mcp-Method": "tools/list"}), call, false},
		"method in another case":          {merge(ok, header{"Mcp-Method": "Tools/Call"}), call, false},
		"method in Base64":                {merge(ok, header{"Mcp-Method": "=?base64?dG9vbHMvY2FsbA==?="}), call, false},
		"method twice":                    {merge(ok, header{"Mcp-Method": "tools/call\ntools/call"}), call, false},
		"method twice in a list":          {merge(ok, header{"Mcp-Method": "tools/call, tools/call"}), call, false},
		"name missing":                    {merge(ok, header{"Mcp-Name": absent}), call, false},
		"name empty":                      {merge(ok, header{"Mcp-Name": ""}), call, false},
		"name of another tool":            {merge(ok, header{"Mcp-Name": "echo"}), call, false},
		"name twice":                      {merge(ok, header{"Mcp-Name": "safe\nsafe"}), call, false},
		"name twice, second differs":      {merge(ok, header{"Mcp-Name": "safe\necho"}), call, false},
		"name with blanks around":         {merge(ok, header{"Mcp-Name": "  safe\t"}), call, true},
		"name under another header name":  {merge(ok, header{"Mcp-Name": absent, "Mcp_name": "safe"}), call, false},
		"header names in another case":    {merge(ok, header{"Mcp-Name": absent, "mcp-nAME": "safe"}), call, true},
		"name in Base64":                  {merge(ok, header{"Mcp-Name": "=?base64?c2FmZQ==?="}), call, true},
		"name in Base64 of another":       {merge(ok, header{"Mcp-Name": "=?base64?ZWNobw==?="}), call, false},
		"name in bad Base64":              {merge(ok, header{"Mcp-Name": "=?base64?c2Fm!?="}), call, false},
		"name in unpadded Base64":         {merge(ok, header{"Mcp-Name": "=?base64?c2FmZQ?="}), call, false},
		"marker in upper case":            {merge(ok, header{"Mcp-Name": "=?BASE64?c2FmZQ==?="}), call, false},
		"uri":                             {modern(mcp.MethodResourcesRead, "note:///one"), read("note:///one"), true},
		"uri missing":                     {modern(mcp.MethodResourcesRead, ""), read("note:///one"), false},
		"uri beyond ASCII":                {modern(mcp.MethodResourcesRead, "note:///ünïcode"), read("note:///ünïcode"), true},
		"uri beyond ASCII, raw":           {merge(ok, header{"Mcp-Method": mcp.MethodResourcesRead, "Mcp-Name": "note:///ünïcode"}), read("note:///ünïcode"), false},
		"uri escaped in the body":         {modern(mcp.MethodResourcesRead, "note:///one"), read(`note:\/\/\/\u006fne`), true},
		"version missing":                 {merge(ok, header{mcp.HeaderProtocolVersion: absent}), call, false},
		"version of the other era":        {merge(ok, header{mcp.HeaderProtocolVersion: mcp.V20251125}), call, false},
		"version twice":                   {merge(ok, header{mcp.HeaderProtocolVersion: mcp.Modern + "\n" + mcp.Modern}), call, false},
		"version with blanks around":      {merge(ok, header{mcp.HeaderProtocolVersion: " " + mcp.Modern + " "}), call, true},
		"param":                           {merge(mirrored, header{"Mcp-Param-Region": "us-west1"}), mirror(`{"region":"us-west1"}`), true},
		"param missing":                   {mirrored, mirror(`{"region":"us-west1"}`), false},
		"param differs":                   {merge(mirrored, header{"Mcp-Param-Region": "eu"}), mirror(`{"region":"us-west1"}`), false},
		"param twice":                     {merge(mirrored, header{"Mcp-Param-Region": "eu\neu"}), mirror(`{"region":"eu"}`), false},
		"param not in arguments":          {merge(mirrored, header{"Mcp-Param-Region": "eu"}), mirror(`{}`), false},
		"param null, header omitted":      {mirrored, mirror(`{"region":null}`), true},
		"param null, header there":        {merge(mirrored, header{"Mcp-Param-Region": "null"}), mirror(`{"region":null}`), false},
		"param beyond ASCII":              {merge(mirrored, header{"Mcp-Param-Region": "=?base64?SGVsbG8sIOS4lueVjA==?="}), mirror(`{"region":"Hello, 世界"}`), true},
		"param beyond ASCII, raw":         {merge(mirrored, header{"Mcp-Param-Region": "Hello, 世界"}), mirror(`{"region":"Hello, 世界"}`), false},
		"param with blanks":               {merge(mirrored, header{"Mcp-Param-Region": "=?base64?IHBhZGRlZCA=?="}), mirror(`{"region":" padded "}`), true},
		"param with a line end":           {merge(mirrored, header{"Mcp-Param-Region": "=?base64?bGluZTEKbGluZTI=?="}), mirror(`{"region":"line1\nline2"}`), true},
		"param that looks encoded":        {merge(mirrored, header{"Mcp-Param-Region": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}), mirror(`{"region":"=?base64?literal?="}`), true},
		"param that looks encoded, plain": {merge(mirrored, header{"Mcp-Param-Region": "=?base64?literal?="}), mirror(`{"region":"=?base64?literal?="}`), false},
		"integer":                         {merge(mirrored, header{"Mcp-Param-Size": "42"}), mirror(`{"size":42}`), true},
		"integer, compared as a number":   {merge(mirrored, header{"Mcp-Param-Size": "42.0"}), mirror(`{"size":42}`), true},
		"integer differs":                 {merge(mirrored, header{"Mcp-Param-Size": "43"}), mirror(`{"size":42}`), false},
		"integers beyond double":          {merge(mirrored, header{"Mcp-Param-Size": "9007199254740992"}), mirror(`{"size":9007199254740993}`), false},
		"boolean":                         {merge(mirrored, header{"Mcp-Param-Dry": "true"}), mirror(`{"dry":true}`), true},
		"boolean in another case":         {merge(mirrored, header{"Mcp-Param-Dry": "True"}), mirror(`{"dry":true}`), false},
		"unknown param header":            {merge(mirrored, header{"Mcp-Param-Other": "x\ny"}), mirror(`{}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.post(t, c.header, c.body)
			if !c.agree {
				if m := r.refused(t, http.StatusBadRequest, mcp.CodeHeaderMismatch, "header_mismatch"); string(m.ID) != "1" {
					t.Errorf("id %s", m.ID)
				}
				return
			}
			if m := r.message(t); r.StatusCode != http.StatusOK || m.Error != nil {
				t.Errorf("status %d: %s", r.StatusCode, r.body)
			}
		})
	}
}

func TestHeaderMismatchRunsNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, h := range []header{modern(mcp.MethodToolsCall, "echo"), modern(mcp.MethodToolsList, "safe"), merge(modern(mcp.MethodToolsCall, "safe"), header{"Mcp-Name": "safe\nsafe"})} {
		w.post(t, h, edgetest.Call("1", "safe", "{}")).refused(t, http.StatusBadRequest, mcp.CodeHeaderMismatch, "header_mismatch")
	}
	if n := w.svc.Calls.Load(); n != 0 {
		t.Errorf("%d calls ran", n)
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
		"modern":                            {mcp.Modern, in(mcp.Modern), served, true},
		"2025-11-25":                        {mcp.V20251125, bare, served, false},
		"2025-06-18":                        {mcp.V20250618, bare, served, false},
		"2025-03-26":                        {mcp.V20250326, bare, served, false},
		"2024-11-05":                        {mcp.V20241105, bare, served, false},
		"none, as before 2025-06-18":        {absent, bare, served, false},
		"empty":                             {"", bare, served, false},
		"from the past":                     {"1900-01-01", in("1900-01-01"), unsupported, true},
		"from the future":                   {"9999-12-31", in("9999-12-31"), unsupported, true},
		"unknown in the header alone":       {"1900-01-01", bare, unsupported, true},
		"garbage":                           {"<script>", bare, unsupported, true},
		"a list":                            {mcp.Modern + ", " + mcp.V20251125, bare, unsupported, true},
		"beginning of one":                  {"2026-07", bare, unsupported, true},
		"modern in the body alone":          {absent, in(mcp.Modern), mismatch, true},
		"unknown in the body alone":         {absent, in("1900-01-01"), mismatch, true},
		"legacy header, modern body":        {mcp.V20251125, in(mcp.Modern), mismatch, true},
		"modern header, legacy body":        {mcp.Modern, in(mcp.V20251125), mismatch, true},
		"unknown header, modern body":       {"1900-01-01", in(mcp.Modern), mismatch, true},
		"two unknown ones that differ, too": {"1900-01-01", in("1900-01-02"), mismatch, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.post(t, header{mcp.HeaderProtocolVersion: c.header, mcp.HeaderMethod: "tools/list"}, c.body)
			m := r.message(t)
			if m.Code() != c.code {
				t.Fatalf("code %d: %s", m.Code(), r.body)
			}
			switch c.code {
			case served:
				if is := m.Field("resultType") != ""; is != c.modern {
					t.Errorf("modern %v: %s", is, r.body)
				}
			case unsupported:
				r.refused(t, http.StatusBadRequest, c.code, "unsupported_version")
				if got := strings.Join(m.Error.Data.Supported, " "); got != strings.Join(mcp.Supported(), " ") {
					t.Errorf("supported: %s", got)
				}
				if m.Error.Data.Requested != c.header {
					t.Errorf("requested: %q", m.Error.Data.Requested)
				}
			default:
				r.refused(t, http.StatusBadRequest, c.code, "header_mismatch")
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
		"plain":               {header{}, 200},
		"charset":             {header{"Content-Type": "application/json; charset=utf-8"}, 200},
		"charset, upper case": {header{"Content-Type": `Application/JSON; Charset="UTF-8"`}, 200},
		"identity":            {header{"Content-Encoding": "identity"}, 200},
		"missing":             {header{"Content-Type": absent}, 415},
		"empty":               {header{"Content-Type": ""}, 415},
		"twice":               {header{"Content-Type": "application/json\napplication/json"}, 415},
		"text":                {header{"Content-Type": "text/plain"}, 415},
		"form":                {header{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		"multipart":           {header{"Content-Type": "multipart/form-data; boundary=x"}, 415},
		"JSON-RPC":            {header{"Content-Type": "application/json-rpc"}, 415},
		"UTF-16":              {header{"Content-Type": "application/json; charset=utf-16"}, 415},
		"ISO 8859-1":          {header{"Content-Type": "application/json; charset=iso-8859-1"}, 415},
		"malformed":           {header{"Content-Type": "application/json; charset"}, 415},
		"gzip":                {header{"Content-Encoding": "gzip"}, 415},
		"br":                  {header{"Content-Encoding": "br"}, 415},
		"gzip behind":         {header{"Content-Encoding": "identity\ngzip"}, 415},
		"list":                {header{"Content-Encoding": "identity, gzip"}, 415},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.post(t, merge(modern(mcp.MethodToolsCall, "echo"), c.header), edgetest.Call("1", "echo", "{}"))
			if r.StatusCode != c.status {
				t.Errorf("status %d: %s", r.StatusCode, r.body)
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
		"both":                {"application/json, text/event-stream", 200, false},
		"both, with weights":  {"application/json;q=0.9, text/event-stream;q=0.8", 200, false},
		"both, in two fields": {"application/json\ntext/event-stream", 200, false},
		"JSON":                {"application/json", 200, false},
		"JSON, upper case":    {"APPLICATION/JSON", 200, false},
		"events":              {"text/event-stream", 200, true},
		"anything":            {"*/*", 200, false},
		"any application":     {"application/*", 200, false},
		"any text":            {"text/*", 200, true},
		"none given":          {absent, 200, false},
		"HTML":                {"text/html", 406, false},
		"XML and images":      {"application/xml, image/*", 406, false},
		"empty":               {"", 406, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.post(t, merge(modern(mcp.MethodToolsCall, "echo"), header{"Accept": c.accept}), edgetest.Call("1", "echo", "{}"))
			if r.StatusCode != c.status {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
			if ct := r.Header.Get("Content-Type"); c.status == 200 && (ct == "text/event-stream") != c.stream {
				t.Errorf("Content-Type %s", ct)
			}
		})
	}
}
