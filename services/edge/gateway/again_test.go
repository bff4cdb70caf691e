package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// once takes a proof once, as proofs of possession are, unless it is looked at again.
type once struct{ first, again atomic.Int64 }

func (o *once) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Again() {
		o.again.Add(1)
	} else if o.first.Add(1) > 1 {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "used before")
	}
	// It expires soon, so that a stream's are looked at again soon.
	return gateway.Principal{Name: "ada", Expires: time.Now().Add(20 * time.Millisecond)}, nil
}

// A stream outlives the proof that opened it, and a request its first moments.
func TestCredentialsLookedAtAgain(t *testing.T) {
	t.Parallel()
	o := &once{}
	g := gateway.New(gateway.Config{Authenticator: o})
	c, err := g.Admit(t.Context(), "test", gateway.Credentials{Bearer: "x"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Lease(t.Context(), "test", c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bustest.Eventually(t, "the credentials are looked at again", func() bool { return o.again.Load() > 3 })
	if s.Context().Err() != nil {
		t.Errorf("the stream has ended: %v", s.Ended())
	}
	if _, err := g.Authenticate(t.Context(), c); err != nil {
		t.Errorf("the request is refused after its first moments: %v", err)
	}
	if _, err := g.Admit(t.Context(), "test", gateway.Credentials{Bearer: "x"}); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("the proof was taken twice: %v", err)
	}
}
