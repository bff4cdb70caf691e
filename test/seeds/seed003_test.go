package seeds

import (
	"testing"
)

// seed003 are the messages of seed 003; its client speaks 2025-11-25.
var seed003 = []row{
	{name: "initialize", request: `{ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25", "capabilities": { "sampling": {} }, "clientInfo": { "name": "MyClient", "version": "1.0" } }}`,
		want: `{ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true }, "resources": {}, "prompts": {}, "logging": {} }, "serverInfo": { "name": "…", "version": "…" } }}`},
	{name: "initialized", request: `{ "jsonrpc": "2.0", "method": "notifications/initialized"}`},
	{name: "list tools", request: `{ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}`,
		want: `{ "jsonrpc": "2.0", "id": 1, "result": { "tools": [ { "name": "get_forecast", "title": "…", "description": "…", "inputSchema": { "type": "object" } } ] }}`},
	{name: "call a tool", request: `{ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "get_forecast", "arguments": { "latitude": 40.7128, "longitude": -74.006 }, "_meta": { "progressToken": "token-123" } }}`,
		want:  `{ "jsonrpc": "2.0", "id": 2, "result": { "content": [ { "type": "text", "text": "Tonight:…" } ], "structuredContent": { "periods": [ { "name": "Tonight" } ] } }}`,
		notes: []string{`{ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": "token-123", "progress": 50, "total": 100, "message": "…" }}`}},
	{name: "invalid params", request: `{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {} }`, want: `{ "jsonrpc": "2.0", "id": 1, "error": { "code": -32602, "message": "…" }}`},
	{name: "list resources", request: `{ "jsonrpc": "2.0", "id": 1, "method": "resources/list"}`, want: `{ "result": { "resources": [ { "uri": "weather://logs", "name": "…", "mimeType": "text/plain" } ] }}`},
	{name: "list templates", request: `{ "jsonrpc": "2.0", "id": 1, "method": "resources/templates/list"}`, want: `{ "result": { "resourceTemplates": [ { "uriTemplate": "custom://config/{config_name}" } ] }}`},
	{name: "read a resource", request: `{ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": "weather://logs" }}`, want: `{ "result": { "contents": [ { "uri": "weather://logs", "text": "…" } ] }}`},
	{name: "subscribe", request: `{ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "weather://logs" }}`, want: `{ "id": 1, "result": {} }`},
	{name: "list prompts", request: `{ "jsonrpc": "2.0", "id": 1, "method": "prompts/list"}`,
		want: `{ "result": { "prompts": [ { "name": "code_review", "title": "Request Code Review", "description": "…", "arguments": [ { "name": "code", "description": "…", "required": true } ] } ] }}`},
	{name: "get a prompt", request: `{ "jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": { "name": "code_review", "arguments": { "code": "x = 1" } }}`,
		want: `{ "result": { "messages": [ { "role": "user", "content": { "type": "text", "text": "…x = 1…" } } ] }}`},
	{name: "set level", request: `{ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "warning" }}`, want: `{ "id": 1, "result": {} }`},
}

func TestSeed003(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) door{
		"stdio":           func(t *testing.T) door { return openPipe(t, nil, started(t, dev).join("edge")...) },
		"streamable HTTP": func(t *testing.T) door { return &streamable{url: started(t, dev).http} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			speak(t, open(t), seed003)
		})
	}
}

// A service joins while a client listens: notifications/tools/list_changed, as the
// seed has it.
func TestSeed003ListChanged(t *testing.T) {
	t.Parallel()
	at := started(t, bare)
	p := openPipe(t, nil, at.join("edge")...)
	speak(t, p, seed003[:2])
	if answer, _ := p.send(t, `{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "get_forecast", "arguments": {} }}`); answer != nil {
		checkHolds(t, answer, `{ "error": { "code": -32602, "message": "Unknown tool: get_forecast" }}`)
	}
	newcomer := command([]string{"BUSBAR_WEATHER_URL=" + the.noaa.URL}, append([]string{"weather"}, at.join("developer")...)...)
	if err := newcomer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = newcomer.Process.Kill()
		_ = newcomer.Wait()
	})
	checkHolds(t, p.notice(t, "notifications/tools/list_changed"), `{ "jsonrpc": "2.0", "method": "notifications/tools/list_changed"}`)
}
