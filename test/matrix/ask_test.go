package matrix

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// elicitation came with 2025-06-18. An earlier client cannot declare it, so its
// call is refused, and it is not asked.
func elicitation(t *testing.T, _ *world, c *client) {
	if c.version >= mcp.V20250618 {
		asks(t, c, "ask", mcp.MethodElicit, "accept Ada")
		return
	}
	_, err := c.CallTool(soon(t), &sdk.CallToolParams{Name: "ask"})
	refused(t, err, mcp.CodeInvalidRequest, "missing_capability")
	if asked := c.tap.all(said(mcp.MethodElicit)); len(asked) > 0 {
		t.Errorf("the client was asked: %s", asked[0].Params)
	}
}

func sampling(t *testing.T, _ *world, c *client) {
	asks(t, c, "sampling", mcp.MethodSample, "model Hello!")
}

func roots(t *testing.T, _ *world, c *client) {
	asks(t, c, "roots", mcp.MethodRoots, "home file:///home")
}

// asks calls a tool that asks the client, and requires what it made of the
// answer. Before 2026-07-28 the question is a request of the server, since then
// it is a result, and the answer comes with the call's repetition. Either way
// the answer comes to another edge than the call.
func asks(t *testing.T, c *client, tool, method, want string) {
	if got := c.call(tool, nil); got != `{"value":"`+want+`"}` {
		t.Errorf("the tool understood %s", got)
	}
	calls := c.tap.all(sent(mcp.MethodToolsCall))
	first := c.tap.all(func(m message) bool { return m.answers(calls[0]) })
	questions := c.tap.all(func(m message) bool { return m.fromServer && m.Method != "" && m.ID != nil })
	if len(first) != 1 {
		t.Fatalf("%d answers to one request", len(first))
	}
	if c.modern() {
		if len(questions) > 0 || len(calls) != 2 {
			t.Fatalf("%d requests of the server, %d of the client", len(questions), len(calls))
		}
		if first[0].field("resultType") != `"input_required"` || first[0].field("inputRequests", tool, "method") != `"`+method+`"` {
			t.Errorf("the question came as %s", first[0].Result)
		}
		if string(calls[0].ID) == string(calls[1].ID) || calls[1].param("inputResponses", tool) == "" {
			t.Errorf("repeated with %s", calls[1].Params)
		}
		c.alternates("a call and its repetition", calls[0], calls[1])
		return
	}
	if len(questions) != 1 || questions[0].Method != method || len(calls) != 1 {
		t.Fatalf("%d requests of the server, %d of the client", len(questions), len(calls))
	}
	c.ownStream(questions[0], calls[0])
	answer := c.tap.all(func(m message) bool { return m.answers(questions[0]) })
	if len(answer) != 1 || answer[0].Result == nil {
		t.Fatalf("%d answers to the question", len(answer))
	}
	c.alternates("a call and the answer to its question", calls[0], answer[0])
}
