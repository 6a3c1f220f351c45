package verify

import (
	"fmt"
	"math"
	"strings"
	"time"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/workload"
)

// trials computes every measured trial again from its requests and scrapes.
func (v *verifier) trials() error {
	seen := map[string]bool{}
	for i := range v.again.Trials {
		t := &v.again.Trials[i]
		if seen[t.ID] {
			v.differ(Difference{Kind: OfDocument, File: result.FileName, Path: fmt.Sprintf("trials[%d].id", i), Stored: quote(t.ID), Note: "two trials have this ID"})
			v.blind = true
		}
		seen[t.ID] = true
		if t.Outcome != result.Measured {
			continue
		}
		if t.Client == nil || t.Window == nil {
			v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: fmt.Sprintf("trials[%d]", i), About: t.ID, Note: "it is measured and has no client or no window"})
			v.blind = true
			continue
		}
		if err := v.trial(t); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) trial(t *result.Trial) error {
	t.Window.Seconds = seconds(t.Window.T1.Sub(t.Window.T0))
	recs, ok, err := v.records(t.ID)
	if err != nil {
		return err
	}
	if ok {
		v.client(t, recs)
		v.requests(t, recs)
	} else {
		v.blind = true
		v.skip("trials[].client", "the requests cannot be read")
	}
	counted, err := v.server(t)
	if err != nil {
		return err
	}
	v.skip("trials[].load_health", "how the load generator did its work is in no file")
	v.skip("trials[].window", "when the edges were scraped is in no file but run.json")
	if t.Client.WallSeconds != nil && *t.Client.WallSeconds > t.Window.Seconds+1e-3 {
		v.differ(Difference{Kind: OfEvidence, File: result.FileName, Path: v.path(t) + ".window.seconds", About: t.ID, Stored: fmt.Sprint(t.Window.Seconds),
			Note: fmt.Sprintf("the requests took %v s, longer than the window", *t.Client.WallSeconds)})
	}
	t.Agree = judge.Agreement(t.Client, t.Server)
	v.count("reconciled quantities", len(t.Agree))
	v.objectives(t, recs, ok, counted)
	return nil
}

func (v *verifier) path(t *result.Trial) string {
	for i := range v.again.Trials {
		if &v.again.Trials[i] == t {
			return fmt.Sprintf("trials[%d]", i)
		}
	}
	return "trials"
}

// client summarises the requests again. Two inputs are in no file: the length of the load, which is that of its requests
// to a microsecond (both come from the same stamps; each is rounded by itself), and the gaps between socket reads.
func (v *verifier) client(t *result.Trial, recs []record.Record) {
	stored := t.Client
	o := result.SummaryOptions{InterChunk: stored.InterChunk}
	if w := stored.WallSeconds; w != nil && math.Abs(*w-wall(recs)) < 1.5e-6 {
		o.Seconds = *w
	}
	if out := v.again.Experiment.Workload.Output; out.Exact {
		o.Exact = func(int32) int { return out.Tokens }
	}
	c := result.Summarise(recs, o)
	if w := v.again.Experiment.Workload; w.File != nil && w.Output.Exact {
		c.WrongLength = stored.WrongLength
		v.skip("trials[].client.wrong_length", "a line of the prompt file may ask for its own length, and the file is not in the folder")
	}
	t.Client = c
	v.skip("trials[].client.inter_chunk", "the gaps between socket reads are in no file")
	v.count("client summaries", 1)
	v.count("requests", len(recs))
}

// wall is the time from the load's beginning, 0 on the clock of the records, to the last end.
func wall(recs []record.Record) float64 {
	last := int64(0)
	for _, r := range recs {
		last = max(last, r.End)
	}
	return float64(last) / 1e6
}

// maxTokens bounds how many tokens of prompts are made again, which is about a second's work.
const maxTokens = 50_000_000

// requests makes the prompts again: they are a pure function of the spec and the trial's seed.
func (v *verifier) requests(t *result.Trial, recs []record.Record) {
	w := v.again.Experiment.Workload
	if w.File != nil {
		v.skip("trials[].workload_sha256, trials[].prompts", "the prompt file is not in the folder")
		return
	}
	each := len(w.Text)
	switch {
	case w.Random != nil:
		each = w.Random.Tokens
	case w.SharedPrefix != nil:
		each = w.SharedPrefix.Shared + w.SharedPrefix.Own
	}
	if workload.Check(w) != nil || each > maxTokens/max(len(recs), 1) {
		v.skip("trials[].workload_sha256, trials[].prompts", "the workload cannot be made again, or is too large")
		return
	}
	reqs, err := workload.Generate(w, t.Seed, len(recs))
	if err != nil { // Check has passed
		v.skip("trials[].workload_sha256, trials[].prompts", err.Error())
		return
	}
	t.Workload = workload.Hash(w, reqs)
	v.count("workloads", 1)
	if t.Prompts != nil {
		t.Prompts = &result.Prompts{Distinct: workload.Distinct(reqs)}
	}
}

// counter is how much a counter of the engine grew in a trial's window; nil = it cannot be told.
type counter func(name string) *float64

// server reads the engine's counters again from both edges of the window.
func (v *verifier) server(t *result.Trial) (counter, error) {
	unknown := counter(func(string) *float64 { return nil })
	if t.Server == nil {
		return unknown, nil
	}
	v.skip("trials[].server.mean_running, trials[].server.max_kv_usage, trials[].server.samples", "the scrapes between the window's edges are not in the folder")
	v.skip("trials[].server.jit, trials[].server.jit_kernels", "when a line of the log was read is in no file")
	if v.series == nil {
		return unknown, nil
	}
	first, ok1, err := v.scrape(t.ID, "t0", t.Window.T0)
	if err != nil {
		return unknown, err
	}
	last, ok2, err := v.scrape(t.ID, "t1", t.Window.T1)
	if err != nil {
		return unknown, err
	}
	if !ok1 || !ok2 {
		v.skip("trials[].server", "a scrape cannot be read")
		return unknown, nil
	}
	got := measure.Edges(v.series, first, last)
	v.names(t, got)
	restarted := t.Server.Restarted
	t.Server.Restarted = got.Restarted
	if restarted != nil && *restarted || got.Restarted != nil && *got.Restarted {
		v.skip("trials[].server counters", "the engine restarted inside the window, and what it counted between is in no file")
		return unknown, nil
	}
	v.counters(t.Server, got, func(q engine.Quantity) float64 { return measure.Slack(v.series, q, first, last) })
	return func(name string) *float64 { return measure.Increase(name, first, last) }, nil
}

// counters puts what the edges give in place of what was stored. A mean that differs by less than what VictoriaMetrics
// rounds is kept: it keeps decimals, and a sum that was rounded at both edges cannot be had to the bit.
func (v *verifier) counters(s *result.Server, got *measure.Readings, slack func(engine.Quantity) float64) {
	for q, to := range map[engine.Quantity]**float64{
		engine.QRequestSuccess: &s.Requests, engine.QPromptTokens: &s.PromptTokens, engine.QGenerationTokens: &s.OutputTokens,
		engine.QPrefixQueries: &s.PrefixQueries, engine.QPrefixHits: &s.PrefixHits, engine.QPreemptions: &s.Preemptions,
	} {
		*to = got.Increase[q]
		v.count("engine readings", 1)
	}
	for q, to := range map[engine.Quantity]**float64{
		engine.QTTFT: &s.MeanTTFT, engine.QE2E: &s.MeanE2E, engine.QITL: &s.MeanITL, engine.QQueueTime: &s.MeanQueue,
	} {
		v.count("engine readings", 1)
		again := got.Mean[q]
		if *to != nil && again != nil && math.Abs(**to-*again) <= slack(q) {
			continue
		}
		*to = again
	}
}

// names are those under which the start says that it found the quantities.
func (v *verifier) names(t *result.Trial, got *measure.Readings) {
	for i := range v.again.Starts {
		s := &v.again.Starts[i]
		if s.ID != t.Start || s.Config != t.Config || s.Attempt != t.Attempt {
			continue
		}
		if s.Series == nil {
			s.Series = map[engine.Quantity]string{}
		}
		for q, name := range got.Names {
			s.Series[q] = name
		}
	}
}

// objectives judges again. Values of queries that only VictoriaMetrics can answer are taken as they stand.
func (v *verifier) objectives(t *result.Trial, recs []record.Record, have bool, counted counter) {
	var values map[string][]float64
	if have {
		values = measure.RequestValues(recs)
	}
	labels := derive.Labels(derive.RunLabel(v.again.RunKey, v.again.Started), v.again.Experiment.Name, t)
	stored := t.SLO
	t.SLO = nil
	for i, o := range v.again.Experiment.SLO {
		was := result.Judgement{}
		if i < len(stored) && stored[i].Name == o.Name {
			was = stored[i]
		}
		t.SLO = append(t.SLO, v.objective(o, was, evidence{values, counted, t.Window.Seconds}, labels, t))
	}
	if have {
		judge.Precision(v.again.Experiment, t, recs)
		return
	}
	for i := range t.SLO {
		if i < len(stored) && stored[i].Name == t.SLO[i].Name {
			t.SLO[i].Interval = stored[i].Interval
		}
	}
}

const queryFailed = "the query failed: "

func (v *verifier) objective(o spec.SLO, was result.Judgement, from evidence, labels []query.Label, t *result.Trial) result.Judgement {
	m := judge.Measured{Requests: t.Client.Requests, Failed: t.Client.Failed, Value: was.Value, Samples: was.Samples}
	scoped, err := query.Scope(o.Query, t.Window.T1.Sub(t.Window.T0), labels)
	if err != nil {
		m.Err = err.Error()
		return judge.SLO(o, m)
	}
	m.Query = scoped
	if why, failed := strings.CutPrefix(was.Reason, queryFailed); failed {
		m.Err = why
		v.skip("trials[].slo", "the query failed when the run was judged")
		return judge.SLO(o, m)
	}
	switch {
	case was.Infinite:
		m.Value = ptr(math.Inf(1))
	case was.Value == nil && was.Reason == "the value is infinite":
		m.Value = ptr(math.Inf(-1))
	}
	v.value(o, was, from, &m)
	return judge.SLO(o, m)
}

// evidence is what an objective's value is computed from.
type evidence struct {
	requests map[string][]float64 // by series; nil = they cannot be read
	counted  counter
	seconds  float64 // of the window
}

// value computes what the query of an objective gives where it is plain, and counts its samples.
func (v *verifier) value(o spec.SLO, was result.Judgement, from evidence, m *judge.Measured) {
	if from.requests == nil {
		v.skip("trials[].slo[].value", "the requests cannot be read")
		return
	}
	m.Samples = samples(o.Query, from.requests)
	got, summed, known := from.answer(o.Query)
	if !known {
		v.skip("trials[].slo[].value", "only VictoriaMetrics can answer the query of "+o.Name)
		return
	}
	v.count("objectives", 1)
	// A sum depends on the order of its parts, and requests that ended in one millisecond have no order in the records.
	if summed && got != nil && was.Value != nil && math.Abs(*got-*was.Value) <= 1e-12*math.Abs(*got) {
		return
	}
	m.Value = got
}

// answer is the value of a plain query; see evaluate.
func (from evidence) answer(expr string) (v *float64, summed, known bool) {
	r, plain := query.Plain(expr)
	switch {
	case !plain:
		return nil, false, false
	case strings.HasPrefix(r.Series, requestPrefix):
		return evaluate(r, from.requests[r.Series])
	case !r.Sum || len(r.Args) > 0 || r.Func != "increase" && r.Func != "rate":
		return nil, false, false
	}
	got := from.counted(r.Series)
	if got != nil && r.Func == "rate" {
		*got /= from.seconds
	}
	return got, true, got != nil
}

func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Second)
}

func ptr[T any](v T) *T { return &v }
