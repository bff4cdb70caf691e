package era

import (
	"bytes"
	"context"

	"github.com/sourcegraph/conc"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Batch answers a batch of 2025-03-26: its requests at once, each as if it had
// come alone. It returns the responses in the order of the requests as a JSON
// array, nil when none is owed. base says what all messages have in common.
// Notifications ahead of a response are dropped, and a tool that asks for input
// finds a client that cannot be asked.
func (s *Server) Batch(ctx context.Context, base Request, entries []mcp.Entry) []byte {
	slots := make([]slot, len(entries))
	var wg conc.WaitGroup
	for i := range entries {
		r := base
		r.Message = &entries[i].Message
		x := &slots[i]
		switch {
		case entries[i].Err != nil:
			s.Refuse(&r, x, entries[i].Err)
		case r.Message.Method == mcp.MethodInitialize:
			s.Refuse(&r, x, fault.New(fault.InvalidRequest, "initialize cannot be part of a batch"))
		default:
			if rest := s.Begin(ctx, &r, x); rest != nil {
				wg.Go(rest)
			}
		}
	}
	wg.Wait()
	var responses [][]byte
	for _, x := range slots {
		if x.response != nil {
			responses = append(responses, x.response)
		}
	}
	if responses == nil {
		return nil
	}
	b := append([]byte{'['}, bytes.Join(responses, []byte{','})...)
	return append(b, ']')
}

// slot is the exchange of one message of a batch.
type slot struct{ response []byte }

func (*slot) Notify([]byte)                   {}
func (*slot) Ask([]byte) bool                 { return false }
func (x *slot) Respond(_ int, message []byte) { x.response = message }
