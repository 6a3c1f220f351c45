package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/metric"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// between names the configs that attribution added.
func between(e *spec.Experiment) string {
	var names []string
	for _, c := range e.Configs {
		if c.Derived != nil {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + ". A name with + is the baseline with the candidate's value of those flags, one with - the candidate with the baseline's."
}

// comparisons are the ratios with their intervals and words.
func comparisons(run *result.Run) []block {
	var out []block
	for i, c := range run.Comparisons {
		if i == 0 || run.Comparisons[i-1].Candidate != c.Candidate {
			out = append(out, comparison(run, c.Baseline, c.Candidate)...)
		}
	}
	return out
}

func comparison(run *result.Run, base, candidate string) []block {
	t := table{head: []string{"load", "number", "ratio", "95 % interval", "in words"}, left: 2, key: 2}
	var open []string
	blocks := 0
	for _, c := range run.Comparisons {
		if c.Candidate != candidate {
			continue
		}
		if c.Why != "" {
			open = append(open, level(c.Point)+": no ratio, "+c.Why)
			continue
		}
		blocks = max(blocks, c.Blocks)
		for _, ch := range c.Changes {
			t.rows = append(t.rows, changeRow(level(c.Point), ch))
			if ch.Why != "" && !slices.Contains(open, ch.Why) {
				open = append(open, ch.Why)
			}
		}
	}
	out := []block{heading{candidate + " ÷ " + base}}
	if len(t.rows) > 0 {
		out = append(out, para{explain(run, base, candidate, blocks)}, t)
	}
	if len(open) > 0 {
		out = append(out, list{open})
	}
	return out
}

func explain(run *result.Run, base, candidate string, blocks int) string {
	text := fmt.Sprintf("Each number of %s divided by that of %s, start by start of the same block (%s), then averaged: 1× is no change.", candidate, base, plural(blocks, "block"))
	if blocks < stats.MinStarts {
		return text + fmt.Sprintf(" With fewer than %d starts of each there is no interval and no claim: the difference may be one between starts.", stats.MinStarts)
	}
	return text + fmt.Sprintf(" The interval is where the true ratio lies, as far as %s can tell: it is right 19 times in 20. A change is called clear when the interval excludes 1× and the change is at least %s.",
		plural(blocks, "start"), result.Percent(comparisonOf(run).MinimumEffect))
}

func changeRow(load string, ch result.Change) []string {
	ratio, interval, word := none, none, none
	if ch.Ratio != nil {
		ratio = result.Number(*ch.Ratio) + "×"
	}
	if iv := ch.Interval; iv != nil {
		interval = result.Number(iv.Low) + " to " + result.Number(iv.High) + "×"
		word = string(ch.Word)
		if ch.Inert {
			word = "as good as equal"
		}
	}
	return []string{load, judge.Title(ch.Metric), ratio, interval, word}
}

// attributed is the report without what was measured.
func attributed(run *result.Run) []block {
	blocks := []block{headline{string(run.Verdict), name(run), run.Reason}}
	for _, b := range banners(run) {
		blocks = append(blocks, banner{b})
	}
	if len(run.Findings) > 0 {
		blocks = append(blocks, list{run.Findings})
	}
	return append(append(blocks, comparisons(run)...), attributions(run)...)
}

// attributions are the waterfalls: how the change of a number is put together from the flags.
func attributions(run *result.Run) []block {
	var out []block
	title := ""
	for i, a := range run.Attributions {
		if h := "What made the difference: " + a.Candidate; h != title {
			title = h
			out = append(out, heading{title}, para{waterfallText(run, a.Candidate)})
		}
		switch {
		case strings.HasSuffix(a.Metric, ".requests_per_second"): // tells what tok/s tells
		case a.Result == nil:
			out = append(out, list{[]string{strings.TrimSpace(level(a.Point)+" "+judge.Title(a.Metric)) + ": not known, " + a.Why}})
		case i == 0 || run.Attributions[i-1].Candidate != a.Candidate || run.Attributions[i-1].Point != a.Point:
			out = append(out, waterfall(run, a, ""))
		default:
			out = append(out, waterfall(run, a, level(a.Point)+": "+judge.Title(a.Metric)))
		}
	}
	if t := inBetween(run); len(out) > 0 && len(t.rows) > 0 {
		out = append(out, t)
	}
	return out
}

// inBetween are the numbers of the configs that attribution added.
func inBetween(run *result.Run) table {
	t := table{head: slices.Concat([]string{"config", "load"}, titles(), []string{"errors"}), left: 2, key: 2, folded: "The configs in between"}
	for _, c := range derivedCells(run) {
		row := []string{c.Config, level(c.Point)}
		for _, col := range columns() {
			row = append(row, value(col, col.of(&c)))
		}
		t.rows = append(t.rows, append(row, errorCount(run, c.Trials...)))
	}
	return t
}

func waterfallText(run *result.Run, candidate string) string {
	base := comparisonOf(run).Baseline
	return fmt.Sprintf("From %s to %s, one flag at a time. Each flag multiplies the number by its factor: the mean of what it does added to %s and removed from %s (with up to three flags, over every order: Shapley's share). The factors multiplied give the whole. "+
		"Share: the flag's part of the change, on a logarithmic scale; below 0 or above 100 %% when flags work against each other.", base, candidate, base, candidate)
}

// waterfall is one number's way from the baseline to the candidate.
func waterfall(run *result.Run, a result.Attribution, folded string) table {
	r := a.Result
	t := table{head: []string{level(a.Point), judge.Title(a.Metric), "factor", "95 % interval", "share", "in words", ""}, left: 1, key: 1, folded: folded}
	value, known := start(run, a)
	show := func() string {
		if !known {
			return none
		}
		return write(a.Metric, value)
	}
	t.rows = append(t.rows, []string{a.Configs[0], show(), "", "", "", "", ""})
	for _, i := range largestFirst(r) {
		f := r.Factors[i]
		value *= f.Share.Ratio
		t.rows = append(t.rows, []string{f.Name, show(), factorText(f.Share), intervalText(f.Share), fraction(f), word(f, r), bar(f.Share.Log, r)})
	}
	if r.Design == attribute.OneAtATime {
		value *= r.Remainder.Ratio
		words := ""
		if r.Unexplained {
			words = "flags act together"
		}
		t.rows = append(t.rows, []string{"(together)", show(), factorText(r.Remainder), intervalText(r.Remainder), "", words, bar(r.Remainder.Log, r)})
	}
	return append2(t, []string{a.Configs[len(a.Configs)-1], show(), factorText(r.Whole), intervalText(r.Whole), "", "the whole", ""})
}

func append2(t table, row []string) table {
	t.rows = append(t.rows, row)
	return t
}

// largestFirst orders factors by the size of their shares.
func largestFirst(r *attribute.Result) []int {
	order := make([]int, len(r.Factors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := math.Abs(r.Factors[a].Share.Log), math.Abs(r.Factors[b].Share.Log)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return order
}

// start is the baseline's value: the geometric mean over the blocks that count.
func start(run *result.Run, a result.Attribution) (float64, bool) {
	sum, n := 0.0, 0
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Config != a.Configs[0] || t.Point != a.Point || t.Confirms || t.Client == nil || !slices.Contains(a.Result.Blocks, t.Repeat) {
			continue
		}
		if v := judge.Value(t, a.Metric); v != nil && *v > 0 {
			sum += math.Log(*v)
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return math.Exp(sum / float64(n)), true
}

func write(name string, v float64) string {
	if m, ok := metric.Find(name); ok && m.Unit == metric.Seconds {
		return result.Seconds(v)
	}
	return result.Number(v)
}

func factorText(e attribute.Effect) string { return "×" + result.Number(e.Ratio) }

func intervalText(e attribute.Effect) string {
	if e.RatioInterval == nil {
		return none
	}
	return "×" + result.Number(e.RatioInterval.Low) + " to " + result.Number(e.RatioInterval.High)
}

func fraction(f attribute.Factor) string {
	if f.Fraction == nil {
		return none
	}
	return fmt.Sprintf("%.0f %%", math.Round(100*f.Fraction.Estimate)+0)
}

func word(f attribute.Factor, r *attribute.Result) string {
	switch {
	case len(r.Blocks) < stats.MinStarts || f.Share.RatioInterval == nil:
		return none
	case f.Inert:
		return "inert here"
	case f.DependsOnOthers:
		return "depends on the others"
	case judge.Clear(f.Share, r.MinimumEffect):
		return "clear"
	}
	return "no clear change"
}

// bar draws a factor's size against the largest one, to the left of the middle when it lowers the number.
func bar(log float64, r *attribute.Result) string {
	const most = 12
	largest := math.Abs(r.Remainder.Log)
	for _, f := range r.Factors {
		largest = max(largest, math.Abs(f.Share.Log))
	}
	if largest == 0 {
		return ""
	}
	n := int(math.Round(most * math.Abs(log) / largest))
	mark := "█"
	if log < 0 {
		mark = "░"
	}
	return strings.Repeat(mark, n)
}
