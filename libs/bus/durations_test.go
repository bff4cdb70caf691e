package bus

import (
	"math"
	"testing"
	"time"
)

// Every duration lies within the bounds of its bucket, and buckets are narrow.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for d := time.Duration(0); d < 2*time.Minute; d += d/7 + 300*time.Nanosecond {
		b := bucketOf(d)
		low, high := begins(b), begins(b+1)
		if d < low || d >= high || low >= 4*time.Microsecond && high-low > low/4 {
			t.Fatalf("%v is in bucket %d, from %v to %v", d, b, low, high)
		}
	}
	for _, d := range []time.Duration{-1, math.MinInt64, math.MaxInt64, time.Hour} {
		if b := bucketOf(d); b != 0 && b != buckets-1 {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var h histogram
	h.add(time.Hour)
	before := h.now()
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	since := h.now().Since(before)
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second} {
		got, ok := since.Quantile(q)
		if off := (got - want).Abs(); !ok || off > max(want/4, 2*time.Millisecond) {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
	if _, ok := before.Since(before).Quantile(0.5); ok {
		t.Error("no calls have a quantile")
	}
	// Counts of other processes may be anything.
	if since := before.Since(h.now()); since != nil {
		t.Errorf("an instance that has counted less: %v", since)
	}
	if since := make(Durations, buckets+1).Since(nil); since != nil {
		t.Errorf("more buckets than there are: %v", since)
	}
}
