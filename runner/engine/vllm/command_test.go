package vllm_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/vllm"
)

func launch(flags ...engine.Flag) engine.Launch {
	return engine.Launch{
		Binary: []string{"vllm"}, Model: engine.Model{Name: "Qwen/Qwen3.6-35B-A3B-FP8", Revision: "abc123"},
		Version: "0.25.1", Host: "127.0.0.1", Port: 8000, Flags: flags,
	}
}

func TestCommandSuccess(t *testing.T) {
	const head = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --served-model-name Qwen/Qwen3.6-35B-A3B-FP8 --revision abc123 --host 127.0.0.1 --port 8000"
	for _, x := range []struct {
		name string
		l    engine.Launch
		want string // arguments joined with one space
	}{
		{"nothing", launch(), head},
		{"booleans, both ways", launch(engine.Flag{Name: "enable-prefix-caching", Value: false}, engine.Flag{Name: "enforce-eager", Value: true}),
			head + " --no-enable-prefix-caching --enforce-eager"},
		{"a boolean without a --no- form", launch(engine.Flag{Name: "disable-log-stats", Value: false}), head},
		{"the same one, on", launch(engine.Flag{Name: "disable-log-stats", Value: true}), head + " --disable-log-stats"},
		{"numbers", launch(engine.Flag{Name: "gpu-memory-utilization", Value: 0.85}, engine.Flag{Name: "max-model-len", Value: int64(8192)}, engine.Flag{Name: "kv-cache-memory-bytes", Value: 1e12}),
			head + " --gpu-memory-utilization 0.85 --max-model-len 8192 --kv-cache-memory-bytes 1000000000000"},
		{"a value that looks like an option", launch(engine.Flag{Name: "max-model-len", Value: int64(-1)}), head + " --max-model-len=-1"},
		{"text", launch(engine.Flag{Name: "max-model-len", Value: "32k"}, engine.Flag{Name: "kv-cache-dtype", Value: "fp8"}), head + " --max-model-len 32k --kv-cache-dtype fp8"},
		{"a list of an option that repeats", launch(engine.Flag{Name: "cudagraph-capture-sizes", Value: []any{int64(1), int64(2), int64(4)}}), head + " --cudagraph-capture-sizes 1 2 4"},
		{"a list of an option that takes JSON", launch(engine.Flag{Name: "allowed-origins", Value: []any{"*"}}), head + ` --allowed-origins ["*"]`},
		{"a map", launch(engine.Flag{Name: "speculative-config", Value: map[string]any{"num_speculative_tokens": int64(2), "method": "mtp"}}),
			head + ` --speculative-config {"method":"mtp","num_speculative_tokens":2}`},
		{"a part of a map", launch(engine.Flag{Name: "compilation-config.cudagraph_mode", Value: "NONE"}, engine.Flag{Name: "compilation-config.use_inductor_graph_partition", Value: false}),
			head + " --compilation-config.cudagraph_mode NONE --compilation-config.use_inductor_graph_partition false"},
		{"a folder", engine.Launch{Binary: []string{"/opt/py", "-m", "vllm"}, Model: engine.Model{Name: "tiny", Path: "/models/tiny", Revision: "abc"}, Version: "0.25.1", Host: "::1", Port: 1},
			"/opt/py -m vllm serve /models/tiny --served-model-name tiny --host ::1 --port 1"},
	} {
		got, err := vllm.Engine{}.Command(x.l)
		if err != nil || strings.Join(got.Argv, " ") != x.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", x.name, strings.Join(got.Argv, " "), err, x.want)
		}
	}
}

func TestCommandFailure(t *testing.T) {
	with := func(change func(*engine.Launch)) engine.Launch {
		l := launch()
		change(&l)
		return l
	}
	for _, x := range []struct {
		name string
		l    engine.Launch
		want string
	}{
		{"no binary", with(func(l *engine.Launch) { l.Binary = nil }), "no binary"},
		{"no model", with(func(l *engine.Launch) { l.Model = engine.Model{} }), "not the name of a model"},
		{"model that is an option", with(func(l *engine.Launch) { l.Model.Name = "--trust-remote-code" }), "not the name of a model"},
		{"path that is an option", with(func(l *engine.Launch) { l.Model.Path = "-x" }), "not the name of a model"},
		{"no port", with(func(l *engine.Launch) { l.Port = 0 }), "port 0"},
		{"unknown flag", launch(engine.Flag{Name: "enable-prefix-cashing", Value: true}), "enable-prefix-cashing"},
		{"removed flag", launch(engine.Flag{Name: "swap-space", Value: int64(4)}), "swap-space"},
		{"twice", launch(engine.Flag{Name: "seed", Value: int64(1)}, engine.Flag{Name: "seed", Value: int64(2)}), "seed is given twice"},
		{"a value for a boolean", launch(engine.Flag{Name: "enforce-eager", Value: "true"}), "enforce-eager: it is on or off"},
		{"a boolean for a value", launch(engine.Flag{Name: "max-model-len", Value: true}), "max-model-len: it takes a value"},
		{"no value", launch(engine.Flag{Name: "max-model-len"}), "max-model-len: a value of type"},
		{"NaN", launch(engine.Flag{Name: "gpu-memory-utilization", Value: math.NaN()}), "gpu-memory-utilization: NaN"},
		{"empty list", launch(engine.Flag{Name: "cudagraph-capture-sizes", Value: []any{}}), "cudagraph-capture-sizes: an empty list"},
		{"list with an option", launch(engine.Flag{Name: "allowed-media-domains", Value: []any{"--port"}}), "allowed-media-domains: the list's"},
		{"list for one value", launch(engine.Flag{Name: "seed", Value: []any{int64(1)}}), "seed: it takes one value"},
		{"map for a list", launch(engine.Flag{Name: "cudagraph-capture-sizes", Value: map[string]any{"a": int64(1)}}), "cudagraph-capture-sizes: it takes one value"},
		{"part of a boolean", launch(engine.Flag{Name: "enforce-eager.x", Value: int64(1)}), "enforce-eager.x"},
		{"secret", launch(engine.Flag{Name: "api-key", Value: "k"}), "api-key: a secret"},
		{"part of a reserved one", launch(engine.Flag{Name: "hf-token.x", Value: "k"}), "hf-token.x: a secret"},
		{"port as a flag", launch(engine.Flag{Name: "port", Value: int64(1)}), "port: the port is chosen"},
	} {
		got, err := vllm.Engine{}.Command(x.l)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %q, %v; want an error with %q", x.name, got.Argv, err, x.want)
		}
	}
}

func TestCommandEnvironment(t *testing.T) {
	l := launch()
	l.Env = map[string]string{"VLLM_CACHE_ROOT": "/cache", "DO_NOT_TRACK": "0"}
	kept := maps.Clone(l.Env)
	got, err := vllm.Engine{}.Command(l)
	want := map[string]string{"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "0", "PYTHONUNBUFFERED": "1", "VLLM_CACHE_ROOT": "/cache"}
	if err != nil || !maps.Equal(got.Env, want) {
		t.Errorf("Env = %v, %v; want %v", got.Env, err, want)
	}
	if !maps.Equal(l.Env, kept) {
		t.Errorf("the launch's environment was changed to %v", l.Env)
	}
}

// TestCommandKeepsBinary: appending to a caller's slice with spare room would write into its memory.
func TestCommandKeepsBinary(t *testing.T) {
	l := launch()
	l.Binary = append(make([]string, 0, 16), "vllm")
	if _, err := (vllm.Engine{}).Command(l); err != nil {
		t.Fatal(err)
	}
	if spare := l.Binary[:2]; !slices.Equal(spare, []string{"vllm", ""}) {
		t.Errorf("the memory behind Binary became %q", spare)
	}
}
