// Package trial runs one trial on the simulated engine in virtual time: a workload, a closed loop, and what a perfect
// client would have measured, with a known truth behind it. A trial takes a fraction of a millisecond, so statistics can
// be tried on thousands of engine starts. It opens no sockets, has no client of its own that could be late, and is no
// evidence about any GPU.
package trial

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"h100-inference-control-plane/runner/sim/model"
)

// Shape is a workload before its contents are drawn. All counts are at least 1, except Shared.
type Shape struct {
	Requests    int
	Concurrency int
	Shared      int // tokens that all prompts begin with; 0 = nothing in common
	Prompt      int // largest number of a prompt's own tokens; drawn evenly from a quarter of it up
	Output      int // largest number of output tokens; drawn evenly from a half of it up
}

// Draw makes the requests: same shape and seed, same requests. Other seeds share nothing but the shape.
func (s Shape) Draw(seed uint64) []model.Request {
	rng := rand.New(rand.NewPCG(seed, 0x10ad))
	shared := tokens(rng, s.Shared)
	reqs := make([]model.Request, s.Requests)
	for i := range reqs {
		own := tokens(rng, between(rng, s.Prompt/4, s.Prompt))
		reqs[i] = model.Request{Tokens: slices.Concat(shared, own), MaxTokens: between(rng, s.Output/2, s.Output), IgnoreEOS: true}
	}
	return reqs
}

func between(rng *rand.Rand, lo, hi int) int {
	lo = max(lo, 1)
	return lo + rng.IntN(max(hi, lo)-lo+1)
}

func tokens(rng *rand.Rand, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = 16 + rng.Int32N(30000)
	}
	return out
}

// Outcome is what one trial measured.
type Outcome struct {
	OutputPerS float64       // output tokens per second, from the first submission to the last token
	TTFT       time.Duration // median over requests
	TPOT       time.Duration // median over requests of two tokens or more; 0 = there were none
}

// Run starts an engine and sends it the requests, at most concurrency at once. slow makes every step that many times as
// long, as a machine would that drifts; 1 is normal. The error is that of model.New or Submit.
func Run(cfg model.Config, slow float64, concurrency int, reqs []model.Request) (Outcome, error) {
	e, err := model.New(cfg)
	if err != nil {
		return Outcome{}, fmt.Errorf("start the simulated engine: %w", err)
	}
	e.Slow(slow)
	seqs, err := model.ClosedLoop(e, concurrency, reqs)
	if err != nil {
		return Outcome{}, fmt.Errorf("send to the simulated engine: %w", err)
	}
	return outcome(seqs), nil
}

func outcome(seqs []*model.Seq) Outcome {
	var end time.Duration
	var produced int
	var ttft, tpot []time.Duration
	for _, s := range seqs {
		end = max(end, s.Last)
		produced += s.Emitted
		ttft = append(ttft, s.TTFT())
		if s.Emitted > 1 {
			tpot = append(tpot, s.TPOT())
		}
	}
	if end == 0 {
		return Outcome{}
	}
	return Outcome{OutputPerS: float64(produced) / end.Seconds(), TTFT: median(ttft), TPOT: median(tpot)}
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	n := len(d)
	return (d[(n-1)/2] + d[n/2]) / 2
}
