package measure

import (
	"math"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/record"
)

// Edges reads what an engine counted between two scrapes without a store: counters, histogram means and whether it
// restarted. Gauges are not in it: their mean and maximum need every scrape between. It is the arithmetic of
// sum(increase(NAME[window])): by series, a fall counts from 0, and a series that only grows and is absent from first
// was 0 then. Names are those of the last scrape, as for Client.Engine.
//
// VictoriaMetrics keeps a value as a decimal of a limited number of digits, so its answer can differ from this one in
// the digits that Slack says.
func Edges(series []engine.Series, first, last *Scrape) *Readings {
	r := &Readings{Names: map[engine.Quantity]string{}, Increase: map[engine.Quantity]*float64{}, Mean: map[engine.Quantity]*float64{}}
	before, after := values(first), values(last)
	for _, q := range series {
		name := nameOf(series, q.Quantity, last)
		if name == "" {
			continue
		}
		r.Names[q.Quantity] = name
		switch q.Kind {
		case engine.Counter:
			r.Increase[q.Quantity] = increase(first, before, after, name)
		case engine.Histogram:
			sum, count := increase(first, before, after, name+"_sum"), increase(first, before, after, name+"_count")
			if sum != nil && count != nil && *count > 0 {
				mean := *sum / *count
				r.Mean[q.Quantity] = &mean
			}
		}
	}
	r.Restarted = restarted(series, &Scrapes{All: []*Scrape{first, last}})
	return r
}

// Increase is sum(increase(NAME[window])) of one counter between two scrapes, as Edges computes it; nil when it is not
// there, or not known to be a counter.
func Increase(name string, first, last *Scrape) *float64 {
	if !last.grows(name) {
		return nil
	}
	return increase(first, values(first), values(last), name)
}

// Slack is by how much a mean from a store may differ from the one of Edges, in the unit of the quantity: twelve digits
// of the sums at both edges, over the number of observations. 0 = the quantity is no histogram of the scrapes.
func Slack(series []engine.Series, q engine.Quantity, first, last *Scrape) float64 {
	name := nameOf(series, q, last)
	if name == "" {
		return 0
	}
	a, _ := first.Sum(name + "_sum")
	b, _ := last.Sum(name + "_sum")
	before, _ := first.Sum(name + "_count")
	after, _ := last.Sum(name + "_count")
	if !(after > before) {
		return 0
	}
	return storedDigits * (math.Abs(a) + math.Abs(b)) / (after - before)
}

// storedDigits is the relative precision that a stored value has at least.
const storedDigits = 1e-12

// point is one series of a scrape.
type point struct {
	key   string
	value float64
}

// values are a scrape's series by metric name, each series once and in the order of the text.
func values(s *Scrape) map[string][]point {
	out := map[string][]point{}
	seen := map[string]bool{}
	for _, x := range s.Samples {
		if !seen[x.text] && !math.IsNaN(x.Value) {
			seen[x.text] = true
			out[x.Name] = append(out[x.Name], point{x.text, x.Value})
		}
	}
	return out
}

// increase is nil when no series of the name has a value that it increased from.
func increase(first *Scrape, before, after map[string][]point, name string) *float64 {
	was := map[string]float64{}
	for _, p := range before[name] {
		was[p.key] = p.value
	}
	var sum float64
	known := false
	for _, p := range after[name] {
		from, had := was[p.key]
		if !had && !first.grows(name) && len(first.Kinds) > 0 {
			continue
		}
		known = true
		if p.value < from { // it was reset
			from = 0
		}
		sum += p.value - from
	}
	if !known {
		return nil
	}
	return &sum
}

// RequestValues are the values that are stored of requests, by series, each in the order of recs. A failed request is
// +Inf in the series of times.
func RequestValues(recs []record.Record) map[string][]float64 {
	out := map[string][]float64{}
	for i := range recs {
		eachValue(&recs[i], func(series string, v float64) { out[series] = append(out[series], v) })
	}
	return out
}
