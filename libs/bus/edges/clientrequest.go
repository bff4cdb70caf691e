package edges

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// ClientRequest is a request that an edge has made to a legacy client. The answer may
// arrive at any edge.
type ClientRequest struct {
	// ID is unguessable and is sent as the request's id; the client repeats it.
	ID string

	answers *bus.Replies
}

// Ask prepares for a client's answer. Close the ClientRequest when done.
func (c *Caller) Ask() *ClientRequest {
	token := bus.NewID()
	return &ClientRequest{ID: c.Edge() + "." + token, answers: c.Expect(subject.Reply(subject.Client, c.Edge(), token))}
}

// Wait returns the answer from the given session; answers from another are ignored. It ends with
// ctx.
func (r *ClientRequest) Wait(ctx context.Context, session string) (*edgev1.ClientAnswer, error) {
	for {
		msg, err := r.answers.Next(ctx)
		if err != nil {
			return nil, fault.New(fault.DeadlineExceeded, "the client did not answer in time").Because(err)
		}
		answer := &edgev1.ClientAnswer{}
		if proto.Unmarshal(msg.Data, answer) == nil && answer.Session == session {
			return answer, nil
		}
	}
}

// Close forgets the request; a later answer is discarded.
func (r *ClientRequest) Close() { r.answers.Close() }

// Answer hands a client's answer to the edge that asked. An answer with an unknown id is discarded.
func (c *Caller) Answer(id string, answer *edgev1.ClientAnswer) error {
	edge, token, ok := strings.Cut(id, ".")
	if !ok || subject.ValidName(edge) != nil || subject.ValidName(token) != nil {
		return nil
	}
	return c.conn.Publish(subject.Reply(subject.Client, edge, token), answer)
}
