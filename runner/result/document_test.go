package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/metric"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/workload"
)

func ptr[T any](v T) *T { return &v }

// full is a document with something in every field.
func full() *result.Run {
	began := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	d := &result.Dist{N: 100, Mean: 0.2, Min: 0.1, P50: 0.19, P90: 0.3, P95: 0.35, P99: ptr(0.4), Max: 0.5}
	point := spec.Point{Concurrency: 16}
	return &result.Run{
		Schema: result.Schema, RunKey: strings.Repeat("0123456789abcdef", 4), Simulated: true, Synthetic: "random weights", Verdict: result.Pass, Reason: "all gates passed",
		Started: began, Ended: began.Add(5 * time.Minute),
		Tool: result.Tool{Version: "v0.1.0", Go: "go1.26", LoadGenerator: "1", VictoriaMetrics: "v1.151.0"},
		Host: result.Host{OS: "linux", Arch: "amd64", Kernel: "6.1", CPU: "a CPU", Cores: 2, CPUQuota: ptr(2.0), MemoryBytes: ptr(int64(8 << 30)),
			GPUs: []result.GPU{{Name: "NVIDIA H200", Driver: "580.159.04", MemoryBytes: ptr(int64(141 << 30)), PowerLimitW: ptr(700.0)}}, Fingerprint: strings.Repeat("ab", 32)},
		Where: "process",
		Experiment: &spec.Experiment{APIVersion: spec.APIVersion, Kind: spec.Kind, Name: "default-vs-optimized", Description: "An A/B.",
			Model:    engine.Model{Name: "Qwen/Qwen3.6-35B-A3B-FP8", Revision: "0123abc"},
			Engine:   spec.Engine{Name: "sim", Version: "0.25.1", Flags: []engine.Flag{{Name: "max-model-len", Value: int64(8192)}}, Env: map[string]string{"VLLM_LOGGING_LEVEL": "INFO"}},
			Configs:  []spec.Config{{Name: "default", Flags: []engine.Flag{{Name: "enforce-eager", Value: true}}}},
			Workload: workload.Workload{API: workload.Chat, Text: "Explain GPUs simply", Output: workload.Output{Tokens: 512}, Cache: workload.Warm},
			Load:     spec.LoadLevels{Closed: &spec.Closed{Concurrency: []int{16}, Requests: 100}, Timeout: 10 * time.Minute}, Starts: 1,
			SLO: []spec.SLO{{Name: "latency", Query: "share_gt_over_time(bench_request_latency_seconds[$window], 2)", Max: 0.01, Unit: "%", Gate: true}}},
		Plan:  result.Plan{Seed: math.MaxUint64, Order: []string{"s01 default"}, Estimate: plan.Estimate{Starts: 1, Trials: 1, Requests: 100, Basis: "profile"}},
		Floor: &result.Floor{Streams: 256, IntervalS: 0.01, ErrorP50: 1e-4, ErrorP99: 1e-3, CPUPerEvent: 1e-5, EventsPerSecond: 1e5, LatenessP99: 1e-4, When: began},
		Starts: []result.Start{{ID: "s01", Config: "default", Repeat: 1, Block: 1, Attempt: 1, Argv: []string{"vllm", "serve"}, Began: began, ReadyS: ptr(60.0), EngineS: ptr(120.0),
			Version: "0.25.1", Effective: map[string]any{"enforce-eager": true, "max-model-len": 8192.0}, Differs: []result.Difference{{Flag: "x", Requested: 1.0, Effective: nil}},
			Facts: []engine.LogFact{{Kind: engine.FactInit, Value: 3.65}}, Series: map[engine.Quantity]string{engine.QTTFT: "vllm:time_to_first_token_seconds"}, Log: "server_default_1.log", Error: "none"}},
		Trials: []result.Trial{{ID: "default-c16-1", Config: "default", Point: point, Repeat: 1, Start: "s01", Attempt: 1, Outcome: result.Measured, Error: "none", Seed: 7, Workload: "ff",
			Window: &result.Window{T0: began, T1: began.Add(time.Minute), Seconds: 60},
			Client: &result.Client{Requests: 100, Succeeded: 99, Failed: 1, Errors: map[string]int{"timeout": 1}, ErrorDetail: "late", WallSeconds: ptr(60.0), PromptTokens: ptr(int64(1500)), OutputTokens: ptr(int64(50000)),
				CachedTokens: ptr(int64(0)), RequestsPerS: ptr(1.65), OutputPerS: ptr(833.3), TTFT: d, TTFTSent: ptr(0.2), TPOT: d, E2E: d, InterChunk: d, Coalesced: ptr(0.01), OutputLength: d, PromptLength: d, MeanInFlight: ptr(15.5)},
			Server: &result.Server{Requests: ptr(99.0), PromptTokens: ptr(1500.0), OutputTokens: ptr(50000.0), PrefixQueries: ptr(1500.0), PrefixHits: ptr(0.0), Preemptions: ptr(0.0), MeanTTFT: ptr(0.19), MeanE2E: ptr(0.2),
				MeanITL: ptr(0.01), MeanQueue: ptr(0.0), MeanRunning: ptr(15.9), MaxKVUsage: ptr(0.1), Restarted: ptr(false), JIT: 1, JITKernels: []string{"fused_moe_kernel"}, Samples: ptr(int64(1234))},
			Agree:   []result.Agreement{{What: "requests", Client: ptr(99.0), Server: ptr(99.0), Agrees: ptr(true), Limit: "equal"}},
			Load:    &result.LoadHealth{CPU: ptr(0.1), SchedP99: ptr(1e-4), LatenessP99: ptr(1e-4), NewConns: 0, Capped: 0, PeakRSSBytes: ptr(int64(1 << 26))},
			SLO:     []result.Judgement{{Name: "latency", Query: "share_gt_over_time(x[60s], 2)", Value: ptr(0.0), Samples: ptr(int64(100)), Max: ptr(0.01), Unit: "%", Gate: true, Verdict: result.Pass, Reason: "1 of 100 requests failed"}},
			Prompts: &result.Prompts{Distinct: 1},
			Machine: &result.Machine{CPUBusy: &result.Share{Mean: 0.4, Max: ptr(0.6)}, CPUSteal: &result.Share{Mean: 0.01, Max: ptr(0.02)}, Throttled: ptr(0.0), LoadAverage: ptr(3.2), EnergyJ: ptr(36000.0), JoulesPerToken: ptr(0.72),
				GPUs: []result.GPUUse{{Index: 0, ID: "GPU-12345678", Name: "NVIDIA H200", Driver: "580.159.04", PowerLimitW: ptr(700.0), Used: ptr(true), Samples: 60, GapS: 1.002,
					SMClock: &result.Spread{Min: 1.7e9, Median: 1.98e9, Max: 1.98e9}, MemoryClock: &result.Spread{Min: 3.2e9, Median: 3.2e9, Max: 3.2e9}, PowerW: ptr(600.0), EnergyJ: ptr(36000.0),
					Temperature: ptr(57.0), Utilization: ptr(0.99), MemoryBytes: ptr(int64(100 << 30)), Reasons: map[string]float64{"power-cap": 0.02}, Others: []result.GPUProcess{{PID: 7, MemoryBytes: ptr(int64(1 << 30))}}}}},
			Steady: &result.Steady{From: 0.1, To: 50, Seconds: 49.9, Waves: 2, FullWaves: 1, Tail: 36, RequestsPerS: ptr(2.0), OutputPerS: ptr(1000.0), InFlight: ptr(16.0), EdgeShare: ptr(0.01),
				TTFTDrift: &result.Drift{First: 1, Second: 2, Change: 1, Noise: 0.1, N: 16}, TPOTDrift: &result.Drift{First: 1, Second: 2, Change: 1, Noise: 0.1, N: 16}, Precision: ptr(0.1), Asked: 0.03, NeedRequests: 200, Wave: "two waves"},
			Checks:  []result.Check{{Name: "drift", Title: "it drifts", Status: result.CheckFailed, Measured: "100 %", Limit: "10 %", Invalidates: true, Consequence: "no single value", Fix: "warm up"}},
			Verdict: result.Pass, Reason: "none", Held: ptr(true)}},
		Checks: []result.Check{{Name: "starts", Status: result.CheckOK, Measured: "3 starts"}},
		Gates:  []result.Gate{{SLO: "latency", Config: "default", Point: point, Gate: true, Verdict: result.Pass, Worst: ptr(0.0), Max: ptr(0.01), Unit: "%", Reason: "none"}},
		Capacity: []result.Capacity{{Config: "default", Unit: "concurrency", Value: ptr(16.0), Censored: "at-least", Low: ptr(15.0), High: ptr(18.0), Note: "none", Trials: 12, LimitedBy: "latency", AtLeast: ptr(8.0), Verdict: result.Pass, Min: 1, Max: 16,
			Starts: []result.CapacityStart{{Start: "s01", Repeat: 1, Holds: ptr(16.0), Fails: ptr(17.0), Trials: 12, Stopped: "no", NotMonotone: "no", Disagree: []float64{16.5},
				Limits: []result.CapacityLimit{{Objective: "latency", AtHolds: ptr(0.0), AtFails: ptr(0.1), Max: ptr(0.01), Min: ptr(0.0), Unit: "%"}}}}}},
		Warnings: []plan.Warning{{Code: "inert-factor", Experiment: "default-vs-optimized", Factor: "enable-prefix-caching", Message: "it cannot act", Line: 3, Column: 5}},
		Files:    []result.File{{Path: "report.md", Bytes: 10, SHA256: strings.Repeat("00", 32)}},
	}
}

func filled() *result.Run {
	r := full()
	r.Cells = result.Cells(r.Trials)
	r.Cells[0].Verdict = result.Pass
	return r
}

func marshal(t *testing.T, r *result.Run) []byte {
	t.Helper()
	b, err := result.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	run := filled()
	before := marshal(t, run)
	again, err := result.Decode(before)
	if err != nil {
		t.Fatal(err)
	}
	if b := marshal(t, again); !bytes.Equal(b, before) {
		t.Errorf("reading and writing changes the document:\n%s\n---\n%s", before, b)
	}
	if again.Plan.Seed != math.MaxUint64 {
		t.Errorf("the seed became %d", again.Plan.Seed)
	}
}

func TestMarshalEmpty(t *testing.T) {
	run := &result.Run{Schema: result.Schema, Experiment: &spec.Experiment{}}
	b := string(marshal(t, run))
	for _, field := range []string{"starts", "trials", "cells", "gates", "files", "order"} {
		if !strings.Contains(b, `"`+field+`": []`) {
			t.Errorf("%s is not an empty list:\n%s", field, b)
		}
	}
	if run.Trials != nil {
		t.Error("Marshal changed its argument")
	}
}

func TestMarshalFailure(t *testing.T) {
	run := filled()
	run.Trials[0].Client.RequestsPerS = ptr(math.Inf(1))
	if b, err := result.Marshal(run); err == nil {
		t.Errorf("an infinity was written: %s", b)
	}
}

// TestCommittedDocument: what a released program wrote stays readable for ever. The file is never rewritten.
func TestCommittedDocument(t *testing.T) {
	dir := filepath.Join("testdata", "v1")
	run, err := result.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := run.Trials[0].Client
	if run.Verdict != result.Pass || run.Experiment.Name != "default-vs-optimized" || c.TTFT.P50 != 0.19 || *run.Cells[0].TTFTP50.Starts[0] != 0.19 || run.Plan.Seed != math.MaxUint64 {
		t.Errorf("the document is read wrongly: %+v", run)
	}
	raw, err := os.ReadFile(filepath.Join(dir, result.FileName))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, raw)
}

func TestDecodeFailure(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		_, err := result.Decode([]byte(doc))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%q): %v; want %q in it", doc, err, want)
		}
	}
	f(``, "not a result document")
	f(`[]`, "not a result document")
	f(`{}`, `names no schema`)
	f(`{"schema":1}`, "not a result document")
	f(`{"schema":"bench/result/v1"}`, "no experiment")
	f(`{"schema":"bench/result/v1","trials":{}}`, "not a result document of schema")
	f(`{"schema":"bench/result/v1","experiment":{}} x`, "not a result document")
	f(`{"schema":"bench/result/v9","tool":{"version":"v7.0.0"}}`, `"bench/result/v9" and was written by benchctl "v7.0.0"; this program reads "bench/result/v1"`)
	if _, err := result.Decode([]byte(`{"schema":"bench/result/v9"}`)); !errors.Is(err, result.ErrSchema) {
		t.Errorf("another version: %v is no ErrSchema", err)
	}
	if _, err := result.Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestSchemaGolden(t *testing.T) {
	got, err := result.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "reference", "result.schema.json")
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
		t.Errorf("%s is stale: BENCH_UPDATE=1 go test ./runner/result rewrites it", path)
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := result.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("result.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("result.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, doc []byte) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := compile(t).Validate(v); err != nil {
		t.Errorf("the document does not follow its schema: %v", err)
	}
}

// TestSchemaAccepts: documents that Marshal writes, with everything and with as little as there can be.
func TestSchemaAccepts(t *testing.T) {
	validate(t, marshal(t, filled()))
	least := filled()
	least.Floor, least.Host.GPUs, least.Host.CPUQuota, least.Starts[0].Effective, least.Starts[0].ReadyS = nil, nil, nil, nil, nil
	least.Trials[0] = result.Trial{ID: "x", Point: least.Trials[0].Point, Outcome: result.Missing, Verdict: result.Error}
	least.Cells = result.Cells(least.Trials)
	least.Cells[0].Verdict = result.Error
	validate(t, marshal(t, least))
}

func TestSchemaRejects(t *testing.T) {
	s := compile(t)
	f := func(name string, change func(doc map[string]any)) {
		t.Helper()
		var doc map[string]any
		if err := json.Unmarshal(marshal(t, filled()), &doc); err != nil {
			t.Fatal(err)
		}
		change(doc)
		if err := s.Validate(doc); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	f("another version", func(d map[string]any) { d["schema"] = "bench/result/v9" })
	f("an unknown verdict", func(d map[string]any) { d["verdict"] = "MAYBE" })
	f("a missing list", func(d map[string]any) { delete(d, "trials") })
	f("a text for a number", func(d map[string]any) {
		d["trials"].([]any)[0].(map[string]any)["client"].(map[string]any)["requests"] = "100"
	})
}

// TestEveryNumberIsDefined: each number of a trial has its row in docs/reference/metrics.md.
func TestEveryNumberIsDefined(t *testing.T) {
	notNumbers := map[string]bool{"errors": true, "error_detail": true, "restarted": true, "jit_kernels": true, "wave": true,
		"gpus": true, "index": true, "id": true, "name": true, "driver": true, "used": true, "other_processes": true}
	for prefix, typ := range map[string]reflect.Type{"steady.": reflect.TypeFor[result.Steady](), "client.": reflect.TypeFor[result.Client](), "server.": reflect.TypeFor[result.Server](), "load_health.": reflect.TypeFor[result.LoadHealth](),
		"machine.": reflect.TypeFor[result.Machine](), "gpu.": reflect.TypeFor[result.GPUUse]()} {
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if _, ok := metric.Find(prefix + name); !ok && !notNumbers[name] {
				t.Errorf("%s%s is not in runner/metric", prefix, name)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join("testdata", "v1", result.FileName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"schema":"bench/result/v1","experiment":{"name":"x"}}`))
	f.Add([]byte(`{"schema":"bench/result/v2"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		run, err := result.Decode(b)
		if err != nil {
			return
		}
		once, err := result.Marshal(run)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := result.Decode(once)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if twice, err := result.Marshal(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable (%v):\n%s\n%s", err, once, twice)
		}
	})
}
