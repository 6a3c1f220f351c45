package stats_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"h100-inference-control-plane/runner/stats"
)

func TestWord(t *testing.T) {
	f := func(low, estimate, high, minimum float64, better stats.Direction, want stats.Change) {
		t.Helper()
		iv := stats.Interval{Estimate: estimate, Low: low, High: high, Level: 0.95}
		if got := stats.Word(iv, minimum, better); got != want {
			t.Fatalf("Word(%v (%v to %v), %v, %s) = %s, want %s", estimate, low, high, minimum, better, got, want)
		}
	}
	const hi, lo = stats.Higher, stats.Lower
	f(1.01, 1.05, 1.09, 0.03, hi, stats.Better)
	f(1.01, 1.05, 1.09, 0.03, lo, stats.Worse)
	f(0.90, 0.95, 0.99, 0.03, hi, stats.Worse)
	f(0.90, 0.95, 0.99, 0.03, lo, stats.Better)
	f(1.01, 1.05, 1.09, 0.03, "", stats.Different)
	f(0.99, 1.05, 1.11, 0.03, hi, stats.NoClearChange)  // the interval holds "no change"
	f(1.00, 1.05, 1.10, 0.03, hi, stats.NoClearChange)  // so does one that ends there
	f(1.01, 1.02, 1.03, 0.03, hi, stats.NoClearChange)  // clear, and too small to matter
	f(1.01, 1.02, 1.03, 0, hi, stats.Better)            // unless everything matters
	f(1.01, 1.03, 1.05, 0.03, hi, stats.Better)         // the minimum effect itself matters
	f(0.96, 1/1.03, 0.98, 0.03, lo, stats.Better)       // and so does its mirror image
	f(0.96, 0.972, 0.98, 0.03, lo, stats.NoClearChange) // 0.972 > 1/1.03
	f(1.01, 1.02, 1.03, -0.5, hi, stats.Better)         // a negative minimum effect is none
	f(0.5, 1.0, 1.5, -0.5, hi, stats.NoClearChange)
	nan := math.NaN()
	f(nan, nan, nan, 0.03, hi, stats.NoClearChange)
	f(nan, 1.05, 1.09, 0.03, hi, stats.NoClearChange)
	f(1.01, 1.05, 1.09, nan, hi, stats.NoClearChange)
	f(1.01, 1.05, math.Inf(1), 0.03, hi, stats.Better)
	f(0, 0, 0, 0.03, hi, stats.Worse)
}

func TestInert(t *testing.T) {
	f := func(low, high, minimum float64, want bool) {
		t.Helper()
		if got := stats.Inert(stats.Interval{Estimate: 1, Low: low, High: high}, minimum); got != want {
			t.Fatalf("Inert(%v to %v, %v) = %v", low, high, minimum, got)
		}
	}
	f(0.98, 1.02, 0.03, true)
	f(1/1.03, 1.03, 0.03, true)
	f(0.970, 1.02, 0.03, false)
	f(0.98, 1.031, 0.03, false)
	f(1.01, 1.02, 0.03, true) // clear and inert at once: a change, too small to matter
	f(1, 1, 0, true)
	f(math.NaN(), math.NaN(), 0.03, false)
	f(0.98, 1.02, math.NaN(), false)
	f(0, math.Inf(1), 0.03, false)
}

// TestWordMirror: exchanging the sides of any comparison exchanges the words, and an inert change is never called.
func TestWordMirror(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	mirror := map[stats.Change]stats.Change{stats.Better: stats.Worse, stats.Worse: stats.Better, stats.NoClearChange: stats.NoClearChange}
	seen := map[stats.Change]int{}
	for range 2000 {
		x, h, m := 0.1*rng.NormFloat64(), 0.05*rng.ExpFloat64(), 0.05*rng.Float64()
		iv := stats.Interval{Estimate: x, Low: x - h, High: x + h}.Exp()
		back := stats.Interval{Estimate: 1 / iv.Estimate, Low: 1 / iv.High, High: 1 / iv.Low}
		word := stats.Word(iv, m, stats.Lower)
		seen[word]++
		if got := stats.Word(back, m, stats.Lower); got != mirror[word] {
			t.Fatalf("%+v is %s and its mirror image %s", iv, word, got)
		}
		if stats.Inert(iv, m) && word != stats.NoClearChange {
			t.Fatalf("%+v is inert and %s", iv, word)
		}
	}
	if len(seen) != 3 {
		t.Fatalf("only the words %v came up", seen)
	}
}

func TestHolm(t *testing.T) {
	f := func(ps []float64, adjusted []float64, reject []bool) {
		t.Helper()
		got, err := stats.Holm(ps, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(ps) {
			t.Fatalf("%d decisions for %d tests", len(got), len(ps))
		}
		for i, d := range got {
			approx(t, "adjusted", d.Adjusted, adjusted[i], 1e-12)
			if d.Reject != reject[i] {
				t.Errorf("Holm(%v)[%d] rejects: %v", ps, i, d.Reject)
			}
		}
	}
	f(nil, nil, nil)
	f([]float64{0.04}, []float64{0.04}, []bool{true})
	f([]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}, []bool{true, false, false, true})
	f([]float64{0.03, 0.03}, []float64{0.06, 0.06}, []bool{false, false})
	f([]float64{0, 1, 1}, []float64{0, 1, 1}, []bool{true, false, false})
}

func TestHolmFailure(t *testing.T) {
	for _, p := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := stats.Holm([]float64{0.5, p}, 0.05); !errors.Is(err, stats.ErrP) {
			t.Fatalf("p = %v: %v", p, err)
		}
	}
	for _, alpha := range []float64{0, 1, math.NaN()} {
		if _, err := stats.Holm([]float64{0.5}, alpha); !errors.Is(err, stats.ErrLevel) {
			t.Fatalf("alpha = %v: %v", alpha, err)
		}
	}
}

// TestHolmFamily: with five true "no change", one of them or more is rejected in about alpha of all families, where
// testing each alone would do so in 23 %.
func TestHolmFamily(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const families = 4000
	var wrong, alone int
	for range families {
		ps := make([]float64, 5)
		for i := range ps {
			ps[i] = rng.Float64()
		}
		ds, err := stats.Holm(ps, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		var holm, each bool
		for i, d := range ds {
			holm, each = holm || d.Reject, each || ps[i] <= 0.05
		}
		wrong, alone = wrong+count(holm), alone+count(each)
	}
	share, err := stats.Proportion(wrong, families, 0.999)
	if err != nil {
		t.Fatal(err)
	}
	if !share.Contains(1 - math.Pow(0.99, 5)) {
		t.Errorf("wrong in %.1f %% of families, want 4.9 %%", 100*share.Estimate)
	}
	if alone < 4*wrong {
		t.Errorf("tested alone %d families are wrong and with Holm %d: too little difference to be Holm's", alone, wrong)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
