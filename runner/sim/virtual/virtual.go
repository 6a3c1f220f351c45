// Package virtual runs a whole plan on the simulated engine in virtual time and returns the result document that a
// perfect client would have measured: thousands of requests in a second, with a known truth behind them. It opens no
// sockets, asks no VictoriaMetrics (objectives are not judged), and is no evidence about any GPU.
package virtual

import (
	"fmt"
	"slices"
	"time"

	"h100-inference-control-plane/runner/arrival"
	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/sim"
	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/workload"
)

// Options are what a plan does not say.
type Options struct {
	Profile string // of the simulated engine; empty = the experiment's, or the default one
	Seed    uint64 // of the noise between starts and steps
	// Judge judges one objective from a trial's requests; nil = objectives are left unjudged.
	Judge func(o spec.SLO, recs []record.Record) result.Judgement
	// Change is called before a trial is judged, to plant what an engine or a client did wrong; nil = nothing is.
	Change func(t *result.Trial, recs []record.Record)
}

// Run measures the one experiment of a plan and draws every conclusion. records has the requests of each trial by its ID.
func Run(p *plan.Plan, o Options) (run *result.Run, records map[string][]record.Record, err error) {
	if len(p.Experiments) != 1 {
		return nil, nil, fmt.Errorf("virtual: %d experiments, one at a time", len(p.Experiments))
	}
	x := p.Experiments[0]
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run = &result.Run{
		Schema: result.Schema, RunKey: x.RunKey, Simulated: true, Started: began, Ended: began, Where: "virtual time",
		Tool: result.Tool{Version: "virtual"}, Experiment: x.Spec, Plan: result.Plan{Seed: p.Seed, Estimate: p.Estimate}, Warnings: p.Warnings,
	}
	records = map[string][]record.Record{}
	for i, s := range p.Starts {
		if err := start(run, records, s, x.Spec, o, o.Seed+uint64(i)*7919); err != nil {
			return nil, nil, fmt.Errorf("virtual: start %s: %w", s.ID, err)
		}
	}
	err = derive.Conclude(run, func(id string) ([]record.Record, error) { return records[id], nil })
	return run, records, err
}

// start is one engine's life: all its trials in order, each after its warm-up.
func start(run *result.Run, records map[string][]record.Record, s plan.Start, e *spec.Experiment, o Options, seed uint64) error {
	name := o.Profile
	if name == "" && s.Sim != nil {
		name = s.Sim.Profile
	}
	profile, err := model.LoadProfile(name)
	if err != nil {
		return err
	}
	flags := map[string]any{}
	for _, f := range s.Flags {
		flags[f.Name] = f.Value
	}
	cfg, err := sim.EngineConfig(profile, flags, s.Version)
	if err != nil {
		return err
	}
	cfg.Seed = seed
	eng, err := model.New(cfg)
	if err != nil {
		return err
	}
	effective := map[string]any{"block-size": float64(eng.Capacity().BlockTokens)}
	for k, v := range flags {
		effective[k] = v
	}
	configs := map[string]bool{}
	for _, t := range s.Trials {
		if !configs[t.Config] {
			configs[t.Config] = true
			run.Starts = append(run.Starts, result.Start{ID: s.ID, Config: t.Config, Repeat: s.Repeat, Block: s.Block, Attempt: 1, Version: s.Version, Effective: effective, Log: "virtual"})
			run.Plan.Order = append(run.Plan.Order, s.ID+" "+t.Config)
		}
		doc, recs, err := trial(eng, profile, t, e)
		if err != nil {
			return fmt.Errorf("trial %s: %w", t.ID, err)
		}
		doc.Start = s.ID
		if o.Change != nil {
			o.Change(doc, recs)
		}
		doc.Agree = judge.Agreement(doc.Client, doc.Server)
		for _, slo := range e.SLO {
			if o.Judge != nil {
				doc.SLO = append(doc.SLO, o.Judge(slo, recs))
			}
		}
		records[t.ID] = recs
		run.Trials = append(run.Trials, *doc)
	}
	return nil
}

func trial(eng *model.Engine, p *model.Profile, t plan.Trial, e *spec.Experiment) (*result.Trial, []record.Record, error) {
	warm, err := workload.Warmup(e.Workload, t.Seed, t.Warmup)
	if err != nil {
		return nil, nil, err
	}
	if _, err := model.ClosedLoop(eng, max(t.Point.Concurrency, 1), requests(p, e, warm)); err != nil {
		return nil, nil, err
	}
	if e.Workload.Cache == workload.Cold {
		eng.ResetPrefixCache()
	}
	var due []time.Duration
	if t.Point.Rate > 0 {
		due = arrival.Schedule(e.Load.Open.Arrival, t.Point.Rate, e.Load.Open.Duration, t.Seed)
		t.Requests = len(due)
	}
	reqs, err := workload.Generate(e.Workload, t.Seed, t.Requests)
	if err != nil {
		return nil, nil, err
	}
	before, began := eng.Counters(), eng.Now()
	var seqs []*model.Seq
	var use *usage
	if due != nil {
		seqs, err = model.OpenLoop(eng, due, requests(p, e, reqs))
	} else {
		seqs, use, err = closedLoop(eng, t.Point.Concurrency, requests(p, e, reqs))
	}
	if err != nil {
		return nil, nil, err
	}
	recs := make([]record.Record, len(seqs))
	for i, s := range seqs {
		recs[i] = recordOf(s, began, int32(i), reqs[i].Class)
	}
	doc := &result.Trial{
		ID: t.ID, Config: t.Config, Point: t.Point, Repeat: t.Repeat, Attempt: 1, Outcome: result.Measured, Seed: t.Seed, Confirms: t.Confirms,
		Workload: workload.Hash(e.Workload, reqs), Prompts: &result.Prompts{Distinct: workload.Distinct(reqs)},
		Window: &result.Window{Seconds: (eng.Now() - began).Seconds()}, Load: &result.LoadHealth{CPU: ptr(0.1), SchedP99: ptr(1e-4), LatenessP99: ptr(0.0)},
	}
	doc.Client = result.Summarise(recs, result.SummaryOptions{Exact: func(i int32) int {
		if !reqs[i].Exact {
			return 0
		}
		return reqs[i].MaxTokens
	}})
	doc.Server = counted(before, eng.Counters(), doc.Client)
	if use != nil {
		doc.Server.MaxKVUsage = &use.cache
	}
	return doc, recs, nil
}

// usage is the largest share of the KV cache that was in use.
type usage struct{ cache float64 }

// closedLoop is model.ClosedLoop with an eye on the engine.
func closedLoop(e *model.Engine, concurrency int, reqs []model.Request) ([]*model.Seq, *usage, error) {
	var out []*model.Seq
	use := &usage{}
	submit := func(at time.Duration) error {
		s, err := e.Submit(at, reqs[len(out)])
		if err == nil {
			out = append(out, s)
		}
		return err
	}
	for range min(concurrency, len(reqs)) {
		if err := submit(e.Now()); err != nil {
			return nil, nil, err
		}
	}
	for {
		st, ok := e.Step()
		if !ok {
			return out, use, nil
		}
		use.cache = max(use.cache, e.KVUsage())
		for _, t := range st.Tokens {
			if t.Finish == model.Unfinished || len(out) == len(reqs) {
				continue
			}
			if err := submit(st.End); err != nil {
				return nil, nil, err
			}
		}
	}
}

func requests(p *model.Profile, e *spec.Experiment, reqs []workload.Request) []model.Request {
	out := make([]model.Request, len(reqs))
	for i, q := range reqs {
		tokens := q.TokenIDs
		switch {
		case tokens != nil:
		case e.Workload.API == workload.Completions:
			tokens = p.Tokenize(q.Prompt)
		default:
			tokens = p.ChatTokens([]model.Message{{Role: "user", Content: q.Prompt}})
		}
		out[i] = model.Request{Tokens: slices.Clone(tokens), MaxTokens: q.MaxTokens, IgnoreEOS: q.Exact}
	}
	return out
}

func recordOf(s *model.Seq, began time.Duration, i int32, class string) record.Record {
	us := func(d time.Duration) int64 { return (d - began).Microseconds() }
	return record.Record{
		Index: i, Scheduled: us(s.Arrival), Sent: us(s.Arrival), FirstByte: us(s.First), FirstToken: us(s.First), FirstContent: us(s.First),
		LastToken: us(s.Last), End: us(s.Last), PromptTokens: int32(len(s.Tokens)), OutputTokens: int32(s.Emitted), CachedTokens: int32(s.Cached),
		Events: int32(s.Emitted), Status: 200, ConnReused: true, Finish: string(s.Finish), Class: class,
	}
}

// counted is what the engine's own counters say: they and the client see the same events here.
func counted(a, b model.Counters, c *result.Client) *result.Server {
	diff := func(x, y int64) *float64 { return ptr(float64(y - x)) }
	s := &result.Server{
		Requests: diff(a.Finished, b.Finished), PromptTokens: diff(a.PromptTokens, b.PromptTokens), OutputTokens: diff(a.Generated, b.Generated),
		PrefixQueries: diff(a.PrefixQueries, b.PrefixQueries), PrefixHits: diff(a.PrefixHits, b.PrefixHits), Preemptions: diff(a.Preemptions, b.Preemptions),
		Restarted: ptr(false),
	}
	if c.TTFT != nil {
		s.MeanTTFT = ptr(c.TTFT.Mean)
	}
	if c.E2E != nil {
		s.MeanE2E = ptr(c.E2E.Mean)
	}
	return s
}

func ptr[T any](v T) *T { return &v }
