package websocket_test

import (
	"testing"

	client "github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// A client of MCP on one socket lends its model to one of the API on another,
// once it is initialized and for as long as it is there.
func TestLending(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	const question = `{"type":"sampling_request","id":1,"data":{"messages":[{"role":"user","content":{"type":"text","text":"Hi?"}}],"max_tokens":5}}`
	const said = `{"role":"assistant","content":{"type":"text","text":"Hi!"},"model":"m","stopReason":"endTurn"}`
	lender, borrower := w.dial(t, "mcp"), w.dial(t)
	lender.send(edgetest.Legacy("0", mcp.MethodInitialize, `"protocolVersion":"2025-06-18","capabilities":{"sampling":{}}`))
	lender.next()
	borrower.send(question)
	borrower.refused("1", -32000, "unavailable", "no")

	lender.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	asked := make(chan edgetest.Message, 1)
	go func() {
		_, b, err := lender.Read(t.Context())
		if err != nil {
			return // the test has failed
		}
		m := edgetest.Read(t, b)
		_ = lender.Write(t.Context(), client.MessageText, []byte(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+said+`}`))
		asked <- m
	}()
	var got message
	bustest.Eventually(t, "the model is lent", func() bool {
		borrower.send(question)
		got = borrower.message()
		return got.Error == nil
	})
	if got.Type != "sampling_response" || string(got.Data) != said {
		t.Errorf("got %s %s", got.Type, got.Data)
	}
	if m := receive(t, "the lender was asked", asked); m.Method != mcp.MethodSample || m.Param("maxTokens") != "5" {
		t.Errorf("asked %+v", m)
	}

	borrower.send(question)
	lender.next()
	_ = lender.Close(client.StatusNormalClosure, "")
	borrower.refused("1", -32000, "peer_lost", "unknown")
	bustest.Eventually(t, "it lends no more", func() bool {
		borrower.send(question)
		m := borrower.message()
		return m.Error != nil && m.Error.Data.Reason == "unavailable"
	})
}
