package bus_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A key becomes part of a subject, and NATS closes the connection for good if a subject exceeds the
// control line.
func TestBucketLongKeys(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	b := conn.Bucket(bus.SessionsBucket)
	for _, n := range []int{257, 4 << 10, 1 << 20} {
		key := strings.Repeat("k", n)
		if _, err := b.Get(t.Context(), key); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("get of %d bytes: %v", n, err)
		}
		if err := b.Put(t.Context(), key, nil); !fault.Is(err, fault.TooLarge) {
			t.Errorf("put of %d bytes: %v", n, err)
		}
		if err := b.Change(t.Context(), key, nil); !errors.Is(err, bus.ErrNoKey) {
			t.Errorf("change of %d bytes: %v", n, err)
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Errorf("delete of %d bytes: %v", n, err)
		}
	}
	if !conn.Connected() {
		t.Error("the connection is gone")
	}
}

// Changes made at the same time through two connections are all kept.
func TestBucketChange(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var buckets [2]*bus.Bucket
	for i := range buckets {
		buckets[i] = bustest.Connect(t, url).Bucket(bus.SessionsBucket)
	}
	if err := buckets[0].Change(t.Context(), "n", nil); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("a key that is not there: %v", err)
	}
	if err := buckets[0].Put(t.Context(), "n", []byte("0")); err != nil {
		t.Fatal(err)
	}
	increment := func(v []byte) ([]byte, error) {
		n, err := strconv.Atoi(string(v))
		return strconv.AppendInt(nil, int64(n)+1, 10), err
	}
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range each {
				for {
					err := buckets[i%2].Change(t.Context(), "n", increment)
					if err == nil {
						break
					}
					if !fault.Is(err, fault.Overloaded) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if v, err := buckets[1].Get(t.Context(), "n"); err != nil || string(v) != strconv.Itoa(writers*each) {
		t.Errorf("got %s, %v", v, err)
	}
	refused := errors.New("no")
	if err := buckets[0].Change(t.Context(), "n", func([]byte) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("an error of the change: %v", err)
	}
}

// All callers that ask for a shared value concurrently get the same one.
func TestBucketShared(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const processes = 4
	got := make([]string, processes)
	var wg sync.WaitGroup
	for i := range processes {
		conn := bustest.Connect(t, url)
		wg.Go(func() {
			v, err := conn.Bucket(bus.KeysBucket).Shared(t.Context(), "key", []byte(strconv.Itoa(i)))
			if err != nil {
				t.Error(err)
			}
			got[i] = string(v)
		})
	}
	wg.Wait()
	for _, v := range got {
		if v == "" || v != got[0] {
			t.Errorf("got %q", got)
		}
	}
}
