package report

import (
	"fmt"

	"h100-inference-control-plane/runner/result"
)

// capacityBlocks say what each config holds, what limits it, and what every start found.
func capacityBlocks(run *result.Run) []block {
	if len(run.Capacity) == 0 {
		return nil
	}
	t := table{head: []string{"config", "holds every objective up to", "95 % interval", "limited by", "asked for", "measurements"}, left: 2, key: 1}
	starts := table{head: []string{"config", "start", "held", "failed", "limited by", "where it held", "where it failed", "limit", "measurements"}, left: 2, key: 2}
	var notes []string
	for _, c := range run.Capacity {
		t.rows = append(t.rows, []string{c.Config, most(c), interval(c), orNone(c.LimitedBy), askedFor(c), fmt.Sprint(c.Trials)})
		if c.Note != "" {
			notes = append(notes, c.Config+": "+c.Note)
		}
		for _, s := range c.Starts {
			starts.rows = append(starts.rows, capacityRows(c, s)...)
			if s.Stopped != "" {
				notes = append(notes, fmt.Sprintf("%s, start %s: no answer, %s", c.Config, s.Start, s.Stopped))
			}
			if len(s.Disagree) > 0 {
				notes = append(notes, fmt.Sprintf("%s, start %s: measurements at %s disagree, so what is between %s and %s is not known", c.Config, s.Start, join(s.Disagree), edge(s.Holds, c.Unit), edge(s.Fails, c.Unit)))
			}
			if s.NotMonotone != "" {
				notes = append(notes, fmt.Sprintf("%s, start %s: %s; the answer is the careful one, below the lowest load that failed", c.Config, s.Start, s.NotMonotone))
			}
		}
	}
	notes = append(notes, capacityRatios(run)...)
	notes = append(notes,
		"a load holds when every objective that is a gate is met; both ends of a bracket were measured three times, with fresh prompts each time",
		"a load that fails is what the search looks for: it fails no gate of the run")
	return []block{heading{"Capacity"}, para{result.TellCapacities(run.Capacity) + "."}, t, starts, list{notes}}
}

func most(c result.Capacity) string {
	switch {
	case c.Censored == result.CapacityBelow:
		return "below " + result.Load(c.Min, c.Unit)
	case c.Value == nil:
		return none
	case c.Censored == result.CapacityAtLeast:
		return "at least " + result.Load(*c.Value, c.Unit)
	}
	return result.Load(*c.Value, c.Unit)
}

func interval(c result.Capacity) string {
	if c.Low == nil || c.High == nil {
		return none
	}
	return c.Between()
}

func askedFor(c result.Capacity) string {
	if c.AtLeast == nil {
		return none
	}
	return fmt.Sprintf("%s: %s", result.Load(*c.AtLeast, c.Unit), c.Verdict)
}

// capacityRows are one row for each objective that failed, and one without where none did.
func capacityRows(c result.Capacity, s result.CapacityStart) [][]string {
	front := []string{c.Config, s.Start, edge(s.Holds, c.Unit), edge(s.Fails, c.Unit)}
	if len(s.Limits) == 0 {
		return [][]string{append(front, none, none, none, none, fmt.Sprint(s.Trials))}
	}
	var out [][]string
	for i, l := range s.Limits {
		row := append([]string(nil), front...)
		count := fmt.Sprint(s.Trials)
		if i > 0 {
			count = ""
		}
		out = append(out, append(row, l.Objective, quantity(l.AtHolds, l.Unit), quantity(l.AtFails, l.Unit), limit(l.Max, l.Min, l.Unit), count))
	}
	return out
}

func edge(load *float64, unit string) string {
	if load == nil {
		return none
	}
	return result.Load(*load, unit)
}

func quantity(v *float64, unit string) string {
	if v == nil {
		return none
	}
	return result.Quantity(*v, unit)
}

// capacityRatios compare the candidates with the baseline where both have an answer.
func capacityRatios(run *result.Run) []string {
	compare := comparisonOf(run)
	if compare == nil {
		return nil
	}
	byName := map[string]result.Capacity{}
	for _, c := range run.Capacity {
		byName[c.Config] = c
	}
	base := byName[compare.Baseline]
	var out []string
	for _, name := range compare.Candidates {
		c := byName[name]
		if c.Value == nil || base.Value == nil || base.Censored != "" {
			continue
		}
		atLeast := ""
		if c.Censored != "" {
			atLeast = "at least "
		}
		out = append(out, fmt.Sprintf("%s holds %s%s× the load that %s holds (medians, no interval)", name, atLeast, result.Number(*c.Value / *base.Value), base.Config))
	}
	return out
}

// searches is true for a capacity search.
func searches(run *result.Run) bool {
	return run.Experiment != nil && run.Experiment.Load.Capacity != nil
}

// held is how many of a load's measurements held, of those that are believed.
func held(run *result.Run, c *result.Cell) string {
	n, all := 0, 0
	for _, id := range c.Trials {
		if t := trial(run, id); t != nil && t.Held != nil {
			all++
			if *t.Held {
				n++
			}
		}
	}
	if all == 0 {
		return none
	}
	return fmt.Sprintf("%d of %d", n, all)
}
