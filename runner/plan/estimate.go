package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/spec"
)

// A machine is what a plan knows about where an experiment would run: enough to size a budget and to say what cannot
// act. Its figures are never compared with a result.
type machine struct {
	basis       string
	startGraphs float64                       // seconds from the process's start to the first answer
	startEager  float64                       // the same with enforce-eager
	eagerStep   float64                       // seconds; a step without graphs takes at least this
	tpot        func(concurrency int) float64 // seconds per output token, with graphs
	ttft        func(concurrency, promptTokens int) float64
	block       int // tokens of a prefix-cache block; 0 = depends on the model
	batched     int // default of max-num-batched-tokens
}

const (
	stopS       = 1.0
	trialExtraS = 1.0 // scrapes, import, queries
	// prefillTokensPerS is what a long prompt costs on its own: 4099 tokens in 0.27 s beyond the fixed part.
	prefillTokensPerS = 15000
)

var (
	// tpotGraphs is seconds per output token by concurrency with CUDA graphs, short prompts.
	tpotGraphs = [][2]float64{{1, .0043}, {2, .0050}, {4, .0059}, {8, .0067}, {16, .0087}, {32, .0111}, {64, .0143}, {128, .0183}, {256, .0295}}
	// ttftGraphs is the time to the first token by concurrency, short prompts, all sent at once.
	ttftGraphs = [][2]float64{{1, .063}, {4, .145}, {16, .311}, {64, .355}, {128, .516}, {256, 2.04}}
)

// h200 is vLLM 0.25.1 on one H200 with the shapes of Qwen3.6-35B-A3B-FP8 (docs/explanation/estimates.md).
var h200 = machine{
	basis:       "step times and start-up of vLLM 0.25.1 with Qwen3.6-35B-A3B-FP8 shapes on one H200; other models and machines differ",
	startGraphs: 85, // compile and kernel caches kept; 285 when nothing is cached
	startEager:  57,
	eagerStep:   0.120, // bound by the host, flat in the batch
	tpot:        func(c int) float64 { return interpolate(tpotGraphs, float64(c)) },
	ttft: func(c, prompt int) float64 {
		return interpolate(ttftGraphs, float64(c)) + float64(c*prompt)/prefillTokensPerS
	},
	batched: defaultBatchedTokens,
}

// machineFor is the simulated engine's own profile, or the one machine that was measured.
func machineFor(name string, sim *engine.Sim) machine {
	if name != "sim" || sim == nil {
		return h200
	}
	p, err := model.LoadProfile(sim.Profile)
	if err != nil {
		return h200 // an unknown profile is refused when the file is read
	}
	s := speed(sim)
	return machine{
		basis:       fmt.Sprintf("the simulated engine's profile %q", p.Name),
		startGraphs: p.Start.Graphs.Total() / s,
		startEager:  p.Start.Eager.Total() / s,
		eagerStep:   p.Step.EagerFloor / s,
		tpot:        func(c int) float64 { return p.Step.Decode.At(float64(c)) / s },
		ttft:        func(c, prompt int) float64 { return (p.Step.Frontend + p.Step.Prefill.At(float64(c*prompt))) / s },
		block:       p.Memory.BlockTokens,
		batched:     p.Limits.BatchedTokens,
	}
}

func estimate(p *Plan) Estimate {
	e := Estimate{Starts: len(p.Starts)}
	var sum, start float64
	var bases []string
	for _, s := range p.Starts {
		sum += s.EstimateS
		start += startSeconds(s)
		for _, t := range s.Trials {
			e.Requests += t.Requests + t.Warmup
			if t.Search == nil {
				e.Trials++
				continue
			}
			e.Trials += t.Search.Trials
			e.AtMost = true
		}
		if b := machineFor(s.Engine, s.Sim).basis; !slices.Contains(bases, b) {
			bases = append(bases, b)
		}
	}
	e.Attribution = attributionCost(p)
	e.EngineMinutes, e.StartMinutes, e.Basis = round(sum/60, 2), round(start/60, 2), strings.Join(bases, "; ")
	return e
}

// attributionCost adds up the starts that measure nothing but configs of attribution.
func attributionCost(p *Plan) *Share {
	specs := map[string]*spec.Experiment{}
	for _, x := range p.Experiments {
		specs[x.Name] = x.Spec
	}
	var out Share
	configs := map[string]bool{}
	for _, s := range p.Starts {
		only := true
		for _, t := range s.Trials {
			only = only && specs[t.Experiment].Derived(t.Config) != nil
		}
		if only && len(s.Trials) > 0 {
			out.Starts++
			out.EngineMinutes += s.EstimateS / 60
			configs[fmt.Sprint(s.Labels)] = true
		}
	}
	if out.Starts == 0 {
		return nil
	}
	out.Configs, out.EngineMinutes = len(configs), round(out.EngineMinutes, 2)
	return &out
}

func startSeconds(s Start) float64 {
	m := machineFor(s.Engine, s.Sim)
	if isTrue(s.Flags, "enforce-eager") {
		return m.startEager + stopS
	}
	return m.startGraphs + stopS
}

func trialSeconds(e *spec.Experiment, config string, p spec.Point) float64 {
	n := requests(e, p) + warmup(e, p)
	if o := e.Load.Arrivals(); o != nil {
		return float64(warmup(e, p))/math.Max(p.Rate, 1) + o.Duration.Seconds() + trialExtraS
	}
	m := machineFor(e.Engine.Name, e.Engine.Sim)
	tpot, ttft := m.tpot(p.Concurrency), m.ttft(p.Concurrency, promptTokens(e))
	if isTrue(e.Merged(config), "enforce-eager") {
		tpot, ttft = math.Max(tpot, m.eagerStep), math.Max(ttft, m.eagerStep)
	}
	waves := math.Ceil(float64(n) / float64(p.Concurrency))
	return round(waves*(ttft+float64(e.Workload.Output.Tokens-1)*tpot)+trialExtraS, 1)
}

func speed(s *engine.Sim) float64 {
	if s == nil || s.Speed <= 0 {
		return 1
	}
	return s.Speed
}

func isTrue(flags []engine.Flag, name string) bool {
	v, _ := lookup(flags, name).(bool)
	return v
}

func lookup(flags []engine.Flag, name string) any {
	for _, f := range flags {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// EventsPerSecond estimates how many stream events per second the load generator must read during a trial.
func EventsPerSecond(e *spec.Experiment, config string, p spec.Point) float64 {
	if e.Load.Arrivals() != nil {
		return p.Rate * float64(e.Workload.Output.Tokens)
	}
	m := machineFor(e.Engine.Name, e.Engine.Sim)
	tpot := m.tpot(p.Concurrency)
	if isTrue(e.Merged(config), "enforce-eager") {
		tpot = math.Max(tpot, m.eagerStep)
	}
	return float64(p.Concurrency) / tpot
}

// interpolate is piecewise linear in x and extends the last slope.
func interpolate(t [][2]float64, x float64) float64 {
	if x <= t[0][0] {
		return t[0][1]
	}
	for i := 1; i < len(t); i++ {
		if x <= t[i][0] || i == len(t)-1 {
			a, b := t[i-1], t[i]
			return a[1] + (b[1]-a[1])*(x-a[0])/(b[0]-a[0])
		}
	}
	return t[len(t)-1][1]
}

func round(x float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(x*f) / f
}

func budgetWarnings(p *Plan) []Warning {
	var out []Warning
	for _, e := range p.Experiments {
		b := e.Spec.Budget
		if b == nil {
			continue
		}
		var need float64
		for _, s := range p.Starts {
			share := 0.0
			for _, t := range s.Trials {
				if t.Experiment == e.Name {
					share += t.EstimateS
				}
			}
			if share > 0 {
				need += (share + startSeconds(s)) / 60
			}
		}
		if need > b.GPUMinutes {
			pos := e.Spec.Positions["budget.gpu_minutes"]
			out = append(out, Warning{
				Code: OverBudget, Experiment: e.Name, Line: pos.Line, Column: pos.Column,
				Message: fmt.Sprintf("the run needs about %.0f engine minutes, the budget is %g; fewer starts, requests or load points, or a larger budget", math.Ceil(need), b.GPUMinutes),
			})
		}
	}
	return out
}
