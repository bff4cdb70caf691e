package bustest_test

// Tests of libs/bus on a cluster are here, because a NATS server in a cluster
// leaves goroutines behind that the check for leaks in libs/bus would find.

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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
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

// keep sees to the buckets and streams, on so many servers.
func keep(t *testing.T, url string, replicas storage.Replicas) (*bus.Conn, *storage.Storage) {
	t.Helper()
	conn := bustest.Join(t, url)
	kept, err := storage.Ensure(within(t, bustest.Patience), conn, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return conn, kept
}

// problems are what a check finds, by name.
func problems(ctx context.Context, conn *bus.Conn, replicas storage.Replicas) map[string][]string {
	found := map[string][]string{}
	for _, s := range storage.Check(ctx, conn, replicas) {
		if len(s.Problems) > 0 {
			for _, p := range s.Problems {
				found[s.Name] = append(found[s.Name], p.What)
			}
		}
	}
	return found
}

// Buckets and streams are on three servers where the cluster has as many. One that
// was on a single server is put on more with what it holds, and any server may then
// be away. Fewer again is what an operator says, and no edge.
func TestReplicas(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	conn, _ := keep(t, url, 1)
	sessions := conn.Bucket(bus.SessionsBucket)
	if err := sessions.Put(within(t, bustest.Patience), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if found := problems(t.Context(), conn, storage.Auto)["bucket sessions"]; len(found) != 1 || !strings.Contains(found[0], "1 of 3") {
		t.Errorf("on one server: %q", found)
	}
	_, kept := keep(t, url, storage.Auto)
	t.Cleanup(kept.Keep())
	healthy := func() bool { return len(problems(t.Context(), conn, 3)) == 0 }
	bustest.Eventually(t, "everything is on three servers", healthy)
	keep(t, url, 1)
	if found := problems(t.Context(), conn, 3); len(found) > 0 {
		t.Errorf("an edge with fewer replicas: %v", found)
	}
	cluster.Stop(cluster.Holds("KV_sessions"))
	cluster.Ready()
	bustest.Eventually(t, "the sessions are there without their leader", func() bool {
		v, err := sessions.Get(within(t, time.Second), "k")
		return err == nil && string(v) == "v"
	})
	bustest.Eventually(t, "they can be written", func() bool { return sessions.Put(within(t, time.Second), "k2", nil) == nil })
	if found := problems(t.Context(), conn, 3)["bucket sessions"]; len(found) != 1 || !strings.Contains(found[0], "is away") {
		t.Errorf("with a server away: %q", found)
	}
	bustest.Eventually(t, "its keeper sees that too", func() bool {
		return slices.ContainsFunc(kept.Sizes(), func(s storage.Size) bool {
			return s.Name == "bucket sessions" && s.Servers == 3 && s.Away == 1 && s.Bytes > 0 && s.Limit > s.Bytes
		})
	})
}

func TestApplyLowers(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	conn, _ := keep(t, cluster.URL(), 3)
	if err := conn.Bucket(bus.SessionsBucket).Put(within(t, bustest.Patience), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := storage.Apply(within(t, bustest.Patience), conn, 1); err != nil {
		t.Fatal(err)
	}
	for _, s := range storage.Check(t.Context(), conn, 1) {
		if s.Replicas != 1 || len(s.Problems) > 0 {
			t.Errorf("%+v", s)
		}
	}
	if v, err := conn.Bucket(bus.SessionsBucket).Get(within(t, bustest.Patience), "k"); err != nil || string(v) != "v" {
		t.Errorf("what it held: %q, %v", v, err)
	}
}

// A key is found at once after it was written, whichever server answers, and its
// writers do not lose each other's words.
func TestReplicatedBucket(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	one, _ := keep(t, cluster.URL(), 3)
	two := bustest.Join(t, cluster.URL())
	ctx := within(t, bustest.Patience)
	for i := range 500 {
		key := fmt.Sprintf("k%d", i)
		if made, err := one.Bucket(bus.SessionsBucket).Create(ctx, key, []byte("v")); err != nil || !made {
			t.Fatalf("%s: %t, %v", key, made, err)
		}
		if v, err := two.Bucket(bus.SessionsBucket).Get(ctx, key); err != nil || string(v) != "v" {
			t.Fatalf("%s, just written: %q, %v", key, v, err)
		}
	}
	if _, err := two.Bucket(bus.SessionsBucket).Get(ctx, "nowhere"); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("a key that is not there: %v", err)
	}
	if err := one.Bucket(bus.SessionsBucket).Delete(ctx, "k0"); err != nil {
		t.Fatal(err)
	}
	// A server that is behind may not know yet that the key is gone.
	bustest.Eventually(t, "a key that was deleted is made again", func() bool {
		made, err := two.Bucket(bus.SessionsBucket).Create(ctx, "k0", []byte("v2"))
		if err != nil {
			t.Fatal(err)
		}
		return made
	})
	var writers sync.WaitGroup
	var changed atomic.Int64
	for range 4 {
		writers.Go(func() {
			for range 10 {
				if err := two.Bucket(bus.SessionsBucket).Change(ctx, "k1", func(v []byte) ([]byte, error) { return append(v, '+'), nil }); err != nil && !fault.Is(err, fault.Overloaded) {
					t.Errorf("change: %v", err)
				} else if err == nil {
					changed.Add(1)
				}
			}
		})
	}
	writers.Wait()
	// A server that is read from may be behind the one that was written to.
	bustest.Eventually(t, fmt.Sprint(changed.Load(), " changes are read"), func() bool {
		v, err := one.Bucket(bus.SessionsBucket).Get(ctx, "k1")
		return err == nil && int64(strings.Count(string(v), "+")) == changed.Load()
	})
}

// Where there are fewer servers, nothing is wrong unless a number was asked for.
func TestReplicasOfTooFewServers(t *testing.T) {
	t.Parallel()
	on := func(url string) *bus.Conn {
		conn, _ := keep(t, url, storage.Auto)
		for _, s := range storage.Check(t.Context(), conn, 1) {
			if s.Replicas != 1 || len(s.Problems) > 0 {
				t.Errorf("%+v", s)
			}
		}
		return conn
	}
	if _, err := storage.Ensure(within(t, bustest.Patience), on(bustest.Server(t)), 3); err == nil || !strings.Contains(err.Error(), "--nats-replicas 3") {
		t.Errorf("three were asked for of a server alone: %v", err)
	}
	conn, _ := keep(t, bustest.NewCluster(t, 2).URL(), storage.Auto)
	if _, err := storage.Ensure(within(t, bustest.Patience), conn, 3); err != nil {
		t.Errorf("a third server may come: %v", err)
	}
	if found := problems(t.Context(), conn, 3)["bucket sessions"]; len(found) != 1 || !strings.Contains(found[0], "1 of 3") {
		t.Errorf("three were asked for of two: %q", found)
	}
}

// What an operator has made larger, and put on more servers, stays so when the
// next edge starts; what this release demands is set nevertheless.
func TestS2OperatorsSettingsStay(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	keep(t, url, 1)
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
	keep(t, url, 1)
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
	keep(t, url, 1)
	down := -1
	bustest.Eventually(t, "somebody holds the sessions", func() bool { down = cluster.Holds("KV_sessions"); return down >= 0 })
	cluster.Stop(down)
	cluster.Ready()
	conn, err := bus.Connect(within(t, 20*time.Second), bus.Config{URL: url, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	kept, err := storage.Ensure(within(t, 30*time.Second), conn, 1)
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
