package e2e

import (
	"fmt"
	"strings"
)

// refused is a message that must be refused before anything runs, over every
// transport. KEY in the body stands for a key of its own, by which the test
// sees that nothing ran.
type refused struct {
	name, body string
	status     int
	code       int
	reason     string
}

// appendCall is a tools/call that would run, with places for the mistake: members before method,
// and further arguments.
func appendCall(before, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":"tools/call","params":{"name":"append","arguments":{%s"key":"KEY"},%s}}`, before, arguments, metaMember)
}

const metaMember = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// withID is a good call with an id as written.
func withID(id string) string { return appendCall(`"id":`+id+`,`, "") }

const (
	parse   = -32700
	invalid = -32600
	params  = -32602
)

// corpus is section A of the catalogue: JSON and JSON-RPC.
func corpus() []refused {
	good := withID("1")
	cut := func(s string) string { return s[:len(s)-1] }
	return []refused{
		{"empty object", `{}`, 400, invalid, "invalid_request"},
		{"not JSON", `hello`, 400, parse, "parse_error"},
		{"unfinished", cut(good), 400, parse, "parse_error"},
		{"trailing bytes", good + `x`, 400, parse, "parse_error"},
		{"two messages", good + good, 400, parse, "parse_error"},
		{"trailing comma", cut(good) + `,}`, 400, parse, "parse_error"},
		{"single quotes", `{'jsonrpc':'2.0'}`, 400, parse, "parse_error"},
		{"comment", `/* */` + good, 400, parse, "parse_error"},
		{"NaN", appendCall(`"id":1,`, `"n":NaN,`), 400, parse, "parse_error"},
		{"leading zero", appendCall(`"id":1,`, `"n":01,`), 400, parse, "parse_error"},
		{"plus sign", appendCall(`"id":1,`, `"n":+1,`), 400, parse, "parse_error"},
		{"byte order mark", "\ufeff" + good, 400, parse, "parse_error"},
		{"raw control character", appendCall(`"id":1,`, "\"n\":\"\x01\","), 400, parse, "parse_error"},
		{"NUL", appendCall(`"id":1,`, "\"n\":\"\x00\","), 400, parse, "parse_error"},
		{"invalid UTF-8", appendCall(`"id":1,`, "\"n\":\"\xff\","), 400, parse, "parse_error"},
		{"overlong UTF-8", appendCall(`"id":1,`, "\"n\":\"\xc0\xaf\","), 400, parse, "parse_error"},
		{"lone surrogate", appendCall(`"id":1,`, `"n":"\ud800",`), 400, parse, "parse_error"},
		{"reversed surrogates", appendCall(`"id":1,`, `"n":"\udc00\ud800",`), 400, parse, "parse_error"},
		{"duplicate method", appendCall(`"id":1,"method":"ping",`, ""), 400, parse, "parse_error"},
		{"duplicate by escape", appendCall(`"id":1,"\u006dethod":"ping",`, ""), 400, parse, "parse_error"},
		{"duplicate name", strings.Replace(good, `"name":"append"`, `"name":"echo","name":"append"`, 1), 400, parse, "parse_error"},
		{"duplicate argument", appendCall(`"id":1,`, `"key":"other",`), 400, parse, "parse_error"},
		{"duplicate deep inside", appendCall(`"id":1,`, `"n":[{"a":{"b":1,"b":2}}],`), 400, parse, "parse_error"},
		{"unfinished nesting", "[[[[[[[[", 400, parse, "parse_error"},

		{"batch", "[" + good + "]", 400, invalid, "invalid_request"},
		{"empty batch", `[]`, 400, invalid, "invalid_request"},
		{"string", `"tools/call"`, 400, invalid, "invalid_request"},
		{"number", `42`, 400, invalid, "invalid_request"},
		{"null", `null`, 400, invalid, "invalid_request"},
		{"Method", strings.Replace(good, `"method"`, `"Method"`, 1), 400, invalid, "invalid_request"},
		{"PARAMS in place of params", strings.Replace(good, `"params"`, `"PARAMS"`, 1), 400, params, "invalid_params"},
		{"long s in place of params", strings.Replace(good, `"params"`, `"param`+"\u017f"+`"`, 1), 400, params, "invalid_params"},
		{"method with NUL behind", strings.Replace(good, `"method"`, `"method\u0000"`, 1), 400, invalid, "invalid_request"},
		{"jsonrpc missing", strings.Replace(good, `"jsonrpc":"2.0",`, "", 1), 400, invalid, "invalid_request"},
		{"jsonrpc 1.0", strings.Replace(good, `"2.0"`, `"1.0"`, 1), 400, invalid, "invalid_request"},
		{"jsonrpc is a number", strings.Replace(good, `"2.0"`, `2.0`, 1), 400, invalid, "invalid_request"},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":7}`, 400, invalid, "invalid_request"},
		{"result and method", appendCall(`"id":1,"result":{},`, ""), 400, invalid, "invalid_request"},
		{"request without id", appendCall("", ""), 400, invalid, "invalid_request"},
		{"notification with id", `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, 400, invalid, "invalid_request"},

		{"id null", withID("null"), 400, invalid, "invalid_request"},
		{"id 1.5", withID("1.5"), 400, invalid, "invalid_request"},
		{"id 1e3", withID("1e3"), 400, invalid, "invalid_request"},
		{"id 2^53+1", withID("9007199254740993"), 400, invalid, "invalid_request"},
		{"id 2^63", withID("9223372036854775808"), 400, invalid, "invalid_request"},
		{"id true", withID("true"), 400, invalid, "invalid_request"},
		{"id object", withID("{}"), 400, invalid, "invalid_request"},
		{"id array", withID("[1]"), 400, invalid, "invalid_request"},
		{"id of 129 bytes", withID(quoted(strings.Repeat("i", 129))), 400, invalid, "invalid_request"},

		{"params null", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`, 400, params, "invalid_params"},
		{"params array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["append"]}`, 400, params, "invalid_params"},
		{"params string", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"append"}`, 400, params, "invalid_params"},
		{"arguments array", strings.Replace(good, `{"key":"KEY"}`, `["KEY"]`, 1), 400, params, "invalid_params"},
		{"arguments string", strings.Replace(good, `{"key":"KEY"}`, `"KEY"`, 1), 400, params, "invalid_params"},
		{"name is a number", strings.Replace(good, `"name":"append"`, `"name":7`, 1), 400, params, "invalid_params"},

		{"65 levels", appendCall(`"id":1,`, `"n":`+nested(63)+`,`), 400, invalid, "invalid_request"},
		{"1001 levels", appendCall(`"id":1,`, `"n":`+nested(1001)+`,`), 400, invalid, "invalid_request"},
		{"100000 levels", appendCall(`"id":1,`, `"n":`+nested(100_000)+`,`), 400, invalid, "invalid_request"},
		{"20001 values", appendCall(`"id":1,`, `"n":[`+strings.Repeat("1,", 20_000)+`1],`), 413, invalid, "too_large"},
		{"1001 members", appendCall(`"id":1,`, `"n":{`+manyMembers(1001)+`},`), 413, invalid, "too_large"},
		{"string of 512 KiB", appendCall(`"id":1,`, `"n":"`+strings.Repeat("x", 513<<10)+`",`), 413, invalid, "too_large"},
		{"number of 41 digits", appendCall(`"id":1,`, `"n":`+strings.Repeat("9", 41)+`,`), 400, params, "invalid_params"},
	}
}

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":1,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}
