package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// variant is a tools/call of 2026-07-28 with something changed.
type variant struct {
	name    string
	headers []header // replace the right ones; an empty value takes one away
	// body replaces the right one; KEY stands for the key.
	body   string
	status int
	code   int // 0: the call runs
	reason string
}

func encoded(s string) string {
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func version(v string) string { return strings.ReplaceAll(withID("1"), modern, v) }

var variants = []variant{
	{name: "as it should be", status: 200},

	// Mcp-Method.
	{"Mcp-Method missing", []header{{"Mcp-Method", ""}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Method wrong", []header{{"Mcp-Method", "tools/list"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Method in other case", []header{{"Mcp-Method", "Tools/Call"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Method twice", []header{{"Mcp-Method", "tools/call"}, {"Mcp-Method", "tools/call"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Method as a list", []header{{"Mcp-Method", "tools/call, tools/call"}}, "", 400, -32020, "header_mismatch"},

	// Mcp-Name.
	{"Mcp-Name missing", []header{{"Mcp-Name", ""}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name wrong", []header{{"Mcp-Name", "echo"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name in other case", []header{{"Mcp-Name", "Append"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name twice", []header{{"Mcp-Name", "append"}, {"Mcp-Name", "append"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name twice, second wrong", []header{{"Mcp-Name", "append"}, {"Mcp-Name", "echo"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name as a list", []header{{"Mcp-Name", "append, echo"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name in base64", []header{{"Mcp-Name", encoded("append")}}, "", 200, 0, ""},
	{"Mcp-Name with space around", []header{{"Mcp-Name", " append\t"}}, "", 200, 0, ""},
	{"Mcp-Name in base64, wrong", []header{{"Mcp-Name", encoded("echo")}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name in bad base64", []header{{"Mcp-Name", "=?base64?YXBw!W5k?="}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name in base64 without padding", []header{{"Mcp-Name", "=?base64?YXBwZW5kMQ?="}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name in base64 that is no UTF-8", []header{{"Mcp-Name", encoded("\xff\xfe")}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name with the marker in capitals", []header{{"Mcp-Name", "=?BASE64?YXBwZW5k?="}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name with the marker unfinished", []header{{"Mcp-Name", "=?base64?YXBwZW5k"}}, "", 400, -32020, "header_mismatch"},
	{"Mcp-Name in raw UTF-8", []header{{"Mcp-Name", "nämé"}}, strings.Replace(withID("1"), `"append"`, `"nämé"`, 1), 400, -32020, "header_mismatch"},
	{"Mcp-Name of an unknown tool", []header{{"Mcp-Name", encoded("nämé")}}, strings.Replace(withID("1"), `"append"`, `"nämé"`, 1), 200, -32602, "unknown_tool"},

	// MCP-Protocol-Version.
	{"version missing", []header{{"MCP-Protocol-Version", ""}}, "", 400, -32020, "header_mismatch"},
	{"version of the other era", []header{{"MCP-Protocol-Version", legacy}}, "", 400, -32020, "header_mismatch"},
	{"version twice", []header{{"MCP-Protocol-Version", modern}, {"MCP-Protocol-Version", modern}}, "", 400, -32020, "header_mismatch"},
	{"version twice, second wrong", []header{{"MCP-Protocol-Version", modern}, {"MCP-Protocol-Version", legacy}}, "", 400, -32020, "header_mismatch"},
	{"1900-01-01", []header{{"MCP-Protocol-Version", "1900-01-01"}}, version("1900-01-01"), 400, -32022, "unsupported_version"},
	{"v999", []header{{"MCP-Protocol-Version", "v999"}}, version("v999"), 400, -32022, "unsupported_version"},
	{"9999-12-31", []header{{"MCP-Protocol-Version", "9999-12-31"}}, version("9999-12-31"), 400, -32022, "unsupported_version"},
	{"v999 in the header alone", []header{{"MCP-Protocol-Version", "v999"}}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append","arguments":{"key":"KEY"}}}`, 400, -32022, "unsupported_version"},

	// _meta.
	{"_meta missing", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append","arguments":{"key":"KEY"}}}`, 400, -32602, "invalid_params"},
	{"_meta without version", nil, strings.Replace(withID("1"), `"io.modelcontextprotocol/protocolVersion":"2026-07-28",`, "", 1), 400, -32602, "invalid_params"},
	{"_meta without capabilities", nil, strings.Replace(withID("1"), `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1), 400, -32602, "invalid_params"},
	{"_meta without client", nil, strings.Replace(withID("1"), `"io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},`, "", 1), 200, 0, ""},
	{"_meta is an array", nil, strings.Replace(withID("1"), metaMember, `"_meta":[]`, 1), 400, -32602, "invalid_params"},
	{"log level unknown", nil, strings.Replace(withID("1"), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"loud",`, 1), 400, -32602, "invalid_params"},
	{"progress token is an object", nil, strings.Replace(withID("1"), `"_meta":{`, `"_meta":{"progressToken":{},`, 1), 400, -32602, "invalid_params"},
	{"capability missing", []header{{"Mcp-Name", "ask"}}, strings.Replace(withID("1"), `"name":"append","arguments":{"key":"KEY"}`, `"name":"ask"`, 1), 400, -32021, "missing_capability"},

	// Methods.
	{"unknown method", []header{{"Mcp-Method", "tools/burn"}}, strings.Replace(withID("1"), "tools/call", "tools/burn", 1), 404, -32601, "method_not_found"},
	{"ping is gone", []header{{"Mcp-Method", "ping"}}, strings.Replace(withID("1"), "tools/call", "ping", 1), 404, -32601, "method_not_found"},
	{"initialize is gone", []header{{"Mcp-Method", "initialize"}}, strings.Replace(withID("1"), "tools/call", "initialize", 1), 404, -32601, "method_not_found"},
	{"a client's response", nil, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, -32600, "invalid_request"},

	// The type of the body.
	{"charset=utf-8", []header{{"Content-Type", "application/json; charset=utf-8"}}, "", 200, 0, ""},
	{"charset=UTF-8 in quotes", []header{{"Content-Type", `application/json;charset="UTF-8"`}}, "", 200, 0, ""},
	{"encoding identity", []header{{"Content-Encoding", "identity"}}, "", 200, 0, ""},
	{"text/plain", []header{{"Content-Type", "text/plain"}}, "", 415, -1, ""},
	{"a form", []header{{"Content-Type", "application/x-www-form-urlencoded"}}, "", 415, -1, ""},
	{"no content type", []header{{"Content-Type", ""}}, "", 415, -1, ""},
	{"two content types", []header{{"Content-Type", "application/json"}, {"Content-Type", "application/json"}}, "", 415, -1, ""},
	{"charset=utf-16", []header{{"Content-Type", "application/json; charset=utf-16"}}, "", 415, -1, ""},
	{"encoding gzip", []header{{"Content-Encoding", "gzip"}}, "", 415, -1, ""},
	{"encoding gzip behind identity", []header{{"Content-Encoding", "identity"}, {"Content-Encoding", "gzip"}}, "", 415, -1, ""},

	// The types that the client accepts.
	{"Accept JSON alone", []header{{"Accept", "application/json"}}, "", 200, 0, ""},
	{"Accept stream alone", []header{{"Accept", "text/event-stream"}}, "", 200, 0, ""},
	{"Accept anything", []header{{"Accept", "*/*"}}, "", 200, 0, ""},
	{"Accept with weights", []header{{"Accept", "text/event-stream;q=0.5, application/json"}}, "", 200, 0, ""},
	{"no Accept", []header{{"Accept", ""}}, "", 200, 0, ""},
	{"Accept neither", []header{{"Accept", "text/html"}}, "", 406, -1, ""},

	// The origin: pages in a browser, and names that lead here.
	{"Origin of this machine", []header{{"Origin", "http://localhost:6274"}}, "", 200, 0, ""},
	{"Origin evil", []header{{"Origin", "https://evil.example"}}, "", 403, 1403, "forbidden"},
	{"Origin null", []header{{"Origin", "null"}}, "", 403, 1403, "forbidden"},
	{"Origin localhost.evil", []header{{"Origin", "http://localhost.evil"}}, "", 403, 1403, "forbidden"},
	{"Origin with localhost for a user", []header{{"Origin", "http://localhost@evil.example"}}, "", 403, 1403, "forbidden"},
	{"Origin with a user", []header{{"Origin", "http://evil@localhost"}}, "", 403, 1403, "forbidden"},
	{"Origin [::1]garbage", []header{{"Origin", "http://[::1]garbage"}}, "", 403, 1403, "forbidden"},
	{"Origin with a path", []header{{"Origin", "http://localhost/evil"}}, "", 403, 1403, "forbidden"},
	{"Origin file", []header{{"Origin", "file://localhost"}}, "", 403, 1403, "forbidden"},
	{"Origin twice", []header{{"Origin", "http://localhost"}, {"Origin", "https://evil.example"}}, "", 403, 1403, "forbidden"},
	{"Host localhost", []header{{"Host", "localhost:1"}}, "", 200, 0, ""},
	{"Host [::1]", []header{{"Host", "[::1]:8000"}}, "", 200, 0, ""},
	{"Host evil", []header{{"Host", "evil.example"}}, "", 403, 1403, "forbidden"},
	{"Host localhost.evil", []header{{"Host", "localhost.evil:8000"}}, "", 403, 1403, "forbidden"},
	{"Host 127.0.0.1.evil", []header{{"Host", "127.0.0.1.evil"}}, "", 403, 1403, "forbidden"},

	// An older client's headers mean nothing here.
	{"session and last event", []header{{"Mcp-Session-Id", "unknown"}, {"Last-Event-ID", "7"}}, "", 200, 0, ""},
}

// TestModernHTTP posts calls of 2026-07-28 with one thing changed.
func TestModernHTTP(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			body := v.body
			if body == "" {
				body = withID("1")
			}
			r := send(t, post(t, e.mcp, strings.ReplaceAll(body, "KEY", v.name), append(modernHeadersWithout(v.headers), v.headers...)...))
			ran := 0
			switch v.code {
			case 0:
				ran = 1
				if r.status != http.StatusOK || r.message.Error != nil || r.message.isError() {
					t.Errorf("refused with %d: %s", r.status, clip(r.body))
				}
			case -1: // the specification leaves the body to us
				if r.status != v.status {
					t.Errorf("answered %d, want %d: %s", r.status, v.status, clip(r.body))
				}
			default:
				checkRefused(t, r, v.status, v.code, v.reason)
			}
			if r.header.Get("Mcp-Session-Id") != "" {
				t.Error("a session id was given out")
			}
			if v.reason == "unsupported_version" {
				data := r.message.Error.Data
				if !slices.Contains(data.Supported, modern) || !slices.Contains(data.Supported, legacy) || data.Requested == "" {
					t.Errorf("does not say which versions there are: %s", r.body)
				}
			}
			if n := e.ledger.Runs(v.name); n != ran {
				t.Errorf("it ran %d times, want %d", n, ran)
			}
		})
	}
}

// modernHeadersWithout are the right headers but for those a test replaces.
func modernHeadersWithout(replaced []header) []header {
	return slices.DeleteFunc(modernHeaders("tools/call", "append"), func(h header) bool {
		return slices.ContainsFunc(replaced, func(r header) bool { return strings.EqualFold(r.name, h.name) })
	})
}

// TestParameterHeaders calls a tool with a schema that mirrors parameters into headers.
func TestParameterHeaders(t *testing.T) {
	e := testEdge.Use(t)
	t.Parallel()
	for _, c := range []struct {
		name, arguments string
		headers         []header
		fine            bool
	}{
		{"none", ``, nil, true},
		{"string", `"region":"us-west1",`, []header{{"Mcp-Param-Region", "us-west1"}}, true},
		{"other case of the name", `"region":"us-west1",`, []header{{"MCP-PARAM-REGION", "us-west1"}}, true},
		{"missing", `"region":"us-west1",`, nil, false},
		{"wrong", `"region":"us-west1",`, []header{{"Mcp-Param-Region", "eu"}}, false},
		{"other case of the value", `"region":"us-west1",`, []header{{"Mcp-Param-Region", "US-WEST1"}}, false},
		{"twice", `"region":"us-west1",`, []header{{"Mcp-Param-Region", "us-west1"}, {"Mcp-Param-Region", "us-west1"}}, false},
		{"without the argument", ``, []header{{"Mcp-Param-Region", "us-west1"}}, false},
		{"base64", `"region":"Hello, 世界",`, []header{{"Mcp-Param-Region", "=?base64?SGVsbG8sIOS4lueVjA==?="}}, true},
		{"base64 of spaces", `"region":" padded ",`, []header{{"Mcp-Param-Region", "=?base64?IHBhZGRlZCA=?="}}, true},
		{"base64 of a line end", `"region":"line1\nline2",`, []header{{"Mcp-Param-Region", "=?base64?bGluZTEKbGluZTI=?="}}, true},
		{"base64 of what looks like it", `"region":"=?base64?literal?=",`, []header{{"Mcp-Param-Region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}}, true},
		{"what looks like base64", `"region":"=?base64?literal?=",`, []header{{"Mcp-Param-Region", "=?base64?literal?="}}, false},
		{"raw UTF-8", `"region":"世界",`, []header{{"Mcp-Param-Region", "世界"}}, false},
		{"bad base64", `"region":"us-west1",`, []header{{"Mcp-Param-Region", "=?base64?***?="}}, false},
		{"integer", `"shard":42,`, []header{{"Mcp-Param-Shard", "42"}}, true},
		{"integer by value", `"shard":42,`, []header{{"Mcp-Param-Shard", "42.0"}}, true},
		{"integer, other", `"shard":42,`, []header{{"Mcp-Param-Shard", "43"}}, false},
		{"integer, no number", `"shard":42,`, []header{{"Mcp-Param-Shard", "forty-two"}}, false},
		{"boolean", `"dry":true,`, []header{{"Mcp-Param-Dry-Run", "true"}}, true},
		{"boolean, other", `"dry":true,`, []header{{"Mcp-Param-Dry-Run", "false"}}, false},
		{"boolean in capitals", `"dry":true,`, []header{{"Mcp-Param-Dry-Run", "TRUE"}}, false},
		{"nested", `"inner":{"zone":"a"},`, []header{{"Mcp-Param-Zone", "a"}}, true},
		{"nested, missing", `"inner":{"zone":"a"},`, nil, false},
		{"of no parameter", ``, []header{{"Mcp-Param-Unknown", "x"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := "parameter " + c.name
			body := modernBody("1", "tools/call", fmt.Sprintf(`"name":"region","arguments":{%s"key":%s},`, c.arguments, quoted(key)), "")
			r := send(t, post(t, e.mcp, body, append(modernHeaders("tools/call", "region"), c.headers...)...))
			ran := 0
			if c.fine {
				ran = 1
				if r.message.Error != nil {
					t.Error(r.message.Error)
				}
			} else {
				checkRefused(t, r, 400, -32020, "header_mismatch")
			}
			if n := e.ledger.Runs(key); n != ran {
				t.Errorf("it ran %d times, want %d", n, ran)
			}
		})
	}
	t.Run("null", func(t *testing.T) {
		// No header is expected; what the schema says of null is another matter.
		body := modernBody("1", "tools/call", `"name":"region","arguments":{"key":"null","region":null},`, "")
		if e := send(t, post(t, e.mcp, body, modernHeaders("tools/call", "region")...)).message.Error; e != nil {
			t.Error(e)
		}
	})
}
