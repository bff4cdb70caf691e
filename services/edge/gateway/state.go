package gateway

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// stateLife is how long a client may take to answer.
const stateLife = time.Hour

// Sealer protects the state that services send through clients: it comes back
// from whoever got it, for the call it belongs to, unchanged and in time, or
// not at all (2026-07-28, basic/patterns/mrtr, Server Requirements).
type Sealer struct {
	aead cipher.AEAD
}

// NewSealer makes a Sealer with a key of 16, 24 or 32 bytes.
func NewSealer(key []byte) (*Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Sealer{aead}, err
}

// NewKey returns a key for NewSealer.
func NewKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

func (s *Sealer) seal(c *Call, state []byte) []byte {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(state)+s.aead.Overhead()+8)
	_, _ = rand.Read(nonce)
	plain := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(stateLife).Unix()))
	sealed := s.aead.Seal(nonce, nonce, append(plain, state...), belongsTo(c))
	return base64.RawURLEncoding.AppendEncode(nil, sealed)
}

func (s *Sealer) open(c *Call) ([]byte, error) {
	refused := fault.New(fault.InvalidParams, "params.requestState is not one that this server gave for this call, or it is too old; call again without it")
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(string(c.RequestState))
	n := s.aead.NonceSize()
	if err != nil || len(sealed) < n {
		return nil, refused
	}
	plain, err := s.aead.Open(nil, sealed[:n], sealed[n:], belongsTo(c))
	if err != nil || len(plain) < 8 || time.Now().Unix() > int64(binary.BigEndian.Uint64(plain)) {
		return nil, refused
	}
	return plain[8:], nil
}

// belongsTo is the digest of what the state is bound to.
func belongsTo(c *Call) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.Principal.Tenant), []byte(c.Principal.Name), []byte(c.Method), []byte(c.Name), c.Arguments} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// protect opens the state a call brings and seals the one its answer takes.
func protect(s *Sealer) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if len(c.RequestState) > 0 {
			state, err := s.open(c)
			if err != nil {
				return nil, err
			}
			c.RequestState = state
		}
		answer, err := next(ctx, c, onFrame)
		if err == nil && answer.InputRequired != nil && len(answer.InputRequired.RequestState) > 0 {
			answer.InputRequired.RequestState = s.seal(c, answer.InputRequired.RequestState)
		}
		return answer, err
	}
}
