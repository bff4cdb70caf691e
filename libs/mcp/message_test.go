package mcp_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestParseKinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want mcp.Kind
	}{
		"request":                  {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, mcp.Request},
		"request, empty params":    {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, mcp.Request},
		"unknown method":           {`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, mcp.Request},
		"method named \"\"":        {`{"jsonrpc":"2.0","id":1,"method":""}`, mcp.Request},
		"notification":             {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, mcp.Notification},
		"unknown notification":     {`{"jsonrpc":"2.0","method":"notifications/x"}`, mcp.Notification},
		"response":                 {`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, mcp.Response},
		"null result":              {`{"jsonrpc":"2.0","id":1,"result":null}`, mcp.Response},
		"error response":           {`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`, mcp.Response},
		"error response, no id":    {`{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`, mcp.Response},
		"unknown members":          {`{"jsonrpc":"2.0","id":1,"method":"ping","x":[{}]}`, mcp.Request},
		"space everywhere":         {" \t\r\n{ \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"ping\" , \"params\" : { } } \n", mcp.Request},
		"every kind of value":      {request(`"arguments":{"a":[true,false,null,-1.5e-3,"x",{},[]]}`), mcp.Request},
		"noncharacters and U+FFFD": {request("\"arguments\":{\"a\":\"\uffff\ufdd0\ufffd\U0010ffff\x7f\"}"), mcp.Request},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m := accept(t, c.in); m.Kind != c.want {
				t.Errorf("kind %v, want %v", m.Kind, c.want)
			}
		})
	}
}

func TestParseReadsParams(t *testing.T) {
	t.Parallel()
	m := accept(t, request(`"name":"a\u0062\n\t\b\f\r\"\\\/😀\ud83d\ude00é","uri":"file:///x","cursor":"","arguments":{ "x" : 1 },
		"protocolVersion":"2025-06-18","clientInfo":{"name":"c"},"capabilities":{"roots":{}},
		"inputResponses":{"k":{}},"requestState":"s","requestId":"r","reason":"why","level":"info","notifications":{"n":true},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"d"},
			"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/logLevel":"debug","progressToken":7,
			"traceparent":"00-1","tracestate":"a=b","io.github.busbar-mcp/idempotencyKey":"key",
			"a\u0022b": [1, 2],"io.modelcontextprotocol/new":1,"locale":"pl"}`))
	for _, c := range []struct{ name, got, want string }{
		{"name", m.P.Name, "ab\n\t\b\f\r\"\\/😀😀é"},
		{"uri", m.P.URI, "file:///x"},
		{"arguments", string(m.P.Arguments), `{ "x" : 1 }`},
		{"protocolVersion of initialize", m.P.InitVersion, "2025-06-18"},
		{"clientInfo of initialize", string(m.P.InitInfo), `{"name":"c"}`},
		{"capabilities of initialize", string(m.P.InitCapabilities), `{"roots":{}}`},
		{"inputResponses", string(m.P.InputResponses), `{"k":{}}`},
		{"requestState", string(m.P.RequestState), "s"},
		{"requestId", string(m.P.RequestID), `"r"`},
		{"reason", m.P.Reason, "why"},
		{"level", m.P.Level, "info"},
		{"notifications", string(m.P.Notifications), `{"n":true}`},
		{"protocolVersion", m.P.ProtocolVersion, "2026-07-28"},
		{"clientInfo", string(m.P.ClientInfo), `{"name":"d"}`},
		{"clientCapabilities", string(m.P.ClientCapabilities), `{"sampling":{}}`},
		{"logLevel", m.P.LogLevel, "debug"},
		{"progressToken", string(m.P.ProgressToken), "7"},
		{"traceparent", m.P.Traceparent, "00-1"},
		{"tracestate", m.P.Tracestate, "a=b"},
		{"idempotencyKey", m.P.IdempotencyKey, "key"},
		{"other members of _meta", string(m.P.OtherMeta), `{"a\"b":[1, 2],"locale":"pl"}`},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.name, c.got, c.want)
		}
	}
	if m.P.Cursor == nil {
		t.Error("an empty cursor counts as absent")
	}
	if bare := accept(t, request(`"x":{"name":"deep"}`)); bare.P.Cursor != nil || bare.P.Arguments != nil || bare.P.Meta != nil || bare.P.Name != "" {
		t.Errorf("absent members are there: %+v", bare.P)
	}
}

// Members with the same names in other places do not belong to the protocol.
func TestParseReadsOnlyItsOwnPlaces(t *testing.T) {
	t.Parallel()
	m := accept(t, `{"jsonrpc":"2.0","id":1,"name":"top","_meta":{"progressToken":"top"},"method":"tools/call","x":{"params":{"name":"x"}},
		"params":{"arguments":{"name":"inner","_meta":{"progressToken":"inner"},"params":{"name":"inner"}},"x":{"_meta":{"progressToken":"y"}},"y":[{"name":"z"}]}}`)
	if m.P.Name != "" || m.P.ProgressToken != nil {
		t.Errorf("read from another place: %+v", m.P)
	}
	r := accept(t, `{"jsonrpc":"2.0","id":1,"result":{"params":{"name":"x"}}}`)
	if r.P.Name != "" || r.Params != nil || string(r.Result) != `{"params":{"name":"x"}}` {
		t.Errorf("response read as request: %+v", r)
	}
}

// Appending to a slice of a message cannot overwrite the bytes behind it.
func TestParseSlicesAreClipped(t *testing.T) {
	t.Parallel()
	in := []byte(request(`"arguments":{"a":1},"name":"n"`))
	whole := string(in)
	m, err := mcp.Parse(in, mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_ = append(m.P.Arguments, "XXXX"...)
	_ = append(m.ID, "XXXX"...)
	_ = append(m.Params, "XXXX"...)
	if string(in) != whole {
		t.Errorf("appending to a part changed the message: %s", in)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	all := mcp.Supported()
	if all[0] != mcp.Modern || len(all) != 5 {
		t.Errorf("supported: %v", all)
	}
	all[0] = "changed"
	if mcp.Supported()[0] != mcp.Modern {
		t.Error("Supported hands out its own list")
	}
	for v, legacy := range map[string]bool{mcp.V20241105: true, mcp.V20251125: true, mcp.V20260728: false} {
		if !mcp.IsSupported(v) || mcp.IsLegacy(v) != legacy {
			t.Errorf("%s: supported %v, legacy %v", v, mcp.IsSupported(v), mcp.IsLegacy(v))
		}
	}
	for _, v := range []string{"", "1900-01-01", "9999-12-31", "2026-07-28 ", "garbage"} {
		if mcp.IsSupported(v) || mcp.IsLegacy(v) {
			t.Errorf("%q is spoken", v)
		}
	}
}
