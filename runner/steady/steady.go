// Package steady finds the part of a closed loop in which the machine was full, and measures throughput in it: from the
// moment every place is busy to the moment the first goes idle because no request is left. It says how much the part
// drifts, whether it is long enough, and why requests ÷ wall time is another number. It judges nothing (validity), and
// knows only the records of the requests, so that everything can be computed again from the results folder.
//
// The token events between a request's first and last token are not stored one by one: a timeline of 10 ms bins would
// take more of the folder than all else together, and is needed only for the requests that an edge of the window cuts.
// Their tokens are put evenly between first and last; Steady.EdgeShare says how many that are.
package steady

import (
	"cmp"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

// DefaultPrecision is the precision that is asked for when the experiment compares nothing.
const DefaultPrecision = 0.05

// Differ is the relative difference from which the wall-clock throughput is explained.
const Differ = 0.05

// Options is what the records do not say.
type Options struct {
	Concurrency int     // places of the closed loop, >= 1; 0 = it was no closed loop, and there is no steady window
	Precision   float64 // relative half-width that throughput must be known to; 0 = DefaultPrecision
	// Wall is the length of the load in seconds, for the comparison with the wall-clock throughput; 0 = from the records.
	Wall float64
}

// Of measures the steady window of a closed loop. It is nil when there is none: not a closed loop, a request that was
// never sent among the first, or places that were never all busy. The records are left alone and may be in any order.
func Of(recs []record.Record, o Options) *result.Steady {
	from, to, ok := window(recs, o.Concurrency)
	if !ok {
		return nil
	}
	places := min(o.Concurrency, len(recs))
	s := &result.Steady{
		From: seconds(from), To: seconds(to), Seconds: seconds(to - from),
		FullWaves: len(recs) / places, Tail: len(recs) % places, Asked: cmp.Or(o.Precision, DefaultPrecision),
	}
	w := count(recs, from, to)
	w.fill(s)
	inside := between(recs, from, to)
	if len(inside) > places {
		// The first of each place were sent in one burst, which the later ones need not be.
		s.TTFTDrift = drift(inside[places:], record.Record.TTFT)
		s.TPOTDrift = drift(inside[places:], record.Record.TPOT)
	}
	length(s, recs, places)
	s.Wave = explain(s, len(recs), places, wallRates(recs, o.Wall))
	return s
}
