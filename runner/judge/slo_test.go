package judge_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func ptr[T any](v T) *T { return &v }

const (
	share   = "share_gt_over_time(bench_request_latency_seconds[$window], 2)"
	within  = "share_le_over_time(bench_request_ttft_seconds[$window], 0.5)"
	p99     = "quantile_over_time(0.99, bench_request_latency_seconds[$window])"
	tpot    = "quantile_over_time(0.5, bench_request_tpot_seconds[$window])"
	errors  = "share_eq_over_time(bench_request_ok[$window], 0)"
	engines = `rate(vllm:generation_tokens_total[$window])`
)

func atMost(query string, max float64) spec.SLO {
	return spec.SLO{Name: "x", Query: query, Max: max, Gate: true}
}

func atLeast(query string, min float64) spec.SLO {
	return spec.SLO{Name: "x", Query: query, Min: &min, Gate: true}
}

func TestSLOVerdicts(t *testing.T) {
	f := func(s spec.SLO, m judge.Measured, want result.Verdict, reason string) {
		t.Helper()
		j := judge.SLO(s, m)
		if j.Verdict != want || !strings.Contains(j.Reason, reason) || reason == "" && j.Reason != "" {
			t.Errorf("%s %+v\n got %s %q\nwant %s %q", s.Query, m, j.Verdict, j.Reason, want, reason)
		}
		if j.Value != nil && (math.IsNaN(*j.Value) || math.IsInf(*j.Value, 0)) {
			t.Errorf("%s: the value %v cannot be stored", s.Query, *j.Value)
		}
	}
	v := func(v float64) *float64 { return &v }
	n := func(n int64) *int64 { return &n }
	ok := func(value *float64) judge.Measured {
		return judge.Measured{Value: value, Samples: n(100), Requests: 100}
	}
	// Bounds are inclusive on both sides.
	f(atMost(share, 0.01), ok(v(0.01)), result.Pass, "")
	f(atMost(share, 0.01), ok(v(0.0100001)), result.Fail, "0.0100 is over the maximum of 0.01")
	f(atMost(share, 0), ok(v(0)), result.Pass, "")
	f(atLeast(engines, 100), ok(v(100)), result.Pass, "")
	f(atLeast(engines, 100), ok(v(99.999)), result.Fail, "under the minimum of 100")
	f(spec.SLO{Query: share, Max: 0.01, Unit: "%"}, ok(v(0.31)), result.Fail, "31.0 % is over the maximum of 1 %")
	f(spec.SLO{Query: p99, Max: 0.5, Unit: "s"}, ok(v(38.4)), result.Fail, "38.4 s is over the maximum of 500 ms")
	// No data is never a pass, also where 0 would be one.
	f(atMost(share, 1), ok(nil), result.Inconclusive, "no data")
	f(atMost(share, 1), ok(v(math.NaN())), result.Inconclusive, "no data")
	f(atMost(share, 1), ok(v(math.Inf(-1))), result.Inconclusive, "infinite")
	f(atMost(share, 1), ok(v(math.Inf(1))), result.Inconclusive, "infinite")
	f(atLeast(engines, 1), ok(v(math.Inf(1))), result.Inconclusive, "infinite")
	f(atMost(share, 1), judge.Measured{Value: v(0), Err: "connection refused", Requests: 100}, result.Inconclusive, "the query failed: connection refused")
	f(atMost(share, 1), judge.Measured{Value: v(0), Samples: n(0), Requests: 100}, result.Inconclusive, "no sample")
	f(atMost(share, 1), judge.Measured{Value: v(0)}, result.Inconclusive, "no request was sent")
	f(atMost(errors, 1), judge.Measured{Value: v(1), Samples: n(100), Requests: 100, Failed: 100}, result.Inconclusive, "all 100 requests failed")
	// Fewer samples than requests.
	f(atMost(share, 1), judge.Measured{Value: v(0), Samples: n(99), Requests: 100}, result.Inconclusive, "99 samples for 100 requests")
	f(atMost(errors, 1), judge.Measured{Value: v(0), Samples: n(99), Requests: 100, Failed: 1}, result.Inconclusive, "99 samples for 100 requests")
	f(atMost(tpot, 1), judge.Measured{Value: v(0.1), Samples: n(40), Requests: 100}, result.Pass, "")
	f(atMost(engines, 1), judge.Measured{Value: v(0.1), Samples: n(3), Requests: 100}, result.Pass, "")
	f(atMost(share, 1), judge.Measured{Value: v(0), Requests: 100}, result.Pass, "")
	// Errors above 1 %, except where errors are what is measured.
	two := func(value float64) judge.Measured {
		return judge.Measured{Value: &value, Samples: n(100), Requests: 100, Failed: 2}
	}
	f(atMost(p99, 100), two(1), result.Inconclusive, "errors: 2 of 100 requests failed, more than 1 %")
	f(atLeast(engines, 1), two(5), result.Inconclusive, "errors")
	f(atMost(errors, 0.01), two(0.02), result.Fail, "over the maximum of 0.01; 2 of 100 requests failed")
	f(atMost(errors, 0.05), two(0.02), result.Pass, "2 of 100 requests failed")
	// One failure of 1000: in the series as +Inf.
	one := func(value float64, samples int64) judge.Measured {
		return judge.Measured{Value: &value, Samples: &samples, Requests: 1000, Failed: 1}
	}
	f(atMost(p99, 100), one(1, 1000), result.Pass, "1 of 1000 requests failed")
	f(atMost("max_over_time(bench_request_latency_seconds[$window])", 100), one(math.Inf(1), 1000), result.Fail, "falls on a failed request")
	f(atMost(engines, 100), one(math.Inf(1), 1000), result.Inconclusive, "infinite")
	f(atMost(share, 0.01), one(0.01, 1000), result.Pass, "1 of 1000 requests failed")
	f(atMost(share, 0.0005), one(0.001, 1000), result.Fail, "over the maximum")
	// A share that leaves failures out: they count as misses.
	f(atMost(share, 0.0005), one(0, 999), result.Fail, "with failed requests as misses: 0.00100")
	f(atMost(share, 0.0005), one(0, 1000), result.Fail, "with failed requests as misses: 0.00100")
	f(atMost(share, 0.0005), judge.Measured{Value: v(0), Requests: 1000, Failed: 1}, result.Fail, "1 of 1000 requests failed")
	f(atMost(share, 0.01), one(0.0095, 999), result.Fail, "with failed requests as misses: 0.0105")
	f(atLeast(within, 0.9995), one(1, 999), result.Fail, "with failed requests as misses: 0.999")
	f(atLeast(within, 0.999), one(0.999, 1000), result.Pass, "1 of 1000 requests failed")
	// Not a share as a whole: nothing is added.
	f(atMost("1 - "+within, 0.01), one(0.005, 1000), result.Pass, "1 of 1000 requests failed")
}

// TestNeverPassWithoutData walks through everything that can be wrong with the data, for every kind of query: none of it
// may pass, and failures alone may not be hidden by a share.
func TestNeverPassWithoutData(t *testing.T) {
	for _, q := range []string{share, within, p99, tpot, errors, engines, "1"} {
		for _, s := range []spec.SLO{atMost(q, math.MaxFloat64), atLeast(q, -math.MaxFloat64)} {
			for name, m := range map[string]judge.Measured{
				"nothing":      {},
				"no value":     {Requests: 10, Samples: ptr(int64(10))},
				"NaN":          {Requests: 10, Samples: ptr(int64(10)), Value: ptr(math.NaN())},
				"Inf":          {Requests: 10, Samples: ptr(int64(10)), Value: ptr(math.Inf(1))},
				"all failed":   {Requests: 10, Failed: 10, Samples: ptr(int64(10)), Value: ptr(0.0)},
				"error":        {Requests: 10, Samples: ptr(int64(10)), Value: ptr(0.0), Err: "x"},
				"no samples":   {Requests: 10, Samples: ptr(int64(0)), Value: ptr(0.0)},
				"no requests":  {Samples: ptr(int64(10)), Value: ptr(0.0)},
				"more failed":  {Requests: 10, Failed: 11, Value: ptr(0.0)},
				"minus Inf":    {Requests: 10, Value: ptr(math.Inf(-1))},
				"half failing": {Requests: 10, Failed: 5, Value: ptr(0.0), Samples: ptr(int64(10))},
			} {
				j := judge.SLO(s, m)
				if j.Verdict == result.Pass && !(name == "half failing" && q == errors) {
					t.Errorf("%s with %s passes", q, name)
				}
				if j.Verdict != result.Pass && j.Reason == "" {
					t.Errorf("%s with %s: %s without a reason", q, name, j.Verdict)
				}
			}
		}
	}
	for failed := 1; failed <= 10; failed++ {
		for _, samples := range []*int64{nil, ptr(int64(1000 - failed)), ptr(int64(1000))} {
			max := float64(failed)/1000 - 1e-6
			if j := judge.SLO(atMost(share, max), judge.Measured{Value: ptr(0.0), Samples: samples, Requests: 1000, Failed: failed}); j.Verdict == result.Pass {
				t.Errorf("%d of 1000 failed, at most %v may miss, and it passes", failed, max)
			}
		}
	}
}

func TestSLOFields(t *testing.T) {
	j := judge.SLO(spec.SLO{Name: "n", Query: "q", Max: 2, Unit: "s", Gate: true}, judge.Measured{Query: "scoped", Value: ptr(1.0), Samples: ptr(int64(5)), Requests: 5})
	if got := fmt.Sprint(j.Name, j.Query, *j.Value, *j.Samples, *j.Max, j.Min, j.Unit, j.Gate); got != "nscoped1 5 2 <nil>strue" && got != "nscoped 1 5 2 <nil> s true" {
		t.Errorf("fields: %s", got)
	}
	if j := judge.SLO(atLeast("q", 3), judge.Measured{}); j.Query != "q" || j.Max != nil || *j.Min != 3 {
		t.Errorf("fields: %+v", j)
	}
}
