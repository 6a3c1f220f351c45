package judge

import (
	"math"
	"testing"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func TestPrecision(t *testing.T) {
	// 100 requests of 10, 20 … 1000 ms; the first token after half of it.
	var recs []record.Record
	for i := range 100 {
		end := int64(i+1) * 10_000
		recs = append(recs, record.Record{Index: int32(i), FirstToken: end / 2, LastToken: end, End: end, OutputTokens: 11})
	}
	f := func(query string, value float64, low, high float64) {
		t.Helper()
		e := &spec.Experiment{SLO: []spec.SLO{{Name: "x", Query: query}}}
		tr := &result.Trial{SLO: []result.Judgement{{Name: "x", Value: &value}}}
		Precision(e, tr, recs)
		iv := tr.SLO[0].Interval
		if low == 0 && high == 0 {
			if iv != nil {
				t.Errorf("%s: %+v, want none", query, iv)
			}
			return
		}
		if iv == nil || math.Abs(iv.Low-low) > 5e-4 || math.Abs(iv.High-high) > 5e-4 || iv.Estimate != value {
			t.Errorf("%s: %+v, want %g to %g", query, iv, low, high)
		}
	}
	// Wilson's interval of 0 and of 5 of 100, as tables have it.
	f("share_gt_over_time(bench_request_latency_seconds[$window], 2)", 0, 0, 0.0370)
	f("share_gt_over_time(bench_request_latency_seconds[$window], 0.95)", 0.05, 0.0215, 0.1118)
	f("share_le_over_time(bench_request_latency_seconds[$window], 0.05)", 0.05, 0.0215, 0.1118)
	// The median of 100: order statistics 40 and 61.
	f("quantile_over_time(0.5, bench_request_latency_seconds[$window])", 0.505, 0.40, 0.61)
	f("quantile_over_time(0.99, bench_request_ttft_seconds[$window])", 0.495, 0, 0) // 368 would do
	f("avg_over_time(bench_request_latency_seconds[$window])", 0.505, 0, 0)
	f("rate(vllm:request_success_total[$window])", 1, 0, 0)
	f("share_gt_over_time(bench_request_latency_seconds[$window], 0.95)", 0.5, 0, 0) // another number was judged
	// A failed request is slower than any limit, and a quantile with one has no interval that could be shown.
	recs[0].Err = record.ErrTimeout
	f("share_gt_over_time(bench_request_latency_seconds[$window], 0.95)", 0.06, 0.0278, 0.1248)
	f("quantile_over_time(0.5, bench_request_latency_seconds[$window])", 0.515, 0, 0)
}
