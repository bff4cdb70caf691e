package quota_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// H1: a payer has its share and no more, and nobody else is harmed.
func TestH1AShareIsOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota.New("calls", 3, 1000)
		keep := func(payer, key string, size int) error { _, err := q.Keep(payer, key, size, time.Minute); return err }
		for i := range 3 {
			if err := keep("a", fmt.Sprint(i), 100); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		err := keep("a", "4", 1)
		if f := fault.From(err); f.Reason != fault.RateLimited || f.Executed != fault.No || f.RetryAfter != 57*time.Second {
			t.Errorf("a fourth: %v, again in %v", err, f.RetryAfter)
		}
		if err := keep("b", "4", 1000); err != nil {
			t.Errorf("somebody else: %v", err)
		}
		if err := keep("b", "5", 1); !fault.Is(err, fault.RateLimited) {
			t.Errorf("too many bytes: %v", err)
		}
		if err := keep("b", "4", 400); err != nil {
			t.Errorf("what is counted becomes smaller: %v", err)
		}
		if err := keep("b", "5", 600); err != nil {
			t.Error(err)
		}
		q.Release("a", "1")
		if err := keep("a", "4", 1); err != nil {
			t.Errorf("after one was released: %v", err)
		}
		time.Sleep(58 * time.Second)
		gone, err := q.Keep("a", "5", 1, time.Minute)
		if err != nil || !slices.Equal(gone, []string{"0"}) {
			t.Errorf("a minute later: %v, %v", gone, err)
		}
	})
}

// H1: where that is better, the oldest of the same payer make room.
func TestH1TheOldestOfTheSamePayerMakeRoom(t *testing.T) {
	t.Parallel()
	q := quota.New("sessions", 2, 100)
	displace := func(payer, key string, size int, want ...string) {
		t.Helper()
		if gone := q.Displace(payer, key, size, time.Hour); !slices.Equal(gone, want) {
			t.Errorf("%s of %s: %v are gone, want %v", key, payer, gone, want)
		}
	}
	displace("a", "1", 10)
	displace("b", "x", 90)
	displace("a", "2", 10)
	displace("a", "1", 20) // used: it is the youngest
	displace("a", "3", 10, "2")
	displace("a", "4", 95, "1", "3")
	displace("b", "y", 10)
}

// What an edge counts is bounded, whatever payers there are.
func TestPayersAreBounded(t *testing.T) {
	t.Parallel()
	q := quota.New("sessions", 1, 100)
	for i := range 20_000 {
		if _, err := q.Keep(fmt.Sprint(i), "k", 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Keep("19999", "l", 1, time.Hour); !fault.Is(err, fault.RateLimited) {
		t.Errorf("who wrote last is forgotten: %v", err)
	}
	if _, err := q.Keep("0", "l", 1, time.Hour); err != nil {
		t.Errorf("who wrote first is not: %v", err)
	}
}
