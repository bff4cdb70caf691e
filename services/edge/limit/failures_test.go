package limit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// gate knows good tokens, and counts what it looks at.
type gate struct{ looked int }

func (g *gate) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	g.looked++
	if len(c.Bearer) > 4 && c.Bearer[:4] == "good" {
		return gateway.Principal{Name: c.Bearer}, nil
	}
	return gateway.Principal{}, fault.New(fault.Unauthenticated, "no")
}

// Bad credentials cost nothing once a network has shown too many, and good ones
// of the same network are let in all the same.
func TestM14BadCredentialsAreLimitedFirst(t *testing.T) {
	t.Parallel()
	inner, now := &gate{}, time.Unix(1e9, 0)
	f := NewFailures(inner)
	f.now = func() time.Time { return now }
	from := func(address, token string) fault.Reason {
		_, err := f.Authenticate(t.Context(), gateway.Credentials{Address: address, Bearer: token})
		if err == nil {
			return ""
		}
		if e := fault.From(err); e.Reason == fault.RateLimited && e.RetryAfter <= 0 {
			t.Errorf("%v does not say when to come back", err)
		}
		return fault.From(err).Reason
	}
	for i := range 10_000 {
		if r := from("192.0.2.1", "good neighbour"); r != "" {
			t.Fatalf("after %d bad ones a good one is refused: %s", i, r)
		}
		from("192.0.2.1", fmt.Sprint("bad", i))
		now = now.Add(time.Millisecond)
	}
	if bad := inner.looked - 10_000; bad < failuresAtOnce || bad > failuresAtOnce+10 {
		t.Errorf("%d bad credentials were looked at in 10 s", bad)
	}
	if r := from("192.0.2.1", ""); r != fault.Unauthenticated {
		t.Errorf("who shows nothing gets %q, and no challenge", r)
	}
	from("192.0.2.1", "bad")
	if r := from("192.0.2.1", "good, but new"); r != fault.RateLimited {
		t.Errorf("a new one, which could as well be bad: %q", r)
	}
	if r := from("192.0.2.2", "good elsewhere"); r != "" {
		t.Errorf("of another network: %q", r)
	}
	for i := range 100 {
		from(fmt.Sprintf("2001:db8::%x", i+1), fmt.Sprint("bad", i))
	}
	if r := from("2001:db8::ffff", "bad"); r != fault.RateLimited {
		t.Errorf("another address of the same /64: %q", r)
	}
	now = now.Add(2 * time.Second)
	if r := from("192.0.2.1", "good, but new"); r != "" {
		t.Errorf("a second later: %q", r)
	}
	now = now.Add(time.Minute)
	for i := range failuresAtOnce {
		if r := from("192.0.2.1", "bad"); r != fault.Unauthenticated {
			t.Fatalf("after a minute the bad one %d: %q", i, r)
		}
	}
	if r := from("192.0.2.1", "bad"); r != fault.RateLimited {
		t.Errorf("one more: %q", r)
	}
}

// However many networks show bad credentials, and good ones, what is remembered is
// bounded.
func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	f := NewFailures(&gate{})
	f.now, f.capacity = func() time.Time { return now }, maxNetworks/32
	for i := range 2 * f.capacity {
		_, _ = f.Authenticate(t.Context(), gateway.Credentials{Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Bearer: "bad"})
	}
	if n := len(f.networks); n > f.capacity {
		t.Errorf("%d networks", n)
	}
	for i := range 3 * maxGood {
		_, _ = f.Authenticate(t.Context(), gateway.Credentials{Address: "10.1.55.1", Bearer: "bad"})
		_, _ = f.Authenticate(t.Context(), gateway.Credentials{Address: "10.1.55.1", Bearer: fmt.Sprint("good", i)})
	}
	for _, n := range f.networks {
		if len(n.good) > maxGood {
			t.Errorf("%d good credentials of one network", len(n.good))
		}
	}
}
