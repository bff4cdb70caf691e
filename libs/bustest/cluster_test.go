package bustest_test

// Tests of libs/bus on a cluster are here, because a NATS server in a cluster
// leaves goroutines behind that the check for leaks in libs/bus would find.

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// What an operator has made larger, and put on more servers, stays so when the
// next edge starts; what this release demands is set nevertheless.
func TestS2OperatorsSettingsStay(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	bustest.Connect(t, url)
	js := jetStream(t, url)
	ctx := within(t, time.Minute)
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"KV_sessions": func(c *jetstream.StreamConfig) { c.Replicas, c.MaxBytes, c.MaxMsgSize = 3, 1<<30, 1<<20 },
		"KV_names":    func(c *jetstream.StreamConfig) { c.MaxAge, c.MaxBytes = time.Hour, 1<<20 },
		"AUDIT":       func(c *jetstream.StreamConfig) { c.Replicas, c.MaxBytes = 3, 2<<30 },
	} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		change(&cfg)
		if _, err := js.UpdateStream(ctx, cfg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	bustest.Connect(t, url)
	config := func(name string) jetstream.StreamConfig {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	if c := config("KV_sessions"); c.Replicas != 3 || c.MaxBytes != 1<<30 || c.MaxMsgSize != 1<<20 {
		t.Errorf("the bucket has %d replicas, %d bytes, values of %d", c.Replicas, c.MaxBytes, c.MaxMsgSize)
	}
	if c := config("AUDIT"); c.Replicas != 3 || c.MaxBytes != 2<<30 || !c.DenyDelete {
		t.Errorf("the stream has %d replicas, %d bytes, deny delete %t", c.Replicas, c.MaxBytes, c.DenyDelete)
	}
	if c := config("KV_names"); c.MaxAge != storage.NameTTL || c.MaxBytes != 64<<20 {
		t.Errorf("what this release demands is not set: age %v, %d bytes", c.MaxAge, c.MaxBytes)
	}
}

// With one server of a cluster away, what it holds is said to be away, the rest
// works, and what was away is used as soon as it is back.
func TestD4OneServerAway(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	bustest.Connect(t, url)
	down := -1
	bustest.Eventually(t, "somebody holds the sessions", func() bool { down = cluster.Holds("KV_sessions"); return down >= 0 })
	cluster.Stop(down)
	cluster.Ready()
	conn, err := bus.Connect(within(t, 20*time.Second), bus.Config{URL: url, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	kept, err := storage.Ensure(within(t, 30*time.Second), conn)
	if err != nil {
		t.Fatalf("with one server away: %v", err)
	}
	if away := kept.Away(); !slices.Contains(away, "bucket sessions") {
		t.Fatalf("away are said to be %v", away)
	}
	bucket := conn.Bucket(bus.SessionsBucket)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := bucket.Put(short, "k", []byte("v")); err == nil {
		t.Error("a bucket that is away takes values")
	}
	t.Cleanup(kept.Keep())
	cluster.Start(down)
	deadline := time.Now().Add(40 * time.Second)
	for len(kept.Away()) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("still away after 40 s: %v", kept.Away())
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := bucket.Put(within(t, 5*time.Second), "k", []byte("v")); err != nil {
		t.Errorf("back, and yet: %v", err)
	}
}
