package steady

import (
	"slices"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

// window is the steady part in microseconds after the load began. Each of n requests that ends sends the next one, so
// the (n − places + 1)-th end is the first that finds no work.
func window(recs []record.Record, concurrency int) (from, to int64, ok bool) {
	places := min(concurrency, len(recs))
	if places < 1 {
		return 0, 0, false
	}
	ordered := slices.Clone(recs)
	slices.SortFunc(ordered, func(a, b record.Record) int { return int(a.Index) - int(b.Index) })
	for _, r := range ordered[:places] {
		from = max(from, begin(r))
	}
	ends := make([]int64, len(recs))
	for i, r := range recs {
		ends[i] = r.End
	}
	slices.Sort(ends)
	to = ends[len(recs)-places]
	return from, to, from != record.Never && ends[0] != record.Never && to > from
}

// begin is when a request took its place; one that was never sent took it when it was due.
func begin(r record.Record) int64 {
	if r.Sent == record.Never {
		return r.Scheduled
	}
	return r.Sent
}

func seconds(us int64) float64 { return float64(us) / 1e6 }

// work is what was done inside a window.
type work struct {
	seconds   float64
	requests  float64 // successes; one that an edge cuts counts by the share of its time
	busy      float64 // seconds of all places together
	tokens    float64
	uncertain float64 // of those, tokens that may belong to the other side of an edge
	noUsage   int
	succeeded int // successes that touch the window
}

func count(recs []record.Record, from, to int64) work {
	w := work{seconds: seconds(to - from)}
	perEvent, known := tokensPerEvent(recs)
	for _, r := range recs {
		start := begin(r)
		in := overlap(start, r.End, from, to)
		if in == 0 {
			continue
		}
		w.busy += seconds(in)
		n := float64(r.OutputTokens)
		switch {
		case r.Err != record.OK && known:
			n = float64(max(r.Events, 0)) * perEvent
		case r.Err != record.OK:
			continue
		default:
			w.succeeded++
			w.requests += float64(in) / float64(r.End-start)
			if r.OutputTokens < 0 {
				w.noUsage++
				continue
			}
		}
		w.add(r, n, from, to)
	}
	return w
}

// tokensPerEvent is over the successes: what scales the events of an answer that failed before its usage came.
func tokensPerEvent(recs []record.Record) (float64, bool) {
	var tokens, events int64
	for _, r := range recs {
		if r.Err == record.OK && r.OutputTokens >= 0 && r.Events > 0 {
			tokens += int64(r.OutputTokens)
			events += int64(r.Events)
		}
	}
	if events == 0 {
		return 0, false
	}
	return float64(tokens) / float64(events), true
}

// add counts the tokens of one answer: the first at its stamp, the others evenly up to the last.
func (w *work) add(r record.Record, n float64, from, to int64) {
	if n <= 0 || r.FirstToken == record.Never {
		return
	}
	in := 0.0
	if r.FirstToken > from && r.FirstToken <= to {
		in = 1
	}
	span := r.LastToken - r.FirstToken
	switch {
	case r.LastToken == record.Never:
	case span <= 0:
		in *= n
	default:
		in += (n - 1) * float64(overlap(r.FirstToken, r.LastToken, from, to)) / float64(span)
	}
	w.tokens += in
	if in > 0 && in < n {
		w.uncertain += min(in, n-in)
	}
}

func overlap(a, b, from, to int64) int64 {
	if a == record.Never || b == record.Never {
		return 0
	}
	return max(0, min(b, to)-max(a, from))
}

func (w work) fill(s *result.Steady) {
	flight := w.busy / w.seconds
	s.InFlight = &flight
	if w.succeeded == 0 {
		return
	}
	rate := w.requests / w.seconds
	s.RequestsPerS = &rate
	if w.noUsage > 0 || w.tokens == 0 {
		return
	}
	tokens, edge := w.tokens/w.seconds, w.uncertain/w.tokens
	s.OutputPerS, s.EdgeShare = &tokens, &edge
}

// between are the successes that lie in the window as a whole, in the order of their first tokens.
func between(recs []record.Record, from, to int64) []record.Record {
	var out []record.Record
	for _, r := range recs {
		if r.Err == record.OK && r.FirstToken > from && r.LastToken <= to {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b record.Record) int {
		if a.FirstToken != b.FirstToken {
			return int(min(max(a.FirstToken-b.FirstToken, -1), 1))
		}
		return int(a.Index) - int(b.Index)
	})
	return out
}
