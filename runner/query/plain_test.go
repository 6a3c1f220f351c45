package query_test

import (
	"fmt"
	"testing"

	"h100-inference-control-plane/runner/query"
)

func TestPlain(t *testing.T) {
	f := func(expr, want string) {
		t.Helper()
		got := "no"
		if r, ok := query.Plain(expr); ok {
			got = fmt.Sprintf("%s %v %s", r.Func, r.Args, r.Series)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
	f("share_gt_over_time(bench_request_latency_seconds[$window], 2)", "share_gt_over_time [2] bench_request_latency_seconds")
	f("quantile_over_time(0.99, bench_request_ttft_seconds[$window])", "quantile_over_time [0.99] bench_request_ttft_seconds")
	f("Sum(AVG_over_time(bench_request_ok[$window]))", "avg_over_time [] bench_request_ok")
	f("share_gt_over_time(x[$window], 30ms)", "share_gt_over_time [0.03] x")
	f("share_gt_over_time(x[$window], $window)", "no")
	f("share_gt_over_time(x[$window], 2i)", "no")
	f("count_over_time(x[$window])", "count_over_time [] x")
	f("sum(avg_over_time(x[$window])) by (config)", "no")
	f("count(avg_over_time(x[$window]))", "no")
	f("1 - avg_over_time(x[$window])", "no")
	f("avg_over_time(x[1h])", "no")
	f("avg_over_time(x[$window] offset 5m)", "no")
	f("avg_over_time(x[$window:1s])", "no")
	f(`avg_over_time(x{a="b"}[$window])`, "no")
	f(`avg_over_time({__name__=~"x.*"}[$window])`, "no")
	f("f(x[$window], y[$window])", "no")
	f("max_over_time(rate(x[$window])[$window:])", "no")
	f("x", "no")
	for expr, sum := range map[string]bool{"sum(rate(x[$window]))": true, "max(rate(x[$window]))": false, "rate(x[$window])": false} {
		if r, ok := query.Plain(expr); !ok || r.Sum != sum {
			t.Errorf("%s: %+v, %v", expr, r, ok)
		}
	}
	f("(", "no")
}
