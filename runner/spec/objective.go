package spec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"h100-inference-control-plane/runner/query"
)

func (r *reader) objectives(in []fileSLO) []SLO {
	var out []SLO
	seen := map[string]bool{}
	for i, f := range in {
		path := fmt.Sprintf("slo[%d]", i)
		if f.Name != "" && seen[f.Name] {
			r.on(path+".name", fmt.Sprintf("%s.name: there is another objective named %s", path, excerpt(f.Name)), "")
		}
		seen[f.Name] = true
		out = append(out, r.objective(f, path))
	}
	return out
}

func (r *reader) objective(f fileSLO, path string) SLO {
	s := SLO{Name: f.Name, Query: strings.TrimSpace(f.Query), Gate: or(f.Gate, true)}
	_, hasMax := r.nodes[path+".max"]
	_, hasMin := r.nodes[path+".min"]
	switch {
	case hasMax && hasMin:
		r.on(path+".min", path+" has both max and min", "write two objectives, one for each")
	case !hasMax && !hasMin && !r.faulty(path):
		r.on(path, path+" has neither max nor min", "for example max: 500ms")
	}
	if n, ok := r.nodes[path+".query"]; ok && f.Query != "" && !r.faulty(path+".query") {
		for _, p := range query.Check(f.Query) {
			at := r.inText(n, p.Offset)
			r.add(Fault{Line: at.Line, Column: at.Column, Message: path + ".query: " + p.Message, Text: excerpt(f.Query), Hint: p.Hint})
		}
	}
	if f.Max != nil {
		s.Max, s.Unit = f.Max.value, f.Max.unit
		r.unit(s.Query, *f.Max, path+".max")
	}
	if f.Min != nil {
		v := f.Min.value
		s.Min, s.Unit = &v, f.Min.unit
		r.unit(s.Query, *f.Min, path+".min")
	}
	return s
}

var (
	ofSamples = regexp.MustCompile(`^(quantile_over_time|avg_over_time|max_over_time|min_over_time|median_over_time|histogram_quantile)\s*\(`)
	ofShare   = regexp.MustCompile(`^(share_gt_over_time|share_le_over_time|share_eq_over_time)\s*\(`)
)

// maxPlainSeconds is the longest latency bound that is believed without a unit.
const maxPlainSeconds = 120

// unit compares a bound with what the query's value is, where that is plain to see: a statistic of seconds, or a share.
func (r *reader) unit(q string, b bound, path string) {
	switch {
	case ofSamples.MatchString(q) && allSeconds(q):
		if b.unit == "%" {
			r.on(path, path+": a percentage, but the query's value is in seconds", "for example 500ms; for the share of slow requests use share_gt_over_time(...)")
		}
		if b.unit == "" && b.value > maxPlainSeconds {
			r.on(path, fmt.Sprintf("%s: without a unit, %v means %v seconds", path, b.value, b.value), fmt.Sprintf("write %vms if that is what you mean, or %vs", b.value, b.value))
		}
	case ofShare.MatchString(q):
		if b.unit == "s" {
			r.on(path, path+": a duration, but the query's value is a share between 0 and 1", "for example 1% or 0.01; the duration goes into the query, in seconds")
		}
		if b.unit != "s" && b.value > 1 {
			hint := "a share is between 0 and 1, such as 0.01 or 1%"
			if b.unit == "" && b.value <= 100 {
				hint = fmt.Sprintf("write %v%% if that is what you mean", b.value)
			}
			r.on(path, fmt.Sprintf("%s: the query's value is a share, and never above 1", path), hint)
		}
	}
}

func allSeconds(q string) bool {
	names := query.Series(q)
	for _, n := range names {
		if !strings.HasSuffix(strings.TrimSuffix(n, "_bucket"), "_seconds") {
			return false
		}
	}
	return len(names) > 0
}

// inText is the place of a byte of a text value, as far as its style shows it: on one line plain or in quotes, and in
// a block of its own.
func (r *reader) inText(n ast.Node, offset int) Position {
	start := r.place(n)
	text := ""
	switch x := n.(type) {
	case *ast.StringNode:
		text = x.Value
	case *ast.LiteralNode:
		text = x.Value.Value
	}
	if offset <= 0 || offset > len(text) {
		return start
	}
	before := text[:offset]
	if _, isBlock := n.(*ast.LiteralNode); isBlock {
		return r.inBlock(start, text, before)
	}
	if start.Line > len(r.lines) {
		return start
	}
	line := []rune(r.lines[start.Line-1])
	if start.Column > len(line) {
		return start
	}
	written := line[start.Column-1:]
	return Position{start.Line, start.Column + written1(string(written), utf8.RuneCountInString(before))}
}

// written1 is how many characters of the source stand for the first n of the value.
func written1(source string, n int) int {
	quote := rune(0)
	src := []rune(source)
	if len(src) > 0 && (src[0] == '"' || src[0] == '\'') {
		quote = src[0]
	}
	if quote == 0 {
		return min(n, len(src))
	}
	i := 1
	for ; n > 0 && i < len(src); n-- {
		switch {
		case quote == '\'' && src[i] == '\'':
			i += 2
		case quote == '"' && src[i] == '\\' && i+1 < len(src):
			i += map[rune]int{'x': 4, 'u': 6, 'U': 10}[src[i+1]]
			if !strings.ContainsRune("xuU", src[i+1]) {
				i += 2
			}
		default:
			i++
		}
	}
	return min(i, len(src))
}

// inBlock finds a place in a | block: its lines are the file's, indented. A folded one (>) has lost its lines; there
// the place is that of the block.
func (r *reader) inBlock(start Position, text, before string) Position {
	down := strings.Count(before, "\n")
	at := start.Line + down // lines count from 1, and the block begins on the next
	want := strings.Split(text, "\n")[down]
	if at >= len(r.lines) || strings.TrimLeft(r.lines[at], " ") != strings.TrimLeft(want, " ") {
		return start
	}
	indent := len(r.lines[at]) - len(want)
	if indent < 0 {
		return start
	}
	column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])
	return Position{at + 1, indent + column + 1}
}
