package runner

import (
	"context"
	"math"
	"time"

	"h100-inference-control-plane/runner/load"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
	"h100-inference-control-plane/runner/workload"
)

const (
	// warmupBlocks is the most blocks of a warm-up: three times what is planned.
	warmupBlocks = 6
	// Two blocks agree when their medians are within these; the slack is what HTTP and a shared machine add.
	warmupTTFT, ttftSlack = 0.15, 5 * time.Millisecond
	warmupTPOT, tpotSlack = 0.03, 200 * time.Microsecond
)

// warmup sends requests of the same shapes and at the same concurrency as the trial, with other contents. Where the file
// does not say how many, they are sent in blocks until two blocks in a row agree and the engine compiled nothing in the
// last one. Failures are not judged here: what the server refuses now it will refuse in the window, where it is counted.
// It is nil when there is no warm-up.
func (r *Runner) warmup(ctx context.Context, l *live, t plan.Trial, e *spec.Experiment) (*result.Warmup, error) {
	if t.Warmup == 0 {
		return nil, nil
	}
	size, most := t.Warmup, 1
	if e.Load.Warmup == spec.WarmupAuto {
		size, most = max(1, t.Warmup/2), warmupBlocks
	}
	// One after the other from the same seed: the shared parts of prompts are those of the measured ones.
	reqs, err := workload.Warmup(e.Workload, t.Seed, size*most)
	if err != nil {
		return nil, err
	}
	r.Observer.Event(Event{Kind: WarmupBegins, Start: &l.start, Trial: &t, Total: t.Warmup})
	began := time.Now()
	doc := &result.Warmup{}
	var before block
	for doc.Blocks < most && (doc.Stable == nil || !*doc.Stable) {
		now, err := r.warmupBlock(ctx, l, t, e, reqs[doc.Requests:doc.Requests+size])
		if err != nil {
			return doc, err
		}
		if doc.Blocks > 0 {
			now.compare(before, doc)
		}
		before = now
		doc.Blocks++
		doc.Requests += size
		doc.JIT += now.jit
	}
	doc.Seconds = seconds(time.Since(began))
	return doc, context.Cause(ctx)
}

// block is what one block of a warm-up measured: medians over its successes in seconds, 0 = none.
type block struct {
	ttft, tpot float64
	jit        int
}

func (r *Runner) warmupBlock(ctx context.Context, l *live, t plan.Trial, e *spec.Experiment, reqs []workload.Request) (block, error) {
	opts, err := r.loadOptions(l, t, e, reqs)
	if err != nil {
		return block{}, err
	}
	// An open loop warms up in a closed one, with about a second's arrivals at once.
	opts.Concurrency = max(t.Point.Concurrency, min(t.Warmup, int(t.Point.Rate)), 1)
	began := time.Now()
	res, err := load.Run(ctx, opts)
	if err != nil {
		return block{}, err
	}
	// What the engine logged must be read before it can be counted, here and before the window begins.
	pause(ctx, logLag)
	b := block{jit: len(l.log.jit(began, time.Now()))}
	var ttft, tpot []float64
	for _, rec := range res.Records {
		if rec.Err != record.OK {
			continue
		}
		if v, ok := rec.TTFT(); ok {
			ttft = append(ttft, v)
		}
		if v, ok := rec.TPOT(); ok {
			tpot = append(tpot, v)
		}
	}
	b.ttft, b.tpot = medianOr0(ttft), medianOr0(tpot)
	return b, nil
}

func medianOr0(xs []float64) float64 {
	v, err := stats.Median(xs)
	if err != nil {
		return 0
	}
	return v
}

// compare says in doc whether two blocks in a row agree.
func (b block) compare(before block, doc *result.Warmup) {
	stable := b.jit == 0
	near := func(now, then, limit float64, slack time.Duration) *float64 {
		if now == 0 || then == 0 {
			return nil
		}
		change := now/then - 1
		stable = stable && (math.Abs(change) <= limit || math.Abs(now-then) <= slack.Seconds())
		return &change
	}
	doc.TTFTChange = near(b.ttft, before.ttft, warmupTTFT, ttftSlack)
	doc.TPOTChange = near(b.tpot, before.tpot, warmupTPOT, tpotSlack)
	doc.Stable = &stable
}
