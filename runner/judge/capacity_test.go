package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func measuredAt(config string, load, repeat int, again string, latency float64) result.Trial {
	p := spec.Point{Concurrency: load}
	return result.Trial{
		ID: fmt.Sprintf("%s-%s-%d%s", config, p, repeat, again), Config: config, Point: p, Repeat: repeat, Start: fmt.Sprintf("s%02d", repeat), Outcome: result.Measured,
		Client: &result.Client{Requests: 100, Succeeded: 100},
		SLO:    []result.Judgement{slo("latency", latency, 1, true), slo("ttft", 9, 1, false)},
	}
}

func TestObserve(t *testing.T) {
	f := func(name string, want capacity.Outcome, why string, change func(*result.Trial)) {
		t.Helper()
		tr := measuredAt("a", 16, 2, "", 0.5)
		change(&tr)
		o := judge.Observe(&tr)
		if o.Outcome != want || !strings.Contains(o.Why, why) || (o.Why == "") != (want == capacity.Holds) || o.Load != 16 && o.Load != 2.5 || o.Start != 2 {
			t.Errorf("%s: %+v; want %v %q", name, o, want, why)
		}
	}
	fails := func(t *result.Trial) { t.SLO[0] = slo("latency", 2, 1, true) }
	check := func(name, measured string) func(*result.Trial) {
		return func(t *result.Trial) {
			t.Checks = append(t.Checks, result.Check{Name: name, Title: name + " is bad", Status: result.CheckFailed, Measured: measured, Invalidates: true})
		}
	}
	open := func(t *result.Trial) { t.Point = spec.Point{Rate: 2.5} }
	both := func(fs ...func(*result.Trial)) func(*result.Trial) {
		return func(t *result.Trial) {
			for _, f := range fs {
				f(t)
			}
		}
	}
	f("every gate is met, another objective is not", capacity.Holds, "", func(*result.Trial) {})
	f("a gate is not met", capacity.Fails, "latency: 2", fails)
	f("not measured", capacity.Invalid, "engine died", func(t *result.Trial) { t.Outcome, t.Error = result.Broken, "engine died" })
	f("all failed", capacity.Invalid, "all 100 requests failed", func(t *result.Trial) { t.Client.Succeeded, t.Client.Failed = 0, 100 })
	f("the engine refused some", capacity.Fails, "2 of 100 requests failed", func(t *result.Trial) { t.Client.Succeeded, t.Client.Failed = 98, 2 })
	f("it refused some, and the check says so", capacity.Fails, "2 of 100", both(check("errors", "2 of 100"), func(t *result.Trial) { t.Client.Succeeded, t.Client.Failed = 98, 2 }))
	f("a check that no load explains", capacity.Invalid, "compiled is bad (3 kernels)", check("compiled", "3 kernels"))
	f("such a check and a missed gate", capacity.Invalid, "compiled", both(check("compiled", "3 kernels"), fails))
	f("a warning", capacity.Holds, "", func(t *result.Trial) {
		t.Checks = []result.Check{{Name: "prompts", Status: result.CheckFailed}}
	})
	f("a gate without data", capacity.Invalid, "no data", func(t *result.Trial) {
		t.SLO[0] = judge.SLO(spec.SLO{Name: "latency", Gate: true}, judge.Measured{Requests: 100})
	})
	f("the engine runs fewer, users are content", capacity.Holds, "", check("running", "12 of 16"))
	f("the engine runs fewer, users wait", capacity.Fails, "latency", both(check("running", "12 of 16"), fails))
	f("an unsteady window", capacity.Invalid, "drift is bad", check("drift", "TTFT +50 % ± 3 %"))
	f("an unsteady window with a missed gate", capacity.Fails, "latency", both(check("drift", "TTFT +50 % ± 3 %"), fails))
	f("a queue that grows", capacity.Fails, "ever longer", both(open, check("drift", "TTFT +50 % ± 3 %")))
	f("an open loop that gets quicker", capacity.Invalid, "drift", both(open, check("drift", "TTFT -50 % ± 3 %")))
	f("arrivals were held back", capacity.Invalid, "arrivals", both(open, check("arrivals", "90 %")))
	f("arrivals were held back and waited", capacity.Fails, "latency", both(open, fails, check("arrivals", "90 %")))
}

// searched is a run of a search in which each config holds its limit, in each of its starts.
func searched(atLeast *float64, limits map[string][]float64) *result.Run {
	run := &result.Run{Experiment: &spec.Experiment{
		Configs: []spec.Config{{Name: "base"}, {Name: "fast"}},
		Load:    spec.LoadLevels{Capacity: &spec.Capacity{Concurrency: &spec.Range{Min: 1, Max: 64}, Requests: 100, Resolution: 0.05, AtLeast: atLeast}},
		SLO:     []spec.SLO{{Name: "latency", Query: p99, Max: 1, Unit: "s", Gate: true}, {Name: "ttft", Query: p99, Max: 1, Unit: "s"}},
		Compare: &spec.Compare{Baseline: "base", Candidates: []string{"fast"}},
	}}
	search := capacity.Search{Min: 1, Max: 64, Whole: true, Resolution: 0.05}
	if atLeast != nil {
		search.Target = *atLeast
	}
	for _, c := range run.Experiment.Configs {
		var obs []capacity.Observation
		for i, limit := range limits[c.Name] {
			for {
				step, more := search.Next(i+1, obs)
				if !more {
					break
				}
				tr := measuredAt(c.Name, int(step.Load), i+1, strings.Repeat("x", step.Again), step.Load/limit)
				run.Trials = append(run.Trials, tr)
				obs = append(obs, judge.Observe(&tr))
			}
		}
	}
	run.Cells = result.Cells(run.Trials)
	return run
}

func TestRunCapacity(t *testing.T) {
	f := func(name string, atLeast *float64, limits map[string][]float64, want result.Verdict, reason string, change func(*result.Run)) {
		t.Helper()
		run := searched(atLeast, limits)
		if change != nil {
			change(run)
		}
		judge.Run(run)
		if run.Verdict != want || !strings.Contains(run.Reason, reason) {
			t.Errorf("%s\n got %s %q\nwant %s %q", name, run.Verdict, run.Reason, want, reason)
		}
		for _, g := range run.Gates {
			if g.Gate {
				t.Errorf("%s: %s at %s is a gate; a load that fails is looked for", name, g.SLO, g.Point)
			}
		}
	}
	one := map[string][]float64{"base": {9}, "fast": {37}}
	three := map[string][]float64{"base": {9, 9, 9}, "fast": {36, 37, 39}}
	f("one start", nil, one, result.Pass, "fast holds every objective up to 37 at once (38 failed; one start); base up to 9 (10 failed; one start); limited by latency", nil)
	f("an interval", nil, three, result.Pass, "fast holds every objective up to 37 at once (between 33 and 43); base up to 9 (between 9 and 10); limited by latency", nil)
	f("two starts", nil, map[string][]float64{"base": {9, 9}, "fast": {36, 39}}, result.Pass, "fast holds every objective up to 36 at once (36 held in each of 2 starts, 40 in none)", nil)
	f("beyond the search", nil, map[string][]float64{"base": {0.5}, "fast": {100}}, result.Pass,
		"fast holds every objective at 64 at once, the highest load that was tried: its capacity is at least that; base misses an objective even at 1 at once, the lowest load that was tried; limited by latency", nil)
	f("as much as was asked for", ptr(37.0), one, result.Pass, "fast holds every objective up to 37", nil)
	f("less than was asked for", ptr(38.0), one, result.Fail, "fast holds every objective up to 37 at once (38 failed; one start); asked for is at least 38 at once", nil)
	f("the interval spans it", ptr(37.0), three, result.Inconclusive, "whether it holds 37 at once is not clear", nil)
	f("the baseline may hold less", ptr(20.0), three, result.Pass, "", nil)
	f("a search that found nothing to believe", nil, one, result.Inconclusive, "the search of fast in start s01 has no answer: the measurements at 1 cannot be believed: compiled (2 kernels)", func(run *result.Run) {
		kept := run.Trials[:0]
		for _, tr := range run.Trials {
			if tr.Config == "base" {
				kept = append(kept, tr)
			}
		}
		for _, again := range []string{"", "b"} {
			tr := measuredAt("fast", 1, 1, again, 0.1)
			tr.Checks = []result.Check{{Name: "compiled", Title: "compiled", Status: result.CheckFailed, Measured: "2 kernels", Invalidates: true}}
			kept = append(kept, tr)
		}
		run.Trials = kept
		run.Cells = result.Cells(run.Trials)
	})
	f("a search that did not end", nil, one, result.Error, "1 of ", func(run *result.Run) {
		run.Trials = append(run.Trials, result.Trial{ID: "fast-capacity-2", Config: "fast", Repeat: 2, Outcome: result.Broken, Error: "the engine ended"})
		run.Cells = result.Cells(run.Trials)
	})
}

func TestCapacityDocument(t *testing.T) {
	run := searched(nil, map[string][]float64{"base": {9}, "fast": {36, 37, 39}})
	judge.Run(run)
	c := run.Capacity[1]
	if c.Config != "fast" || c.Unit != "concurrency" || *c.Value != 37 || c.Low == nil || c.High == nil || c.LimitedBy != "latency" || len(c.Starts) != 3 || c.Trials == 0 {
		t.Fatalf("%+v", c)
	}
	s := c.Starts[0]
	if s.Start != "s01" || *s.Holds != 36 || *s.Fails != 37 || len(s.Limits) != 1 {
		t.Fatalf("%+v", s)
	}
	if l := s.Limits[0]; l.Objective != "latency" || *l.AtHolds != 1 || *l.AtFails != 37.0/36 || *l.Max != 1 || l.Min != nil || l.Unit != "s" {
		t.Errorf("%+v", l)
	}
}
