package judge

import (
	"errors"
	"fmt"
	"slices"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// A measure is one number of a trial that is compared. of returns nil where the trial has none.
type measure struct {
	metric string
	better stats.Direction
	of     func(t *result.Trial) *float64
}

// throughput is that of the steady window, or of the wall clock where a trial of either side has no such window.
func throughput(steady bool) []measure {
	if steady {
		return []measure{
			{"steady.output_tokens_per_second", stats.Higher, ofSteady(func(s *result.Steady) *float64 { return s.OutputPerS })},
			{"steady.requests_per_second", stats.Higher, ofSteady(func(s *result.Steady) *float64 { return s.RequestsPerS })},
		}
	}
	return []measure{
		{"client.output_tokens_per_second", stats.Higher, func(t *result.Trial) *float64 { return t.Client.OutputPerS }},
		{"client.requests_per_second", stats.Higher, func(t *result.Trial) *float64 { return t.Client.RequestsPerS }},
	}
}

func ofSteady(value func(*result.Steady) *float64) func(*result.Trial) *float64 {
	return func(t *result.Trial) *float64 {
		if t.Steady == nil {
			return nil
		}
		return value(t.Steady)
	}
}

func latencies() []measure {
	dist := func(of func(*result.Client) *result.Dist) func(*result.Trial) *float64 {
		return func(t *result.Trial) *float64 {
			if d := of(t.Client); d != nil {
				return &d.P50
			}
			return nil
		}
	}
	return []measure{
		{"client.ttft", stats.Lower, dist(func(c *result.Client) *result.Dist { return c.TTFT })},
		{"client.tpot", stats.Lower, dist(func(c *result.Client) *result.Dist { return c.TPOT })},
		{"client.e2e", stats.Lower, dist(func(c *result.Client) *result.Dist { return c.E2E })},
	}
}

// measures are the compared numbers of some cells: throughput first, but in an open loop, where it is what was offered.
func measures(p spec.Point, trials ...[]*result.Trial) []measure {
	if p.Rate > 0 {
		return latencies()
	}
	steady := true
	for _, ts := range trials {
		for _, t := range ts {
			steady = steady && t.Steady != nil && t.Steady.OutputPerS != nil && t.Steady.RequestsPerS != nil
		}
	}
	return append(throughput(steady), latencies()...)
}

// believed are the measured trials of a cell in the order of their blocks; why is not empty when one of them, or none,
// may be believed.
func believed(run *result.Run, config string, p spec.Point) (trials []*result.Trial, why string) {
	planned := 0
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Config != config || t.Point != p || t.Confirms {
			continue
		}
		planned++
		if t.Outcome != result.Measured || t.Client == nil {
			continue
		}
		if bad := believe(t); bad != "" && why == "" {
			why = fmt.Sprintf("%s cannot be believed, %s: %s", config, t.ID, bad)
		}
		trials = append(trials, t)
	}
	switch {
	case planned == 0:
		why = config + " was not planned"
	case len(trials) == 0:
		why = config + " was not measured"
	}
	slices.SortStableFunc(trials, func(a, b *result.Trial) int { return a.Repeat - b.Repeat })
	return trials, why
}

// compareAll sets Comparisons: every candidate at every load point. Words are corrected for the number of candidates and
// load points (Holm, for each metric).
func compareAll(run *result.Run) {
	run.Comparisons = nil
	e := run.Experiment
	if e == nil || e.Compare == nil || e.Load.Capacity != nil {
		return // the loads of a search differ from start to start: its capacities are what is compared
	}
	for _, candidate := range e.Compare.Candidates {
		for _, p := range points(run) {
			run.Comparisons = append(run.Comparisons, comparison(run, candidate, p))
		}
	}
	correct(run)
}

func points(run *result.Run) []spec.Point {
	var out []spec.Point
	for _, c := range run.Cells {
		if !slices.Contains(out, c.Point) {
			out = append(out, c.Point)
		}
	}
	return out
}

func comparison(run *result.Run, candidate string, p spec.Point) result.Comparison {
	base := run.Experiment.Compare.Baseline
	c := result.Comparison{Baseline: base, Candidate: candidate, Point: p}
	a, why := believed(run, base, p)
	b, whyNot := believed(run, candidate, p)
	if c.Why = orElse(why, whyNot); c.Why == "" {
		c.Why = failedCheck(run.Checks)
	}
	if c.Why != "" {
		return c
	}
	c.Blocks = len(pairs(a, b))
	for _, m := range measures(p, a, b) {
		c.Changes = append(c.Changes, change(m, a, b))
	}
	return c
}

// pairs are the trials of both sides that ran in the same block.
func pairs(a, b []*result.Trial) [][2]*result.Trial {
	var out [][2]*result.Trial
	for _, x := range a {
		for _, y := range b {
			if x.Repeat == y.Repeat {
				out = append(out, [2]*result.Trial{x, y})
			}
		}
	}
	return out
}

// change is the ratio of one number over the blocks in which both sides have it.
func change(m measure, a, b []*result.Trial) result.Change {
	ch := result.Change{Metric: m.metric, Better: m.better}
	var before, after []float64
	for _, p := range pairs(a, b) {
		x, y := m.of(p[0]), m.of(p[1])
		if x != nil && y != nil && *x > 0 && *y > 0 {
			before, after = append(before, *x), append(after, *y)
		}
	}
	if len(before) == 0 {
		ch.Why = "no block has it on both sides"
		return ch
	}
	iv, err := stats.PairedRatio(before, after, stats.DefaultLevel)
	switch {
	case err != nil && !errors.Is(err, stats.ErrFew) && !errors.Is(err, stats.ErrNoSpread):
		ch.Why = err.Error()
		return ch
	case len(before) == 1:
		ch.Why = "one start: start-to-start variation unknown"
	case len(before) < stats.MinStarts:
		ch.Why = fmt.Sprintf("%d starts: too few to say how much starts differ", len(before))
	case errors.Is(err, stats.ErrNoSpread):
		ch.Why = "all blocks gave the same ratio: variation was not seen, which is not the same as none"
	}
	ch.Ratio = ptr(iv.Estimate)
	if ch.Why != "" {
		return ch
	}
	ch.Interval = &iv
	if p, err := stats.PairedP(before, after); err == nil {
		ch.P = &p
	}
	return ch
}

// correct finds the words. The changes of one metric over all candidates and load points are a family.
func correct(run *result.Run) {
	effect := run.Experiment.Compare.MinimumEffect
	family := map[string][]*result.Change{}
	var order []string
	for i := range run.Comparisons {
		for k := range run.Comparisons[i].Changes {
			ch := &run.Comparisons[i].Changes[k]
			if ch.Interval == nil || ch.P == nil {
				continue
			}
			if family[ch.Metric] == nil {
				order = append(order, ch.Metric)
			}
			family[ch.Metric] = append(family[ch.Metric], ch)
		}
	}
	for _, name := range order {
		members := family[name]
		ps := make([]float64, len(members))
		for i, ch := range members {
			ps[i] = *ch.P
		}
		decided, err := stats.Holm(ps, 1-stats.DefaultLevel)
		if err != nil {
			continue // p-values of PairedP are in 0..1
		}
		for i, ch := range members {
			ch.AdjustedP = ptr(decided[i].Adjusted)
			ch.Word = stats.Word(*ch.Interval, effect, ch.Better)
			if ch.Word != stats.NoClearChange && !decided[i].Reject {
				ch.Word = stats.NoClearChange
				ch.Why = fmt.Sprintf("clear alone, but one of %d comparisons: by chance one of them would look so too easily", len(members))
			}
			ch.Inert = stats.Inert(*ch.Interval, effect)
		}
	}
}

// attributeAll sets Attributions: for every candidate and load point, the change of each compared number split over the
// flags that differ.
func attributeAll(run *result.Run) {
	run.Attributions = nil
	e := run.Experiment
	if e == nil || e.Compare == nil || !e.Compare.Attribute {
		return
	}
	for _, candidate := range e.Compare.Candidates {
		d, ok := e.Design(candidate)
		if !ok {
			continue
		}
		for _, p := range points(run) {
			run.Attributions = append(run.Attributions, attribution(run, candidate, d, p)...)
		}
	}
}

func attribution(run *result.Run, candidate string, d spec.Design, p spec.Point) []result.Attribution {
	one := result.Attribution{Candidate: candidate, Point: p}
	for _, a := range d.Configs {
		one.Configs = append(one.Configs, d.Names[a])
	}
	trials := map[attribute.Assignment][]*result.Trial{}
	var all [][]*result.Trial
	for _, a := range d.Configs {
		ts, why := believed(run, d.Names[a], p)
		if why != "" {
			one.Why = why
			return []result.Attribution{one}
		}
		trials[a] = ts
		all = append(all, ts)
	}
	if one.Why = failedCheck(run.Checks); one.Why != "" {
		return []result.Attribution{one}
	}
	var out []result.Attribution
	for _, m := range measures(p, all...) {
		at := one
		at.Metric, at.Better = m.metric, m.better
		at.Result, at.Why = analyse(run, d, trials, m)
		out = append(out, at)
	}
	return out
}

func analyse(run *result.Run, d spec.Design, trials map[attribute.Assignment][]*result.Trial, m measure) (*attribute.Result, string) {
	var obs []attribute.Observation
	for _, a := range d.Configs {
		for _, t := range trials[a] {
			if v := m.of(t); v != nil && *v > 0 {
				obs = append(obs, attribute.Observation{Config: a, Block: t.Repeat, Value: *v})
			}
		}
	}
	r, err := attribute.Analyse(d.Factors, d.Configs, obs, attribute.Options{MinimumEffect: run.Experiment.Compare.MinimumEffect})
	switch {
	case errors.Is(err, attribute.ErrNoBlock):
		return nil, "no block of starts has a value for every config"
	case err != nil:
		return nil, err.Error()
	}
	return r, ""
}

// Value is a compared number of a measured trial by the name of its metric; nil where it has none, or is not compared.
func Value(t *result.Trial, metric string) *float64 {
	for _, m := range slices.Concat(throughput(true), throughput(false), latencies()) {
		if m.metric == metric {
			return m.of(t)
		}
	}
	return nil
}
