package mcp_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestParseEchoesIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		`0`, `1`, `-1`, `9007199254740991`, `-9007199254740991`, `""`, `"a"`, `"1"`, `"null"`, `" "`,
		`"\u0061"`, `"\/"`, `"a\\b\"c"`, `"\ud83d\ude00"`, `"😀"`, `"\u0000"`, `"` + strings.Repeat("x", 128) + `"`,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{
				`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`,
				"{\"method\":\"ping\" ,\"id\" :\t" + id + " ,\"jsonrpc\":\"2.0\"}\n",
				`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`,
				`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":1,"message":""}}`,
			} {
				if m := accept(t, in); string(m.ID) != id {
					t.Errorf("id %s came back as %s", id, m.ID)
				}
			}
		})
	}
}

func TestParseRefusesIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		`null`, `true`, `false`, `{}`, `[]`, `[1]`, `{"a":1}`, `1.5`, `1.0`, `1e3`, `1E3`, `-0`, `0.0`, `9007199254740992`, `-9007199254740992`,
		`9007199254740993`, `9223372036854775808`, `18446744073709551616`, `"` + strings.Repeat("x", 129) + `"`, `"` + strings.Repeat("x", 200_000) + `"`,
	} {
		t.Run(id[:min(len(id), 24)], func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{
				`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`,
				`{"jsonrpc":"2.0","id":` + id + `,"method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`,
			} {
				refuse(t, in, fault.InvalidRequest)
				if m, _ := mcp.Parse([]byte(in), mcp.Limits{}); m.ID != nil {
					t.Errorf("refused, yet echoed: %s", m.ID)
				}
			}
		})
	}
}

// An answer can name the request even when it is refused.
func TestParseKeepsIDOfRefusedMessage(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"bad params":        `{"jsonrpc":"2.0","id":"k","method":"tools/call","params":[]}`,
		"id after mistake":  `{"jsonrpc":"2.0","method":"tools/call","params":[],"id":"k"}`,
		"duplicate":         `{"jsonrpc":"2.0","id":"k","method":"tools/call","method":"ping"}`,
		"no method":         `{"jsonrpc":"2.0","id":"k"}`,
		"syntax error":      `{"jsonrpc":"2.0","id":"k","method":}`,
		"too deep":          `{"jsonrpc":"2.0","id":"k","method":"ping","params":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`,
		"number too long":   `{"jsonrpc":"2.0","id":"k","method":"ping","params":{"a":` + strings.Repeat("1", 41) + `}}`,
		"trailing bytes":    `{"jsonrpc":"2.0","id":"k","method":"ping"}x`,
		"wrong jsonrpc":     `{"jsonrpc":"1.0","id":"k","method":"ping"}`,
		"duplicate id, too": `{"jsonrpc":"2.0","id":"k","id":"l","method":"ping"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := mcp.Parse([]byte(in), mcp.Limits{})
			if err == nil || string(m.ID) != `"k"` {
				t.Errorf("id %q, error %v", m.ID, err)
			}
		})
	}
}
