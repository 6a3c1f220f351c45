package compare_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/compare"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
	"h100-inference-control-plane/runner/workload"
)

// run is a run of one config at one load point, with a start for each value of throughput.
func run(starts ...float64) *result.Run {
	r := &result.Run{
		Schema: result.Schema, RunKey: "key", Started: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Where: "process",
		Tool: result.Tool{LoadGenerator: "1"}, Host: result.Host{Cores: 2, CPU: "a CPU", Fingerprint: strings.Repeat("a", 64)},
		Experiment: &spec.Experiment{
			Name: "x", Model: engine.Model{Name: "m", Revision: "r1"}, Engine: spec.Engine{Name: "vllm", Version: "0.25.1"},
			Configs:  []spec.Config{{Name: "c", Flags: []engine.Flag{{Name: "enforce-eager", Value: true}}}},
			Workload: workload.Workload{API: workload.Chat, Text: "hello", Output: workload.Output{Tokens: 8}},
			Load:     spec.LoadLevels{Closed: &spec.Closed{Concurrency: []int{2}, Requests: 40}, Timeout: time.Minute}, Starts: len(starts),
		},
	}
	for k, v := range starts {
		latency := 1 / v
		d := &result.Dist{N: 40, Mean: latency, P50: latency}
		r.Trials = append(r.Trials, result.Trial{
			ID: fmt.Sprintf("c-c2-%d", k+1), Config: "c", Point: spec.Point{Concurrency: 2}, Repeat: k + 1, Outcome: result.Measured,
			Client: &result.Client{Requests: 40, Succeeded: 40, RequestsPerS: &v, OutputPerS: &v, TTFT: d, TPOT: d, E2E: d},
			Steady: &result.Steady{RequestsPerS: &v, OutputPerS: &v},
			Checks: []result.Check{{Name: "drift", Status: result.CheckOK}},
		})
	}
	r.Cells = result.Cells(r.Trials)
	return r
}

// find is a row by its number.
func find(t *testing.T, c *compare.Comparison, metric string) compare.Row {
	t.Helper()
	for _, r := range c.Rows {
		if r.Metric == metric {
			return r
		}
	}
	t.Fatalf("no row %s", metric)
	return compare.Row{}
}

func TestRunsWords(t *testing.T) {
	f := func(a, b []float64, throughput, latency stats.Change, why string) {
		t.Helper()
		c, err := compare.Runs(run(a...), run(b...), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		req, ttft := find(t, c, "steady_requests_per_second"), find(t, c, "ttft_p50")
		if req.Word != throughput || ttft.Word != latency || !strings.Contains(req.Why, why) {
			t.Errorf("%v against %v: %q and %q (%s), want %q and %q (%s)", a, b, req.Word, ttft.Word, req.Why, throughput, latency, why)
		}
		if want := throughput != ""; c.Conclusive() != want {
			t.Errorf("%v against %v: conclusive is %v", a, b, !want)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Errorf("%v against %v: %v", a, b, err)
		}
	}
	f([]float64{100, 101, 102}, []float64{120, 121, 122}, stats.Better, stats.Better, "")
	f([]float64{120, 121, 122}, []float64{100, 101, 102}, stats.Worse, stats.Worse, "")
	f([]float64{100, 101, 102}, []float64{101, 102, 103}, stats.NoClearChange, stats.NoClearChange, "")
	f([]float64{100, 150, 200}, []float64{120, 170, 220}, stats.NoClearChange, stats.NoClearChange, "")
	f([]float64{100, 101}, []float64{120, 121}, "", "", "2 and 2 starts: a claim needs 3")
	f([]float64{100}, []float64{120}, "", "", "1 and 1 starts")
	f([]float64{100, 100, 100}, []float64{120, 120, 120}, "", "", "do not vary at all")
}

func TestRunsNumbers(t *testing.T) {
	c, err := compare.Runs(run(100, 110, 121), run(200, 220, 242), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := find(t, c, "steady_output_tokens_per_second")
	want, err := stats.Ratio([]float64{100, 110, 121}, []float64{200, 220, 242}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if *r.A != 110 || *r.B != 220 || *r.Ratio != want.Estimate || *r.Low != want.Low || *r.High != want.High || r.StartsA != 3 || r.StartsB != 3 {
		t.Errorf("%+v", r)
	}
	if c.MinimumEffect != 0.03 {
		t.Errorf("the minimum effect is %v where no run names one", c.MinimumEffect)
	}
	for _, x := range c.Rows {
		if x.Metric == "e2e_p99" {
			t.Error("p99 of 40 requests is compared")
		}
	}
}

// TestRunsHolm: what is clear by itself is not when there are many comparisons, and the row says so.
func TestRunsHolm(t *testing.T) {
	a, b := run(100, 102, 104), run(105, 107, 110)
	c, err := compare.Runs(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := find(t, c, "ttft_p50")
	if r.Word != stats.NoClearChange || !strings.Contains(r.Why, "not among 5 comparisons") || !(*r.High < 1) || !(*r.P > 0.05) {
		t.Errorf("%+v (p %v, %v to %v)", r, *r.P, *r.Low, *r.High)
	}
}

func TestRunsDoubt(t *testing.T) {
	f := func(name string, change func(*result.Run), why string) {
		t.Helper()
		b := run(120, 121, 122)
		change(b)
		c, err := compare.Runs(run(100, 101, 102), b, compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Rows {
			if r.A != nil || r.B != nil || r.Ratio != nil || r.Low != nil || r.Word != "" || !strings.Contains(r.Why, why) {
				t.Errorf("%s: a side that cannot be believed has a number: %+v", name, r)
			}
		}
		if len(c.Rows) == 0 || c.Conclusive() {
			t.Errorf("%s: %d rows, conclusive %v", name, len(c.Rows), c.Conclusive())
		}
	}
	bad := result.Check{Name: "drift", Title: "it drifted", Measured: "12 %", Status: result.CheckFailed, Invalidates: true}
	f("a failed check", func(r *result.Run) { r.Trials[1].Checks = []result.Check{bad} }, "B: c-c2-2: it drifted (12 %)")
	f("a failed check of the run", func(r *result.Run) { r.Checks = []result.Check{bad} }, "B: it drifted (12 %)")
	f("a broken start", func(r *result.Run) { r.Trials[2].Outcome, r.Trials[2].Error = result.Broken, "it died" }, "B: c-c2-3: it died")
	f("too many errors", func(r *result.Run) { r.Trials[0].Client.Failed, r.Trials[0].Client.Succeeded = 4, 36 }, "errors: 4 of 40 requests failed")
	f("a cell without trials", func(r *result.Run) { r.Trials = nil }, "B: no trial")
}

func TestRunsRefused(t *testing.T) {
	f := func(key string, change func(*result.Run)) {
		t.Helper()
		a, b := run(100, 101, 102), run(120, 121, 122)
		change(b)
		_, err := compare.Runs(a, b, compare.Options{})
		var r *compare.Refused
		if !errors.As(err, &r) || len(r.Differs) != 1 || r.Differs[0].Key != key || r.Differs[0].A == r.Differs[0].B {
			t.Fatalf("%s: %v", key, err)
		}
		if !strings.Contains(err.Error(), key+": "+r.Differs[0].A+" in A, "+r.Differs[0].B+" in B") {
			t.Errorf("%s: %v", key, err)
		}
		if key == "configs" || key == "load.points" {
			return
		}
		c, err := compare.Runs(a, b, compare.Options{Across: []string{key}})
		if err != nil || len(c.Across) != 1 || c.Across[0].Key != key || !c.Conclusive() {
			t.Errorf("across %s: %+v, %v", key, c, err)
		}
	}
	f("engine.name", func(r *result.Run) { r.Experiment.Engine.Name = "sim" })
	f("engine.version", func(r *result.Run) { r.Experiment.Engine.Version = "0.26.0" })
	f("engine.version", func(r *result.Run) { r.Starts = []result.Start{{Version: "0.26.0"}} })
	f("engine.sim", func(r *result.Run) { r.Experiment.Engine.Sim = &engine.Sim{Profile: "laptop"} })
	f("model", func(r *result.Run) { r.Experiment.Model.Name = "n" })
	f("model", func(r *result.Run) { r.Experiment.Model.Revision = "r2" })
	f("simulated", func(r *result.Run) { r.Simulated = true })
	f("synthetic", func(r *result.Run) { r.Synthetic = "random weights" })
	f("workload", func(r *result.Run) { r.Experiment.Workload.Text = "bye" })
	f("workload", func(r *result.Run) { r.Experiment.Workload.Output.Tokens = 9 })
	f("load.requests", func(r *result.Run) { r.Experiment.Load.Closed.Requests = 50 })
	f("load.warmup", func(r *result.Run) { r.Experiment.Load.Warmup = 9 })
	f("load.timeout", func(r *result.Run) { r.Experiment.Load.Timeout = time.Hour })
	f("load.points", func(r *result.Run) { r.Experiment.Load.Closed.Concurrency = []int{2, 4} })
	f("configs", func(r *result.Run) { r.Experiment.Configs[0].Name = "d" })
	f("where", func(r *result.Run) { r.Where = "endpoint" })
	f("machine", func(r *result.Run) { r.Host.Fingerprint = strings.Repeat("b", 64) })
	f("load_generator", func(r *result.Run) { r.Tool.LoadGenerator = "2" })
	open := run(120, 121, 122)
	open.Experiment.Load = spec.LoadLevels{Open: &spec.Open{Rates: []float64{2}, Arrival: "poisson", Duration: time.Minute}, Timeout: time.Minute}
	_, err := compare.Runs(run(100, 101, 102), open, compare.Options{Common: true})
	var r *compare.Refused
	if !errors.As(err, &r) || r.Differs[0].Key != "load.kind" {
		t.Errorf("a closed loop and an open one: %v", err)
	}
	if _, err := compare.Runs(run(1, 2, 3), run(1, 2, 3), compare.Options{Across: []string{"speed"}}); !errors.Is(err, compare.ErrAcross) {
		t.Errorf("an unknown key: %v", err)
	}
}

// TestRunsAllowed: what does not change a number, and what the comparison is about, is no reason to refuse.
func TestRunsAllowed(t *testing.T) {
	a, b := run(100, 101, 102), run(120, 121, 122)
	b.Experiment.Name, b.Experiment.Description, b.RunKey, b.Plan.Seed = "y", "other words", "other", 7
	b.Experiment.Model.Path = "/elsewhere"
	b.Experiment.Configs[0].Flags = []engine.Flag{{Name: "enforce-eager", Value: false}, {Name: "max-num-seqs", Value: int64(8)}}
	b.Experiment.Engine.Env = map[string]string{"A": "1"}
	b.Experiment.Compare = &spec.Compare{MinimumEffect: 0.5}
	c, err := compare.Runs(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []compare.Difference{{Key: "c enforce-eager", A: "true", B: "false"}, {Key: "c max-num-seqs", A: "(none)", B: "8"}, {Key: "environment A", A: "(none)", B: "1"}}
	if !slices.Equal(c.Treatment, want) {
		t.Errorf("treatment: %v", c.Treatment)
	}
	if c.MinimumEffect != 0.5 || find(t, c, "ttft_p50").Word != stats.NoClearChange {
		t.Errorf("20 %% are called a change where 50 %% are asked for: %+v", find(t, c, "ttft_p50"))
	}
}

func TestRunsCommon(t *testing.T) {
	a, b := run(100, 101, 102), run(120, 121, 122)
	b.Experiment.Load.Closed.Concurrency = []int{2, 4}
	b.Experiment.Configs = append(b.Experiment.Configs, spec.Config{Name: "d"})
	c, err := compare.Runs(a, b, compare.Options{Common: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []compare.Difference{{Key: "configs", A: "(none)", B: "d"}, {Key: "load.points", A: "(none)", B: "c4"}}
	if !slices.Equal(c.LeftOut, want) || len(c.Rows) != 5 {
		t.Errorf("%v, %d rows", c.LeftOut, len(c.Rows))
	}
	b.Experiment.Load.Closed.Concurrency = []int{4}
	var r *compare.Refused
	if _, err := compare.Runs(a, b, compare.Options{Common: true}); !errors.As(err, &r) || r.Differs[0].Key != "load.points" {
		t.Errorf("nothing in common: %v", err)
	}
}

// TestRunsOpen: an open loop has no steady window; the wall clock's throughput stands in for it on both sides.
func TestRunsOpen(t *testing.T) {
	a, b := run(100, 101, 102), run(120, 121, 122)
	b.Trials[1].Steady = nil
	b.Cells = result.Cells(b.Trials)
	c, err := compare.Runs(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := find(t, c, "requests_per_second"); r.StartsB != 3 || *r.A != 101 || *r.B != 121 {
		t.Errorf("%+v", r)
	}
}
