package vllm_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/vllm"
)

// TestLogLineRecorded compares the facts of every recorded log with the file beside it. BENCH_UPDATE=1 rewrites those.
func TestLogLineRecorded(t *testing.T) {
	logs, err := filepath.Glob("testdata/*/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no recorded logs: %v", err)
	}
	for _, name := range logs {
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(name, ".log") + ".facts"
		got := facts(t, log)
		if os.Getenv("BENCH_UPDATE") != "" {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s says something else than %s:\n%s", name, golden, got)
		}
	}
}

// facts renders the facts of a log, a line each, without the warnings and errors that are only copied.
func facts(t *testing.T, log []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for line := range bytes.SplitSeq(log, []byte("\n")) {
		f, ok := vllm.Engine{}.LogLine(string(line))
		if !ok {
			continue
		}
		at := ""
		if !f.Time.IsZero() {
			at = f.Time.Format("01-02 15:04:05 ")
		}
		out.WriteString(at)
		if err := enc.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestLogLineSuccess(t *testing.T) {
	const core = "(EngineCore pid=873) INFO 12-01 09:12:17 [x.py:1] "
	for _, x := range []struct {
		line string
		want engine.LogFact
	}{
		{core + "Model loading took 33.38 GiB and 2.547275 seconds", engine.LogFact{Kind: engine.FactModelLoad, Value: 2.547275, Text: "33.38 GiB"}},
		{core + "torch.compile takes 12.5 s in total", engine.LogFact{Kind: engine.FactCompile, Value: 12.5}},
		{core + "init engine (profile, create kv cache, warmup model) took 58.70 seconds", engine.LogFact{Kind: engine.FactInit, Value: 58.7}},
		{core + "Setting kv cache block size to 64 for FLASHMLA backend.", engine.LogFact{Kind: engine.FactBlockSize, Value: 64}},
		{core + "[XPU]Setting attention block size to 64 tokens to ensure multiple of 64, ", engine.LogFact{Kind: engine.FactBlockSize, Value: 64}},
		{core + "vLLM API server version 0.11.2", engine.LogFact{Kind: engine.FactVersion, Text: "0.11.2"}},
		{"\x1b[0;36m(EngineCore_DP0 pid=7)\x1b[0;0m WARNING 02-29 00:00:01 [jit_monitor.py:129] Triton kernel JIT compilation during inference: fused_moe_kernel (num_warps=4). This causes a latency spike; consider",
			engine.LogFact{Kind: engine.FactJIT, Text: "fused_moe_kernel"}},
		{"CuTeDSL kernel JIT compilation during inference: k.", engine.LogFact{Kind: engine.FactJIT, Text: "k"}},
		{"Capturing CUDA graphs:  50%|##  | 1/2 [00:00<00:00]\r" + core + "Graph capturing finished in 37 secs, took 1.11 GiB\r", engine.LogFact{Kind: engine.FactGraphCapture, Value: 37, Text: "1.11 GiB"}},
		{"INFO:     Application startup complete.", engine.LogFact{Kind: engine.FactReady}},
		{"CRITICAL 12-01 09:12:17 [x.py:1] gone", engine.LogFact{Kind: engine.FactError, Text: "gone"}},
	} {
		got, ok := vllm.Engine{}.LogLine(x.line)
		if carries := strings.Contains(x.line, ":1"); carries == got.Time.IsZero() {
			t.Errorf("LogLine(%q): time %v", x.line, got.Time)
		}
		got.Time = x.want.Time
		if !ok || got != x.want {
			t.Errorf("LogLine(%q)\n got %+v, %v\nwant %+v", x.line, got, ok, x.want)
		}
	}
}

func TestLogLineFailure(t *testing.T) {
	const core = "(EngineCore pid=873) INFO 12-01 09:12:17 [x.py:1] "
	for _, line := range []string{
		core + "Kernel JIT monitor activated; monitored JIT compilations during inference will use mode=warn.",
		core + "torch.compile took 5 s and profiling 3 s",
		core + "Model loading took forever",
		core + "GPU KV cache size: many tokens",
		core + "Maximum concurrency for 8,192 tokens per request",
		core + "init engine (",
		core + "a version 3 of something",
		core + "Resolved architecture: ",
		"(EngineCore pid=873) ERROR 12-01 09:12:17 [x.py:1]   File \"a.py\", line 1, in f",
		"(EngineCore pid=873) ERROR 12-01 09:12:17 [x.py:1] Traceback (most recent call last):",
		"(EngineCore pid=873) ERROR 12-01 09:12:17 [x.py:1] ",
		"(EngineCore pid=873) WARNING 12-01 09:12:17 [x.py:1]",
		"Graph capturing finished in",
	} {
		if f, ok := (vllm.Engine{}).LogLine(line); ok {
			t.Errorf("LogLine(%q) = %+v, want nothing", line, f)
		}
	}
}

func FuzzLogLine(f *testing.F) {
	for _, log := range readLogs(f) {
		for line := range strings.SplitSeq(log, "\n") {
			f.Add(line)
		}
	}
	f.Add("(a pid=1) ERROR 02-30 99:99:99 [x] m")
	f.Add("\x1b[31mINFO\x1b[0m \r")
	f.Fuzz(func(t *testing.T, line string) {
		got, ok := vllm.Engine{}.LogLine(line)
		if !ok && got != (engine.LogFact{}) || ok && got.Kind == "" {
			t.Errorf("LogLine(%q) = %+v, %v", line, got, ok)
		}
		if len(got.Text) > 300 || !utf8.ValidString(got.Text) || strings.Contains(got.Text, "\r") || got.Value < 0 {
			t.Errorf("LogLine(%q) = %+v", line, got)
		}
		if ok && !got.Time.IsZero() && got.Time.Year() != 0 {
			t.Errorf("LogLine(%q) knows the year %d", line, got.Time.Year())
		}
	})
}

// readLogs returns all recorded logs.
func readLogs(tb testing.TB) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"testdata/*/*.log"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			tb.Fatalf("no recorded logs: %v", err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				tb.Fatal(err)
			}
			out[strings.TrimPrefix(filepath.ToSlash(name), "testdata/")] = string(b)
		}
	}
	return out
}
