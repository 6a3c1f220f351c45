package validity

import (
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/workload"
)

// A trial with known truth: four places that are always busy, 600 requests of 100 ms each, first token after 20 ms,
// eight tokens, nothing wrong.
type planted struct {
	run   *result.Run
	recs  []record.Record
	twice bool // the second trial is a copy of the first
}

const (
	places = 4
	count  = 600
)

func healthy() *planted {
	p := &planted{}
	for i := range count {
		at := int64(i/places)*100_000 + int64(i%places)*25_000
		p.recs = append(p.recs, record.Record{
			Index: int32(i), Scheduled: at, Sent: at, FirstByte: at + 20_000, FirstToken: at + 20_000, FirstContent: at + 20_000,
			LastToken: at + 99_000, End: at + 100_000, PromptTokens: 300, OutputTokens: 8, CachedTokens: -1, Events: 8,
			Status: 200, ConnReused: true, Finish: "length", Class: "300",
		})
	}
	p.run = &result.Run{
		Experiment: &spec.Experiment{
			Name:    "planted",
			Configs: []spec.Config{{Name: "a"}},
			Workload: workload.Workload{API: workload.Chat, Random: &workload.Random{Tokens: 300},
				Output: workload.Output{Tokens: 8, Exact: true}, Cache: workload.Cold},
			Load: spec.LoadLevels{Closed: &spec.Closed{Concurrency: []int{places}, Requests: count}},
		},
		Trials: []result.Trial{{ID: "a-c4-1", Config: "a", Point: spec.Point{Concurrency: places}, Repeat: 1, Start: "s01", Attempt: 1, Outcome: result.Measured}},
	}
	for _, id := range []string{"s01", "s02", "s03"} {
		p.run.Starts = append(p.run.Starts, result.Start{ID: id, Config: "a", Attempt: 1, Version: "0.25.1", Effective: map[string]any{"enforce-eager": false, "block-size": 16.0}})
	}
	return p
}

// summarise fills in what follows from the records, and a server that agrees with the client.
func (p *planted) summarise() {
	t := &p.run.Trials[0]
	t.Client = result.Summarise(p.recs, result.SummaryOptions{Exact: func(int32) int { return 8 }})
	t0 := time.UnixMilli(1_700_000_000_000)
	t.Window = &result.Window{T0: t0, T1: t0.Add(30 * time.Second), Seconds: 30}
	f := func(v float64) *float64 { return &v }
	no := false
	t.Server = &result.Server{
		Requests: f(float64(t.Client.Succeeded)), PromptTokens: sum(t.Client.PromptTokens), OutputTokens: sum(t.Client.OutputTokens),
		PrefixQueries: f(180_000), PrefixHits: f(0), Preemptions: f(0), MeanTTFT: t.Client.TTFTSent, MeanRunning: f(*t.Client.MeanInFlight * 30 / 31), Restarted: &no,
	}
	t.Load = &result.LoadHealth{CPU: f(0.1), SchedP99: f(0.0002)}
	t.Machine = machine(func(*result.GPUUse) {})
}

// machine is a quiet one whose GPU is the engine's alone, but for what change does to it.
func machine(change func(*result.GPUUse)) *result.Machine {
	f := func(v float64) *float64 { return &v }
	yes := true
	g := result.GPUUse{ID: "GPU-1", Name: "NVIDIA H200", Driver: "580", PowerLimitW: f(700), Used: &yes, Samples: 30, GapS: 1,
		SMClock: &result.Spread{Min: 1.9e9, Median: 1.98e9, Max: 1.98e9}, Reasons: map[string]float64{"power-cap": 0.03, "app-clocks": 1}, Others: []result.GPUProcess{}}
	change(&g)
	return &result.Machine{CPUSteal: &result.Share{Mean: 0.01}, Throttled: f(0), GPUs: []result.GPUUse{g}}
}

func sum(n *int64) *float64 {
	if n == nil {
		return nil
	}
	v := float64(*n)
	return &v
}

// check runs every check and returns the names of those that make the trial invalid, and of those that only warn.
func (p *planted) check(t *testing.T) (invalid, warned string) {
	t.Helper()
	p.run.Trials[0].Agree = judge.Agreement(p.run.Trials[0].Client, p.run.Trials[0].Server)
	if p.twice {
		tr := p.run.Trials[0]
		tr.ID, tr.Start, tr.Repeat = "a-c4-2", "s02", 2
		p.run.Trials[1] = tr
	}
	if err := Fill(p.run, func(string) ([]record.Record, error) { return p.recs, nil }); err != nil {
		t.Fatal(err)
	}
	var bad, warn []string
	for _, c := range append(append([]result.Check(nil), p.run.Trials[0].Checks...), p.run.Checks...) {
		switch {
		case c.Invalid():
			bad = append(bad, c.Name)
		case c.Status == result.CheckFailed:
			warn = append(warn, c.Name)
		}
		if c.Status != result.CheckOK && (c.Measured == "" || c.Consequence == "") {
			t.Errorf("%s says too little: %+v", c.Name, c)
		}
	}
	return strings.Join(bad, ","), strings.Join(warn, ",")
}

func TestNothingWrong(t *testing.T) {
	p := healthy()
	p.summarise()
	if invalid, warned := p.check(t); invalid != "" || warned != "" {
		t.Errorf("a healthy trial is invalid by %q and warned by %q", invalid, warned)
	}
}

// Each planted fault trips exactly its check. before changes the records, after what was counted.
func TestPlantedFaults(t *testing.T) {
	f := func(want string, before func(*planted), after func(*result.Trial)) {
		t.Helper()
		p := healthy()
		if before != nil {
			before(p)
		}
		p.summarise()
		if after != nil {
			after(&p.run.Trials[0])
		}
		if invalid, _ := p.check(t); invalid != want {
			t.Errorf("invalid by %q, want %q", invalid, want)
		}
		if v := judge.Trial(&p.run.Trials[0]); !strings.HasPrefix(want, "same-") && v != result.Inconclusive {
			t.Errorf("%s: the trial is %s, want INCONCLUSIVE", want, v)
		}
	}
	set := func(p **float64, v float64) { *p = &v }
	f("compiled", nil, func(tr *result.Trial) { tr.Server.JIT, tr.Server.JITKernels = 1, []string{"_kernel"} })
	f("drift", func(p *planted) { p.slow(count/2, count, 1.25) }, nil)
	f("first-use", func(p *planted) { p.firstUse() }, nil)
	f("running", nil, func(tr *result.Trial) { set(&tr.Server.MeanRunning, 2) })
	f("client-cpu", nil, func(tr *result.Trial) { set(&tr.Load.CPU, 0.9) })
	f("client-scheduler", nil, func(tr *result.Trial) { set(&tr.Load.SchedP99, 0.05) })
	f("agreement", nil, func(tr *result.Trial) { set(&tr.Server.OutputTokens, 4000) })
	f("cache", nil, func(tr *result.Trial) { set(&tr.Server.PrefixHits, 90_000) })
	f("effective", func(p *planted) {
		p.run.Starts[0].Differs = []result.Difference{{Flag: "enforce-eager", Requested: true, Effective: false}}
	}, nil)
	f("restart", nil, func(tr *result.Trial) { yes := true; tr.Server.Restarted = &yes })
	f("same-engine", func(p *planted) {
		p.run.Starts[1].Version = "0.26.0"
		p.run.Trials = append(p.run.Trials, p.run.Trials[0])
		p.run.Trials[1].ID, p.run.Trials[1].Start, p.run.Trials[1].Repeat = "a-c4-2", "s02", 2
		p.twice = true
	}, nil)
	f("host-steal", nil, func(tr *result.Trial) { tr.Machine.CPUSteal.Mean = 0.06 })
	f("host-steal", nil, func(tr *result.Trial) { set(&tr.Machine.Throttled, 0.02) })
	f("gpu-slowed", nil, func(tr *result.Trial) { tr.Machine.GPUs[0].Reasons["thermal"] = 1.0 / 30 })
	f("gpu-slowed", nil, func(tr *result.Trial) { tr.Machine.GPUs[0].Reasons["power-brake"] = 1.0 / 30 })
	f("gpu-shared", nil, func(tr *result.Trial) { tr.Machine.GPUs[0].Others = []result.GPUProcess{{PID: 7}} })
}

// Fewer running than in flight is a finding about the engine where it times its requests itself; more is others' load.
func TestRunning(t *testing.T) {
	f := func(running, e2e, queue float64, wantInvalid, wantWarned, wantText string) {
		t.Helper()
		p := healthy()
		p.summarise()
		s := p.run.Trials[0].Server
		s.MeanRunning, s.MeanQueue = &running, &queue
		if e2e > 0 {
			s.MeanE2E = &e2e
		}
		invalid, warned := p.check(t)
		if invalid != wantInvalid || warned != wantWarned {
			t.Errorf("%g running: invalid by %q, warned by %q", running, invalid, warned)
		}
		for _, c := range p.run.Trials[0].Checks {
			if c.Name == "running" && !strings.Contains(c.Measured, wantText) {
				t.Errorf("%g running: %q does not say %q", running, c.Measured, wantText)
			}
		}
	}
	f(2, 0, 0, "running", "", "2.07 running")
	f(2, 0.1, 0, "", "running", "outside its scheduler")
	f(2, 0.1, 0.04, "", "running", "40.0 % of a request's time is in the engine's queue")
	f(6, 0.1, 0, "running", "", "6.20 running")
}

// slow stretches the requests [from, to) in time, in the order of each place.
func (p *planted) slow(from, to int, factor float64) {
	end := map[int]int64{}
	for i := range p.recs {
		r, place := &p.recs[i], i%places
		d := func(x int64) int64 {
			if i >= from && i < to {
				return int64(float64(x) * factor)
			}
			return x
		}
		first, last, total := d(r.FirstToken-r.Scheduled), d(r.LastToken-r.Scheduled), d(r.End-r.Scheduled)
		if e, had := end[place]; had {
			r.Scheduled, r.Sent = e, e
		}
		r.FirstByte, r.FirstToken, r.FirstContent = r.Scheduled+first, r.Scheduled+first, r.Scheduled+first
		r.LastToken, r.End = r.Scheduled+last, r.Scheduled+total
		end[place] = r.End
	}
}

// firstUse lets the first prompt of another length, in the middle of the window, wait a second for its first token, as a
// silent compilation does.
func (p *planted) firstUse() {
	for i := count / 2; i < len(p.recs); i++ {
		p.recs[i].Class = "2000"
	}
	r := &p.recs[count/2]
	r.FirstByte, r.FirstToken, r.FirstContent = r.Scheduled+1_000_000, r.Scheduled+1_000_000, r.Scheduled+1_000_000
	r.LastToken, r.End = r.Scheduled+1_079_000, r.Scheduled+1_080_000
	end := r.End
	for i := count/2 + places; i < len(p.recs); i += places {
		r := &p.recs[i]
		shift := end - r.Scheduled
		for _, at := range []*int64{&r.Scheduled, &r.Sent, &r.FirstByte, &r.FirstToken, &r.FirstContent, &r.LastToken, &r.End} {
			*at += shift
		}
		end = r.End
	}
}

// On a simulated engine the state of the user's own machine is no reason to throw the run away.
func TestBusyLaptopOnlyWarns(t *testing.T) {
	p := healthy()
	p.run.Simulated = true
	p.summarise()
	tr := &p.run.Trials[0]
	cpu, sched := 0.9, 0.05
	tr.Load.CPU, tr.Load.SchedP99 = &cpu, &sched
	invalid, warned := p.check(t)
	if invalid != "" || warned != "client-cpu,client-scheduler" {
		t.Errorf("invalid by %q, warned by %q", invalid, warned)
	}
}

// What was not measured is not fine.
func TestUnknownIsNotOK(t *testing.T) {
	p := healthy()
	p.summarise()
	tr := &p.run.Trials[0]
	tr.Server = &result.Server{}
	tr.Load = nil
	p.run.Starts[0].Effective = nil
	p.check(t)
	got := map[string]result.CheckStatus{}
	for _, c := range tr.Checks {
		got[c.Name] = c.Status
	}
	for _, name := range []string{"restart", "preemptions", "running", "client-cpu", "client-scheduler", "cache", "effective"} {
		if got[name] != result.CheckUnknown {
			t.Errorf("%s is %q, want unknown", name, got[name])
		}
	}
}

func TestUnmeasuredTrialHasNoChecks(t *testing.T) {
	p := healthy()
	p.run.Trials[0].Outcome = result.Broken
	if got := Trial(p.run, &p.run.Trials[0], nil); got != nil {
		t.Errorf("%d checks of a broken trial", len(got))
	}
}
