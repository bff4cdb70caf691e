package bus

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// clients stands where the service's name does in the reply subject of an
// answer that comes from a client. No service may have it.
const clients = "client"

// Question is a request an edge has made to a legacy client. The answer may
// arrive at any edge.
type Question struct {
	// ID is unguessable and goes out as the request's id; the client repeats it.
	ID string

	caller *Caller
	reply  string
	x      *exchange
}

// Ask makes room for a client's answer. Close the question when done with it.
func (c *Caller) Ask() *Question {
	token := newID()
	q := &Question{ID: c.edge + "." + token, caller: c, reply: replySubject(clients, c.edge, token), x: exchanges.Get().(*exchange)}
	q.x.use(q.reply, "")
	c.mu.Lock()
	c.waiting[q.reply] = q.x
	c.mu.Unlock()
	return q
}

// Wait returns the answer that came from the session given; answers from
// another are ignored. It ends with ctx.
func (q *Question) Wait(ctx context.Context, session string) (*busv1.ClientAnswer, error) {
	for {
		select {
		case <-q.x.wake:
		case <-ctx.Done():
			return nil, fault.New(fault.DeadlineExceeded, "the client did not answer in time").Because(ctx.Err())
		}
		q.x.mu.Lock()
		queue := q.x.queue
		q.x.queue = nil
		q.x.mu.Unlock()
		for _, arrived := range queue {
			answer := &busv1.ClientAnswer{}
			if proto.Unmarshal(arrived.msg.Data, answer) == nil && answer.Session == session {
				return answer, nil
			}
		}
	}
}

// Close forgets the question; a later answer goes nowhere.
func (q *Question) Close() { q.caller.forget(q.reply, "", q.x) }

// Answer hands a client's answer to the edge that asked. An id that no edge
// gave goes nowhere.
func (c *Caller) Answer(id string, answer *busv1.ClientAnswer) error {
	edge, token, ok := strings.Cut(id, ".")
	if !ok || ValidName(edge) != nil || ValidName(token) != nil {
		return nil
	}
	data, err := proto.Marshal(answer)
	if err != nil {
		return err
	}
	if err := c.conn.nc.Publish(replySubject(clients, edge, token), data); err != nil {
		return publishFault(err)
	}
	return nil
}
