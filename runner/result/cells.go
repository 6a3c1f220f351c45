package result

import (
	"cmp"
	"slices"

	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// Cells puts trials together by config and load point: medians over the starts that were measured, with each start's
// value beside them. Configs come in the order of their first trial, load points ascending, the trials of a cell by
// repeat. Trials that confirm a failed gate are left out. It judges nothing: verdicts are left empty. trials are left alone.
func Cells(trials []Trial) []Cell {
	var cells []Cell
	members := map[cellKey][]*Trial{}
	order := map[string]int{}
	for i := range trials {
		t := &trials[i]
		if t.Confirms || t.Outcome != Measured && t.Point == (spec.Point{}) {
			continue // a search that did not end has no cell of its own
		}
		if _, seen := order[t.Config]; !seen {
			order[t.Config] = len(order)
		}
		k := cellKey{t.Config, t.Point}
		if members[k] == nil {
			cells = append(cells, Cell{Config: t.Config, Point: t.Point, Trials: []string{}})
		}
		members[k] = append(members[k], t)
	}
	for i := range cells {
		cells[i].fill(members[cellKey{cells[i].Config, cells[i].Point}])
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(order[a.Config]-order[b.Config], a.Point.Concurrency-b.Point.Concurrency, cmp.Compare(a.Point.Rate, b.Point.Rate))
	})
	return cells
}

type cellKey struct {
	config string
	point  spec.Point
}

func (c *Cell) fill(trials []*Trial) {
	c.Planned = len(trials)
	var measured []*Trial
	for _, t := range trials {
		if t.Outcome == Measured && t.Client != nil {
			measured = append(measured, t)
		}
	}
	slices.SortStableFunc(measured, func(a, b *Trial) int { return a.Repeat - b.Repeat })
	for _, t := range measured {
		c.Trials = append(c.Trials, t.ID)
	}
	over := func(value func(*Client) *float64) *Median {
		return median(measured, func(t *Trial) *float64 { return value(t.Client) })
	}
	steady := func(value func(*Steady) *float64) *Median {
		return median(measured, func(t *Trial) *float64 {
			if t.Steady == nil {
				return nil
			}
			return value(t.Steady)
		})
	}
	c.RequestsPerS = over(func(c *Client) *float64 { return c.RequestsPerS })
	c.OutputPerS = over(func(c *Client) *float64 { return c.OutputPerS })
	c.SteadyReqPerS = steady(func(s *Steady) *float64 { return s.RequestsPerS })
	c.SteadyOutPerS = steady(func(s *Steady) *float64 { return s.OutputPerS })
	c.TTFTP50 = over(func(c *Client) *float64 { return c.TTFT.p50() })
	c.TPOTP50 = over(func(c *Client) *float64 { return c.TPOT.p50() })
	c.E2EP50 = over(func(c *Client) *float64 { return c.E2E.p50() })
	c.E2EP99 = over(func(c *Client) *float64 { return c.E2E.p99() })
	c.ErrorShare = over(errorShare)
	machine := func(value func(*Machine) *float64) *Median {
		return median(measured, func(t *Trial) *float64 {
			if t.Machine == nil {
				return nil
			}
			return value(t.Machine)
		})
	}
	c.SMClock = machine((*Machine).smClock)
	c.PowerW = machine((*Machine).powerW)
	c.Temperature = machine((*Machine).temperature)
	c.OutputPerJ = machine((*Machine).tokensPerJoule)
}

func errorShare(c *Client) *float64 {
	if c.Requests == 0 {
		return nil
	}
	v := float64(c.Failed) / float64(c.Requests)
	return &v
}

func (d *Dist) p50() *float64 {
	if d == nil {
		return nil
	}
	v := d.P50
	return &v
}

func (d *Dist) p99() *float64 {
	if d == nil {
		return nil
	}
	return d.P99
}

// median is nil when no start has a value, or one that is not finite.
func median(trials []*Trial, value func(*Trial) *float64) *Median {
	m := &Median{}
	var have []float64
	for _, t := range trials {
		v := value(t)
		m.Starts = append(m.Starts, v)
		if v != nil {
			have = append(have, *v)
		}
	}
	v, err := stats.Median(have)
	if err != nil {
		return nil
	}
	m.Value = v
	return m
}
