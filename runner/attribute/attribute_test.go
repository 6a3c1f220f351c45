package attribute_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/stats"
)

func TestDesign(t *testing.T) {
	f := func(k int, full bool, want ...attribute.Assignment) {
		t.Helper()
		got, err := attribute.Design(k, full)
		if err != nil {
			t.Fatalf("Design(%d, %v): %v", k, full, err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Design(%d, %v) = %b, want %b", k, full, got, want)
		}
	}
	f(1, false, 0, 1)
	f(1, true, 0, 1)
	f(2, false, 0b00, 0b01, 0b10, 0b11)
	f(3, false, 0b000, 0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111)
	f(4, false, 0b0000, 0b0001, 0b0010, 0b0100, 0b1000, 0b1110, 0b1101, 0b1011, 0b0111, 0b1111)
}

// TestDesignProperties holds for every size: the cost is what is promised, nothing is measured twice, and both ends are
// there.
func TestDesignProperties(t *testing.T) {
	for k := 1; k <= attribute.MaxFactors; k++ {
		checkDesign(t, k, false, min(2*k+2, 1<<k))
	}
	for k := 1; k <= attribute.MaxFull; k++ {
		checkDesign(t, k, true, 1<<k)
	}
}

func checkDesign(t *testing.T, k int, full bool, cost int) {
	t.Helper()
	d, err := attribute.Design(k, full)
	if err != nil {
		t.Fatal(err)
	}
	if len(d) != cost || d[0] != attribute.Baseline || d[len(d)-1] != attribute.Candidate(k) {
		t.Fatalf("Design(%d, %v) = %b: want %d configs from baseline to candidate", k, full, d, cost)
	}
	slices.Sort(d)
	if len(slices.Compact(d)) != cost {
		t.Fatalf("Design(%d, %v) = %b measures a config twice", k, full, d)
	}
}

func TestDesignFailure(t *testing.T) {
	f := func(k int, full bool) {
		t.Helper()
		if d, err := attribute.Design(k, full); !errors.Is(err, attribute.ErrFactors) {
			t.Fatalf("Design(%d, %v) = %v, %v; want ErrFactors", k, full, d, err)
		}
	}
	f(0, false)
	f(-1, true)
	f(6, true)
	f(17, false)
}

// observe makes one observation per config and block.
func observe(design []attribute.Assignment, blocks int, value func(c attribute.Assignment, b int) float64) []attribute.Observation {
	var out []attribute.Observation
	for b := range blocks {
		for _, c := range design {
			out = append(out, attribute.Observation{Config: c, Block: b, Value: value(c, b)})
		}
	}
	return out
}

func design(t *testing.T, k int, full bool) []attribute.Assignment {
	t.Helper()
	d, err := attribute.Design(k, full)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func analyse(t *testing.T, names []string, d []attribute.Assignment, obs []attribute.Observation, m float64) *attribute.Result {
	t.Helper()
	r, err := attribute.Analyse(names, d, obs, attribute.Options{MinimumEffect: m})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// wobble is small, cancels in no contrast, and averages to nothing over three blocks.
func wobble(c attribute.Assignment, b int) float64 {
	return 1e-3 * math.Sin(float64(7*c*c+1)) * float64(b-1)
}

// TestKnown is worked out by hand. On the log scale: a = 1, b = 0, c = 0.2, a and c together 0.4 more.
// Shapley splits an interaction evenly: a 1.2, b 0, c 0.4.
func TestKnown(t *testing.T) {
	truth := func(x attribute.Assignment) float64 {
		var l float64
		if x.Has(0) {
			l++
		}
		if x.Has(2) {
			l += 0.2
		}
		if x.Has(0) && x.Has(2) {
			l += 0.4
		}
		return l
	}
	d := design(t, 3, false)
	obs := observe(d, 3, func(c attribute.Assignment, b int) float64 {
		return 50 * math.Exp(truth(c)+wobble(c, b)+float64(b)) // a block is e times as fast as the one before
	})
	r := analyse(t, []string{"a", "b", "c"}, d, obs, 0.03)
	if r.Design != attribute.FullFactorial || r.Configs != 8 || len(r.Blocks) != 3 || len(r.Incomplete) != 0 {
		t.Fatalf("design %s, %d configs, blocks %v, incomplete %v", r.Design, r.Configs, r.Blocks, r.Incomplete)
	}
	near(t, "whole", r.Whole.Log, 1.6)
	near(t, "whole ratio", r.Whole.Ratio, math.Exp(1.6))
	want := []struct{ added, removed, main, share, company float64 }{{1, 1.4, 1.2, 1.2, 0.4}, {0, 0, 0, 0, 0}, {0.2, 0.6, 0.4, 0.4, 0.4}}
	for i, w := range want {
		f := r.Factors[i]
		near(t, f.Name+" added", f.Added.Log, w.added)
		near(t, f.Name+" removed", f.Removed.Log, w.removed)
		near(t, f.Name+" main", f.Main.Log, w.main)
		near(t, f.Name+" share", f.Share.Log, w.share)
		near(t, f.Name+" company", f.Company.Log, w.company)
		near(t, f.Name+" fraction", f.Fraction.Estimate, w.share/1.6)
		if f.Inert != (i == 1) || f.DependsOnOthers != (i != 1) {
			t.Errorf("%s: inert %v, depends on others %v", f.Name, f.Inert, f.DependsOnOthers)
		}
	}
	for i, w := range []float64{0, 0.4, 0} { // ab, ac, bc
		near(t, "interaction", r.Interactions[i].Effect.Log, w)
		if r.Interactions[i].Clear != (i == 1) {
			t.Errorf("interaction %v: clear %v", r.Interactions[i].Factors, r.Interactions[i].Clear)
		}
	}
	if r.Remainder.Log != 0 || r.Unexplained {
		t.Errorf("remainder %v of a full design", r.Remainder)
	}
}

// TestOneAtATime has four factors of which two act only together: neither end's average can place the rest when three
// have to come together.
func TestOneAtATime(t *testing.T) {
	d := design(t, 4, false)
	value := func(three float64) func(attribute.Assignment, int) float64 {
		return func(c attribute.Assignment, b int) float64 {
			l := wobble(c, b)
			if c.Has(0) {
				l += 0.5
			}
			if c.Has(1) && c.Has(2) && c.Has(3) {
				l += three
			}
			return math.Exp(l)
		}
	}
	names := []string{"a", "b", "c", "d"}
	r := analyse(t, names, d, observe(d, 3, value(0)), 0.03)
	near(t, "remainder without interaction", r.Remainder.Log, 0)
	if r.Unexplained || r.Design != attribute.OneAtATime || len(r.Interactions) != 0 || r.Factors[0].Main != nil {
		t.Fatalf("additive factors: %+v", r)
	}
	r = analyse(t, names, d, observe(d, 3, value(0.3)), 0.03)
	near(t, "share of b", r.Factors[1].Share.Log, 0.15)
	near(t, "remainder", r.Remainder.Log, 0.3-3*0.15)
	if !r.Unexplained || !r.Factors[1].DependsOnOthers || r.Factors[0].DependsOnOthers {
		t.Fatalf("unexplained %v, b depends %v, a depends %v", r.Unexplained, r.Factors[1].DependsOnOthers, r.Factors[0].DependsOnOthers)
	}
}

// TestSharesAddUp holds for every data set and design: shares and remainder are the whole, as sums of logs and as
// products of ratios.
func TestSharesAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for range 300 {
		k, full := 1+rng.IntN(7), rng.IntN(2) == 0
		d := design(t, k, full && k <= attribute.MaxFull)
		obs := observe(d, 1+rng.IntN(5), func(attribute.Assignment, int) float64 { return math.Exp(3 * rng.NormFloat64()) })
		r := analyse(t, []string{"a", "b", "c", "d", "e", "f", "g"}[:k], d, obs, 0)
		log, ratio := r.Remainder.Log, r.Remainder.Ratio
		for _, f := range r.Factors {
			log += f.Share.Log
			ratio *= f.Share.Ratio
		}
		near(t, "sum of shares", log, r.Whole.Log)
		near(t, "product of ratios", ratio/r.Whole.Ratio, 1)
		if (r.Design == attribute.FullFactorial) != (len(d) == 1<<k) || r.Design == attribute.FullFactorial && r.Remainder.Log != 0 {
			t.Fatalf("k = %d: %s with remainder %v", k, r.Design, r.Remainder)
		}
	}
}

// TestSymmetry: exchanging baseline and candidate exchanges the ends, turns every effect round and leaves the verdicts.
func TestSymmetry(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	d := design(t, 3, true)
	obs := observe(d, 4, func(c attribute.Assignment, b int) float64 { return math.Exp(0.2*float64(c) + 0.05*rng.NormFloat64()) })
	names := []string{"a", "b", "c"}
	r := analyse(t, names, d, obs, 0.03)
	for i := range obs {
		obs[i].Config ^= attribute.Candidate(3)
	}
	s := analyse(t, names, d, obs, 0.03)
	for i := range names {
		near(t, "share", s.Factors[i].Share.Log, -r.Factors[i].Share.Log)
		near(t, "added and removed", s.Factors[i].Added.Log, -r.Factors[i].Removed.Log)
		if s.Factors[i].Inert != r.Factors[i].Inert || s.Factors[i].DependsOnOthers != r.Factors[i].DependsOnOthers {
			t.Errorf("factor %d: the verdicts differ", i)
		}
	}
}

// TestInert: each condition alone keeps a factor from being called inert. The four numbers are what factor a does, on the
// log scale, with neither, the one, the other and both of the others; 3 % is 0.0296.
func TestInert(t *testing.T) {
	d := design(t, 3, true)
	f := func(neither, one, other, both float64, want bool) {
		t.Helper()
		does := map[attribute.Assignment]float64{0b001: neither, 0b011: one, 0b101: other, 0b111: both}
		obs := observe(d, 3, func(c attribute.Assignment, b int) float64 { return math.Exp(does[c] + wobble(c, b)/10) })
		if a := analyse(t, []string{"a", "b", "c"}, d, obs, 0.03).Factors[0]; a.Inert != want {
			t.Fatalf("%v %v %v %v: inert %v: %+v", neither, one, other, both, a.Inert, a)
		}
	}
	f(0, 0, 0, 0, true)
	f(0.01, 0.01, 0.01, 0.01, true)
	f(0.04, 0.04, 0.04, 0.04, false)
	f(0.033, 0.005, 0.005, 0.005, false) // clear when added
	f(0.005, 0.005, 0.005, 0.033, false) // clear when removed
	f(-0.02, 0, 0, 0.02, false)          // each end too small to matter, their difference not
	f(0, 0.08, 0.08, 0, false)           // acts in the middle only: share 0.027, main effect 0.04
	f(0, -0.08, 0.08, 0, false)          // cancels in the share and at both ends, not with each of the others
}

// TestIncompleteBlocks: a block in which a start failed is named and does not count.
func TestIncompleteBlocks(t *testing.T) {
	d := design(t, 2, false)
	obs := observe(d, 4, func(c attribute.Assignment, b int) float64 {
		if b == 2 {
			return 1e6 // would show at once
		}
		return math.Exp(float64(c) + wobble(c, b))
	})
	obs = slices.DeleteFunc(obs, func(o attribute.Observation) bool { return o.Block == 2 && o.Config == 3 })
	r := analyse(t, []string{"a", "b"}, d, obs, 0.03)
	if !slices.Equal(r.Blocks, []int{0, 1, 3}) || !slices.Equal(r.Incomplete, []int{2}) {
		t.Fatalf("blocks %v, incomplete %v", r.Blocks, r.Incomplete)
	}
	if math.Abs(r.Whole.Log-3) > 0.01 {
		t.Fatalf("whole %v, want about 3", r.Whole.Log)
	}
}

// TestUnknownVariation: one block, or blocks that repeat each other, have effects but no interval and no verdict.
func TestUnknownVariation(t *testing.T) {
	d := design(t, 2, false)
	f := func(blocks int) {
		t.Helper()
		r := analyse(t, []string{"a", "b"}, d, observe(d, blocks, func(c attribute.Assignment, b int) float64 {
			if c.Has(0) {
				return 2
			}
			return 1
		}), 0.03)
		a, b := r.Factors[0], r.Factors[1]
		near(t, "share", a.Share.Ratio, 2)
		if a.Share.RatioInterval != nil || a.Fraction != nil || b.Inert || r.Whole.LogInterval != nil {
			t.Fatalf("%d blocks: an interval or a verdict out of nothing: %+v", blocks, r)
		}
	}
	f(1)
	f(3)
}

func TestAnalyseFailure(t *testing.T) {
	d := design(t, 2, false)
	good := observe(d, 3, func(c attribute.Assignment, b int) float64 { return 1 + float64(b) })
	f := func(names []string, d []attribute.Assignment, obs []attribute.Observation, opt attribute.Options, want error) {
		t.Helper()
		if r, err := attribute.Analyse(names, d, obs, opt); !errors.Is(err, want) {
			t.Fatalf("got %v, %v; want %v", r, err, want)
		}
	}
	ab := []string{"a", "b"}
	none := attribute.Options{}
	with := func(o attribute.Observation) []attribute.Observation { return append(slices.Clone(good), o) }
	f(nil, d, good, none, attribute.ErrFactors)
	f([]string{"a", "a"}, d, good, none, attribute.ErrFactors)
	f(ab, d[:3], good, none, attribute.ErrDesign)
	f(ab, append(slices.Clone(d), 3), good, none, attribute.ErrDesign)
	f(ab, append(slices.Clone(d), 4), good, none, attribute.ErrDesign)
	f([]string{"a", "b", "c", "d"}, append(design(t, 4, false), 3), nil, none, attribute.ErrDesign)
	f(ab, d, nil, none, attribute.ErrNoBlock)
	f(ab, d, good[:3], none, attribute.ErrNoBlock)
	f(ab, d, with(good[0]), none, attribute.ErrValue)
	f(ab, d, with(attribute.Observation{Config: 4, Block: 9, Value: 1}), none, attribute.ErrValue)
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		f(ab, d, with(attribute.Observation{Config: 0, Block: 9, Value: v}), none, attribute.ErrValue)
	}
	f(ab, d, good, attribute.Options{Level: 1}, stats.ErrLevel)
	f(ab, d, good, attribute.Options{MinimumEffect: -0.1}, attribute.ErrMinimumEffect)
	f(ab, d, good, attribute.Options{MinimumEffect: math.NaN()}, attribute.ErrMinimumEffect)
}

// TestJSON: the largest and smallest values there are still make a document, and it reads back the same.
func TestJSON(t *testing.T) {
	d := design(t, 3, true)
	rng := rand.New(rand.NewPCG(5, 5))
	obs := observe(d, 2, func(attribute.Assignment, int) float64 {
		return []float64{math.SmallestNonzeroFloat64, 1, math.MaxFloat64}[rng.IntN(3)]
	})
	r := analyse(t, []string{"a", "b", "c"}, d, obs, 0)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back attribute.Result
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(raw) {
		t.Fatalf("%v\n%s\n%s", err, raw, again)
	}
}
