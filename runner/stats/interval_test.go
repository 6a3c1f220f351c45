package stats_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"h100-inference-control-plane/runner/stats"
)

func approx(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %.9g, want %.9g", what, got, want)
	}
}

// TestMeanInterval compares with t factors of the printed tables: 12.706, 4.303, 2.776 and 2.262 for 1, 2, 4 and 9
// degrees of freedom at 95 %, 63.657 for 1 at 99 %.
func TestMeanInterval(t *testing.T) {
	f := func(xs []float64, level, mean, se, factor float64) {
		t.Helper()
		iv, err := stats.MeanInterval(xs, level)
		if err != nil {
			t.Fatalf("MeanInterval(%v): %v", xs, err)
		}
		approx(t, "mean", iv.Estimate, mean, 1e-12)
		approx(t, "low", iv.Low, mean-factor*se, 6e-4*se)
		approx(t, "high", iv.High, mean+factor*se, 6e-4*se)
		if iv.Level != level {
			t.Errorf("level %v", iv.Level)
		}
	}
	f([]float64{-1, 1}, 0.95, 0, 1, 12.706)
	f([]float64{-1, 1}, 0.99, 0, 1, 63.657)
	f([]float64{1, 2, 3}, 0.95, 2, 1/math.Sqrt(3), 4.303)
	f([]float64{1, 2, 3, 4, 5}, 0.95, 3, math.Sqrt(2.5/5), 2.776)
	f([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.95, 5.5, math.Sqrt(55.0/6/10), 2.262)
}

// TestRatioKnown compares with intervals worked out by hand on logarithms that are small whole numbers.
func TestRatioKnown(t *testing.T) {
	e := func(ls ...float64) []float64 {
		for i := range ls {
			ls[i] = math.Exp(ls[i])
		}
		return ls
	}
	iv, err := stats.PairedRatio(e(0, 5, 9), e(1, 7, 12), 0.95) // differences 1, 2, 3
	if err != nil {
		t.Fatal(err)
	}
	approx(t, "paired estimate", math.Log(iv.Estimate), 2, 1e-12)
	approx(t, "paired low", math.Log(iv.Low), 2-4.302653/math.Sqrt(3), 1e-6)
	approx(t, "paired high", math.Log(iv.High), 2+4.302653/math.Sqrt(3), 1e-6)
	p, err := stats.PairedP(e(0, 5, 9), e(1, 7, 12))
	if err != nil {
		t.Fatal(err)
	}
	approx(t, "p of t = 2√3 at 2 degrees of freedom", p, 0.0741799, 1e-6)

	// Equal spreads and sizes: Welch is Student with 4 degrees of freedom, t(0.975) = 2.776445.
	iv, err = stats.Ratio(e(0, 1, 2), e(3, 4, 5), 0.95)
	if err != nil {
		t.Fatal(err)
	}
	approx(t, "estimate", math.Log(iv.Estimate), 3, 1e-12)
	approx(t, "low", math.Log(iv.Low), 3-2.776445*math.Sqrt(2.0/3), 1e-6)
	// One side without spread: the other side's 2 degrees of freedom remain.
	iv, err = stats.Ratio(e(1, 1, 1), e(3, 4, 5), 0.95)
	if err != nil {
		t.Fatal(err)
	}
	approx(t, "low, one side steady", math.Log(iv.Low), 3-4.302653/math.Sqrt(3), 1e-6)
	gm, err := stats.GeometricMean([]float64{2, 8}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	approx(t, "geometric mean", gm.Estimate, 4, 1e-12)
	approx(t, "its high", gm.High, 4*math.Exp(12.7062047*math.Log(2)), 1)
}

// TestIntervalFailure are the traps: nothing, one start, starts that repeat each other, NaN, infinities, zeros.
func TestIntervalFailure(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f := func(xs []float64, want error) {
		t.Helper()
		same := slices.Repeat([]float64{7}, len(xs))
		_, e1 := stats.GeometricMean(xs, 0.95)
		_, e2 := stats.Ratio(xs, xs, 0.95)
		_, e3 := stats.PairedRatio(same, xs, 0.95)
		_, e4 := stats.PairedRatio(xs, same, 0.95)
		p, e5 := stats.PairedP(same, xs)
		_, e6 := stats.RatioP(xs, xs)
		for i, err := range []error{e1, e2, e3, e4, e5, e6} {
			if !errors.Is(err, want) {
				t.Fatalf("%v, function %d: error %v, want %v", xs, i, err, want)
			}
		}
		if p != 1 {
			t.Fatalf("%v: p = %v beside an error", xs, p)
		}
	}
	f(nil, stats.ErrEmpty)
	f([]float64{3}, stats.ErrFew)
	f([]float64{3, 3, 3, 3, 3}, stats.ErrNoSpread)
	f([]float64{3, nan, 3}, stats.ErrNotFinite)
	f([]float64{inf, 3}, stats.ErrNotFinite)
	f([]float64{1, 2, 0}, stats.ErrNotPositive)
	f([]float64{1, -2}, stats.ErrNotPositive)

	if _, err := stats.PairedRatio([]float64{1, 2}, []float64{1}, 0.95); !errors.Is(err, stats.ErrPairs) {
		t.Fatalf("two against one: %v", err)
	}
	if _, err := stats.Ratio([]float64{1, 2}, []float64{1}, 0.95); !errors.Is(err, stats.ErrFew) {
		t.Fatalf("one side has one start: %v", err)
	}
	for _, level := range []float64{0, 1, -1, 95, nan} {
		if _, err := stats.MeanInterval([]float64{1, 2}, level); !errors.Is(err, stats.ErrLevel) {
			t.Fatalf("level %v: %v", level, err)
		}
	}
}

// TestUnknownVariation: beside ErrFew and ErrNoSpread the estimate stands, and the interval excludes nothing, so that
// even a caller who overlooks the error makes no claim.
func TestUnknownVariation(t *testing.T) {
	f := func(baseline, candidate []float64, want float64) {
		t.Helper()
		iv, err := stats.PairedRatio(baseline, candidate, 0.95)
		if err == nil {
			t.Fatalf("%v and %v: no error", baseline, candidate)
		}
		approx(t, "estimate", iv.Estimate, want, 1e-12)
		if iv.Low != 0 || !math.IsInf(iv.High, 1) || stats.Word(iv, 0, stats.Higher) != stats.NoClearChange || stats.Inert(iv, 10) {
			t.Fatalf("%v and %v: %+v claims something", baseline, candidate, iv)
		}
	}
	f([]float64{2}, []float64{3}, 1.5)
	f([]float64{2, 2, 2}, []float64{3, 3, 3}, 1.5)
	f([]float64{1, 2, 3}, []float64{1.1, 2.2, 3.3}, 1.1) // equal up to rounding
}

func TestFraction(t *testing.T) {
	part, whole := []float64{0.9, 1.1, 1.0, 1.05}, []float64{1.9, 2.1, 2.05, 2.0}
	iv, bounded, err := stats.Fraction(part, whole, 0.95)
	if err != nil || !bounded {
		t.Fatalf("%v, %v", bounded, err)
	}
	approx(t, "estimate", iv.Estimate, 4.05/8.05, 1e-12)
	// Fieller: at each end the t statistic of part - θ·whole is exactly critical.
	for _, theta := range []float64{iv.Low, iv.High} {
		d := make([]float64, len(part))
		for i := range d {
			d[i] = part[i] - theta*whole[i]
		}
		at, err := stats.MeanInterval(d, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		approx(t, "nearer end at the bound", min(math.Abs(at.Low), math.Abs(at.High)), 0, 1e-9)
	}
	if _, bounded, err := stats.Fraction(part, []float64{-1, 1, 0.5, -0.4}, 0.95); err != nil || bounded {
		t.Fatalf("a share of nothing: %v, %v", bounded, err)
	}
	if _, _, err := stats.Fraction(part[:1], whole[:1], 0.95); !errors.Is(err, stats.ErrFew) {
		t.Fatalf("one block: %v", err)
	}
	if _, _, err := stats.Fraction(part, whole[:1], 0.95); !errors.Is(err, stats.ErrPairs) {
		t.Fatalf("lengths: %v", err)
	}
	all, bounded, err := stats.Fraction(whole, whole, 0.95)
	if err != nil || !bounded {
		t.Fatal(bounded, err)
	}
	approx(t, "all of it, low", all.Low, 1, 1e-6)
	approx(t, "all of it, high", all.High, 1, 1e-6)
}

// TestIntervalProperties holds for every sample: the estimate lies inside, exchanging the sides inverts, units cancel,
// the interval excludes 1 exactly when p is below 1 - level, and a higher level is wider.
func TestIntervalProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 500 {
		n := 2 + rng.IntN(8)
		a, b := lognormals(rng, n, 0.02), lognormals(rng, n, 0.05)
		for _, c := range []struct {
			name  string
			ratio func(a, b []float64, level float64) (stats.Interval, error)
			p     func(a, b []float64) (float64, error)
		}{{"paired", stats.PairedRatio, stats.PairedP}, {"unpaired", stats.Ratio, stats.RatioP}} {
			checkRatio(t, c.name, a, b, c.ratio, c.p)
		}
	}
}

func checkRatio(t *testing.T, name string, a, b []float64, ratio func(a, b []float64, level float64) (stats.Interval, error), pOf func(a, b []float64) (float64, error)) {
	t.Helper()
	get := func(a, b []float64, level float64) stats.Interval {
		iv, err := ratio(a, b, level)
		if err != nil {
			t.Fatalf("%s of %v and %v: %v", name, a, b, err)
		}
		if !(iv.Low <= iv.Estimate && iv.Estimate <= iv.High) {
			t.Fatalf("%s of %v and %v: %+v", name, a, b, iv)
		}
		return iv
	}
	iv, back, wide := get(a, b, 0.95), get(b, a, 0.95), get(a, b, 0.99)
	approx(t, name+" inverted", back.Low*iv.High, 1, 1e-9)
	if !(wide.Low < iv.Low && wide.High > iv.High) {
		t.Fatalf("%s: 99 %% %+v is not wider than 95 %% %+v", name, wide, iv)
	}
	ms := make([]float64, len(a))
	for i := range a {
		ms[i] = a[i] * 1000
	}
	approx(t, name+" in another unit", get(ms, b, 0.95).Low*1000/iv.Low, 1, 1e-9)
	p, err := pOf(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if (p <= 0.05) != !iv.Contains(1) {
		t.Fatalf("%s: p = %v beside %+v", name, p, iv)
	}
}

func lognormals(rng *rand.Rand, n int, sigma float64) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = math.Exp(sigma * rng.NormFloat64())
	}
	return xs
}

func FuzzRatio(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, 0.95)
	f.Add(math.MaxFloat64, math.SmallestNonzeroFloat64, 1.0, 1.0, 0.99)
	f.Add(math.NaN(), 1.0, 1.0, 0.0, 0.5)
	f.Add(1.0, 1.0, 1.0, 1.0, 0.95)
	f.Add(1e-300, 1e300, 1e300, 1e-300, 0.9999)
	f.Fuzz(func(t *testing.T, a, b, c, d, level float64) {
		for _, ratio := range []func(a, b []float64, level float64) (stats.Interval, error){stats.Ratio, stats.PairedRatio} {
			iv, err := ratio([]float64{a, b}, []float64{c, d}, level)
			if err != nil {
				continue
			}
			for _, v := range []float64{iv.Estimate, iv.Low, iv.High} {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Fatalf("%v %v, %v %v at %v: %+v", a, b, c, d, level, iv)
				}
			}
			if iv.Low > iv.Estimate || iv.Estimate > iv.High {
				t.Fatalf("%v %v, %v %v at %v: %+v", a, b, c, d, level, iv)
			}
		}
	})
}
