package report_test

import (
	"testing"

	"h100-inference-control-plane/runner/compare"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// TestCompareGolden has a row of each kind: with a word, taken back, without a claim, of a side that is not believed.
func TestCompareGolden(t *testing.T) {
	p := func(v float64) *float64 { return &v }
	c := &compare.Comparison{
		A:             compare.Side{Experiment: "graphs", RunKey: "0123456789abcdef", Started: "2026-12-01T10:00:00Z", Synthetic: "random weights"},
		B:             compare.Side{Experiment: "graphs", RunKey: "fedcba9876543210", Started: "2026-12-02T10:00:00Z", Synthetic: "random weights"},
		Across:        []compare.Difference{{Key: "engine.version", A: "0.25.1", B: "0.26.0"}},
		Treatment:     []compare.Difference{{Key: "on max-num-seqs", A: "(none)", B: "64"}},
		LeftOut:       []compare.Difference{{Key: "load.points", A: "c4", B: "(none)"}},
		MinimumEffect: 0.03, Level: 0.95,
		Rows: []compare.Row{
			{Config: "off", Point: spec.Point{Concurrency: 2}, Title: "req/s", Unit: "1/s", A: p(5.2), B: p(6.3), StartsA: 3, StartsB: 5,
				Ratio: p(1.2115), Low: p(1.1), High: p(1.33), P: p(0.004), Word: stats.Better},
			{Config: "off", Point: spec.Point{Concurrency: 2}, Title: "TTFT p50", Unit: "s", A: p(0.232), B: p(0.221), StartsA: 3, StartsB: 5,
				Ratio: p(0.9526), Low: p(0.91), High: p(0.998), P: p(0.08), Word: stats.NoClearChange, Why: "clear by itself, and not among 10 comparisons"},
			{Config: "on", Point: spec.Point{Rate: 2.5}, Title: "req/s", Unit: "1/s", A: p(20.1), B: p(19.4), StartsA: 2, StartsB: 2,
				Ratio: p(0.965), Low: p(0.5), High: p(1.9), Why: "2 and 2 starts: a claim needs 3 on each side"},
			{Config: "on", Point: spec.Point{Concurrency: 2}, Title: "E2E p50", Unit: "s", StartsA: 3, StartsB: 3, Why: "B: on-c2-2: it drifted | 12 %"},
		},
		Notes: []string{"a note"},
	}
	golden(t, "compare.txt", report.CompareText(c, 110, false))
	golden(t, "compare.md", report.CompareMarkdown(c))
	golden(t, "compare_empty.txt", report.CompareText(&compare.Comparison{A: c.A, B: c.B, Level: 0.95}, 60, false))
}
