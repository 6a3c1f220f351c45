// Package result is the one document everything else is rendered from: run.json. It holds what was planned, what was
// measured and what was concluded; reports, comments and verify read only this. Absent is null, never 0.
// All times are in seconds, sizes in bytes, shares as ratios.
package result

import (
	"time"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// Schema is the version of the document. A folder of an older schema stays readable for ever.
const Schema = "bench/result/v1"

// Verdict is a conclusion.
type Verdict string

// The verdicts, of an SLO, a trial and a run.
const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"
	Inconclusive Verdict = "INCONCLUSIVE"
	Error        Verdict = "ERROR"
	Superseded   Verdict = "SUPERSEDED"
)

// Run is one experiment's result.
type Run struct {
	Schema     string           `json:"schema"`
	RunKey     string           `json:"run_key"`
	Simulated  bool             `json:"simulated"`
	Synthetic  string           `json:"synthetic,omitempty"` // not empty when the weights are not the model's, and why: "shapes and timings, not text"
	Verdict    Verdict          `json:"verdict"`
	Reason     string           `json:"reason"` // one sentence
	Started    time.Time        `json:"started"`
	Ended      time.Time        `json:"ended"`
	Tool       Tool             `json:"tool"`
	Host       Host             `json:"host"`
	Where      string           `json:"where"` // provisioner: process, endpoint
	Experiment *spec.Experiment `json:"experiment"`
	Plan       Plan             `json:"plan"`
	Floor      *Floor           `json:"floor"` // what the load generator was calibrated to on this host; null = not calibrated
	Starts     []Start          `json:"starts"`
	Trials     []Trial          `json:"trials"` // in the order in which they ran; planned but missing ones have Outcome "missing"
	Cells      []Cell           `json:"cells"`
	Gates      []Gate           `json:"gates"`
	// Findings are what the run says, in sentences, the most important first. They repeat what is below in numbers.
	Findings     []string       `json:"findings,omitempty"`
	Comparisons  []Comparison   `json:"comparisons,omitempty"`  // every candidate at every load point
	Attributions []Attribution  `json:"attributions,omitempty"` // by candidate, load point and metric; empty unless asked for
	Capacity     []Capacity     `json:"capacity,omitempty"`     // of each config; only of a capacity search
	Checks       []Check        `json:"checks,omitempty"`       // about the run as a whole; those of a trial are in it
	Warnings     []plan.Warning `json:"warnings,omitempty"`
	Files        []File         `json:"files"` // every other file of the folder
}

// Tool is the program that measured.
type Tool struct {
	Version         string `json:"version"`
	Go              string `json:"go"`
	LoadGenerator   string `json:"load_generator"` // version of the load generator's behaviour; part of keys
	VictoriaMetrics string `json:"victoriametrics"`
}

// Host is the machine that ran the load generator.
type Host struct {
	OS          string   `json:"os"`
	Arch        string   `json:"arch"`
	Kernel      string   `json:"kernel,omitempty"`
	CPU         string   `json:"cpu,omitempty"`
	Cores       int      `json:"cores"`
	CPUQuota    *float64 `json:"cpu_quota"` // cores the cgroup allows; null = no limit found
	MemoryBytes *int64   `json:"memory_bytes"`
	GPUs        []GPU    `json:"gpus"`        // null = nvidia-smi absent, [] = it saw none
	Fingerprint string   `json:"fingerprint"` // hex SHA-256 over what may change a number; part of keys
}

// GPU is one device as nvidia-smi shows it.
type GPU struct {
	Name        string   `json:"name"`
	Driver      string   `json:"driver"`
	MemoryBytes *int64   `json:"memory_bytes"`
	PowerLimitW *float64 `json:"power_limit_watts"`
}

// Plan is what of the plan a reader of the result needs.
type Plan struct {
	Seed     uint64        `json:"seed"`
	Order    []string      `json:"order"` // start IDs with their config, as run: "s01 default"
	Estimate plan.Estimate `json:"estimate"`
}

// Floor is the load generator's own error on this host, from `benchctl calibrate`. Seconds; never subtracted.
type Floor struct {
	Streams         int       `json:"streams"`
	IntervalS       float64   `json:"interval_seconds"`
	ErrorP50        float64   `json:"error_p50_seconds"`
	ErrorP99        float64   `json:"error_p99_seconds"`
	CPUPerEvent     float64   `json:"cpu_seconds_per_event"`
	EventsPerSecond float64   `json:"events_per_second"` // sustained
	LatenessP99     float64   `json:"lateness_p99_seconds"`
	When            time.Time `json:"when"`
}

// Start is one life of an engine.
type Start struct {
	ID        string                     `json:"id"`
	Config    string                     `json:"config"`
	Repeat    int                        `json:"repeat"`
	Block     int                        `json:"block"`
	Attempt   int                        `json:"attempt"` // 1 = first; a resumed run starts an engine again
	Argv      []string                   `json:"argv"`
	Began     time.Time                  `json:"began"`
	ReadyS    *float64                   `json:"ready_seconds"`     // process start to first 200
	EngineS   *float64                   `json:"engine_seconds"`    // process start to end: what is paid for
	Version   string                     `json:"version"`           // as the engine says
	Effective map[string]any             `json:"effective"`         // as the engine says; null = not reported
	Differs   []Difference               `json:"differs,omitempty"` // requested ≠ effective
	Facts     []engine.LogFact           `json:"facts,omitempty"`   // from the log, in order; jit lines are counted per trial
	Series    map[engine.Quantity]string `json:"series,omitempty"`  // the name under which each quantity was found
	Log       string                     `json:"log,omitempty"`     // file in the folder
	Error     string                     `json:"error,omitempty"`   // why it failed, one line
}

// Difference is one flag whose effective value is not the requested one.
type Difference struct {
	Flag      string `json:"flag"`
	Requested any    `json:"requested"`
	Effective any    `json:"effective"`
}

// Outcome says whether a trial has numbers.
type Outcome string

// The outcomes of a trial.
const (
	Measured Outcome = "measured"
	Broken   Outcome = "broken"  // began and did not finish: Error says why
	Missing  Outcome = "missing" // never ran
)

// Trial is one cell measured in one start.
type Trial struct {
	ID       string      `json:"id"`
	Config   string      `json:"config"`
	Point    spec.Point  `json:"load"`
	Repeat   int         `json:"repeat"`
	Start    string      `json:"start"`
	Attempt  int         `json:"attempt"`
	Outcome  Outcome     `json:"outcome"`
	Error    string      `json:"error,omitempty"`
	Seed     uint64      `json:"seed"`
	Confirms bool        `json:"confirms,omitempty"` // measured again because a gate failed; in no median and no comparison
	Workload string      `json:"workload_sha256"`    // of the request bytes
	Warmup   *Warmup     `json:"warmup,omitempty"`   // null = there was none
	Window   *Window     `json:"window"`
	Client   *Client     `json:"client"`
	Server   *Server     `json:"server"`
	Agree    []Agreement `json:"reconciliation,omitempty"`
	Load     *LoadHealth `json:"load_health"`
	Machine  *Machine    `json:"machine,omitempty"` // null = not sampled
	Prompts  *Prompts    `json:"prompts,omitempty"` // null = not counted
	Steady   *Steady     `json:"steady,omitempty"`  // closed loop only; null = there was no moment at which all places were busy
	Checks   []Check     `json:"checks,omitempty"`  // may the numbers be believed; those that do not apply are left out
	SLO      []Judgement `json:"slo,omitempty"`
	Verdict  Verdict     `json:"verdict"`
	Reason   string      `json:"reason,omitempty"` // why the verdict is not PASS, one line
	Held     *bool       `json:"held,omitempty"`   // of a capacity search: every gating objective was met; null = it is not believed
}

// Window is the interval that was measured, (t0, t1], on the wall clock.
type Window struct {
	T0      time.Time `json:"t0"` // whole milliseconds
	T1      time.Time `json:"t1"`
	Seconds float64   `json:"seconds"`
}

// Warmup is what came before a window.
type Warmup struct {
	Requests int     `json:"requests"`
	Blocks   int     `json:"blocks"`
	Seconds  float64 `json:"seconds"`
	JIT      int     `json:"jit"` // compile lines in the log
	// Stable is whether the last two blocks agree and nothing was compiled in the last; null = a fixed number was asked for.
	Stable     *bool    `json:"stable"`
	TTFTChange *float64 `json:"ttft_change"` // of the medians of the last two blocks, last ÷ the one before − 1
	TPOTChange *float64 `json:"tpot_change"` // the same
}

// Prompts is what of the sent prompts a reader needs to know.
type Prompts struct {
	Distinct int `json:"distinct"` // prompts that differ, of all that were to be sent
}

// Steady is the part of a closed loop in which every place was busy: from the moment all of them were, to the moment the
// first went idle because no request was left. What a machine sustains is measured in it; the time after it, in which
// the load drains, is not. Times are seconds after the load began.
type Steady struct {
	From    float64 `json:"from_seconds"`
	To      float64 `json:"to_seconds"`
	Seconds float64 `json:"seconds"`
	// Waves is how many requests long the window is: Seconds ÷ mean E2E.
	Waves float64 `json:"waves"`
	// FullWaves and Tail divide all requests by the concurrency: so many times every place, and the rest.
	FullWaves int `json:"full_waves"`
	Tail      int `json:"tail"`

	RequestsPerS *float64 `json:"requests_per_second"`      // null when nothing succeeded in the window
	OutputPerS   *float64 `json:"output_tokens_per_second"` // null also when a success in it has no usage
	InFlight     *float64 `json:"mean_in_flight"`
	// EdgeShare is the share of the tokens whose place in time is not stamped: those between first and last token of
	// requests that an edge of the window cuts, put there evenly. Null = no tokens.
	EdgeShare *float64 `json:"edge_share"`

	TTFTDrift *Drift `json:"ttft_drift"` // null = too few requests
	TPOTDrift *Drift `json:"tpot_drift"`

	// Precision is the relative half-width that a window of this length allows throughput to be known to; Asked is the
	// one that the experiment needs. NeedRequests is how many requests would do; 0 = the window is long enough.
	Precision    *float64 `json:"precision"`
	Asked        float64  `json:"asked_precision"`
	NeedRequests int      `json:"need_requests,omitempty"`
	// Wave explains why the wall-clock throughput is another; empty when the two are within 5 %.
	Wave string `json:"wave,omitempty"`
}

// Drift compares the requests of the first half with those of the second.
type Drift struct {
	First  float64 `json:"first"`  // median, seconds
	Second float64 `json:"second"` // median, seconds
	Change float64 `json:"change"` // Second ÷ First − 1
	Noise  float64 `json:"noise"`  // half-width of the 95 % interval of Change, from the spread of the requests
	N      int     `json:"n"`      // requests in both halves together
}

// CheckStatus is the outcome of a check. Unknown is not ok.
type CheckStatus string

// The outcomes.
const (
	CheckOK      CheckStatus = "ok"
	CheckFailed  CheckStatus = "failed"
	CheckUnknown CheckStatus = "unknown" // the measurement is absent, or too coarse to tell
)

// Check is one reason to believe a number or not. Of a check that is ok only Name, Status, Measured and a Limit that
// depends on the trial are kept: docs/explanation/validity.md has the rest.
type Check struct {
	Name     string      `json:"name"` // stable: a row of docs/explanation/validity.md
	Title    string      `json:"title,omitempty"`
	Status   CheckStatus `json:"status"`
	Measured string      `json:"measured"` // with its unit; of an unknown one, why it is not known
	Limit    string      `json:"limit,omitempty"`
	// Invalidates is true when a failure means that the numbers are not to be believed, false when it only warns.
	Invalidates bool   `json:"invalidates,omitempty"`
	Consequence string `json:"consequence,omitempty"` // what it does to the numbers
	Fix         string `json:"fix,omitempty"`
}

// Invalid reports whether a check failed that makes the numbers not believable.
func (c Check) Invalid() bool { return c.Status == CheckFailed && c.Invalidates }

// Client is what the load generator counted and timed. TTFT, TPOT and E2E are over successful requests; a failed one
// counts in Failed and, as infinitely slow, in the objectives.
type Client struct {
	Requests     int            `json:"requests"`
	Succeeded    int            `json:"succeeded"`
	Failed       int            `json:"failed"`
	Errors       map[string]int `json:"errors,omitempty"`       // by class
	ErrorDetail  string         `json:"error_detail,omitempty"` // the first server message
	WallSeconds  *float64       `json:"wall_seconds"`           // from the first request's schedule to the last one's end
	PromptTokens *int64         `json:"prompt_tokens"`          // of successes; null when one of them had no usage
	OutputTokens *int64         `json:"output_tokens"`          // the same
	CachedTokens *int64         `json:"cached_tokens"`          // of the successes that said; null when none did
	NoUsage      int            `json:"no_usage"`               // successes without usage
	WrongLength  int            `json:"wrong_length"`           // exact asked and another length came
	RequestsPerS *float64       `json:"requests_per_second"`    // successes ÷ wall: "seed-style"; null when nothing succeeded
	OutputPerS   *float64       `json:"output_tokens_per_second"`
	TTFT         *Dist          `json:"ttft"`
	TTFTSent     *float64       `json:"mean_ttft_from_sent"` // first token − sent: what the engine could have seen
	TPOT         *Dist          `json:"tpot"`                // over requests with >= 2 output tokens
	E2E          *Dist          `json:"e2e"`
	InterChunk   *Dist          `json:"inter_chunk"`   // null when more than 5 % of tokens were coalesced
	Coalesced    *float64       `json:"coalesced"`     // share of events that shared a read with the one before
	OutputLength *Dist          `json:"output_length"` // tokens
	PromptLength *Dist          `json:"prompt_length"` // tokens
	MeanInFlight *float64       `json:"mean_in_flight"`
}

// Dist describes a sample. Quantiles interpolate linearly at rank q(n-1), as MetricsQL's quantile_over_time does.
type Dist struct {
	N    int      `json:"n"`
	Mean float64  `json:"mean"`
	Min  float64  `json:"min"`
	P50  float64  `json:"p50"`
	P90  float64  `json:"p90"`
	P95  float64  `json:"p95"`
	P99  *float64 `json:"p99"` // null below 100 samples
	Max  float64  `json:"max"`
}

// Server is what the engine counted over the window: exact differences of counters. Null = not reported.
type Server struct {
	Requests      *float64 `json:"requests"`
	PromptTokens  *float64 `json:"prompt_tokens"`
	OutputTokens  *float64 `json:"output_tokens"`
	PrefixQueries *float64 `json:"prefix_cache_queries"` // tokens
	PrefixHits    *float64 `json:"prefix_cache_hits"`    // tokens
	Preemptions   *float64 `json:"preemptions"`
	MeanTTFT      *float64 `json:"mean_ttft"`
	MeanE2E       *float64 `json:"mean_e2e"`
	MeanITL       *float64 `json:"mean_itl"`
	MeanQueue     *float64 `json:"mean_queue"`
	MeanRunning   *float64 `json:"mean_running"`
	MaxKVUsage    *float64 `json:"max_kv_usage"` // ratio
	Restarted     *bool    `json:"restarted"`
	JIT           int      `json:"jit"` // compile lines in the log inside the window
	JITKernels    []string `json:"jit_kernels,omitempty"`
	Samples       *int64   `json:"samples"` // read back from VictoriaMetrics
}

// Agreement is one quantity that client and server both counted.
type Agreement struct {
	What   string   `json:"what"`
	Client *float64 `json:"client"`
	Server *float64 `json:"server"`
	Agrees *bool    `json:"agrees"` // null when one side did not report
	Limit  string   `json:"limit"`  // what is asked for, or why nothing can be said
}

// LoadHealth is how well the load generator did its own work.
type LoadHealth struct {
	CPU          *float64 `json:"cpu"`             // share of the cores it may use
	SchedP99     *float64 `json:"sched_p99"`       // seconds a goroutine waited for a thread
	LatenessP99  *float64 `json:"lateness_p99"`    // seconds between scheduled and sent; null in closed loop
	NewConns     int      `json:"new_connections"` // inside the window
	Capped       int      `json:"capped"`          // open loop: arrivals that had to wait for max_in_flight
	PeakRSSBytes *int64   `json:"peak_rss_bytes"`
}

// Machine is what the machine that runs the load generator did inside the window, from samples one a second.
type Machine struct {
	CPUBusy     *Share   `json:"cpu_busy"`        // of all processors' time
	CPUSteal    *Share   `json:"cpu_steal"`       // what the hypervisor gave to others
	Throttled   *float64 `json:"throttled"`       // seconds stopped by a cgroup's quota ÷ window, summed over processors, at most 1; null = no cgroup v2 counts it
	LoadAverage *float64 `json:"load_average_1m"` // threads, at the window's end
	GPUs        []GPUUse `json:"gpus"`            // null = not asked, or no nvidia-smi that answers; [] = it saw none
	// EnergyJ is of the GPUs that the engine used; null when it is not known which, or a sample is missing.
	EnergyJ        *float64 `json:"energy_joules"`
	JoulesPerToken *float64 `json:"joules_per_output_token"` // energy ÷ the client's output tokens; null when either is not known
}

// Share is a share of the time, over the window.
type Share struct {
	Mean float64  `json:"mean"`
	Max  *float64 `json:"max"` // of one second; null when the window is shorter
}

// GPUUse is one device over the window, as nvidia-smi shows it. Null = it does not say.
type GPUUse struct {
	Index       int      `json:"index"`
	ID          string   `json:"id"` // the first digits of the UUID: enough to tell devices apart
	Name        string   `json:"name"`
	Driver      string   `json:"driver"`
	PowerLimitW *float64 `json:"power_limit_watts"`   // the lowest seen
	Used        *bool    `json:"used"`                // by the engine; null when the processes on it cannot be told apart
	Samples     int      `json:"samples"`             // inside the window
	GapS        float64  `json:"longest_gap_seconds"` // without a sample, inside the window
	SMClock     *Spread  `json:"sm_clock_hertz"`
	MemoryClock *Spread  `json:"memory_clock_hertz"`
	PowerW      *float64 `json:"power_watts"`         // mean
	EnergyJ     *float64 `json:"energy_joules"`       // null also when samples are missing
	Temperature *float64 `json:"temperature_celsius"` // highest
	Utilization *float64 `json:"utilization"`         // mean share of the time in which a kernel ran
	MemoryBytes *int64   `json:"memory_bytes"`        // most in use
	// Reasons are the shares of the samples in which each reason held the clocks down: power-cap, thermal, hw-thermal,
	// hw-slowdown, power-brake, sync-boost, and the two settings app-clocks and display-clock. Idling is none.
	Reasons map[string]float64 `json:"throttle_reasons"`
	Others  []GPUProcess       `json:"other_processes"` // at either edge of the window; null = not known, [] = none
}

// Spread is the range of a sampled value.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// GPUProcess is a process on a GPU that is not the engine's.
type GPUProcess struct {
	PID         int    `json:"pid"`
	MemoryBytes *int64 `json:"memory_bytes"`
}

// Judgement is one SLO on one trial.
type Judgement struct {
	Name     string   `json:"name"`
	Query    string   `json:"query"`              // as sent: window and labels in place
	Value    *float64 `json:"value"`              // null = no data, or Infinite
	Infinite bool     `json:"infinite,omitempty"` // the value falls on a failed request, which is infinitely slow
	// WithFailures is a share in which failed requests count as misses, where Value leaves them out; null = it does not.
	WithFailures *float64 `json:"with_failures,omitempty"`
	Samples      *int64   `json:"samples"`
	// Interval is how far this trial's requests allow Value to be known; null = it is no share or quantile of requests, or
	// too few requests lie beyond the quantile.
	Interval *stats.Interval `json:"interval,omitempty"`
	Max      *float64        `json:"max"`
	Min      *float64        `json:"min"`
	Unit     string          `json:"unit,omitempty"`
	Gate     bool            `json:"gate"`
	Verdict  Verdict         `json:"verdict"`
	Reason   string          `json:"reason,omitempty"`
}

// Cell is one config at one load point over all its starts: medians with every start's value beside them.
type Cell struct {
	Config        string     `json:"config"`
	Point         spec.Point `json:"load"`
	Trials        []string   `json:"trials"` // IDs of measured trials
	Planned       int        `json:"planned"`
	RequestsPerS  *Median    `json:"requests_per_second"` // over the wall clock: "seed-style"
	OutputPerS    *Median    `json:"output_tokens_per_second"`
	SteadyReqPerS *Median    `json:"steady_requests_per_second,omitempty"` // inside the steady window; null = no start has one
	SteadyOutPerS *Median    `json:"steady_output_tokens_per_second,omitempty"`
	TTFTP50       *Median    `json:"ttft_p50"`
	TPOTP50       *Median    `json:"tpot_p50"`
	E2EP50        *Median    `json:"e2e_p50"`
	E2EP99        *Median    `json:"e2e_p99"`
	ErrorShare    *Median    `json:"error_share"`
	SMClock       *Median    `json:"sm_clock_hertz,omitempty"`          // the median inside each start; these four are null when no start knows
	PowerW        *Median    `json:"power_watts,omitempty"`             // of the GPUs that the engine used, together
	Temperature   *Median    `json:"temperature_celsius,omitempty"`     // the highest of each start
	OutputPerJ    *Median    `json:"output_tokens_per_joule,omitempty"` // of the same GPUs
	Verdict       Verdict    `json:"verdict"`
}

// Median is the median over the starts that have a value, and each start's value in the order of Trials; null = that
// start has none.
type Median struct {
	Value  float64    `json:"value"`
	Starts []*float64 `json:"starts"`
}

// Comparison is a candidate against the baseline at one load point.
type Comparison struct {
	Baseline  string     `json:"baseline"`
	Candidate string     `json:"candidate"`
	Point     spec.Point `json:"load"`
	Blocks    int        `json:"blocks"`        // interleaved blocks in which both were measured
	Why       string     `json:"why,omitempty"` // why there is no number at all
	Changes   []Change   `json:"changes,omitempty"`
}

// Change is candidate ÷ baseline of one number. Each block of starts gives a ratio; Ratio is their geometric mean.
type Change struct {
	Metric    string          `json:"metric"` // as docs/reference/metrics.md names it; of a distribution, its median
	Better    stats.Direction `json:"better"`
	Ratio     *float64        `json:"ratio"`      // null = not known
	Interval  *stats.Interval `json:"interval"`   // of Ratio, from the blocks; null with fewer than three, or without any spread
	P         *float64        `json:"p"`          // of no change, two-sided, this comparison alone
	AdjustedP *float64        `json:"adjusted_p"` // Holm's, over all candidates and load points of this metric
	Word      stats.Change    `json:"word,omitempty"`
	Inert     bool            `json:"inert,omitempty"` // the whole interval lies inside the minimum effect
	Why       string          `json:"why,omitempty"`   // why there is no interval, or no clear change in spite of it
}

// Attribution is the change of one number at one load point, split over the flags that differ.
type Attribution struct {
	Candidate string            `json:"candidate"`
	Point     spec.Point        `json:"load"`
	Metric    string            `json:"metric,omitempty"`
	Better    stats.Direction   `json:"better,omitempty"`
	Configs   []string          `json:"configs"`       // that were measured for it, the baseline first and the candidate last
	Why       string            `json:"why,omitempty"` // why there is no result
	Result    *attribute.Result `json:"result"`
}

// Gate is one SLO of one cell: what decided the verdict.
type Gate struct {
	SLO     string     `json:"slo"`
	Config  string     `json:"config"`
	Point   spec.Point `json:"load"`
	Gate    bool       `json:"gate"` // false: shown only (a non-gating SLO, or the comparison's baseline)
	Verdict Verdict    `json:"verdict"`
	// Interval belongs to Worst.
	Interval *stats.Interval `json:"interval,omitempty"`
	Worst    *float64        `json:"worst"` // over the starts that were judged; null = none has a value, or Infinite
	Infinite bool            `json:"infinite,omitempty"`
	Max      *float64        `json:"max"`
	Min      *float64        `json:"min"`
	Unit     string          `json:"unit,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// File is one file of the folder.
type File struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}
