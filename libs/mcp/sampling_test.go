package mcp_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// FuzzSampling reads any params: accepted ones have all that a model needs, and a refusal blames
// the sender.
func FuzzSampling(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":1,"tools":[{"name":"t","inputSchema":{}}],"toolChoice":{"mode":"auto"}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"aW1n"}]}]}],"maxTokens":1}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		p, err := mcp.ReadCreateMessage(params)
		if err != nil {
			if !fault.Is(err, fault.InvalidParams) || fault.From(err).Executed != fault.No {
				t.Errorf("%v", err)
			}
			return
		}
		if p.MaxTokens < 1 || len(p.Messages) == 0 {
			t.Errorf("%+v", p)
		}
		for _, m := range p.Messages {
			if len(m.Content) == 0 || m.Role != "user" && m.Role != "assistant" {
				t.Errorf("%+v", m)
			}
		}
	})
}
