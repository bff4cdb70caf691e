package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/store"
)

// stateLife is how long a client may take to answer.
const stateLife = time.Hour

// sealed is what the edge puts before a service's state that travels through the client. Only an
// edge writes it, so no service can pretend that a person has agreed.
type sealed struct {
	Consent *consent `json:"consent,omitzero"`
}

// consent is an open question to a person whether a call may run or, if By is set, the yes that
// was given before the service asked for more.
type consent struct {
	// Name is valid for one use.
	Name string `json:"name"`
	// Tool is the digest of the tool that the person was asked about.
	Tool []byte `json:"tool"`
	// By is the ID of the person's principal.
	By   string    `json:"by,omitzero"`
	Door string    `json:"door,omitzero"`
	Time time.Time `json:"time,omitzero"`
}

// newConsent keeps a person's yes; nil for an open question.
func (r *run) newConsent(yes *Approval) *consent {
	c := &consent{Name: rand.Text(), Tool: r.toolDigest()}
	if yes != nil {
		c.By, c.Door, c.Time = yes.By.ID(), yes.Door, yes.Time
	}
	return c
}

// state protects the state that services send through clients. It comes back from the client that
// got it, for the call that it belongs to, unchanged and in time, or it is refused (2026-07-28,
// basic/patterns/mrtr, Server Requirements).
func state(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if len(r.RequestState) > 0 {
				if err := r.openState(ctx, cfg.Sealer); err != nil {
					return nil, err
				}
			}
			answer, err := next(ctx, r)
			if err != nil {
				return nil, err
			}
			return answer, r.sealState(ctx, cfg.Sealer, answer)
		}
	}
}

func (r *run) openState(ctx context.Context, s *store.Sealer) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(r.RequestState))
	if err != nil {
		return r.noState()
	}
	plain, err := s.Open(ctx, r.belongsTo(), raw)
	if errors.Is(err, store.ErrNotOurs) {
		return r.noState()
	}
	if err != nil {
		return err
	}
	d, was := jsontext.NewDecoder(bytes.NewBuffer(plain)), sealed{}
	if err := json.UnmarshalDecode(d, &was); err != nil {
		return r.noState()
	}
	r.RequestState, r.consent = plain[d.InputOffset():], was.Consent
	return nil
}

// sealState seals the state that an answer takes through the client.
func (r *run) sealState(ctx context.Context, s *store.Sealer, a *Answer) error {
	// An answer that is held has state even if its service keeps none: the caller's reply is for
	// the tool that asked.
	if a.InputRequired == nil || len(a.InputRequired.RequestState) == 0 && r.consent == nil && !r.AskLater {
		return nil
	}
	plain, err := json.Marshal(sealed{Consent: r.consent})
	if err != nil {
		return err
	}
	raw, err := s.Seal(ctx, r.belongsTo(), append(plain, a.InputRequired.RequestState...), s.Now().Add(stateLife))
	a.InputRequired.RequestState = base64.RawURLEncoding.AppendEncode(nil, raw)
	return err
}

// belongsTo is the digest of everything that the state is bound to.
func (r *run) belongsTo() []byte {
	return digest([]byte("state"), []byte(r.Principal.Tenant), []byte(r.Principal.Name), []byte(r.Method), []byte(r.Name), r.Arguments,
		[]byte(r.Target.Service), []byte(r.Target.Definition))
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
