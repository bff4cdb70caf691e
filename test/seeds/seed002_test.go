package seeds

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/examples/weather/noaatest"
)

// seed002 are the messages of seed 002; its client speaks 2024-11-05.
var seed002 = []row{
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
}`, want: `{
  "jsonrpc": "2.0",
  "id": 1,
  "result": {
    "protocolVersion": "2024-11-05",
    "capabilities": {
      "tools": {"listChanged": true},
      "resources": {"subscribe": true, "listChanged": true},
      "prompts": {"listChanged": true}
    },
    "serverInfo": {"name": "…", "version": "…"}
  }
}`},
	{name: "initialized", request: `{"jsonrpc": "2.0", "method": "notifications/initialized"}`},
	{name: "list tools", request: `{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "tools/list"
}`, want: `{
  "jsonrpc": "2.0",
  "id": 2,
  "result": {
    "tools": [
      {
        "name": "get_forecast",
        "description": "Get weather forecast for a location",
        "inputSchema": {
          "type": "object",
          "properties": {
            "latitude": {"type": "number", "description": "Latitude of the location"},
            "longitude": {"type": "number", "description": "Longitude of the location"}
          },
          "required": ["latitude", "longitude"]
        }
      },
      {
        "name": "get_alerts",
        "description": "Get weather alerts for a US state",
        "inputSchema": {
          "type": "object",
          "properties": {"state": {"type": "string", "description": "Two-letter US state code"}},
          "required": ["state"]
        }
      }
    ]
  }
}`},
	{name: "call get_forecast", request: `{
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
}`, want: `{"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": ` + quoted(noaatest.Tonight+"…") + `}]}}`,
		notes: []string{`{
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
		want: `{"result": {"content": [{"type": "text", "text": "Tonight:…"}]}}`, notes: []string{`{
  "jsonrpc": "2.0",
  "method": "notifications/progress",
  "params": {
    "progressToken": "forecast_123",
    "progress": 75,
    "total": 100
  }
}`}},
	{name: "call get_alerts", request: `{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "get_alerts", "arguments": {"state": "NY"}}}`,
		want: `{"result": {"content": [{"type": "text", "text": "Winter Storm Warning…"}]}}`},
	{name: "list resources", request: `{
  "jsonrpc": "2.0",
  "id": 4,
  "method": "resources/list"
}`, want: `{
  "jsonrpc": "2.0",
  "id": 4,
  "result": {
    "resources": [
      {
        "uri": "weather://logs",
        "name": "Weather Service Logs",
        "description": "Application logs for the weather service",
        "mimeType": "text/plain"
      }
    ]
  }
}`},
	{name: "read weather://logs", request: `{
  "jsonrpc": "2.0",
  "id": 5,
  "method": "resources/read",
  "params": {
    "uri": "weather://logs"
  }
}`, want: `{"jsonrpc": "2.0", "id": 5, "result": {"contents": [{"uri": "weather://logs", "mimeType": "text/plain", "text": "20… - Weather service started\n20…"}]}}`},
	{name: "list prompts", request: `{
  "jsonrpc": "2.0",
  "id": 6,
  "method": "prompts/list"
}`, want: `{"jsonrpc": "2.0", "id": 6, "result": {"prompts": [{"name": "weather_analysis", "arguments": [{"name": "location", "required": true}]}]}}`},
	{name: "get weather_analysis", request: `{
  "jsonrpc": "2.0",
  "id": 7,
  "method": "prompts/get",
  "params": {
    "name": "weather_analysis",
    "arguments": {
      "location": "New York"
    }
  }
}`, want: `{"jsonrpc": "2.0", "id": 7, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": "…New York…"}}]}}`},
	{name: "basic structure", request: `{
  "jsonrpc": "2.0",
  "id": "unique-request-id",
  "method": "method_name",
  "params": {}
}`, want: `{"jsonrpc": "2.0", "id": "unique-request-id", "error": {"code": -32601, "message": "…"}}`},
	{name: "invalid params", request: `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_forecast", "arguments": {"latitude": 400, "longitude": -74.0060}}}`,
		want: `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "…latitude…", "data": {"parameter": "latitude"}}}`},
	{name: "missing parameter", request: `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_forecast", "arguments": {"latitude": 40.7128}}}`,
		want: `{"error": {"code": -32602, "data": {"parameter": "longitude"}}}`},
	{name: "tool that fails", request: `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_forecast", "arguments": {"latitude": 52.23, "longitude": 21.01}}}`,
		want: `{"result": {"content": [{"type": "text", "text": "…covers the United States…"}], "isError": true}}`},
	{name: "set level", request: `{"jsonrpc": "2.0", "id": 8, "method": "logging/setLevel", "params": {"level": "info"}}`, want: `{"id": 8, "result": {}}`},
	{name: "invalid request", request: `{"jsonrpc": "1.0", "id": "wrong", "method": "tools/list"}`, want: `{"jsonrpc": "2.0", "error": {"code": -32600}}`},
	{name: "parse error", request: `{"jsonrpc": "2.0", bad`, want: `{"jsonrpc": "2.0", "error": {"code": -32700}}`},
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, "\n", `\n`) + `"` }

func TestSeed002(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) door{
		"stdio": func(t *testing.T) door { return openPipe(t, append(the.outside, "BUSBAR_DATA_DIR="+t.TempDir())) },
		"sse": func(t *testing.T) door {
			return openStream(t, started(t, dev).http)
		},
		"streamable HTTP": func(t *testing.T) door { return &streamable{url: started(t, dev).http} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			speak(t, open(t), seed002)
		})
	}
}

// The logs are a resource that tells its subscribers when it has changed.
func TestSeed002Updates(t *testing.T) {
	t.Parallel()
	s := openStream(t, started(t, dev).http)
	speak(t, s, []row{
		seed002[0], seed002[1],
		{name: "subscribe", request: `{"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "weather://logs"}}`, want: `{"id": 2, "result": {}}`},
	})
	if refused, why := s.post(t, `{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "get_alerts", "arguments": {"state": "CA"}}}`); refused {
		t.Fatalf("%s", why)
	}
	checkHolds(t, s.notice(t, "notifications/resources/updated"), `{"params": {"uri": "weather://logs"}}`)
}

// A client gets the version that it asks for, or the nearest one.
func TestSeed002Versions(t *testing.T) {
	t.Parallel()
	base := started(t, dev).http
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2024-10-07": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25", "1.0": "2025-11-25", "9999-01-01": "2025-11-25",
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			answer, _ := (&streamable{url: base}).send(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"seed","version":"1"}}}`)
			checkHolds(t, answer, `{"result": {"protocolVersion": "`+want+`"}}`)
		})
	}
}
