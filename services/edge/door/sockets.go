package door

import (
	"context"
	"sync"
)

// MaxSockets bounds the WebSockets that one edge keeps open.
const MaxSockets = 10_000

// Sockets are the WebSockets of an edge. The HTTP server forgets a connection
// once it is one, so whoever ends the server ends these as well.
type Sockets struct {
	abort chan struct{}
	once  sync.Once

	mu    sync.Mutex
	open  int
	ended chan struct{} // closed when none is open; nil until somebody waits
}

// NewSockets makes a set without any.
func NewSockets() *Sockets { return &Sockets{abort: make(chan struct{})} }

func (s *Sockets) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= MaxSockets {
		return false
	}
	s.open++
	return true
}

func (s *Sockets) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.open == 0 && s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// End waits until none is open any more. When ctx ends before, those left are
// cut off: what they have in flight is cancelled. Tell them to end first; see
// SocketConfig.Closing.
func (s *Sockets) End(ctx context.Context) {
	s.mu.Lock()
	if s.open == 0 {
		s.mu.Unlock()
		return
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	ended := s.ended
	s.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		s.once.Do(func() { close(s.abort) })
		<-ended
	}
}
