package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"h100-inference-control-plane/runner/sim/model"
)

// settings are vLLM's options as far as they change what this server does.
type settings struct {
	engine   model.Config
	served   []string
	apiKeys  []string
	interval int // tokens per chunk after the first

	usageAlways, promptDetails, requestIDHeader bool
	quietAccess, noStats                        bool
	inert                                       []string // options that were given and change nothing here
}

// acted lists the options that do something here; infrastructure ones change nothing on a real engine's speed either.
var acted = []string{
	"host", "port", "model", "served-model-name", "revision", "tokenizer", "tokenizer-revision", "load-format", "seed", "dtype",
	"trust-remote-code", "download-dir", "generation-config", "uvicorn-log-level", "enable-log-requests",
	"max-model-len", "enforce-eager", "enable-prefix-caching", "enable-chunked-prefill", "max-num-batched-tokens", "max-num-seqs",
	"gpu-memory-utilization", "kv-cache-memory-bytes", "block-size", "num-gpu-blocks-override", "stream-interval", "api-key",
	"enable-force-include-usage", "enable-prompt-tokens-details", "enable-request-id-headers", "disable-uvicorn-access-log",
	"disable-log-stats",
}

// newSettings reads the options of vLLM release v. Options that it does not know are only reported back.
func newSettings(p *model.Profile, flags map[string]any, served []string, v release) (settings, error) {
	r := reader{flags: flags}
	s := settings{
		served:          served,
		interval:        r.integer("stream-interval", 1),
		usageAlways:     r.boolean("enable-force-include-usage", false),
		promptDetails:   r.boolean("enable-prompt-tokens-details", false),
		requestIDHeader: r.boolean("enable-request-id-headers", false),
		quietAccess:     r.boolean("disable-uvicorn-access-log", false),
		noStats:         r.boolean("disable-log-stats", false),
		apiKeys:         r.list("api-key"),
	}
	if names := r.list("served-model-name"); len(names) > 0 {
		s.served = names
	}
	s.engine = model.Config{
		Profile:        p,
		Eager:          r.boolean("enforce-eager", false),
		PrefixCaching:  r.boolean("enable-prefix-caching", !p.Model.Hybrid || !v.before(0, 28)),
		ChunkedPrefill: r.boolean("enable-chunked-prefill", true),
		BatchedTokens:  r.integer("max-num-batched-tokens", 0),
		Seqs:           r.integer("max-num-seqs", 0),
		MaxModelLen:    r.length("max-model-len"),
		Utilization:    r.number("gpu-memory-utilization", 0),
		KVBytes:        int64(r.length("kv-cache-memory-bytes")),
		Blocks:         r.integer("num-gpu-blocks-override", 0),
		BlockTokens:    r.integer("block-size", 0),
		CountRetries:   v.before(0, 27),
	}
	// vLLM raises the batch to the longest prompt when it may not cut prompts and nobody set it.
	if e := &s.engine; !e.ChunkedPrefill && e.BatchedTokens == 0 {
		longest := e.MaxModelLen
		if longest == 0 {
			longest = p.Model.MaxModelLen
		}
		e.BatchedTokens = max(p.Limits.BatchedTokens, longest)
	}
	for name := range flags {
		if !slices.Contains(acted, name) {
			s.inert = append(s.inert, name)
		}
	}
	slices.Sort(s.inert)
	if s.interval < 1 && r.err == nil {
		r.err = fmt.Errorf("stream-interval must be at least 1")
	}
	return s, r.err
}

// reader takes typed values out of the options and keeps the first error.
type reader struct {
	flags map[string]any
	err   error
}

func (r *reader) fail(name string, v any) {
	if r.err == nil {
		r.err = fmt.Errorf("argument --%s: invalid value: %v", name, v)
	}
}

func (r *reader) boolean(name string, d bool) bool {
	v, ok := r.flags[name]
	if !ok || v == nil {
		return d
	}
	b, ok := v.(bool)
	if !ok {
		r.fail(name, v)
	}
	return b
}

func (r *reader) number(name string, d float64) float64 {
	switch v := r.flags[name].(type) {
	case nil:
		return d
	case int64:
		return float64(v)
	case int:
		return float64(v)
	case float64:
		return v
	default:
		r.fail(name, v)
		return d
	}
}

func (r *reader) integer(name string, d int) int {
	x := r.number(name, float64(d))
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		r.fail(name, r.flags[name])
		return d
	}
	return int(x)
}

// length reads an integer that may be written 32k (thousands) or 32K (1024s); "auto" and -1 are 0, the default.
func (r *reader) length(name string) int {
	s, ok := r.flags[name].(string)
	if !ok {
		return max(r.integer(name, 0), 0)
	}
	if s == "auto" {
		return 0
	}
	units := map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	if s == "" || units[s[len(s)-1]] == 0 {
		r.fail(name, s)
		return 0
	}
	x, err := strconv.ParseFloat(s[:len(s)-1], 64)
	if err != nil || !(x > 0 && x < 1e9) {
		r.fail(name, s)
		return 0
	}
	return int(x * units[s[len(s)-1]])
}

func (r *reader) list(name string) []string {
	switch v := r.flags[name].(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, x := range v {
			out = append(out, fmt.Sprint(x))
		}
		return out
	}
	return nil
}

// release is a version as far as it can be compared.
type release struct{ major, minor int }

func parseRelease(s string) (release, error) {
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	if len(parts) < 2 {
		return release{}, fmt.Errorf("%q is not a version such as 0.25.1", s)
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || major < 0 || minor < 0 {
		return release{}, fmt.Errorf("%q is not a version such as 0.25.1", s)
	}
	return release{major, minor}, nil
}

func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}
