package arrival

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestConstant(t *testing.T) {
	got := Schedule(Constant, 4, time.Second, 1)
	want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond}
	if !slices.Equal(got, want) {
		t.Errorf("4/s for 1 s: %v", got)
	}
	// 3/s has gaps that are no whole nanosecond: after an hour the last arrival is still where it belongs.
	long := Schedule(Constant, 3, time.Hour, 1)
	last := long[len(long)-1]
	if want := time.Hour - time.Second/3; len(long) != 3*3600 || (last-want).Abs() > time.Microsecond {
		t.Errorf("3/s for 1 h: %d arrivals, the last at %v, want %v", len(long), last, want)
	}
	if got := Schedule(Constant, 0.5, time.Second, 1); !slices.Equal(got, []time.Duration{0}) {
		t.Errorf("0.5/s for 1 s: %v", got)
	}
}

func TestNoArrivals(t *testing.T) {
	for _, c := range []struct {
		p    Process
		rate float64
		d    time.Duration
	}{
		{Poisson, 0, time.Second}, {Poisson, -1, time.Second}, {Poisson, math.NaN(), time.Second},
		{Constant, math.Inf(1), time.Second}, {Constant, 1, 0}, {Poisson, 1, -time.Second}, {"burst", 1, time.Second},
	} {
		if got := Schedule(c.p, c.rate, c.d, 1); got != nil {
			t.Errorf("%+v: %d arrivals", c, len(got))
		}
	}
}

func TestPoissonIsPure(t *testing.T) {
	a := Schedule(Poisson, 50, 10*time.Second, 7)
	if !slices.Equal(a, Schedule(Poisson, 50, 10*time.Second, 7)) {
		t.Error("the same seed gave two schedules")
	}
	if slices.Equal(a, Schedule(Poisson, 50, 10*time.Second, 8)) {
		t.Error("two seeds gave the same schedule")
	}
	// A longer window begins with the shorter one.
	b := Schedule(Poisson, 50, 20*time.Second, 7)
	if !slices.Equal(a, b[:len(a)]) {
		t.Error("a longer window changed the first arrivals")
	}
	if !slices.IsSorted(b) || b[0] < 0 || b[len(b)-1] >= 20*time.Second {
		t.Error("not ascending within [0, d)")
	}
}

// TestPoissonDistribution checks what makes a process Poisson. The seeds are fixed, so the bounds cannot flake; they
// are four standard deviations wide, which a wrong distribution misses by far.
func TestPoissonDistribution(t *testing.T) {
	const rate, seconds, windows = 20.0, 10, 2000
	var counts, gaps []float64
	for seed := range uint64(windows) {
		s := Schedule(Poisson, rate, seconds*time.Second, seed)
		counts = append(counts, float64(len(s)))
		prev := time.Duration(0)
		for _, at := range s {
			gaps = append(gaps, (at - prev).Seconds())
			prev = at
		}
	}
	mean, variance := moments(counts)
	n := rate * seconds
	if math.Abs(mean-n) > 4*math.Sqrt(n/windows) {
		t.Errorf("mean count %v, want %v", mean, n)
	}
	// A Poisson count has a variance equal to its mean; constant arrivals would have 0, uniform gaps a third.
	if r := variance / n; math.Abs(r-1) > 4*math.Sqrt(2.0/windows) {
		t.Errorf("variance ÷ mean of the count is %v, want 1", r)
	}
	if d := kolmogorov(gaps, func(x float64) float64 { return 1 - math.Exp(-rate*x) }); d > 0.005 {
		t.Errorf("the gaps' distribution is off the exponential by %v", d)
	}
	if c := lag1(gaps); math.Abs(c) > 4/math.Sqrt(float64(len(gaps))) {
		t.Errorf("neighbouring gaps are correlated: %v", c)
	}
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}

// kolmogorov is the greatest distance between the sample's distribution function and f.
func kolmogorov(x []float64, f func(float64) float64) float64 {
	s := slices.Sorted(slices.Values(x))
	worst := 0.0
	for i, v := range s {
		worst = max(worst, math.Abs(f(v)-float64(i)/float64(len(s))), math.Abs(f(v)-float64(i+1)/float64(len(s))))
	}
	return worst
}

func lag1(x []float64) float64 {
	mean, variance := moments(x)
	sum := 0.0
	for i := 1; i < len(x); i++ {
		sum += (x[i] - mean) * (x[i-1] - mean)
	}
	return sum / float64(len(x)-1) / variance
}
