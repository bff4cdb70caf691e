package mcp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// request is a tools/call with the given members of params.
func request(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
}

// refuse parses and requires a refusal for which nothing ran.
func refuse(t *testing.T, in string, want fault.Reason) *fault.Error {
	t.Helper()
	m, err := mcp.Parse([]byte(in), mcp.Limits{})
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("accepted as %v, or refused by a foreign error: %v", m.Kind, err)
	}
	if f.Reason != want {
		t.Errorf("reason %s (%s), want %s", f.Reason, f.Message, want)
	}
	if f.Executed != fault.No {
		t.Errorf("executed %q, want no", f.Executed)
	}
	if f.Message == "" {
		t.Error("refused without a word")
	}
	if len(f.Message) > 300 {
		t.Errorf("message of %d bytes echoes the input", len(f.Message))
	}
	return f
}

func accept(t *testing.T, in string) mcp.Message {
	t.Helper()
	m, err := mcp.Parse([]byte(in), mcp.Limits{})
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return m
}

func TestParseRefusesMalformedJSON(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":                          "",
		"blank":                          " \t\r\n",
		"BOM":                            "\xef\xbb\xbf" + request(""),
		"unfinished object":              `{"jsonrpc":"2.0"`,
		"unfinished string":              `{"jsonrpc":"2.0`,
		"unfinished literal":             `{"a":tru`,
		"literal in capitals":            request(`"a":TRUE`),
		"literal runs on":                request(`"a":nullx`),
		"comma before the end of object": request(`"a":1,`),
		"comma before the end of array":  request(`"a":[1,]`),
		"only a comma":                   request(`"a":[,]`),
		"no comma":                       request(`"a":1 "b":2`),
		"no colon":                       request(`"a" 1`),
		"name without quotes":            request(`a:1`),
		"single quotes":                  request(`'a':1`),
		"comment":                        request(`/*x*/"a":1`),
		"NaN":                            request(`"a":NaN`),
		"Infinity":                       request(`"a":-Infinity`),
		"leading zero":                   request(`"a":01`),
		"leading zero after minus":       request(`"a":-012`),
		"plus sign":                      request(`"a":+1`),
		"lone minus":                     request(`"a":-`),
		"point without digits":           request(`"a":1.`),
		"point first":                    request(`"a":.5`),
		"exponent without digits":        request(`"a":1e`),
		"exponent sign without digits":   request(`"a":1e+`),
		"hexadecimal":                    request(`"a":0x10`),
		"closed twice":                   request("") + "}",
		"trailing letter":                request("") + "x",
		"trailing NUL":                   request("") + "\x00",
		"two messages":                   request("") + request(""),
		"two messages on two lines":      request("") + "\r\n" + request(""),
		"form feed as space":             "\f" + request(""),
		"no-break space":                 "\u00a0" + request(""),
		"raw newline in a string":        request("\"a\":\"x\ny\""),
		"raw tab in a string":            request("\"a\":\"x\ty\""),
		"raw NUL in a string":            request("\"a\":\"x\x00y\""),
		"raw control in a name":          request("\"a\x1f\":1"),
		"unknown escape":                 request(`"a":"\x41"`),
		"escape at the end":              `{"a":"\`,
		"short unicode escape":           request(`"a":"\u12"`),
		"unicode escape not hexadecimal": request(`"a":"\u12g4"`),
		"lone high surrogate":            request(`"a":"\ud800"`),
		"lone low surrogate":             request(`"a":"\udc00"`),
		"high surrogate twice":           request(`"a":"\ud800\ud800"`),
		"surrogates swapped":             request(`"a":"\udc00\ud800"`),
		"high surrogate then text":       request(`"a":"\ud800abcdef"`),
		"lone surrogate in a name":       request(`"\ud800":1`),
		"lone surrogate at the end":      `{"a":"\ud800`,
		"stray continuation byte":        request("\"a\":\"\x80\""),
		"truncated sequence":             request("\"a\":\"\xe2\x82\""),
		"overlong slash":                 request("\"a\":\"\xc0\xaf\""),
		"overlong NUL":                   request("\"a\":\"\xc0\x80\""),
		"overlong of three bytes":        request("\"a\":\"\xe0\x80\xaf\""),
		"overlong of four bytes":         request("\"a\":\"\xf0\x80\x80\xaf\""),
		"surrogate in UTF-8":             request("\"a\":\"\xed\xa0\x80\""),
		"surrogate pair in UTF-8":        request("\"a\":\"\xed\xa0\xbd\xed\xb8\x80\""),
		"beyond U+10FFFF":                request("\"a\":\"\xf4\x90\x80\x80\""),
		"byte FF":                        request("\"a\":\"\xff\""),
		"bad UTF-8 in a name":            request("\"\xff\":1"),
		"Latin-1":                        request("\"a\":\"caf\xe9\""),
		"UTF-16":                         "\xff\xfe{\x00}\x00",
		"bad UTF-8 outside strings":      "\xff" + request(""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, in, fault.ParseError)
			refuse(t, strings.ReplaceAll(in, `"a":`, `"arguments":{"a":[{"b":[]}],"c":{}},"a":`), fault.ParseError)
			if err := mcp.Valid([]byte(in), mcp.Limits{}); !fault.Is(err, fault.ParseError) {
				t.Errorf("Valid: %v", err)
			}
		})
	}
}

func TestParseRefusesDuplicateMembers(t *testing.T) {
	t.Parallel()
	many := func(extra string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return b.String() + extra
	}
	for name, in := range map[string]string{
		"method":                        `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`,
		"id":                            `{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`,
		"jsonrpc":                       `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}`,
		"params":                        `{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}`,
		"params.name":                   request(`"name":"a","name":"b"`),
		"params._meta":                  request(`"_meta":{},"_meta":{}`),
		"in _meta":                      request(`"_meta":{"progressToken":1,"progressToken":2}`),
		"in arguments":                  request(`"arguments":{"path":"/safe","path":"/etc"}`),
		"deep in arguments":             request(`"arguments":{"a":[{"b":{"c":1,"d":2,"c":3}}]}`),
		"name in escapes":               request(`"name":"a","n\u0061me":"b"`),
		"both in escapes":               request(`"\u006eame":"a","n\u0061me":"b"`),
		"escaped slash":                 request(`"arguments":{"a/b":1,"a\/b":2}`),
		"surrogate pair in escapes":     request(`"arguments":{"😀":1,"\ud83d\ude00":2}`),
		"hexadecimal in other case":     request(`"arguments":{"\u00AF":1,"\u00af":2}`),
		"empty name":                    request(`"arguments":{"":1,"":2}`),
		"NUL name":                      request(`"arguments":{"a\u0000":1,"a\u0000":2}`),
		"after many members":            request(`"arguments":{` + many(`"k3":1`) + `}`),
		"after many, in escapes":        request(`"arguments":{` + many(`"k3\u0039":1`) + `}`),
		"many, then nested, then again": request(`"arguments":{` + many(`"n":{"k1":1,"x":2},"k1":1`) + `}`),
		"after a nested object":         request(`"arguments":{"a":{"b":1},"a":2}`),
		"in a batch":                    `[{"id":1,"id":2}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, in, fault.ParseError)
		})
	}
	t.Run("same name in different objects is none", func(t *testing.T) {
		t.Parallel()
		accept(t, request(`"name":"a","arguments":{"name":"b","a":{"name":"c"},"b":{"name":"d"},"name2":[{"name":1},{"name":2}]}`))
		accept(t, request(`"arguments":{`+many(`"n":{`+many(`"x":1`)+`},"m":{`+many(`"y":1`)+`}`)+`}`))
	})
}

// Names are compared byte for byte: a member that only looks like one of the
// protocol's is a stranger (CVE-2026-27896).
func TestParseComparesNamesExactly(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"Method":        `{"jsonrpc":"2.0","id":1,"Method":"tools/call"}`,
		"METHOD":        `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call"}`,
		"JsonRpc":       `{"JsonRpc":"2.0","id":1,"method":"tools/call"}`,
		"ID":            `{"jsonrpc":"2.0","ID":1,"method":"tools/call"}`,
		"method NUL":    `{"jsonrpc":"2.0","id":1,"method\u0000":"tools/call"}`,
		"method space":  `{"jsonrpc":"2.0","id":1,"method ":"tools/call"}`,
		"ſ for s":       `{"jſonrpc":"2.0","id":1,"method":"tools/call"}`,
		"ſ for s, \\u":  `{"j\u017fonrpc":"2.0","id":1,"method":"tools/call"}`,
		"full-width m":  `{"jsonrpc":"2.0","id":1,"ｍethod":"tools/call"}`,
		"combining dot": `{"jsonrpc":"2.0","i` + "\u0307" + `d":1,"method":"tools/call"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, in, fault.InvalidRequest)
		})
	}
	t.Run("strangers beside the real ones", func(t *testing.T) {
		t.Parallel()
		m := accept(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"x","PARAMS":{"name":"evil"},"paramſ":{"name":"evil"},
			"params":{"name":"good","Name":"evil","NAME":"evil","name\u0000":"evil","name ":"evil","ARGUMENTS":{"a":1},
			"_META":{"progressToken":"evil"},"_meta":{"ProgressToken":"evil","progressTo\u212aen":"evil","progressToKen":"evil"}}}`)
		if m.Method != "tools/call" || m.P.Name != "good" || m.P.Arguments != nil || m.P.ProgressToken != nil {
			t.Errorf("read from a stranger: %q %+v", m.Method, m.P)
		}
	})
	t.Run("escapes spell the same name", func(t *testing.T) {
		t.Parallel()
		m := accept(t, `{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools\/call","p\u0061rams":{"n\u0061me":"\u0061dd","_m\u0065ta":{"progressTok\u0065n":"t"}}}`)
		if m.Method != "tools/call" || m.P.Name != "add" || string(m.P.ProgressToken) != `"t"` {
			t.Errorf("got %q %+v", m.Method, m.P)
		}
	})
}

func TestParseRefusesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"batch":                       `[` + request("") + `]`,
		"empty batch":                 `[]`,
		"batch with space":            "\n [ ]",
		"number":                      `1`,
		"string":                      `"tools/call"`,
		"null":                        `null`,
		"empty object":                `{}`,
		"jsonrpc missing":             `{"id":1,"method":"ping"}`,
		"jsonrpc 1.0":                 `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		"jsonrpc as number":           `{"jsonrpc":2.0,"id":1,"method":"ping"}`,
		"jsonrpc null":                `{"jsonrpc":null,"id":1,"method":"ping"}`,
		"jsonrpc 2":                   `{"jsonrpc":"2","id":1,"method":"ping"}`,
		"method missing":              `{"jsonrpc":"2.0","id":1}`,
		"method null":                 `{"jsonrpc":"2.0","id":1,"method":null}`,
		"method number":               `{"jsonrpc":"2.0","id":1,"method":7}`,
		"method object":               `{"jsonrpc":"2.0","id":1,"method":{"name":"ping"}}`,
		"method and result":           `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`,
		"method and error":            `{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}`,
		"result and error":            `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`,
		"result and params":           `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`,
		"result without id":           `{"jsonrpc":"2.0","result":{}}`,
		"notification with id":        `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`,
		"tools/call without id":       `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}`,
		"long method without id":      `{"jsonrpc":"2.0","method":"` + strings.Repeat("ü", 5000) + `"}`,
		"long notification with id":   `{"jsonrpc":"2.0","id":1,"method":"notifications/` + strings.Repeat("x", 5000) + `"}`,
		"method number, bad params":   `{"jsonrpc":"2.0","id":1,"method":7,"params":[]}`,
		"bad params, method number":   `{"jsonrpc":"2.0","id":1,"params":[],"method":7}`,
		"bad params, jsonrpc missing": `{"id":1,"method":"ping","params":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := refuse(t, in, fault.InvalidRequest)
			if strings.ToValidUTF8(f.Message, "?") != f.Message {
				t.Errorf("message is not UTF-8: %q", f.Message)
			}
		})
	}
}

func TestParseRefusesParamsOfAnotherType(t *testing.T) {
	t.Parallel()
	cases := map[string]string{}
	for _, v := range []string{"null", "[]", `"x"`, "7", "true"} {
		cases["params "+v] = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + v + `}`
		for _, member := range []string{"arguments", "_meta", "inputResponses", "notifications", "capabilities", "clientInfo"} {
			cases[member+" "+v] = request(`"` + member + `":` + v)
		}
	}
	for _, v := range []string{"null", "[]", "{}", "7", "true"} {
		for _, member := range []string{"name", "uri", "cursor", "requestState", "protocolVersion", "level", "reason"} {
			cases[member+" "+v] = request(`"` + member + `":` + v)
		}
		for _, member := range []string{mcp.MetaProtocolVersion, mcp.MetaLogLevel, mcp.MetaTraceparent, mcp.MetaTracestate, mcp.MetaIdempotencyKey} {
			cases["_meta "+member+" "+v] = request(`"_meta":{"` + member + `":` + v + `}`)
		}
	}
	for _, v := range []string{"null", "[]", "{}", "1.5", "1e3", "-0", "true"} {
		cases["progressToken "+v] = request(`"_meta":{"progressToken":` + v + `}`)
	}
	for _, v := range []string{"null", "[]", `"x"`, "1"} {
		for _, member := range []string{mcp.MetaClientInfo, mcp.MetaClientCapabilities} {
			cases["_meta "+member+" "+v] = request(`"_meta":{"` + member + `":` + v + `}`)
		}
	}
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, in, fault.InvalidParams)
			// The mistake is the client's: its id is known and can be answered.
			if m, _ := mcp.Parse([]byte(in), mcp.Limits{}); string(m.ID) != "1" || m.Kind != mcp.Request {
				t.Errorf("id %q, kind %v", m.ID, m.Kind)
			}
		})
	}
}
