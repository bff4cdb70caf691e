package protocol

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Changes sends a legacy client every change of the lists, and updates of the resources that its
// session subscribes to, until ctx ends or the server closes. session returns the session as it
// is now, or nil when it has ended. Changes calls open first, once nothing can be missed any
// more.
func (s *Server) Changes(ctx context.Context, lease *gateway.Lease, out Sender, session func(context.Context) *store.Session, open func()) {
	c := s.newChangeStream(lease)
	c.out, c.session = out, session
	open()
	c.run(ctx)
}

// ChangesOf is Changes for a client that can come back to any edge: events have ids, and since is
// the last one it got, empty if it was not away. A session has one such stream, the youngest
// (2025-11-25, basic/transports, Multiple Connections). Call rest, which sends the changes, if
// there is no error: from now on nothing is missed.
func (s *Server) ChangesOf(lease *gateway.Lease, n *store.Session, since string) (rest func(Resumable), err error) {
	var then time.Time
	var digest string
	if since != "" {
		var ok bool
		if then, digest, ok = parseChangeID(since); !ok {
			return nil, fault.New(fault.InvalidRequest, "Last-Event-ID is not one that this server gave")
		}
	}
	// In flight like a request, so that it ends with the session.
	name := rand.Text()
	inFlight, release := s.InFlight(n.ID)
	ctx, end, err := inFlight.begin(lease.Context(), []byte(name))
	if err == nil {
		err = s.sessions.Change(ctx, n.ID, func(n *store.Session) error {
			n.Stream = name
			return nil
		})
	}
	over := func() {
		if end != nil {
			end()
		}
		release()
	}
	if err != nil {
		over()
		return nil, err
	}
	c := s.newChangeStream(lease)
	c.session = func(ctx context.Context) *store.Session {
		now, err := s.sessions.Get(ctx, n.ID)
		switch {
		case fault.Is(err, fault.UnknownSession):
			return nil
		case err != nil:
			return n // the bus is away; the last known session still holds
		case now.Stream != name:
			return nil
		}
		return now
	}
	return func(out Resumable) {
		defer over()
		c.out, c.resumable = out, out
		if n.Version >= mcp.V20251125 {
			out.Begin(changeID(then, digest, lease.Sees()))
		}
		if since != "" {
			c.missed(ctx, digest, then)
		}
		c.run(ctx)
	}, nil
}

// clockSkew is how far the clocks of edges and NATS may differ. Changes within that time are told
// twice.
const clockSkew = 5 * time.Second

// changeStream is a legacy client's stream of messages that belong to no request.
type changeStream struct {
	server    *Server
	sub       *catalogue.Subscription
	out       Sender
	resumable Resumable // out, or nil
	lease     *gateway.Lease
	session   func(context.Context) *store.Session
	// unheard are resources that changed, and when, although the session did not subscribe to
	// them as far as this edge knew. Another edge may just have taken the subscription, and the
	// news of that may still be on its way. These resources are checked once more when again
	// fires.
	unheard map[string]time.Time
	again   <-chan time.Time
}

const (
	// subscribedWithin bounds the time until an edge knows what another one wrote into a session.
	subscribedWithin = 3 * time.Second
	// maxUnheard bounds the resources that one stream checks again.
	maxUnheard = 256
)

// newChangeStream makes a stream that misses nothing from now on. Run it.
func (s *Server) newChangeStream(lease *gateway.Lease) *changeStream {
	return &changeStream{server: s, lease: lease, sub: lease.Subscribe(func(string) bool { return true })}
}

// missed sends the changes since a time at which the lists had a digest.
func (c *changeStream) missed(ctx context.Context, digest string, then time.Time) {
	if now := c.session(ctx); now != nil {
		changed, updated := c.lease.Missed(digest, then.Add(-clockSkew), now.Subscribed)
		c.send(changed, updated, now)
	}
}

func (c *changeStream) run(ctx context.Context) {
	defer c.sub.Close()
	for {
		select {
		case <-c.sub.C:
			now := c.session(ctx)
			if now == nil {
				return
			}
			changed, updated := c.sub.Take()
			c.send(changed, updated, now)
			c.lookAgain(updated, now)
		case <-c.again:
			now := c.session(ctx)
			if now == nil {
				return
			}
			c.send(0, c.settled(time.Now()), now)
		case <-c.server.closing:
			return
		case <-c.lease.Context().Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// lookAgain remembers, for a short time, resources to which the session does not subscribe.
func (c *changeStream) lookAgain(uris []string, now *store.Session) {
	for _, uri := range uris {
		if slices.Contains(now.Subscribed, uri) {
			delete(c.unheard, uri) // told just now
			continue
		}
		if c.unheard == nil {
			c.unheard = map[string]time.Time{}
		}
		if _, ok := c.unheard[uri]; ok || len(c.unheard) < maxUnheard {
			c.unheard[uri] = time.Now()
		}
		if c.again == nil {
			c.again = time.After(subscribedWithin)
		}
	}
}

// settled takes the resources that changed long enough ago, and sets the timer for the rest.
func (c *changeStream) settled(now time.Time) (uris []string) {
	c.again = nil
	for uri, at := range c.unheard {
		if now.Sub(at) >= subscribedWithin {
			uris = append(uris, uri)
			delete(c.unheard, uri)
		}
	}
	if len(c.unheard) > 0 {
		c.again = time.After(subscribedWithin)
	}
	return uris
}

func (c *changeStream) send(changed catalogue.Change, uris []string, now *store.Session) {
	var messages [][]byte
	for _, n := range changes {
		if changed&n.change != 0 {
			messages = append(messages, notification(n.method, nil))
		}
	}
	for _, uri := range uris {
		if slices.Contains(now.Subscribed, uri) {
			messages = append(messages, updated(uri, nil))
		}
	}
	for i, m := range messages {
		// A client that has the last message has all before it.
		if c.resumable != nil && i == len(messages)-1 {
			c.resumable.Mark(changeID(time.Time{}, "", c.lease.Sees()))
		}
		c.out.Send(m) // it waits for a slow client, and merges the changes in the meantime
	}
}

// updated is the notification about one resource. meta has the members of _meta of a modern
// subscription; nil for none.
func updated(uri string, meta []byte) []byte {
	params := []byte{'{'}
	if meta != nil {
		params = append(append(append(params, `"_meta":{`...), meta...), `},`...)
	}
	params = appendQuoted(append(params, `"uri":`...), uri)
	return notification(mcp.NotifyResourceUpdated, append(params, '}'))
}

// changeID names a moment in a stream of changes: c-<time>-<digest of the lists>. A client that
// comes back is told what changed since then. Zero values mean now.
func changeID(then time.Time, digest string, now *catalogue.Snapshot) string {
	if digest == "" {
		then, digest = time.Now(), now.Digest()
	}
	return "c-" + strconv.FormatInt(then.UnixNano(), 10) + "-" + digest
}

func parseChangeID(id string) (then time.Time, digest string, ok bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 || parts[0] != "c" {
		return then, "", false
	}
	nanos, err := strconv.ParseInt(parts[1], 10, 64)
	return time.Unix(0, nanos), parts[2], err == nil
}

// IsChangeID reports whether an event id is one of ChangesOf.
func IsChangeID(id string) bool { return strings.HasPrefix(id, "c-") }
