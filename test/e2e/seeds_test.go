package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/test/testservice"
)

// exchange is one request of a seed, as the seed has it, and what its answer
// has to hold.
type exchange struct {
	name, request string
	// result members that must mean the same JSON; for tools, see lists.
	result map[string]string
	// lists are tool definitions that the result must list like this.
	lists []string
	// text is the only content of a tool's result.
	text string
	// err is the error's code, parameter what it names.
	err       int
	parameter string
	reason    string
	message   string
	// notifies are notifications that come before the answer.
	notifies []string
}

// Seed 002, whose client speaks 2024-11-05.
var seed2 = []exchange{
	{name: "initialize", request: `{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "initialize",
  "params": {
    "protocolVersion": "2024-11-05",
    "capabilities": {
      "tools": {},
      "resources": {},
      "prompts": {}
    },
    "clientInfo": {
      "name": "MCP Weather Client",
      "version": "1.0.0"
    }
  }
}`, result: map[string]string{
		"protocolVersion": `"2024-11-05"`, "capabilities.tools": `{"listChanged": true}`, "capabilities.resources.listChanged": `true`,
		"capabilities.prompts": `{"listChanged": true}`, "serverInfo.name": "", "serverInfo.version": "",
	}},
	{name: "tools list", request: `{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "tools/list"
}`, lists: []string{
		`{"name":"get_forecast","description":"Get weather forecast for a location","inputSchema":{"type":"object","properties":{"latitude":{"type":"number","description":"Latitude of the location"},"longitude":{"type":"number","description":"Longitude of the location"}},"required":["latitude","longitude"]}}`,
		`{"name":"get_alerts","description":"Get weather alerts for a US state","inputSchema":{"type":"object","properties":{"state":{"type":"string","description":"Two-letter US state code"}},"required":["state"]}}`,
		`{"name":"custom_analysis","description":"自訂分析工具","inputSchema":{"type":"object","properties":{"data":{"type":"string","description":"要分析的資料"},"analysis_type":{"type":"string","enum":["sentiment","summary","translation"],"description":"分析類型"}},"required":["data","analysis_type"]}}`,
	}},
	{name: "tools call", request: `{
  "jsonrpc": "2.0",
  "id": 3,
  "method": "tools/call",
  "params": {
    "name": "get_forecast",
    "arguments": {
      "latitude": 40.7128,
      "longitude": -74.0060
    }
  }
}`, text: testservice.Forecast, notifies: []string{`{
  "jsonrpc": "2.0",
  "method": "notifications/message",
  "params": {
    "level": "info",
    "logger": "weather.forecast",
    "data": "Successfully fetched forecast for coordinates (40.7128, -74.0060)"
  }
}`}},
	{name: "progress", request: `{"jsonrpc": "2.0", "id": "unique-request-id", "method": "tools/call", "params": {
    "name": "get_forecast", "arguments": {"latitude": 40.7128, "longitude": -74.0060}, "_meta": {"progressToken": "forecast_123"}}}`,
		text: testservice.Forecast, notifies: []string{`{
  "jsonrpc": "2.0",
  "method": "notifications/progress",
  "params": {
    "progressToken": "forecast_123",
    "progress": 75,
    "total": 100
  }
}`}},
	{name: "own tool", request: `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"custom_analysis","arguments":{"data":"要分析的資料","analysis_type":"sentiment"}}}`, text: "中性"},
	{name: "invalid params", request: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_forecast","arguments":{"latitude":"north","longitude":-74.0060}}}`,
		err: -32602, reason: "invalid_params", parameter: "latitude"},
	{name: "invalid enum", request: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"custom_analysis","arguments":{"data":"x","analysis_type":"guess"}}}`,
		err: -32602, reason: "invalid_params", parameter: "analysis_type"},
	{name: "missing parameter", request: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_forecast","arguments":{"latitude":40.7128}}}`,
		err: -32602, reason: "invalid_params", parameter: "longitude"},
	{name: "ping", request: `{"jsonrpc": "2.0", "id": "unique-request-id", "method": "ping"}`, result: map[string]string{"": `{}`}},
	{name: "-32601", request: `{"jsonrpc": "2.0", "id": "unique-request-id", "method": "method_name", "params": {}}`, err: -32601, reason: "method_not_found"},
	{name: "-32600", request: `{"jsonrpc": "1.0", "id": "unique-request-id", "method": "tools/list"}`, err: -32600, reason: "invalid_request"},
}

// Seed 003, whose client speaks 2025-11-25.
var seed3 = []exchange{
	{name: "initialize", request: `{ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25", "capabilities": { "sampling": {} }, "clientInfo": { "name": "MyClient", "version": "1.0" } }}`,
		result: map[string]string{"protocolVersion": `"2025-11-25"`, "capabilities.tools": `{"listChanged":true}`, "serverInfo.name": "", "serverInfo.version": ""}},
	{name: "initialized", request: `{ "jsonrpc": "2.0", "method": "notifications/initialized"}`},
	{name: "tools list", request: `{ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}`, lists: []string{
		`{"name":"search","description":"Search documents","inputSchema":{"type":"object"}}`,
		`{ "name": "get_weather", "title": "Weather Information", "description": "Get current weather for a location", "inputSchema": { "type": "object", "properties": { "location": { "type": "string", "description": "City name or zip code" } }, "required": ["location"] }}`,
	}},
	{name: "tools call", request: `{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "get_weather", "arguments": { "location": "Kraków" }, "_meta": { "progressToken": "token-123" } }}`,
		text: "Clear.", notifies: []string{`{ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": "token-123", "progress": 50, "total": 100, "message": "Processing..." }}`}},
	{name: "invalid params", request: `{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {} }`, err: -32602, reason: "invalid_params"},
}

// Seed 004, which names no version: its client is of 2025-06-18, in which
// arguments that fail the schema are -32602. Where it differs from MCP, MCP
// holds: content is an array, and an unknown tool is -32602.
var seed4 = []exchange{
	{name: "initialize", request: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"ancplua","version":"1.0"}}}`,
		result: map[string]string{"protocolVersion": `"2025-06-18"`}},
	{name: "discovery", request: `{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "tools/list"
}`, lists: []string{`{
        "name": "filesystem/read",
        "description": "Read contents of a file",
        "inputSchema": {
          "type": "object",
          "properties": {
            "path": { "type": "string" }
          },
          "required": ["path"]
        }
      }`}},
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
}`, text: "file contents here"},
	{name: "tool not found", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"filesystem/write","arguments":{}}}`, err: -32602, reason: "unknown_tool", message: "Unknown tool: filesystem/write"},
	{name: "invalid parameters", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"filesystem/read","arguments":{"path":7}}}`, err: -32602, reason: "invalid_params", parameter: "path"},
	{name: "tool execution error", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"broken"}}`, err: -32603, reason: "internal"},
	{name: "timeout", request: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow_tool"}}`, err: -32000, reason: "deadline_exceeded", message: "Tool execution timeout"},
}

// TestSeeds sends the JSON-RPC examples of the documents the product was asked
// for in, as they are.
func TestSeeds(t *testing.T) {
	t.Parallel()
	e := startTestEdge(t)
	for name, seed := range map[string][]exchange{"002": seed2, "003": seed3, "004": seed4} {
		doors := map[string]func(t *testing.T) door{
			"http":  func(*testing.T) door { return &httpDoor{url: e.mcp} },
			"stdio": func(t *testing.T) door { return pipeDoor{startPipe(t, "--nats", e.nats)} },
		}
		for kind, open := range doors {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				d := open(t)
				for _, x := range seed {
					t.Run(x.name, func(t *testing.T) { x.check(t, d) })
				}
			})
		}
	}
}

// check makes the exchange.
func (x exchange) check(t *testing.T, d door) {
	t.Helper()
	began := time.Now()
	m, notes := d.send(t, x.request)
	if took := time.Since(began); took > 3*time.Second+slack {
		t.Errorf("took %v", took)
	}
	if idOf(x.request) == "" {
		return
	}
	if x.err != 0 {
		x.checkError(t, m)
		return
	}
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if got := idOf(x.request); string(m.ID) != got {
		t.Errorf("the id came back as %s, not %s", m.ID, got)
	}
	var result map[string]any
	if err := json.Unmarshal(m.Result, &result); err != nil {
		t.Fatal(err)
	}
	for path, want := range x.result {
		got, there := any(result), true
		if path != "" {
			got, there = member(result, path)
		}
		raw, _ := json.Marshal(got)
		if !there || want != "" && !sameJSON(t, raw, []byte(want)) {
			t.Errorf("%s is %s, want %s", path, raw, want)
		}
	}
	for _, want := range x.lists {
		checkListed(t, m, want)
	}
	if x.text != "" {
		want := `{"content":[{"type":"text","text":` + quoted(x.text) + `}]}`
		delete(result, "isError")
		raw, _ := json.Marshal(result)
		if m.isError() || !sameJSON(t, raw, []byte(want)) {
			t.Errorf("the result is %s, want %s", m.Result, want)
		}
	}
	for _, want := range x.notifies {
		x.checkNotified(t, notes, want)
	}
}

func (x exchange) checkError(t *testing.T, m message) {
	t.Helper()
	e := m.Error
	if e == nil {
		t.Fatalf("no error: %s", m.raw)
	}
	if e.Code != x.err || e.Data.Reason != x.reason || e.Data.Executed == "" || !strings.Contains(e.Message, x.message) {
		t.Errorf("got %v, want %d %s (%s)", e, x.err, x.message, x.reason)
	}
	if x.parameter != "" && (e.Data.Parameter == nil || *e.Data.Parameter != x.parameter) {
		t.Errorf("data.parameter is not %q: %s", x.parameter, m.raw)
	}
}

func (x exchange) checkNotified(t *testing.T, notes []message, want string) {
	t.Helper()
	var all []string
	for _, n := range notes {
		if sameJSON(t, n.raw, []byte(want)) {
			return
		}
		all = append(all, string(n.raw))
	}
	t.Errorf("not notified: %s\nbut: %s", want, strings.Join(all, "\n"))
}

// checkListed looks for a tool in a list by its name.
func checkListed(t *testing.T, m message, want string) {
	t.Helper()
	var name struct{ Name string }
	_ = json.Unmarshal([]byte(want), &name)
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, raw := range list.Tools {
		var got struct{ Name string }
		if json.Unmarshal(raw, &got) == nil && got.Name == name.Name {
			if !sameJSON(t, raw, []byte(want)) {
				t.Errorf("listed as %s\nwant %s", raw, want)
			}
			return
		}
	}
	t.Errorf("%s is not listed", name.Name)
}

// TestSeedListChanged is the notification of seed 003, as it is there.
func TestSeedListChanged(t *testing.T) {
	t.Parallel()
	e := startTestEdge(t)
	p := startPipe(t, "--nats", e.nats)
	p.initialize(legacy)
	serve(t, e.nats, named("newcomer"))
	m := p.await("list_changed", notice("notifications/tools/list_changed"))
	if want := `{ "jsonrpc": "2.0", "method": "notifications/tools/list_changed"}`; !sameJSON(t, m.raw, []byte(want)) {
		t.Errorf("came as %s, want %s", m.raw, want)
	}
}
