package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// KeyLife is how long a key seals. It opens for as long again, which is more than the life of
// anything sealed.
//
//limit:time a task that calls tools has its caller's rights for at most
const KeyLife = 12 * time.Hour

// ClockSlack is how far the clocks of two edges may differ: if one edge gives something a time,
// any other accepts it for that much longer.
const ClockSlack = 2 * time.Minute

// Sealer protects data that travels through others and has to come back unchanged, such as
// request state.
type Sealer struct {
	// Now is the sealer's clock: time.Now, except in tests.
	Now func() time.Time

	keys  KeySource
	mu    sync.Mutex
	aeads map[uint32]cipher.AEAD
}

// KeySource returns the key of a period of KeyLife, 32 bytes: the same for all edges that serve
// the same clients.
type KeySource func(ctx context.Context, period uint32) ([]byte, error)

// NewSealer makes a Sealer with the keys of a source.
func NewSealer(keys KeySource) *Sealer {
	return &Sealer{keys: keys, Now: time.Now, aeads: map[uint32]cipher.AEAD{}}
}

// NewKey makes a key of 32 bytes.
func NewKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

// OwnKeys are the keys of an edge that shares none.
func OwnKeys() KeySource {
	key := NewKey()
	return func(context.Context, uint32) ([]byte, error) { return key, nil }
}

// SharedKeys are keys that all edges of the bus have, so that a client may come back to any of
// them. The first edge that needs a period's key makes it; the bucket forgets it when it is of no
// more use.
func SharedKeys(s *storage.Storage) KeySource {
	return func(ctx context.Context, period uint32) ([]byte, error) {
		return s.Shared(ctx, bus.KeysBucket, fmt.Sprintf("request-state.%d", period), NewKey())
	}
}

// AuditKey is the key of the digests in the audit trail, which all edges of the bus have.
func AuditKey(ctx context.Context, s *storage.Storage) ([]byte, error) {
	return s.Shared(ctx, bus.AuditBucket, "digests", NewKey())
}

func (s *Sealer) period() uint32 { return uint32(s.Now().Unix() / int64(KeyLife.Seconds())) }

// aead returns the cipher of a period, and forgets those before the last.
func (s *Sealer) aead(ctx context.Context, period uint32) (cipher.AEAD, error) {
	s.mu.Lock()
	aead := s.aeads[period]
	s.mu.Unlock()
	if aead != nil {
		return aead, nil
	}
	key, err := s.keys(ctx, period)
	if err != nil {
		return nil, fault.From(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.aeads {
		if p+1 < s.period() {
			delete(s.aeads, p)
		}
	}
	s.aeads[period] = aead
	return aead, nil
}

const periodSize, nonceSize = 4, 12

// ErrNotOurs refuses data that no edge sealed, or that was sealed too long ago or for another
// purpose.
var ErrNotOurs = errors.New("not sealed by an edge of this bus for this, or too old")

// Seal protects plain until a time, and ClockSlack. It opens only with the same bound.
func (s *Sealer) Seal(ctx context.Context, bound, plain []byte, until time.Time) ([]byte, error) {
	period := s.period()
	aead, err := s.aead(ctx, period)
	if err != nil {
		return nil, err
	}
	sealed := binary.BigEndian.AppendUint32(make([]byte, 0, periodSize+nonceSize+8+len(plain)+aead.Overhead()), period)
	sealed = sealed[:periodSize+nonceSize]
	_, _ = rand.Read(sealed[periodSize:])
	return aead.Seal(sealed, sealed[periodSize:], append(binary.BigEndian.AppendUint64(nil, uint64(until.Unix())), plain...), bound), nil
}

// Open returns the sealed data; the error is ErrNotOurs for anything that Seal did not make.
func (s *Sealer) Open(ctx context.Context, bound, sealed []byte) ([]byte, error) {
	if len(sealed) < periodSize+nonceSize {
		return nil, ErrNotOurs
	}
	period := binary.BigEndian.Uint32(sealed)
	// One period either way: clocks differ, and sealed data lives on after its period.
	if now := s.period(); period+1 < now || period > now+1 {
		return nil, ErrNotOurs
	}
	aead, err := s.aead(ctx, period)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, sealed[periodSize:periodSize+nonceSize], sealed[periodSize+nonceSize:], bound)
	if err != nil || len(plain) < 8 || s.Now().Add(-ClockSlack).Unix() > int64(binary.BigEndian.Uint64(plain)) {
		return nil, ErrNotOurs
	}
	return plain[8:], nil
}
