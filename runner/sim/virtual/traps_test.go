package virtual_test

import (
	"math"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/sim/virtual"
	"h100-inference-control-plane/runner/spec"
)

// trap is one way in which a number looks like the truth and is not: what is changed, and what the report must say and
// must not say.
type trap struct {
	name   string
	change func(e *spec.Experiment)
	plant  func(t *result.Trial, recs []record.Record)
	judge  func(o spec.SLO, recs []record.Record) result.Judgement
	says   []string
	silent []string // must not be in the report
	want   result.Verdict
}

const (
	interval = "95 % interval 0"
	onlyPass = "the gate passed"
)

func traps() []trap {
	everyTrial := func(f func(*result.Trial)) func(*result.Trial, []record.Record) {
		return func(t *result.Trial, _ []record.Record) { f(t) }
	}
	fail := func(recs []record.Record) {
		for i := range recs {
			r := &recs[i]
			r.Err, r.Status, r.Detail = record.ErrStatus, 500, "KV cache is broken"
			r.FirstToken, r.FirstContent, r.LastToken, r.OutputTokens = record.Never, record.Never, record.Never, -1
		}
	}
	value := func(v *float64, n int64) func(spec.SLO, []record.Record) result.Judgement {
		return func(o spec.SLO, recs []record.Record) result.Judgement {
			return judge.SLO(o, judge.Measured{Query: o.Query, Value: v, Samples: &n, Requests: len(recs)})
		}
	}
	nan := math.NaN()
	return []trap{
		{name: "p99 of 20 requests", change: func(e *spec.Experiment) { e.Load.Closed.Requests = 20 },
			says: []string{"p99 is shown from 100 successful requests"}, want: result.Pass},
		{name: "zero variance", plant: func(t *result.Trial, recs []record.Record) {
			f, _ := map[string]float64{"a": 0.1, "b": 0.05}[t.Config]
			t.Client.TPOT.P50, t.Client.E2E.P50 = f, f
		}, says: []string{"all blocks gave the same ratio: variation was not seen, which is not the same as none"}, want: result.Pass},
		{name: "all failures", plant: func(t *result.Trial, recs []record.Record) {
			fail(recs)
			t.Client = result.Summarise(recs, result.SummaryOptions{})
		}, says: []string{"all 40 requests failed", "KV cache is broken", "has no number"}, silent: []string{interval, onlyPass, "0 ms"}, want: result.Inconclusive},
		{name: "one start", change: func(e *spec.Experiment) { e.Starts = 1 },
			says: []string{"one start: start-to-start variation unknown", "no interval"}, silent: []string{interval, ": better", ": worse"}, want: result.Pass},
		{name: "an empty series", judge: value(nil, 0), says: []string{"no data"}, silent: []string{onlyPass}, want: result.Inconclusive},
		{name: "NaN", judge: value(&nan, 40), says: []string{"no data"}, silent: []string{onlyPass, "NaN"}, want: result.Inconclusive},
		{name: "usage missing", plant: func(t *result.Trial, recs []record.Record) {
			for i := range recs {
				recs[i].PromptTokens, recs[i].OutputTokens = -1, -1
			}
			t.Client = result.Summarise(recs, result.SummaryOptions{})
		}, says: []string{"answers came without usage", "has no number"}, silent: []string{onlyPass, interval}, want: result.Inconclusive},
		{name: "a restart in the window", plant: everyTrial(func(t *result.Trial) {
			yes := true
			if t.ID == "b-c8-2" {
				t.Server.Restarted = &yes
			}
		}), says: []string{"the engine restarted inside the window", "b ÷ a at 8 at once has no number"}, silent: []string{onlyPass, interval}, want: result.Inconclusive},
		{name: "a metric that this version does not have", plant: everyTrial(func(t *result.Trial) {
			t.Server = &result.Server{}
		}), says: []string{"could not be made", "not known in"}, want: result.Pass},
	}
}

// TestTraps: each ends in the verdict that it should, and says why in the report.
func TestTraps(t *testing.T) {
	for _, x := range traps() {
		t.Run(x.name, func(t *testing.T) {
			e := small(t)
			if x.change != nil {
				x.change(e)
			}
			p, err := plan.New([]*spec.Experiment{e}, plan.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			one := 0.0
			o := virtual.Options{Seed: 3, Change: x.plant, Judge: x.judge}
			if o.Judge == nil {
				o.Judge = func(s spec.SLO, recs []record.Record) result.Judgement {
					n := int64(len(recs))
					return judge.SLO(s, judge.Measured{Query: s.Query, Value: &one, Samples: &n, Requests: len(recs)})
				}
			}
			run, _, err := virtual.Run(p, o)
			if err != nil {
				t.Fatal(err)
			}
			text := string(report.Text(run, 0, false))
			if run.Verdict != x.want {
				t.Errorf("%s (%s), want %s", run.Verdict, run.Reason, x.want)
			}
			for _, s := range x.says {
				if !strings.Contains(text, s) {
					t.Errorf("the report does not say %q:\n%s", s, text)
				}
			}
			for _, s := range x.silent {
				if strings.Contains(text, s) {
					t.Errorf("the report says %q:\n%s", s, text)
				}
			}
		})
	}
}

func small(t *testing.T) *spec.Experiment {
	t.Helper()
	e, faults := spec.Parse("small.yaml", []byte(`
apiVersion: bench/v1
kind: Experiment
name: small
model: {name: m}
engine: {name: sim, version: 0.25.1, sim: {profile: laptop}}
configs:
  a: {enforce-eager: true}
  b: {enforce-eager: false}
workload:
  prompt: {random: {tokens: 40}}
  output: {tokens: 12, exact: true}
load:
  closed: {concurrency: [8], requests: 40}
starts: 3
slo:
  - {name: latency, query: "share_gt_over_time(bench_request_latency_seconds[$window], 2)", max: 1%}
compare: {baseline: a, candidates: [b], minimum_effect: 3%}
`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return e
}

// TestConfirm: a gate that fails in one start fails only when the cell, measured again, fails too.
func TestConfirm(t *testing.T) {
	f := func(again float64, want result.Verdict, says string) {
		t.Helper()
		e := small(t)
		p, err := plan.New([]*spec.Experiment{e}, plan.Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		more := p.Confirm([]plan.Cell{{Experiment: "small", Config: "b", Point: spec.Point{Concurrency: 8}}})
		if len(more.Starts) != len(p.Starts)+1 {
			t.Fatalf("%d starts, %d before", len(more.Starts), len(p.Starts))
		}
		last := more.Starts[len(more.Starts)-1]
		if last.Repeat != 4 || len(last.Trials) != 1 || last.Trials[0].ID != "b-c8-4" || !last.Trials[0].Confirms || last.Trials[0].Seed == p.Starts[0].Trials[0].Seed {
			t.Fatalf("%+v", last)
		}
		trial := ""
		run, _, err := virtual.Run(more, virtual.Options{Seed: 3,
			Change: func(x *result.Trial, _ []record.Record) { trial = x.ID },
			Judge: func(s spec.SLO, recs []record.Record) result.Judgement {
				v, n := 0.0, int64(len(recs))
				switch trial {
				case "b-c8-2":
					v = 0.5
				case "b-c8-4":
					v = again
				}
				return judge.SLO(s, judge.Measured{Query: s.Query, Value: &v, Samples: &n, Requests: len(recs)})
			}})
		if err != nil {
			t.Fatal(err)
		}
		if run.Verdict != want || !strings.Contains(run.Reason, says) {
			t.Errorf("%s: %s; want %s", run.Verdict, run.Reason, want)
		}
		for _, c := range run.Cells {
			if c.Config == "b" && (c.Planned != 3 || c.Verdict != want) {
				t.Errorf("cell: %d starts, %s", c.Planned, c.Verdict)
			}
		}
		if c := run.Comparisons[0]; c.Blocks != 3 {
			t.Errorf("%d blocks in the comparison", c.Blocks)
		}
	}
	f(0.5, result.Fail, "failed again")
	f(0, result.Inconclusive, "measured again it passed")
}
