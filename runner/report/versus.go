package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/compare"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/stats"
)

// CompareText is a comparison of two runs for a terminal; see Text.
func CompareText(c *compare.Comparison, width int, color bool) []byte {
	p := printer{width: width, color: color}
	for _, b := range compared(c) {
		p.block(b)
	}
	return p.out.Bytes()
}

// CompareMarkdown is a comparison of two runs in GitHub's Markdown; see Markdown.
func CompareMarkdown(c *compare.Comparison) []byte {
	var out bytes.Buffer
	for i, b := range compared(c) {
		if i > 0 {
			out.WriteByte('\n')
		}
		writeMarkdown(&out, b)
	}
	return out.Bytes()
}

// compared makes the blocks of a comparison. What differs on purpose comes first: without it the numbers mislead.
func compared(c *compare.Comparison) []block {
	var out []block
	for _, d := range c.Across {
		out = append(out, banner{fmt.Sprintf("Across %s: A has %s, B has %s. The ratios are of that too.", d.Key, d.A, d.B)})
	}
	if c.A.Simulated || c.B.Simulated {
		out = append(out, banner{simulatedText})
	}
	for _, s := range []string{c.A.Synthetic, c.B.Synthetic} {
		if s != "" {
			out = append(out, banner{"Synthetic: " + s})
			break
		}
	}
	pairs := [][2]string{{"A", sideText(c.A)}, {"B", sideText(c.B)}}
	for _, d := range c.Treatment {
		pairs = append(pairs, [2]string{d.Key, d.A + " in A, " + d.B + " in B"})
	}
	if len(c.Treatment) == 0 {
		pairs = append(pairs, [2]string{"flags", "the same in both"})
	}
	for _, d := range c.LeftOut {
		pairs = append(pairs, [2]string{"left out, " + d.Key, "only in A: " + d.A + "; only in B: " + d.B})
	}
	out = append(out, facts{pairs}, heading{"B ÷ A"})
	t := table{head: []string{"config", "load", "number", "A", "B", "B ÷ A", percent(c.Level) + " interval", "starts", "change"}, left: 3, key: 3}
	for _, r := range c.Rows {
		t.rows = append(t.rows, compareRow(r))
	}
	if len(t.rows) == 0 {
		out = append(out, para{"The runs have no number in common."})
	} else {
		out = append(out, t)
	}
	return append(out, list{compareNotes(c)})
}

func sideText(s compare.Side) string {
	return fmt.Sprintf("%s, run %s, measured %s", s.Experiment, s.RunKey[:min(12, len(s.RunKey))], s.Started)
}

func percent(level float64) string { return result.Bound(level, "%") }

func compareRow(r compare.Row) []string {
	write := func(v *float64) string {
		switch {
		case v == nil:
			return none
		case r.Unit == "s":
			return result.Seconds(*v)
		}
		return result.Number(*v)
	}
	ratio, interval, word := none, none, string(r.Word)
	if r.Ratio != nil {
		ratio = result.Number(*r.Ratio) + "×"
	}
	if r.Low != nil && r.High != nil {
		interval = result.Number(*r.Low) + " to " + result.Number(*r.High)
	}
	switch {
	case word == "":
		word = none
	case r.Why != "":
		word += "*"
	}
	return []string{r.Config, level(r.Point), r.Title, write(r.A), write(r.B), ratio, interval, fmt.Sprintf("%d, %d", r.StartsA, r.StartsB), word}
}

func compareNotes(c *compare.Comparison) []string {
	claims := 0
	for _, r := range c.Rows {
		if r.Word != "" {
			claims++
		}
	}
	out := []string{
		"A and B are medians over engine starts; the ratio is of geometric means, its interval from the spread of the starts of both runs (Welch)",
	}
	if claims > 0 {
		out = append(out, fmt.Sprintf("%s: the interval excludes 1, the change is at least %s, and it stands among all %s (Holm)", stats.Better+" or "+stats.Worse, result.Percent(c.MinimumEffect), plural(claims, "comparison")))
	}
	return append(append(reasons(c), out...), c.Notes...)
}

// reasons are why rows have no word, or one that was taken back, each with the rows that it is about.
func reasons(c *compare.Comparison) []string {
	var out []string
	about := map[string][]string{}
	for _, r := range c.Rows {
		if r.Why == "" {
			continue
		}
		row := r.Config + " at " + level(r.Point)
		if r.Word != "" {
			row = "* " + row + ", " + r.Title
		}
		if about[r.Why] == nil {
			out = append(out, r.Why)
		}
		if !slices.Contains(about[r.Why], row) {
			about[r.Why] = append(about[r.Why], row)
		}
	}
	for i, why := range out {
		rows := strings.Join(about[why], "; ")
		if strings.HasPrefix(rows, "* ") {
			out[i] = rows + ": " + why
			continue
		}
		out[i] = "nothing can be said of " + rows + ": " + why
	}
	return out
}
