package verify

import (
	"fmt"
	"slices"

	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// maxTrials bounds the plan that is made again. An experiment of the largest size has fewer.
const maxTrials = 1_000_000

// planned makes the plan again: the run key, which trials there are, with which seeds, and what was known beforehand.
func (v *verifier) planned() {
	run := v.again
	if run.Experiment.Load.Capacity != nil {
		v.plannedSearch()
		return
	}
	again := confirming(run)
	first := len(run.Trials) - len(again)
	if n, sane := trialsOf(run.Experiment); !sane || n != first {
		v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: "trials", Stored: fmt.Sprintf("%d trials", first), Again: fmt.Sprintf("%d trials", n),
			Note: "the experiment asks for another number of trials"})
		return
	}
	p, err := plan.New([]*spec.Experiment{run.Experiment}, plan.Options{
		Seed: run.Plan.Seed, Fingerprint: run.Host.Fingerprint, LoadGenerator: run.Tool.LoadGenerator, Where: run.Where,
	})
	if err != nil {
		v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: "experiment", Note: "it cannot be planned: " + err.Error()})
		return
	}
	run.RunKey = p.Experiments[0].RunKey
	v.count("run keys", 1)
	p = p.Confirm(again)
	v.plannedTrials(p, run.Plan.Estimate.Trials == first)
	if run.Plan.Estimate.Trials != first {
		v.skip("plan.order, plan.estimate, starts[].id, starts[].block, starts[].repeat, trials[].start", "other experiments were planned together with this one")
		return
	}
	run.Plan.Estimate = p.Estimate
	run.Plan.Order = nil
	for _, s := range p.Starts {
		for i := range run.Starts {
			if run.Starts[i].ID == s.ID {
				run.Starts[i].Block, run.Starts[i].Repeat = s.Block, s.Repeat
			}
		}
		for i, t := range s.Trials {
			if !slices.ContainsFunc(s.Trials[:i], func(o plan.Trial) bool { return o.Config == t.Config }) {
				run.Plan.Order = append(run.Plan.Order, s.ID+" "+t.Config)
			}
		}
	}
	v.warnings(p)
}

// plannedSearch makes the plan of a capacity search again. Which loads it measures follows from what it finds.
func (v *verifier) plannedSearch() {
	run := v.again
	p, err := plan.New([]*spec.Experiment{run.Experiment}, plan.Options{
		Seed: run.Plan.Seed, Fingerprint: run.Host.Fingerprint, LoadGenerator: run.Tool.LoadGenerator, Where: run.Where,
	})
	if err != nil {
		v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: "experiment", Note: "it cannot be planned: " + err.Error()})
		return
	}
	run.RunKey = p.Experiments[0].RunKey
	v.count("run keys", 1)
	v.skip("plan.order, plan.estimate, starts[].id, starts[].block, starts[].repeat, trials[].id, trials[].seed", "the loads of a capacity search follow from what it finds")
	v.warnings(p)
}

// confirming are the cells that were measured once more because a gate of them failed.
func confirming(run *result.Run) []plan.Cell {
	var out []plan.Cell
	for _, t := range run.Trials {
		if t.Confirms {
			out = append(out, plan.Cell{Experiment: run.Experiment.Name, Config: t.Config, Point: t.Point})
		}
	}
	return out
}

// trialsOf is how many trials an experiment has; sane is false for one that no file can ask for.
func trialsOf(e *spec.Experiment) (n int, sane bool) {
	points := len(e.Points())
	if e.Starts < 1 || e.Starts > 100 || len(e.Configs) > maxTrials/100 || points > maxTrials/100/max(len(e.Configs), 1) {
		return 0, false
	}
	return e.Starts * points * len(e.Configs), true
}

// plannedTrials compares trial by trial, by ID: in a run of several experiments the starts have other names and order;
// alone is false of one of those.
func (v *verifier) plannedTrials(p *plan.Plan, alone bool) {
	type place struct {
		t     plan.Trial
		start string
		at    int
	}
	want := map[string]place{}
	n := 0
	for _, s := range p.Starts {
		for _, t := range s.Trials {
			want[t.ID] = place{t, s.ID, n}
			n++
		}
	}
	for i := range v.again.Trials {
		t := &v.again.Trials[i]
		w, ok := want[t.ID]
		if !ok {
			v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: fmt.Sprintf("trials[%d].id", i), Stored: quote(t.ID), Note: "the plan has no such trial"})
			continue
		}
		v.count("planned trials", 1)
		t.Config, t.Point, t.Repeat, t.Seed, t.Confirms = w.t.Config, w.t.Point, w.t.Repeat, w.t.Seed, w.t.Confirms
		if !alone {
			continue
		}
		t.Start = w.start
		if w.at != i {
			v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: fmt.Sprintf("trials[%d]", i), About: t.ID, Note: fmt.Sprintf("the plan has it at place %d", w.at)})
		}
		if c := v.again.Experiment.Load.Closed; c != nil && t.Client != nil && t.Outcome == result.Measured && t.Client.Requests != c.Requests {
			v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: fmt.Sprintf("trials[%d].client.requests", i), About: t.ID,
				Stored: fmt.Sprint(t.Client.Requests), Again: fmt.Sprint(c.Requests), Note: "the experiment asks for another number of requests"})
		}
	}
}

// warnings are compared without what the folder does not hold: places in the experiment's file, the flag table that was
// used, and the budget of what was planned together.
func (v *verifier) warnings(p *plan.Plan) {
	taken := func(w plan.Warning) bool { return w.Code == plan.FlagTable || w.Code == plan.OverBudget }
	var again []plan.Warning
	for _, w := range v.again.Warnings {
		if taken(w) {
			v.skip("warnings", "which flag table was used is in no file")
			again = append(again, w)
		}
	}
	k := 0
	stored := slices.DeleteFunc(slices.Clone(v.again.Warnings), taken)
	for _, w := range p.Warnings {
		if taken(w) {
			continue
		}
		if k < len(stored) {
			w.Line, w.Column = stored[k].Line, stored[k].Column
		}
		k++
		again = append(again, w)
	}
	slices.SortStableFunc(again, func(a, b plan.Warning) int { return place(v.again.Warnings, a) - place(v.again.Warnings, b) })
	v.again.Warnings = again
}

func place(all []plan.Warning, w plan.Warning) int {
	if i := slices.Index(all, w); i >= 0 {
		return i
	}
	return len(all)
}
