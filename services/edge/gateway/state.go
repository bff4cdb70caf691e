package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/store"
)

// stateLife is how long a client may take to answer.
const stateLife = time.Hour

// state protects the state that services send through clients. It comes back from the client that
// got it, for the call that it belongs to, unchanged and in time, or it is refused (2026-07-28,
// basic/patterns/mrtr, Server Requirements).
func state(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if len(r.RequestState) > 0 {
				state, err := r.openState(ctx, cfg.Sealer)
				if err != nil {
					return nil, err
				}
				r.RequestState = state
			}
			answer, err := next(ctx, r)
			if err != nil {
				return nil, err
			}
			return answer, r.sealState(ctx, cfg.Sealer, answer)
		}
	}
}

func (r *run) openState(ctx context.Context, s *store.Sealer) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(string(r.RequestState))
	var state []byte
	for _, r.ofApproval = range []bool{true, false} {
		if err == nil || errors.Is(err, store.ErrNotOurs) {
			state, err = s.Open(ctx, r.belongsTo(), sealed)
		}
		if err == nil {
			break
		}
	}
	var broken base64.CorruptInputError
	if errors.Is(err, store.ErrNotOurs) || errors.As(err, &broken) {
		return nil, r.noState()
	}
	return state, err
}

// sealState seals the state that an answer takes through the client.
func (r *run) sealState(ctx context.Context, s *store.Sealer, a *Answer) error {
	// An answer that is held has state even if its service keeps none: the caller's reply is for
	// the tool that asked.
	if a.InputRequired == nil || len(a.InputRequired.RequestState) == 0 && !r.AskLater {
		return nil
	}
	sealed, err := s.Seal(ctx, r.belongsTo(), a.InputRequired.RequestState, s.Now().Add(stateLife))
	a.InputRequired.RequestState = base64.RawURLEncoding.AppendEncode(nil, sealed)
	return err
}

// belongsTo is the digest of everything that the state is bound to. The state of an approval has
// one more part, so that no service can pretend that a person has agreed.
func (r *run) belongsTo() []byte {
	var approval []byte
	if r.ofApproval {
		approval = []byte("approval")
	}
	return digest([]byte(r.Principal.Tenant), []byte(r.Principal.Name), []byte(r.Method), []byte(r.Name), r.Arguments,
		[]byte(r.Target.Service), []byte(r.Target.Definition), approval)
}

// digest stands for several parts. Each goes in with its length, so that no other parts have the
// same digest, whatever they contain.
func digest[P ~string | ~[]byte](parts ...P) []byte {
	size := 0
	for _, part := range parts {
		size += 8 + len(part)
	}
	if short := [256]byte{}; size <= len(short) { // without the heap
		b := short[:0]
		for _, part := range parts {
			b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
		}
		sum := sha256.Sum256(b)
		return sum[:]
	}
	h := sha256.New()
	for _, part := range parts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part))
	}
	return h.Sum(nil)
}
