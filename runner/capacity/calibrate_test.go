package capacity_test

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/sim/trial"
)

// full is the size of `make calibrate-stats`.
func full() bool { return os.Getenv("BENCH_CALIBRATE_STATS") != "" }

func size(ci, whole int) int {
	if full() {
		return whole
	}
	return ci
}

// noisy is a machine whose every measurement is off by a factor exp(sigma z), z normal: the same load holds now and
// fails then.
func noisy(truth, sigma float64, seed uint64) func(float64, int) capacity.Outcome {
	rng := rand.New(rand.NewPCG(seed, 0x6e6f6973))
	return func(load float64, _ int) capacity.Outcome {
		if load <= truth*math.Exp(sigma*rng.NormFloat64()) {
			return capacity.Holds
		}
		return capacity.Fails
	}
}

func within(s capacity.Search, b capacity.Bracket, truth float64) bool {
	low, high := 0.0, math.Inf(1)
	if b.Holds != nil {
		low = *b.Holds
	}
	if b.Fails != nil {
		high = *b.Fails
	}
	return low <= truth && truth < high
}

// TestCalibrateBracket: how often the bracket of one start holds the truth, by how noisy measurements are, and what it
// costs. The demand is 95 of 100 while the noise is no more than two fifths of the resolution.
func TestCalibrateBracket(t *testing.T) {
	n := size(1000, 20000)
	f := func(s capacity.Search, sigma, least float64) {
		t.Helper()
		in, closed, measured, width := 0, 0, 0, 0.0
		for seed := range uint64(n) {
			rng := rand.New(rand.NewPCG(seed, 0x7472757468))
			truth := math.Exp(math.Log(8) + rng.Float64()*math.Log(25)) // 8 to 200
			obs := drive(t, s, 1, nil, noisy(truth, sigma, seed))
			b := s.Bracket(1, obs)
			measured += len(obs)
			if b.Closed {
				closed++
			}
			if within(s, b, truth) {
				in++
			}
			if b.Holds != nil && b.Fails != nil {
				width += *b.Fails / *b.Holds - 1
			}
		}
		share := float64(in) / float64(n)
		t.Logf("resolution %3.0f %%, whole %-5v noise %4.1f %%: %5.1f %% hold the truth, %5.1f %% closed, %4.1f measurements, %4.1f %% wide",
			100*s.Resolution, s.Whole, 100*sigma, 100*share, 100*float64(closed)/float64(n), float64(measured)/float64(n), 100*width/float64(n))
		if share < least {
			t.Errorf("resolution %v, noise %v: %.1f %% of %d brackets hold the truth, want %.0f %%", s.Resolution, sigma, 100*share, n, 100*least)
		}
	}
	for _, s := range []capacity.Search{
		{Min: 1, Max: 256, Resolution: 0.05},
		{Min: 1, Max: 256, Resolution: 0.05, Whole: true},
		{Min: 1, Max: 256, Resolution: 0.10},
	} {
		f(s, 0, 1)
		f(s, 0.005, 0.95)
		f(s, 0.01, 0.95)
		f(s, 0.02, 0.95)
		f(s, 0.05, 0.85)
	}
}

// TestCalibrateInterval: how often the interval over starts holds the capacity that starts have on average (geometric
// mean), when starts differ by 3 % and measurements by 1 %.
func TestCalibrateInterval(t *testing.T) {
	n := size(400, 5000)
	s := capacity.Search{Min: 1, Max: 256, Resolution: 0.05}
	for _, starts := range []int{3, 5} {
		in, have, measured := 0, 0, 0
		for seed := range uint64(n) {
			rng := rand.New(rand.NewPCG(seed, 0x73746172))
			truth := math.Exp(math.Log(8) + rng.Float64()*math.Log(25))
			var obs []capacity.Observation
			for k := range starts {
				obs = drive(t, s, k+1, obs, noisy(truth*math.Exp(0.03*rng.NormFloat64()), 0.01, seed*64+uint64(k)))
			}
			a := s.Answer(obs)
			measured += a.Measurements
			if a.Low == nil || a.High == nil {
				continue
			}
			have++
			if *a.Low <= truth && truth <= *a.High {
				in++
			}
		}
		share := float64(in) / float64(have)
		t.Logf("%d starts: %.1f %% of %d intervals hold the truth, %.1f measurements", starts, 100*share, have, float64(measured)/float64(n))
		if have < n*9/10 || share < 0.93 {
			t.Errorf("%d starts: %d of %d have an interval, %.1f %% of them hold the truth", starts, have, n, 100*share)
		}
	}
}

// planted is a simulated machine whose objective is a median time per output token.
type planted struct {
	profile *model.Profile
	limit   time.Duration
	shape   trial.Shape
}

func (p planted) measure(t *testing.T, start uint64, load int, prompts uint64) capacity.Outcome {
	t.Helper()
	s := p.shape
	s.Concurrency, s.Requests = load, max(s.Requests, 4*load)
	o, err := trial.Run(model.Config{Profile: p.profile, ChunkedPrefill: true, Warm: true, Seed: start}, 1, load, s.Draw(prompts))
	if err != nil {
		t.Fatal(err)
	}
	if o.TPOT <= p.limit {
		return capacity.Holds
	}
	return capacity.Fails
}

// truth scans the loads densely: the highest below which every load holds for most of many draws of the prompts. Those
// draws are of no measurement.
func (p planted) truth(t *testing.T, start uint64, draws int) int {
	t.Helper()
	for load := 1; ; load++ {
		held := 0
		for d := range draws {
			if p.measure(t, start, load, 1<<40|uint64(load)<<20|uint64(d)) == capacity.Holds {
				held++
			}
		}
		if 2*held <= draws {
			return load - 1
		}
	}
}

// TestCalibrateSimulated: the same on the simulated engine, whose starts differ and whose prompts are drawn anew for
// every measurement. The truth of each start is found by a dense scan.
func TestCalibrateSimulated(t *testing.T) {
	profile, err := model.LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	p := planted{profile, 8 * time.Millisecond, trial.Shape{Requests: 200, Prompt: 32, Output: 24}}
	s := capacity.Search{Min: 1, Max: 128, Whole: true, Resolution: 0.05}
	n, in, measured := size(40, 500), 0, 0
	for start := range uint64(n) {
		truth := p.truth(t, start, 15)
		obs := drive(t, s, 1, nil, func(load float64, again int) capacity.Outcome {
			return p.measure(t, start, int(load), uint64(load)<<8|uint64(again))
		})
		measured += len(obs)
		if b := s.Bracket(1, obs); within(s, b, float64(truth)) {
			in++
		} else {
			t.Logf("start %d: truth %d, bracket %s", start, truth, ends(b))
		}
	}
	t.Logf("%d of %d brackets hold the truth of a dense scan, %.1f measurements each instead of %.0f", in, n, float64(measured)/float64(n), s.Max)
	if in*100 < n*95 {
		t.Errorf("%d of %d brackets hold the truth, want 95 %%", in, n)
	}
}
