package gateway

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// stateLife is how long a client may take to answer.
const stateLife = time.Hour

// keyLife is how long a key seals. It opens for as long again, which is more
// than any state lives.
const keyLife = 12 * time.Hour

// clockSlack is how far the clocks of two edges may differ: what one edge gives a time,
// any other takes for so much longer.
const clockSlack = 2 * time.Minute

// Sealer protects the state that services send through clients: it comes back
// from whoever got it, for the call it belongs to, unchanged and in time, or
// not at all (2026-07-28, basic/patterns/mrtr, Server Requirements).
type Sealer struct {
	keys KeySource
	now  func() time.Time

	mu    sync.Mutex
	aeads map[uint32]cipher.AEAD
}

// KeySource returns the key of a period of keyLife, 32 bytes: the same for all
// edges that serve the same clients.
type KeySource func(ctx context.Context, period uint32) ([]byte, error)

// NewSealer makes a Sealer with the keys of a source.
func NewSealer(keys KeySource) *Sealer {
	return &Sealer{keys: keys, now: time.Now, aeads: map[uint32]cipher.AEAD{}}
}

// NewKey returns a key for a KeySource.
func NewKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

// ownKeys are those of an edge that shares none.
func ownKeys() KeySource {
	key := NewKey()
	return func(context.Context, uint32) ([]byte, error) { return key, nil }
}

func (s *Sealer) period() uint32 { return uint32(s.now().Unix() / int64(keyLife.Seconds())) }

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

// errNotOurs refuses what no edge sealed, or too long ago, or for something else.
var errNotOurs = errors.New("not sealed by an edge of this bus for this, or too old")

// seal protects plain until a time, and clockSlack. It opens only with what it is bound to.
func (s *Sealer) seal(ctx context.Context, bound, plain []byte, until time.Time) ([]byte, error) {
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

// open returns what was sealed; errNotOurs for anything else.
func (s *Sealer) open(ctx context.Context, bound, sealed []byte) ([]byte, error) {
	if len(sealed) < periodSize+nonceSize {
		return nil, errNotOurs
	}
	period := binary.BigEndian.Uint32(sealed)
	// One period either way: clocks differ, and what is sealed lives on after its
	// period.
	if now := s.period(); period+1 < now || period > now+1 {
		return nil, errNotOurs
	}
	aead, err := s.aead(ctx, period)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, sealed[periodSize:periodSize+nonceSize], sealed[periodSize+nonceSize:], bound)
	if err != nil || len(plain) < 8 || s.now().Add(-clockSlack).Unix() > int64(binary.BigEndian.Uint64(plain)) {
		return nil, errNotOurs
	}
	return plain[8:], nil
}

func (s *Sealer) sealState(ctx context.Context, c *Call, state []byte) ([]byte, error) {
	sealed, err := s.seal(ctx, belongsTo(c), state, s.now().Add(stateLife))
	return base64.RawURLEncoding.AppendEncode(nil, sealed), err
}

func (s *Sealer) openState(ctx context.Context, c *Call) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(string(c.RequestState))
	var state []byte
	if err == nil {
		state, err = s.open(ctx, belongsTo(c), sealed)
	}
	var broken base64.CorruptInputError
	if errors.Is(err, errNotOurs) || errors.As(err, &broken) {
		return nil, fault.New(fault.InvalidParams, "params.requestState is not one that this server gave for this call, it is too old, or the tool has changed since; call again without it")
	}
	return state, err
}

// belongsTo is the digest of what the state is bound to.
func belongsTo(c *Call) []byte {
	return digest([]byte(c.Principal.Tenant), []byte(c.Principal.Name), []byte(c.Method), []byte(c.Name), c.Arguments,
		[]byte(c.Target.Service), []byte(c.Target.Definition))
}

// protect opens the state a call brings and seals the one its answer takes.
func protect(s *Sealer) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if len(c.RequestState) > 0 {
			state, err := s.openState(ctx, c)
			if err != nil {
				return nil, err
			}
			c.RequestState = state
		}
		answer, err := next(ctx, c, onFrame)
		if err == nil && answer.InputRequired != nil && len(answer.InputRequired.RequestState) > 0 {
			answer.InputRequired.RequestState, err = s.sealState(ctx, c, answer.InputRequired.RequestState)
		}
		return answer, err
	}
}
