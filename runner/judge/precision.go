package judge

import (
	"math"
	"strings"

	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// Precision sets how far a trial's requests allow each objective to be known: Wilson's interval for a share of requests,
// two order statistics for a quantile. It is left out where the query is neither over one bench_request_* series, where
// too few requests lie beyond a quantile for an interval to exist, and where the objective has no value. Requests are
// taken as independent and the interval speaks about this start only.
func Precision(e *spec.Experiment, t *result.Trial, recs []record.Record) {
	for i := range t.SLO {
		j := &t.SLO[i]
		j.Interval = nil
		if j.Value == nil {
			continue
		}
		for _, o := range e.SLO {
			if o.Name == j.Name {
				j.Interval = precision(o, *j, recs)
			}
		}
	}
}

func precision(o spec.SLO, j result.Judgement, recs []record.Record) *stats.Interval {
	p, ok := query.Plain(o.Query)
	if !ok {
		return nil
	}
	values := samples(p.Series, recs)
	if len(values) == 0 {
		return nil
	}
	var iv stats.Interval
	var err error
	switch {
	case strings.HasPrefix(p.Func, "share_") && len(p.Args) == 1:
		hits := 0
		for _, v := range values {
			if inShare(p.Func, v, p.Args[0]) {
				hits++
			}
		}
		iv, err = stats.Proportion(hits, len(values), stats.DefaultLevel)
	case p.Func == "quantile_over_time" && len(p.Args) == 1 && p.Args[0] > 0 && p.Args[0] < 1:
		finite := true
		for _, v := range values {
			finite = finite && !math.IsInf(v, 0)
		}
		if !finite {
			return nil
		}
		var exists bool
		if iv, exists, err = stats.QuantileInterval(values, p.Args[0], stats.DefaultLevel); !exists {
			return nil
		}
	default:
		return nil
	}
	if err != nil || math.Abs(iv.Estimate-*j.Value) > 1e-6+0.01*math.Abs(*j.Value) {
		return nil // not the number that was judged
	}
	iv.Estimate = *j.Value
	iv.Low, iv.High = min(iv.Low, iv.Estimate), max(iv.High, iv.Estimate)
	return &iv
}

// inShare follows MetricsQL's share_gt_over_time, share_le_over_time and share_eq_over_time.
func inShare(f string, v, limit float64) bool {
	switch f {
	case "share_gt_over_time":
		return v > limit
	case "share_le_over_time":
		return v <= limit
	case "share_eq_over_time":
		return v == limit
	}
	return false
}

// samples are the values of a per-request series. A failed request is infinitely slow.
func samples(series string, recs []record.Record) []float64 {
	of := map[string]func(record.Record) (float64, bool){
		"bench_request_latency_seconds": func(r record.Record) (float64, bool) { return float64(r.End-r.Scheduled) / 1e6, true },
		"bench_request_ttft_seconds":    record.Record.TTFT,
		"bench_request_tpot_seconds":    record.Record.TPOT,
	}[series]
	if of == nil {
		return nil
	}
	var out []float64
	for _, r := range recs {
		if r.Err != record.OK {
			out = append(out, math.Inf(1))
			continue
		}
		if v, ok := of(r); ok {
			out = append(out, v)
		}
	}
	return out
}
