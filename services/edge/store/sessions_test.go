package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t *testing.T, conn *bus.Conn) *store.Sessions {
	t.Helper()
	s, err := store.NewSessions(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// An id is a key and so part of a subject: asking for any id must not cost the edge its
// connection.
func TestBadIDsLeaveTheBusAlone(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	s := open(t, conn)
	for _, size := range []int{4 << 10, 5 << 10, 15 << 10} {
		if _, err := s.Get(t.Context(), strings.Repeat("A", size)); !fault.Is(err, fault.UnknownSession) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	// NATS closes a connection for good that sends a subject of 4 KiB or more.
	if err := conn.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// A session's age counts from its last renewal. Use renews it, but not every use.
func TestRenewal(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	s := open(t, conn)
	bucket := conn.Bucket(bus.SessionsBucket)
	// put stores a session last renewed some time ago, as another edge might have.
	put := func(age time.Duration) string {
		n := &store.Session{Version: "2025-06-18"}
		if err := s.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		raw := `{"version":"2025-06-18","renewed":"` + time.Now().Add(-age).UTC().Format(time.RFC3339) + `"}`
		if err := bucket.Put(t.Context(), n.ID, []byte(raw)); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	young, old, dead := put(time.Minute), put(2*time.Hour), put(25*time.Hour)
	age := func(id string) time.Duration {
		n, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(n.Renewed)
	}
	if a := age(young); a < 50*time.Second {
		t.Errorf("a young session was renewed: %v", a)
	}
	if a := age(old); a > time.Minute {
		t.Errorf("an old session was not renewed: %v", a)
	}
	if a := age(old); a > time.Minute {
		t.Errorf("the renewal is not what is kept: %v", a)
	}
	if _, err := s.Get(t.Context(), dead); !fault.Is(err, fault.UnknownSession) {
		t.Errorf("a session of yesterday: %v", err)
	}
}

func TestBusAway(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	conn := bustest.Connect(t, bustest.Server(t))
	s := open(t, conn)
	n := &store.Session{Version: "2025-06-18"}
	if err := s.Create(ctx, n); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := s.Create(ctx, &store.Session{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("create: %v", err)
	}
	if _, err := s.Get(ctx, n.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("get: %v", err)
	}
}
