package bus

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// MaxReturn is how long a read is repeated in a cluster whose instances are silent.
const MaxReturn = flow.MaxReturn

// ReadFrames returns a reader of a tool call of "svc", and the connection that counts malformed frames.
func ReadFrames(o Options) (*Reader, *Conn) {
	conn := &Conn{log: slog.New(slog.DiscardHandler)}
	r := (&Caller{conn: conn}).Read("svc", "call", o)
	r.a.method = "tools/call"
	return r, conn
}

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

// Several reports whether names with these addresses lead to more than one server.
func Several(servers ...[]string) bool {
	var all [][]netip.AddrPort
	for _, addresses := range servers {
		var one []netip.AddrPort
		for _, address := range addresses {
			one = append(one, netip.MustParseAddrPort(address))
		}
		all = append(all, one)
	}
	return several(all)
}

// FromLeader reads a key from the server that takes the bucket's writes.
func (b *Bucket) FromLeader(ctx context.Context, key string) ([]byte, uint64, bool, error) {
	return b.fromLeader(ctx, key)
}

// Choose returns the instance for a call from the region "near". calls has the calls of each
// instance; an instance is in a region if its name begins with the region's name.
func Choose(calls map[string]int, full bool) string {
	var all []*member
	for name, n := range calls {
		all = append(all, &member{instance: name, calls: n, region: strings.TrimRight(name, "0123456789")})
	}
	m := &members{services: map[string]group{"svc": {all: all}}}
	return m.take("svc", origin{"near", full}, nil).instance
}

// Chosen returns the instances that receive some calls, one after the other; ends says whether the
// instance was silent to a call.
func Chosen(instances []string, ends func(instance string) (silent bool), calls int) (all []string) {
	var named []*member
	for _, name := range instances {
		named = append(named, &member{instance: name})
	}
	m := &members{services: map[string]group{"svc": {all: named}}}
	for range calls {
		one := m.take("svc", origin{}, nil)
		if one == nil {
			all = append(all, "")
			continue
		}
		all = append(all, one.instance)
		said := flow.Lives
		if ends(one.instance) {
			said = flow.Quiet
		}
		m.done(one, said)
	}
	return all
}

// Leaving is the instance's answer about a call whose last frame is about to be sent.
func (s *Server) Leaving(id string) busv1.Outcome_State {
	s.mu.Lock()
	s.live[id] = &liveCall{}
	s.mu.Unlock()
	defer s.finish(id)
	return s.became(id).State
}
