package mcp_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

var (
	small = []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}}}`)
	large = []byte(request(`"name":"split","arguments":{"text":"` + strings.Repeat("Words, words, words. ", 3<<10) + `"}`))
)

// A call is read without building a tree: only the few strings of the message are allocated.
func TestParseAllocates(t *testing.T) {
	for name, in := range map[string][]byte{"small": small, "64 KiB": large} {
		if n := testing.AllocsPerRun(100, func() { _, _ = mcp.Parse(in, mcp.Limits{}) }); n > 4 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, in := range map[string][]byte{"small": small, "64KiB": large} {
		b.Run(name+"/busbar", func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := mcp.Parse(in, mcp.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		// jsontext only validates here; it finds no members.
		b.Run(name+"/jsontext", func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if !jsontext.Value(in).IsValid() {
					b.Fatal("refused")
				}
			}
		})
	}
}
