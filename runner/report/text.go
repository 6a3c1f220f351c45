package report

import (
	"bytes"
	"strings"

	"h100-inference-control-plane/runner/result"
)

// Text is the report for a terminal of so many columns; width <= 0 = no limit. With color, verdicts and headings carry
// ANSI colours; without, the bytes are plain. Whatever is foreign in the document cannot move the cursor or begin a
// command of a CI system.
func Text(run *result.Run, width int, color bool) []byte {
	return printed(content(run), width, color)
}

// AttributionText is the part of Text that says which flag made the difference.
func AttributionText(run *result.Run, width int, color bool) []byte {
	return printed(attributed(run), width, color)
}

func printed(blocks []block, width int, color bool) []byte {
	p := printer{width: width, color: color}
	for _, b := range blocks {
		p.block(b)
	}
	return p.out.Bytes()
}

type printer struct {
	out   bytes.Buffer
	width int
	color bool
}

// Colours.
const (
	bold   = "1"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
	shout  = "1;7" // reversed
)

func (p *printer) paint(code, s string) string {
	if !p.color || code == "" || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func verdictColor(v string) string {
	word, _, _ := strings.Cut(v, " ")
	switch result.Verdict(strings.TrimSuffix(word, baselineMark)) {
	case result.Pass:
		return green
	case result.Fail, result.Error:
		return red
	case result.Inconclusive, result.Superseded:
		return yellow
	}
	return ""
}

func (p *printer) line(s string) {
	p.out.WriteString(strings.TrimRight(s, " "))
	p.out.WriteByte('\n')
}

func (p *printer) block(b block) {
	switch b := b.(type) {
	case headline:
		p.line(p.paint(verdictColor(b.verdict), b.verdict) + "  " + p.paint(bold, clean(b.name)))
		p.indented("", "", b.reason)
	case banner:
		for _, l := range wrap(clean(b.text), p.width) {
			p.line(p.paint(shout, l))
		}
	case heading:
		p.line("")
		p.line(p.paint(bold, strings.ToUpper(clean(b.text))))
	case para:
		p.indented("", "", b.text)
	case facts:
		p.facts(b)
	case list:
		for _, item := range b.items {
			p.indented("- ", "  ", item)
		}
	case table:
		p.table(b)
	}
}

// indented writes a text with one prefix on its first line and another on the others.
func (p *printer) indented(first, rest, text string) {
	limit := 0
	if p.width > 0 {
		limit = max(p.width-width(first), 20)
	}
	for i, l := range wrap(clean(text), limit) {
		if i == 0 {
			p.line(first + l)
		} else {
			p.line(rest + l)
		}
	}
}

// widestName is the longest name that shares a line with its value.
const widestName = 24

func (p *printer) facts(f facts) {
	w := 0
	for _, pair := range f.pairs {
		if n := width(clean(pair[0])); n <= widestName {
			w = max(w, n)
		}
	}
	p.line("")
	rest := strings.Repeat(" ", w+2)
	for _, pair := range f.pairs {
		name := clean(pair[0])
		if width(name) > w {
			p.indented("", "", name)
			p.indented(rest, rest, pair[1])
			continue
		}
		p.indented(name+strings.Repeat(" ", w-width(name)+2), rest, pair[1])
	}
}

// table writes columns where they fit, and one paragraph per row where not.
func (p *printer) table(t table) {
	rows := make([][]string, 0, len(t.rows)+1)
	for _, r := range append([][]string{t.head}, t.rows...) {
		row := make([]string, len(r))
		for i := range r {
			row[i] = clean(r[i])
		}
		rows = append(rows, row)
	}
	if t.folded != "" {
		p.line("")
		p.line(t.folded + ":")
	}
	rows = dropEmpty(rows, t.key)
	widths := make([]int, len(rows[0]))
	total := 0
	for i := range widths {
		for _, r := range rows {
			widths[i] = max(widths[i], width(r[i]))
		}
		total += widths[i] + 2
	}
	if p.width > 0 && total-2 > p.width {
		p.stacked(rows, t.key)
		return
	}
	for k, r := range rows {
		var b strings.Builder
		for i, s := range r {
			b.WriteString(p.cell(s, widths[i], i < t.left || wordy(rows, i), k == 0))
			b.WriteString("  ")
		}
		p.line(b.String())
	}
}

// dropEmpty leaves out columns in which no row has a value, except the first ones, which name the rows.
func dropEmpty(rows [][]string, key int) [][]string {
	var keep []int
	for i := range rows[0] {
		if i < key {
			keep = append(keep, i)
			continue
		}
		for _, r := range rows[1:] {
			if r[i] != none && r[i] != "" {
				keep = append(keep, i)
				break
			}
		}
	}
	out := make([][]string, len(rows))
	for k, r := range rows {
		for _, i := range keep {
			out[k] = append(out[k], r[i])
		}
	}
	return out
}

// wordy columns hold sentences or verdicts; they stand to the left.
func wordy(rows [][]string, i int) bool {
	switch rows[0][i] {
	case "verdict", "limit", "agree":
		return true
	}
	return false
}

func (p *printer) cell(s string, w int, left, head bool) string {
	pad := strings.Repeat(" ", max(0, w-width(s)))
	code := verdictColor(s)
	if head {
		code = bold
	}
	if left {
		return p.paint(code, s) + pad
	}
	return pad + p.paint(code, s)
}

// stacked writes each row as its name and, below it, title and value pairs.
func (p *printer) stacked(rows [][]string, key int) {
	for _, r := range rows[1:] {
		p.indented("", "  ", strings.Join(r[:key], ", "))
		var pairs []string
		for i := key; i < len(r); i++ {
			pairs = append(pairs, rows[0][i]+" "+r[i])
		}
		p.indented("  ", "  ", strings.Join(pairs, "; "))
	}
}
