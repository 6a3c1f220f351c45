package validity

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/stats"
	"h100-inference-control-plane/runner/steady"
)

// settled looks at how the warm-up ended. A fixed number of requests makes no promise.
func settled(in trial) *finding {
	w := in.t.Warmup
	if w == nil || w.Stable == nil {
		return nil
	}
	parts := []string{plural(w.Blocks, "block")}
	if w.TTFTChange != nil {
		parts = append(parts, "TTFT "+signed(*w.TTFTChange))
	}
	if w.TPOTChange != nil {
		parts = append(parts, "TPOT "+signed(*w.TPOTChange))
	}
	parts = append(parts, plural(w.JIT, "kernel")+" compiled")
	text := strings.Join(parts, ", ")
	if !*w.Stable {
		return failed("%s", text)
	}
	return okay("%s", text)
}

// drifts looks at TTFT and TPOT of both halves; the worse one decides.
func drifts(in trial) *finding {
	ttft, tpot := halves(in)
	if ttft == nil && tpot == nil {
		return unknown("too few requests after the first of each place")
	}
	limit, slack := maxDrift, 0.0
	if in.run.Simulated {
		limit, slack = maxDriftSimulated, 0.001
	}
	worst, parts := result.CheckOK, []string{}
	see := func(name string, d *result.Drift, slack float64) {
		if d == nil {
			return
		}
		parts = append(parts, fmt.Sprintf("%s %s ± %s", name, signed(d.Change), result.Percent(d.Noise)))
		switch off := math.Abs(d.Change); {
		case off <= limit || math.Abs(d.Second-d.First) <= slack:
		case off-d.Noise > limit:
			worst = result.CheckFailed
		case worst == result.CheckOK:
			worst = result.CheckUnknown
		}
	}
	see("TTFT", ttft, ttftSlack)
	see("TPOT", tpot, slack)
	f := &finding{status: worst, measured: strings.Join(parts, ", "), limit: result.Bound(limit, "%")}
	if worst == result.CheckUnknown {
		f.measured += ": the requests differ too much among themselves to tell"
		f.fix = "measure more requests"
	}
	return f
}

func halves(in trial) (ttft, tpot *result.Drift) {
	if s := in.t.Steady; s != nil {
		return s.TTFTDrift, s.TPOTDrift
	}
	if in.t.Point.Concurrency > 0 || in.client.WallSeconds == nil {
		return nil, nil
	}
	end := *in.client.WallSeconds
	return steady.Drift(in.records, 0, end, record.Record.TTFT), steady.Drift(in.records, 0, end, record.Record.TPOT)
}

// minOthers is how many further requests of a class are needed to say that its first one is unusual.
const minOthers = 5

// firstUse looks for a silent compilation: the first request of a prompt length that took far longer than the others of
// that length. The first of each place of a closed loop are sent in one burst, whose TTFT is long anyway: lengths that
// begin there are looked at only when nothing warmed them up, and can then not be told apart.
func firstUse(in trial) *finding {
	burst := 0
	if in.t.Point.Concurrency > 0 {
		burst = min(in.t.Point.Concurrency, len(in.records))
	}
	classes, first, others := byClass(in.records)
	if len(classes) == 0 {
		return unknown("no requests")
	}
	var outliers, doubtful []string
	for _, c := range classes {
		inBurst := int(first[c].Index) < burst
		if len(others[c]) < minOthers || inBurst && in.exp.Load.Warmup != 0 {
			continue
		}
		usual, err := stats.Median(others[c])
		v, ok := first[c].TTFT()
		if err != nil || !ok || v <= firstUseFactor*usual || v-usual <= firstUseExcess {
			continue
		}
		text := fmt.Sprintf("%s: %s, others %s", or(c, "unnamed"), result.Seconds(v), result.Seconds(usual))
		if inBurst {
			doubtful = append(doubtful, text)
		} else {
			outliers = append(outliers, text)
		}
	}
	switch {
	case len(outliers) > 0:
		return failed("%s", strings.Join(outliers, "; "))
	case len(doubtful) > 0:
		return unknown("without a warm-up the first burst cannot be told from a compilation (%s)", strings.Join(doubtful, "; "))
	}
	return okay("none of %s", plural(len(classes), "length"))
}

// byClass puts the TTFT of successes together by prompt-length class, without the first one sent of each.
func byClass(recs []record.Record) (classes []string, first map[string]record.Record, others map[string][]float64) {
	ordered := slices.Clone(recs)
	slices.SortFunc(ordered, func(a, b record.Record) int { return int(a.Index) - int(b.Index) })
	first, others = map[string]record.Record{}, map[string][]float64{}
	for _, r := range ordered {
		v, ok := r.TTFT()
		if r.Err != record.OK || !ok {
			continue
		}
		if _, seen := first[r.Class]; !seen {
			classes = append(classes, r.Class)
			first[r.Class] = r
			continue
		}
		others[r.Class] = append(others[r.Class], v)
	}
	return classes, first, others
}

func inFlight(in trial) *finding {
	asked := min(in.t.Point.Concurrency, in.client.Requests)
	if asked == 0 {
		return nil
	}
	s := in.t.Steady
	if s == nil || s.InFlight == nil {
		return unknown("there was no moment at which all places were busy")
	}
	off := *s.InFlight/float64(asked) - 1
	return limited(math.Abs(off), maxOffLoad, fmt.Sprintf("%s of %d (%s)", result.Number(*s.InFlight), asked, signed(off)), "")
}

// arrivals compares the time that the sending took with the time that it was scheduled to take.
func arrivals(in trial) *finding {
	if in.t.Point.Rate == 0 {
		return nil
	}
	due, sent := spread{}, spread{}
	for _, r := range in.records {
		if r.Sent != record.Never {
			due.add(r.Scheduled)
			sent.add(r.Sent)
		}
	}
	if due.n < 2 || sent.length() <= 0 {
		return unknown("fewer than two requests were sent")
	}
	share := due.length() / sent.length()
	return limited(-share, -minOffered, result.Percent(share)+" of the rate", "")
}

type spread struct {
	n           int
	first, last int64
}

func (s *spread) add(at int64) {
	if s.n == 0 {
		s.first, s.last = at, at
	}
	s.n++
	s.first, s.last = min(s.first, at), max(s.last, at)
}

func (s spread) length() float64 { return float64(s.last - s.first) }

func clientCPU(in trial) *finding {
	if in.t.Load == nil || in.t.Load.CPU == nil {
		return unknown("the CPU time was not measured")
	}
	return limited(*in.t.Load.CPU, maxCPU, result.Percent(*in.t.Load.CPU), "")
}

func clientScheduler(in trial) *finding {
	if in.t.Load == nil || in.t.Load.SchedP99 == nil {
		return unknown("too few samples")
	}
	limit := minSched
	if d := in.client.TPOT; d != nil {
		limit = max(limit, maxSchedShare*d.P50)
	}
	return limited(*in.t.Load.SchedP99, limit, "p99 "+result.Seconds(*in.t.Load.SchedP99), "p99 at most "+result.Seconds(limit))
}

func clientLateness(in trial) *finding {
	if in.t.Point.Rate == 0 {
		return nil // a closed loop has no schedule to be late for
	}
	if in.t.Load == nil || in.t.Load.LatenessP99 == nil {
		return unknown("it was not measured")
	}
	limit := maxLate
	if d := in.client.TTFT; d != nil {
		limit = min(limit, maxLateShare*d.P50)
	}
	return limited(*in.t.Load.LatenessP99, limit, "p99 "+result.Seconds(*in.t.Load.LatenessP99), "p99 at most "+result.Seconds(limit))
}

func outputLength(in trial) *finding {
	if !in.exp.Workload.Output.Exact {
		return nil
	}
	c := in.client
	if known := c.Succeeded - c.NoUsage; known == 0 {
		return unknown("no answer says how long it is")
	}
	return limited(float64(c.WrongLength), 0, fmt.Sprintf("%d of %d differ", c.WrongLength, c.Succeeded), "")
}

func usage(in trial) *finding {
	c := in.client
	return limited(float64(c.NoUsage), 0, fmt.Sprintf("%d of %d without", c.NoUsage, c.Succeeded), "")
}

// chunks adds up tokens that came in one event with others and events that came in one read with others.
func chunks(in trial) *finding {
	var tokens, events, coalesced float64
	for _, r := range in.records {
		if r.Err == record.OK && r.OutputTokens > 0 && r.Events > 0 {
			tokens += float64(r.OutputTokens)
			events += float64(r.Events)
			coalesced += float64(max(r.Coalesced, 0))
		}
	}
	if tokens == 0 {
		return unknown("no answer says how many tokens it has")
	}
	share := max(0, tokens-events+coalesced) / tokens
	return limited(share, result.MaxCoalesced, result.Percent(share)+" of the tokens", "")
}

var quantileQuery = regexp.MustCompile(`quantile_over_time\(\s*(0?\.\d+)\s*,\s*bench_request_`)

// quantileGate looks for gates on percentiles. With n requests all of them are below the true q-quantile with the
// probability qⁿ; n must bring that to 1 % (order statistics: David and Nagaraja, Order Statistics, 2003, § 7.1).
func quantileGate(in trial) *finding {
	searched := in.exp.Load.Capacity != nil // there the objectives decide what the baseline holds, too
	if c := in.exp.Compare; c != nil && c.Baseline == in.t.Config && !searched {
		return nil // the baseline is not gated
	}
	n, need, name := in.client.Succeeded, 0, ""
	for _, s := range in.exp.SLO {
		m := quantileQuery.FindStringSubmatch(s.Query)
		if m == nil || !s.Gate {
			continue
		}
		q, err := strconv.ParseFloat(m[1], 64)
		if err != nil || q <= 0.5 || q >= 1 {
			continue
		}
		if k := int(math.Ceil(math.Log(0.01) / math.Log(q))); k > need {
			need, name = k, s.Name
		}
	}
	if need == 0 {
		return nil
	}
	f := limited(float64(need), float64(n), plural(n, "request"), fmt.Sprintf("%s needs %d", name, need))
	if searched {
		f.fix = "raise load.capacity.requests (or duration), or hold a lower percentile"
	}
	return f
}

func windowLength(in trial) *finding {
	if in.t.Point.Concurrency == 0 {
		return nil
	}
	s := in.t.Steady
	if s == nil || s.Precision == nil {
		return unknown("there is no steady window")
	}
	text := fmt.Sprintf("%s long, %s waves: throughput to ± %s", result.Seconds(s.Seconds), result.Number(s.Waves), result.Percent(*s.Precision))
	f := okay("%s", text)
	f.limit = fmt.Sprintf("two waves, and ± %s", result.Bound(s.Asked, "%"))
	if in.exp.Load.Capacity != nil { // it asks for no throughput, only for a window that is one
		f.limit = "two waves"
		if s.Waves < minWaves {
			f.status, f.fix = result.CheckFailed, "raise load.capacity.requests"
		}
		return f
	}
	if s.NeedRequests > 0 {
		f.status = result.CheckFailed
		f.fix = fmt.Sprintf("raise load.closed.requests to %d", s.NeedRequests)
	}
	return f
}

func prompts(in trial) *finding {
	p := in.t.Prompts
	if p == nil {
		return unknown("the prompts were not counted")
	}
	n := in.client.Requests
	text := fmt.Sprintf("%d different of %d", p.Distinct, n)
	if p.Distinct <= 1 && n > 1 {
		text = fmt.Sprintf("all %d are the same", n)
	}
	return limited(float64(n), float64(p.Distinct), text, "")
}
