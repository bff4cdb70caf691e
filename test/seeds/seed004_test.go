package seeds

import (
	"testing"
)

// seed004 are the messages of seed 004, which names no version: its client is of
// 2025-06-18, in which arguments that fail the schema are -32602. Where it differs
// from MCP, MCP holds (docs/adr/0006).
var seed004 = []row{
	{name: "initialize", request: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"ancplua","version":"1.0"}}}`,
		want: `{"result": {"protocolVersion": "2025-06-18"}}`},
	{name: "discovery", request: `{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "tools/list"
}`, want: `{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "get_alerts", "description": "…", "inputSchema": {"type": "object", "properties": {}, "required": ["state"]}}]}}`},
	{name: "tool not found", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"filesystem/no_such_tool","arguments":{}}}`,
		want: `{"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Unknown tool: filesystem/no_such_tool", "data": {"reason": "unknown_tool", "executed": "no"}}}`},
	{name: "invalid parameters", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_alerts","arguments":{"state":7}}}`,
		want: `{"error": {"code": -32602, "data": {"parameter": "state", "reason": "invalid_params", "executed": "no"}}}`},
}

func TestSeed004(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) door{
		"stdio":           func(t *testing.T) door { return openPipe(t, nil, started(t, dev).join("edge")...) },
		"streamable HTTP": func(t *testing.T) door { return &streamable{url: started(t, dev).http} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			speak(t, open(t), seed004)
		})
	}
}
