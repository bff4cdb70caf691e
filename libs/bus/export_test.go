package bus

import (
	"context"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// Sealed marshals a request and, with keys, seals it and checks the seal.
func Sealed(t testing.TB, keys bool) func(*busv1.Request) {
	var s *sealer
	if keys {
		s = newSealer("svc", []secret.Key{secret.NewKey()})
	}
	return func(req *busv1.Request) {
		data, err := s.seal(req)
		if err == nil && s != nil {
			err = s.open(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FromLeader is what the server that takes a bucket's writes says of a key.
func (b *Bucket) FromLeader(ctx context.Context, key string) ([]byte, uint64, bool, error) {
	return b.fromLeader(ctx, key)
}

// Choose is the instance for a call from the region "near", of some that have calls:
// those whose names begin with the region's are in it.
func Choose(calls map[string]int, full bool) string {
	m := &members{services: map[string][]*member{}}
	for name, n := range calls {
		m.services["svc"] = append(m.services["svc"], &member{instance: name, calls: n, region: strings.TrimRight(name, "0123456789")})
	}
	return m.take("svc", origin{"near", full}, nil).instance
}

// Leaving is what the instance says of a call whose last frame is about to leave.
func (s *Server) Leaving(id string) busv1.Outcome_State {
	s.mu.Lock()
	s.live[id] = &liveCall{}
	s.mu.Unlock()
	defer s.finish(id)
	return s.became(id).State
}
