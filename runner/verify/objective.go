package verify

import (
	"math"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/query"
)

const requestPrefix = "bench_request_"

// samples counts what of the series of requests a query looks at: the smallest count over its series. Nil = it names
// none of them.
func samples(expr string, values map[string][]float64) *int64 {
	var least *int64
	for _, name := range query.Series(expr) {
		if !strings.HasPrefix(name, requestPrefix) {
			continue
		}
		if n := int64(len(values[name])); least == nil || n < *least {
			least = &n
		}
	}
	return least
}

// evaluate is a rollup function of MetricsQL over all samples of a series; nil = no data. summed is true when the last
// digits depend on the order of the samples. known is false for a function that is not computed here.
func evaluate(r query.Rollup, xs []float64) (v *float64, summed, known bool) {
	if f, ok := counts[r.Func]; ok && len(r.Args) == f.args {
		return finish(f.of(xs, r.Args), len(xs)), f.summed, true
	}
	return nil, false, false
}

// finish is nil where MetricsQL leaves the answer out.
func finish(v float64, n int) *float64 {
	if n == 0 || math.IsNaN(v) {
		return nil
	}
	return &v
}

type function struct {
	args   int
	summed bool
	of     func(xs, args []float64) float64
}

var counts = map[string]function{
	"share_gt_over_time": {args: 1, of: func(xs, a []float64) float64 { return share(xs, func(x float64) bool { return x > a[0] }) }},
	"share_le_over_time": {args: 1, of: func(xs, a []float64) float64 { return share(xs, func(x float64) bool { return x <= a[0] }) }},
	"count_gt_over_time": {args: 1, of: func(xs, a []float64) float64 { return matching(xs, func(x float64) bool { return x > a[0] }) }},
	"count_le_over_time": {args: 1, of: func(xs, a []float64) float64 { return matching(xs, func(x float64) bool { return x <= a[0] }) }},
	"count_over_time":    {of: func(xs, _ []float64) float64 { return float64(len(xs)) }},
	"min_over_time":      {of: func(xs, _ []float64) float64 { return fold(xs, math.Min) }},
	"max_over_time":      {of: func(xs, _ []float64) float64 { return fold(xs, math.Max) }},
	"sum_over_time":      {summed: true, of: func(xs, _ []float64) float64 { return sum(xs) }},
	"avg_over_time":      {summed: true, of: func(xs, _ []float64) float64 { return sum(xs) / float64(len(xs)) }},
	"median_over_time":   {of: func(xs, _ []float64) float64 { return quantileOf(xs, 0.5) }},
	"quantile_over_time": {args: 1, of: func(xs, a []float64) float64 { return quantileOf(xs, a[0]) }},
}

func matching(xs []float64, is func(float64) bool) float64 {
	n := 0
	for _, x := range xs {
		if is(x) {
			n++
		}
	}
	return float64(n)
}

func share(xs []float64, is func(float64) bool) float64 { return matching(xs, is) / float64(len(xs)) }

func fold(xs []float64, f func(a, b float64) float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	v := xs[0]
	for _, x := range xs[1:] {
		v = f(v, x)
	}
	return v
}

func sum(xs []float64) float64 {
	v := 0.0
	for _, x := range xs {
		v += x
	}
	return v
}

// quantileOf is measure.Client.Query's answer: MetricsQL's interpolation at rank q(n-1), and a hair to its left where
// that has no value because the right neighbour is a failed request's +Inf.
func quantileOf(xs []float64, q float64) float64 {
	if !(q >= 0 && q <= 1) {
		return math.Inf(1) * (q - 0.5) // NaN stays NaN
	}
	sorted := slices.Sorted(slices.Values(xs))
	if v := interpolate(sorted, q); !math.IsNaN(v) {
		return v
	}
	return interpolate(sorted, q*query.Leftward)
}

func interpolate(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := q * float64(len(sorted)-1)
	below := math.Floor(rank)
	w := rank - below
	a, b := sorted[int(below)], sorted[min(int(below)+1, len(sorted)-1)]
	return float64(a*(1-w)) + float64(b*w) // not fused, as in stats
}
