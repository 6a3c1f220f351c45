package plan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/spec"
)

func parse(t *testing.T, name, text string) *spec.Experiment {
	t.Helper()
	e, faults := spec.Parse(name, []byte(text))
	for _, f := range faults {
		t.Fatalf("%v", f)
	}
	return e
}

const seed = `apiVersion: bench/v1
kind: Experiment
name: %s
model: {name: Qwen/Qwen3.6-35B-A3B-FP8}
engine: {name: vllm, version: 0.25.1, flags: {max-model-len: 8192}}
configs:
  default:   {gpu-memory-utilization: 0.85, enable-chunked-prefill: false, enable-prefix-caching: false, enforce-eager: true}
  optimized: {gpu-memory-utilization: 0.90, enable-chunked-prefill: true, enable-prefix-caching: true, enforce-eager: false}
workload:
  prompt: {%s}
  output: {tokens: 512}
load:
  closed: {concurrency: [16, 64], requests: 100}
starts: %d
slo:
  - {name: latency, query: "share_gt_over_time(bench_request_latency_seconds[$window], 2)", max: 1%%}
compare: {baseline: default, candidates: [optimized]}
`

func seedExperiment(t *testing.T, name, prompt string, starts int) *spec.Experiment {
	t.Helper()
	return parse(t, name+".yaml", fmt.Sprintf(seed, name, prompt, starts))
}

const seedPrompt = `text: "Explain GPUs simply"`

func mustPlan(t *testing.T, o Options, exps ...*spec.Experiment) *Plan {
	t.Helper()
	p, err := New(exps, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func codes(p *Plan) map[string][]string {
	out := map[string][]string{}
	for _, w := range p.Warnings {
		out[w.Code] = append(out[w.Code], w.Factor)
	}
	return out
}

// The published A/B credited prefix caching; the plan must say that neither it nor chunked prefill can act.
func TestSeedsInertFactors(t *testing.T) {
	p := mustPlan(t, Options{}, seedExperiment(t, "seed", seedPrompt, 3))
	if got, want := codes(p)[InertFactor], []string{"enable-chunked-prefill", "enable-prefix-caching"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("inert factors %v, want %v", got, want)
	}
	for _, w := range p.Warnings {
		if w.Factor == "enable-prefix-caching" {
			if !strings.Contains(w.Message, "1056") || !strings.Contains(w.Message, "15 tokens") {
				t.Errorf("the message must name the prompt and the block: %s", w.Message)
			}
			if w.Line == 0 {
				t.Error("the warning has no place in the file")
			}
		}
	}
}

func TestActingFactors(t *testing.T) {
	f := func(name, prompt string, inert ...string) {
		t.Helper()
		got := codes(mustPlan(t, Options{}, seedExperiment(t, name, prompt, 1)))[InertFactor]
		if len(got) != len(inert) || len(got) > 0 && !reflect.DeepEqual(got, inert) {
			t.Errorf("%s: inert %v, want %v", prompt, got, inert)
		}
	}
	f("long", `shared_prefix: {shared: 4224, own: 64, groups: 1}`)
	f("short", `shared_prefix: {shared: 1055, own: 64, groups: 1}`, "enable-prefix-caching")
	f("block", `shared_prefix: {shared: 1056, own: 64, groups: 1}`)
	f("random", `random: {tokens: 300}`, "enable-prefix-caching")
}

func TestInterleavedABBA(t *testing.T) {
	p := mustPlan(t, Options{}, seedExperiment(t, "seed", seedPrompt, 4))
	var order []string
	for _, s := range p.Starts {
		order = append(order, s.Trials[0].Config)
	}
	if len(order) != 8 {
		t.Fatalf("%d starts, want 8", len(order))
	}
	for b := 0; b < 8; b += 4 {
		if order[b] == order[b+1] || order[b] != order[b+3] || order[b+1] != order[b+2] {
			t.Errorf("starts %d to %d are not ABBA: %v", b+1, b+4, order)
		}
	}
}

// Both sides of a block get the same prompts; another block gets others.
func TestTrialSeeds(t *testing.T) {
	p := mustPlan(t, Options{}, seedExperiment(t, "seed", seedPrompt, 3))
	seeds := map[string]map[uint64]bool{} // point/repeat -> seeds
	all := map[uint64]bool{}
	for _, s := range p.Starts {
		for _, tr := range s.Trials {
			k := fmt.Sprint(tr.Point, tr.Repeat)
			if seeds[k] == nil {
				seeds[k] = map[uint64]bool{}
			}
			seeds[k][tr.Seed] = true
			all[tr.Seed] = true
		}
	}
	for k, s := range seeds {
		if len(s) != 1 {
			t.Errorf("%s: the configs of a block have %d seeds, want 1", k, len(s))
		}
	}
	if len(all) != 6 {
		t.Errorf("%d distinct seeds, want one per load point and block: 6", len(all))
	}
}

func TestDeterministic(t *testing.T) {
	a := mustPlan(t, Options{}, seedExperiment(t, "seed", seedPrompt, 3))
	b := mustPlan(t, Options{}, seedExperiment(t, "seed", seedPrompt, 3))
	if !reflect.DeepEqual(a.Starts, b.Starts) || a.Experiments[0].RunKey != b.Experiments[0].RunKey {
		t.Error("the same file gives two plans")
	}
	c := mustPlan(t, Options{Seed: 7}, seedExperiment(t, "seed", seedPrompt, 3))
	if c.Seed != 7 || reflect.DeepEqual(a.Starts, c.Starts) {
		t.Error("another seed must give another plan")
	}
}

func TestRunKey(t *testing.T) {
	base := seedExperiment(t, "seed", seedPrompt, 3)
	key := func(e *spec.Experiment, o Options) string { return mustPlan(t, o, e).Experiments[0].RunKey }
	o := Options{Seed: 1, Fingerprint: "host-a", LoadGenerator: "1", Where: "process"}
	want := key(base, o)
	same := func(what string, change func(e *spec.Experiment)) {
		t.Helper()
		e := *base
		change(&e)
		if key(&e, o) != want {
			t.Errorf("%s changed the run key", what)
		}
	}
	same("the description", func(e *spec.Experiment) { e.Description = "other words" })
	same("the file's name", func(e *spec.Experiment) { e.File = "renamed.yaml" })
	same("the budget", func(e *spec.Experiment) { e.Budget = &spec.Budget{GPUMinutes: 1e6} })
	other := func(what string, o Options, e *spec.Experiment) {
		t.Helper()
		if key(e, o) == want {
			t.Errorf("%s did not change the run key", what)
		}
	}
	p := o
	p.Fingerprint = "host-b"
	other("another machine", p, base)
	p = o
	p.LoadGenerator = "2"
	other("another load generator", p, base)
	other("another prompt", o, seedExperiment(t, "seed", `text: "Explain TPUs simply"`, 3))
}

// A start costs minutes and a cell seconds: files that launch the same engine share its starts.
func TestExperimentsShareStarts(t *testing.T) {
	a, b := seedExperiment(t, "a", seedPrompt, 2), seedExperiment(t, "b", `random: {tokens: 300}`, 3)
	p := mustPlan(t, Options{}, a, b)
	if len(p.Starts) != 6 {
		t.Fatalf("%d starts, want 2 configs x 3", len(p.Starts))
	}
	perStart := map[int]int{}
	for _, s := range p.Starts {
		perStart[s.Repeat] += len(s.Trials)
		if !reflect.DeepEqual(s.Labels, []string{"a/" + s.Trials[0].Config, "b/" + s.Trials[0].Config}) {
			t.Errorf("start %s serves %v", s.ID, s.Labels)
		}
	}
	if perStart[1] != 8 || perStart[3] != 4 {
		t.Errorf("trials by repeat: %v; the third start is b's alone", perStart)
	}
	if alone := mustPlan(t, Options{}, a).Estimate.EngineMinutes + mustPlan(t, Options{}, b).Estimate.EngineMinutes; p.Estimate.EngineMinutes >= alone {
		t.Errorf("together %.1f min, one after the other %.1f min: sharing saved nothing", p.Estimate.EngineMinutes, alone)
	}
}

func TestSameNameRefused(t *testing.T) {
	a, b := seedExperiment(t, "a", seedPrompt, 1), seedExperiment(t, "a", `random: {tokens: 3}`, 1)
	if _, err := New([]*spec.Experiment{a, b}, Options{}); err == nil || !strings.Contains(err.Error(), `both named "a"`) {
		t.Errorf("got %v", err)
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a plan of nothing must be refused")
	}
}

func TestBudgetWarning(t *testing.T) {
	e := seedExperiment(t, "a", seedPrompt, 3)
	e.Budget = &spec.Budget{GPUMinutes: 1}
	if got := codes(mustPlan(t, Options{}, e)); len(got[OverBudget]) != 1 {
		t.Errorf("warnings %v, want one over-budget", got)
	}
	e.Budget.GPUMinutes = 1000
	if got := codes(mustPlan(t, Options{}, e)); len(got[OverBudget]) != 0 {
		t.Errorf("warnings %v, want none over budget", got)
	}
}

// The estimate must be near what was measured on the H200: 100 requests of 512 tokens at 64, eager, took 127 s.
func TestEstimateNearMeasured(t *testing.T) {
	e := seedExperiment(t, "a", seedPrompt, 1)
	e.Load.Warmup = 0
	got := trialSeconds(e, "default", spec.Point{Concurrency: 64})
	if got < 100 || got > 150 {
		t.Errorf("eager at 64: %.0f s, measured 127 s", got)
	}
	if got := trialSeconds(e, "optimized", spec.Point{Concurrency: 64}); got < 12 || got > 22 {
		t.Errorf("graphs at 64: %.0f s, measured 14 s", got)
	}
}
