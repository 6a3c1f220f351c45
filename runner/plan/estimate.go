package plan

import (
	"fmt"
	"math"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/spec"
)

// estimateBasis says where the figures below come from: vLLM 0.25.1 on one H200 with the shapes of
// Qwen3.6-35B-A3B-FP8 (docs/explanation/estimates.md). They size a budget; they are never compared with a result.
const estimateBasis = "step times and start-up of vLLM 0.25.1 with Qwen3.6-35B-A3B-FP8 shapes on one H200; other models and machines differ"

const (
	startGraphsS = 85.0  // compile and kernel caches kept; 285 s when nothing is cached
	startEagerS  = 57.0  // caches kept
	stepEagerS   = 0.120 // bound by the host, flat in the batch size
	stopS        = 1.0
	trialExtraS  = 2.0 // scrapes, import, queries
)

// tpotGraphs is seconds per output token by concurrency with CUDA graphs, short prompts.
var tpotGraphs = [][2]float64{{1, .0043}, {2, .0050}, {4, .0059}, {8, .0067}, {16, .0087}, {32, .0111}, {64, .0143}, {128, .0183}, {256, .0295}}

// ttftGraphs is the time to the first token by concurrency, short prompts, all sent at once.
var ttftGraphs = [][2]float64{{1, .063}, {4, .145}, {16, .311}, {64, .355}, {128, .516}, {256, 2.04}}

// prefillTokensPerS is what a long prompt costs on its own: 4099 tokens in 0.27 s beyond the fixed part.
const prefillTokensPerS = 15000

func estimate(p *Plan) Estimate {
	e := Estimate{Starts: len(p.Starts), Basis: estimateBasis}
	var total, start float64
	for _, s := range p.Starts {
		total += s.EstimateS
		start += startSeconds(s)
		e.Trials += len(s.Trials)
		for _, t := range s.Trials {
			e.Requests += t.Requests + t.Warmup
		}
	}
	e.EngineMinutes, e.StartMinutes = round(total/60, 2), round(start/60, 2)
	return e
}

func startSeconds(s Start) float64 {
	d := startGraphsS
	if isTrue(s.Flags, "enforce-eager") {
		d = startEagerS
	}
	return d/speed(s.Sim) + stopS
}

func trialSeconds(e *spec.Experiment, config string, p spec.Point) float64 {
	n := float64(requests(e, p) + warmup(e, p))
	if e.Load.Open != nil {
		return float64(warmup(e, p))/math.Max(p.Rate, 1) + e.Load.Open.Duration.Seconds() + trialExtraS
	}
	c := float64(p.Concurrency)
	tpot, ttft := interpolate(tpotGraphs, c), interpolate(ttftGraphs, c)
	if isTrue(e.Merged(config), "enforce-eager") {
		tpot = math.Max(tpot, stepEagerS)
		ttft = math.Max(ttft, stepEagerS)
	}
	prefill := c * float64(promptTokens(e)) / prefillTokensPerS
	waves := math.Ceil(n / c)
	return round(waves*(ttft+prefill+float64(e.Workload.Output.Tokens)*tpot)/speed(e.Engine.Sim)+trialExtraS, 1)
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
