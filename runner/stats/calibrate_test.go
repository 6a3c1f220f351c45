package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/sim/trial"
	"h100-inference-control-plane/runner/stats"
	"h100-inference-control-plane/runner/stats/statstest"
)

const (
	docs    = "../../docs/explanation/statistics.md"
	planted = 1.05 // everything 5 % faster
	matters = 0.03 // the default minimum effect
)

// labs are the profiles that are calibrated, each with a workload that it answers at a plausible mix of prefill and decode.
var labs = []struct {
	profile string
	shape   trial.Shape
}{
	{"laptop", trial.Shape{Requests: 24, Concurrency: 8, Prompt: 200, Output: 32}},
	{"h200-qwen3.6-35b-a3b-fp8", trial.Shape{Requests: 16, Concurrency: 8, Prompt: 200, Output: 256}},
}

// The metrics in the order of a sample.
var metrics = [...]struct {
	name   string
	better stats.Direction
}{{"throughput", stats.Higher}, {"TTFT", stats.Lower}, {"TPOT", stats.Lower}}

// sample is one start's values, by metric.
type sample [len(metrics)]float64

// lab starts engines of one profile in virtual time.
type lab struct {
	t       testing.TB
	profile *model.Profile
	shape   trial.Shape
	drift   float64 // spread of the logarithm of a factor on all step times that the starts of a block have in common
}

func newLab(t testing.TB, profile string, shape trial.Shape, drift float64) *lab {
	t.Helper()
	p, err := model.LoadProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	return &lab{t, p, shape, drift}
}

// The configs of a calibration.
const (
	base    = iota
	same    // the same config again: A against A
	faster  // all times divided by planted, so that the true ratio is known exactly
	crowded // at most 6 of the 8 requests run: another schedule, whose true ratio only a long reference run knows
	configs
)

func (l *lab) config(which int) model.Config {
	c := model.Config{Profile: l.profile, ChunkedPrefill: true, MaxModelLen: 2048, Warm: true}
	switch which {
	case faster:
		c.Profile = scaled(l.profile, 1/planted)
	case crowded:
		c.Seqs = 6
	}
	return c
}

func scaled(p *model.Profile, by float64) *model.Profile {
	q := *p
	curve := func(c model.Curve) model.Curve {
		out := make(model.Curve, len(c))
		for i, point := range c {
			out[i] = [2]float64{point[0], point[1] * by}
		}
		return out
	}
	q.Step.Decode, q.Step.Prefill = curve(p.Step.Decode), curve(p.Step.Prefill)
	q.Step.EagerFloor *= by
	q.Step.Frontend *= by
	return &q
}

// seed makes unrelated seeds of neighbouring numbers.
func seed(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h = (h ^ p) * 0xbf58476d1ce4e5b9
		h ^= h >> 31
	}
	return h
}

// block starts every config once, on the same prompts; exact takes all noise away.
func (l *lab) block(number uint64, exact bool) (out [configs]sample) {
	l.t.Helper()
	reqs := l.shape.Draw(seed(number, 1))
	slow := math.Exp(l.drift * rand.New(rand.NewPCG(seed(number, 2), 0)).NormFloat64())
	for which := range configs {
		c := l.config(which)
		c.Seed, c.Exact = seed(number, 3, uint64(which)), exact
		o, err := trial.Run(c, slow, l.shape.Concurrency, reqs)
		if err != nil {
			l.t.Fatal(err)
		}
		out[which] = sample{o.OutputPerS, o.TTFT.Seconds(), o.TPOT.Seconds()}
	}
	return out
}

// truth is the ratio that an endless experiment would find: of the geometric means, over starts and over the workloads
// that are drawn, of a start's value (itself a median over the requests of a trial of this size). It is 1 and 1.05 (and
// 1/1.05) by construction for same and faster. For crowded it comes from a reference run. noiseless is what the model
// says without noise; it differs a little, because a median of noisy values is not the median without noise.
func (l *lab) truth() (truth, noiseless [configs]sample) {
	n := statstest.Size(1000, 20000)
	noisy, exact := l.mean(n, false), l.mean(n/10, true)
	for m := range metrics {
		f := planted
		if metrics[m].better == stats.Lower {
			f = 1 / planted
		}
		truth[same][m], truth[faster][m], truth[crowded][m] = 1, f, noisy[m]
		noiseless[crowded][m] = exact[m]
	}
	return truth, noiseless
}

func (l *lab) mean(blocks int, exact bool) (ratio sample) {
	for i := range blocks {
		b := l.block(seed(0xeef, uint64(i)), exact)
		for m := range metrics {
			ratio[m] += math.Log(b[crowded][m]/b[base][m]) / float64(blocks)
		}
	}
	for m := range metrics {
		ratio[m] = math.Exp(ratio[m])
	}
	return ratio
}

// tally counts over comparisons of one metric.
type tally struct {
	different, called                 int // A against A
	apart, apartRuns                  int // A against A in starts that share no block, unpaired
	covered                           [configs]int
	power, powerStrict, powerUnpaired int // of the planted effect
	words                             [len(effects)]struct{ better, strict, inert int }
}

// effects are true ratios for which the rules of words are tabled. Noise multiplies, so that a config which is truly
// that much faster has exactly the interval of an A/A comparison times the effect.
var effects = [...]float64{1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.07, 1.10}

func (a *tally) addWords(aa stats.Interval) {
	for i, e := range effects {
		iv := stats.Interval{Estimate: aa.Estimate * e, Low: aa.Low * e, High: aa.High * e, Level: aa.Level}
		a.words[i].better += count(stats.Word(iv, matters, stats.Higher) == stats.Better)
		a.words[i].strict += count(strictlyBetter(iv, stats.Higher))
		a.words[i].inert += count(stats.Inert(iv, matters))
	}
}

// add compares the first n blocks; where there are twice as many, the second n are independent of them.
func (a *tally) add(l *lab, all [][configs]sample, n, m int, truth [configs]sample) {
	values := func(blocks [][configs]sample, which int) []float64 {
		var xs []float64
		for _, b := range blocks {
			xs = append(xs, b[which][m])
		}
		return xs
	}
	side := func(which int) []float64 { return values(all[:n], which) }
	if len(all) >= 2*n {
		iv, err := stats.Ratio(side(base), values(all[n:2*n], base), stats.DefaultLevel)
		if err != nil {
			l.t.Fatal(err)
		}
		a.apart += count(!iv.Contains(1))
		a.apartRuns++
	}
	intervals := func(which int) (paired, unpaired stats.Interval) {
		paired, err := stats.PairedRatio(side(base), side(which), stats.DefaultLevel)
		if err != nil {
			l.t.Fatal(err)
		}
		if unpaired, err = stats.Ratio(side(base), side(which), stats.DefaultLevel); err != nil {
			l.t.Fatal(err)
		}
		return paired, unpaired
	}
	for which := same; which < configs; which++ {
		iv, unpaired := intervals(which)
		a.covered[which] += count(iv.Contains(truth[which][m]))
		switch which {
		case same:
			a.different += count(!iv.Contains(1))
			a.addWords(iv)
			a.called += count(stats.Word(iv, matters, metrics[m].better) != stats.NoClearChange)
		case faster:
			a.power += count(stats.Word(iv, matters, metrics[m].better) == stats.Better)
			a.powerUnpaired += count(stats.Word(unpaired, matters, metrics[m].better) == stats.Better)
			a.powerStrict += count(strictlyBetter(iv, metrics[m].better))
		}
	}
}

// strictlyBetter is the rule that was not taken: the whole interval lies beyond the minimum effect.
func strictlyBetter(iv stats.Interval, better stats.Direction) bool {
	if better == stats.Lower {
		return iv.High <= 1/(1+matters)
	}
	return iv.Low >= 1+matters
}

// TestCalibrate compares configs whose true ratio is known, thousands of times, and counts how often the interval and
// the word are right.
func TestCalibrate(t *testing.T) {
	runs := statstest.Size(250, 4000)
	starts, blocks := []int{3, 5}, 6
	if statstest.Full() {
		starts, blocks = []int{3, 5, 10}, 10
	}
	var table, gap, words strings.Builder
	words.WriteString("| profile | true effect | better | better by the strict rule | inside the minimum effect |\n|---|---|---|---|---|\n")
	table.WriteString("| profile, starts per config | metric | A/A: interval excludes 1 | A/A: unpaired, no block in common | A/A: called at 3 % | coverage A/A | coverage 5 % | coverage other schedule | power for 5 % | the same, strict rule |\n|---|---|---|---|---|---|---|---|---|---|\n")
	gap.WriteString("| profile | metric | true ratio (reference run) | without noise |\n|---|---|---|---|\n")
	for _, c := range labs {
		profile := c.profile
		l := newLab(t, profile, c.shape, 0)
		truth, noiseless := l.truth()
		for m, metric := range metrics {
			fmt.Fprintf(&gap, "| %s | %s | %.4f | %.4f |\n", profile, metric.name, truth[crowded][m], noiseless[crowded][m])
		}
		tallies := l.compare(runs, blocks, truth, starts...)
		for i, w := range tallies[5][0].words {
			fmt.Fprintf(&words, "| %s | %.0f %% | %s | %s | %s |\n", profile, 100*(effects[i]-1), statstest.Percent(w.better, runs), statstest.Percent(w.strict, runs), statstest.Percent(w.inert, runs))
		}
		for _, n := range starts {
			for m, metric := range metrics {
				a := tallies[n][m]
				a.check(t, fmt.Sprintf("%s, %d starts, %s", profile, n, metric.name), runs)
				p := func(hits int) string { return statstest.Percent(hits, runs) }
				fmt.Fprintf(&table, "| %s, %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", profile, n, metric.name, p(a.different), a.unpaired(),
					p(a.called), p(a.covered[same]), p(a.covered[faster]), p(a.covered[crowded]), p(a.power), p(a.powerStrict))
			}
		}
	}
	statstest.Table(t, docs, "calibrate-comparisons", table.String())
	statstest.Table(t, docs, "calibrate-words", words.String())
	statstest.Table(t, docs, "calibrate-truth", gap.String())
}

func (a *tally) unpaired() string {
	if a.apartRuns == 0 {
		return ""
	}
	return statstest.Percent(a.apart, a.apartRuns)
}

// compare repeats an experiment of that many blocks; a comparison of n starts uses its first n.
func (l *lab) compare(runs, most int, truth [configs]sample, starts ...int) map[int]*[len(metrics)]tally {
	out := map[int]*[len(metrics)]tally{}
	for _, n := range starts {
		out[n] = &[len(metrics)]tally{}
	}
	for r := range runs {
		blocks := make([][configs]sample, most)
		for i := range blocks {
			blocks[i] = l.block(seed(uint64(r), uint64(i)), false)
		}
		for _, n := range starts {
			for m := range metrics {
				out[n][m].add(l, blocks, n, m, truth)
			}
		}
	}
	return out
}

func (a *tally) check(t *testing.T, what string, runs int) {
	t.Helper()
	statstest.Check(t, what+": A/A different", a.different, runs, 0.03, 0.07)
	if a.apartRuns > 0 {
		statstest.Check(t, what+": A/A different, unpaired", a.apart, a.apartRuns, 0.02, 0.07)
	}
	statstest.Check(t, what+": A/A called at 3 %", a.called, runs, 0, 0.07)
	for which, name := range map[int]string{same: "A/A", faster: "5 %", crowded: "other schedule"} {
		statstest.Check(t, what+": coverage "+name, a.covered[which], runs, 0.93, 0.97)
	}
}

// TestCalibrateDrift lets the machine drift between blocks by far more than starts differ: pairing removes it, and a
// comparison that ignores the blocks is blind.
func TestCalibrateDrift(t *testing.T) {
	runs := statstest.Size(150, 2000)
	var table strings.Builder
	table.WriteString("| drift between blocks | A/A: interval excludes 1 | coverage 5 % | power for 5 %, paired | unpaired |\n|---|---|---|---|---|\n")
	for _, drift := range []float64{0, 0.02, 0.05} {
		l := newLab(t, labs[0].profile, labs[0].shape, drift)
		var truth [configs]sample
		truth[faster][0] = planted
		a := l.compare(runs, 5, truth, 5)[5][0]
		p := func(hits int) string { return statstest.Percent(hits, runs) }
		fmt.Fprintf(&table, "| %.0f %% | %s | %s | %s | %s |\n", 100*drift, p(a.different), p(a.covered[faster]), p(a.power), p(a.powerUnpaired))
		what := fmt.Sprintf("drift %v", drift)
		statstest.Check(t, what+": A/A different", a.different, runs, 0.03, 0.07)
		statstest.Check(t, what+": coverage 5 %", a.covered[faster], runs, 0.93, 0.97)
		statstest.Check(t, what+": power, paired", a.power, runs, 0.9, 1)
		if drift == 0.05 {
			statstest.Check(t, what+": power, unpaired", a.powerUnpaired, runs, 0, 0.3)
		}
	}
	statstest.Table(t, docs, "calibrate-drift", table.String())
}
