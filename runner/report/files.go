package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// Results is results_CONFIG_LOAD.txt: what a plain load test prints for one config at one load point, one block for each
// engine start, in the order of the repeats. Starts that were not measured are there with the reason.
func Results(run *result.Run, config string, point spec.Point) []byte {
	var b bytes.Buffer
	for _, s := range banners(run) {
		fmt.Fprintf(&b, "%s\n", clean(s))
	}
	fmt.Fprintf(&b, "Experiment: %s\nRun: %s\nConfig: %s\n", clean(name(run)), clean(run.RunKey), clean(config))
	if point.Concurrency > 0 {
		fmt.Fprintf(&b, "Concurrency: %d\n", point.Concurrency)
	} else {
		fmt.Fprintf(&b, "Request rate: %v req/s\n", point.Rate)
	}
	trials := []result.Trial{}
	for _, t := range run.Trials {
		if t.Config == config && t.Point == point {
			trials = append(trials, t)
		}
	}
	slices.SortStableFunc(trials, func(a, b result.Trial) int { return a.Repeat - b.Repeat })
	for _, t := range trials {
		fmt.Fprintf(&b, "\n--- start %d (%s, engine start %s) ---\n", t.Repeat, clean(t.ID), clean(orNone(t.Start)))
		resultsOf(&b, &t)
	}
	return b.Bytes()
}

func resultsOf(b *bytes.Buffer, t *result.Trial) {
	c := t.Client
	if t.Outcome != result.Measured || c == nil {
		fmt.Fprintf(b, "Not measured: %s\n", clean(orNone(t.Error)))
		return
	}
	line := func(name, value string) { fmt.Fprintf(b, "%-22s %s\n", name+":", value) }
	seconds := func(name string, v *float64) {
		line(name, optional(v, func(v float64) string { return fmt.Sprintf("%.6f s", v) }))
	}
	line("Total requests", fmt.Sprint(c.Requests))
	line("Success", fmt.Sprint(c.Succeeded))
	line("Errors", fmt.Sprint(c.Failed))
	for _, k := range sortedKeys(c.Errors) {
		line("  "+clean(k), fmt.Sprint(c.Errors[k]))
	}
	if c.ErrorDetail != "" {
		line("First error", clean(c.ErrorDetail))
	}
	seconds("Total time", c.WallSeconds)
	line("Throughput", optional(c.RequestsPerS, func(v float64) string { return fmt.Sprintf("%.4f req/s", v) }))
	line("Output throughput", optional(c.OutputPerS, func(v float64) string { return fmt.Sprintf("%.2f tok/s", v) }))
	if s := t.Steady; s != nil {
		line("Steady throughput", optional(s.RequestsPerS, func(v float64) string { return fmt.Sprintf("%.4f req/s", v) }))
		line("Steady output", optional(s.OutputPerS, func(v float64) string { return fmt.Sprintf("%.2f tok/s", v) }))
		line("Steady window", fmt.Sprintf("%.6f s to %.6f s", s.From, s.To))
	}
	line("Prompt tokens", count(c.PromptTokens))
	line("Output tokens", count(c.OutputTokens))
	for _, d := range []struct {
		name string
		dist *result.Dist
	}{{"latency", c.E2E}, {"TTFT", c.TTFT}, {"TPOT", c.TPOT}} {
		if d.dist == nil {
			line("P50 "+d.name, none)
			continue
		}
		seconds("Mean "+d.name, &d.dist.Mean)
		seconds("P50 "+d.name, &d.dist.P50)
		seconds("P95 "+d.name, &d.dist.P95)
		if d.dist.P99 == nil {
			line("P99 "+d.name, fmt.Sprintf("%s (%d requests; shown from %d)", none, d.dist.N, result.MinP99))
		} else {
			seconds("P99 "+d.name, d.dist.P99)
		}
		seconds("Max "+d.name, &d.dist.Max)
	}
}

func optional(v *float64, write func(float64) string) string {
	if v == nil {
		return none
	}
	return write(*v)
}

func count(v *int64) string {
	if v == nil {
		return none
	}
	return fmt.Sprint(*v)
}

// vllmBench has the fields of `vllm bench serve --save-result` (0.25.1), in its order and its units. Null is what was not
// measured or is not known. The last three are ours.
type vllmBench struct {
	Date                 string   `json:"date"`
	EndpointType         string   `json:"endpoint_type"`
	Backend              string   `json:"backend"`
	Label                *string  `json:"label"`
	ModelID              string   `json:"model_id"`
	TokenizerID          *string  `json:"tokenizer_id"`
	NumPrompts           int      `json:"num_prompts"`
	RequestRate          any      `json:"request_rate"`
	Burstiness           *float64 `json:"burstiness"`
	MaxConcurrency       *int     `json:"max_concurrency"`
	Duration             *float64 `json:"duration"`
	Completed            int      `json:"completed"`
	Failed               int      `json:"failed"`
	TotalInputTokens     *int64   `json:"total_input_tokens"`
	TotalOutputTokens    *int64   `json:"total_output_tokens"`
	RequestThroughput    *float64 `json:"request_throughput"`
	RequestGoodput       *float64 `json:"request_goodput"`
	OutputThroughput     *float64 `json:"output_throughput"`
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	MaxOutputTokensPerS  *float64 `json:"max_output_tokens_per_s"`
	MaxConcurrent        int      `json:"max_concurrent_requests"`
	RTFX                 *float64 `json:"rtfx"`

	MeanTTFT   *float64 `json:"mean_ttft_ms"`
	MedianTTFT *float64 `json:"median_ttft_ms"`
	StdTTFT    *float64 `json:"std_ttft_ms"`
	P99TTFT    *float64 `json:"p99_ttft_ms"`
	MeanTPOT   *float64 `json:"mean_tpot_ms"`
	MedianTPOT *float64 `json:"median_tpot_ms"`
	StdTPOT    *float64 `json:"std_tpot_ms"`
	P99TPOT    *float64 `json:"p99_tpot_ms"`
	MeanITL    *float64 `json:"mean_itl_ms"`
	MedianITL  *float64 `json:"median_itl_ms"`
	StdITL     *float64 `json:"std_itl_ms"`
	P99ITL     *float64 `json:"p99_itl_ms"`
	MeanE2EL   *float64 `json:"mean_e2el_ms"`
	MedianE2EL *float64 `json:"median_e2el_ms"`
	StdE2EL    *float64 `json:"std_e2el_ms"`
	P99E2EL    *float64 `json:"p99_e2el_ms"`

	Simulated bool   `json:"simulated"`
	Synthetic string `json:"synthetic,omitempty"`
	Note      string `json:"note"`
}

// vllmNote says where a number is not what vllm bench would have written.
const vllmNote = "Written by h100-inference-control-plane in the format of vllm bench serve --save-result. " +
	"Times begin when a request was due, not when it was sent. tpot is (last token - first token) / (output tokens - 1) from the server's usage; vllm bench takes (latency - ttft) / (output tokens - 1). " +
	"itl is the gap between socket reads that brought tokens, null when tokens were coalesced. A p99 of fewer than 100 requests is null. null means not measured. " +
	"burstiness 1 is Poisson, null is none (closed loop or constant rate)."

// VLLMBench is one measured trial in the format of `vllm bench serve --save-result`, for tools that read it. records are
// the trial's requests. The error says that the trial was not measured.
func VLLMBench(run *result.Run, t result.Trial, records []record.Record) ([]byte, error) {
	c := t.Client
	if t.Outcome != result.Measured || c == nil {
		return nil, fmt.Errorf("trial %s was not measured", t.ID)
	}
	b := vllmBench{
		Date: run.Started.UTC().Format("20060102-150405"), NumPrompts: c.Requests, Completed: c.Succeeded, Failed: c.Failed,
		Duration: c.WallSeconds, TotalInputTokens: c.PromptTokens, TotalOutputTokens: c.OutputTokens,
		RequestThroughput: c.RequestsPerS, OutputThroughput: c.OutputPerS, MaxConcurrent: peak(records),
		Simulated: run.Simulated, Synthetic: run.Synthetic, Note: vllmNote,
	}
	if run.Simulated {
		b.Note = simulatedText + " " + vllmNote
	}
	if t.Window != nil {
		b.Date = t.Window.T0.UTC().Format("20060102-150405")
	}
	b.target(run, t.Point)
	if c.WallSeconds != nil && c.PromptTokens != nil && c.OutputTokens != nil && *c.WallSeconds > 0 {
		v := float64(*c.PromptTokens+*c.OutputTokens) / *c.WallSeconds
		b.TotalTokenThroughput = &v
	}
	b.times(c, records)
	return marshalVLLM(b)
}

func marshalVLLM(b vllmBench) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("write the format of vllm bench: %w", err)
	}
	return out.Bytes(), nil
}

// target is what was asked for: the endpoint and the load.
func (b *vllmBench) target(run *result.Run, p spec.Point) {
	b.RequestRate = "inf"
	if p.Concurrency > 0 {
		b.MaxConcurrency = &p.Concurrency
	} else {
		b.RequestRate = p.Rate
	}
	e := run.Experiment
	if e == nil {
		return
	}
	b.ModelID = e.Model.Name
	b.EndpointType = "openai-chat"
	if e.Workload.API == "completions" {
		b.EndpointType = "openai"
	}
	b.Backend = b.EndpointType
	if o := e.Load.Arrivals(); o != nil {
		if o.Arrival == "poisson" {
			one := 1.0
			b.Burstiness = &one
		}
		if o.MaxInFlight > 0 {
			b.MaxConcurrency = &o.MaxInFlight
		}
	}
}

// times describes the successes in milliseconds.
func (b *vllmBench) times(c *result.Client, records []record.Record) {
	var ttft, tpot, e2e []float64
	for _, r := range records {
		if r.Err != record.OK {
			continue
		}
		if v, ok := r.TTFT(); ok {
			ttft = append(ttft, v)
		}
		if v, ok := r.TPOT(); ok {
			tpot = append(tpot, v)
		}
		if v, ok := r.E2E(); ok {
			e2e = append(e2e, v)
		}
	}
	b.MeanTTFT, b.MedianTTFT, b.StdTTFT, b.P99TTFT = milliseconds(ttft)
	b.MeanTPOT, b.MedianTPOT, b.StdTPOT, b.P99TPOT = milliseconds(tpot)
	b.MeanE2EL, b.MedianE2EL, b.StdE2EL, b.P99E2EL = milliseconds(e2e)
	if d := c.InterChunk; d != nil {
		ms := func(v float64) *float64 { v *= 1e3; return &v }
		b.MeanITL, b.MedianITL = ms(d.Mean), ms(d.P50)
		if d.P99 != nil {
			b.P99ITL = ms(*d.P99)
		}
	}
}

func milliseconds(xs []float64) (mean, median, std, p99 *float64) {
	s, err := stats.Describe(xs)
	if err != nil { // no values
		return nil, nil, nil, nil
	}
	ms := func(v float64) *float64 { v *= 1e3; return &v }
	if s.N >= result.MinP99 {
		p99 = ms(s.P99)
	}
	return ms(s.Mean), ms(s.P50), ms(s.Std), p99
}

// peak is the largest number of requests that were in flight together.
func peak(records []record.Record) int {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, r := range records {
		if r.Sent != record.Never && r.End >= r.Sent {
			edges = append(edges, edge{r.Sent, 1}, edge{r.End, -1})
		}
	}
	// At the same moment an end comes before a beginning.
	sort.Slice(edges, func(a, b int) bool {
		return cmp.Or(cmp.Compare(edges[a].at, edges[b].at), edges[a].delta-edges[b].delta) < 0
	})
	now, most := 0, 0
	for _, e := range edges {
		now += e.delta
		most = max(most, now)
	}
	return most
}
