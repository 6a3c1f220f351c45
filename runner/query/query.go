// Package query checks MetricsQL and narrows it to one trial, through its syntax tree. It only reads queries; evaluating
// them is VictoriaMetrics' job.
package query

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metricsql"
)

// Window is the word in a query that stands for the trial's window, as in rate(x[$window]).
const Window = "$window"

// Pinned are the labels that the runner sets on every sample. A query may not set them itself.
var Pinned = []string{"run", "experiment", "config", "cell", "trial", "start"}

// Label is one label that a query is narrowed to.
type Label struct{ Name, Value string }

// Problem is one reason why a query cannot be an objective. Offset is in bytes into the query, 0 when the place is not
// known.
type Problem struct {
	Offset  int
	Message string
	Hint    string
}

func (p Problem) Error() string { return p.Message }

// Check returns every reason why expr cannot be used as an objective; none means it can.
func Check(expr string) []Problem {
	if strings.TrimSpace(expr) == "" {
		return []Problem{{Message: "the query is empty", Hint: `for example "share_gt_over_time(bench_request_latency_seconds[$window], 2)"`}}
	}
	if len(expr) > maxLength {
		return []Problem{{Message: fmt.Sprintf("the query is %d bytes long, and VictoriaMetrics takes at most %d", len(expr), maxLength)}}
	}
	if p := otherVariables(expr); p != nil {
		return p
	}
	e, err := parse(expr, time.Minute)
	if err != nil {
		return []Problem{parseProblem(expr, err)}
	}
	// What is sent is written from the tree, which some names do not survive: such as one that is not UTF-8.
	if _, err := metricsql.Parse(string(e.AppendString(nil))); err != nil {
		return []Problem{{Message: "the query has a name that cannot be written", Hint: "names are UTF-8; a value with other bytes belongs into quotes"}}
	}
	var out []Problem
	out = append(out, selectorProblems(expr, e)...)
	return append(out, shapeProblems(expr, e)...)
}

// maxLength leaves room for the labels below VictoriaMetrics' default -search.maxQueryLen of 16 KiB.
const maxLength = 12 << 10

var variable = regexp.MustCompile(`\$[A-Za-z_{][A-Za-z0-9_]*`)

// otherVariables finds $words that the parser would drop without a word, such as Grafana's.
func otherVariables(expr string) []Problem {
	var out []Problem
	for _, at := range variable.FindAllStringIndex(code(expr), -1) {
		if word := expr[at[0]:at[1]]; word != Window {
			out = append(out, Problem{at[0], fmt.Sprintf("unknown variable %s", word), "the one variable is $window, the trial's window"})
		}
	}
	return out
}

// parse puts a window in place of $window and parses.
func parse(expr string, window time.Duration) (metricsql.Expr, error) {
	return metricsql.Parse(withWindow(expr, fmt.Sprintf("%dms", window.Milliseconds())))
}

// withWindow replaces $window where it is code; in a quoted string it is text.
func withWindow(expr, window string) string {
	var b strings.Builder
	masked := code(expr)
	for {
		i := strings.Index(masked, Window)
		if i < 0 {
			b.WriteString(expr)
			return b.String()
		}
		b.WriteString(expr[:i])
		b.WriteString(window)
		expr, masked = expr[i+len(Window):], masked[i+len(Window):]
	}
}

// code is expr with the insides of strings and comments blanked, byte for byte, so that a search in it finds only code
// and its offsets are those of expr.
func code(expr string) string {
	b := []byte(expr)
	for i := 0; i < len(b); i++ {
		switch q := b[i]; q {
		case '"', '\'', '`':
			for i++; i < len(b) && b[i] != q; i++ {
				if b[i] == '\\' && q != '`' && i+1 < len(b) {
					b[i] = ' '
					i++
				}
				b[i] = ' '
			}
		case '#':
			for ; i < len(b) && b[i] != '\n'; i++ {
				b[i] = ' '
			}
		}
	}
	return string(b)
}

// sixtySeconds stands for $window while a query is checked. It is as long as the word, so that places stay.
const sixtySeconds = "60000ms"

var unparsed = regexp.MustCompile(`unparsed data(?: left)?: "((?:[^"\\]|\\.)*)"`)

// parseProblem turns the parser's message into a place and a sentence. The parser says what it had not read yet.
func parseProblem(expr string, err error) Problem {
	msg := err.Error()
	p := Problem{Message: "not MetricsQL: " + firstClause(msg), Hint: "docs.victoriametrics.com/metricsql describes the language"}
	if m := unparsed.FindStringSubmatch(msg); m != nil {
		rest := strings.ReplaceAll(m[1], `\"`, `"`)
		if i := strings.LastIndex(withWindow(expr, sixtySeconds), rest); rest != "" && i >= 0 {
			p.Offset = min(i, len(expr)-1)
			p.Message += fmt.Sprintf(", at %q", short(strings.ReplaceAll(rest, sixtySeconds, Window)))
		}
	}
	return p
}

func firstClause(msg string) string {
	if strings.HasPrefix(msg, "unparsed data left") {
		return "the query goes on after its end"
	}
	if i := strings.Index(msg, "; unparsed data"); i >= 0 {
		msg = msg[:i]
	}
	return strings.ReplaceAll(msg, sixtySeconds, Window)
}

func short(s string) string {
	if len(s) > 30 {
		return strings.ToValidUTF8(s[:30], "") + "..."
	}
	return s
}

func selectorProblems(expr string, e metricsql.Expr) []Problem {
	sel := selectors(e)
	if len(sel) == 0 {
		return []Problem{{Message: "the query selects no series, so it would be the same for every trial", Hint: "name a series, such as bench_request_latency_seconds or vllm:generation_tokens_total"}}
	}
	var out []Problem
	seen := map[string]bool{}
	for _, m := range sel {
		for _, group := range m.LabelFilterss {
			for _, f := range group {
				if !pinned(f.Label) || seen[f.Label] {
					continue
				}
				seen[f.Label] = true
				hint := "leave it out: the query is narrowed to its trial by itself"
				if f.Label == graphite {
					hint = "Graphite selectors cannot be narrowed to a trial"
				}
				out = append(out, Problem{filterAt(expr, f.Label), fmt.Sprintf("the label %q is set by the runner", f.Label), hint})
			}
		}
	}
	return out
}

// filterAt is where a selector filters by the label, which may be a part of other words too.
func filterAt(expr, label string) int {
	at := regexp.MustCompile(`(?:^|[^A-Za-z0-9_:.])(` + regexp.QuoteMeta(label) + `)\s*[=!]`).FindStringSubmatchIndex(code(expr))
	if at == nil { // written with escapes, say
		return 0
	}
	return at[2]
}

const graphite = "__graphite__"

func pinned(label string) bool {
	if label == graphite {
		return true
	}
	for _, p := range Pinned {
		if label == p {
			return true
		}
	}
	return false
}

// shapeProblems refuses expressions whose value is not one number per trial.
func shapeProblems(expr string, e metricsql.Expr) []Problem {
	switch x := e.(type) {
	case *metricsql.StringExpr:
		return []Problem{{Message: "the query is a string, not a number"}}
	case *metricsql.BinaryOpExpr:
		if metricsql.IsBinaryOpCmp(x.Op) {
			why := "it would be empty both when it fails and when there is no data"
			if x.Bool {
				why = "its value would be 0 or 1, and the report could not say by how much it fails"
			}
			return []Problem{{comparisonAt(expr, x.Op), fmt.Sprintf("the query compares (%s): %s", x.Op, why),
				"give the left side alone, and the bound as max: or min:"}}
		}
	case *metricsql.RollupExpr:
		if x.Window != nil {
			return []Problem{{Message: "the query is a range of samples, not a number", Hint: "wrap it, for example in quantile_over_time(0.99, ...) or increase(...)"}}
		}
	}
	if metricsql.IsLikelyInvalid(e) {
		return []Problem{{Message: "the query hides a subquery: a range function is applied to something that is not a series", Hint: "apply rate, increase and the like to the series first, then aggregate: sum(rate(x[$window]))"}}
	}
	if !strings.Contains(code(expr), Window) {
		return []Problem{{Message: "the query does not use $window, so it would look at other samples than the trial's", Hint: "for example quantile_over_time(0.99, bench_request_ttft_seconds[$window])"}}
	}
	return nil
}

// comparisonAt is where the operator stands outside all brackets, or 0 when it is inside some: WITH, or brackets around
// everything.
func comparisonAt(expr, op string) int {
	depth := 0
	masked := code(expr)
	for i := range len(masked) {
		switch masked[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 && strings.HasPrefix(masked[i:], op) {
			return i
		}
	}
	return 0
}

// selectors lists the series selectors of e, each once: a WITH template makes one node appear in several places.
func selectors(e metricsql.Expr) []*metricsql.MetricExpr {
	seen := map[*metricsql.MetricExpr]bool{}
	var out []*metricsql.MetricExpr
	metricsql.VisitAll(e, func(x metricsql.Expr) {
		if m, ok := x.(*metricsql.MetricExpr); ok && !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	})
	return out
}

// Scope puts the window in place of $window and adds the labels to every selector, in each of its or-groups. The
// result is what is sent to VictoriaMetrics and shown in reports. It fails where Check finds a problem.
func Scope(expr string, window time.Duration, labels []Label) (string, error) {
	if p := Check(expr); len(p) > 0 {
		return "", fmt.Errorf("query %q: %w", expr, p[0])
	}
	if window < time.Millisecond {
		return "", fmt.Errorf("query %q: a window of %v is shorter than a millisecond", expr, window)
	}
	e, err := parse(expr, window)
	if err != nil {
		return "", fmt.Errorf("query %q: %w", expr, err)
	}
	for _, m := range selectors(e) {
		narrow(m, labels)
	}
	return string(e.AppendString(nil)), nil
}

// Select narrows a plain selector, as the runner's own queries need it: name{labels}.
func Select(name string, labels []Label) string {
	m := &metricsql.MetricExpr{LabelFilterss: [][]metricsql.LabelFilter{{{Label: "__name__", Value: name}}}}
	narrow(m, labels)
	return string(m.AppendString(nil))
}

func narrow(m *metricsql.MetricExpr, labels []Label) {
	if len(m.LabelFilterss) == 0 { // `{}`
		m.LabelFilterss = [][]metricsql.LabelFilter{nil}
	}
	for i, group := range m.LabelFilterss {
		// A fresh array: groups of a parsed expression may share theirs.
		wide := append(make([]metricsql.LabelFilter, 0, len(group)+len(labels)), group...)
		for _, l := range labels {
			wide = append(wide, metricsql.LabelFilter{Label: l.Name, Value: l.Value})
		}
		m.LabelFilterss[i] = wide
	}
}

// Series lists the metric names that expr selects, sorted; "" stands for a selector without a plain name. An expr that
// does not parse has none.
func Series(expr string) []string {
	e, err := parse(expr, time.Minute)
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for _, m := range selectors(e) {
		name := ""
		for _, group := range m.LabelFilterss {
			for _, f := range group {
				if f.Label == "__name__" && !f.IsRegexp && !f.IsNegative {
					name = f.Value
				}
			}
		}
		seen[name] = true
	}
	var out []string
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Leftward moves a quantile so little that it matters only to a rank that is a whole number: below it, instead of on it.
const Leftward = 1 - 0x1p-40

// LeftOfQuantiles rewrites expr so that each of its sample quantiles of constant order is taken a hair to the left: by
// less than 1e-6 of the distance between two neighbours for up to a million samples. ok is false when it has none, or
// does not parse.
//
// VictoriaMetrics interpolates between two neighbours also when the rank is that of the left one, and then multiplies
// the right one by 0. If that is a failed request's +Inf the answer is NaN, although the quantile is the left one. A
// single sample of +Inf stays NaN: it has no neighbour.
func LeftOfQuantiles(expr string) (left string, ok bool) {
	e, err := metricsql.Parse(expr)
	if err != nil {
		return "", false
	}
	seen := map[metricsql.Expr]bool{}
	metricsql.VisitAll(e, func(x metricsql.Expr) {
		if seen[x] {
			return
		}
		seen[x] = true
		switch f := x.(type) {
		case *metricsql.FuncExpr:
			ok = moveLeft(&f.Name, &f.Args) || ok
		case *metricsql.AggrFuncExpr:
			ok = moveLeft(&f.Name, &f.Args) || ok
		}
	})
	return string(e.AppendString(nil)), ok
}

func moveLeft(name *string, args *[]metricsql.Expr) bool {
	switch strings.ToLower(*name) {
	case "median_over_time", "median":
		*name = map[string]string{"median": "quantile", "median_over_time": "quantile_over_time"}[strings.ToLower(*name)]
		*args = append([]metricsql.Expr{&metricsql.NumberExpr{N: 0.5 * Leftward}}, *args...)
		return true
	case "quantile_over_time", "quantile":
		if len(*args) == 0 {
			return false
		}
		n, constant := (*args)[0].(*metricsql.NumberExpr)
		if !constant {
			return false
		}
		(*args)[0] = &metricsql.NumberExpr{N: n.N * Leftward}
		return true
	}
	return false
}
