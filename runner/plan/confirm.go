package plan

import (
	"fmt"
	"slices"

	"h100-inference-control-plane/runner/spec"
)

// Cell is one config of an experiment at one load point.
type Cell struct {
	Experiment, Config string
	Point              spec.Point
}

// Confirm adds one more engine start for each config that has cells to be measured again, with those cells only and
// fresh prompts. The plan itself is left alone; the same cells give the same starts, so that a run which was ended can go
// on. Cells of no start of the plan are ignored.
func (p *Plan) Confirm(cells []Cell) *Plan {
	out := *p
	out.Starts = slices.Clone(p.Starts)
	done := map[string]bool{}
	starts := map[string]int{}
	for _, e := range p.Experiments {
		starts[e.Name] = e.Spec.Starts
	}
	for _, s := range p.Starts {
		key := fmt.Sprint(s.Labels)
		if done[key] {
			continue
		}
		done[key] = true
		last := s
		for _, x := range p.Starts {
			if fmt.Sprint(x.Labels) == key && x.Repeat > last.Repeat {
				last = x
			}
		}
		again := last
		again.ID = fmt.Sprintf("s%02d", len(out.Starts)+1)
		again.Block, again.Repeat = p.blocks()+1, last.Repeat+1
		again.Trials, again.EstimateS = nil, startSeconds(last)
		for _, t := range s.Trials {
			if !slices.Contains(cells, Cell{t.Experiment, t.Config, t.Point}) {
				continue
			}
			t.Repeat, t.Confirms = starts[t.Experiment]+1, true
			t.ID = trialID(t.Config, t.Point, t.Repeat)
			t.Seed = trialSeed(p.Seed, t.Experiment, t.Point, t.Repeat)
			again.Trials = append(again.Trials, t)
			again.EstimateS += t.EstimateS
		}
		if len(again.Trials) > 0 {
			out.Starts = append(out.Starts, again)
		}
	}
	return &out
}

func (p *Plan) blocks() int {
	n := 0
	for _, s := range p.Starts {
		n = max(n, s.Block)
	}
	return n
}
