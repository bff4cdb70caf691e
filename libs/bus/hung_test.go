package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// reads makes a call without effect every 10 ms until stop, and returns how long each took,
// and what became of those that failed.
func reads(t *testing.T, caller *edges.Caller) (stop func() (took []time.Duration, failed []string)) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	var failed []string
	over := make(chan struct{})
	all.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			all.Go(func() {
				began := time.Now()
				_, err := caller.CallWith(within(t, bustest.Patience), "svc", toolCall(`{}`), bus.Options{Harmless: true})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = append(failed, fmt.Sprintf("a read that took %v: %v", time.Since(began), err))
				}
				took = append(took, time.Since(began))
			})
		}
	})
	return func() ([]time.Duration, []string) {
		close(over)
		all.Wait()
		return took, failed
	}
}

// instances starts two of "svc", each on a connection of its own, and makes them known to the
// caller.
func instances(t *testing.T, caller *bus.Conn, conns ...*bus.Conn) {
	t.Helper()
	var known []*busv1.Announcement
	for _, conn := range conns {
		s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: echo})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Drain(context.Background()) })
		known = append(known, &busv1.Announcement{Instance: s.Instance(), SentUnixNano: 1, Region: conn.Region()})
	}
	caller.SetInstances(map[string][]*busv1.Announcement{"svc": known})
}

// A NATS server that hangs is left for another one of its cluster, by callers and services alike,
// and no read fails because of it.
func TestHungServerIsLeft(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	cluster.Ready()
	url := cluster.URL()
	for name, of := range map[string]func(caller, one, two *bustest.Network) []*bustest.Network{
		"of the caller":     func(caller, _, _ *bustest.Network) []*bustest.Network { return []*bustest.Network{caller} },
		"of one instance":   func(_, one, _ *bustest.Network) []*bustest.Network { return []*bustest.Network{one} },
		"of both instances": func(_, one, two *bustest.Network) []*bustest.Network { return []*bustest.Network{one, two} },
		"of all of them": func(caller, one, two *bustest.Network) []*bustest.Network {
			return []*bustest.Network{caller, one, two}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			callers, conn := through(t, url)
			ones, one := through(t, url)
			twos, two := through(t, url)
			caller := callerOn(t, conn)
			instances(t, conn, one, two)
			bustest.Eventually(t, "calls are taken", func() bool { return caller.Check(t.Context(), "svc") == nil })
			stop := reads(t, caller)
			var left sync.WaitGroup
			began := time.Now()
			for _, network := range of(callers, ones, twos) {
				held := map[*bustest.Network]*bus.Conn{callers: conn, ones: one, twos: two}[network]
				back := make(chan struct{})
				left.Go(func() { await(t, "the server is left", back) })
				held.OnReconnect(sync.OnceFunc(func() { close(back) }))
				network.Hold()
			}
			left.Wait()
			away := time.Since(began)
			if away > flow.MaxSilence+bustest.Promptly {
				t.Errorf("the server was left after %v", away)
			}
			took, failed := stop()
			switch {
			case failed == nil:
			case away > bus.MaxReturn/2: // no call waits for instances on a machine that is this slow
				t.Logf("away for %v: %d reads failed", away, len(failed))
			default:
				t.Errorf("away for %v:\n%s", away, strings.Join(failed, "\n"))
			}
			t.Logf("%d reads; the slowest %v", len(took), slices.Max(took))
		})
	}
}

// A process that was suspended does not mistake that time for silence of its server.
func TestStandingStillLeavesNoServer(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 2)
	cluster.Ready()
	survivesStop(t, cluster.URL())
}

// The only server is not left: waiting for it loses nothing. This includes a single server with
// several names, as in the small fleet of the compose file.
func TestTheOnlyServerIsNotLeft(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	t.Run("one name", func(t *testing.T) {
		t.Parallel()
		isNotLeft(t, url)
	})
	t.Run("two names", func(t *testing.T) {
		t.Parallel()
		isNotLeft(t, url+","+strings.Replace(url, "127.0.0.1", "localhost", 1))
	})
}

func isNotLeft(t *testing.T, url string) {
	network, conn := through(t, url)
	caller := callerOn(t, conn)
	instances(t, conn, bustest.Join(t, url))
	var lost atomic.Bool
	conn.OnReconnect(func() { lost.Store(true) })
	release := network.Hold()
	<-time.After(2 * flow.MaxSilence)
	release()
	bustest.Eventually(t, "calls are answered", func() bool { return caller.Check(t.Context(), "svc") == nil })
	if lost.Load() {
		t.Error("the connection was given up")
	}
}

// Names lead to several servers if their addresses say so: one server may have several names,
// and an address of each kind.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		servers [][]string
		several bool
	}{
		"one":                            {[][]string{{"10.0.0.1:4222"}}, false},
		"one that is not found":          {[][]string{nil}, false},
		"one of both kinds":              {[][]string{{"127.0.0.1:4222", "[::1]:4222"}}, false},
		"a name with two addresses":      {[][]string{{"10.0.0.1:4222", "10.0.0.2:4222"}}, true},
		"a name with two of IPv6":        {[][]string{{"[fd00::1]:4222", "[fd00::2]:4222"}}, true},
		"three names of one":             {[][]string{{"10.0.0.1:4222"}, {"10.0.0.1:4222"}, {"10.0.0.1:4222"}}, false},
		"a name, and an address of it":   {[][]string{{"127.0.0.1:4222", "[::1]:4222"}, {"127.0.0.1:4222"}}, false},
		"three":                          {[][]string{{"10.0.0.1:4222"}, {"10.0.0.2:4222"}, {"10.0.0.3:4222"}}, true},
		"two ports of one address":       {[][]string{{"10.0.0.1:4222"}, {"10.0.0.1:4223"}}, true},
		"two, of which one is not found": {[][]string{{"10.0.0.1:4222"}, nil}, true},
	} {
		if got := bus.Several(c.servers...); got != c.several {
			t.Errorf("%s: several: %v", name, got)
		}
	}
}

// A server at the end of a slow line answers no ping before it has what was sent earlier. It is not
// left because of that.
func TestSlowServerIsNotLeft(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 2)
	cluster.Ready()
	const size = 6 << 20 // more than the socket has room for
	for range 5 {
		began := time.Now()
		left := sendSlowly(t, cluster.URL(), size)
		// The line is twice as fast as the slowest one that is waited for, unless the machine
		// delays it.
		if time.Since(began) < size/(1<<20)*time.Second {
			if left {
				t.Error("the server was left")
			}
			return
		}
	}
	t.Skip("this machine is too busy to be a line of 1 MiB/s")
}

// sendSlowly sends bytes over a line of 2 MiB/s, and reports whether the server was left meanwhile.
func sendSlowly(t *testing.T, url string, size int) bool {
	t.Helper()
	network := &bustest.Network{}
	network.Narrow(2 << 20)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "slow", Logger: bustest.Logger(t), Dialer: network})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var left atomic.Bool
	conn.OnReconnect(func() { left.Store(true) })
	const large = 256 << 10
	for range size / large {
		err = errors.Join(err, conn.NATS().Publish("somewhere", make([]byte, large)))
	}
	if err = errors.Join(err, conn.Flush(within(t, 2*bustest.Patience))); err != nil {
		t.Log(err)
	}
	return left.Load() || err != nil
}
