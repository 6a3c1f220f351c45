package judge_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func TestAgreement(t *testing.T) {
	f := func(what string, c *result.Client, s *result.Server, want string, limit string) {
		t.Helper()
		for _, a := range judge.Agreement(c, s) {
			if a.What != what {
				continue
			}
			got := "null"
			if a.Agrees != nil {
				got = fmt.Sprint(*a.Agrees)
			}
			if got != want || !strings.Contains(a.Limit, limit) {
				t.Errorf("%s: %s (%s), want %s (%s)", what, got, a.Limit, want, limit)
			}
			return
		}
		t.Errorf("no row %s", what)
	}
	client := func(succeeded, failed int, tokens int64, ttft float64) *result.Client {
		return &result.Client{Requests: succeeded + failed, Succeeded: succeeded, Failed: failed, PromptTokens: &tokens, OutputTokens: &tokens,
			TTFT: &result.Dist{Mean: ttft}, E2E: &result.Dist{Mean: ttft + 1}}
	}
	server := func(requests, tokens, ttft float64) *result.Server {
		return &result.Server{Requests: &requests, PromptTokens: &tokens, OutputTokens: &tokens, MeanTTFT: &ttft, MeanE2E: ptr(ttft + 1)}
	}
	f("requests", client(100, 0, 1, 1), server(100, 1, 1), "true", "equal")
	f("requests", client(100, 0, 1, 1), server(101, 1, 1), "false", "equal")
	f("requests", client(100, 0, 1, 1), server(99, 1, 1), "false", "equal")
	f("requests", client(98, 2, 1, 1), server(98, 1, 1), "true", "between 98 succeeded and 100 sent")
	f("requests", client(98, 2, 1, 1), server(100, 1, 1), "true", "between")
	f("requests", client(98, 2, 1, 1), server(97, 1, 1), "false", "between")
	f("requests", client(98, 2, 1, 1), server(101, 1, 1), "false", "between")
	f("requests", client(100, 0, 1, 1), &result.Server{}, "null", "equal")
	f("requests", nil, server(0, 0, 0), "null", "equal")
	f("output tokens", client(1, 0, 10000, 1), server(1, 10010, 1), "true", "0.1 %")
	f("output tokens", client(1, 0, 10000, 1), server(1, 10011, 1), "false", "0.1 %")
	f("output tokens", client(1, 0, 10000, 1), server(1, 9989, 1), "false", "0.1 %")
	f("prompt tokens", client(1, 0, 0, 1), server(1, 0, 1), "true", "0.1 %")
	f("prompt tokens", client(1, 1, 10000, 1), server(1, 12000, 1), "null", "not comparable")
	f("prompt tokens", client(1, 1, 10000, 1), server(1, 9000, 1), "false", "0.1 %")
	f("prompt tokens", client(1, 0, 1, 1), nil, "null", "0.1 %")
	f("mean TTFT", client(1, 0, 1, 0.100), server(1, 1, 0.090), "true", "10 %")
	f("mean TTFT", client(1, 0, 1, 0.100), server(1, 1, 0.086), "false", "10 %")
	f("mean TTFT", client(1, 0, 1, 0.100), server(1, 1, 0.1002), "false", "10 %")
	f("mean TTFT", client(1, 0, 1, 0.100), server(1, 1, 0.100), "true", "10 %")
	f("mean TTFT", client(1, 1, 1, 0.100), server(1, 1, 0.010), "null", "not comparable")
	f("mean TTFT", client(1, 0, 1, 0.100), &result.Server{}, "null", "10 %")
	// An open loop that was late: the engine did not see the 2 s before a request was sent.
	late := client(1, 0, 1, 2.1)
	late.TTFTSent = ptr(0.1)
	f("mean TTFT", late, server(1, 1, 0.095), "true", "10 %")
	f("mean E2E", late, server(1, 1, 0.095), "true", "10 %")
}

// builder makes runs of two configs, two load points and two starts; every trial is fine until it is changed.
func build() *result.Run {
	run := &result.Run{Experiment: &spec.Experiment{
		Configs: []spec.Config{{Name: "base"}, {Name: "fast"}},
		SLO:     []spec.SLO{{Name: "latency", Query: share, Max: 0.01, Unit: "%", Gate: true}, {Name: "ttft", Query: p99, Max: 1, Unit: "s"}},
		Compare: &spec.Compare{Baseline: "base", Candidates: []string{"fast"}},
	}}
	for repeat := 1; repeat <= 2; repeat++ {
		for _, config := range []string{"base", "fast"} {
			for _, c := range []int{16, 64} {
				p := spec.Point{Concurrency: c}
				run.Trials = append(run.Trials, result.Trial{
					ID: fmt.Sprintf("%s-%s-%d", config, p, repeat), Config: config, Point: p, Repeat: repeat, Outcome: result.Measured,
					Client: &result.Client{Requests: 100, Succeeded: 100},
					Agree:  []result.Agreement{{What: "output tokens", Client: ptr(5.0), Server: ptr(5.0), Agrees: ptr(true)}},
					SLO:    []result.Judgement{slo("latency", 0.0, 0.01, true), slo("ttft", 0.5, 1, false)},
				})
			}
		}
	}
	run.Cells = result.Cells(run.Trials)
	return run
}

func slo(name string, value, max float64, gate bool) result.Judgement {
	j := judge.SLO(spec.SLO{Name: name, Query: p99, Max: max, Gate: gate}, judge.Measured{Value: &value, Requests: 100})
	return j
}

func trialOf(run *result.Run, id string) *result.Trial {
	for i := range run.Trials {
		if run.Trials[i].ID == id {
			return &run.Trials[i]
		}
	}
	panic("no trial " + id)
}

func TestRun(t *testing.T) {
	f := func(name string, want result.Verdict, reason string, change func(run *result.Run)) {
		t.Helper()
		run := build()
		change(run)
		judge.Run(run)
		if run.Verdict != want || !strings.Contains(run.Reason, reason) || strings.Contains(run.Reason, "\n") {
			t.Errorf("%s\n got %s %q\nwant %s %q", name, run.Verdict, run.Reason, want, reason)
		}
		before := *run
		judge.Run(run)
		if !reflect.DeepEqual(before, *run) {
			t.Errorf("%s: judging twice is not judging once", name)
		}
	}
	miss := func(id string) func(*result.Run) {
		return func(run *result.Run) { trialOf(run, id).SLO[0] = slo("latency", 0.31, 0.01, true) }
	}
	noData := func(id string) func(*result.Run) {
		return func(run *result.Run) {
			trialOf(run, id).SLO[0] = judge.SLO(spec.SLO{Name: "latency", Gate: true}, judge.Measured{Requests: 100})
		}
	}
	disagree := func(id string) func(*result.Run) {
		return func(run *result.Run) {
			a := &trialOf(run, id).Agree[0]
			a.Server, a.Agrees = ptr(6.0), ptr(false)
		}
	}
	broken := func(id string) func(*result.Run) {
		return func(run *result.Run) {
			t := trialOf(run, id)
			t.Outcome, t.Error, t.Client, t.SLO, t.Agree = result.Broken, "vllm ended while it was in use", nil, nil, nil
		}
	}
	refused := func(config string) func(*result.Run) {
		return func(run *result.Run) {
			for i := range run.Trials {
				if t := &run.Trials[i]; t.Config == config {
					t.Client = &result.Client{Requests: 100, Failed: 100, Errors: map[string]int{"http_status": 99, "timeout": 1}, ErrorDetail: "400 too long"}
				}
			}
		}
	}
	both := func(fs ...func(*result.Run)) func(*result.Run) {
		return func(run *result.Run) {
			for _, f := range fs {
				f(run)
			}
		}
	}
	f("fine", result.Pass, "both gates passed; all 8 trials were measured", func(*result.Run) {})
	f("a candidate fails in one start", result.Fail, "latency of fast at c64: fast-c64-2: 0.310 is over the maximum of 0.01", miss("fast-c64-2"))
	f("two gates fail", result.Fail, "(and 1 more gate)", both(miss("fast-c64-2"), miss("fast-c16-1")))
	f("the baseline fails", result.Pass, "both gates passed", miss("base-c64-2"))
	f("a shown objective fails", result.Pass, "both gates passed", func(run *result.Run) { trialOf(run, "fast-c16-1").SLO[1] = slo("ttft", 5, 1, false) })
	f("no data", result.Inconclusive, "latency of fast at c16: fast-c16-1: no data", noData("fast-c16-1"))
	f("no data for the baseline", result.Pass, "both gates passed", noData("base-c16-1"))
	f("an objective was not judged", result.Inconclusive, "it was not judged", func(run *result.Run) { trialOf(run, "fast-c16-1").SLO = nil })
	f("fail and no data", result.Fail, "latency of fast at c64", both(miss("fast-c64-1"), noData("fast-c16-1")))
	f("counts disagree", result.Inconclusive, "client and server disagree on output tokens: 5 and 6", disagree("fast-c16-1"))
	f("counts of the baseline disagree", result.Inconclusive, "base at c16: client and server disagree", disagree("base-c16-1"))
	f("a failing trial that cannot be believed", result.Inconclusive, "disagree", both(miss("fast-c16-1"), disagree("fast-c16-1")))
	f("a restart", result.Inconclusive, "restarted inside the window", func(run *result.Run) {
		trialOf(run, "fast-c16-2").Server = &result.Server{Restarted: ptr(true)}
	})
	f("a trial is missing", result.Error, "1 of 8 trials were not measured (base-c16-1: vllm ended", broken("base-c16-1"))
	f("missing and failed", result.Error, "; of the measured ones, latency of fast at c64", both(broken("base-c16-1"), miss("fast-c64-1")))
	f("a config is refused", result.Inconclusive, "all 100 requests failed (http_status: 400 too long)", refused("fast"))
	f("the baseline is refused", result.Inconclusive, "base at c16: all 100 requests failed (http_status: 400 too long) (and 3 more trials)", refused("base"))
	f("errors without a gate", result.Inconclusive, "errors: 2 of 100 requests failed", func(run *result.Run) {
		run.Experiment.SLO = nil
		c := trialOf(run, "base-c16-1").Client
		c.Succeeded, c.Failed = 98, 2
	})
	f("no gate", result.Pass, "no gate was asked for; all 8 trials were measured", func(run *result.Run) { run.Experiment.SLO = nil })
	f("nothing planned", result.Error, "nothing was planned", func(run *result.Run) { run.Trials, run.Cells = nil, nil })
	f("measured without numbers", result.Error, "not measured", func(run *result.Run) { trialOf(run, "fast-c16-1").Client = nil })
}

func TestGates(t *testing.T) {
	run := build()
	run.Experiment.SLO = append(run.Experiment.SLO, spec.SLO{Name: "throughput", Min: ptr(100.0), Gate: true})
	for i := range run.Trials {
		v := 200 - float64(i)
		run.Trials[i].SLO = append(run.Trials[i].SLO, judge.SLO(spec.SLO{Name: "throughput", Min: ptr(100.0)}, judge.Measured{Value: &v, Requests: 100}))
	}
	trialOf(run, "fast-c16-2").SLO[0] = slo("latency", 0.31, 0.01, true)
	trialOf(run, "fast-c64-1").SLO[0] = result.Judgement{Name: "latency", Infinite: true, Gate: true, Verdict: result.Fail, Reason: "it falls on a failed request"}
	judge.Run(run)
	if len(run.Gates) != 12 {
		t.Fatalf("%d gates, want 3 objectives of 4 cells", len(run.Gates))
	}
	find := func(slo, config string, c int) result.Gate {
		for _, g := range run.Gates {
			if g.SLO == slo && g.Config == config && g.Point.Concurrency == c {
				return g
			}
		}
		t.Fatalf("no gate %s %s %d", slo, config, c)
		return result.Gate{}
	}
	if g := find("latency", "fast", 16); g.Verdict != result.Fail || !g.Gate || *g.Worst != 0.31 || *g.Max != 0.01 || g.Min != nil || g.Unit != "%" {
		t.Errorf("%+v", g)
	}
	if g := find("latency", "fast", 64); g.Verdict != result.Fail || g.Worst != nil || !g.Infinite {
		t.Errorf("%+v", g)
	}
	if g := find("latency", "base", 16); g.Gate || g.Verdict != result.Pass {
		t.Errorf("the baseline: %+v", g)
	}
	if g := find("ttft", "fast", 16); g.Gate || *g.Worst != 0.5 {
		t.Errorf("a shown objective: %+v", g)
	}
	if g := find("throughput", "fast", 64); *g.Worst != 193 || *g.Min != 100 || g.Max != nil {
		t.Errorf("a minimum: %+v", g)
	}
	verdicts := map[string]result.Verdict{}
	for _, c := range run.Cells {
		verdicts[c.Config+c.Point.String()] = c.Verdict
	}
	if want := map[string]result.Verdict{"basec16": result.Pass, "basec64": result.Pass, "fastc16": result.Fail, "fastc64": result.Fail}; !reflect.DeepEqual(verdicts, want) {
		t.Errorf("cells: %v", verdicts)
	}
}

// TestEveryVerdictHasAReason over all combinations of two trials.
func TestEveryVerdictHasAReason(t *testing.T) {
	kinds := []result.Verdict{result.Pass, result.Fail, result.Inconclusive, result.Error}
	want := func(a, b result.Verdict) result.Verdict {
		for _, v := range []result.Verdict{result.Error, result.Fail, result.Inconclusive} {
			if a == v || b == v {
				return v
			}
		}
		return result.Pass
	}
	for _, a := range kinds {
		for _, b := range kinds {
			run := &result.Run{Experiment: &spec.Experiment{SLO: []spec.SLO{{Name: "x", Max: 1, Gate: true}}}}
			for i, v := range []result.Verdict{a, b} {
				tr := result.Trial{ID: fmt.Sprint(i), Config: fmt.Sprint("c", i), Outcome: result.Measured, Client: &result.Client{Requests: 1, Succeeded: 1}, SLO: []result.Judgement{{Name: "x", Gate: true, Verdict: v, Reason: "because"}}}
				if v == result.Error {
					tr.Outcome = result.Missing
				}
				run.Trials = append(run.Trials, tr)
			}
			run.Cells = result.Cells(run.Trials)
			judge.Run(run)
			if run.Verdict != want(a, b) || run.Reason == "" {
				t.Errorf("%s and %s: %s %q", a, b, run.Verdict, run.Reason)
			}
			for _, tr := range run.Trials {
				if (tr.Verdict == result.Pass) != (tr.Reason == "") {
					t.Errorf("%s with the reason %q", tr.Verdict, tr.Reason)
				}
			}
		}
	}
}

func TestExitCode(t *testing.T) {
	for v, want := range map[result.Verdict]int{result.Pass: 0, result.Fail: 1, result.Inconclusive: 3, result.Error: 4, result.Superseded: 3, "": 4, "x": 4} {
		if got := judge.ExitCode(v); got != want {
			t.Errorf("ExitCode(%q) = %d, want %d", v, got, want)
		}
	}
}
