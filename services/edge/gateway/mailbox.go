package gateway

import (
	"context"
	"crypto/sha256"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// posts are sealed for this, and for nothing else.
var posts = []byte("post")

// postTime is how long after a post it may reach the edge with the stream.
const postTime = time.Minute

// owner stands for a principal on the bus.
func owner(p Principal) []byte {
	sum := sha256.Sum256([]byte(p.ID()))
	return sum[:]
}

// OpenMailbox makes room for the posts of a client, at this edge or another one, for a stream
// that it keeps open.
func (g *Gateway) OpenMailbox(s *Lease) *edges.Mailbox {
	return g.cfg.Caller.OpenMailbox(owner(s.Principal()))
}

// Post passes the client's post to the edge with the mailbox, if the mailbox belongs to the same
// principal.
func (g *Gateway) Post(ctx context.Context, address string, c Credentials, body []byte) error {
	p, err := g.Authenticate(ctx, c)
	if err != nil {
		return err
	}
	plain, err := proto.Marshal(identity(p))
	if err != nil {
		return err
	}
	sealed, err := g.cfg.Sealer.Seal(ctx, posts, plain, time.Now().Add(postTime))
	if err != nil {
		return err
	}
	return g.cfg.Caller.Post(ctx, address, owner(p), edges.Posted{Body: body, Identity: sealed})
}

// Posted returns the credentials for a post to a stream's mailbox: the credentials of the stream,
// with the rights of the poster.
func (g *Gateway) Posted(ctx context.Context, s *Lease, p edges.Posted) (Credentials, error) {
	plain, err := g.cfg.Sealer.Open(ctx, posts, p.Identity)
	if err != nil {
		return Credentials{}, fault.New(fault.Forbidden, "the message does not say which caller opened its stream").Because(err)
	}
	i := &busv1.Identity{}
	if err := proto.Unmarshal(plain, i); err != nil {
		return Credentials{}, fault.From(err)
	}
	now, who := s.Principal(), principalOf(i)
	who.Expires, who.Credential = now.Expires, now.Credential
	return s.as(who), nil
}
