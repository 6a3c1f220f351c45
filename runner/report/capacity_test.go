package report_test

import (
	"fmt"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// searched is the seed's A/B as a capacity search: latency grows with the load, and starts differ a little.
func searched(starts int, atLeast *float64) *result.Run {
	run := build(starts)
	e := run.Experiment
	e.Load = spec.LoadLevels{Capacity: &spec.Capacity{Concurrency: &spec.Range{Min: 1, Max: 256}, Requests: 100, Resolution: 0.05, AtLeast: atLeast}}
	e.SLO[0] = spec.SLO{Name: "latency", Query: "quantile_over_time(0.9, bench_request_latency_seconds[$window])", Max: 10, Unit: "s", Gate: true}
	run.Trials = nil
	search := plan.SearchOf(e)
	for k := 1; k <= starts; k++ {
		for i, c := range e.Configs {
			limit := []float64{9.5, 37.5}[i] * (1 + 0.03*float64(k-1))
			start := fmt.Sprintf("s%02d", 2*(k-1)+i+1)
			var obs []capacity.Observation
			for _, t := range run.Trials {
				if t.Config == c.Name {
					obs = append(obs, judge.Observe(&t))
				}
			}
			for {
				step, more := search.Next(k, obs)
				if !more {
					break
				}
				e2e := 10 * step.Load / limit
				if c.Name == "default" && step.Load == 9 && step.Again == 1 {
					e2e = 10.4 // an unlucky one
				}
				t := trial(c.Name, int(step.Load), k, start, e2e)
				t.ID += []string{"", "b", "c", "d", "e"}[step.Again]
				t.SLO = []result.Judgement{judge.SLO(e.SLO[0], judge.Measured{Value: &e2e, Requests: 100}), judge.SLO(e.SLO[1], judge.Measured{Value: ptr(0.3), Requests: 100})}
				t.Agree = judge.Agreement(t.Client, t.Server)
				run.Trials = append(run.Trials, t)
				obs = append(obs, judge.Observe(&t))
			}
		}
	}
	run.Cells = result.Cells(run.Trials)
	judge.Run(run)
	return run
}
