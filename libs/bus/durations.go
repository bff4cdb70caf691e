package bus

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Durations is a histogram of call durations. Each interval between two powers of two of
// microseconds is divided into four buckets, so a quantile is wrong by at most a quarter.
type Durations []int64

// buckets reach beyond two minutes; the last one holds all longer calls.
const buckets = 104

// bucketOf is the bucket of a time: below 4 µs the number itself, above it the position of the
// highest bit and the next two bits.
func bucketOf(d time.Duration) int {
	µs := uint64(max(d, 0) / time.Microsecond)
	if µs < 4 {
		return int(µs)
	}
	shift := bits.Len64(µs) - 3
	return min(shift*4+int(µs>>shift), buckets-1)
}

// begins is the lower bound of a bucket.
func begins(bucket int) time.Duration {
	if bucket < 4 {
		return time.Duration(bucket) * time.Microsecond
	}
	return time.Duration((4+bucket%4)<<(bucket/4-1)) * time.Microsecond
}

// Since returns the calls counted after an earlier count of the same instance; nil if the two
// cannot come from one instance.
func (d Durations) Since(before Durations) Durations {
	if len(before) > len(d) || len(d) > buckets {
		return nil
	}
	since := make(Durations, len(d))
	for i, n := range d {
		if i < len(before) {
			n -= before[i]
		}
		if n < 0 {
			return nil
		}
		since[i] = n
	}
	return since
}

// Quantile is the time within which a share q of the calls ended; ok is false if no call was
// counted.
func (d Durations) Quantile(q float64) (within time.Duration, ok bool) {
	all := 0.0
	for _, n := range d {
		all += float64(n)
	}
	left := q * all
	for i, n := range d {
		if n > 0 && left <= float64(n) {
			return begins(i) + time.Duration(float64(begins(i+1)-begins(i))*max(left, 0)/float64(n)), true
		}
		left -= float64(n)
	}
	return 0, false
}

// histogram is Durations that are being counted.
type histogram [buckets]atomic.Int64

func (h *histogram) add(d time.Duration) { h[bucketOf(d)].Add(1) }

// now returns the current counts, without empty buckets at the end.
func (h *histogram) now() Durations {
	all := make(Durations, buckets)
	used := 0
	for i := range h {
		if all[i] = h[i].Load(); all[i] > 0 {
			used = i + 1
		}
	}
	return all[:used]
}
