package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// findings are the sentences a reader should not miss: how large each change is, which flag made it, which did nothing,
// and what in the numbers would mislead. A comparison that cannot be believed has none of its numbers in them.
func findings(run *result.Run) []string {
	e := run.Experiment
	if e == nil {
		return nil
	}
	var out []string
	if e.Compare != nil {
		for _, candidate := range e.Compare.Candidates {
			cs := comparisonsOf(run, candidate)
			out = append(out, changed(cs)...)
			out = append(out, causes(run, candidate)...)
		}
	}
	if e.Load.Capacity == nil { // whose throughput nobody compares
		out = append(out, waveFindings(run)...)
	}
	return append(out, promptFinding(run)...)
}

func comparisonsOf(run *result.Run, candidate string) []result.Comparison {
	var out []result.Comparison
	for _, c := range run.Comparisons {
		if c.Candidate == candidate {
			out = append(out, c)
		}
	}
	return out
}

// changed says how much the first number of each comparison changed, and which other ones went the other way.
func changed(cs []result.Comparison) []string {
	var parts, open, against []string
	what := ""
	for _, c := range cs {
		at := Level(c.Point)
		if c.Why != "" || len(c.Changes) == 0 {
			open = append(open, fmt.Sprintf("%s ÷ %s at %s has no number: %s.", c.Candidate, c.Baseline, at, orElse(c.Why, "nothing was measured on both sides")))
			continue
		}
		first := c.Changes[0]
		what = Title(first.Metric)
		parts = append(parts, multiple(first)+" at "+at)
		for _, ch := range c.Changes[1:] {
			if opposite(first.Word, ch.Word) {
				against = append(against, fmt.Sprintf("%s is %s at %s: %s", Title(ch.Metric), ch.Word, at, multiple(ch)))
			}
		}
	}
	var out []string
	if len(parts) > 0 {
		c := cs[0]
		text := fmt.Sprintf("%s ÷ %s, %s: %s.", c.Candidate, c.Baseline, what, list(parts))
		if len(against) > 0 {
			text += " But " + list(against) + "."
		}
		out = append(out, text)
	}
	return append(out, open...)
}

func opposite(a, b stats.Change) bool {
	return a == stats.Better && b == stats.Worse || a == stats.Worse && b == stats.Better
}

// multiple is "8.94× (8.71 to 9.12, better)", and says what is missing where there is no interval.
func multiple(ch result.Change) string {
	switch {
	case ch.Ratio == nil:
		return "not known (" + ch.Why + ")"
	case ch.Interval == nil:
		return fmt.Sprintf("about %s× (no interval: %s)", result.Number(*ch.Ratio), ch.Why)
	}
	return fmt.Sprintf("%s× (95 %% interval %s to %s: %s)", result.Number(*ch.Ratio), result.Number(ch.Interval.Low), result.Number(ch.Interval.High), ch.Word)
}

// causes says which flags made the change of the first number, and which did nothing.
func causes(run *result.Run, candidate string) []string {
	var ats []result.Attribution
	var out []string
	seen := map[spec.Point]bool{}
	for _, a := range run.Attributions {
		if a.Candidate != candidate || seen[a.Point] {
			continue
		}
		seen[a.Point] = true
		if a.Result == nil {
			out = append(out, fmt.Sprintf("Which flag did it at %s is not known: %s.", Level(a.Point), a.Why))
			continue
		}
		ats = append(ats, a)
	}
	if len(ats) == 0 {
		return out
	}
	if n := len(ats[0].Result.Blocks); n < stats.MinStarts {
		out = append(out, fmt.Sprintf("How sure the split over the flags is, is not known: %d of at least %d starts of every config.", n, stats.MinStarts))
	}
	var did, inert, open []string
	for i := range ats[0].Result.Factors {
		text, kind := factor(run, ats, i)
		switch kind {
		case acts:
			did = append(did, text)
		case inertHere:
			inert = append(inert, text)
		default:
			open = append(open, text)
		}
	}
	out = append(out, did...)
	out = append(out, inert...)
	if len(open) > 0 {
		out = append(out, "No clear effect, and not shown to have none: "+strings.Join(open, "; ")+".")
	}
	return append(out, together(ats)...)
}

type kind int

const (
	acts kind = iota
	inertHere
	unclear
)

// factor describes factor i over the load points.
func factor(run *result.Run, ats []result.Attribution, i int) (string, kind) {
	name := Flag(ats[0].Result.Factors[i].Name)
	inert, clear := true, false
	why := mechanism(run, ats[0].Candidate, ats[0].Result.Factors[i].Name)
	var parts []string
	for _, a := range ats {
		f := a.Result.Factors[i]
		inert = inert && f.Inert
		c := Clear(f.Share, a.Result.MinimumEffect)
		clear = clear || c
		parts = append(parts, share(f, c, Level(a.Point)))
	}
	switch {
	case !clear && why != "":
		return fmt.Sprintf("%s is inert here: %s. Measured: %s.", capital(name), why, list(parts)), inertHere
	case inert:
		return fmt.Sprintf("%s is inert here: %s.", capital(name), list(parts)), inertHere
	case clear:
		return fmt.Sprintf("%s: %s.", capital(name), list(parts)), acts
	case len(ats[0].Result.Blocks) < stats.MinStarts:
		return fmt.Sprintf("%s: %s.", capital(name), list(parts)), acts
	}
	return name + " " + list(parts), unclear
}

// share is "100 % of the change at 16 at once (99 to 101 %; 8.97×)", or the multiple alone where there is no clear whole
// to be a part of.
func share(f attribute.Factor, clear bool, at string) string {
	ratio := result.Number(f.Share.Ratio) + "×"
	if f.Fraction == nil || !clear {
		if iv := f.Share.RatioInterval; iv != nil {
			return fmt.Sprintf("%s at %s (%s to %s)", ratio, at, result.Number(iv.Low), result.Number(iv.High))
		}
		return ratio + " at " + at
	}
	return fmt.Sprintf("%s of the change at %s (%.0f to %s; %s)", percent(f.Fraction.Estimate), at, math.Round(100*f.Fraction.Low)+0, percent(f.Fraction.High), ratio)
}

// percent has no sign of nothing: -0.2 % is 0 %.
func percent(v float64) string { return fmt.Sprintf("%.0f %%", math.Round(100*v)+0) }

// Clear is true of an effect whose interval excludes no change and that is at least as large as what matters.
func Clear(e attribute.Effect, minimum float64) bool {
	iv := e.RatioInterval
	return iv != nil && !iv.Contains(1) && (e.Ratio >= 1+minimum || e.Ratio <= 1/(1+minimum))
}

// together are clear interactions, and what shares leave unexplained.
func together(ats []result.Attribution) []string {
	var out []string
	for _, a := range ats {
		for _, x := range a.Result.Interactions {
			if x.Clear {
				out = append(out, fmt.Sprintf("%s and %s act together at %s: both give %s× what each gives without the other.",
					capital(Flag(x.Factors[0])), Flag(x.Factors[1]), Level(a.Point), result.Number(x.Effect.Ratio)))
			}
		}
		if a.Result.Unexplained {
			out = append(out, fmt.Sprintf("%s× of the change at %s belongs to no single flag: flags act together. compare.design: full would say which.",
				result.Number(a.Result.Remainder.Ratio), Level(a.Point)))
		}
	}
	return out
}

// mechanism says why a flag cannot have acted: what the plan knew, and what the engines counted; "" = nothing says so.
func mechanism(run *result.Run, candidate, flag string) string {
	var parts []string
	if why := warningOf(run, flag); why != "" {
		if _, rest, ok := strings.Cut(why, " cannot act: "); ok {
			why = rest
		}
		parts = append(parts, "it cannot act, "+why)
	}
	if flag == prefixCaching && len(parts) > 0 {
		if h := hits(run); h != "" {
			parts = append(parts, h)
		}
	}
	if flag == "gpu-memory-utilization" {
		if most, ok := fullest(run, candidate); ok && most < cacheFull {
			parts = append(parts, fmt.Sprintf("the KV cache was never more than %s full and no request was preempted", result.Percent(most)))
		}
	}
	return strings.Join(parts, "; ")
}

// cacheFull is the share of the KV cache from which its size may have acted.
const cacheFull = 0.9

// fullest is the largest share of the KV cache that was in use in any trial of the two configs; ok is false where an
// engine does not say, or preempted a request.
func fullest(run *result.Run, candidate string) (most float64, ok bool) {
	for _, t := range run.Trials {
		if t.Config != candidate && t.Config != baseline(run) || t.Server == nil {
			continue
		}
		s := t.Server
		if s.MaxKVUsage == nil || s.Preemptions == nil || *s.Preemptions > 0 {
			return 0, false
		}
		most, ok = max(most, *s.MaxKVUsage), true
	}
	return most, ok
}

func warningOf(run *result.Run, flag string) string {
	for _, w := range run.Warnings {
		if w.Code == plan.InertFactor && w.Factor == flag {
			return w.Message
		}
	}
	return ""
}

// hits is what the engines counted of the prefix cache.
func hits(run *result.Run) string {
	var n, of float64
	for _, t := range run.Trials {
		if t.Server != nil && t.Server.PrefixHits != nil && t.Server.PrefixQueries != nil {
			n, of = n+*t.Server.PrefixHits, of+*t.Server.PrefixQueries
		}
	}
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("the engines counted %.0f hits in %.0f queried tokens", n, of)
}

const prefixCaching = "enable-prefix-caching"

// waveFindings says once for each load point that requests ÷ wall time would mislead, and by how much at worst.
func waveFindings(run *result.Run) []string {
	var out []string
	for _, p := range points(run) {
		worst, of := 0.0, (*result.Trial)(nil)
		for i := range run.Trials {
			t := &run.Trials[i]
			if t.Point != p || t.Steady == nil || t.Steady.Wave == "" || t.Steady.Tail == 0 || t.Client == nil {
				continue
			}
			if in, wall := t.Steady.RequestsPerS, t.Client.RequestsPerS; in != nil && wall != nil && *in > 0 {
				if off := 1 - *wall / *in; off > worst {
					worst, of = off, t
				}
			}
		}
		if of == nil {
			continue
		}
		text, _, _ := strings.Cut(of.Steady.Wave, "; ")
		out = append(out, fmt.Sprintf("A wave artefact at %s: %s. Requests ÷ wall time shows up to %s too little; the numbers here are of the time in which every place was busy.",
			Level(p), text, percent(worst)))
	}
	return out
}

// fewPrompts is the number of different prompts below which a mixture-of-experts model meets the same experts again and
// again.
const fewPrompts = 8

// promptFinding warns of prompts that all are the same, or a handful.
func promptFinding(run *result.Run) []string {
	for _, t := range run.Trials {
		if t.Prompts == nil || t.Client == nil || t.Client.Requests <= fewPrompts || t.Prompts.Distinct >= fewPrompts {
			continue
		}
		what := fmt.Sprintf("All %d requests of a trial had the same prompt", t.Client.Requests)
		if n := t.Prompts.Distinct; n > 1 {
			what = fmt.Sprintf("The %d requests of a trial had only %d different prompts", t.Client.Requests, n)
		}
		return []string{what + ": a prefix cache could answer them all, and in a mixture-of-experts model they all go to the same experts. Real traffic does neither."}
	}
	return nil
}

// Level names a load point for people.
func Level(p spec.Point) string {
	if p.Concurrency > 0 {
		return fmt.Sprintf("%d at once", p.Concurrency)
	}
	return fmt.Sprintf("%v req/s", p.Rate)
}

// Title is how a compared number is called in a table.
func Title(metric string) string {
	for _, t := range [][2]string{
		{"output_tokens_per_second", "tok/s"}, {"requests_per_second", "req/s"}, {"ttft", "TTFT p50"}, {"tpot", "TPOT p50"}, {"e2e", "E2E p50"},
	} {
		if strings.HasSuffix(metric, "."+t[0]) {
			return t[1]
		}
	}
	return metric
}

// Flag is what a flag is about, with its name.
func Flag(name string) string {
	about := map[string]string{
		"enforce-eager": "CUDA graphs", prefixCaching: "prefix caching", "enable-chunked-prefill": "chunked prefill",
		"gpu-memory-utilization": "the memory share", "kv-cache-dtype": "the KV cache's type", "max-num-batched-tokens": "the tokens of a step",
		"max-num-seqs": "the requests of a step", "quantization": "quantization", "tensor-parallel-size": "tensor parallelism",
	}[name]
	if about == "" {
		return name
	}
	return fmt.Sprintf("%s (%s)", about, name)
}

// list joins sentences' parts: a, b and c. Equal ones are told once.
func list(parts []string) string {
	parts = slices.Compact(slices.Clone(parts))
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
