package stats_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"h100-inference-control-plane/runner/stats"
)

// TestProportion compares with values worked out from Wilson's formula with z = 1.959964.
func TestProportion(t *testing.T) {
	f := func(hits, n int, low, high float64) {
		t.Helper()
		iv, err := stats.Proportion(hits, n, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		approx(t, "low", iv.Low, low, 5e-6)
		approx(t, "high", iv.High, high, 5e-6)
		approx(t, "estimate", iv.Estimate, float64(hits)/float64(n), 0)
	}
	f(0, 10, 0, 0.277533)
	f(10, 10, 0.722467, 1)
	f(5, 10, 0.236593, 0.763407)
	f(0, 100, 0, 0.036994)
	f(1, 1, 0.206549, 1)
}

func TestProportionFailure(t *testing.T) {
	f := func(hits, n int, level float64, want error) {
		t.Helper()
		if iv, err := stats.Proportion(hits, n, level); !errors.Is(err, want) {
			t.Fatalf("Proportion(%d, %d, %v) = %+v, %v; want %v", hits, n, level, iv, err, want)
		}
	}
	f(0, 0, 0.95, stats.ErrEmpty)
	f(1, 0, 0.95, stats.ErrCount)
	f(-1, 3, 0.95, stats.ErrCount)
	f(4, 3, 0.95, stats.ErrCount)
	f(1, 3, 1, stats.ErrLevel)
	f(1, 3, math.NaN(), stats.ErrLevel)
}

// TestQuantileIntervalRanks compares with printed tables of the sign test: of 10 values the median lies between the 2nd
// and the 9th, of 20 between the 6th and the 15th, at 95 %.
func TestQuantileIntervalRanks(t *testing.T) {
	f := func(n int, q, level, low, high float64) {
		t.Helper()
		iv, ok, err := stats.QuantileInterval(upTo(n), q, level)
		if err != nil || !ok {
			t.Fatalf("quantile %v of %d: %v, %v", q, n, ok, err)
		}
		if iv.Low != low || iv.High != high {
			t.Fatalf("quantile %v of 1..%d at %v: %+v, want %v to %v", q, n, level, iv, low, high)
		}
	}
	f(6, 0.5, 0.95, 1, 6)
	f(10, 0.5, 0.95, 2, 9)
	f(20, 0.5, 0.95, 6, 15)
	f(368, 0.99, 0.95, 360, 368)
	f(459, 0.99, 0.98, 449, 459)
}

func upTo(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(n - i)
	}
	return xs
}

// TestQuantileIntervalHidden is the trap of a p99 from 20 requests: there is a number, and no bound above it.
func TestQuantileIntervalHidden(t *testing.T) {
	f := func(n int, q, level float64, want bool) {
		t.Helper()
		if iv, ok, err := stats.QuantileInterval(upTo(n), q, level); err != nil || ok != want {
			t.Fatalf("quantile %v of %d: %+v, %v, %v; want %v", q, n, iv, ok, err, want)
		}
	}
	f(20, 0.99, 0.95, false)
	f(100, 0.99, 0.95, false)
	f(367, 0.99, 0.95, false)
	f(368, 0.99, 0.95, true)
	f(458, 0.99, 0.98, false)
	f(459, 0.99, 0.98, true)
	f(367, 0.01, 0.95, false)
	f(368, 0.01, 0.95, true)
	f(1, 0.5, 0.95, false)
	f(5, 0.5, 0.95, false)
	f(10000, 1, 0.95, false)
	f(10000, 0, 0.95, false)
	if _, _, err := stats.QuantileInterval(nil, 0.5, 0.95); !errors.Is(err, stats.ErrEmpty) {
		t.Fatal(err)
	}
	if _, _, err := stats.QuantileInterval([]float64{1, math.NaN()}, 0.5, 0.95); !errors.Is(err, stats.ErrNotFinite) {
		t.Fatal(err)
	}
	if _, _, err := stats.QuantileInterval(upTo(50), 0.5, 1.5); !errors.Is(err, stats.ErrLevel) {
		t.Fatal(err)
	}
	if _, _, err := stats.QuantileInterval(upTo(50), -0.5, 0.95); !errors.Is(err, stats.ErrRank) {
		t.Fatal(err)
	}
}

// TestQuantileIntervalAllEqual: equal values are a fine sample for order statistics.
func TestQuantileIntervalAllEqual(t *testing.T) {
	xs := make([]float64, 50)
	for i := range xs {
		xs[i] = 3
	}
	iv, ok, err := stats.QuantileInterval(xs, 0.5, 0.95)
	if err != nil || !ok || iv.Low != 3 || iv.High != 3 {
		t.Fatalf("%+v, %v, %v", iv, ok, err)
	}
}

// TestQuantileIntervalCoverage draws from an exponential, whose quantiles are known: the truth is inside in at least the
// level, and, because ranks are whole, in a little more.
func TestQuantileIntervalCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 7))
	f := func(n int, q float64) {
		t.Helper()
		const runs = 2000
		var inside int
		for range runs {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = rng.ExpFloat64()
			}
			iv, ok, err := stats.QuantileInterval(xs, q, 0.95)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if iv.Contains(-math.Log(1 - q)) {
				inside++
			}
		}
		got, err := stats.Proportion(inside, runs, 0.999)
		if err != nil {
			t.Fatal(err)
		}
		if got.High < 0.95 || got.Low > 0.99 {
			t.Errorf("quantile %v of %d: the truth is inside in %.1f %%", q, n, 100*got.Estimate)
		}
	}
	f(30, 0.5)
	f(200, 0.9)
	f(400, 0.99)
}

func FuzzQuantileInterval(f *testing.F) {
	f.Add(uint16(20), 0.99, 0.95)
	f.Add(uint16(459), 0.99, 0.98)
	f.Add(uint16(6), 0.5, 0.95)
	f.Add(uint16(3), 0.5, 1e-9)
	f.Fuzz(func(t *testing.T, n uint16, q, level float64) {
		iv, ok, err := stats.QuantileInterval(upTo(int(n%2000)), q, level)
		if err == nil && ok && !(iv.Low <= iv.Estimate && iv.Estimate <= iv.High) {
			t.Fatalf("quantile %v of %d at %v: %+v", q, n, level, iv)
		}
		if err == nil && ok != (int(n%2000) >= stats.QuantileNeeds(q, level)) {
			t.Fatalf("quantile %v of %d at %v: ok %v, needs %d", q, n, level, ok, stats.QuantileNeeds(q, level))
		}
	})
}
