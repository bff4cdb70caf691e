package protocol_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// stranger is whoever the edge does not know.
type stranger struct{}

func (stranger) Authenticate(context.Context, gateway.Credentials) (gateway.Principal, error) {
	return gateway.Principal{}, fault.New(fault.Unauthenticated, "who are you?")
}

// Every method of every era asks who calls, whatever else is wrong with the
// request, and one that does not exist asks, too.
func TestH3EveryMethodAsksWhoCalls(t *testing.T) {
	t.Parallel()
	s, err := protocol.NewServer(protocol.Config{Info: mcp.Implementation{Name: "busbar", Version: "1"}, Gateway: gateway.New(gateway.Config{Authenticator: stranger{}})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	params := map[string]any{
		"name": "x", "uri": "x://y", "taskId": "svc.x", "level": "info", "inputResponses": map[string]any{},
		"notifications": map[string]any{"toolsListChanged": true}, "ref": map[string]any{"type": "ref/prompt", "name": "x"}, "argument": map[string]any{"name": "a", "value": ""},
		"protocolVersion": mcp.V20250618, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "n", "version": "1"},
		"_meta": map[string]any{
			mcp.MetaProtocolVersion:    mcp.Modern,
			mcp.MetaClientCapabilities: map[string]any{"extensions": map[string]any{mcp.ExtensionTasks: map[string]any{}}},
		},
	}
	for version, methods := range protocol.Methods() {
		if len(methods) < 12 {
			t.Errorf("%d methods of %s", len(methods), version)
		}
		for _, name := range append(methods, "no/such") {
			t.Run(version+" "+name, func(t *testing.T) {
				message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": name, "params": params})
				if err != nil {
					t.Fatal(err)
				}
				m, err := mcp.Parse(message, mcp.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				x := &responder{}
				s.Handle(t.Context(), &protocol.Request{Message: &m, Version: version}, x)
				if len(x.responded) != 1 || len(x.notified) > 0 {
					t.Fatalf("%d responses, %d notifications", len(x.responded), len(x.notified))
				}
				answer := object(t, object(t, object(t, x.responded[0])["error"])["data"])
				if reason := string(answer["reason"]); reason != `"unauthenticated"` {
					t.Errorf("answered %s", x.responded[0])
				}
			})
		}
	}
	if _, _, err := s.Initialize(t.Context(), &protocol.Request{Message: &mcp.Message{}}); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("initialize: %v", err)
	}
	if _, err := s.Lease(t.Context(), "test", gateway.Credentials{}); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a stream: %v", err)
	}
}
