// Package session keeps what legacy clients said in initialize, where any
// edge finds it: a session is a key in a bucket on the bus, not a place in one
// process.
package session

import (
	"context"
	"crypto/rand"
	"errors"
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
	// Principal is who opened it, and the only one it is for.
	Principal string `json:"principal"`
	// Payer is whose share of the room it takes.
	Payer        string         `json:"payer,omitzero"`
	Version      string         `json:"version"`
	ClientName   string         `json:"clientName,omitzero"`
	ClientVer    string         `json:"clientVersion,omitzero"`
	Capabilities jsontext.Value `json:"capabilities,omitzero"`
	// LogLevel is what logging/setLevel asked for; empty before that.
	LogLevel string `json:"logLevel,omitzero"`
	// Subscribed are the URIs of resources/subscribe, in its order.
	Subscribed []string `json:"subscribed,omitempty"`
	// Stream is the youngest stream of changes, which alone gets them.
	Stream string `json:"stream,omitzero"`
	// Renewed is when the session's life last began anew.
	Renewed time.Time `json:"renewed"`
}

// Store keeps sessions. Its methods may be used from any goroutine.
type Store interface {
	// Create stores a new session and sets its ID.
	Create(ctx context.Context, s *Session) error
	// Get returns a session, or a *fault.Error with reason UnknownSession when
	// there is none of that id, or no longer. Don't change what it returns.
	Get(ctx context.Context, id string) (*Session, error)
	// Change lets f change a session, as one step: changes made at the same time
	// are all kept, and f may be called more than once. An error of f is
	// returned and changes nothing. UnknownSession when there is no session.
	Change(ctx context.Context, id string, f func(*Session) error) error
	// Delete ends a session; UnknownSession when there is none.
	Delete(ctx context.Context, id string) error
}

// renewAfter is how old a session may get before its use stores it again.
const renewAfter = time.Hour

// maxCached bounds the sessions one edge remembers.
const maxCached = 100_000

// idLength is that of rand.Text.
const idLength = 26

// maxSize bounds one session, most of which is what the client says of itself.
const maxSize = 32 << 10

// maxAbout bounds what a client says of itself, which is kept for a day.
const maxAbout = 4 << 10

// maxOfPayer and maxBytesOfPayer bound the sessions that one payer has through
// one edge. Of more, the one that was opened or changed longest ago ends.
const (
	maxOfPayer      = 10_000
	maxBytesOfPayer = 16 << 20
)

// OnBus is the Store in the bus's sessions bucket. Each edge remembers the
// sessions it has seen and forgets one as soon as anyone writes its key.
type OnBus struct {
	bucket *bus.Bucket
	quota  *quota.Quota
	stop   func()

	mu     sync.Mutex
	cached map[string]*Session
	// writes counts the writes heard, so that a value read before one is not
	// remembered after it.
	writes uint64
}

// NewOnBus opens the store. Close it before the connection.
func NewOnBus(ctx context.Context, conn *bus.Conn) (*OnBus, error) {
	bucket := conn.Bucket(bus.SessionsBucket)
	s := &OnBus{bucket: bucket, quota: quota.New("sessions", maxOfPayer, maxBytesOfPayer), cached: map[string]*Session{}}
	var err error
	if s.stop, err = bucket.OnWrite(">", s.forget); err != nil {
		return nil, err
	}
	return s, nil
}

// Close stops following writes.
func (s *OnBus) Close() { s.stop() }

// Create implements Store.
func (s *OnBus) Create(ctx context.Context, n *Session) error {
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
	return s.bucket.Put(ctx, n.ID, raw)
}

// makeRoom ends the oldest sessions of the same payer, if it has too many.
func (s *OnBus) makeRoom(ctx context.Context, n *Session, size int) error {
	for _, id := range s.quota.Displace(n.Payer, n.ID, size, storage.SessionTTL) {
		if err := s.bucket.Delete(ctx, id); err != nil {
			return err
		}
		s.forget(id)
	}
	return nil
}

// Change implements Store.
func (s *OnBus) Change(ctx context.Context, id string, f func(*Session) error) error {
	if !validID(id) {
		return Unknown()
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
		return Unknown()
	}
	if err != nil {
		return err
	}
	return s.makeRoom(ctx, n, size)
}

// encode makes a session's value; its life begins anew.
func encode(n *Session) ([]byte, error) {
	n.Renewed = time.Now().UTC()
	raw, err := json.Marshal(n)
	if err == nil && len(raw) > maxSize {
		err = fault.New(fault.TooLarge, "what the session would hold is %d bytes; the limit is %d", len(raw), maxSize)
	}
	return raw, err
}

// Get implements Store.
func (s *OnBus) Get(ctx context.Context, id string) (*Session, error) {
	// An id becomes part of a subject, and NATS hangs up on one that is too long.
	if !validID(id) {
		return nil, Unknown()
	}
	s.mu.Lock()
	n, before := s.cached[id], s.writes
	s.mu.Unlock()
	if n == nil {
		raw, err := s.bucket.Get(ctx, id)
		if errors.Is(err, bus.ErrNoKey) {
			return nil, Unknown()
		}
		if err != nil {
			return nil, err
		}
		n = &Session{ID: id}
		if err := json.Unmarshal(raw, n); err != nil {
			return nil, err
		}
		s.mu.Lock()
		if len(s.cached) >= maxCached {
			clear(s.cached)
		}
		if s.writes == before {
			s.cached[id] = n
		}
		s.mu.Unlock()
	}
	switch age := time.Since(n.Renewed); {
	case age > storage.SessionTTL:
		s.forget(id)
		return nil, Unknown()
	case age > renewAfter:
		renewed := *n
		return &renewed, s.Change(ctx, id, func(now *Session) error {
			renewed = *now
			renewed.Renewed = time.Now().UTC()
			return nil
		})
	}
	return n, nil
}

// Delete implements Store.
func (s *OnBus) Delete(ctx context.Context, id string) error {
	n, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	// After it is gone: a Get on the way might else remember it again.
	defer s.forget(id)
	s.quota.Release(n.Payer, id)
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

func (s *OnBus) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cached, id)
	s.writes++
}

// Unknown is the error for a session that is not there.
func Unknown() error {
	return fault.New(fault.UnknownSession, "no such session, or it has ended; send initialize again")
}
