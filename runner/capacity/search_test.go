package capacity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/capacity"
)

var whole = capacity.Search{Min: 1, Max: 256, Whole: true, Resolution: 0.05}

// drive runs one start against a machine that answers each load, and gives every observation.
func drive(t *testing.T, s capacity.Search, start int, before []capacity.Observation, machine func(load float64, again int) capacity.Outcome) []capacity.Observation {
	t.Helper()
	obs := before
	for range s.Most() + 1 {
		step, ok := s.Next(start, obs)
		if !ok {
			return obs
		}
		if step.Load < s.Min || step.Load > s.Max || s.Whole && step.Load != math.Trunc(step.Load) {
			t.Fatalf("load %v is outside the search", step.Load)
		}
		obs = append(obs, capacity.Observation{Start: start, Load: step.Load, Outcome: machine(step.Load, step.Again)})
	}
	t.Fatalf("more than %d measurements: %v", s.Most(), obs)
	return nil
}

// upTo is a machine without noise.
func upTo(truth float64) func(float64, int) capacity.Outcome {
	return func(load float64, _ int) capacity.Outcome {
		if load <= truth {
			return capacity.Holds
		}
		return capacity.Fails
	}
}

func ends(b capacity.Bracket) string {
	text := func(p *float64) string {
		if p == nil {
			return "-"
		}
		return capacity.Number(*p)
	}
	return text(b.Holds) + " " + text(b.Fails)
}

func loads(obs []capacity.Observation) string {
	var out []string
	for _, o := range obs {
		out = append(out, capacity.Number(o.Load))
	}
	return strings.Join(out, " ")
}

// TestEveryTruth: without noise the bracket holds the truth for every whole number, and Most is never reached.
func TestEveryTruth(t *testing.T) {
	for _, s := range []capacity.Search{whole, {Min: 3, Max: 100, Whole: true, Resolution: 0.1}, {Min: 1, Max: 2, Whole: true, Resolution: 0.05}, {Min: 7, Max: 9, Whole: true, Resolution: 0.99}} {
		most := 0
		for truth := s.Min; truth < s.Max; truth++ {
			obs := drive(t, s, 1, nil, upTo(truth))
			b := s.Bracket(1, obs)
			if !b.Closed || b.Holds == nil || b.Fails == nil || *b.Holds > truth || *b.Fails <= truth {
				t.Fatalf("truth %v: bracket %s, closed %v", truth, ends(b), b.Closed)
			}
			if *b.Fails-*b.Holds > 1 && *b.Fails / *b.Holds > (1+s.Resolution)*(1+1e-9) {
				t.Fatalf("truth %v: bracket %s is too wide", truth, ends(b))
			}
			most = max(most, len(obs))
		}
		if most > s.Usual() {
			t.Errorf("%+v: %d measurements without noise, Usual says %d", s, most, s.Usual())
		}
	}
}

func TestRates(t *testing.T) {
	s := capacity.Search{Min: 0.5, Max: 50, Resolution: 0.05}
	for truth := 0.5; truth < 50; truth *= 1.0173 {
		obs := drive(t, s, 1, nil, upTo(truth))
		b := s.Bracket(1, obs)
		if !b.Closed || *b.Holds > truth || *b.Fails <= truth || *b.Fails / *b.Holds > 1.0501 {
			t.Fatalf("truth %v: bracket %s", truth, ends(b))
		}
		if len(obs) > s.Usual() {
			t.Errorf("truth %v: %d measurements, Usual says %d", truth, len(obs), s.Usual())
		}
	}
}

func TestSequence(t *testing.T) {
	f := func(name string, s capacity.Search, machine func(float64, int) capacity.Outcome, want, bracket string) {
		t.Helper()
		obs := drive(t, s, 1, nil, machine)
		b := s.Bracket(1, obs)
		if loads(obs) != want || ends(b) != bracket {
			t.Errorf("%s:\n got %s, bracket %s (%s%s)\nwant %s, bracket %s", name, loads(obs), ends(b), b.Stopped, b.NotMonotone, want, bracket)
		}
	}
	f("plain", whole, upTo(37), "1 2 4 8 16 32 64 45 38 35 36 37 37 37 38 38", "37 38")
	f("the highest holds", whole, upTo(1000), "1 2 4 8 16 32 64 128 256 256 256", "256 -")
	f("the lowest fails", whole, upTo(0), "1 1 1", "- 1")
	f("a target in the gap is measured", capacity.Search{Min: 1, Max: 64, Whole: true, Resolution: 0.5, Target: 9}, upTo(8), "1 2 4 8 16 9 8 8 9 9", "8 9")

	// One noisy measurement does not decide: a load that failed by chance is seen through when the end is confirmed.
	once := func(load float64, at int, o capacity.Outcome, rest func(float64, int) capacity.Outcome) func(float64, int) capacity.Outcome {
		return func(l float64, again int) capacity.Outcome {
			if l == load && again == at {
				return o
			}
			return rest(l, again)
		}
	}
	f("failed by chance", whole, once(4, 0, capacity.Fails, upTo(9)), "1 2 4 3 3 3 4 4 8 8 8 16 11 9 10 9 9 10 10", "9 10")
	f("held by chance", whole, once(16, 0, capacity.Holds, upTo(9)), "1 2 4 8 16 32 23 19 17 16 16 11 11 11 9 10 9 9 10 10", "9 10")
	f("confirmation fails by chance", whole, once(9, 1, capacity.Fails, upTo(9)), "1 2 4 8 16 11 9 10 9 9 8 8 10 10", "8 10")
	f("an invalid one is made again", whole, once(8, 0, capacity.Invalid, upTo(9)), "1 2 4 8 8 16 11 9 10 9 9 10 10", "9 10")
}

func TestStops(t *testing.T) {
	broken := func(load float64, _ int) capacity.Outcome {
		if load >= 8 {
			return capacity.Invalid
		}
		return capacity.Holds
	}
	obs := drive(t, whole, 1, nil, broken)
	b := whole.Bracket(1, obs)
	if b.Closed || ends(b) != "4 -" || b.Stopped != "the measurements at 8 cannot be believed" || loads(obs) != "1 2 4 8 8" {
		t.Errorf("%s: %+v", loads(obs), b)
	}
	a := whole.Answer(obs)
	if a.Value != nil || a.Note != "no start was settled" || a.Reaches(2) != capacity.Unclear {
		t.Errorf("answer %+v", a)
	}
}

// TestNotMonotone: a machine that fails in the middle is reported, and the answer is the careful one.
func TestNotMonotone(t *testing.T) {
	hole := func(load float64, _ int) capacity.Outcome {
		if load > 100 || load >= 20 && load <= 24 {
			return capacity.Fails
		}
		return capacity.Holds
	}
	obs := drive(t, whole, 1, nil, hole)
	if b := whole.Bracket(1, obs); b.NotMonotone != "" { // 20..24 is jumped over: nothing that was measured says so
		t.Fatalf("%+v after %s", b, loads(obs))
	}
	for _, l := range []float64{22, 22, 22} { // a start that did meet it
		obs = append(obs, capacity.Observation{Start: 1, Load: l, Outcome: capacity.Fails})
	}
	b := whole.Bracket(1, drive(t, whole, 1, obs, hole))
	if !b.Closed || ends(b) != "19 20" || b.NotMonotone != "it held at 99 although it failed at 20" {
		t.Errorf("%+v %s", b, ends(b))
	}
}

// TestLaterStarts: a later start begins at what an earlier one found, and still decides by itself.
func TestLaterStarts(t *testing.T) {
	first := drive(t, whole, 1, nil, upTo(37))
	same := drive(t, whole, 2, first, upTo(37))
	if got := loads(same[len(first):]); got != "37 38 37 37 38 38" {
		t.Errorf("a start that is the same: %s", got)
	}
	for _, truth := range []float64{20, 36, 39, 60, 0, 1000} {
		obs := drive(t, whole, 2, first, upTo(truth))
		b := whole.Bracket(2, obs)
		if !b.Closed || b.Holds != nil && *b.Holds > truth || b.Fails != nil && *b.Fails <= truth {
			t.Errorf("truth %v: %s after %s", truth, ends(b), loads(obs[len(first):]))
		}
	}
}

// TestResume: what Next says depends on the observations only, so a search that is cut anywhere goes on to the same end.
func TestResume(t *testing.T) {
	noisy := func(load float64, again int) capacity.Outcome {
		rng := rand.New(rand.NewPCG(uint64(load*1000), uint64(again)))
		return upTo(37*math.Exp(0.05*rng.NormFloat64()))(load, again)
	}
	full := drive(t, whole, 1, nil, noisy)
	for cut := range full {
		rest := drive(t, whole, 1, full[:cut:cut], noisy)
		if loads(rest) != loads(full) {
			t.Fatalf("cut after %d: %s, uncut %s", cut, loads(rest), loads(full))
		}
	}
}

func FuzzSearch(f *testing.F) {
	f.Add(uint64(1), 1.0, 256.0, 0.05, true, 0.0)
	f.Add(uint64(2), 0.5, 50.0, 0.01, false, 7.5)
	f.Add(uint64(3), 1.0, 1.0001, 0.9, false, 0.0)
	f.Fuzz(func(t *testing.T, seed uint64, low, high, resolution float64, isWhole bool, target float64) {
		s := capacity.Search{Min: low, Max: high, Resolution: resolution, Whole: isWhole, Target: target}
		if isWhole {
			s.Min, s.Max, s.Target = math.Trunc(low), math.Trunc(high), math.Trunc(target)
		}
		if !(s.Min >= 1e-3 && s.Min < s.Max && s.Max <= 1e5 && resolution >= 0.01 && resolution < 1 && (s.Target == 0 || s.Min <= s.Target && s.Target <= s.Max)) {
			t.Skip("not a search that a file can ask for")
		}
		rng := rand.New(rand.NewPCG(seed, 7))
		coin := func(float64, int) capacity.Outcome { return capacity.Outcome(rng.IntN(3)) }
		b := s.Bracket(1, drive(t, s, 1, nil, coin))
		if !b.Closed && b.Stopped == "" {
			t.Fatalf("the search ended and does not say why: %+v", b)
		}
	})
}

func TestAnswer(t *testing.T) {
	f := func(truths []float64, value, interval string, censored capacity.Censoring, note string) {
		t.Helper()
		var obs []capacity.Observation
		for i, truth := range truths {
			obs = drive(t, whole, i+1, obs, upTo(truth))
		}
		a := whole.Answer(obs)
		got, gotInterval := "-", "-"
		if a.Value != nil {
			got = capacity.Number(*a.Value)
		}
		if a.Low != nil && a.High != nil {
			gotInterval = fmt.Sprintf("%.1f to %.1f", *a.Low, *a.High)
		}
		if got != value || gotInterval != interval || a.Censored != censored || a.Note != note {
			t.Errorf("%v: %s (%s) %q %q; want %s (%s) %q %q", truths, got, gotInterval, a.Censored, a.Note, value, interval, censored, note)
		}
	}
	f(nil, "-", "-", "", "no start was settled")
	f([]float64{37}, "37", "-", "", "one start: how much starts differ is known from 3 on")
	f([]float64{37, 39}, "37", "-", "", "2 starts: how much starts differ is known from 3 on")
	f([]float64{37, 37, 37}, "37", "37.0 to 38.0", "", "")
	f([]float64{36, 37, 39}, "37", "33.7 to 42.3", "", "")
	f([]float64{300, 300, 300}, "256", "-", capacity.AtLeast, "no interval: in 3 of 3 starts the answer lies beyond the search")
	f([]float64{250, 300, 300}, "256", "-", capacity.AtLeast, "no interval: in 2 of 3 starts the answer lies beyond the search")
	f([]float64{0, 0, 1}, "-", "-", capacity.Below, "no interval: in 2 of 3 starts the answer lies beyond the search")
}

func TestReaches(t *testing.T) {
	f := func(truths []float64, target float64, want capacity.Verdict) {
		t.Helper()
		s := whole
		s.Target = target
		var obs []capacity.Observation
		for i, truth := range truths {
			obs = drive(t, s, i+1, obs, upTo(truth))
		}
		if got := s.Answer(obs).Reaches(target); got != want {
			t.Errorf("%v against %v: %v, want %v", truths, target, got, want)
		}
	}
	f([]float64{37}, 37, capacity.Held)
	f([]float64{37}, 38, capacity.NotHeld)
	f([]float64{100}, 99, capacity.Held)
	f([]float64{100}, 101, capacity.NotHeld)
	f([]float64{37, 39}, 38, capacity.Unclear)
	f([]float64{36, 37, 39}, 37, capacity.Unclear)
	f([]float64{36, 37, 39}, 30, capacity.Held)
	f([]float64{36, 37, 39}, 45, capacity.NotHeld)
	f([]float64{300, 300, 300}, 256, capacity.Held)
	f([]float64{0}, 1, capacity.NotHeld)
	f(nil, 1, capacity.Unclear)
}
