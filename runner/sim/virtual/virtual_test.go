package virtual_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/sim/virtual"
	"h100-inference-control-plane/runner/spec"
)

const h200 = "h200-qwen3.6-35b-a3b-fp8"

func load(t *testing.T, file string) *spec.Experiment {
	t.Helper()
	e, faults := spec.Load(filepath.Join("..", "..", "..", "experiments", file))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return e
}

// measure runs an experiment of the repository in virtual time on a profile.
func measure(t *testing.T, file, profile string, change func(*spec.Experiment)) *result.Run {
	t.Helper()
	e := load(t, file)
	if change != nil {
		change(e)
	}
	p, err := plan.New([]*spec.Experiment{e}, plan.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := virtual.Run(p, virtual.Options{Profile: profile, Seed: 1, Judge: latency})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// latency judges the objectives of the experiments here: a share above a limit, or the p99 of TTFT.
func latency(o spec.SLO, recs []record.Record) result.Judgement {
	m := judge.Measured{Query: o.Query, Requests: len(recs)}
	n := int64(len(recs))
	m.Samples = &n
	c := result.Summarise(recs, result.SummaryOptions{})
	var v float64
	switch {
	case strings.HasPrefix(o.Query, "share_gt_over_time(bench_request_latency_seconds"):
		for _, r := range recs {
			if float64(r.End-r.Scheduled) > 2e6 {
				v += 1 / float64(n)
			}
		}
	case c.TTFT.P99 != nil:
		v = *c.TTFT.P99
	default:
		v = c.TTFT.Max
	}
	m.Value = &v
	return judge.SLO(o, m)
}

// lead is what stands before the facts: the first lines of the report.
func lead(run *result.Run) string {
	text, _, _ := strings.Cut(string(report.Text(run, 0, false)), "\n\n")
	return text
}

func wants(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the first lines do not say %q:\n%s", w, text)
		}
	}
}

// TestSeed is the A/B that began this project. Its gain was published as the prefix cache's; on the profile of the
// machine that was measured, CUDA graphs are all of it, and the report must say so before anything else.
func TestSeed(t *testing.T) {
	run := measure(t, "default-vs-optimized.yaml", h200, nil)
	text := lead(run)
	wants(t, text,
		"CUDA graphs (enforce-eager): 100 % of the change at 16 at once",
		"Prefix caching (enable-prefix-caching) is inert here",
		"this model's cache block is 1056",
		"counted 0 hits",
		"A wave artefact at 64 at once: 100 requests at 64 at once are two waves, 64 and 36",
	)
	if i, j := strings.Index(text, "CUDA graphs"), strings.Index(text, "Prefix caching"); i > j {
		t.Error("what did nothing stands before what did it")
	}
	golden(t, "seed.txt", report.Text(run, 100, false))
}

// TestSharedPrefix is the workload on which the prefix cache is the cause.
func TestSharedPrefix(t *testing.T) {
	run := measure(t, "shared-prefix.yaml", h200, nil)
	wants(t, lead(run), "Prefix caching (enable-prefix-caching):", "of the change at 16 at once")
	for _, a := range run.Attributions {
		if a.Result == nil {
			t.Fatalf("no attribution: %s", a.Why)
		}
		for _, f := range a.Result.Factors {
			if f.Name == "enable-prefix-caching" && strings.HasSuffix(a.Metric, "tokens_per_second") && (f.Fraction == nil || f.Fraction.Low < 0.5) {
				t.Errorf("%s at %s: %+v", a.Metric, a.Point, f)
			}
		}
	}
	golden(t, "shared-prefix.txt", report.Text(run, 100, false))
}

// TestInvalidSide: a comparison with a side that cannot be believed has no number in its first lines.
func TestInvalidSide(t *testing.T) {
	e := load(t, "default-vs-optimized.yaml")
	e.Load.Closed.Requests = 64
	e.SLO[0].Gate = false // which would fail and decide the verdict
	p, err := plan.New([]*spec.Experiment{e}, plan.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := virtual.Run(p, virtual.Options{Profile: h200, Judge: latency, Change: func(x *result.Trial, _ []record.Record) {
		if x.ID == "optimized-c16-2" {
			x.Server.JIT, x.Server.JITKernels = 1, []string{"fused_moe_kernel"}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	text := lead(run)
	wants(t, text, "INCONCLUSIVE", "optimized ÷ default at 16 at once has no number", "fused_moe_kernel", "Which flag did it at 16 at once is not known")
	if strings.Contains(text, "× (95 % interval") && strings.Contains(text, ") at 16 at once") {
		t.Errorf("a number of an invalid side is in the first lines:\n%s", text)
	}
	if !slices.ContainsFunc(run.Comparisons, func(c result.Comparison) bool { return c.Point.Concurrency == 64 && c.Why == "" && len(c.Changes) > 0 }) {
		t.Error("the other load point lost its numbers too")
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("BENCH_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (BENCH_UPDATE=1 writes it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (BENCH_UPDATE=1 rewrites it); got:\n%s", path, got)
	}
}
