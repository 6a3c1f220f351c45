package verify

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/measure/measuretest"
	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
)

func TestMain(m *testing.M) {
	child.MaybeWatchdog()
	os.Exit(m.Run())
}

// TestEvaluate asks a real VictoriaMetrics and evaluate about the same requests: the same bits, but for sums.
func TestEvaluate(t *testing.T) {
	client := measuretest.Open(t).Client
	ctx := context.Background()
	for trial, c := range []struct{ n, failed int }{{1, 0}, {2, 1}, {40, 0}, {41, 3}, {1000, 10}, {7, 7}} {
		recs := draw(uint64(trial), c.n, c.failed)
		t0 := time.Unix(1_700_000_000, 0).Add(time.Duration(trial) * time.Hour).UTC()
		t1 := t0.Add(30 * time.Second)
		labels := []query.Label{{Name: "run", Value: fmt.Sprint(trial)}}
		s := &measure.Scrapes{T0: t0, T1: t1, All: []*measure.Scrape{{At: t0}, {At: t1}}}
		if _, err := client.Import(ctx, measure.Trial{Labels: labels, Scrapes: s, LoadStart: t0, Records: recs}); err != nil {
			t.Fatal(err)
		}
		values := measure.RequestValues(recs)
		for _, expr := range exprs() {
			r, ok := query.Plain(expr)
			if !ok {
				t.Fatalf("%s is not plain", expr)
			}
			got, summed, known := evaluate(r, values[r.Series])
			if !known {
				t.Fatalf("%s is not computed here", expr)
			}
			scoped, err := query.Scope(expr, t1.Sub(t0), labels)
			if err != nil {
				t.Fatal(err)
			}
			want, err := client.Query(ctx, scoped, t1)
			if err != nil {
				t.Fatal(err)
			}
			if !same(got, want, summed) {
				t.Errorf("%d requests, %d failed: %s is %s here and %s there", c.n, c.failed, expr, show(got), show(want))
			}
		}
	}
}

func exprs() []string {
	var out []string
	for _, series := range []string{"bench_request_ttft_seconds", "bench_request_tpot_seconds", "bench_request_latency_seconds", "bench_request_completion_tokens", "bench_request_ok"} {
		for _, f := range []string{"share_gt_over_time(%s[$window], 0.2)", "share_le_over_time(%s[$window], 200ms)", "count_gt_over_time(%s[$window], 0.2)",
			"count_le_over_time(%s[$window], 1)", "count_over_time(%s[$window])", "min_over_time(%s[$window])", "max_over_time(%s[$window])", "sum_over_time(%s[$window])",
			"avg_over_time(%s[$window])", "median_over_time(%s[$window])", "max(quantile_over_time(0.9, %s[$window]))", "quantile_over_time(0.99, %s[$window])",
			"quantile_over_time(0, %s[$window])", "quantile_over_time(1, %s[$window])", "sum(quantile_over_time(0.975, %s[$window]))"} {
			out = append(out, fmt.Sprintf(f, series))
		}
	}
	return out
}

func same(a, b *float64, summed bool) bool {
	switch {
	case a == nil || b == nil:
		return a == b
	case summed:
		return *a == *b || math.Abs(*a-*b) <= 1e-12*math.Abs(*b)
	}
	return *a == *b
}

func show(v *float64) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}

// draw makes requests with times of microseconds, of which the first ones failed.
func draw(seed uint64, n, failed int) []record.Record {
	r := rand.New(rand.NewPCG(seed, 9))
	var out []record.Record
	for i := range n {
		begin := int64(i) * 20_000
		x := record.Record{Index: int32(i), Scheduled: begin, Sent: begin + 50, FirstToken: begin + 1000 + r.Int64N(300_000), OutputTokens: 1 + r.Int32N(20), PromptTokens: 30}
		x.FirstByte, x.FirstContent = x.FirstToken, x.FirstToken
		x.LastToken = x.FirstToken + r.Int64N(1_000_000)
		x.End = x.LastToken + 10
		if i < failed {
			x.Err, x.OutputTokens, x.PromptTokens = record.ErrStatus, -1, -1
		}
		out = append(out, x)
	}
	return out
}
