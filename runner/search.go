package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/validity"
)

// search measures what a capacity search needs of one start, one load after the other. What was measured before, also by
// a run that was ended, is taken from the journal: the next load is a function of what is in it.
func (r *Runner) search(ctx context.Context, l *live, t plan.Trial, j *job) error {
	for {
		step, more, err := r.nextLoad(l, t, j)
		if err != nil || !more {
			return err
		}
		m := t.Measurement(j.exp.Spec, j.seed, step)
		if err := r.trial(ctx, l, m, j); err != nil {
			return err
		}
		o, err := r.observe(l, j.memory.trials[m.ID], j)
		if err != nil {
			return err
		}
		r.Observer.Event(Event{Kind: Note, Start: &l.start, Trial: &m, Message: held(m.ID, o)})
	}
}

// held says what a measurement means for the search.
func held(id string, o capacity.Observation) string {
	switch o.Outcome {
	case capacity.Holds:
		return id + " holds: every objective is met"
	case capacity.Fails:
		return id + " does not hold: " + oneLine(o.Why)
	default:
		return id + " counts for neither side, it cannot be believed: " + oneLine(o.Why)
	}
}

// nextLoad is the measurement that a search needs next; false = it has its answer, or will have none. l is nil while no
// engine runs.
func (r *Runner) nextLoad(l *live, t plan.Trial, j *job) (capacity.Step, bool, error) {
	var obs []capacity.Observation
	for _, got := range j.found(t.Config) {
		o, err := r.observe(l, got, j)
		if err != nil {
			return capacity.Step{}, false, err
		}
		obs = append(obs, o)
	}
	step, more := plan.SearchOf(j.exp.Spec).Next(t.Repeat, obs)
	return step, more, nil
}

// observe judges one measured trial as the result document will: by its checks too. What a check needs to know of the
// start that is still running is in l.
func (r *Runner) observe(l *live, t result.Trial, j *job) (capacity.Observation, error) {
	if o, done := j.observed[t.ID]; done {
		return o, nil
	}
	run := &result.Run{Experiment: j.exp.Spec, Starts: j.memory.starts, Trials: []result.Trial{t}}
	if eng, ok := r.Engine(j.exp.Spec.Engine.Name); ok {
		run.Simulated = eng.Simulated()
	}
	if l != nil {
		now := l.doc
		now.Config, now.Facts, now.Log = t.Config, l.log.all(r.Redact), serverLog(t.Config, now.Repeat)
		run.Starts = append(append([]result.Start(nil), run.Starts...), now)
	}
	if err := validity.Fill(run, j.folder.records); err != nil {
		return capacity.Observation{}, err
	}
	o := judge.Observe(&run.Trials[0])
	j.observed[t.ID] = o
	return o, nil
}

// found is what was measured of a config, in the order of measuring.
func (j *job) found(config string) []result.Trial {
	var out []result.Trial
	for _, t := range j.memory.trials {
		if t.Config == config {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b result.Trial) int {
		if a.Window == nil || b.Window == nil {
			return strings.Compare(a.ID, b.ID) // a measured trial has one
		}
		return a.Window.T0.Compare(b.Window.T0)
	})
	return out
}

// searched is what became of a search: what it measured in its start and, when it did not come to its end, why.
func (r *Runner) searched(t plan.Trial, start string, j *job) []result.Trial {
	var out []result.Trial
	for _, got := range j.found(t.Config) {
		if got.Repeat == t.Repeat {
			out = append(out, got)
		}
	}
	if _, more, err := r.nextLoad(nil, t, j); err == nil && !more {
		return out
	}
	return append(out, j.outcome(t, start))
}

// progress says how far a run is that did not come to its end.
func progress(run *result.Run) string {
	n := measured(run)
	if run.Experiment.Load.Capacity != nil {
		return fmt.Sprintf("%d trials are measured, %d searches are not at their end", n, len(run.Trials)-n)
	}
	return fmt.Sprintf("%d of %d trials are measured", n, len(run.Trials))
}
