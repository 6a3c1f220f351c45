package load

import (
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"
	"time"
)

func TestHistogramBuckets(t *testing.T) {
	prev := -1
	for _, v := range values() {
		i := bucket(v)
		if i < prev || i >= buckets {
			t.Fatalf("%d is in bucket %d, behind %d", v, i, prev)
		}
		prev = i
		if off := math.Abs(float64(middle(i)) - float64(v)); off > 0.008*float64(v) {
			t.Fatalf("bucket %d stands for %d, and holds %d", i, middle(i), v)
		}
	}
	if bucket(math.MaxInt64) >= buckets {
		t.Error("the longest duration has no bucket")
	}
}

// values are ascending and hit every bucket's edges.
func values() []uint64 {
	var out []uint64
	for e := 0; e < 63; e++ {
		for sub := uint64(0); sub < 128; sub++ {
			v := uint64(1)<<e + sub<<e/128
			out = append(out, v-1, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if _, ok := h.Quantile(0.5); ok || h.Count() != 0 || h.Mean() != 0 {
		t.Error("an empty histogram has a value")
	}
	r := rand.New(rand.NewPCG(1, 2))
	var all []float64
	sum := 0.0
	for range 10_000 {
		d := time.Duration(math.Exp(r.NormFloat64()*2) * float64(10*time.Millisecond))
		all = append(all, float64(d))
		sum += float64(d)
		h.Add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1, -1, 2} {
		got, ok := h.Quantile(q)
		want := all[int(min(max(q, 0), 1)*float64(len(all)-1)+0.5)]
		if !ok || math.Abs(float64(got)-want) > 0.01*want {
			t.Errorf("quantile %v is %v, want %v", q, got, time.Duration(want))
		}
	}
	if got, want := float64(h.Mean()), sum/float64(len(all)); math.Abs(got-want) > 1 || h.Count() != len(all) {
		t.Errorf("mean %v, want %v; count %d", got, want, h.Count())
	}
	h.Add(-time.Second)
	if d, _ := h.Quantile(0); d != 0 {
		t.Errorf("a negative duration counts as %v", d)
	}
}

func TestTimeline(t *testing.T) {
	var tl timeline
	if got := tl.counts(); len(got) != 0 {
		t.Errorf("%d bins", len(got))
	}
	for _, at := range []time.Duration{-1, 0, 9999 * time.Microsecond, 10 * time.Millisecond, 3 * time.Minute, 1000 * time.Hour} {
		tl.add(at)
	}
	got := tl.counts()
	if len(got) != 18_001 || got[0] != 2 || got[1] != 1 || got[18_000] != 1 {
		t.Errorf("%d bins: %v…", len(got), got[:min(len(got), 3)])
	}
}

func TestQuantileSince(t *testing.T) {
	edges := []float64{math.Inf(-1), 0, 1, 2, math.Inf(1)}
	from := &metrics.Float64Histogram{Counts: []uint64{5, 1000, 0, 0}, Buckets: edges}
	for _, c := range []struct {
		counts []uint64
		want   float64
		ok     bool
	}{
		{[]uint64{5, 1098, 1, 0}, 0, false}, // 99 are too few
		{[]uint64{5, 1100, 0, 0}, 1, true},
		{[]uint64{5, 1090, 10, 0}, 2, true},
		{[]uint64{5, 1090, 0, 10}, 2, true}, // the last bucket has no upper end
	} {
		got := quantileSince(from, &metrics.Float64Histogram{Counts: c.counts, Buckets: edges}, 0.99)
		if (got != nil) != c.ok || c.ok && *got != c.want {
			t.Errorf("%v: %v", c.counts, got)
		}
	}
	if quantileSince(nil, from, 0.99) != nil {
		t.Error("a quantile of nothing")
	}
}
