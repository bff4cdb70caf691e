package storage

import (
	"math"
	"strconv"
	"testing"
	"time"
)

// Each party may have as much as it uses, up to an equal part of the room that others leave.
func TestLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uses []int64
		room int64
		want int64
	}{
		{nil, 100, math.MaxInt64},
		{[]int64{100}, 100, math.MaxInt64},
		{[]int64{101}, 100, 100},
		{[]int64{50, 50}, 100, math.MaxInt64},
		{[]int64{500, 10}, 100, 90},
		{[]int64{10, 500, 500}, 100, 45},
		{[]int64{500, 500, 500, 500}, 100, 25},
		{[]int64{0, 0, 101}, 100, 100},
	} {
		if got := level(c.uses, c.room); got != c.want {
			t.Errorf("%v have %d each of %d, want %d", c.uses, got, c.room, c.want)
		}
	}
}

// The newest entries stay.
func TestLedgerKeeps(t *testing.T) {
	t.Parallel()
	l := &ledger{weights: []int64{5, 40, 30, 20}}
	for bytes, want := range map[int64]int{0: 0, 19: 0, 20: 1, 49: 1, 50: 2, 90: 3, 94: 3, 95: 4, 1000: 4} {
		if got := l.keeps(bytes); got != want {
			t.Errorf("of %d bytes %d entries stay, want %d", bytes, got, want)
		}
	}
}

// A time to live counts only if it is longer than the bucket keeps entries.
func TestOutlives(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[string]bool{
		"": false, "1h": false, "24h0m1s": false, "25h": true, "never": true, "86400": false, "90061": true, "9223372036854775807": true, "soon": true,
	} {
		if got := outlives(ttl, 24*time.Hour); got != want {
			t.Errorf("%q outlives: %v", ttl, got)
		}
	}
	if outlives("never", 0) {
		t.Error("nothing outlives a bucket that keeps everything")
	}
}

// FuzzOutlives gives arbitrary text to the reader of times to live: a time within the bucket's age
// limit never counts, and an invalid time always does.
func FuzzOutlives(f *testing.F) {
	for _, ttl := range []string{"", "never", "1h", "90061", "-5", "9223372036854775807", "1h1h"} {
		f.Add(ttl)
	}
	f.Fuzz(func(t *testing.T, ttl string) {
		d, err := time.ParseDuration(ttl)
		if _, number := strconv.ParseInt(ttl, 10, 64); number == nil {
			return // seconds
		}
		if got := outlives(ttl, time.Hour); ttl != "" && (err != nil || d > time.Hour+ttlSlack) != got {
			t.Errorf("%q outlives an hour: %v", ttl, got)
		}
	})
}
