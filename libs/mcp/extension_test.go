package mcp_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

func TestDeclares(t *testing.T) {
	t.Parallel()
	for caps, want := range map[string]bool{
		``: false, `{}`: false, `[]`: false, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`: true,
		`{"extensions":{"io.modelcontextprotocol/tasks":{"later":1}}}`: true,
		`{"extensions":["io.modelcontextprotocol/tasks"]}`:             false,
		`{"io.modelcontextprotocol/tasks":{},"roots":{}}`:              false,
		`{"Extensions":{"io.modelcontextprotocol/tasks":{}}}`:          false,
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}`:           false,
	} {
		if got := mcp.Declares([]byte(caps), mcp.ExtensionTasks); got != want {
			t.Errorf("%s: %v", caps, got)
		}
	}
}
