package main_test

import (
	"strings"
	"testing"

	"h100-inference-control-plane/runner/result"
)

const searching = `apiVersion: bench/v1
kind: Experiment
name: kill
model: {name: simulated/small-model}
engine:
  name: sim
  version: 0.25.1
  flags: {max-model-len: 2048, enforce-eager: false}
  sim: {profile: laptop, speed: 4}
configs:
  graphs: {}
workload:
  prompt: {random: {tokens: 16}}
  output: {tokens: 8, exact: true}
load:
  capacity: {concurrency: {min: 1, max: 4}, requests: 20, at_least: 2}
starts: 2
slo:
  - {name: latency, query: "quantile_over_time(0.5, bench_request_latency_seconds[$window])", max: 20s}
`

// TestCapacitySearchGoesOn kills the engine in the middle of a search: what was measured is kept, the same command goes
// on with the loads that are missing, and none is measured twice.
func TestCapacitySearchGoesOn(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write("kill.yaml", searching)
	got := s.run([]string{"BENCHCTL_SIM_FAULT=die-after=500"})
	wantCode(t, got, 4, "ended while it was in use")
	kept := s.finishedTrials()
	if len(kept) == 0 {
		t.Fatalf("nothing was kept:\n%s", got.stderr)
	}
	run := s.document()
	if run.Verdict != result.Error || !strings.Contains(run.Reason, "graphs-capacity-1") {
		t.Errorf("%s: %s; want ERROR that names the search", run.Verdict, run.Reason)
	}
	s.nothingLeft()
	s.completes(kept)

	run = s.document()
	var ids []string
	seeds := map[uint64]string{}
	for _, tr := range run.Trials {
		ids = append(ids, tr.ID)
		if other, twice := seeds[tr.Seed]; twice {
			t.Errorf("%s and %s were sent the same prompts", other, tr.ID)
		}
		seeds[tr.Seed] = tr.ID
	}
	want := "graphs-c1-1 graphs-c2-1 graphs-c4-1 graphs-c4-1b graphs-c4-1c"
	if all := strings.Join(ids, " "); !strings.Contains(all, want) || !strings.Contains(all, "graphs-c4-2c") {
		t.Errorf("measured %s, want %s first", all, want)
	}
	if len(run.Capacity) != 1 || run.Capacity[0].Censored != result.CapacityAtLeast || run.Capacity[0].Value == nil || *run.Capacity[0].Value != 4 || run.Capacity[0].Verdict != result.Pass {
		t.Errorf("capacity %+v", run.Capacity)
	}
}
