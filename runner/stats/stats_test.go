package stats_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"h100-inference-control-plane/runner/stats"
)

func TestQuantileSuccess(t *testing.T) {
	f := func(xs []float64, q, want float64) {
		t.Helper()
		got, err := stats.Quantile(xs, q)
		if err != nil {
			t.Fatalf("Quantile(%v, %v): %v", xs, q, err)
		}
		if got != want {
			t.Fatalf("Quantile(%v, %v) = %v, want %v", xs, q, got, want)
		}
	}
	f([]float64{7}, 0, 7)
	f([]float64{7}, 0.99, 7)
	f([]float64{7}, 1, 7)
	f([]float64{3, 1, 2}, 0, 1)
	f([]float64{3, 1, 2}, 0.5, 2)
	f([]float64{3, 1, 2}, 1, 3)
	f([]float64{4, 1, 2, 3}, 0.5, 2.5)
	f([]float64{0, 10}, 0.25, 2.5)
	f([]float64{-1, 1}, 0.5, 0)
	// rank 0.99*(100-1) = 98.01: not the largest value, as a nearest-rank definition would say.
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	got, err := stats.Quantile(hundred, 0.99)
	if err != nil || math.Abs(got-99.01) > 1e-12 {
		t.Fatalf("p99 of 1..100 = %v, %v; want 99.01", got, err)
	}
}

func TestQuantileFailure(t *testing.T) {
	f := func(xs []float64, q float64, want error) {
		t.Helper()
		if got, err := stats.Quantile(xs, q); !errors.Is(err, want) {
			t.Fatalf("Quantile(%v, %v) = %v, %v; want the error %v", xs, q, got, err, want)
		}
	}
	f(nil, 0.5, stats.ErrEmpty)
	f([]float64{}, 0.5, stats.ErrEmpty)
	f([]float64{1, math.NaN()}, 0.5, stats.ErrNotFinite)
	f([]float64{math.Inf(1), 1}, 0.5, stats.ErrNotFinite)
	f([]float64{math.Inf(-1)}, 0.5, stats.ErrNotFinite)
	f([]float64{1}, -0.01, stats.ErrRank)
	f([]float64{1}, 1.01, stats.ErrRank)
	f([]float64{1}, math.NaN(), stats.ErrRank)
}

func TestDescribeFailure(t *testing.T) {
	if _, err := stats.Describe(nil); !errors.Is(err, stats.ErrEmpty) {
		t.Fatalf("Describe(nil): %v", err)
	}
	if _, err := stats.Mean([]float64{math.Inf(1)}); !errors.Is(err, stats.ErrNotFinite) {
		t.Fatalf("Mean(+Inf): %v", err)
	}
	if _, err := stats.Median(nil); !errors.Is(err, stats.ErrEmpty) {
		t.Fatalf("Median(nil): %v", err)
	}
}

// TestDescribeKnown compares with values worked out by hand.
func TestDescribeKnown(t *testing.T) {
	s, err := stats.Describe([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	if err != nil {
		t.Fatal(err)
	}
	want := stats.Summary{N: 8, Mean: 5, Std: 2, Min: 2, P50: 4.5, P90: 7.6, P95: 8.3, P99: 8.86, Max: 9}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"mean", s.Mean, want.Mean}, {"std", s.Std, want.Std}, {"min", s.Min, want.Min}, {"p50", s.P50, want.P50},
		{"p90", s.P90, want.P90}, {"p95", s.P95, want.P95}, {"p99", s.P99, want.P99}, {"max", s.Max, want.Max},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
	if s.N != want.N {
		t.Errorf("n = %d, want %d", s.N, want.N)
	}
}

func TestExtremeValues(t *testing.T) {
	f := func(xs ...float64) {
		t.Helper()
		s, err := stats.Describe(xs)
		if err != nil {
			t.Fatalf("Describe(%v): %v", xs, err)
		}
		for _, v := range []float64{s.Mean, s.Std, s.P50, s.P90, s.P99} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("Describe(%v) = %+v: not finite", xs, s)
			}
		}
		if s.Mean < s.Min || s.Mean > s.Max {
			t.Fatalf("Describe(%v) = %+v: the mean lies outside", xs, s)
		}
	}
	f(math.MaxFloat64, math.MaxFloat64, math.MaxFloat64)
	f(-math.MaxFloat64, math.MaxFloat64)
	f(math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64)
	f(0.1, 0.1, 0.1)
	f(1e16, 1, -1e16)
}

// TestProperties holds for every sample: order does not matter, the input is left alone, quantiles rise with q and stay
// inside, moving or scaling the sample moves or scales what describes it.
func TestProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		xs := make([]float64, 1+rng.IntN(200))
		for i := range xs {
			xs[i] = math.Exp(rng.NormFloat64() * 2)
		}
		before := slices.Clone(xs)
		s := describe(t, xs)
		if !slices.Equal(before, xs) {
			t.Fatal("Describe changed its argument")
		}
		rng.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		if again := describe(t, xs); again != s {
			t.Fatalf("the order matters: %+v and %+v", s, again)
		}
		checkOrder(t, xs, s)
		scaled := slices.Clone(xs)
		for i := range scaled {
			scaled[i] *= 1024 // a power of two is exact
		}
		if d := describe(t, scaled); d.P50 != 1024*s.P50 || d.P99 != 1024*s.P99 || d.Max != 1024*s.Max {
			t.Fatalf("scaling by 1024: %+v from %+v", d, s)
		}
	}
}

func checkOrder(t *testing.T, xs []float64, s stats.Summary) {
	t.Helper()
	const ulps = 1e-15
	last := s.Min
	for q := 0.0; q <= 1; q += 1.0 / 64 {
		v, err := stats.Quantile(xs, q)
		if err != nil {
			t.Fatal(err)
		}
		if v < last*(1-ulps) || v > s.Max*(1+ulps) {
			t.Fatalf("quantile %v = %v after %v, largest %v", q, v, last, s.Max)
		}
		last = v
	}
	if s.Mean < s.Min || s.Mean > s.Max || s.Std < 0 || s.Std > s.Max-s.Min {
		t.Fatalf("mean or deviation outside: %+v", s)
	}
}

func describe(t *testing.T, xs []float64) stats.Summary {
	t.Helper()
	s, err := stats.Describe(xs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func FuzzDescribe(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 0.5)
	f.Add(math.MaxFloat64, -math.MaxFloat64, 0.0, 0.99)
	f.Add(math.NaN(), 1.0, 1.0, 0.1)
	f.Add(0.1, 0.1, 0.1, 1.0)
	f.Fuzz(func(t *testing.T, a, b, c, q float64) {
		xs := []float64{a, b, c}
		finite := !math.IsNaN(a+b*0+c*0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) && !math.IsInf(c, 0)
		s, err := stats.Describe(xs)
		if finite != (err == nil) {
			t.Fatalf("Describe(%v): %v", xs, err)
		}
		if err == nil && (s.Mean < s.Min || s.Mean > s.Max) {
			t.Fatalf("Describe(%v) = %+v", xs, s)
		}
		if v, err := stats.Quantile(xs, q); err == nil && (v < s.Min && !near(v, s.Min) || v > s.Max && !near(v, s.Max)) {
			t.Fatalf("Quantile(%v, %v) = %v", xs, q, v)
		}
	})
}

func near(a, b float64) bool { return math.Abs(a-b) <= 4e-16*math.Abs(b) }
