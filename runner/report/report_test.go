package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/workload"
)

func ptr[T any](v T) *T { return &v }

// build is the seed's A/B as a simulated engine could answer it: two configs, two load points, some starts.
func build(starts int) *result.Run {
	began := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	run := &result.Run{
		Schema: result.Schema, RunKey: strings.Repeat("0123456789abcdef", 4), Started: began, Ended: began.Add(321 * time.Second), Where: "process",
		Tool: result.Tool{Version: "v0.1.0", Go: "go1.26.8", LoadGenerator: "1", VictoriaMetrics: "v1.151.0"},
		Host: result.Host{OS: "linux", Arch: "amd64", CPU: "AMD EPYC 9654", Cores: 16, GPUs: []result.GPU{{Name: "NVIDIA H200", Driver: "580.159.04"}}},
		Experiment: &spec.Experiment{
			Name: "default-vs-optimized", Description: "The seed's A/B, with the cause of the gain.", Starts: starts,
			Model:    engine.Model{Name: "Qwen/Qwen3.6-35B-A3B-FP8", Revision: "95a723d"},
			Engine:   spec.Engine{Name: "vllm", Version: "0.25.1", Flags: []engine.Flag{{Name: "max-model-len", Value: int64(8192)}}},
			Configs:  []spec.Config{{Name: "default", Flags: []engine.Flag{{Name: "enforce-eager", Value: true}}}, {Name: "optimized", Flags: []engine.Flag{{Name: "enforce-eager", Value: false}, {Name: "gpu-memory-utilization", Value: 0.9}}}},
			Workload: workload.Workload{API: workload.Chat, Text: "Explain GPUs simply", Output: workload.Output{Tokens: 512}, Cache: workload.Warm},
			Load:     spec.LoadLevels{Closed: &spec.Closed{Concurrency: []int{16, 64}, Requests: 100}},
			SLO: []spec.SLO{{Name: "latency", Query: "share_gt_over_time(bench_request_latency_seconds[$window], 10)", Max: 0.01, Unit: "%", Gate: true},
				{Name: "ttft-p99", Query: "quantile_over_time(0.99, bench_request_ttft_seconds[$window])", Max: 0.5, Unit: "s"}},
			Compare: &spec.Compare{Baseline: "default", Candidates: []string{"optimized"}, MinimumEffect: 0.03},
		},
		Plan: result.Plan{Seed: 7},
	}
	truth := map[string][2]float64{"default": {38.36, 45.06}, "optimized": {4.2, 6.04}}
	for k := 1; k <= starts; k++ {
		for i, config := range []string{"default", "optimized"} {
			id := fmt.Sprintf("s%02d", 2*(k-1)+i+1)
			run.Plan.Order = append(run.Plan.Order, id+" "+config)
			run.Starts = append(run.Starts, result.Start{ID: id, Config: config, Repeat: k, Version: "0.25.1", Log: fmt.Sprintf("server_%s_%d.log", config, k)})
			for j, c := range []int{16, 64} {
				run.Trials = append(run.Trials, trial(config, c, k, id, truth[config][j]*(1+0.01*float64(k))))
			}
		}
	}
	return finish(run)
}

func finish(run *result.Run) *result.Run {
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Outcome != result.Measured {
			continue
		}
		t.SLO = nil
		for _, s := range run.Experiment.SLO {
			v := t.Client.TTFT.P50 * 1.5
			if s.Gate {
				v = 0
				if t.Client.E2E.P50 > 10 {
					v = 1
				}
			}
			t.SLO = append(t.SLO, judge.SLO(s, judge.Measured{Value: &v, Samples: ptr(int64(t.Client.Requests)), Requests: t.Client.Requests, Failed: t.Client.Failed}))
		}
		t.Agree = judge.Agreement(t.Client, t.Server)
	}
	run.Cells = result.Cells(run.Trials)
	judge.Run(run)
	return run
}

func trial(config string, c, repeat int, start string, e2e float64) result.Trial {
	around := func(v float64) *result.Dist {
		return &result.Dist{N: 100, Mean: v, Min: v * 0.9, P50: v, P90: v * 1.05, P95: v * 1.08, P99: ptr(v * 1.1), Max: v * 1.12}
	}
	p := spec.Point{Concurrency: c}
	wall := e2e * 100 / float64(c)
	return result.Trial{
		ID: fmt.Sprintf("%s-%s-%d", config, p, repeat), Config: config, Point: p, Repeat: repeat, Start: start, Attempt: 1, Outcome: result.Measured, Seed: 1,
		Window: &result.Window{T0: time.Date(2026, 12, 1, 9, repeat, 0, 0, time.UTC), T1: time.Date(2026, 12, 1, 9, repeat, 30, 0, time.UTC), Seconds: 30},
		Client: &result.Client{Requests: 100, Succeeded: 100, WallSeconds: &wall, RequestsPerS: ptr(100 / wall), OutputPerS: ptr(51200 / wall), PromptTokens: ptr(int64(1500)), OutputTokens: ptr(int64(51200)),
			TTFT: around(0.19), TTFTSent: ptr(0.1899), TPOT: around((e2e - 0.19) / 511), E2E: around(e2e)},
		Server: &result.Server{Requests: ptr(100.0), PromptTokens: ptr(1500.0), OutputTokens: ptr(51200.0), MeanTTFT: ptr(0.188), MeanE2E: ptr(e2e - 0.001)},
	}
}

// documents are the cases that every format is shown for.
func documents() map[string]*result.Run {
	fail := build(2)
	c := fail.Trials[7].Client
	c.E2E.P50 = 12
	c.E2E.P99 = ptr(13.4)
	finish(fail)

	silent := build(2)
	for i := range silent.Trials {
		if t := &silent.Trials[i]; t.Config == "optimized" {
			t.SLO[0] = judge.SLO(silent.Experiment.SLO[0], judge.Measured{Requests: 100})
		}
	}
	judge.Run(silent)

	refused := build(1)
	for i := range refused.Trials {
		if t := &refused.Trials[i]; t.Config == "optimized" {
			t.Client = &result.Client{Requests: 100, Failed: 100, Errors: map[string]int{"http_status": 100}, ErrorDetail: `400: This model's maximum context length is 8192 tokens`, WallSeconds: ptr(1.0)}
			t.Server, t.Agree, t.SLO = &result.Server{}, nil, nil
		}
	}
	refused.Cells = result.Cells(refused.Trials)
	judge.Run(refused)

	partial := build(2)
	for i := range partial.Trials {
		t := &partial.Trials[i]
		switch t.ID {
		case "optimized-c16-2":
			*t = result.Trial{ID: t.ID, Config: t.Config, Point: t.Point, Repeat: 2, Start: "s04", Outcome: result.Broken, Error: "vllm ended while it was in use: exit code 0: RuntimeError: CPU Generator does not use offset"}
		case "optimized-c64-2":
			*t = result.Trial{ID: t.ID, Config: t.Config, Point: t.Point, Repeat: 2, Start: "s04", Outcome: result.Missing, Error: "the run ended before this trial"}
		}
	}
	partial.Starts[3].Error = "vllm ended while it was in use"
	finish(partial)

	sim := build(1)
	sim.Simulated, sim.Synthetic, sim.Experiment.Engine.Name = true, "shapes and timings, not text", "sim"
	sim.Host.GPUs = nil
	sim.Warnings = []plan.Warning{{Code: "inert-factor", Factor: "enable-prefix-caching", Message: "prompts have 15 tokens, this model's cache block is 1056: no prefix can be found in the cache"}}
	for i := range sim.Trials {
		c := sim.Trials[i].Client
		c.E2E.P99, c.E2E.N = nil, 64
	}
	sim.Trials[0].Server.JIT, sim.Trials[0].Server.JITKernels = 2, []string{"_topk_topp_kernel", "fused_moe_kernel"}
	finish(sim)

	disagree := build(1)
	disagree.Trials[2].Server.OutputTokens = ptr(51000.0)
	finish(disagree)

	gpu := build(2)
	for i := range gpu.Trials {
		t := &gpu.Trials[i]
		g := result.GPUUse{ID: "GPU-12345678", Name: "NVIDIA H200", Driver: "580.159.04", PowerLimitW: ptr(700.0), Used: ptr(true), Samples: 30, GapS: 1.002, SMClock: &result.Spread{Min: 1.7e9, Median: 1.98e9, Max: 1.98e9},
			PowerW: ptr(135.0), EnergyJ: ptr(4050.0), Temperature: ptr(44.0 + float64(t.Repeat)), Reasons: map[string]float64{}, Others: []result.GPUProcess{}}
		if t.Config == "optimized" {
			g.PowerW, g.EnergyJ = ptr(520.0), ptr(15600.0)
		}
		t.Machine = &result.Machine{CPUSteal: &result.Share{}, GPUs: []result.GPUUse{g}, EnergyJ: g.EnergyJ, JoulesPerToken: ptr(*g.EnergyJ / 51200)}
	}
	gpu.Trials[0].Machine = nil // one start is enough for a number, and a GPU that does not tell its power for a row
	gpu.Trials[1].Machine.GPUs[0].PowerW, gpu.Trials[5].Machine.GPUs[0].PowerW = nil, nil
	gpu.Trials[1].Machine.JoulesPerToken, gpu.Trials[5].Machine.JoulesPerToken = nil, nil
	finish(gpu)

	return map[string]*result.Run{"capacity": searched(3, nil), "capacity_asked": searched(1, ptr(64.0)), "gpu": gpu, "pass": build(2), "fail": fail, "no_data": silent, "refused": refused, "partial": partial, "one_start_simulated": sim, "disagree": disagree, "hostile": hostile(), "empty": {Schema: result.Schema, Experiment: &spec.Experiment{}}}
}

// attacks are texts that a spec, an engine or a server can put into a document.
const attack = "x|y `code` <script>alert(1)</script> **b** @octocat #12 GH-3 [a](http://evil.example) ![i](https://evil.example/i.png) \x1b[31mred\x1b[0m \u202egnp.exe\u202c \u200fRTL\n\n# heading\n::error::owned ##[error]x \\` www.evil.example _it_ ~~s~~ $x$ &lt; 日本語 e\u0301 👩‍👩‍👧"

func hostile() *result.Run {
	run := build(1)
	run.Simulated = true
	run.Synthetic = attack
	e := run.Experiment
	e.Name, e.Description, e.Model.Name, e.Model.Revision, e.Engine.Version, e.Workload.Text = attack, attack, attack, attack, attack, attack
	e.Engine.Flags = []engine.Flag{{Name: attack, Value: attack}}
	for i := range e.Configs {
		old := e.Configs[i].Name
		e.Configs[i].Name = fmt.Sprint(i, attack)
		for j := range run.Trials {
			if t := &run.Trials[j]; t.Config == old {
				t.Config, t.ID = e.Configs[i].Name, fmt.Sprint(attack, j)
			}
		}
		for j := range run.Starts {
			if run.Starts[j].Config == old {
				run.Starts[j].Config = e.Configs[i].Name
			}
		}
	}
	e.Compare.Baseline, e.Compare.Candidates = e.Configs[0].Name, []string{e.Configs[1].Name}
	e.SLO[0].Name, e.SLO[1].Name = attack, "- 1. "+attack
	run.Where, run.RunKey, run.Host.CPU, run.Tool.Version, run.Host.GPUs[0].Name = attack, attack, attack, attack, attack
	run.Plan.Order = []string{attack}
	run.Warnings = []plan.Warning{{Code: attack, Factor: attack, Message: attack}}
	run.Starts[0].Differs = []result.Difference{{Flag: attack, Requested: attack, Effective: map[string]any{attack: attack}}}
	run.Starts[0].Error, run.Starts[0].Version = attack, attack
	c := run.Trials[0].Client
	c.Failed, c.Succeeded, c.Errors, c.ErrorDetail = 1, 99, map[string]int{attack: 1}, attack
	run.Trials[0].Server.JIT, run.Trials[0].Server.JITKernels = 1, []string{attack}
	run = finish(run)
	run.Trials[1].Outcome, run.Trials[1].Error = result.Broken, attack
	run.Cells = result.Cells(run.Trials)
	judge.Run(run)
	return run
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("BENCH_UPDATE") != "" {
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

func TestGolden(t *testing.T) {
	for name, run := range documents() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", report.Text(run, 110, false))
			golden(t, name+".md", report.Markdown(run))
			if len(run.Cells) > 0 {
				c := run.Cells[0]
				golden(t, name+"_results.txt", report.Results(run, c.Config, c.Point))
			}
		})
	}
	golden(t, "narrow.txt", report.Text(build(2), 60, false))
	golden(t, "color.txt", report.Text(documents()["fail"], 110, true))
}

// TestPure: the same document gives the same bytes, also after it was stored and read, and is not changed.
func TestPure(t *testing.T) {
	for name, run := range documents() {
		stored, err := report.JSON(run)
		if err != nil {
			t.Fatal(err)
		}
		again, err := result.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*result.Run{run, again} {
			if !bytes.Equal(report.Text(run, 80, true), report.Text(r, 80, true)) || !bytes.Equal(report.Markdown(run), report.Markdown(r)) {
				t.Errorf("%s: two calls, two reports", name)
			}
		}
		if after, err := report.JSON(run); err != nil || !bytes.Equal(after, stored) {
			t.Errorf("%s: a report changes its document (%v)", name, err)
		}
	}
}

// TestSimulatedIsOnEveryPage: no format of a simulated result may be mistaken for a measurement.
func TestSimulatedIsOnEveryPage(t *testing.T) {
	run := documents()["one_start_simulated"]
	pages := map[string][]byte{
		"text": report.Text(run, 80, false), "colour": report.Text(run, 40, true), "markdown": report.Markdown(run),
		"results": report.Results(run, "default", spec.Point{Concurrency: 16}),
	}
	var err error
	if pages["vllm-bench"], err = report.VLLMBench(run, run.Trials[0], nil); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if !bytes.Contains(page, []byte("SIMULATED")) {
			t.Errorf("%s does not say SIMULATED:\n%s", name, page)
		}
	}
	real, err := report.VLLMBench(build(1), build(1).Trials[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string][]byte{"text": report.Text(build(1), 80, false), "markdown": report.Markdown(build(1)), "vllm-bench": real} {
		if bytes.Contains(page, []byte("SIMULATED")) {
			t.Errorf("%s of a real run says SIMULATED", name)
		}
	}
}

// TestNoWordOfJudgement: without an interval nothing is called better or worse.
func TestNoWordOfJudgement(t *testing.T) {
	for name, run := range documents() {
		for _, page := range [][]byte{report.Text(run, 100, false), report.Markdown(run)} {
			if m := regexp.MustCompile(`(?i)\b(better|worse|faster than|slower|improve\w*|regress\w*|significant\w*)\b`).Find(page); m != nil {
				t.Errorf("%s says %q", name, m)
			}
		}
	}
}

func TestWidth(t *testing.T) {
	for name, run := range documents() {
		for _, width := range []int{60, 80, 100, 140} {
			for line := range strings.Lines(string(report.Text(run, width, false))) {
				line = strings.TrimRight(line, "\n")
				if w := len([]rune(line)); w > width && strings.Contains(strings.TrimSpace(line), " ") && name != "hostile" {
					t.Errorf("%s at %d columns has a line of %d: %s", name, width, w, line)
				}
			}
		}
	}
}

// TestHostileText: nothing foreign controls the terminal, the reading direction or a CI system.
func TestHostileText(t *testing.T) {
	run := documents()["hostile"]
	for _, width := range []int{0, 40, 100} {
		text := string(report.Text(run, width, false)) + string(report.Results(run, run.Trials[0].Config, run.Trials[0].Point))
		for _, c := range text {
			if c < 0x20 && c != '\n' || c == 0x7f || c == '\u202e' || c == '\u202c' || c == '\u200f' || c == '\u2028' {
				t.Fatalf("the character %q is in the text", c)
			}
		}
		if m := regexp.MustCompile(`(?m)^\s*::[a-z]`).FindString(text); m != "" {
			t.Errorf("a line begins with %q", m)
		}
		if strings.Contains(text, "##[") {
			t.Error("an old command of a CI system is in the text")
		}
	}
}

func TestHostileMarkdown(t *testing.T) {
	md := string(report.Markdown(documents()["hostile"]))
	plain := regexp.MustCompile(`\\.`).ReplaceAllString(md, "") // what is escaped is text
	for _, bad := range []string{`<script`, "<img", "`", `@octocat`, `#12`, `GH-3`, `](`, `http://`, `https://`, "\x1b", "\u202e", "\u200f", "www.evil", "_it_", "~~", "$x$", "\n# heading", "::error"} {
		if strings.Contains(plain, bad) {
			t.Errorf("%q is in the Markdown", bad)
		}
	}
	if tags := regexp.MustCompile(`<[^>]*>`).FindAllString(plain, -1); len(tags) > 0 {
		for _, tag := range tags {
			if tag != "<details>" && tag != "<summary>" && tag != "</summary>" && tag != "</details>" {
				t.Errorf("the tag %s", tag)
			}
		}
	}
	// Every row of a table has as many cells as its head.
	columns := 0
	for line := range strings.Lines(plain) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(line, "|")
		if columns == 0 {
			columns = n
		}
		if n != columns {
			t.Errorf("%d cells where the head has %d: %s", n-1, columns-1, line)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(attack, 80)
	f.Add("", 0)
	f.Add("::\n|", 1)
	f.Add("\xff\x00", -1)
	f.Add("1. a\n- b", 20)
	f.Fuzz(func(t *testing.T, s string, width int) {
		run := build(1)
		run.Reason, run.Synthetic, run.Experiment.Name, run.Experiment.Model.Name, run.Trials[0].Error = s, s, s, s, s
		run.Warnings = []plan.Warning{{Code: "x", Message: s}}
		run.Gates[0].Reason = s
		for _, c := range string(report.Text(run, width, false)) {
			if c < 0x20 && c != '\n' || c == 0x7f || c == 0x1b || c == '\u202e' {
				t.Fatalf("the character %q is in the text", c)
			}
		}
		md := string(report.Markdown(run))
		plain := regexp.MustCompile(`\\.`).ReplaceAllString(md, "")
		if strings.ContainsAny(plain, "`\x1b") || regexp.MustCompile(`@[A-Za-z0-9]`).MatchString(plain) {
			t.Fatalf("unescaped: %q", md)
		}
		for line := range strings.Lines(plain) {
			if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|\n") {
				t.Fatalf("a broken row: %q", line)
			}
		}
	})
}

func TestVLLMBench(t *testing.T) {
	recs := make([]record.Record, 120)
	for i := range recs {
		at := int64(i/8) * 200_000
		recs[i] = record.Record{Index: int32(i), Scheduled: at, Sent: at + 10, FirstByte: at + 1000, FirstToken: at + 50_000, FirstContent: at + 50_000, LastToken: at + 150_000, End: at + 151_000 + int64(i%8),
			PromptTokens: 67, OutputTokens: 11, CachedTokens: -1, Events: 11, Status: 200, Finish: "length"}
	}
	recs[5].Err, recs[5].OutputTokens = record.ErrTimeout, -1
	run := build(1)
	run.Experiment.Model.Name = "tiny"
	tr := run.Trials[0]
	tr.Point = spec.Point{Concurrency: 8}
	tr.Client = result.Summarise(recs, result.SummaryOptions{InterChunk: &result.Dist{N: 1190, Mean: 0.01, P50: 0.01, P99: ptr(0.012)}})
	got, err := report.VLLMBench(run, tr, recs)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "vllm_bench.json", got)
	var ours, theirs map[string]any
	if err := json.Unmarshal(got, &ours); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/vllm_bench_serve_0.25.1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &theirs); err != nil {
		t.Fatal(err)
	}
	for k, v := range theirs {
		o, ok := ours[k]
		if !ok {
			t.Errorf("the field %s is missing", k)
		} else if o != nil && v != nil && fmt.Sprintf("%T", o) != fmt.Sprintf("%T", v) {
			t.Errorf("%s is a %T, in vllm's file a %T", k, o, v)
		}
	}
	for k, want := range map[string]float64{"completed": 119, "failed": 1, "total_input_tokens": 119 * 67, "total_output_tokens": 119 * 11, "max_concurrent_requests": 8, "max_concurrency": 8, "median_ttft_ms": 50, "mean_tpot_ms": 10, "p99_itl_ms": 12} {
		if got, ok := ours[k].(float64); !ok || got < want*(1-1e-12) || got > want*(1+1e-12) {
			t.Errorf("%s = %v, want %v", k, ours[k], want)
		}
	}
	open := run.Trials[0]
	open.Point = spec.Point{Rate: 2.5}
	run.Experiment.Load = spec.LoadLevels{Open: &spec.Open{Rates: []float64{2.5}, Arrival: "poisson"}}
	run.Experiment.Workload.API = workload.Completions
	if got, err = report.VLLMBench(run, open, recs[:20]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"request_rate": 2.5`, `"burstiness": 1`, `"max_concurrency": null`, `"backend": "openai"`, `"p99_ttft_ms": null`, `"mean_itl_ms": null`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if _, err := report.VLLMBench(run, result.Trial{ID: "x", Outcome: result.Missing}, nil); err == nil {
		t.Error("a trial that was not measured has a file")
	}
}
