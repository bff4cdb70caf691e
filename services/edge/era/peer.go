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

// begin records a request; false when its id is in flight already.
func (p *Peer) begin(ctx context.Context, id []byte) (context.Context, func(), bool) {
	key := string(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.inFlight[key]; taken {
		return ctx, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p.inFlight[key] = cancel
	return ctx, func() {
		p.mu.Lock()
		delete(p.inFlight, key)
		p.mu.Unlock()
		cancel(nil)
	}, true
}

func (p *Peer) cancel(id []byte) {
	p.mu.Lock()
	cancel := p.inFlight[string(id)]
	p.mu.Unlock()
	if cancel != nil {
		cancel(ErrCancelled)
	}
}

func duplicateID() error {
	return fault.New(fault.InvalidRequest, "a request with this id is in flight already")
}
