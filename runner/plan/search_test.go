package plan

import (
	"fmt"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/spec"
)

func searchExperiment(t *testing.T, load string, starts int) *spec.Experiment {
	t.Helper()
	text := fmt.Sprintf(seed, "capacity", seedPrompt, starts)
	return parse(t, "capacity.yaml", strings.Replace(text, "closed: {concurrency: [16, 64], requests: 100}", load, 1))
}

// TestSearch: one entry for each search, with upper limits that say that they are.
func TestSearch(t *testing.T) {
	e := searchExperiment(t, "capacity: {concurrency: {max: 256}, requests: 100}", 2)
	p := mustPlan(t, Options{}, e)
	if len(p.Starts) != 4 {
		t.Fatalf("%d starts, want 4", len(p.Starts))
	}
	most := SearchOf(e).Most()
	for _, s := range p.Starts {
		if len(s.Trials) != 1 || s.Trials[0].Search == nil || s.Trials[0].Search.Trials != most || s.Trials[0].Point != (spec.Point{}) {
			t.Errorf("%s: %+v", s.ID, s.Trials)
		}
	}
	if !p.Estimate.AtMost || p.Estimate.Trials != 4*most {
		t.Errorf("estimate %+v", p.Estimate)
	}
	// 1 to 256 by doubling are 9 measurements, and the rest is counted at 256: 4 requests for each place.
	want := 100*5 + 128 + 256 + 512 + 1024*(most-8)
	if got := p.Starts[0].Trials[0].Requests; got != want {
		t.Errorf("at most %d requests, want %d", got, want)
	}
}

// TestMeasurement: names, numbers and seeds are functions of their arguments alone; both configs of a block are sent
// the same bytes, and no measurement of a start those of another.
func TestMeasurement(t *testing.T) {
	e := searchExperiment(t, "capacity: {concurrency: {max: 256}, requests: 100}", 2)
	p := mustPlan(t, Options{Seed: 7}, e)
	search := func(config string, repeat int) Trial {
		for _, s := range p.Starts {
			for _, tr := range s.Trials {
				if tr.Config == config && tr.Repeat == repeat {
					return tr
				}
			}
		}
		t.Fatalf("no search of %s %d", config, repeat)
		return Trial{}
	}
	at := func(config string, repeat int, load float64, again int) Trial {
		return search(config, repeat).Measurement(e, p.Seed, capacity.Step{Load: load, Again: again})
	}
	f := func(tr Trial, id string, requests, warmup int) {
		t.Helper()
		if tr.ID != id || tr.Requests != requests || tr.Warmup != warmup || tr.Search != nil || tr.EstimateS <= 0 {
			t.Errorf("%+v, want %s with %d requests after %d", tr, id, requests, warmup)
		}
	}
	f(at("default", 1, 4, 0), "default-c4-1", 100, 8)
	f(at("default", 2, 37, 1), "default-c37-2b", 148, 74)
	f(at("optimized", 1, 37, 2), "optimized-c37-1c", 148, 74)
	if at("default", 1, 37, 1).Seed != at("optimized", 1, 37, 1).Seed {
		t.Error("the configs of a block are sent other prompts")
	}
	seen := map[uint64]string{}
	for _, repeat := range []int{1, 2} {
		for _, load := range []float64{1, 2, 37} {
			for again := range 5 {
				tr := at("default", repeat, load, again)
				if other, twice := seen[tr.Seed]; twice {
					t.Errorf("%s and %s have one seed", other, tr.ID)
				}
				seen[tr.Seed] = tr.ID
				if again := at("default", repeat, load, again); again.Seed != tr.Seed {
					t.Errorf("%s has another seed the second time", tr.ID)
				}
			}
		}
	}
}

func TestMeasurementOfRate(t *testing.T) {
	e := searchExperiment(t, "capacity: {rate: {min: 0.5, max: 50}, duration: 60s, at_least: 8}", 1)
	if s := SearchOf(e); s.Target != 8 || s.Whole || s.Min != 0.5 || s.Max != 50 || s.Resolution != 0.05 {
		t.Errorf("%+v", s)
	}
	tr := mustPlan(t, Options{}, e).Starts[0].Trials[0].Measurement(e, 1, capacity.Step{Load: 2.5})
	if !strings.HasSuffix(tr.ID, "-r2.5-1") || tr.Requests != 150 || tr.Point.Rate != 2.5 {
		t.Errorf("%+v", tr)
	}
}
