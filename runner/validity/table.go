package validity

import "h100-inference-control-plane/runner/result"

// The limits, all in base units.
const (
	maxDrift          = 0.10  // ratio, between the halves of a window
	maxDriftSimulated = 0.30  // ratio: what a busy machine does to a simulated engine is no warm-up that was too short
	ttftSlack         = 0.005 // seconds: a shorter difference is within what HTTP and the event loop add
	firstUseFactor    = 3.0   // times the median of the class
	firstUseExcess    = 0.1   // seconds above it
	maxOffLoad        = 0.05  // ratio
	minOffered        = 0.97  // ratio
	maxCPU            = 0.70  // ratio of the cores that may be used
	minSched          = 0.001 // seconds, and
	maxSchedShare     = 0.10  // ratio of the time between tokens
	maxLate           = 0.005 // seconds, and
	maxLateShare      = 0.05  // ratio of TTFT
	maxColdHits       = 0.01  // ratio
	warmSlack         = 0.05  // ratio
	maxErrors         = 0.01  // ratio
	maxLengthDiffer   = 0.05  // ratio
	minStarts         = 3
	minWaves          = 1.9  // of a capacity search: two, less what the first burst takes
	minScrapes        = 20   // inside the window, for a mean of a gauge
	maxSteal          = 0.05 // ratio of all processors' time
	maxThrottled      = 0.01 // ratio of the window
	minSampled        = 1.0  // seconds: shorter windows have too few of the kernel's ticks of 10 ms
	maxClockDiffer    = 0.03 // ratio
	maxPowerCap       = 0.05 // ratio of the samples
	maxClockChange    = 0.05 // ratio of the samples: nvidia-smi shows a hardware slowdown also while a clock changes
	maxSilent         = 3.0  // seconds without a sample of the GPU
)

// trialChecks is every check of one trial, in the order of the report. The limits are those of measurement: see
// docs/explanation/validity.md for where they come from. Beside each severity stands why it is that one.
func trialChecks() []check[trial] {
	return []check[trial]{
		{name: "compiled", title: "the engine compiled kernels inside the window", limit: "none",
			severity:    invalid, // one compilation is a pause of up to seconds that no later request sees
			consequence: "requests that waited for the compiler are in the latencies, above all in TTFT and the high percentiles",
			fix:         "warm up with more requests of the measured lengths (load.warmup), then measure again", of: compiled},
		{name: "warm-up", title: "the engine had not settled when the window began", limit: "two blocks of the warm-up agree: TTFT within 15 %, TPOT within 3 %, nothing compiled in the last", timed: true,
			severity:    warns, // drift looks at the window itself, and decides
			consequence: "the first requests of the window may still be slower than the later ones",
			fix:         "warm up longer: a fixed number of requests in load.warmup", of: settled},
		{name: "drift", title: "the second half of the window differs from the first", limit: "10 %", timed: true,
			severity:    invalid, // a window that still changes has no single value
			consequence: "the numbers depend on how long was measured: a warm-up that was too short, a clock that was throttled, or a queue that grows",
			fix:         "warm up longer, and look at clocks and temperature of the GPU; in an open loop, lower the rate", of: drifts},
		{name: "first-use", title: "the first prompt of a length took far longer than the others", limit: "3 × the median TTFT of its length + 100 ms", timed: true,
			severity:    invalid, // vLLM does not log all of its compiling: 0.7 to 1.6 s for a new length, mostly without a line
			consequence: "the engine probably compiled for that length in silence; the requests that waited are in the latencies",
			fix:         "warm up with every length that is measured", of: firstUse},
		{name: "in-flight", title: "another number of requests was in flight than asked for", limit: "within 5 %", timed: true,
			severity:    ofTheHost, // the client sent too slowly
			consequence: "the engine had another load than the one that the result names",
			fix:         "give the load generator more CPU, or fewer requests at once", of: inFlight},
		{name: "running", title: "the engine ran another number of requests than were in flight", limit: "within 5 %", timed: true,
			severity:    invalid, // others' load; fewer than asked, where the engine's own time of a request is known, is a finding about it
			consequence: "the scheduler's batch is not the number of requests in flight: others use the engine, or requests wait in its queue or its front end",
			fix:         "keep other clients off the engine", of: running},
		{name: "arrivals", title: "requests were sent slower than the schedule says", limit: "at least 97 % of the rate", timed: true,
			severity:    invalid, // an open loop that waits is a closed one
			consequence: "the engine had a lower rate than the one that the result names, and latency looks better than it is",
			fix:         "raise load.open.max_in_flight, or lower the rate", of: arrivals},
		{name: "client-cpu", title: "the load generator was busy", limit: "at most 70 % of its cores", timed: true,
			severity:    ofTheHost,
			consequence: "events wait for the client before they are stamped: latencies are too long",
			fix:         "run the load generator on more cores, or on another machine than the engine", of: clientCPU},
		{name: "client-scheduler", title: "the load generator's goroutines waited for a thread", timed: true,
			limit:       "p99 at most 1 ms, or 10 % of the time between tokens where that is more",
			severity:    ofTheHost,
			consequence: "events wait for the client before they are stamped: latencies are too long, by at least that much for one in a hundred",
			fix:         "take other work off the machine, or run the load generator on another one", of: clientScheduler},
		{name: "client-lateness", title: "requests were sent later than scheduled", timed: true,
			limit:       "p99 at most 5 ms and at most 5 % of TTFT",
			severity:    ofTheHost,
			consequence: "the delay is in every latency although the engine never saw it",
			fix:         "take other work off the machine, or run the load generator on another one", of: clientLateness},
		{name: "host-steal", title: "the processors were taken away for part of the time", timed: true,
			limit:       "steal at most 5 %, stopped by a quota at most 1 % of the window",
			severity:    ofTheHost,
			consequence: "client and engine stood still without knowing it: latencies are too long, and differ from run to run",
			fix:         "raise the cgroup's CPU quota, or use a machine that is not shared", of: hostSteal},
		{name: "gpu-slowed", title: "the GPU lowered its clocks",
			limit:       "heat and power supply: never; other hardware slowdown and power cap: at most 5 % of the samples; sync boost: never",
			severity:    invalid, // but for the power limit, which is part of the machine: a config that needs more power runs like this
			consequence: "the numbers are those of a GPU at another clock: what a config shows depends on when it ran, not on what it is",
			fix:         "cool the GPU, let it rest between trials, check its power supply, or lock its clocks with nvidia-smi -lgc", of: gpuSlowed},
		{name: "gpu-shared", title: "another process was on the GPU", limit: "none",
			severity:    invalid,
			consequence: "it takes time and memory of the GPU, at moments that nobody knows",
			fix:         "end it (nvidia-smi names it), or take another GPU", of: gpuShared},
		{name: "agreement", title: "client and server count differently", limit: "requests equal, tokens within 0.1 %, times within 10 % + 5 ms", timed: true,
			severity:    invalid, // one of the two is wrong and nobody knows which
			consequence: "at least one side counts wrongly, so no number of either can be trusted",
			fix:         "see the table of both sides: other clients on the engine, a proxy that retries, a wrong clock, a metric with another meaning", of: agreement},
		{name: "cache", title: "the prefix cache was in another state than declared", limit: "cold: at most 1 % hits; warm: what the prompts allow less 5 points",
			severity:    invalid,
			consequence: "TTFT and throughput are those of another share of cached prompts than declared",
			fix:         "declare the state that is meant (workload.cache); for cold, use prompts that share nothing; for warm, warm up with every shared part and give the cache room", of: cacheState},
		{name: "output-length", title: "answers have another length than was asked for", limit: "all exact",
			severity:    invalid,
			consequence: "another amount of work was done than the one that is compared",
			fix:         "check that the engine honours ignore_eos and min_tokens, and that max-model-len leaves room", of: outputLength},
		{name: "usage", title: "answers came without usage", limit: "every answer has it",
			severity:    invalid, // tokens are never counted any other way
			consequence: "output tokens, tokens per second and TPOT are not known",
			fix:         "use an engine or proxy that passes stream_options.include_usage on", of: usage},
		{name: "chunks", title: "several tokens came at once", limit: "at most 5 % of the tokens",
			severity:    warns, // TTFT, TPOT and throughput do not count chunks
			consequence: "the time between chunks says nothing about tokens; TTFT, TPOT and throughput stand",
			fix:         "nothing, unless the time between chunks is needed: then lower the concurrency or the engine's stream interval", of: chunks},
		{name: "effective", title: "the engine runs with other settings than asked for", limit: "equal", unasked: true,
			severity:    invalid,
			consequence: "the numbers are of another configuration than the one that they stand under",
			fix:         "remove the flag that the engine overrides, or ask for the value that it uses", of: effective},
		{name: "restart", title: "the engine restarted inside the window", limit: "no restart", unasked: true,
			severity:    invalid,
			consequence: "counters began anew, and the requests met two engines",
			fix:         "see the engine's log for why it ended", of: restart},
		{name: "preemptions", title: "the engine preempted requests", limit: "none",
			severity:    warns, // under a load that does not fit, it is how this config behaves, and so a result
			consequence: "some prompts were computed twice: the KV cache is too small for this load, and latency has a tail from that",
			fix:         "give the cache more memory (gpu-memory-utilization), or lower the concurrency, unless this is what is to be shown", of: preemptions},
		{name: "errors", title: "requests failed", limit: "at most 1 %", unasked: true,
			severity:    invalid, // what is left is another load than the one asked for
			consequence: "the latencies are those of the requests that the engine did not refuse",
			fix:         "see the first error; lower the load or correct the request", of: errorShare},
		{name: "quantile-gate", title: "a gate on a high percentile has too few requests",
			limit:       "as many as make it 99 % likely that one of them lies beyond the percentile: 459 for p99",
			severity:    warns, // the verdict follows the file; a reader must know that luck can make it
			consequence: "the percentile is nearly the slowest request: the gate can pass, or fail, by luck",
			fix:         "raise load.closed.requests, or gate on a lower percentile", of: quantileGate},
		{name: "window-length", title: "the time in which all places were busy is short", timed: true,
			limit:       "two waves, and the precision that the comparison needs",
			severity:    warns, // the interval over starts shows what it costs
			consequence: "throughput is known less precisely than the experiment asks for",
			fix:         "raise load.closed.requests", of: windowLength},
		{name: "prompts", title: "requests have identical prompts", limit: "all differ",
			severity:    warns, // it may be what is asked about, as it was for the seed
			consequence: "a prefix cache can answer them all, and in a mixture-of-experts model they all go to the same experts: real traffic does neither",
			fix:         "use workload.prompt.random or a file of prompts", of: prompts},
	}
}

// runChecks is every check of a run.
func runChecks() []check[*result.Run] {
	return []check[*result.Run]{
		{name: "same-engine", title: "starts ran different engines", limit: "one version",
			severity:    invalid,
			consequence: "a difference between starts or configs may be one between two engines",
			fix:         "run all starts on one release; name it in engine.version", of: sameEngine},
		{name: "same-machine", title: "the GPU was not the same one, or not at the same clock, in all starts",
			limit:       "one model, driver and power limit; median SM clocks within 3 %",
			severity:    invalid,
			consequence: "a difference between starts or configs may be one between two machines",
			fix:         "run all starts on one machine; lock the clocks with nvidia-smi -lgc; let the GPU cool down between starts", of: sameMachine},
		{name: "same-output", title: "the configs' answers differ in length", limit: "within 5 % at each load point",
			severity:    invalid, // of the comparison; a single config is still what it is
			consequence: "a config that answers shorter looks faster",
			fix:         "set workload.output.exact, or compare time per token only", of: sameOutput},
		{name: "starts", title: "there are few engine starts", limit: "at least 3 for each config",
			severity:    warns, // the report has no interval then, and says so
			consequence: "how much starts differ by themselves is not known, so a difference between configs may be one between starts",
			fix:         "set starts to 3 or more", of: enoughStarts},
	}
}
