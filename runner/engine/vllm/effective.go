package vllm

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Effective reads the vllm_config of /server_info. Only settings that are a flag's counterpart are mapped: what vLLM
// derives from several flags, or reports in another unit, is left out, because a difference would mean nothing. A
// setting that is null, undecided, is present with nil. Older servers answer with one long text instead of an object;
// nothing is mapped then.
func (Engine) Effective(serverInfo []byte) (map[string]any, error) {
	var doc struct {
		Config json.RawMessage `json:"vllm_config"`
	}
	if err := json.Unmarshal(serverInfo, &doc); err != nil {
		return nil, fmt.Errorf("parse the settings of vllm: %w", err)
	}
	out := map[string]any{}
	var config map[string]any
	if len(doc.Config) == 0 || doc.Config[0] != '{' {
		return out, nil
	}
	if err := json.Unmarshal(doc.Config, &config); err != nil {
		return nil, fmt.Errorf("parse the settings of vllm: %w", err)
	}
	for section, names := range sameName {
		part := within(config, section)
		for _, flag := range names {
			set(out, flag, part, strings.ReplaceAll(flag, "-", "_"))
		}
	}
	for _, c := range counterparts {
		set(out, c.flag, within(config, c.section), c.field)
	}
	if d, ok := out["dtype"].(string); ok {
		out["dtype"] = strings.TrimPrefix(d, "torch.")
	}
	if b, ok := out["attention-backend"].(string); ok {
		out["attention-backend"] = b[strings.LastIndexByte(b, '.')+1:]
	}
	if mode, ok := cudagraphMode(within(config, "compilation_config")["cudagraph_mode"]); ok {
		out["compilation-config.cudagraph_mode"] = mode
	}
	if spec, there := config["speculative_config"]; there && spec == nil {
		out["speculative-config"] = nil
	}
	return out, nil
}

// sameName lists, by section of vllm_config, the flags whose field has the flag's own name with underscores. "" is the
// top. A release that does not have a field does not report the flag.
var sameName = map[string][]string{
	"": {"optimization-level", "performance-mode", "shutdown-timeout"},
	"model_config": {
		"allow-deprecated-quantization", "code-revision", "config-format", "convert", "disable-cascade-attn",
		"disable-sliding-window", "dtype", "enable-cumem-allocator", "enable-prompt-embeds", "enable-sleep-mode",
		"enforce-eager", "generation-config", "hf-config-path", "logprobs-mode", "max-logprobs", "max-model-len",
		"model-impl", "quantization", "renderer-num-workers", "revision", "runner", "seed", "skip-tokenizer-init",
		"sleep-mode-backend", "tokenizer", "tokenizer-mode", "tokenizer-revision", "trust-remote-code", "use-fp64-gumbel",
	},
	"model_config.multimodal_config": {
		"interleave-mm-strings", "language-model-only", "mm-encoder-only", "mm-encoder-tp-mode", "mm-processor-cache-gb",
		"mm-processor-cache-type", "skip-mm-profiling",
	},
	"cache_config": {
		"block-size", "calculate-kv-scales", "enable-prefix-caching", "gpu-memory-utilization", "kv-cache-memory-bytes",
		"kv-offloading-backend", "kv-offloading-size", "kv-sharing-fast-prefill", "mamba-block-size", "mamba-cache-dtype",
		"mamba-cache-mode", "mamba-ssm-cache-dtype", "num-gpu-blocks-override", "prefix-caching-hash-algo",
		"prefix-match-unit",
	},
	"parallel_config": {
		"all2all-backend", "data-parallel-backend", "data-parallel-size", "decode-context-parallel-size",
		"disable-custom-all-reduce", "distributed-executor-backend", "enable-dbo", "enable-elastic-ep",
		"enable-ep-weight-filter", "enable-eplb", "enable-expert-parallel", "expert-placement-strategy", "nnodes",
		"numa-bind", "pipeline-parallel-size", "prefill-context-parallel-size", "tensor-parallel-size",
	},
	"scheduler_config": {
		"async-scheduling", "disable-chunked-mm-input", "disable-hybrid-kv-cache-manager", "enable-chunked-prefill",
		"long-prefill-token-threshold", "max-long-partial-prefills", "max-num-active-seqs", "max-num-batched-tokens",
		"max-num-partial-prefills", "max-num-queued-reqs", "max-num-queued-tokens", "max-num-scheduled-tokens",
		"max-num-seqs", "prefill-schedule-interval", "scheduler-reserve-full-isl", "stream-interval", "watermark",
	},
	"load_config": {
		"download-dir", "load-format", "safetensors-load-strategy", "safetensors-prefetch-block-size",
		"safetensors-prefetch-num-threads", "use-tqdm-on-load",
	},
	"kernel_config":      {"enable-flashinfer-autotune", "linear-backend", "moe-backend"},
	"additional_config":  {"gdn-prefill-backend"},
	"compilation_config": {"max-cudagraph-capture-size"},
	"observability_config": {
		"cudagraph-metrics", "enable-layerwise-nvtx-tracing", "enable-logging-iteration-details", "enable-mfu-metrics",
		"jit-monitor-mode", "jit-monitor-verbose", "kv-cache-metrics", "kv-cache-metrics-sample",
		"show-hidden-metrics-for-version",
	},
}

// counterparts are flags whose field has another name.
var counterparts = []struct{ flag, section, field string }{
	{"kv-cache-dtype", "cache_config", "cache_dtype"},
	{"scheduling-policy", "scheduler_config", "policy"},
	{"attention-backend", "attention_config", "backend"},
	{"mamba-backend", "mamba_config", "backend"},
	{"cpu-offload-gb", "offload_config.uva", "cpu_offload_gb"},
	{"offload-backend", "offload_config", "offload_backend"},
	{"reasoning-parser", "structured_outputs_config", "reasoning_parser"},
	{"spec-method", "speculative_config", "method"},
	{"spec-tokens", "speculative_config", "num_speculative_tokens"},
	{"compilation-config.mode", "compilation_config", "mode"},
	{"compilation-config.backend", "compilation_config", "backend"},
}

// within follows a dotted path of sections; what is not there is an empty section.
func within(config map[string]any, path string) map[string]any {
	if path == "" {
		return config
	}
	for _, name := range strings.Split(path, ".") {
		config, _ = config[name].(map[string]any)
	}
	return config
}

// set copies one field if it is there and is a plain value. Text such as "<object at 0x7f...>" is Python's way to say
// that it has no value to show.
func set(out map[string]any, flag string, section map[string]any, field string) {
	v, there := section[field]
	if !there {
		return
	}
	switch x := v.(type) {
	case nil, bool, float64:
	case string:
		if strings.HasPrefix(x, "<") {
			return
		}
	default:
		return
	}
	out[flag] = v
}

// cudagraphMode names the mode that vLLM serialises as a number, or as a pair (decode, mixed batches).
func cudagraphMode(v any) (string, bool) {
	names := [...]string{"NONE", "PIECEWISE", "FULL"}
	switch x := v.(type) {
	case float64:
		if i := int(x); float64(i) == x && i >= 0 && i < len(names) {
			return names[i], true
		}
	case []any:
		if len(x) != 2 || x[0] != 2.0 {
			return "", false
		}
		switch x[1] {
		case 0.0:
			return "FULL_DECODE_ONLY", true
		case 1.0:
			return "FULL_AND_PIECEWISE", true
		}
	case string:
		return x[strings.LastIndexByte(x, '.')+1:], x != ""
	}
	return "", false
}
