// Package store keeps what the edges of one bus have in common, in its buckets: sessions and
// streams of legacy clients, calls that wait for a person, the outcomes of calls with idempotency
// keys, the owners of names, and the keys that seal. Any edge finds what another one wrote. The
// policies are elsewhere. Each file has one store, a type over a bucket; start with Sessions, and
// Outcomes is the hardest.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// Session is one legacy client's session.
type Session struct {
	// ID is unguessable; possession of it is not authentication.
	ID string `json:"-"`
	// Principal is the principal that opened it, and the only one that may use it.
	Principal string `json:"principal"`
	// Account is the account whose share of the room it takes.
	Account      string         `json:"payer,omitzero"`
	Version      string         `json:"version"`
	ClientName   string         `json:"clientName,omitzero"`
	ClientVer    string         `json:"clientVersion,omitzero"`
	Capabilities jsontext.Value `json:"capabilities,omitzero"`
	// LogLevel is the level of the last logging/setLevel; empty before that.
	LogLevel string `json:"logLevel,omitzero"`
	// Subscribed are the URIs of resources/subscribe, in its order.
	Subscribed []string `json:"subscribed,omitempty"`
	// Stream is the youngest stream of changes, the only one that gets them.
	Stream string `json:"stream,omitzero"`
	// Renewed is when the session was last renewed.
	Renewed time.Time `json:"renewed"`
}

// renewSessionAfter is the age of a session after which using it stores it again.
const renewSessionAfter = time.Hour

// maxCachedSessions bounds the sessions that one edge remembers.
const maxCachedSessions = 100_000

// idLength is the length of a text of rand.Text.
const idLength = 26

// maxSession bounds one session, in bytes; most of it is the client's description of itself.
const maxSession = 32 << 10

// maxAbout bounds a client's description of itself, which is kept for a day, in bytes.
//
//limit:party `clientInfo` and `capabilities` of each session | `too_large`
const maxAbout = 4 << 10

// Bounds of Quota.
const (
	//limit:party sessions | the oldest end
	maxSessionsOfAccount = 10_000
	//limit:party bytes of sessions | the oldest end
	maxSessionBytes = 16 << 20
)

// Sessions are the sessions that legacy clients opened with initialize. A session is a key in a
// bucket on the bus, not a place in one process: any edge finds it. Each edge remembers the
// sessions it has seen and forgets one as soon as anyone writes its key. The methods may be used
// from any goroutine.
type Sessions struct {
	bucket *bus.Bucket
	// Quota bounds the sessions that one account has through one edge. Beyond it, the session
	// that was opened or changed longest ago ends.
	Quota *quota.Quota
	stop  func()

	mu     sync.Mutex
	cached map[string]cachedSession
	// heard is when somebody wrote a session: a value that is read soon after may be the previous
	// one, since a write is heard before it is stored.
	heard map[string]time.Time
}

// cachedSession is a session as it was read.
type cachedSession struct {
	*Session
	read time.Time
}

const (
	// writeTime bounds a write that a client waits for, of a session, its end, or an approval. A
	// bucket whose servers elect a leader does not answer, and the client may try again.
	//limit:record time to make or end a session, or to hold or approve a call | `unavailable`
	writeTime = 800 * time.Millisecond
	// settleTime is how long after a write is heard a value that is read is not remembered.
	// cacheTime is how long a value is remembered: a write may be stored even later.
	settleTime = 2 * time.Second
	cacheTime  = 30 * time.Second
)

// NewSessions opens the store. Close it before the connection.
func NewSessions(conn *bus.Conn) (_ *Sessions, err error) {
	bucket := conn.Bucket(bus.SessionsBucket)
	s := &Sessions{bucket: bucket, Quota: quota.New("sessions", maxSessionsOfAccount, maxSessionBytes), cached: map[string]cachedSession{}, heard: map[string]time.Time{}}
	if s.stop, err = bucket.OnWrite(">", s.forget); err != nil {
		return nil, err
	}
	return s, nil
}

// Close stops following writes.
func (s *Sessions) Close() { s.stop() }

// Create stores a new session and sets its ID.
func (s *Sessions) Create(ctx context.Context, n *Session) error {
	if about := len(n.ClientName) + len(n.ClientVer) + len(n.Capabilities); about > maxAbout {
		return fault.New(fault.TooLarge, "clientInfo and capabilities are %d bytes; the limit is %d", about, maxAbout)
	}
	n.ID = rand.Text()
	raw, err := encode(n)
	if err != nil {
		return err
	}
	if err := s.makeRoom(ctx, n, len(raw)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return s.bucket.Put(ctx, n.ID, raw) // fault:session-local
}

// makeRoom ends the oldest sessions of the same account, if it has too many.
func (s *Sessions) makeRoom(ctx context.Context, n *Session, size int) error {
	for _, id := range s.Quota.Displace(n.Account, n.ID, size, storage.SessionTTL) {
		if err := s.bucket.Delete(ctx, id); err != nil {
			return err
		}
		s.forget(id)
	}
	return nil
}

// Change lets f change a session, as one step: concurrent changes are all kept, and f may be
// called more than once. If f returns an error, Change returns it and changes nothing. The error
// has reason UnknownSession if the session does not exist.
func (s *Sessions) Change(ctx context.Context, id string, f func(*Session) error) error {
	if !validID(id) {
		return UnknownSession()
	}
	// Not left to OnWrite, which may come after this client's next request.
	defer s.forget(id)
	n, size := &Session{}, 0
	err := s.bucket.Change(ctx, id, func(raw []byte) ([]byte, error) {
		*n = Session{ID: id}
		if err := json.Unmarshal(raw, n); err != nil {
			return nil, err
		}
		if err := f(n); err != nil {
			return nil, err
		}
		raw, err := encode(n)
		size = len(raw)
		return raw, err
	})
	if errors.Is(err, bus.ErrNoKey) {
		return UnknownSession()
	}
	if err != nil {
		return err
	}
	return s.makeRoom(ctx, n, size)
}

// encode makes a session's value; it is renewed by that.
func encode(n *Session) ([]byte, error) {
	n.Renewed = time.Now().UTC()
	raw, err := json.Marshal(n)
	if err == nil && len(raw) > maxSession {
		err = fault.New(fault.TooLarge, "what the session would hold is %d bytes; the limit is %d", len(raw), maxSession)
	}
	return raw, err
}

// Get returns a session. Its *fault.Error has reason UnknownSession if no session has that id, or
// if it has ended. Do not change the result.
func (s *Sessions) Get(ctx context.Context, id string) (*Session, error) {
	// An id becomes part of a subject, and NATS closes the connection if that is too long.
	if !validID(id) {
		return nil, UnknownSession()
	}
	n := s.remembered(id)
	if n == nil {
		begun := time.Now()
		raw, err := s.bucket.Get(ctx, id)
		if errors.Is(err, bus.ErrNoKey) {
			return nil, UnknownSession()
		}
		if err != nil {
			return nil, err
		}
		n = &Session{ID: id}
		if err := json.Unmarshal(raw, n); err != nil {
			return nil, err
		}
		s.remember(n, begun)
	}
	switch age := time.Since(n.Renewed); {
	case age > storage.SessionTTL:
		s.forget(id)
		return nil, UnknownSession()
	case age > renewSessionAfter:
		renewed := *n
		return &renewed, s.Change(ctx, id, func(now *Session) error {
			renewed = *now
			renewed.Renewed = time.Now().UTC()
			return nil
		})
	}
	return n, nil
}

// Delete ends a session. The error has reason UnknownSession if the session does not exist.
func (s *Sessions) Delete(ctx context.Context, id string) error {
	n, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	// After it is gone: otherwise a concurrent Get might remember it again.
	defer s.forget(id)
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	s.Quota.Release(n.Account, id)
	return s.bucket.Delete(ctx, id)
}

// validID reports whether an id can be one that Create made.
func validID(id string) bool {
	if len(id) != idLength {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// remembered is a session that was read a moment ago, nil for any other.
func (s *Sessions) remembered(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.cached[id]; n.Session != nil && time.Since(n.read) < cacheTime {
		return n.Session
	}
	return nil
}

// remember keeps a session whose reading began at begun, unless somebody may just be writing it.
func (s *Sessions) remember(n *Session, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.heard[n.ID]; ok && begun.Sub(at) < settleTime {
		return
	}
	delete(s.heard, n.ID)
	if len(s.cached) >= maxCachedSessions {
		clear(s.cached)
	}
	s.cached[n.ID] = cachedSession{n, begun}
}

// forget is called when a session is written.
func (s *Sessions) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cached, id)
	now := time.Now()
	if len(s.heard) >= maxCachedSessions {
		maps.DeleteFunc(s.heard, func(_ string, at time.Time) bool { return now.Sub(at) > 10*settleTime })
	}
	s.heard[id] = now
}

// UnknownSession is the error for a session that does not exist.
func UnknownSession() error {
	return fault.New(fault.UnknownSession, "no such session, or it has ended; send initialize again")
}
