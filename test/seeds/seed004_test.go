package seeds

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// seed004 are the messages of seed 004, which names no version: its client speaks 2025-06-18, in
// which arguments that fail the schema are -32602. Where it differs from MCP, MCP holds
// (docs/adr/0006).
var seed004 = []row{
	{name: "initialize", request: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"ancplua","version":"1.0"}}}`,
		want: `{"result": {"protocolVersion": "2025-06-18"}}`},
	{name: "discovery", request: `{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "tools/list"
}`, want: `{
  "jsonrpc": "2.0",
  "id": 1,
  "result": {
    "tools": [
      {
        "name": "filesystem_read",
        "description": "Read contents of a file",
        "inputSchema": {
          "type": "object",
          "properties": {
            "path": { "type": "string" }
          },
          "required": ["path"]
        }
      }
    ]
  }
}`},
	{name: "invocation", request: `{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "tools/call",
  "params": {
    "name": "filesystem/read",
    "arguments": {
      "path": "/path/to/file"
    }
  }
}`, want: `{"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "file contents here"}]}}`},
	{name: "commands", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ci/list","arguments":{}}}`,
		want: `{"result": {"structuredContent": {"commands": [{"root": "main", "name": "test", "run": "echo tested"}], "isolation": "…"}}}`},
	{name: "no way out", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"filesystem/read","arguments":{"path":"../../etc/passwd"}}}`,
		want: `{"result": {"isError": true, "content": [{"type": "text", "text": "…"}]}}`},
	{name: "tool not found", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"filesystem/no_such_tool","arguments":{}}}`,
		want: `{"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Unknown tool: filesystem/no_such_tool", "data": {"reason": "unknown_tool", "executed": "no"}}}`},
	{name: "invalid parameters", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"filesystem/read","arguments":{"path":7}}}`,
		want: `{"error": {"code": -32602, "data": {"parameter": "path", "reason": "invalid_params", "executed": "no"}}}`},
}

func TestSeed004(t *testing.T) {
	t.Parallel()
	// The seed's file is at /path/to/file; a test has one elsewhere.
	rows := slices.Clone(seed004)
	for i := range rows {
		rows[i].request = strings.ReplaceAll(rows[i].request, "/path/to/file", filepath.ToSlash(filepath.Join(the.dir, "work", "path/to/file")))
	}
	for name, open := range map[string]func(t *testing.T) door{
		"stdio":           func(t *testing.T) door { return openPipe(t, nil, started(t, dev).join("edge")...) },
		"streamable HTTP": func(t *testing.T) door { return &streamable{url: started(t, dev).http} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			speak(t, open(t), rows)
		})
	}
}

// The times that seed 004 sets, of the least of some tries: the machine may be busy.
func TestSeed004Times(t *testing.T) {
	t.Parallel()
	d := &streamable{url: started(t, dev).http}
	speak(t, d, seed004[:1])
	least := func(r row, limit time.Duration) time.Duration {
		shortest := answerTime
		for try := 0; try < 50 && shortest > limit; try++ {
			began := time.Now()
			answer, _ := d.send(t, r.request)
			shortest = min(shortest, time.Since(began))
			checkHolds(t, answer, `{"result": {}}`)
		}
		return shortest
	}
	if took := least(seed004[1], 100*time.Millisecond); took > 100*time.Millisecond {
		t.Errorf("discovery took %v", took)
	}
	if took := least(row{request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"analyzeText","arguments":{"text":"One bus. Many circuits."}}}`}, 5*time.Second); took > 5*time.Second {
		t.Errorf("a call took %v", took)
	}
}
