package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// loseKeys empties the outcomes bucket.
func loseKeys(t *testing.T, url string) {
	t.Helper()
	bucket := bustest.Connect(t, url).Bucket(bus.OutcomesBucket)
	var keys []string
	if err := bucket.Each(t.Context(), "", func(key string, _ []byte) { keys = append(keys, key) }); err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if err := bucket.Delete(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
}

// askedFor hears when a waiting repetition asks the instance for its call.
func askedFor(t *testing.T, url string) <-chan *nats.Msg {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	asked := make(chan *nats.Msg, 10_000)
	if _, err := nc.ChanSubscribe("mcp.to.ledger.*.busbar.outcome", asked); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return asked
}

// hold makes a call that runs until it is released.
func hold(ctx context.Context, g *gateway.Gateway) (*gateway.Answer, error) {
	return g.Do(ctx, keyed("note", `{"hold":true}`, "", "k"), nil)
}

// D2: a repetition that waits, at the edge of the call or at another one, does not run when the
// bucket loses the key. It gets the answer of the call.
func TestD2AWaitingRepetitionDoesNotRunWhenTheBucketIsLost(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"at its edge": 0, "at another edge": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			l := newLedger()
			edgetest.Serve(t, bustest.Connect(t, url), l.Service)
			one, _ := keyEdge(t, url)
			two, _ := keyEdge(t, url)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { _, err := hold(t.Context(), one); first <- err }()
			<-l.started
			asked := askedFor(t, url)
			go func() { _, err := hold(t.Context(), []*gateway.Gateway{one, two}[at]); second <- err }()
			<-asked
			loseKeys(t, url)
			select {
			case <-l.started:
				t.Error("the repetition runs, too")
			case <-time.After(time.Second): // ten times the interval at which it looks again
			}
			close(l.release)
			for what, ended := range map[string]chan error{"the call": first, "the repetition": second} {
				if err := <-ended; err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if n := l.ran("k"); n != 1 {
				t.Errorf("ran %d times", n)
			}
		})
	}
}

// D2: callers that lose the race for a key do not make their edge forget the winner, so a bucket
// that is lost while it runs causes no second effect.
func TestD2LosersOfAKeyDoNotForgetTheWinner(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	l := newLedger()
	edgetest.Serve(t, bustest.Connect(t, url), l.Service)
	one, _ := keyEdge(t, url)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if _, err := hold(t.Context(), one); err != nil && !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		})
	}
	<-l.started
	asked := askedFor(t, url)
	for range 10 { // the others have lost, and wait
		<-asked
	}
	loseKeys(t, url)
	all.Go(func() {
		if _, err := hold(t.Context(), one); err != nil {
			t.Error("repetition:", err)
		}
	})
	select {
	case <-l.started:
		t.Error("the repetition runs, too")
	case <-time.After(time.Second):
	}
	close(l.release)
	all.Wait()
	if n := l.ran("k"); n != 1 {
		t.Errorf("ran %d times", n)
	}
}
