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
	nc, err := nats.Connect(url, nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(bustest.Patience))
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

// keep maintains the buckets and streams, with the given number of replicas.
func keep(t *testing.T, url string, replicas storage.Replicas) (*bus.Conn, *storage.Storage) {
	t.Helper()
	conn := bustest.Join(t, url)
	kept, err := storage.Ensure(within(t, bustest.Patience), conn, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return conn, kept
}

// put writes a session as soon as its bucket has a leader: a cluster chooses one after the bucket
// was created or moved, and refuses earlier writes.
func put(t *testing.T, conn *bus.Conn, key string) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: %v", err)
		}
	}()
	bustest.Eventually(t, "a session can be written", func() bool {
		err = conn.Bucket(bus.SessionsBucket).Put(within(t, time.Second), key, []byte("v"))
		return err == nil
	})
}

// steadily repeats an operation that a cluster refuses while it chooses a leader, which may happen
// at any time under load.
func steadily(t *testing.T, what string, do func() error) {
	t.Helper()
	bustest.Eventually(t, what, func() bool {
		err := do()
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// problems returns the problems that a check finds, by name.
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

// found waits until a check finds only this problem of the sessions: a bucket has no leader for a
// moment after each of its moves.
func found(t *testing.T, conn *bus.Conn, replicas storage.Replicas, what string) {
	t.Helper()
	bustest.Eventually(t, "the sessions are "+what, func() bool {
		found := problems(t.Context(), conn, replicas)["bucket sessions"]
		return len(found) == 1 && strings.Contains(found[0], what)
	})
}

// holder is the server that holds the sessions, once there is one.
func holder(t *testing.T, cluster *bustest.Cluster) (i int) {
	t.Helper()
	bustest.Eventually(t, "somebody holds the sessions", func() bool { i = cluster.Holds("KV_sessions"); return i >= 0 })
	return i
}

// Buckets and streams are on three servers if the cluster has that many. A store on a single server
// gets more replicas and keeps its contents, and then any server may be away. Only an operator can
// reduce the number, not an edge.
func TestReplicas(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	conn, _ := keep(t, url, 1)
	sessions := conn.Bucket(bus.SessionsBucket)
	put(t, conn, "k")
	found(t, conn, storage.Auto, "1 of 3")
	_, kept := keep(t, url, storage.Auto)
	t.Cleanup(kept.Keep())
	left := map[string][]string{}
	defer func() {
		if t.Failed() {
			t.Logf("what was last seen: %v", left)
		}
	}()
	bustest.Eventually(t, "everything is on three servers", func() bool {
		left = problems(t.Context(), conn, 3)
		return len(left) == 0
	})
	keep(t, url, 1)
	bustest.Eventually(t, "a check sees all buckets and streams", func() bool {
		for _, s := range storage.Check(t.Context(), conn, 3) {
			if s.Replicas != 0 && s.Replicas != 3 {
				t.Fatalf("an edge with fewer replicas: %+v", s)
			}
			if s.Replicas == 0 {
				return false // it has no leader at this moment
			}
		}
		return true
	})
	cluster.Stop(holder(t, cluster))
	cluster.Ready()
	bustest.Eventually(t, "the sessions are there without their leader", func() bool {
		v, err := sessions.Get(within(t, time.Second), "k")
		return err == nil && string(v) == "v"
	})
	put(t, conn, "k2")
	found(t, conn, 3, "is away")
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
	put(t, conn, "k")
	bustest.Eventually(t, "fewer replicas are applied", func() bool {
		err := storage.Apply(within(t, bustest.Patience), conn, 1)
		if err != nil {
			t.Logf("apply: %v", err) // a cluster may choose a leader at any time
		}
		return err == nil
	})
	bustest.Eventually(t, "everything is on one server", func() bool {
		return !slices.ContainsFunc(storage.Check(t.Context(), conn, 1), func(s storage.State) bool { return s.Replicas != 1 || len(s.Problems) > 0 })
	})
	bustest.Eventually(t, "what it held is there", func() bool {
		v, err := conn.Bucket(bus.SessionsBucket).Get(within(t, time.Second), "k")
		if errors.Is(err, bus.ErrNoKey) {
			t.Fatal("what it held is gone")
		}
		return err == nil && string(v) == "v"
	})
}

// A key is found immediately after it was written, whichever server answers, and concurrent writers
// lose no write.
func TestReplicatedBucket(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	one, _ := keep(t, cluster.URL(), 3)
	two := bustest.Join(t, cluster.URL())
	put(t, two, "ready")
	ctx := t.Context()
	for i := range 500 {
		key := fmt.Sprintf("k%d", i)
		refused := false
		steadily(t, key+" is made", func() error {
			made, err := one.Bucket(bus.SessionsBucket).Create(ctx, key, []byte("v"))
			if err == nil && !made && !refused {
				t.Fatalf("%s is there before it was made", key)
			}
			refused = err != nil
			return err
		})
		steadily(t, key+" is read", func() error {
			v, err := two.Bucket(bus.SessionsBucket).Get(ctx, key)
			if errors.Is(err, bus.ErrNoKey) || err == nil && string(v) != "v" {
				t.Fatalf("%s, just written: %q, %v", key, v, err)
			}
			return err
		})
	}
	steadily(t, "a key that is not there is looked for", func() error {
		_, err := two.Bucket(bus.SessionsBucket).Get(ctx, "nowhere")
		if err == nil {
			t.Fatal("a key that is not there is read")
		}
		if errors.Is(err, bus.ErrNoKey) {
			return nil
		}
		return err
	})
	steadily(t, "k0 is deleted", func() error { return one.Bucket(bus.SessionsBucket).Delete(ctx, "k0") })
	// A server that is behind may not know yet that the key was deleted.
	unknown := false
	bustest.Eventually(t, "a key that was deleted is made again", func() bool {
		made, err := two.Bucket(bus.SessionsBucket).Create(ctx, "k0", []byte("v2"))
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		if unknown && !made { // the earlier write may have reached it
			v, _ := two.Bucket(bus.SessionsBucket).Get(ctx, "k0")
			made = string(v) == "v2"
		}
		unknown = unknown || err != nil
		return made
	})
	var writers sync.WaitGroup
	var changed, unclear atomic.Int64
	for range 4 {
		writers.Go(func() {
			for range 10 {
				err := two.Bucket(bus.SessionsBucket).Change(ctx, "k1", func(v []byte) ([]byte, error) { return append(v, '+'), nil })
				switch {
				case err == nil:
					changed.Add(1)
				case fault.Is(err, fault.Unavailable):
					unclear.Add(1)
				case !fault.Is(err, fault.Overloaded):
					t.Errorf("change: %v", err)
				}
			}
		})
	}
	writers.Wait()
	// The server that answers reads may be behind the one that takes writes.
	bustest.Eventually(t, fmt.Sprint(changed.Load(), " changes are read"), func() bool {
		v, err := one.Bucket(bus.SessionsBucket).Get(ctx, "k1")
		n := int64(strings.Count(string(v), "+"))
		return err == nil && changed.Load() <= n && n <= changed.Load()+unclear.Load()
	})
}

// With fewer servers, there is no problem unless a number was requested.
func TestReplicasOfTooFewServers(t *testing.T) {
	t.Parallel()
	on := func(url string) *bus.Conn {
		conn, _ := keep(t, url, storage.Auto)
		var left []storage.State
		defer func() {
			if t.Failed() {
				t.Logf("what was last seen: %+v", left)
			}
		}()
		bustest.Eventually(t, "everything is on one server, and nothing is wrong", func() bool { // once each has a leader
			left = slices.DeleteFunc(storage.Check(t.Context(), conn, 1), func(s storage.State) bool { return s.Replicas == 1 && len(s.Problems) == 0 })
			return len(left) == 0
		})
		return conn
	}
	if _, err := storage.Ensure(within(t, bustest.Patience), on(bustest.Server(t)), 3); err == nil || !strings.Contains(err.Error(), "--nats-replicas 3") {
		t.Errorf("three were asked for of a server alone: %v", err)
	}
	conn, _ := keep(t, bustest.NewCluster(t, 2).URL(), storage.Auto)
	if _, err := storage.Ensure(within(t, bustest.Patience), conn, 3); err != nil {
		t.Errorf("a third server may come: %v", err)
	}
	found(t, conn, 3, "1 of 3")
}

// A store that an operator has enlarged or given more replicas stays so when the next edge starts;
// other settings of this release are applied nevertheless.
func TestS2OperatorsSettingsStay(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	keep(t, url, 1)
	js := jetStream(t, url)
	ctx := t.Context()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"KV_sessions": func(c *jetstream.StreamConfig) { c.Replicas, c.MaxBytes, c.MaxMsgSize = 3, 1<<30, 1<<20 },
		"KV_names":    func(c *jetstream.StreamConfig) { c.MaxAge, c.MaxBytes = time.Hour, 1<<20 },
		"AUDIT":       func(c *jetstream.StreamConfig) { c.Replicas, c.MaxBytes = 3, 2<<30 },
	} {
		bustest.Eventually(t, name+" is changed", func() bool {
			s, err := js.Stream(ctx, name)
			if err == nil {
				cfg := s.CachedInfo().Config
				change(&cfg)
				_, err = js.UpdateStream(ctx, cfg)
			}
			if err != nil {
				t.Logf("%s: %v", name, err)
			}
			return err == nil
		})
	}
	keep(t, url, 1)
	config := func(name string) (c jetstream.StreamConfig) {
		bustest.Eventually(t, name+" is described", func() bool {
			s, err := js.Stream(ctx, name)
			if err == nil {
				c = s.CachedInfo().Config
			}
			return err == nil
		})
		return c
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

// With one server of a cluster away, its stores are reported as away, the rest works, and the
// stores are used again as soon as the server is back.
func TestD4OneServerAway(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t, 3)
	url := cluster.URL()
	keep(t, url, 1)
	down := holder(t, cluster)
	cluster.Stop(down)
	cluster.Ready()
	conn, err := bus.Connect(within(t, bustest.Patience), bus.Config{URL: url, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	kept, err := storage.Ensure(within(t, bustest.Patience), conn, 1)
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
	bustest.Eventually(t, "nothing is away", func() bool { return len(kept.Away()) == 0 })
	put(t, conn, "k")
}
