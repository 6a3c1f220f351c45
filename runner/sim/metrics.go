package sim

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"h100-inference-control-plane/runner/sim/model"
)

// Bucket bounds of vLLM, the same in all its releases from 0.10 on (vllm#48866).
var (
	ttftBuckets      = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tokenGapBuckets  = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	latencyBuckets   = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	iterationBuckets = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	paramsNBuckets   = []float64{1, 2, 5, 10, 20}
	preemptBuckets   = []float64{1, 2, 3, 4, 5, 10, 20}
	httpBuckets      = []float64{.1, .5, 1}
	httpFineBuckets  = []float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}
)

// tokenBuckets is 1, 2, 5, 10, 20, 50 … up to the context length.
func tokenBuckets(most int) []float64 {
	var out []float64
	for unit := 1; ; unit *= 10 {
		for _, k := range []int{1, 2, 5} {
			if k*unit > most {
				return out
			}
			out = append(out, float64(k*unit))
		}
	}
}

// histogram counts observations by bucket.
type histogram struct {
	bounds []float64
	counts []uint64 // one more than bounds; not cumulative
	sum    float64
	n      uint64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
	h.n++
}

// metrics is what /metrics tells. Durations are in real seconds.
type metrics struct {
	mu    sync.Mutex
	start time.Time // of the process
	drift float64   // factor on every duration
	extra bool      // the series that 0.28 and later add

	running, waiting int
	kvUsage          float64

	promptTokens, cachedTokens, generated   int64
	prefixQueries, prefixHits, preemptions  int64
	finished                                map[string]int64
	ttft, itl, tpot, e2e                    *histogram
	queue, prefill, decode, inference       *histogram
	promptLen, outputLen, maxOutput, paramN *histogram
	paramMax, computed, iteration, preempts *histogram

	http     map[httpKey]int64
	httpTime map[httpKey]*histogram
	httpFine *histogram
}

type httpKey struct{ handler, method, status string }

// finishReasons in vLLM's order.
var finishReasons = []string{"stop", "length", "abort", "error", "repetition"}

func newMetrics(start time.Time, maxLen int, drift float64, extra bool) *metrics {
	m := &metrics{drift: drift, extra: extra}
	m.reset(start, maxLen)
	return m
}

// reset makes the process look new. Gauges keep their values: the engine's state has not changed.
func (m *metrics) reset(start time.Time, maxLen int) {
	m.start = start
	m.promptTokens, m.cachedTokens, m.generated = 0, 0, 0
	m.prefixQueries, m.prefixHits, m.preemptions = 0, 0, 0
	m.finished = map[string]int64{}
	m.ttft, m.itl, m.tpot = newHistogram(ttftBuckets), newHistogram(tokenGapBuckets), newHistogram(tokenGapBuckets)
	for _, h := range []**histogram{&m.e2e, &m.queue, &m.prefill, &m.decode, &m.inference} {
		*h = newHistogram(latencyBuckets)
	}
	for _, h := range []**histogram{&m.promptLen, &m.outputLen, &m.maxOutput, &m.paramMax, &m.computed} {
		*h = newHistogram(tokenBuckets(maxLen))
	}
	m.paramN, m.iteration, m.preempts = newHistogram(paramsNBuckets), newHistogram(iterationBuckets), newHistogram(preemptBuckets)
	m.http, m.httpTime, m.httpFine = map[httpKey]int64{}, map[httpKey]*histogram{}, newHistogram(httpFineBuckets)
}

// step counts one step. speed turns the engine's time into real time.
func (m *metrics) step(st *model.Step, before, after model.Counters, speed float64) {
	real := func(d time.Duration) float64 { return d.Seconds() / speed * m.drift }
	m.prefixQueries += after.PrefixQueries - before.PrefixQueries
	m.prefixHits += after.PrefixHits - before.PrefixHits
	m.preemptions += after.Preemptions - before.Preemptions
	m.promptTokens += after.PromptTokens - before.PromptTokens
	m.cachedTokens += after.CachedTokens - before.CachedTokens
	m.generated += after.Generated - before.Generated
	m.iteration.observe(float64(st.Decode + st.Prefill))
	for _, t := range st.Tokens {
		if t.N == 1 {
			m.ttft.observe(real(t.Seq.TTFT()))
		} else {
			m.itl.observe(real(t.Gap))
		}
		if t.Finish != model.Unfinished {
			m.ended(t.Seq, string(t.Finish), real)
		}
	}
}

func (m *metrics) ended(s *model.Seq, reason string, real func(time.Duration) float64) {
	m.finished[reason]++
	m.e2e.observe(real(s.Last - s.Arrival))
	m.queue.observe(real(s.Scheduled - s.Queued))
	m.prefill.observe(real(s.First - s.Scheduled))
	m.decode.observe(real(s.Last - s.First))
	m.inference.observe(real(s.Last - s.Scheduled))
	m.tpot.observe(real(s.TPOT()))
	m.promptLen.observe(float64(len(s.Tokens)))
	m.outputLen.observe(float64(s.Emitted))
	m.maxOutput.observe(float64(s.Emitted))
	m.paramMax.observe(float64(s.MaxTokens))
	m.paramN.observe(1)
	m.computed.observe(float64(len(s.Tokens) - s.Cached))
	m.preempts.observe(float64(s.Preemptions))
}

// served counts one HTTP answer.
func (m *metrics) served(handler, method string, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := httpKey{handler, method, strconv.Itoa(status/100) + "xx"}
	m.http[k]++
	k.status = ""
	if m.httpTime[k] == nil {
		m.httpTime[k] = newHistogram(httpBuckets)
	}
	m.httpTime[k].observe(took.Seconds())
	m.httpFine.observe(took.Seconds())
}

// exposition renders the text format as Python's client does.
type exposition struct {
	bytes.Buffer
	labels string // model_name and engine, already rendered
}

func (x *exposition) family(name, kind, help string) {
	fmt.Fprintf(x, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (x *exposition) sample(name, labels string, v float64) {
	x.WriteString(name)
	if labels != "" {
		x.WriteByte('{')
		x.WriteString(labels)
		x.WriteByte('}')
	}
	x.WriteByte(' ')
	x.WriteString(pyFloat(v))
	x.WriteByte('\n')
}

// one writes a family of a single sample with the engine's labels.
func (x *exposition) one(name, kind, help string, v float64) {
	x.family(name, kind, help)
	x.sample(name, x.labels, v)
}

func (x *exposition) histogram(name, help, labels string, h *histogram) {
	x.family(name, "histogram", help)
	x.buckets(name, labels, h)
}

func (x *exposition) buckets(name, labels string, h *histogram) {
	sep := ","
	if labels == "" {
		sep = ""
	}
	var total uint64
	for i, c := range h.counts {
		total += c
		le := "+Inf"
		if i < len(h.bounds) {
			le = pyFloat(h.bounds[i])
		}
		x.sample(name+"_bucket", labels+sep+`le="`+le+`"`, float64(total))
	}
	x.sample(name+"_count", labels, float64(h.n))
	x.sample(name+"_sum", labels, h.sum)
}

// pyFloat writes a number as Python's prometheus client does: 1.0, 2.540105e+06.
func pyFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v >= 1e6 || v != 0 && math.Abs(v) < 1e-4:
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// render writes everything. info are the labels of cache_config_info; stats false leaves the engine's series out, as
// --disable-log-stats does.
func (m *metrics) render(modelName string, info map[string]string, stats bool) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &exposition{labels: `engine="0",model_name="` + escapeLabel(modelName) + `"`}
	x.family("process_start_time_seconds", "gauge", "Start of the process, Unix time in seconds.")
	x.sample("process_start_time_seconds", "", float64(m.start.UnixMilli()/10)/100)
	if stats {
		m.gauges(x)
		m.counters(x)
		m.histograms(x)
		m.cacheInfo(x, info)
	}
	m.httpFamilies(x)
	return x.Bytes()
}

func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

func (m *metrics) gauges(x *exposition) {
	x.one("vllm:num_requests_running", "gauge", "Requests in execution batches.", float64(m.running))
	x.one("vllm:num_requests_waiting", "gauge", "Requests in the queue.", float64(m.waiting))
	x.family("vllm:num_requests_waiting_by_reason", "gauge", "Requests in the queue by why they wait.")
	x.sample("vllm:num_requests_waiting_by_reason", x.labels+`,reason="capacity"`, float64(m.waiting))
	x.sample("vllm:num_requests_waiting_by_reason", x.labels+`,reason="deferred"`, 0)
	x.family("vllm:engine_sleep_state", "gauge", "1 for the state that the engine is in.")
	for i, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		x.sample("vllm:engine_sleep_state", x.labels+`,sleep_state="`+state+`"`, float64(1-min(i, 1)))
	}
	x.one("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 0 to 1.", m.kvUsage)
}

func (m *metrics) counters(x *exposition) {
	for _, c := range []struct {
		name, help string
		v          int64
	}{
		{"estimated_flops_per_gpu", "Not simulated.", 0},
		{"estimated_read_bytes_per_gpu", "Not simulated.", 0},
		{"estimated_write_bytes_per_gpu", "Not simulated.", 0},
		{"prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", m.prefixQueries},
		{"prefix_cache_hits", "Prompt tokens found in the prefix cache.", m.prefixHits},
		{"external_prefix_cache_queries", "Not simulated.", 0},
		{"external_prefix_cache_hits", "Not simulated.", 0},
		{"mm_cache_queries", "Not simulated.", 0},
		{"mm_cache_hits", "Not simulated.", 0},
		{"num_preemptions", "Requests that lost their cache and started again.", m.preemptions},
		{"prompt_tokens", "Prompt tokens of requests that got a first token.", m.promptTokens},
		{"prompt_tokens_cached", "Prompt tokens that came from a cache.", m.cachedTokens},
		{"generation_tokens", "Tokens generated.", m.generated},
	} {
		x.one("vllm:"+c.name+"_total", "counter", c.help, float64(c.v))
	}
	x.family("vllm:prompt_tokens_by_source_total", "counter", "Prompt tokens by where they came from.")
	for _, s := range []struct {
		source string
		v      int64
	}{{"local_compute", m.promptTokens - m.cachedTokens}, {"local_cache_hit", m.cachedTokens}, {"external_kv_transfer", 0}} {
		x.sample("vllm:prompt_tokens_by_source_total", x.labels+`,source="`+s.source+`"`, float64(s.v))
	}
	x.family("vllm:request_success_total", "counter", "Finished requests by reason.")
	for _, r := range finishReasons {
		x.sample("vllm:request_success_total", x.labels+`,finished_reason="`+r+`"`, float64(m.finished[r]))
	}
}

func (m *metrics) histograms(x *exposition) {
	list := []struct {
		name, help string
		h          *histogram
	}{
		{"request_prompt_tokens", "Prompt tokens per request.", m.promptLen},
		{"request_generation_tokens", "Generated tokens per request.", m.outputLen},
		{"iteration_tokens_total", "Tokens per engine step.", m.iteration},
		{"request_max_num_generation_tokens", "Longest answer per request.", m.maxOutput},
		{"request_params_n", "Answers asked for per request.", m.paramN},
		{"request_params_max_tokens", "Most tokens asked for per request.", m.paramMax},
		{"time_to_first_token_seconds", "Time from arrival to the first token.", m.ttft},
		{"inter_token_latency_seconds", "Time between two outputs of a request.", m.itl},
		{"request_time_per_output_token_seconds", "Time per token after the first, per request.", m.tpot},
		{"e2e_request_latency_seconds", "Time from arrival to the last token.", m.e2e},
		{"request_queue_time_seconds", "Time in the queue.", m.queue},
		{"request_inference_time_seconds", "Time from leaving the queue to the last token.", m.inference},
		{"request_prefill_time_seconds", "Time from leaving the queue to the first token.", m.prefill},
		{"request_decode_time_seconds", "Time from the first to the last token.", m.decode},
		{"request_prefill_kv_computed_tokens", "Prompt tokens computed per request.", m.computed},
	}
	if m.extra {
		list = append(list, struct {
			name, help string
			h          *histogram
		}{"request_num_preemptions", "Preemptions per request.", m.preempts})
	}
	for _, f := range list {
		x.histogram("vllm:"+f.name, f.help, x.labels, f.h)
	}
}

func (m *metrics) cacheInfo(x *exposition, info map[string]string) {
	x.family("vllm:cache_config_info", "gauge", "Settings of the cache, as labels.")
	labels := `engine="0"`
	for _, k := range slices.Sorted(maps.Keys(info)) {
		labels += "," + k + `="` + escapeLabel(info[k]) + `"`
	}
	x.sample("vllm:cache_config_info", labels, 1)
}

func (m *metrics) httpFamilies(x *exposition) {
	keys := slices.SortedFunc(maps.Keys(m.http), func(a, b httpKey) int {
		return strings.Compare(a.handler+a.method+a.status, b.handler+b.method+b.status)
	})
	x.family("http_requests_total", "counter", "Answers by handler, method and status.")
	for _, k := range keys {
		x.sample("http_requests_total", fmt.Sprintf(`handler=%q,method=%q,status=%q`, k.handler, k.method, k.status), float64(m.http[k]))
	}
	x.histogram("http_request_duration_highr_seconds", "Duration of answers.", "", m.httpFine)
	x.family("http_request_duration_seconds", "histogram", "Duration of answers by handler.")
	times := slices.SortedFunc(maps.Keys(m.httpTime), func(a, b httpKey) int {
		return strings.Compare(a.handler+a.method, b.handler+b.method)
	})
	for _, k := range times {
		x.buckets("http_request_duration_seconds", fmt.Sprintf(`handler=%q,method=%q`, k.handler, k.method), m.httpTime[k])
	}
}
