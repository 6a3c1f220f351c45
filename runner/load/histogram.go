package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	subBits = 6 // 64 buckets for each doubling: a bucket's middle is within 0.8 % of every value in it
	buckets = (64 - subBits) << subBits
)

// Histogram counts durations in buckets of constant relative width. The zero value is empty. It is safe for concurrent
// use.
type Histogram struct {
	counts [buckets]atomic.Uint64
	n      atomic.Uint64
	sum    atomic.Int64
}

// Add counts one duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	v := uint64(max(d, 0))
	h.counts[bucket(v)].Add(1)
	h.n.Add(1)
	h.sum.Add(int64(v))
}

// bucket: values below 64 ns have one each; above, the six bits behind the leading one choose it.
func bucket(v uint64) int {
	e := bits.Len64(v) - 1
	if e < subBits {
		return int(v)
	}
	shift := e - subBits
	return (shift+1)<<subBits + int(v>>shift)&(1<<subBits-1)
}

// middle is the value that stands for a bucket.
func middle(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i)
	}
	shift := i>>subBits - 1
	low := uint64(1<<subBits+i&(1<<subBits-1)) << shift
	return time.Duration(low + (uint64(1)<<shift)/2)
}

// Count is the number of durations.
func (h *Histogram) Count() int { return int(h.n.Load()) }

// Mean is exact. It is 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	n := h.n.Load()
	if n == 0 {
		return 0
	}
	return time.Duration(h.sum.Load() / int64(n))
}

// Quantile returns the value at rank q(n-1), rounded to the nearest rank, within 1 %. q is 0..1; ok is false for an
// empty histogram.
func (h *Histogram) Quantile(q float64) (d time.Duration, ok bool) {
	n := h.n.Load()
	if n == 0 {
		return 0, false
	}
	rank := uint64(min(max(q, 0), 1)*float64(n-1) + 0.5)
	seen := uint64(0)
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen > rank {
			return middle(i), true
		}
	}
	return 0, false
}
