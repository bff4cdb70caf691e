package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// Admit finds out who shows credentials, before the door reads what is asked for.
// The credentials it returns are known: for a short while nobody is asked again.
// Who is refused is recorded; the error is a *fault.Error.
func (g *Gateway) Admit(ctx context.Context, door string, c Credentials) (Credentials, error) {
	if g.cfg.Client != nil {
		c.Client = g.cfg.Client(&c)
	}
	r := newRun(&Call{Door: door, Method: MethodAuthenticate, Credentials: c}, nil)
	endings := g.cfg.endings.Load()
	if err := r.authenticate(ctx, &g.cfg); err != nil {
		return c, record(ctx, g.cfg.Auditor, r, nil, err)
	}
	if _, err := g.cfg.toolset(r.Principal, &c); err != nil {
		return c, record(ctx, g.cfg.Auditor, r, nil, err)
	}
	return g.cfg.know(c, r.Principal, endings), nil
}

// TrailReader is who shows credentials, if they may read the audit trail of their
// tenant. The error is a *fault.Error.
func (g *Gateway) TrailReader(ctx context.Context, c Credentials) (Principal, error) {
	p, err := g.Authenticate(ctx, c)
	if err == nil && !g.cfg.Access.ReadsTrail(p) {
		err = fault.New(fault.Forbidden, "the audit trail is read by who has a role with audit: read, and by who can read the data directory of the edge")
	}
	return p, err
}

// MethodAuthenticate is how the audit trail names what was refused before it was
// read; it is no method of MCP.
const MethodAuthenticate = "busbar/authenticate"

// Authenticate says who is behind credentials, for what is bound to a principal
// besides calls.
func (g *Gateway) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	p, err := g.cfg.who(ctx, c)
	if err != nil {
		return p, fault.From(err)
	}
	return p, nil
}

// Enter admits a request that no service answers, such as a list: it is counted
// for its caller's limits as a call is, and recorded when it is refused.
func (g *Gateway) Enter(ctx context.Context, c *Call) error {
	_, err := g.enter(ctx, c)
	return err
}

func (g *Gateway) enter(ctx context.Context, c *Call) (Principal, error) {
	r := newRun(c, nil)
	_, err := g.entrance(ctx, r)
	if err == nil {
		_, err = g.cfg.toolset(r.Principal, &c.Credentials)
	}
	if err != nil {
		err = record(ctx, g.cfg.Auditor, r, nil, err)
	}
	return r.Principal, err
}

// entered is the end of the way of a request that reaches no service.
func entered(context.Context, *run) (*Answer, error) { return nil, nil }

// See returns what the services offer now to who shows credentials.
func (g *Gateway) See(ctx context.Context, c Credentials) (*catalogue.Snapshot, error) {
	p, err := g.Authenticate(ctx, c)
	if err != nil {
		return nil, err
	}
	return g.cfg.Catalogue.Now().For(g.cfg.view(p, &c)), nil
}

// Needs reports for who shows credentials whether somebody has to agree to a call of a
// tool, by its name and what the tool itself says.
func (g *Gateway) Needs(ctx context.Context, c Credentials) (func(tool string, says bool) bool, error) {
	p, err := g.Authenticate(ctx, c)
	return func(tool string, says bool) bool { return g.cfg.Access.Approval(p, tool, says).Needed }, err
}

// lookAgain is how long who is behind credentials is taken as known.
const lookAgain = 15 * time.Second

// Ender is an Authenticator that knows at once when credentials end before their
// time.
type Ender interface {
	// OnEnded calls f when credentials have ended, with Principal.Credential or empty
	// for any. f does not block.
	OnEnded(f func(credential string)) (stop func())
}

// Stay is a stream that is open for somebody.
type Lease struct {
	g           *Gateway
	credentials Credentials
	ctx         context.Context
	cancel      context.CancelCauseFunc

	mu    sync.Mutex
	who   Principal
	timer *time.Timer
}

// MethodStream is how the audit trail names the opening of a stream that was
// refused; it is no method of MCP.
const MethodStream = "busbar/stream"

// Stay admits the opening of a stream as Enter does a request, and keeps it open
// for as long as its credentials are good and stand for the same principal: they are looked at every 15 s, when they expire, and when it
// is known that they have ended. Its context ends with them, by a *fault.Error as
// its cause. Close it when the stream ends.
func (g *Gateway) Lease(ctx context.Context, door string, c Credentials) (*Lease, error) {
	p, err := g.enter(ctx, &Call{Door: door, Method: MethodStream, Credentials: c})
	if err != nil {
		return nil, err
	}
	s := &Lease{g: g, credentials: c, who: p}
	s.credentials.known, s.credentials.again = nil, true
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	s.timer = time.AfterFunc(s.next(time.Now()), s.look)
	s.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leases[s] = struct{}{}
	return s, nil
}

// Context ends with the stream, or its credentials.
func (s *Lease) Context() context.Context { return s.ctx }

// Who is behind the stream now.
func (s *Lease) Who() Principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.who
}

// Credentials are those of the stream, known as long as it is open.
func (s *Lease) Credentials() Credentials { return s.as(s.Who()) }

// as are the credentials with what somebody may do.
func (s *Lease) as(p Principal) Credentials {
	return s.g.cfg.know(s.credentials, p, s.g.cfg.endings.Load())
}

// Tenant is that of who is behind the stream.
func (s *Lease) Tenant() string { return s.Who().Tenant }

// View is what the holder of the lease may see of the catalogue; nil means everything.
func (s *Lease) View() catalogue.View { return s.g.cfg.view(s.Who(), &s.credentials) }

// Sees is what the services offer now to who is behind the stream.
func (s *Lease) Sees() *catalogue.Snapshot { return s.g.cfg.Catalogue.Now().For(s.View()) }

// Subscribe hears of changes of what the stream's principal may know of; see
// catalogue.Live.
func (s *Lease) Subscribe(wants func(uri string) bool) *catalogue.Subscription {
	return s.g.cfg.Catalogue.Subscribe(s, wants)
}

// Missed says what changed since a time; see catalogue.Live.
func (s *Lease) Missed(digest string, then time.Time, resources []string) (catalogue.Change, []string) {
	return s.g.cfg.Catalogue.Missed(s.ctx, s, digest, then, resources)
}

// Ended is why the context ended: a *fault.Error for credentials, nil for anything
// else.
func (s *Lease) Ended() error {
	var f *fault.Error
	if errors.As(context.Cause(s.ctx), &f) {
		return f
	}
	return nil
}

// Close ends the stay.
func (s *Lease) Close() {
	s.g.mu.Lock()
	delete(s.g.leases, s)
	s.g.mu.Unlock()
	s.mu.Lock()
	s.timer.Stop()
	s.mu.Unlock()
	s.cancel(nil)
}

// next is how long the credentials need not be looked at.
func (s *Lease) next(now time.Time) time.Duration {
	if e := s.who.Expires; !e.IsZero() {
		return max(0, min(lookAgain, e.Sub(now)))
	}
	return lookAgain
}

// look looks at the credentials again.
func (s *Lease) look() {
	if s.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, lookAgain)
	defer cancel()
	p, err := s.g.Authenticate(ctx, s.credentials)
	if err == nil {
		if _, gone := s.g.cfg.toolset(p, &s.credentials); gone != nil {
			s.cancel(gone)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	expired := !s.who.Expires.IsZero() && !time.Now().Before(s.who.Expires)
	switch {
	case err == nil && p.ID() == s.who.ID():
		s.who = p
	case err == nil, fault.Is(err, fault.Unauthenticated), fault.Is(err, fault.Forbidden), expired:
		s.cancel(fault.New(fault.Unauthenticated, "the credentials of this stream are no longer good; open it again with new ones").Because(err))
		return
	}
	s.timer.Reset(s.next(time.Now()))
}

// ended looks at the streams whose credentials may have ended.
func (g *Gateway) ended(credential string) {
	g.cfg.endings.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.leases {
		s.mu.Lock()
		if credential == "" || s.who.Credential == credential {
			s.timer.Reset(0)
		}
		s.mu.Unlock()
	}
}
