package attribute_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/sim/trial"
	"h100-inference-control-plane/runner/stats/statstest"
)

const (
	docs    = "../../docs/explanation/statistics.md"
	starts  = 5
	matters = 0.03
)

// The planted factors, as flags of the simulated engine: graphs (a step no longer waits for the host), prefix caching
// (acts, because prompts share 512 tokens; more so with graphs, where the host no longer hides what it saves), and the
// memory share, which does nothing because memory is never short. The fourth, of the one-at-a-time design, does nothing
// either: there are never that many requests.
var names = []string{"graphs", "prefix-caching", "memory-share", "max-num-seqs"}

const inert = 2 // factors from here on do nothing

func config(p *model.Profile, c attribute.Assignment) model.Config {
	cfg := model.Config{Profile: p, ChunkedPrefill: true, MaxModelLen: 2048, Warm: true, Utilization: 0.85, Seqs: 64}
	cfg.Eager = !c.Has(0)
	cfg.PrefixCaching = c.Has(1)
	if c.Has(2) {
		cfg.Utilization = 0.90
	}
	if c.Has(3) {
		cfg.Seqs = 128
	}
	return cfg
}

var shape = trial.Shape{Requests: 16, Concurrency: 8, Shared: 512, Prompt: 64, Output: 24}

// seed makes unrelated seeds of neighbouring numbers.
func seed(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h = (h ^ p) * 0xbf58476d1ce4e5b9
		h ^= h >> 31
	}
	return h
}

// measure is the throughput of every config of the design in one block, on the same prompts.
func measure(t testing.TB, p *model.Profile, d []attribute.Assignment, number uint64) []float64 {
	t.Helper()
	reqs := shape.Draw(seed(number, 1))
	out := make([]float64, len(d))
	for i, c := range d {
		cfg := config(p, c)
		cfg.Seed = seed(number, 2, uint64(c))
		o, err := trial.Run(cfg, 1, shape.Concurrency, reqs)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = o.OutputPerS
	}
	return out
}

// truth is each config's mean logarithm in a reference run. The inert factors' truth is known without one: configs that
// differ in nothing else are averaged together.
func truth(t testing.TB, p *model.Profile, d []attribute.Assignment, blocks int) map[attribute.Assignment]float64 {
	t.Helper()
	active := func(c attribute.Assignment) attribute.Assignment { return c & attribute.Candidate(inert) }
	sum, n := map[attribute.Assignment]float64{}, map[attribute.Assignment]float64{}
	for b := range blocks {
		for i, v := range measure(t, p, d, seed(0xeef, uint64(b))) {
			sum[active(d[i])] += math.Log(v)
			n[active(d[i])]++
		}
	}
	y := map[attribute.Assignment]float64{}
	for _, c := range d {
		y[c] = sum[active(c)] / n[active(c)]
	}
	return y
}

// planted is what a result should find, by the name of the number, computed otherwise than the package does: a share is
// the mean over all orders in which the factors can be switched on.
func planted(y map[attribute.Assignment]float64, k int, full bool) map[string]float64 {
	end := attribute.Candidate(k)
	want := map[string]float64{"whole": y[end] - y[0]}
	rest := want["whole"]
	for i, name := range names[:k] {
		added, removed := y[attribute.Baseline.With(i)]-y[0], y[end]-y[end.Without(i)]
		want[name+": added"], want[name+": removed"], want[name+": company"] = added, removed, removed-added
		want[name+": share"] = (added + removed) / 2
		if full {
			want[name+": share"], want[name+": main"] = overOrders(y, k, i), overSettings(y, i)
		}
		rest -= want[name+": share"]
	}
	if !full {
		want["remainder"] = rest
		return want
	}
	for i := range k {
		for j := i + 1; j < k; j++ {
			third := end.Without(i).Without(j)
			at := func(o attribute.Assignment) float64 { return y[o.With(i).With(j)] - y[o.With(i)] - y[o.With(j)] + y[o] }
			want[names[i]+" with "+names[j]] = (at(0) + at(third)) / 2
		}
	}
	return want
}

func overSettings(y map[attribute.Assignment]float64, i int) (mean float64) {
	for c, v := range y {
		if c.Has(i) {
			mean += (v - y[c.Without(i)]) / float64(len(y)/2)
		}
	}
	return mean
}

func overOrders(y map[attribute.Assignment]float64, k, factor int) (mean float64) {
	var orders float64
	var visit func(on attribute.Assignment, gain float64, counted bool)
	visit = func(on attribute.Assignment, gain float64, counted bool) {
		if on == attribute.Candidate(k) {
			mean += gain
			orders++
			return
		}
		for i := range k {
			if !on.Has(i) && i == factor {
				visit(on.With(i), y[on.With(i)]-y[on], true)
			} else if !on.Has(i) {
				visit(on.With(i), gain, counted)
			}
		}
	}
	visit(attribute.Baseline, 0, false)
	return mean / orders
}

// found lists the effects of a result under the names of planted.
func found(r *attribute.Result) map[string]attribute.Effect {
	out := map[string]attribute.Effect{"whole": r.Whole}
	for _, f := range r.Factors {
		out[f.Name+": added"], out[f.Name+": removed"], out[f.Name+": company"], out[f.Name+": share"] = f.Added, f.Removed, f.Company, f.Share
		if f.Main != nil {
			out[f.Name+": main"] = *f.Main
		}
	}
	for _, x := range r.Interactions {
		out[x.Factors[0]+" with "+x.Factors[1]] = x.Effect
	}
	if r.Design == attribute.OneAtATime {
		out["remainder"] = r.Remainder
	}
	return out
}

// TestCalibrateAttribution plants three factors, one of them inert and two interacting, and counts how often each
// number's truth is in its interval and each verdict is right.
func TestCalibrateAttribution(t *testing.T) {
	calibrate(t, "calibrate-attribution", 3, statstest.Size(150, 4000))
}

// TestCalibrateOneAtATime has a fourth factor, also inert, so that one-at-a-time is not the full factorial.
func TestCalibrateOneAtATime(t *testing.T) {
	calibrate(t, "calibrate-one-at-a-time", 4, statstest.Size(100, 4000))
}

func calibrate(t *testing.T, name string, k, runs int) {
	p, err := model.LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	d := design(t, k, false)
	y := truth(t, p, d, statstest.Size(300, 5000))
	want := planted(y, k, len(d) == 1<<k)
	v := verdicts{inert: make([]int, k), depends: make([]int, k), clear: map[string]int{}}
	covered, fractions := map[string]int{}, make([]int, k)
	for run := range runs {
		r := analyse(t, names[:k], d, experiment(t, p, d, uint64(run)), matters)
		got := found(r)
		if len(got) != len(want) {
			t.Fatalf("%d numbers found, %d planted", len(got), len(want))
		}
		for name, truth := range want {
			covered[name] += count(got[name].LogInterval != nil && got[name].LogInterval.Contains(truth))
		}
		for i, f := range r.Factors {
			fractions[i] += count(f.Fraction != nil && f.Fraction.Contains(want[f.Name+": share"]/want["whole"]))
		}
		v.add(r)
	}
	v.check(t, runs)
	for i, hits := range fractions {
		what := names[i] + ": fraction of the whole"
		want[what], covered[what] = want[names[i]+": share"]/want["whole"], hits
	}
	report(t, name, want, covered, runs, v.rows(runs))
}

func experiment(t testing.TB, p *model.Profile, d []attribute.Assignment, run uint64) []attribute.Observation {
	t.Helper()
	var obs []attribute.Observation
	for b := range starts {
		for i, v := range measure(t, p, d, seed(run, uint64(b))) {
			obs = append(obs, attribute.Observation{Config: d[i], Block: b, Value: v})
		}
	}
	return obs
}

// report checks every coverage and shows the table.
func report(t *testing.T, name string, want map[string]float64, covered map[string]int, runs int, verdicts string) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| number | truth | truth inside the interval |\n|---|---|---|\n")
	for _, what := range sortedKeys(want) {
		statstest.Check(t, what+": coverage", covered[what], runs, 0.93, 0.97)
		value := fmt.Sprintf("× %.3f", math.Exp(want[what]))
		if strings.HasSuffix(what, "fraction of the whole") {
			value = fmt.Sprintf("%.1f %%", 100*want[what])
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", what, value, statstest.Percent(covered[what], runs))
	}
	statstest.Table(t, docs, name, table.String()+"\n"+verdicts)
}

func sortedKeys(m map[string]float64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// verdicts counts what was said.
type verdicts struct {
	inert, depends []int
	clear          map[string]int // interactions
	unexplained    int
	exact          bool
}

func (v *verdicts) add(r *attribute.Result) {
	v.exact = r.Design == attribute.FullFactorial
	for i, f := range r.Factors {
		v.inert[i] += count(f.Inert)
		v.depends[i] += count(f.DependsOnOthers)
	}
	for _, x := range r.Interactions {
		v.clear[x.Factors[0]+" with "+x.Factors[1]] += count(x.Clear)
	}
	v.unexplained += count(r.Unexplained)
}

func (v *verdicts) check(t *testing.T, runs int) {
	t.Helper()
	for i := range v.inert {
		acts := i < inert
		if acts {
			statstest.Check(t, names[i]+" called inert", v.inert[i], runs, 0, 0.001)
			statstest.Check(t, names[i]+" depends on others", v.depends[i], runs, 0.95, 1)
		} else {
			statstest.Check(t, names[i]+" called inert", v.inert[i], runs, 0.5, 1)
			statstest.Check(t, names[i]+" depends on others", v.depends[i], runs, 0, 0.05)
		}
	}
	for name, hits := range v.clear {
		if name == names[0]+" with "+names[1] {
			statstest.Check(t, name+": clear", hits, runs, 0.95, 1)
		} else {
			statstest.Check(t, name+": clear", hits, runs, 0, 0.05)
		}
	}
	if v.exact {
		statstest.Check(t, "unexplained remainder of a full design", v.unexplained, runs, 0, 0)
	}
}

func (v *verdicts) rows(runs int) string {
	var b strings.Builder
	b.WriteString("| verdict | share of runs |\n|---|---|\n")
	for i := range v.inert {
		fmt.Fprintf(&b, "| %s: inert here | %s |\n", names[i], statstest.Percent(v.inert[i], runs))
	}
	for i := range v.depends {
		fmt.Fprintf(&b, "| %s: depends on the others | %s |\n", names[i], statstest.Percent(v.depends[i], runs))
	}
	var pairs []string
	for name := range v.clear {
		pairs = append(pairs, name)
	}
	slices.Sort(pairs)
	for _, name := range pairs {
		fmt.Fprintf(&b, "| %s: interaction | %s |\n", name, statstest.Percent(v.clear[name], runs))
	}
	if !v.exact {
		fmt.Fprintf(&b, "| unexplained remainder | %s |\n", statstest.Percent(v.unexplained, runs))
	}
	return b.String()
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
