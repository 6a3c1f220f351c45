package runner

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"time"

	"h100-inference-control-plane/runner/arrival"
	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/host/sample"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/load"
	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/openai"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/workload"
)

// trial measures one cell in one start and files it. When it returns nil the trial is in the journal.
func (r *Runner) trial(ctx context.Context, l *live, t plan.Trial, j *job) error {
	e := j.exp.Spec
	due := schedule(e, t)
	if o := e.Load.Arrivals(); o != nil {
		if len(due) == 0 {
			return fmt.Errorf("trial %s: no request is due in %v at %g requests/s: a longer duration is needed", t.ID, o.Duration, t.Point.Rate)
		}
		t.Requests = len(due) // a Poisson process has about as many arrivals as planned
	}
	reqs, err := workload.Generate(e.Workload, t.Seed, t.Requests)
	if err != nil {
		return fmt.Errorf("trial %s: make the requests: %w", t.ID, err)
	}
	doc := result.Trial{
		ID: t.ID, Config: t.Config, Point: t.Point, Repeat: t.Repeat, Start: l.start.ID, Attempt: l.doc.Attempt,
		Outcome: result.Measured, Seed: t.Seed, Confirms: t.Confirms, Workload: workload.Hash(e.Workload, reqs),
		Prompts: &result.Prompts{Distinct: workload.Distinct(reqs)},
	}
	if doc.Warmup, err = r.warmup(ctx, l, t, e); err != nil {
		return fmt.Errorf("trial %s: warm up: %w", t.ID, err)
	}
	opts, err := r.loadOptions(l, t, e, reqs)
	if err != nil {
		return fmt.Errorf("trial %s: %w", t.ID, err)
	}
	opts.Schedule, opts.Concurrency = due, t.Point.Concurrency
	if o := e.Load.Arrivals(); o != nil {
		opts.MaxInFlight = o.MaxInFlight
	}
	if e.Workload.Cache == workload.Cold {
		if err := l.client.ResetPrefixCache(ctx); err != nil {
			return fmt.Errorf("trial %s: empty the prefix cache: %w", t.ID, err)
		}
	}
	r.Observer.Event(Event{Kind: TrialBegins, Start: &l.start, Trial: &t, Total: t.Requests})
	began := time.Now()
	res, win, machine, err := r.window(ctx, l, opts)
	if err != nil {
		return fmt.Errorf("trial %s: %w", t.ID, err)
	}
	// A window that the engine or the user cut short is no measurement.
	if ctx.Err() != nil {
		return fmt.Errorf("trial %s: %w", t.ID, context.Cause(ctx))
	}
	// Before anything is made of them: a server's message may repeat what it was sent.
	for i := range res.Records {
		if d := &res.Records[i].Detail; *d != "" {
			*d = record.OneLine(r.Redact.String(*d), record.MaxDetail)
		}
	}
	if err := r.evaluate(ctx, l, j, &doc, reqs, res, win, machine); err != nil {
		return fmt.Errorf("trial %s: %w", t.ID, err)
	}
	if err := r.saveScrapes(j, t, win); err != nil {
		return fmt.Errorf("trial %s: %w", t.ID, err)
	}
	if err := j.folder.saveTrial(doc, res.Records); err != nil {
		return err
	}
	j.memory.trials[doc.ID] = doc
	r.Observer.Event(Event{Kind: TrialEnded, Start: &l.start, Trial: &t, Elapsed: time.Since(began), Message: headline(doc)})
	return nil
}

// logLag is how much later than it was written a line of the engine's log may be read.
const logLag = 120 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// schedule is when the requests of an open loop are sent; nil in a closed loop.
func schedule(e *spec.Experiment, t plan.Trial) []time.Duration {
	o := e.Load.Arrivals()
	if o == nil {
		return nil
	}
	return arrival.Schedule(o.Arrival, t.Point.Rate, o.Duration, t.Seed)
}

// loadOptions makes the bytes of every request ahead of time. The caller says when they are sent.
func (r *Runner) loadOptions(l *live, t plan.Trial, e *spec.Experiment, reqs []workload.Request) (load.Options, error) {
	ends := l.eng.Endpoints()
	path := ends.Chat
	if e.Workload.API == workload.Completions {
		path = ends.Completions
	}
	body := openai.BodyOptions{Seed: e.Workload.Seed, Temperature: e.Workload.Temperature}
	bodies := make([][]byte, len(reqs))
	for i, q := range reqs {
		b, err := openai.Body(e.Workload.API, l.start.Model.Name, q, body)
		if err != nil {
			return load.Options{}, fmt.Errorf("make request %d: %w", i, err)
		}
		bodies[i] = b
	}
	o := load.Options{
		URL: l.server.URL(), Path: path, Bodies: bodies, Requests: reqs, Timeout: e.Load.Timeout,
		Progress: func(done, failed, total int) {
			r.Observer.Event(Event{Kind: TrialProgress, Trial: &t, Done: done, Failed: failed, Total: total})
		},
	}
	return o, nil
}

// window runs the load between two exact scrapes, and watches the machine meanwhile.
func (r *Runner) window(ctx context.Context, l *live, opts load.Options) (*load.Result, *measure.Scrapes, *sample.Log, error) {
	// Before the load's connections are opened: an engine closes them when they idle for some seconds.
	machine := r.Sampler.Begin(ctx, sample.Target{PID: l.server.PID(), GPUs: !l.eng.Simulated()})
	defer machine.End(ctx)
	ld, err := load.Prepare(ctx, opts)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("prepare the load: %w", err)
	}
	defer ld.Close()
	w := measure.NewWindow(l.client.Metrics, l.eng.Series())
	if err := w.Begin(ctx); err != nil {
		return nil, nil, nil, fmt.Errorf("scrape at the window's start: %w", err)
	}
	res, err := ld.Run(ctx)
	if err != nil {
		w.Abort()
		return nil, nil, nil, fmt.Errorf("load: %w", err)
	}
	scrapes, err := w.End(ctx)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("scrape at the window's end: %w", err)
	}
	return res, scrapes, machine.End(ctx), nil
}

// evaluate turns what was recorded into numbers and judges them.
func (r *Runner) evaluate(ctx context.Context, l *live, j *job, doc *result.Trial, reqs []workload.Request, res *load.Result, s *measure.Scrapes, machine *sample.Log) error {
	e := j.exp.Spec
	labels := derive.Labels(derive.RunLabel(j.exp.RunKey, j.memory.began), e.Name, doc)
	in, err := r.Store.Import(ctx, measure.Trial{Labels: labels, Scrapes: s, LoadStart: res.T0, Records: res.Records, Gauges: gauges(machine.Values(s.T0, s.T1))})
	if err != nil {
		return fmt.Errorf("import into VictoriaMetrics: %w", err)
	}
	doc.Window = &result.Window{T0: s.T0, T1: s.T1, Seconds: seconds(s.T1.Sub(s.T0))}
	doc.Client = result.Summarise(res.Records, summaryOptions(res, reqs))
	doc.Load = loadHealth(res)
	doc.Machine = machine.Machine(s.T0, s.T1, doc.Client.OutputTokens)
	if doc.Server, err = r.serverSide(ctx, l, labels, s); err != nil {
		return err
	}
	doc.Server.Samples = ptr(in.Samples)
	doc.Agree = judge.Agreement(doc.Client, doc.Server)
	for _, o := range e.SLO {
		doc.SLO = append(doc.SLO, r.judgeSLO(ctx, o, labels, s, doc.Client))
	}
	doc.Verdict = judge.Trial(doc)
	return nil
}

// serverSide reads what the engine counted, by differences over the exact window.
func (r *Runner) serverSide(ctx context.Context, l *live, labels []query.Label, s *measure.Scrapes) (*result.Server, error) {
	got, err := r.Store.Engine(ctx, l.eng.Series(), labels, s)
	if err != nil {
		return nil, fmt.Errorf("read the engine's counters back: %w", err)
	}
	if l.doc.Series == nil {
		l.doc.Series = map[engine.Quantity]string{}
	}
	for q, name := range got.Names {
		l.doc.Series[q] = name
	}
	pause(ctx, logLag)
	kernels := l.log.jit(s.T0, s.T1.Add(logLag)) // nothing runs after T1: what is read a little later was logged before
	return &result.Server{
		Requests:     got.Increase[engine.QRequestSuccess],
		PromptTokens: got.Increase[engine.QPromptTokens], OutputTokens: got.Increase[engine.QGenerationTokens],
		PrefixQueries: got.Increase[engine.QPrefixQueries], PrefixHits: got.Increase[engine.QPrefixHits],
		Preemptions: got.Increase[engine.QPreemptions],
		MeanTTFT:    got.Mean[engine.QTTFT], MeanE2E: got.Mean[engine.QE2E], MeanITL: got.Mean[engine.QITL], MeanQueue: got.Mean[engine.QQueueTime],
		MeanRunning: got.Average[engine.QRunning], MaxKVUsage: got.Max[engine.QKVUsage],
		Restarted: got.Restarted, JIT: len(kernels), JITKernels: unique(kernels),
	}, nil
}

// judgeSLO asks for one objective's value and how many requests it is over.
func (r *Runner) judgeSLO(ctx context.Context, o spec.SLO, labels []query.Label, s *measure.Scrapes, c *result.Client) result.Judgement {
	m := judge.Measured{Requests: c.Requests, Failed: c.Failed}
	scoped, err := query.Scope(o.Query, s.T1.Sub(s.T0), labels)
	if err != nil {
		m.Err = err.Error()
		return judge.SLO(o, m)
	}
	m.Query = scoped
	if m.Value, err = r.Store.Query(ctx, scoped, s.T1); err != nil {
		m.Err = err.Error()
	}
	if m.Samples, err = r.samples(ctx, o.Query, labels, s); err != nil {
		m.Err = err.Error()
	}
	return judge.SLO(o, m)
}

// samples counts what of bench_request_* a query looks at: the smallest count over its series. It is nil for a query
// over the engine's own series, whose sample count says nothing about requests.
func (r *Runner) samples(ctx context.Context, expr string, labels []query.Label, s *measure.Scrapes) (*int64, error) {
	var least *int64
	for _, name := range query.Series(expr) {
		if !strings.HasPrefix(name, "bench_request_") {
			continue
		}
		q := fmt.Sprintf("sum(count_over_time(%s[%dms]))", query.Select(name, labels), s.T1.Sub(s.T0).Milliseconds())
		v, err := r.Store.Query(ctx, q, s.T1)
		if err != nil {
			return nil, err
		}
		n := int64(0)
		if v != nil {
			n = int64(*v)
		}
		if least == nil || n < *least {
			least = &n
		}
	}
	return least, nil
}

func headline(t result.Trial) string {
	c := t.Client
	out := fmt.Sprintf("%d of %d requests", c.Succeeded, c.Requests)
	if c.OutputPerS != nil {
		out += fmt.Sprintf(", %.4g tok/s", *c.OutputPerS)
	}
	if c.TTFT != nil {
		out += fmt.Sprintf(", TTFT %.3g ms", c.TTFT.P50*1e3)
	}
	if c.TPOT != nil {
		out += fmt.Sprintf(", TPOT %.3g ms", c.TPOT.P50*1e3)
	}
	if c.Failed > 0 {
		out += fmt.Sprintf(", %d failed: %s", c.Failed, oneLine(c.ErrorDetail))
	}
	return out
}

func unique(in []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// saveScrapes keeps what the engine said at both edges of the window, as it said it.
func (r *Runner) saveScrapes(j *job, t plan.Trial, s *measure.Scrapes) error {
	for name, sc := range map[string]*measure.Scrape{"t0": s.All[0], "t1": s.All[len(s.All)-1]} {
		b, err := pack(r.Redact.Bytes(sc.Body))
		if err != nil {
			return err
		}
		if err := j.folder.write(fmt.Sprintf("metrics/%s-%s.prom.gz", t.ID, name), b); err != nil {
			return err
		}
	}
	return nil
}

// pack compresses; the same bytes give the same bytes.
func pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return b.Bytes(), nil
}

func loadHealth(res *load.Result) *result.LoadHealth {
	h := res.Health
	out := &result.LoadHealth{CPU: &h.CPU, SchedP99: h.SchedP99, LatenessP99: h.LatenessP99, NewConns: h.NewConns, Capped: h.Capped}
	if h.PeakRSS > 0 {
		out.PeakRSSBytes = &h.PeakRSS
	}
	return out
}

// gauges are the samples of the machine as the store takes them.
func gauges(values []sample.Value) []measure.Gauge {
	out := make([]measure.Gauge, 0, len(values))
	for _, v := range values {
		g := measure.Gauge{Name: v.Name, At: v.At, Value: v.Value}
		if v.GPU != "" {
			g.Labels = append(g.Labels, measure.Label{Name: "gpu", Value: v.GPU})
		}
		if v.Reason != "" {
			g.Labels = append(g.Labels, measure.Label{Name: "reason", Value: v.Reason})
		}
		out = append(out, g)
	}
	return out
}

// summaryOptions is what the records do not say about a trial.
func summaryOptions(res *load.Result, reqs []workload.Request) result.SummaryOptions {
	return result.SummaryOptions{
		Seconds: seconds(res.T1.Sub(res.T0)),
		Exact: func(i int32) int {
			if int(i) >= len(reqs) || !reqs[i].Exact {
				return 0
			}
			return reqs[i].MaxTokens
		},
		InterChunk: gaps(res.Gaps),
	}
}

// gaps describes the inter-chunk latency; nil when nothing was streamed.
func gaps(h *load.Histogram) *result.Dist {
	if h.Count() == 0 {
		return nil
	}
	q := func(q float64) float64 {
		d, _ := h.Quantile(q)
		return seconds(d)
	}
	d := &result.Dist{N: h.Count(), Mean: seconds(h.Mean()), Min: q(0), P50: q(0.5), P90: q(0.9), P95: q(0.95), Max: q(1)}
	if d.N >= 100 {
		d.P99 = ptr(q(0.99))
	}
	return d
}
