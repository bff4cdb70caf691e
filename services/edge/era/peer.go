package era

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Peer is one client's connection or session: the requests it has in flight,
// by id.
type Peer struct {
	// Session is that of a legacy client whose connection is its session; nil
	// before initialize.
	Session atomic.Pointer[session.Session]

	mu       sync.Mutex
	inFlight map[string]context.CancelCauseFunc
}

// NewPeer makes a peer with nothing in flight.
func NewPeer() *Peer { return &Peer{inFlight: map[string]context.CancelCauseFunc{}} }

// ErrCancelled is the cause of a context whose client sent
// notifications/cancelled. No response is owed then.
var ErrCancelled = errors.New("cancelled by the client")

// begin records a request, nil when its id is in flight already.
func (p *Peer) begin(ctx context.Context, id []byte, x Exchange) (context.Context, *pending) {
	key := string(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.inFlight[key]; taken {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p.inFlight[key] = cancel
	return ctx, &pending{Exchange: x, peer: p, key: key, cancel: cancel}
}

// pending is the exchange of a request in flight. The id is free before the
// response goes out: the client may use it again as soon as it has that.
type pending struct {
	Exchange
	peer   *Peer
	key    string
	cancel context.CancelCauseFunc
	freed  bool
}

// Respond implements Exchange.
func (f *pending) Respond(status int, message []byte) {
	f.free()
	f.Exchange.Respond(status, message)
}

func (f *pending) free() {
	if f.freed {
		return // by now the id may be another request's
	}
	f.freed = true
	f.peer.mu.Lock()
	defer f.peer.mu.Unlock()
	delete(f.peer.inFlight, f.key)
}

// end is for when nothing more happens, response or not.
func (f *pending) end() {
	f.free()
	f.cancel(nil)
}

// cancel gives up a request; false when it is not in flight here.
func (p *Peer) cancel(id []byte) bool {
	p.mu.Lock()
	cancel := p.inFlight[string(id)]
	p.mu.Unlock()
	if cancel != nil {
		cancel(ErrCancelled)
	}
	return cancel != nil
}

// cancelAll gives up every request.
func (p *Peer) cancelAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.inFlight {
		cancel(ErrCancelled)
	}
}

func duplicateID() error {
	return fault.New(fault.InvalidRequest, "a request with this id is in flight already")
}
