package judge

import (
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/stats"
)

// overload names the checks that a load beyond what an engine can do fails by itself: requests are refused or wait, a
// queue grows, arrivals are held back by the cap. They make numbers unfit for a comparison, but at such a load a missed
// objective is just what is looked for.
var overload = []string{errorsCheck, "drift", "running", "arrivals"}

// Observe says what a measured trial means for a capacity search: whether every gating objective is met at its load. Its
// Checks have to be there.
//
//   - Invalid: not measured, every request failed, or a check failed that a high load does not explain;
//   - Fails: a gating objective is not met, or more than 1 % of the requests failed;
//   - Invalid: a gating objective has no data, or the window was not steady (in an open loop with answers that come ever
//     later it Fails: the queue grows), or fewer requests came than the load says;
//   - Holds: the rest.
func Observe(t *result.Trial) capacity.Observation {
	o := capacity.Observation{Start: t.Repeat, Load: t.Point.Load()}
	for _, j := range t.SLO {
		if j.Gate && (j.Verdict == result.Pass || j.Verdict == result.Fail) {
			o.Limits = append(o.Limits, capacity.Limit{Objective: j.Name, Met: j.Verdict == result.Pass, Value: value(j)})
		}
	}
	o.Outcome, o.Why = observe(t)
	return o
}

func observe(t *result.Trial) (capacity.Outcome, string) {
	switch {
	case t.Outcome != result.Measured || t.Client == nil:
		return capacity.Invalid, orElse(t.Error, "not measured")
	case t.Client.Succeeded == 0:
		return capacity.Invalid, void(t)
	}
	var load []result.Check // failed, and a high load may be why
	for _, c := range t.Checks {
		switch {
		case !c.Invalid():
		case slices.Contains(overload, c.Name):
			load = append(load, c)
		default:
			return capacity.Invalid, c.Title + " (" + c.Measured + ")"
		}
	}
	if j := firstOf(t, result.Fail); j != nil {
		return capacity.Fails, j.Name + ": " + j.Reason
	}
	if why := tooManyErrors(t.Client); why != "" {
		return capacity.Fails, why
	}
	if j := firstOf(t, result.Inconclusive); j != nil {
		return capacity.Invalid, j.Name + ": " + j.Reason
	}
	for _, c := range load {
		switch {
		case c.Name == "drift" && growing(t, c):
			return capacity.Fails, "requests wait ever longer: " + c.Measured
		case c.Name != "running": // what users see is measured, whatever the engine does with it
			return capacity.Invalid, c.Title + " (" + c.Measured + ")"
		}
	}
	return capacity.Holds, ""
}

// growing reports whether what drifted in an open loop is the time to the first token, upwards: the queue grows. The
// check begins with it.
func growing(t *result.Trial, c result.Check) bool {
	return t.Point.Rate > 0 && strings.HasPrefix(c.Measured, "TTFT +")
}

func value(j result.Judgement) *float64 {
	if j.WithFailures != nil {
		return j.WithFailures
	}
	return j.Value
}

// capacities answers the search of every config, and says of every trial whether its load held. Trials and their Checks
// have to be there.
func capacities(run *result.Run) []result.Capacity {
	e := run.Experiment
	if e == nil || e.Load.Capacity == nil {
		return nil
	}
	search := plan.SearchOf(e)
	var out []result.Capacity
	for _, c := range e.Configs {
		r := result.Capacity{Config: c.Name, Unit: "rate", Starts: []result.CapacityStart{}, Min: search.Min, Max: search.Max}
		if search.Whole {
			r.Unit = "concurrency"
		}
		trials := measuredOf(run, c.Name)
		obs := make([]capacity.Observation, len(trials))
		for i, t := range trials {
			obs[i] = Observe(t)
			t.Held = nil
			if obs[i].Outcome != capacity.Invalid {
				t.Held = ptr(obs[i].Outcome == capacity.Holds)
			}
		}
		a := search.Answer(obs)
		r.Value, r.Censored, r.Low, r.High, r.Note, r.Trials = a.Value, string(a.Censored), a.Low, a.High, a.Note, a.Measurements
		for _, b := range a.Starts {
			r.Starts = append(r.Starts, capacityStart(run, trials, obs, b))
		}
		r.LimitedBy = mostLimiting(r.Starts)
		if target := e.Load.Capacity.AtLeast; target != nil && c.Name != baseline(run) {
			r.AtLeast, r.Verdict = ptr(*target), reaches(a, *target)
		}
		out = append(out, r)
	}
	return out
}

func measuredOf(run *result.Run, config string) []*result.Trial {
	var out []*result.Trial
	for i := range run.Trials {
		if t := &run.Trials[i]; t.Config == config && t.Outcome == result.Measured {
			out = append(out, t)
		}
	}
	return out
}

func reaches(a capacity.Answer, target float64) result.Verdict {
	switch a.Reaches(target) {
	case capacity.Held:
		return result.Pass
	case capacity.NotHeld:
		return result.Fail
	}
	return result.Inconclusive
}

func capacityStart(run *result.Run, trials []*result.Trial, obs []capacity.Observation, b capacity.Bracket) result.CapacityStart {
	s := result.CapacityStart{Repeat: b.Start, Holds: b.Holds, Fails: b.Fails, Trials: b.Measurements, NotMonotone: b.NotMonotone, Disagree: b.Disagree}
	for i, t := range trials {
		if t.Repeat == b.Start {
			s.Start = t.Start
			if b.Stopped != "" && obs[i].Outcome == capacity.Invalid {
				s.Stopped = b.Stopped + ": " + obs[i].Why
			}
		}
	}
	if !b.Closed {
		s.Stopped = orElse(s.Stopped, orElse(b.Stopped, "the run ended before the search did"))
	}
	if b.Fails == nil {
		return s
	}
	for _, o := range run.Experiment.SLO {
		failed, _ := at(obs, b.Start, *b.Fails, o.Name, func(l capacity.Limit) bool { return !l.Met })
		if !o.Gate || failed == 0 {
			continue
		}
		l := result.CapacityLimit{Objective: o.Name, Unit: o.Unit, Max: ptr(o.Max)}
		if o.Min != nil {
			l.Min, l.Max = ptr(*o.Min), nil
		}
		every := func(capacity.Limit) bool { return true }
		_, l.AtFails = at(obs, b.Start, *b.Fails, o.Name, every)
		if b.Holds != nil {
			_, l.AtHolds = at(obs, b.Start, *b.Holds, o.Name, every)
		}
		s.Limits = append(s.Limits, l)
	}
	return s
}

// at counts how often an objective was as asked at one load of one start, and gives the median of its values there.
func at(obs []capacity.Observation, start int, load float64, objective string, want func(capacity.Limit) bool) (n int, median *float64) {
	var values []float64
	for _, o := range obs {
		if o.Start != start || o.Load != load || o.Outcome == capacity.Invalid {
			continue
		}
		for _, l := range o.Limits {
			if l.Objective != objective || !want(l) {
				continue
			}
			n++
			if l.Value != nil {
				values = append(values, *l.Value)
			}
		}
	}
	if v, err := stats.Median(values); err == nil {
		median = &v
	}
	return n, median
}

// mostLimiting is the objective that failed in most starts, the first of them in the file's order; "" = none did.
func mostLimiting(starts []result.CapacityStart) string {
	count, order := map[string]int{}, []string{}
	for _, s := range starts {
		for _, l := range s.Limits {
			if count[l.Objective] == 0 {
				order = append(order, l.Objective)
			}
			count[l.Objective]++
		}
	}
	best := ""
	for _, o := range order {
		if best == "" || count[o] > count[best] {
			best = o
		}
	}
	return best
}

// concludeCapacity is the verdict of a search: points that fail are what it looks for, so no gate fails it. FAIL when a
// config does not hold what was asked for; INCONCLUSIVE when that is not clear, or when a search ended without an answer.
func concludeCapacity(run *result.Run) (result.Verdict, string) {
	var unclear []string
	for _, c := range run.Capacity {
		if c.Verdict == result.Fail {
			return result.Fail, fmt.Sprintf("%s; asked for is at least %s", c.Tell(), result.Load(*c.AtLeast, c.Unit))
		}
		for _, s := range c.Starts {
			if s.Stopped != "" {
				unclear = append(unclear, fmt.Sprintf("the search of %s in start %s has no answer: %s", c.Config, s.Start, s.Stopped))
			}
		}
		if c.Verdict == result.Inconclusive {
			unclear = append(unclear, fmt.Sprintf("%s; whether it holds %s is not clear", c.Tell(), result.Load(*c.AtLeast, c.Unit)))
		}
	}
	if len(unclear) > 0 {
		return result.Inconclusive, unclear[0]
	}
	if why := failedCheck(run.Checks); why != "" {
		return result.Inconclusive, why
	}
	return result.Pass, result.TellCapacities(run.Capacity)
}
