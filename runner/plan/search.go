package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/spec"
)

// SearchOf is the capacity search that an experiment asks for. Its load must be a capacity search.
func SearchOf(e *spec.Experiment) capacity.Search {
	c := e.Load.Capacity
	s := capacity.Search{Min: c.Range().Min, Max: c.Range().Max, Whole: c.Concurrency != nil, Resolution: c.Resolution}
	if c.AtLeast != nil {
		s.Target = *c.AtLeast
	}
	return s
}

// searchTrial stands for the trials of one search. The worst case is the way up from the lowest load to the highest, and
// every other measurement at the highest.
func searchTrial(e *spec.Experiment, config string, repeat int, seed uint64) Trial {
	s := SearchOf(e)
	t := Trial{
		ID:         fmt.Sprintf("%s-capacity-%d", config, repeat),
		Experiment: e.Name, Config: config, Repeat: repeat, Seed: seed,
		Search: &Search{Trials: s.Most(), Usual: s.Usual()},
	}
	load := s.Min
	for range s.Most() {
		p := e.Load.Capacity.Point(load)
		t.Requests, t.Warmup = t.Requests+requests(e, p), t.Warmup+warmup(e, p)
		t.EstimateS += trialSeconds(e, config, p)
		load = min(2*load, s.Max)
	}
	return t
}

// Measurement is the trial of a search at a load that was measured again times before in the same start. The seed is the
// run's. Same arguments, same trial: a search that was interrupted goes on with the prompts that it would have had, and
// all configs of a block are sent the same ones.
func (t Trial) Measurement(e *spec.Experiment, seed uint64, step capacity.Step) Trial {
	p := e.Load.Capacity.Point(step.Load)
	out := Trial{
		ID:         fmt.Sprintf("%s-%s-%d%s", t.Config, p, t.Repeat, letter(step.Again)),
		Experiment: t.Experiment, Config: t.Config, Point: p, Repeat: t.Repeat,
		Requests: requests(e, p), Warmup: warmup(e, p),
		Seed:      trialSeed(seed, t.Experiment, p, t.Repeat),
		EstimateS: trialSeconds(e, t.Config, p),
	}
	if step.Again > 0 {
		h := sha256.Sum256(fmt.Appendf(nil, "%d\x00again\x00%d", out.Seed, step.Again))
		out.Seed = binary.BigEndian.Uint64(h[:])>>11 | 1
	}
	return out
}

// letter is nothing for the first measurement of a load, then b, c, ... A load is measured a handful of times.
func letter(again int) string {
	if again == 0 {
		return ""
	}
	return string(rune('a' + again))
}
