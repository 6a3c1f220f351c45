package plan

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	"h100-inference-control-plane/runner/spec"
)

// Codes of warnings.
const (
	InertFactor = "inert-factor" // a flag differs between configs and cannot act on this workload
	NoFactor    = "no-factor"    // two configs are the same
	OverBudget  = "over-budget"
	FlagTable   = "flag-table" // flags were checked against another release's table
)

// hybridBlocks are models whose prefix cache works in large blocks, because attention pages are padded to the size of
// the linear-attention state: tokens per block with a bf16 KV cache. Source: vLLM 0.25.1's log on the model ("Setting
// attention block size to 1056 tokens"); vllm#40696.
var hybridBlocks = map[string]int{
	"Qwen/Qwen3.5-35B-A3B":     1056,
	"Qwen/Qwen3.5-35B-A3B-FP8": 1056,
	"Qwen/Qwen3.6-35B-A3B":     1056,
	"Qwen/Qwen3.6-35B-A3B-FP8": 1056,
}

const (
	defaultBlock         = 16   // vLLM's block for pure attention models on a GPU
	defaultBatchedTokens = 8192 // vLLM's max-num-batched-tokens on GPUs of 70 GiB and more
	chatTemplateTokens   = 10   // what a chat template adds, roughly
)

// warnings lists what can be known to be pointless before a GPU second is spent.
func warnings(e *spec.Experiment) []Warning {
	var out []Warning
	if e.FlagTable != "" && e.FlagTable != e.Engine.Version {
		out = append(out, at(e, "engine.version", Warning{Code: FlagTable, Message: e.FlagTable}))
	}
	out = append(out, sameConfigs(e)...)
	for _, f := range Factors(e) {
		switch f {
		case "enable-prefix-caching":
			if m := prefixCacheInert(e); m != "" {
				out = append(out, factorWarning(e, f, m))
			}
		case "enable-chunked-prefill":
			if m := chunkedPrefillInert(e); m != "" {
				out = append(out, factorWarning(e, f, m))
			}
		}
	}
	return out
}

// Factors are the flags that differ between the compared configs (all configs when nothing is compared), sorted. A
// flag that one config sets and another leaves to the engine's default counts as different.
func Factors(e *spec.Experiment) []string {
	names := compared(e)
	seen := map[string]bool{}
	var out []string
	for _, a := range names {
		for _, f := range e.Merged(a) {
			if seen[f.Name] {
				continue
			}
			for _, b := range names {
				if !reflect.DeepEqual(lookup(e.Merged(b), f.Name), f.Value) {
					seen[f.Name] = true
					out = append(out, f.Name)
					break
				}
			}
		}
	}
	sort.Strings(out)
	return out
}

func compared(e *spec.Experiment) []string {
	if e.Compare != nil {
		return append([]string{e.Compare.Baseline}, e.Compare.Candidates...)
	}
	var out []string
	for _, c := range e.Configs {
		out = append(out, c.Name)
	}
	return out
}

func sameConfigs(e *spec.Experiment) []Warning {
	var out []Warning
	for i, a := range e.Configs {
		for _, b := range e.Configs[i+1:] {
			if reflect.DeepEqual(e.Merged(a.Name), e.Merged(b.Name)) {
				out = append(out, at(e, "configs."+b.Name, Warning{
					Code:    NoFactor,
					Message: fmt.Sprintf("configs %q and %q are the same; one engine start serves both, and any difference between them is noise", a.Name, b.Name),
				}))
			}
		}
	}
	return out
}

// prefixCacheInert says why prefix caching cannot act on this workload, or "".
func prefixCacheInert(e *spec.Experiment) string {
	block, why := cacheBlock(e)
	shared, what := sharedTokens(e)
	switch {
	case shared == 0:
		return "prefix caching cannot act: " + what
	case shared < block:
		return fmt.Sprintf("prefix caching cannot act: %s, %s; no hit is possible below one whole block", what, why)
	}
	return ""
}

// cacheBlock is the size of a prefix-cache block in tokens and the clause that says so.
func cacheBlock(e *spec.Experiment) (int, string) {
	for _, c := range e.Configs {
		if n, ok := lookup(e.Merged(c.Name), "block-size").(int64); ok && n > 0 {
			return int(n), fmt.Sprintf("the spec's cache block is %d", n)
		}
	}
	if n := machineFor(e.Engine.Name, e.Engine.Sim).block; n > 0 {
		return n, fmt.Sprintf("the simulated engine's cache block is %d", n)
	}
	if n, ok := hybridBlocks[e.Model.Name]; ok {
		return n, fmt.Sprintf("this model's cache block is %d", n)
	}
	return defaultBlock, fmt.Sprintf("vLLM's cache block is %d", defaultBlock)
}

// sharedTokens is how many leading tokens two requests of the workload have in common, and the clause that says so.
func sharedTokens(e *spec.Experiment) (int, string) {
	w := e.Workload
	switch {
	case w.SharedPrefix != nil:
		return w.SharedPrefix.Shared, fmt.Sprintf("prompts share %d tokens", w.SharedPrefix.Shared)
	case w.Random != nil:
		return 0, "every prompt is different from its first token on"
	case w.Text != "":
		n := promptTokens(e)
		return n, fmt.Sprintf("prompts have about %d tokens", n)
	}
	n := promptTokens(e)
	return n, fmt.Sprintf("the longest prompt has about %d tokens", n)
}

// chunkedPrefillInert says why chunked prefill cannot act, or "": when the prompts of everything in flight fit into
// one step, no prefill is ever split.
func chunkedPrefillInert(e *spec.Experiment) string {
	if e.Load.Arrivals() != nil {
		return "" // an open loop can pile up any number of prompts
	}
	budget := int64(machineFor(e.Engine.Name, e.Engine.Sim).batched)
	for _, c := range e.Configs {
		if n, ok := lookup(e.Merged(c.Name), "max-num-batched-tokens").(int64); ok && n > 0 && n < budget {
			budget = n
		}
	}
	top := 0
	for _, p := range e.Extremes() {
		top = max(top, p.Concurrency)
	}
	tokens := promptTokens(e)
	if need := int64(top) * int64(tokens+1); need <= budget {
		return fmt.Sprintf("chunked prefill cannot act: %d prompts of about %d tokens fit into one step of %d tokens (max-num-batched-tokens)", top, tokens, budget)
	}
	return ""
}

// promptTokens estimates the length of the longest prompt. Four characters a token is the usual rule for English.
func promptTokens(e *spec.Experiment) int {
	w, extra := e.Workload, 0
	if w.API == "chat" {
		extra = chatTemplateTokens
	}
	switch {
	case w.Random != nil:
		return w.Random.Tokens + extra
	case w.SharedPrefix != nil:
		return w.SharedPrefix.Shared + w.SharedPrefix.Own + extra
	case w.Text != "":
		return (len(w.Text)+3)/4 + extra
	case w.File != nil:
		longest := 0
		for line := range strings.Lines(string(w.File.Content)) {
			longest = max(longest, len(line))
		}
		return longest/4 + extra
	}
	return extra
}

func factorWarning(e *spec.Experiment, factor, message string) Warning {
	w := Warning{Code: InertFactor, Factor: factor, Message: message}
	for _, c := range e.Configs {
		if _, ok := e.Positions["configs."+c.Name+"."+factor]; ok {
			return at(e, "configs."+c.Name+"."+factor, w)
		}
	}
	return at(e, "configs", w)
}

func at(e *spec.Experiment, path string, w Warning) Warning {
	p := e.Positions[path]
	w.Experiment, w.Line, w.Column = e.Name, p.Line, p.Column
	return w
}
