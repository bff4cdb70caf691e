package protocol_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// handle answers one message that needs no service.
func handle(t *testing.T, s *protocol.Server, version, in string) *responder {
	t.Helper()
	m, err := mcp.Parse([]byte(in), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	x := &responder{}
	s.Handle(t.Context(), &protocol.Request{Message: &m, Version: version, InFlight: protocol.NewInFlight()}, x)
	return x
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	in := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.Modern + `","` + mcp.MetaClientCapabilities + `":{}}}}`
	x := handle(t, server(t), mcp.Modern, in)
	result := object(t, object(t, x.responded[0])["result"])
	for name, want := range map[string]string{
		"resultType": `"complete"`, "instructions": "", "cacheScope": `"public"`,
		"capabilities": `{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true},"io.modelcontextprotocol/tasks":{}},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`,
	} {
		if string(result[name]) != want {
			t.Errorf("%s is %s, want %s", name, result[name], want)
		}
	}
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{}},"clientInfo":{"name":"n","version":"v","title":"ignored"}}}`), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	n, response, err := server(t).Initialize(t.Context(), &protocol.Request{Message: &m})
	if err != nil {
		t.Fatal(err)
	}
	if n.Version != mcp.V20250326 || n.ClientName != "n" || n.ClientVer != "v" || string(n.Capabilities) != `{"roots":{}}` {
		t.Errorf("session %+v", n)
	}
	result := object(t, object(t, response)["result"])
	if !strings.Contains(string(result["capabilities"]), `"logging":{}`) || strings.Contains(string(result["capabilities"]), "tasks") || len(result) != 3 {
		t.Errorf("result %s", response)
	}
}

// A long method is cut for the message, at a character.
func TestUnknownMethod(t *testing.T) {
	t.Parallel()
	x := handle(t, server(t), mcp.V20251125, `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("ü", 200)+`x"}`)
	message := string(object(t, object(t, x.responded[0])["error"])["message"])
	if len(message) > 250 || strings.Contains(message, "\uFFFD") || !strings.Contains(message, "…") {
		t.Errorf("message %s", message)
	}
}

// Descriptions of clients are remembered within bounds.
func TestClientsAreRememberedWithinBounds(t *testing.T) {
	t.Parallel()
	s := server(t)
	most := 0
	for i := range 3000 {
		info := []byte(`{"name":"` + strconv.Itoa(i) + `","version":"1"}`)
		most = max(most, s.Know(info, []byte(`{}`)), s.Know(info, []byte(`{}`)))
	}
	if most < 100 || most > 2000 {
		t.Errorf("%d clients were remembered at once", most)
	}
	before := s.Know(nil, []byte(`{}`))
	if after := s.Know([]byte(`{"name":"`+strings.Repeat("x", 900<<10)+`"}`), nil); after != before {
		t.Error("a client that says much is remembered")
	}
}
