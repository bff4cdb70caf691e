package edges

import (
	"context"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Borrow asks an edge for tokens of a limit, and waits for its answer until ctx
// ends. The error is a *fault.Error; for an edge that is not on the bus it comes
// at once. Tokens of an answer that nobody waits for any more are lost.
func (c *Caller) Borrow(ctx context.Context, edge string, r *edgev1.TokenRequest) (*edgev1.Tokens, error) {
	data, err := proto.Marshal(r)
	if err != nil {
		return nil, err
	}
	if !subject.Token(edge) {
		return nil, fault.New(fault.Unavailable, "not an edge")
	}
	reply := subject.Reply(subject.Edge, c.Edge(), bus.NewID())
	word := c.Expect(reply)
	defer word.Close()
	if err := c.conn.NATS().PublishRequest(subject.Tokens(edge), reply, data); err != nil {
		return nil, wire.NotSent(err)
	}
	msg, err := word.Next(ctx)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the edge does not answer").Because(err)
	}
	got := &edgev1.Tokens{}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return nil, fault.New(fault.Unavailable, "the edge is gone")
	} else if err := proto.Unmarshal(msg.Data, got); err != nil {
		return nil, fault.New(fault.Unavailable, "the edge answers with something else").Because(err)
	}
	return got, nil
}

// OnBorrow answers other edges with what lend gives them; not where that is nil.
// lend must not block. stop ends that.
func (c *Caller) OnBorrow(lend func(*edgev1.TokenRequest) *edgev1.Tokens) (stop func(), err error) {
	return c.conn.Subscribe(subject.Tokens(c.Edge()), func(msg *nats.Msg) {
		r := &edgev1.TokenRequest{}
		if !subject.OwnReply(subject.Edge, msg.Reply) || proto.Unmarshal(msg.Data, r) != nil {
			return
		}
		given := lend(r)
		if given == nil {
			return
		}
		if err := c.conn.Publish(msg.Reply, given); err != nil {
			c.conn.Log().Debug("tokens for another edge were not sent", "error", err)
		}
	})
}
