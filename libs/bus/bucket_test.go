package bus_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestBucket(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	b := bustest.Connect(t, url).Bucket(bus.SessionsBucket)
	other := bustest.Connect(t, url).Bucket(bus.SessionsBucket)
	var written recorder[string]
	stop, err := other.OnWrite(">", written.add)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("a key that is not there: %v", err)
	}
	for _, v := range []string{"one", "two", ""} {
		if err := b.Put(t.Context(), "k", []byte(v)); err != nil {
			t.Fatal(err)
		}
		if got, err := other.Get(t.Context(), "k"); err != nil || string(got) != v {
			t.Errorf("got %q, %v, want %q", got, err, v)
		}
	}
	for range 2 {
		if err := b.Delete(t.Context(), "k"); err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, err := other.Get(t.Context(), "k"); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("deleted: %v", err)
		}
	}
	// A write whose answer is late is repeated, and observed again.
	bustest.Eventually(t, "every write is heard", func() bool {
		all := written.all()
		return len(all) >= 5 && !slices.ContainsFunc(all, func(key string) bool { return key != "k" })
	})
	stop()
	for _, key := range []string{"", "a b", "a..b", ">", "*", "a\r\n", strings.Repeat("x", 5000) + " "} {
		if _, err := b.Get(t.Context(), key); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("%.10q: %v", key, err)
		}
		if err := b.Put(t.Context(), key, nil); err == nil {
			t.Errorf("%.10q can be written", key)
		}
	}
	none := bustest.Connect(t, url).Bucket("none")
	if _, err := none.Get(t.Context(), "k"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a bucket that is not there is read: %v", err)
	}
	if err := none.Put(t.Context(), "k", nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a bucket that is not there is written: %v", err)
	}
}

func TestBucketWithoutBus(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	conn := bustest.Connect(t, ns.URL)
	b := conn.Bucket(bus.SessionsBucket)
	ns.Stop()
	bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
	_, err := b.Get(t.Context(), "k")
	fails(t, err, fault.Unavailable, fault.No)
	fails(t, b.Put(t.Context(), "k", nil), fault.Unavailable, fault.No)
	fails(t, b.Delete(t.Context(), "k"), fault.Unavailable, fault.No)
}

// A read from the leader returns the same as an ordinary read: for a value, for a deleted key, and
// for a key that never existed.
func TestReadFromLeader(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t)).Bucket(bus.SessionsBucket)
	value := []byte("v \" \x00 zażółć")
	if err := b.Put(t.Context(), "k", value); err != nil {
		t.Fatal(err)
	}
	_, revision, _ := b.Look(t.Context(), "k")
	if v, r, there, err := b.FromLeader(t.Context(), "k"); string(v) != string(value) || r != revision || !there || err != nil {
		t.Errorf("a value: %q, %d, %t, %v", v, r, there, err)
	}
	if err := b.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, r, there, err := b.FromLeader(t.Context(), "k"); r <= revision || there || err != nil {
		t.Errorf("deleted: %d, %t, %v", r, there, err)
	}
	if _, r, there, err := b.FromLeader(t.Context(), "never"); r != 0 || there || err != nil {
		t.Errorf("never there: %d, %t, %v", r, there, err)
	}
}
