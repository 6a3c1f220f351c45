package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// section is a part of vllm_config.
type section map[string]any

// vllmConfig is the effective configuration in the shape of vLLM's /server_info: the settings that act, vLLM's
// defaults for the best known others, and every option that was given where vLLM would show it.
func (s *Server) vllmConfig() section {
	e, p, c := s.set.engine, s.prof, s.engine.Capacity()
	mode, graphs, mamba := 3, any([]int{2, 1}), "none"
	if e.Eager {
		mode, graphs = 0, 0
	}
	if p.Model.Hybrid && e.PrefixCaching {
		mamba = "align"
	}
	var quantization any
	if p.Model.Quantization != "" {
		quantization = p.Model.Quantization
	}
	out := section{
		"model_config": section{
			"model": s.cfg.Model, "tokenizer": s.cfg.Model, "served_model_name": s.set.served[0], "dtype": "torch." + p.Model.DType,
			"seed": 0, "revision": nil, "max_model_len": e.MaxModelLen, "quantization": quantization, "enforce_eager": e.Eager,
			"runner": "auto", "tokenizer_mode": "auto", "trust_remote_code": false, "max_logprobs": 20, "generation_config": "auto",
			"enable_sleep_mode": false, "skip_tokenizer_init": false, "disable_sliding_window": false, "model_impl": "auto",
			"multimodal_config": section{"language_model_only": false},
		},
		"cache_config": section{
			"block_size": c.BlockTokens, "gpu_memory_utilization": e.Utilization, "cache_dtype": "auto", "enable_prefix_caching": e.PrefixCaching,
			"prefix_caching_hash_algo": "sha256", "num_gpu_blocks": c.Blocks, "num_gpu_blocks_override": nil, "kv_cache_memory_bytes": nil,
			"kv_cache_size_tokens": c.Tokens, "kv_cache_max_concurrency": c.MaxConcurrency, "mamba_cache_mode": mamba,
		},
		"parallel_config": section{
			"tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1, "enable_expert_parallel": false,
			"distributed_executor_backend": "uni", "disable_custom_all_reduce": false,
		},
		"scheduler_config": section{
			"max_num_batched_tokens": e.BatchedTokens, "max_num_seqs": e.Seqs, "enable_chunked_prefill": e.ChunkedPrefill, "policy": "fcfs",
			"async_scheduling": true, "stream_interval": s.set.interval, "long_prefill_token_threshold": 0, "scheduler_reserve_full_isl": true,
		},
		"load_config":          section{"load_format": "auto", "download_dir": nil},
		"attention_config":     section{"backend": nil},
		"kernel_config":        section{"moe_backend": "auto", "linear_backend": "auto"},
		"additional_config":    section{},
		"compilation_config":   section{"mode": mode, "cudagraph_mode": graphs, "backend": "inductor"},
		"observability_config": section{"kv_cache_metrics": false, "cudagraph_metrics": false, "jit_monitor_mode": "warn"},
		"speculative_config":   nil,
		"optimization_level":   2, "performance_mode": "balanced", "shutdown_timeout": 0,
	}
	for name, v := range s.cfg.Flags {
		s.report(out, name, v)
	}
	for _, w := range s.faults.wrongEffective {
		s.report(out, w.flag, typed(w.value))
	}
	return out
}

// renamed are options that vLLM shows under another name than their own.
var renamed = map[string]string{
	"kv-cache-dtype": "cache_config.cache_dtype", "scheduling-policy": "scheduler_config.policy", "attention-backend": "attention_config.backend",
	"gdn-prefill-backend": "additional_config.gdn_prefill_backend", "mamba-backend": "mamba_config.backend",
	"reasoning-parser": "structured_outputs_config.reasoning_parser", "spec-method": "speculative_config.method",
	"spec-tokens": "speculative_config.num_speculative_tokens", "cpu-offload-gb": "offload_config.uva.cpu_offload_gb",
}

// computed are options whose shown value comes from the settings above, or that vLLM does not show as given.
var computed = map[string]bool{
	"max-model-len": true, "served-model-name": true, "model": true, "tokenizer": true, "compilation-config": true, "api-key": true,
	"host": true, "port": true,
}

// report puts one option where vLLM shows it, if anywhere.
func (s *Server) report(config section, name string, v any) {
	head, _, dotted := strings.Cut(name, ".")
	isFault := false
	for _, w := range s.faults.wrongEffective {
		isFault = isFault || w.flag == name
	}
	switch {
	case dotted:
		setPath(config, strings.ReplaceAll(head, "-", "_")+name[len(head):], v)
	case renamed[name] != "":
		setPath(config, renamed[name], v)
	case computed[name] && !isFault:
	case name == "dtype":
		if v != "auto" {
			setPath(config, "model_config.dtype", fmt.Sprintf("torch.%v", v))
		}
	case name == "block-size" && s.prof.Model.Hybrid && !isFault:
	default:
		field := strings.ReplaceAll(name, "-", "_")
		if path, ok := findField(config, "", field); ok {
			setPath(config, path, v)
		}
	}
}

// findField looks for a field by its name, sections first to last in no order: names are unique.
func findField(c section, prefix, field string) (string, bool) {
	if v, ok := c[field]; ok {
		if _, sub := v.(section); !sub {
			return prefix + field, true
		}
	}
	for name, v := range c {
		if sub, ok := v.(section); ok {
			if path, found := findField(sub, prefix+name+".", field); found {
				return path, true
			}
		}
	}
	return "", false
}

func setPath(c section, path string, v any) {
	for {
		head, rest, more := strings.Cut(path, ".")
		if !more {
			c[head] = v
			return
		}
		sub, ok := c[head].(section)
		if !ok {
			sub = section{}
			c[head] = sub
		}
		c, path = sub, rest
	}
}

// serverInfo is the body of /server_info?config_format=json.
func (s *Server) serverInfo() ([]byte, error) {
	return json.Marshal(section{
		"vllm_config": s.vllmConfig(),
		"vllm_env":    section{"VLLM_SERVER_DEV_MODE": true},
		"system_env": section{
			"simulated": true, "profile": s.prof.Name, "speed": s.cfg.Speed, "faults": s.cfg.Faults, "noise_seed": s.cfg.Seed,
			"vllm_version": s.cfg.Version,
		},
	})
}

// cacheInfo are the labels of cache_config_info, as Python prints the values.
func (s *Server) cacheInfo() map[string]string {
	e, c := s.set.engine, s.engine.Capacity()
	python := map[bool]string{true: "True", false: "False"}
	return map[string]string{
		"block_size": strconv.Itoa(c.BlockTokens), "cache_dtype": "auto", "enable_prefix_caching": python[e.PrefixCaching],
		"gpu_memory_utilization": strconv.FormatFloat(e.Utilization, 'f', -1, 64), "num_gpu_blocks": strconv.Itoa(c.Blocks),
		"kv_cache_size_tokens": strconv.Itoa(c.Tokens), "kv_cache_max_concurrency": strconv.FormatFloat(c.MaxConcurrency, 'f', -1, 64),
		"prefix_caching_hash_algo": "sha256", "num_cpu_blocks": "None", "num_gpu_blocks_override": "None", "kv_cache_memory_bytes": "None",
		"is_attention_free": "False", "sliding_window": "None", "simulated": "True",
	}
}

// typed reads a value from the command line: true and false, numbers, JSON lists and objects; the rest is text.
func typed(s string) any {
	switch s {
	case "true", "True":
		return true
	case "false", "False":
		return false
	case "None", "null":
		return nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if x, err := strconv.ParseFloat(s, 64); err == nil && x-x == 0 {
		return x
	}
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		var v any
		if json.Unmarshal([]byte(s), &v) == nil {
			return v
		}
	}
	return s
}
