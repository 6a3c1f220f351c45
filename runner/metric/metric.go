// Package metric says what each number means: its unit, which way is better, its definition, formula and source. Reports
// take their words from it and docs/reference/metrics.md is generated from it. It computes nothing.
package metric

import (
	"fmt"
	"strings"
)

// Direction says which way is better.
type Direction string

// The directions.
const (
	Lower   Direction = "lower"
	Higher  Direction = "higher"
	Neither Direction = "" // a fact, not an achievement
)

// Unit is the unit in which a number is stored.
type Unit string

// The units.
const (
	Seconds           Unit = "seconds"
	Tokens            Unit = "tokens"
	Requests          Unit = "requests"
	RequestsPerSecond Unit = "requests per second"
	TokensPerSecond   Unit = "tokens per second"
	Ratio             Unit = "ratio" // 0..1
	Bytes             Unit = "bytes"
	Count             Unit = "count"
	Hertz             Unit = "hertz"
	Watts             Unit = "watts"
	Joules            Unit = "joules"
	JoulesPerToken    Unit = "joules per token"
	Celsius           Unit = "degrees Celsius"
)

// Metric is one number.
type Metric struct {
	Name       string // its place in a trial of run.json ("client.ttft"), or the name of its series
	Title      string // in tables; "" = not in tables
	Unit       Unit
	Better     Direction
	Definition string // one sentence
	Formula    string // "" = counted, not computed
	Source     string // who says so: the load generator's stamps, the server's usage, the engine's counters
	Null       string // when it is null; "" = never
}

// Group is a part of the table.
type Group struct {
	Title   string
	Text    string
	Metrics []Metric
}

// Find returns the metric of that name.
func Find(name string) (Metric, bool) {
	for _, g := range Groups() {
		for _, m := range g.Metrics {
			if m.Name == name {
				return m, true
			}
		}
	}
	return Metric{}, false
}

// Groups is the whole table, in the order of the reference. The caller owns it.
func Groups() []Group {
	return []Group{
		{"What the client saw", "From the load generator's stamps, made at the socket read that carried an event, and from the server's `usage`. " +
			"A distribution has n, mean, min, p50, p90, p95, p99 and max; quantiles interpolate linearly at rank q(n-1), as MetricsQL's quantile_over_time does; " +
			"p99 is null below 100 samples. Latencies are of successful requests; failed ones are counted beside them.", client()},
		{"While every place was busy", "Of a closed loop: from the moment all places are busy to the moment the first one goes idle because no request is left. " +
			"Computed from the records of the requests alone.", steady()},
		{"One series per request", "In VictoriaMetrics, for objectives. One sample per request at the millisecond of its end (moved by as little as makes the stamps of a trial distinct), " +
			"values rounded to microseconds. A failed request is worth +Inf in the three times: it met no objective and does not vanish from a share.", series()},
		{"What the engine counted", "Exact differences of the engine's own counters between a scrape at the window's start and one at its end.", server()},
		{"How well the load generator did its own work", "", health()},
		{"What the machine did", "Sampled once a second on the machine of the load generator: the kernel's counters, the cgroup's, and one nvidia-smi that stays. " +
			"`gpu.` are of each device, `machine.gpus[]`. Power is nvidia-smi's power.draw, the mean of the second before each sample; with samples a second apart nothing is left out between them, " +
			"and at the window's edges up to a second of what was before it is in. nvidia-smi says it is right within 5 W.", machine()},
		{"One series per processor, quota and GPU", "The same samples in VictoriaMetrics with the trial's labels, for objectives and panels, such as `sum(avg_over_time(bench_gpu_power_watts[$window]))`. " +
			"`gpu` is the index of the device, also of those that the engine did not use. A short window has few of them: they come once a second.", machineSeries()},
	}
}

func client() []Metric {
	const (
		stamps = "load generator"
		usage  = "server's usage"
		noTok  = "no successful request"
	)
	return []Metric{
		{"client.requests", "requests", Requests, Neither, "Requests that were sent, or should have been and failed before.", "", stamps, ""},
		{"client.succeeded", "", Requests, Higher, "Requests that were answered in full.", "status 200, a finish_reason, [DONE], no error event, in time", stamps, ""},
		{"client.failed", "errors", Requests, Lower, "Requests that failed: transport, HTTP status, an error event inside a 200 stream, a missing [DONE] or finish_reason, a timeout. They stay in the window.", "requests − succeeded", stamps, ""},
		{"client.wall_seconds", "", Seconds, Neither, "Length of the load.", "last end − first schedule", stamps, "no requests"},
		{"client.requests_per_second", "req/s", RequestsPerSecond, Higher, "\"Seed-style\": successful requests over the wall time, as the usual load tests count. A closed loop that does not divide into whole waves shows less here than the engine sustains.", "succeeded ÷ wall_seconds", stamps, noTok},
		{"client.output_tokens_per_second", "tok/s", TokensPerSecond, Higher, "Output tokens of successful requests over the wall time.", "output_tokens ÷ wall_seconds", stamps + ", " + usage, "no successful request, or one without usage"},
		{"client.prompt_tokens", "", Tokens, Neither, "Prompt tokens of successful requests. Never re-tokenised text.", "Σ usage.prompt_tokens", usage, "no successful request, or one without usage"},
		{"client.output_tokens", "", Tokens, Neither, "Output tokens of successful requests. Never the number of chunks: one may carry several tokens.", "Σ usage.completion_tokens", usage, "no successful request, or one without usage"},
		{"client.cached_tokens", "", Tokens, Neither, "Prompt tokens that the server says it took from its prefix cache.", "Σ usage.prompt_tokens_details.cached_tokens", usage, "the server does not say"},
		{"client.no_usage", "", Requests, Lower, "Successful requests without usage.", "", usage, ""},
		{"client.wrong_length", "", Requests, Lower, "Successful requests that were to have an exact number of output tokens and had another.", "", usage, ""},
		{"client.ttft", "TTFT", Seconds, Lower, "Time to first token: until the first event with a non-empty content, reasoning or tool-call delta. The role-only event and the usage event never count. It begins when the request was scheduled, however late it was sent.", "first token − scheduled", stamps, noTok},
		{"client.mean_ttft_from_sent", "", Seconds, Lower, "The mean of what the engine could have seen of TTFT; compared with the engine's own.", "mean(first token − sent)", stamps, noTok},
		{"client.tpot", "TPOT", Seconds, Lower, "Time per output token after the first, per request.", "(last token − first token) ÷ (output tokens − 1)", stamps + ", " + usage, "no request with two output tokens or more"},
		{"client.e2e", "E2E", Seconds, Lower, "Time from the schedule to the end of the stream: what the seed called latency.", "end − scheduled", stamps, noTok},
		{"client.inter_chunk", "", Seconds, Lower, "Gaps between two reads of one stream that carried tokens. Not a time per token.", "", stamps, "more than 5 % of the events shared a read with the one before"},
		{"client.coalesced", "", Ratio, Lower, "Share of the token events that shared a socket read with the event before.", "coalesced events ÷ events", stamps, "no events"},
		{"client.output_length", "", Tokens, Neither, "Output tokens per successful request.", "usage.completion_tokens", usage, "no usage"},
		{"client.prompt_length", "", Tokens, Neither, "Prompt tokens per successful request.", "usage.prompt_tokens", usage, "no usage"},
		{"client.mean_in_flight", "", Requests, Neither, "Mean number of requests in flight over the load.", "Σ(end − sent) ÷ wall_seconds", stamps, "no requests"},
		{"error_share", "errors", Ratio, Lower, "Share of the requests that failed.", "failed ÷ requests", stamps, "no requests"},
	}
}

func steady() []Metric {
	const (
		stamps = "load generator"
		usage  = "server's usage"
		none   = "no request succeeded in the window"
		few    = "fewer than 16 requests after the first of each place"
	)
	return []Metric{
		{"steady.from_seconds", "", Seconds, Neither, "When all places were busy, after the load began.", "last of the first sends", stamps, ""},
		{"steady.to_seconds", "", Seconds, Neither, "When the first place went idle for lack of work.", "end number (requests − places + 1)", stamps, ""},
		{"steady.seconds", "", Seconds, Neither, "Length of the window.", "to − from", stamps, ""},
		{"steady.waves", "", Count, Neither, "How many requests long the window is.", "seconds ÷ mean E2E", stamps, ""},
		{"steady.full_waves", "", Count, Neither, "How often all requests fill every place.", "⌊requests ÷ places⌋", stamps, ""},
		{"steady.tail", "", Requests, Neither, "Requests that are left over then: the rest of the places has no work in the last wave.", "requests mod places", stamps, ""},
		{"steady.requests_per_second", "req/s", RequestsPerSecond, Higher, "Successful requests per second with every place busy. One that an edge of the window cuts counts by the share of its time inside.", "Σ(time inside ÷ E2E) ÷ seconds", stamps, none},
		{"steady.output_tokens_per_second", "tok/s", TokensPerSecond, Higher, "Output tokens per second with every place busy. The first token of an answer counts at its stamp, the others evenly up to the last. Of an answer that failed, its events count, scaled by tokens per event of the others.", "tokens inside ÷ seconds", stamps + ", " + usage, none + ", or one without usage did"},
		{"steady.mean_in_flight", "", Requests, Neither, "Mean number of requests in flight in the window.", "Σ time inside ÷ seconds", stamps, ""},
		{"steady.edge_share", "", Ratio, Lower, "Share of the tokens that may lie on the other side of an edge: of each answer that an edge cuts, the smaller part.", "Σ min(inside, outside) ÷ tokens inside", stamps, "no tokens"},
		{"steady.ttft_drift", "", Ratio, Neither, "Change of the median TTFT from the first half of the requests to the second; the first of each place, sent in one burst, are left out. With both medians and the half-width of the 95 % interval.", "second ÷ first − 1", stamps, few},
		{"steady.tpot_drift", "", Ratio, Neither, "The same of TPOT.", "second ÷ first − 1", stamps + ", " + usage, few},
		{"steady.precision", "", Ratio, Lower, "Relative half-width to which a window of this length can know throughput.", "(TTFT ÷ E2E) ÷ waves + 1.96 × cv(E2E) ÷ √(places × waves)", stamps, none},
		{"steady.asked_precision", "", Ratio, Neither, "The one that the experiment needs: minimum_effect, or 5 %.", "", "experiment", ""},
		{"steady.need_requests", "", Requests, Neither, "Requests that would do for that.", "precision solved for waves, at least two", stamps, "the window is long enough"},
	}
}

func series() []Metric {
	const from = "load generator"
	return []Metric{
		{"bench_request_latency_seconds", "", Seconds, Lower, "E2E of one request.", "end − scheduled; +Inf when it failed", from, ""},
		{"bench_request_ttft_seconds", "", Seconds, Lower, "TTFT of one request.", "first token − scheduled; +Inf when it failed", from, ""},
		{"bench_request_tpot_seconds", "", Seconds, Lower, "TPOT of one request; no sample for an answer of one token.", "(last token − first token) ÷ (output tokens − 1); +Inf when it failed", from, ""},
		{"bench_request_prompt_tokens", "", Tokens, Neither, "Prompt tokens of one request; no sample without usage.", "", "server's usage", ""},
		{"bench_request_completion_tokens", "", Tokens, Neither, "Output tokens of one request; no sample without usage.", "", "server's usage", ""},
		{"bench_request_ok", "", Count, Higher, "1 for a request that succeeded, 0 for one that failed.", "", from, ""},
	}
}

func server() []Metric {
	const (
		counters = "engine's /metrics"
		absent   = "the engine does not report it"
	)
	return []Metric{
		{"server.requests", "", Requests, Neither, "Requests that the engine finished, whatever their finish reason.", "increase over the window", counters, absent},
		{"server.prompt_tokens", "", Tokens, Neither, "Prompt tokens that the engine counted.", "increase over the window", counters, absent},
		{"server.output_tokens", "", Tokens, Neither, "Output tokens that the engine counted.", "increase over the window", counters, absent},
		{"server.prefix_cache_queries", "", Tokens, Neither, "Prompt tokens that were looked up in the prefix cache. Before vLLM 0.26.1 it also counts repeated scheduling attempts (vllm#48860).", "increase over the window", counters, absent},
		{"server.prefix_cache_hits", "", Tokens, Neither, "Prompt tokens that were found there.", "increase over the window", counters, absent},
		{"server.preemptions", "", Count, Lower, "Requests that lost their place in the KV cache and were computed again.", "increase over the window", counters, absent},
		{"server.mean_ttft", "", Seconds, Lower, "The engine's own time to first token: from arrival to the first output, without HTTP.", "increase of _sum ÷ increase of _count", counters, absent + ", or nothing was observed"},
		{"server.mean_e2e", "", Seconds, Lower, "The engine's own time from arrival to the end.", "increase of _sum ÷ increase of _count", counters, absent + ", or nothing was observed"},
		{"server.mean_itl", "", Seconds, Lower, "Time between two outputs of a request: a sample per engine step, which may bring several tokens.", "increase of _sum ÷ increase of _count", counters, absent + ", or nothing was observed"},
		{"server.mean_queue", "", Seconds, Lower, "Time that a request waited for the scheduler.", "increase of _sum ÷ increase of _count", counters, absent + ", or nothing was observed"},
		{"server.mean_running", "", Requests, Neither, "Requests being computed.", "mean over the scrapes of the window", counters, absent},
		{"server.max_kv_usage", "", Ratio, Neither, "Fullest state of the KV cache.", "maximum over the scrapes of the window", counters, absent},
		{"server.jit", "", Count, Lower, "Kernels that the engine compiled inside the window. Every one is a pause that no other request sees again.", "lines of the log between t0 and t1", "engine's log", ""},
		{"server.samples", "", Count, Neither, "Samples of the trial that were read back from VictoriaMetrics.", "", "VictoriaMetrics", "not read back"},
	}
}

func health() []Metric {
	const from = "load generator"
	return []Metric{
		{"load_health.cpu", "", Ratio, Lower, "Share of the cores that the load generator may use.", "CPU seconds ÷ (wall × cores)", from, "not known"},
		{"load_health.sched_p99", "", Seconds, Lower, "Time that a goroutine waited for a thread, 99th percentile.", "", "Go runtime", "too few samples"},
		{"load_health.lateness_p99", "", Seconds, Lower, "Time between a request's schedule and its sending, 99th percentile.", "sent − scheduled", from, "closed loop"},
		{"load_health.new_connections", "", Count, Lower, "Connections that were opened inside the window.", "", from, ""},
		{"load_health.capped", "", Requests, Lower, "Arrivals of an open loop that had to wait for max_in_flight.", "", from, ""},
		{"load_health.peak_rss_bytes", "", Bytes, Lower, "Largest memory of the load generator.", "", from, "not known"},
	}
}

func machine() []Metric {
	const (
		kernel = "/proc"
		smi    = "nvidia-smi"
		silent = "no sample in the window tells it"
	)
	return []Metric{
		{"machine.cpu_busy", "", Ratio, Neither, "Share of all processors' time that was used, mean and the most of one second.", "(user + nice + system + irq + softirq) ÷ all", kernel, "not readable"},
		{"machine.cpu_steal", "", Ratio, Lower, "Share that the hypervisor gave to other machines, mean and the most of one second.", "steal ÷ all", kernel, "not readable"},
		{"machine.throttled", "", Ratio, Lower, "Time for which the quota of the load generator's cgroup, or of one above it, stopped a processor; summed over processors, at most 1.", "Δ throttled_usec ÷ window", "cgroup v2 cpu.stat", "no cgroup v2 counts it"},
		{"machine.load_average_1m", "", Count, Neither, "Threads that ran or waited, over the last minute, at the window's end.", "", kernel, "not readable"},
		{"machine.energy_joules", "", Joules, Lower, "Energy of the GPUs that the engine used, in the window.", "Σ gpu.energy_joules", smi, "not known which they are, or a sample is missing"},
		{"machine.joules_per_output_token", "J/token", JoulesPerToken, Lower, "Energy for each output token of a successful request; prompts and failures are in the energy too.", "energy_joules ÷ client.output_tokens", smi + ", server's usage", "either is not known"},
		{"gpu.power_limit_watts", "", Watts, Neither, "Power limit that is set, the lowest seen.", "", smi, "not reported"},
		{"gpu.samples", "", Count, Neither, "Samples inside the window.", "", smi, ""},
		{"gpu.longest_gap_seconds", "", Seconds, Lower, "Longest time inside the window without a sample.", "", smi, ""},
		{"gpu.sm_clock_hertz", "SM clock", Hertz, Neither, "Clock of the multiprocessors: lowest, median, highest.", "", smi, silent},
		{"gpu.memory_clock_hertz", "", Hertz, Neither, "Clock of the memory: lowest, median, highest.", "", smi, silent},
		{"gpu.power_watts", "power", Watts, Lower, "Mean power of the board.", "energy_joules ÷ window", smi, "as energy_joules"},
		{"gpu.energy_joules", "", Joules, Lower, "Energy of the board.", "Σ power × time since the sample before", smi, "no power reported, or more than 3 s without a sample"},
		{"gpu.temperature_celsius", "warmest", Celsius, Lower, "Highest temperature of the GPU.", "", smi, silent},
		{"gpu.utilization", "", Ratio, Neither, "Mean share of the time in which at least one kernel ran. It says nothing about how much of the GPU it used.", "", smi, silent},
		{"gpu.memory_bytes", "", Bytes, Neither, "Most memory in use, of all processes.", "", smi, "not reported"},
		{"gpu.throttle_reasons", "", Ratio, Lower, "Share of the samples in which each reason held the clocks down.", "", smi, silent},
	}
}

func machineSeries() []Metric {
	const (
		kernel = "/proc"
		smi    = "nvidia-smi"
	)
	return []Metric{
		{"bench_host_cpu_busy_ratio", "", Ratio, Neither, "Share of all processors' time that was used since the sample before.", "", kernel, ""},
		{"bench_host_cpu_steal_ratio", "", Ratio, Lower, "Share that the hypervisor gave to other machines since the sample before.", "", kernel, ""},
		{"bench_host_throttled_ratio", "", Ratio, Lower, "Time stopped by a cgroup's quota since the sample before, summed over processors, at most 1.", "", "cgroup v2 cpu.stat", ""},
		{"bench_host_load_average", "", Count, Neither, "Threads that ran or waited, over the last minute.", "", kernel, ""},
		{"bench_gpu_sm_clock_hertz", "", Hertz, Neither, "Clock of the multiprocessors.", "", smi, ""},
		{"bench_gpu_memory_clock_hertz", "", Hertz, Neither, "Clock of the memory.", "", smi, ""},
		{"bench_gpu_power_watts", "", Watts, Lower, "Power of the board, mean of the second before.", "", smi, ""},
		{"bench_gpu_power_limit_watts", "", Watts, Neither, "Power limit that is set.", "", smi, ""},
		{"bench_gpu_temperature_celsius", "", Celsius, Lower, "Temperature of the GPU.", "", smi, ""},
		{"bench_gpu_utilization_ratio", "", Ratio, Neither, "Share of the time in which at least one kernel ran.", "", smi, ""},
		{"bench_gpu_memory_used_bytes", "", Bytes, Neither, "Memory in use, of all processes.", "", smi, ""},
		{"bench_gpu_throttle_active", "", Count, Lower, "1 while a reason holds the clocks down, else 0; the label `reason` is power-cap, thermal, hw-thermal, hw-slowdown, power-brake, sync-boost, app-clocks or display-clock.", "", smi, ""},
	}
}

// Reference is docs/reference/metrics.md.
func Reference() []byte {
	var b strings.Builder
	b.WriteString("<!-- generated from runner/metric; BENCH_UPDATE=1 go test ./runner/metric rewrites it -->\n# Metrics\n\n")
	b.WriteString("Every number of `run.json`, in base units. Null means that nothing is known, never 0.\n")
	for _, g := range Groups() {
		fmt.Fprintf(&b, "\n## %s\n", g.Title)
		if g.Text != "" {
			fmt.Fprintf(&b, "%s\n", g.Text)
		}
		b.WriteString("\n| name | unit | better | definition | formula | from | null when |\n|---|---|---|---|---|---|---|\n")
		for _, m := range g.Metrics {
			name := "`" + m.Name + "`"
			if m.Title != "" {
				name += " (" + m.Title + ")"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, m.Unit, m.Better, cell(m.Definition), cell(m.Formula), cell(m.Source), cell(m.Null))
		}
	}
	return []byte(b.String())
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
