// Package vllm says how vLLM's OpenAI server is started and how its answers, metrics and log are read. It does no I/O
// and starts nothing.
//
// Wording, names and shapes were read from the answers and logs of real servers 0.25.1 and 0.32.0 (testdata) and from
// vLLM's source; what is older than 0.11 is not covered.
package vllm

import (
	"encoding/json"
	"errors"
	"fmt"

	"h100-inference-control-plane/runner/engine"
)

// Engine is vLLM. The zero value is ready.
type Engine struct{}

var _ engine.Engine = Engine{}

// Name is "vllm".
func (Engine) Name() string { return "vllm" }

// Simulated is false.
func (Engine) Simulated() bool { return false }

// Endpoints are those of `vllm serve`; ServerInfo and ResetPrefixCache exist because Command sets
// VLLM_SERVER_DEV_MODE, and may be absent on a server that was started elsewhere.
func (Engine) Endpoints() engine.Endpoints {
	return engine.Endpoints{
		Health:           "/health",
		Version:          "/version",
		Models:           "/v1/models",
		Metrics:          "/metrics",
		ServerInfo:       "/server_info?config_format=json",
		ResetPrefixCache: "/reset_prefix_cache",
		Chat:             "/v1/chat/completions",
		Completions:      "/v1/completions",
		Tokenize:         "/tokenize",
	}
}

// ParseVersion reads {"version":"0.25.1"}.
func (Engine) ParseVersion(body []byte) (string, error) {
	var doc struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return "", fmt.Errorf("parse the version of vllm: %w", err)
	}
	if doc.Version == "" {
		return "", errors.New("parse the version of vllm: the answer names none")
	}
	return doc.Version, nil
}

// Series gives vLLM's names, newest first, with the _total that its exposition adds to counters. A name that counted
// in another unit is left out: gpu_prefix_cache_{queries,hits} were blocks in early V1, and all releases with a flag
// table have the names that count tokens. gpu_cache_usage_perc gave way to kv_cache_usage_perc and
// time_per_output_token_seconds to inter_token_latency_seconds in 0.11 (vllm#24110); both old names were gone by 0.15.
func (Engine) Series() []engine.Series {
	return []engine.Series{
		{Quantity: engine.QPromptTokens, Kind: engine.Counter, Names: []string{"vllm:prompt_tokens_total"}},
		{Quantity: engine.QPromptTokensCached, Kind: engine.Counter, Names: []string{"vllm:prompt_tokens_cached_total"}},
		{Quantity: engine.QGenerationTokens, Kind: engine.Counter, Names: []string{"vllm:generation_tokens_total"}},
		{Quantity: engine.QRequestSuccess, Kind: engine.Counter, Names: []string{"vllm:request_success_total"}},
		{Quantity: engine.QPrefixQueries, Kind: engine.Counter, Names: []string{"vllm:prefix_cache_queries_total"}},
		{Quantity: engine.QPrefixHits, Kind: engine.Counter, Names: []string{"vllm:prefix_cache_hits_total"}},
		{Quantity: engine.QPreemptions, Kind: engine.Counter, Names: []string{"vllm:num_preemptions_total"}},
		{Quantity: engine.QRunning, Kind: engine.Gauge, Names: []string{"vllm:num_requests_running"}},
		{Quantity: engine.QWaiting, Kind: engine.Gauge, Names: []string{"vllm:num_requests_waiting"}},
		{Quantity: engine.QKVUsage, Kind: engine.Gauge, Names: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}},
		{Quantity: engine.QTTFT, Kind: engine.Histogram, Names: []string{"vllm:time_to_first_token_seconds"}},
		{Quantity: engine.QITL, Kind: engine.Histogram, Names: []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}},
		{Quantity: engine.QTPOT, Kind: engine.Histogram, Names: []string{"vllm:request_time_per_output_token_seconds"}},
		{Quantity: engine.QE2E, Kind: engine.Histogram, Names: []string{"vllm:e2e_request_latency_seconds"}},
		{Quantity: engine.QQueueTime, Kind: engine.Histogram, Names: []string{"vllm:request_queue_time_seconds"}},
		{Quantity: engine.QPrefillTime, Kind: engine.Histogram, Names: []string{"vllm:request_prefill_time_seconds"}},
		{Quantity: engine.QDecodeTime, Kind: engine.Histogram, Names: []string{"vllm:request_decode_time_seconds"}},
		{Quantity: engine.QCacheConfig, Kind: engine.Info, Names: []string{"vllm:cache_config_info"}},
		{Quantity: engine.QProcessStart, Kind: engine.Gauge, Names: []string{"process_start_time_seconds"}},
	}
}
