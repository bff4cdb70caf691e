package protocol

import (
	"context"
	"errors"
	"sync"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// ErrCancelled is the cause of a context whose client sent notifications/cancelled. No response
// is owed then.
var ErrCancelled = errors.New("cancelled by the client")

// InFlight are the requests that one client has in flight, over a connection or in a session, by
// id.
type InFlight struct {
	mu   sync.Mutex
	open map[string]context.CancelCauseFunc
}

// NewInFlight makes an InFlight without requests.
func NewInFlight() *InFlight { return &InFlight{open: map[string]context.CancelCauseFunc{}} }

// begin records a request. end frees its id and ends its context; it may be called more than
// once.
func (f *InFlight) begin(ctx context.Context, id []byte) (_ context.Context, end func(), err error) {
	key := string(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.open[key]; taken {
		return ctx, nil, fault.New(fault.InvalidRequest, "a request with this id is in flight already")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f.open[key] = cancel
	ended := false
	return ctx, func() {
		if ended {
			return // by now the id may be another request's
		}
		ended = true
		f.mu.Lock()
		delete(f.open, key)
		f.mu.Unlock()
		cancel(nil)
	}, nil
}

// cancel cancels a request; false if it is not in flight here.
func (f *InFlight) cancel(id []byte) bool {
	f.mu.Lock()
	cancel := f.open[string(id)]
	f.mu.Unlock()
	if cancel != nil {
		cancel(ErrCancelled)
	}
	return cancel != nil
}

// cancelAll cancels every request.
func (f *InFlight) cancelAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cancel := range f.open {
		cancel(ErrCancelled)
	}
}

// bySession are the sessions with requests in flight at this edge, by id.
type bySession struct {
	mu   sync.Mutex
	open map[string]*shared
}

// shared is what the requests of one session share while there are any.
type shared struct {
	requests *InFlight
	users    int
}

// InFlight returns the requests in flight of a session whose requests come one by one. Release it
// when the request is over.
func (s *Server) InFlight(session string) (requests *InFlight, release func()) {
	all := &s.inFlight
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.open[session]
	if one == nil {
		one = &shared{requests: NewInFlight()}
		all.open[session] = one
	}
	one.users++
	return one.requests, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(all.open, session)
		}
	}
}

// Ended cancels the requests in flight of a session that has ended, here and at other edges:
// nobody is left to answer, or to ask.
func (s *Server) Ended(session string) {
	s.Cancelled(session, nil)
	if err := s.caller.CancelElsewhere(session, nil); err != nil {
		s.log.Warn("the end of a session was not passed on", "error", err)
	}
}

// Cancelled handles a cancellation that arrived at another edge. Without a request id it cancels
// all requests.
func (s *Server) Cancelled(session string, requestID []byte) {
	s.inFlight.mu.Lock()
	one := s.inFlight.open[session]
	s.inFlight.mu.Unlock()
	switch {
	case one == nil:
	case len(requestID) == 0:
		one.requests.cancelAll()
	default:
		one.requests.cancel(requestID)
	}
}

// cancelled handles a client's notifications/cancelled: here, or at the edge where the request is
// in flight.
func (s *Server) cancelled(r *Request) {
	id := r.Message.P.RequestID
	if r.InFlight == nil || len(id) == 0 || r.InFlight.cancel(id) || r.Session == nil || r.Session.ID == "" {
		return
	}
	if err := s.caller.CancelElsewhere(r.Session.ID, id); err != nil {
		s.log.Warn("a cancellation was not passed on", "error", err)
	}
}
