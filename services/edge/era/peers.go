package era

import "sync"

// peers are the sessions with requests in flight at this edge, by session id.
type peers struct {
	mu   sync.Mutex
	open map[string]*openPeer
}

type openPeer struct {
	peer  *Peer
	users int
}

// Peer returns the peer of a session whose requests come one by one. Release
// it when the request is over.
func (s *Server) Peer(session string) (peer *Peer, release func()) {
	p := &s.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[session]
	if o == nil {
		o = &openPeer{peer: NewPeer()}
		p.open[session] = o
	}
	o.users++
	return o.peer, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if o.users--; o.users == 0 {
			delete(p.open, session)
		}
	}
}

// Ended gives up what is in flight of a session that has ended, here and at
// other edges: nobody is left to answer it, or a question of it.
func (s *Server) Ended(session string) {
	s.Cancelled(session, nil)
	if err := s.gateway.CancelElsewhere(session, nil); err != nil {
		s.log.Warn("the end of a session was not passed on", "error", err)
	}
}

// Cancelled takes up a cancellation that arrived at another edge. Without a
// request id it is of all requests.
func (s *Server) Cancelled(session string, requestID []byte) {
	s.peers.mu.Lock()
	o := s.peers.open[session]
	s.peers.mu.Unlock()
	switch {
	case o == nil:
	case len(requestID) == 0:
		o.peer.cancelAll()
	default:
		o.peer.cancel(requestID)
	}
}

// cancelled takes up a client's notifications/cancelled: here, or where the
// request is in flight.
func (s *Server) cancelled(r *Request) {
	id := r.Message.P.RequestID
	if r.Peer == nil || len(id) == 0 || r.Peer.cancel(id) || r.Session == nil || r.Session.ID == "" {
		return
	}
	if err := s.gateway.CancelElsewhere(r.Session.ID, id); err != nil {
		s.log.Warn("a cancellation was not passed on", "error", err)
	}
}
