package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// Admit identifies the holder of the credentials, before the door reads the request. The
// credentials it returns are known: for a short while they are not checked again. A refusal is
// recorded; the error is a *fault.Error.
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

// TrailReader returns the principal of the credentials if it may read the audit trail of its
// tenant. The error is a *fault.Error.
func (g *Gateway) TrailReader(ctx context.Context, c Credentials) (Principal, error) {
	p, err := g.Authenticate(ctx, c)
	if err == nil && !g.cfg.Access.ReadsTrail(p) {
		err = fault.New(fault.Forbidden, "reading the audit trail takes a role with audit: read, or access to the data directory of the edge")
	}
	return p, err
}

// MethodAuthenticate is the audit trail's name for a request that was refused before it was read.
// It is not a method of MCP.
const MethodAuthenticate = "busbar/authenticate"

// Authenticate returns the principal of credentials, for things other than calls that are bound
// to a principal.
func (g *Gateway) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	p, err := g.cfg.who(ctx, c)
	if err != nil {
		return p, fault.From(err)
	}
	return p, nil
}

// Enter admits a request that no service answers, such as a list. It counts for its caller's
// limits as a call does, and is recorded if it is refused.
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

// entered is the end of the chain for a request that reaches no service.
func entered(context.Context, *run) (*Answer, error) { return nil, nil }

// See returns the catalogue as the holder of the credentials sees it now.
func (g *Gateway) See(ctx context.Context, c Credentials) (*catalogue.Snapshot, error) {
	p, err := g.Authenticate(ctx, c)
	if err != nil {
		return nil, err
	}
	return g.cfg.Catalogue.Now().For(g.cfg.view(p, &c)), nil
}

// Needs reports, for the holder of the credentials, whether a call of a tool needs approval,
// given the tool's name and its own declaration.
func (g *Gateway) Needs(ctx context.Context, c Credentials) (func(tool string, says bool) bool, error) {
	p, err := g.Authenticate(ctx, c)
	return func(tool string, says bool) bool { return g.cfg.Access.Approval(p, tool, says).Needed }, err
}

// lookAgain is how long the principal of credentials is taken as known.
const lookAgain = 15 * time.Second

// Ender is an Authenticator that knows at once when credentials end before their time.
type Ender interface {
	// OnEnded calls f when credentials have ended, with Principal.Credential, or with an empty
	// text if any credentials may have ended. f does not block.
	OnEnded(f func(credential string)) (stop func())
}

// Lease is a stream that is open for a principal.
type Lease struct {
	g           *Gateway
	credentials Credentials
	ctx         context.Context
	cancel      context.CancelCauseFunc

	mu    sync.Mutex
	who   Principal
	timer *time.Timer
}

// MethodStream is the audit trail's name for the opening of a stream that was refused. It is not
// a method of MCP.
const MethodStream = "busbar/stream"

// Lease admits the opening of a stream as Enter admits a request, and keeps it open as long as
// its credentials are valid and stand for the same principal. They are checked every 15 s, when
// they expire, and when it is known that they have ended. The context of the lease ends with
// them; its cause is a *fault.Error. Close it when the stream ends.
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

// Context ends with the stream, or with its credentials.
func (s *Lease) Context() context.Context { return s.ctx }

// Principal returns the principal that holds the stream now.
func (s *Lease) Principal() Principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.who
}

// Credentials are the credentials of the stream, known as long as it is open.
func (s *Lease) Credentials() Credentials { return s.as(s.Principal()) }

// as returns the credentials with the rights of a principal.
func (s *Lease) as(p Principal) Credentials {
	return s.g.cfg.know(s.credentials, p, s.g.cfg.endings.Load())
}

// Tenant is the tenant of the stream's principal.
func (s *Lease) Tenant() string { return s.Principal().Tenant }

// View is the part of the catalogue that the holder of the lease may see; nil means everything.
func (s *Lease) View() catalogue.View { return s.g.cfg.view(s.Principal(), &s.credentials) }

// Sees is the catalogue as the stream's principal sees it now.
func (s *Lease) Sees() *catalogue.Snapshot { return s.g.cfg.Catalogue.Now().For(s.View()) }

// Subscribe reports changes in the part of the catalogue that the stream's principal may know of;
// see catalogue.Live.
func (s *Lease) Subscribe(wants func(uri string) bool) *catalogue.Subscription {
	return s.g.cfg.Catalogue.Subscribe(s, wants)
}

// Missed says what changed since a time; see catalogue.Live.
func (s *Lease) Missed(digest string, then time.Time, resources []string) (catalogue.Change, []string) {
	return s.g.cfg.Catalogue.Missed(s.ctx, s, digest, then, resources)
}

// Ended says why the context ended: a *fault.Error if it ended with its credentials, nil
// otherwise.
func (s *Lease) Ended() error {
	var f *fault.Error
	if errors.As(context.Cause(s.ctx), &f) {
		return f
	}
	return nil
}

// Close ends the lease.
func (s *Lease) Close() {
	s.g.mu.Lock()
	delete(s.g.leases, s)
	s.g.mu.Unlock()
	s.mu.Lock()
	s.timer.Stop()
	s.mu.Unlock()
	s.cancel(nil)
}

// next is how long the credentials need not be checked.
func (s *Lease) next(now time.Time) time.Duration {
	if e := s.who.Expires; !e.IsZero() {
		return max(0, min(lookAgain, e.Sub(now)))
	}
	return lookAgain
}

// look checks the credentials again.
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

// ended checks the streams whose credentials may have ended.
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
