// Package compare sets two runs side by side: what makes them incomparable, by name, and where they are comparable the
// ratio of each number with an interval from engine starts. The runs have no starts in common, so nothing cancels: two
// configs in one run, whose starts are interleaved, are told apart far more finely. It measures nothing and gates nothing.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/stats"
)

// ErrAcross is returned for a key to compare across that there is not.
var ErrAcross = errors.New("no such key")

// Options say what may differ.
type Options struct {
	// Across are keys that differ on purpose: the comparison is then one of them. See Keys for the names.
	Across []string
	// Common compares the load points and configs that both runs have, where not all are the same.
	Common bool
}

// A Difference is one key in which two runs differ.
type Difference struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

// Refused says why two runs cannot be compared. Every key that differs is in it.
type Refused struct{ Differs []Difference }

func (r *Refused) Error() string {
	var b strings.Builder
	b.WriteString("the runs are not comparable: a difference of their numbers could come from")
	for _, d := range r.Differs {
		fmt.Fprintf(&b, "\n  %s: %s in A, %s in B", d.Key, d.A, d.B)
	}
	return b.String()
}

// Side is one of the two runs.
type Side struct {
	Experiment string `json:"experiment"`
	RunKey     string `json:"run_key"`
	Started    string `json:"started"` // RFC 3339
	Simulated  bool   `json:"simulated"`
	Synthetic  string `json:"synthetic,omitempty"`
}

// Comparison is what two runs say together.
type Comparison struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Across are the keys that differ and were allowed to: what the comparison is about.
	Across []Difference `json:"across,omitempty"`
	// Treatment are flags and environment of each config that differ: what the comparison is about too.
	Treatment []Difference `json:"treatment,omitempty"`
	// LeftOut are configs and load points that only one of the runs has.
	LeftOut       []Difference `json:"left_out,omitempty"`
	MinimumEffect float64      `json:"minimum_effect"` // ratio; the larger one of both runs, 0.03 where neither says
	Level         float64      `json:"level"`          // of the intervals, 0..1
	Rows          []Row        `json:"rows"`
	Notes         []string     `json:"notes,omitempty"`
}

// Row is one number of one config at one load point. Absent is null.
type Row struct {
	Config  string     `json:"config"`
	Point   spec.Point `json:"load"`
	Metric  string     `json:"metric"` // the name in the cells of run.json
	Title   string     `json:"title"`
	Unit    string     `json:"unit"` // "1/s", "s"
	A       *float64   `json:"a"`    // median over the starts; null when that side cannot be believed, or has no value
	B       *float64   `json:"b"`
	StartsA int        `json:"starts_a"` // with a value
	StartsB int        `json:"starts_b"`
	// Ratio is B ÷ A of geometric means over starts, Low..High its interval; null where nothing is known.
	Ratio *float64 `json:"ratio"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	// P is the two-sided p-value of "no change", corrected for the number of rows (Holm); null without an interval.
	P    *float64     `json:"adjusted_p"`
	Word stats.Change `json:"word,omitempty"` // "" = nothing can be said
	Why  string       `json:"why,omitempty"`  // why there is no number or no word
}

// Conclusive reports whether anything can be said: at least one row has a word.
func (c *Comparison) Conclusive() bool {
	return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Word != "" })
}

// defaultEffect is the minimum effect where no run names one.
const defaultEffect = 0.03

// Runs compares run b with run a, the baseline. The error is *Refused when they differ in a key that is not allowed to,
// or ErrAcross. Both runs are left alone; Experiment must be set in both.
func Runs(a, b *result.Run, o Options) (*Comparison, error) {
	for _, k := range o.Across {
		if !slices.ContainsFunc(keys(), func(x key) bool { return x.name == k }) {
			return nil, fmt.Errorf("%w: %q; there are %s", ErrAcross, k, strings.Join(Keys(), ", "))
		}
	}
	c := &Comparison{A: side(a), B: side(b), Level: stats.DefaultLevel, MinimumEffect: max(effect(a), effect(b))}
	if c.MinimumEffect == 0 {
		c.MinimumEffect = defaultEffect
	}
	var refused []Difference
	for _, k := range keys() {
		x, y := k.of(a), k.of(b)
		if x == y {
			continue
		}
		d := Difference{k.name, orNone(x), orNone(y)}
		if slices.Contains(o.Across, k.name) {
			c.Across = append(c.Across, d)
		} else {
			refused = append(refused, d)
		}
	}
	refused = append(refused, c.sets(a, b, o.Common)...)
	if len(refused) > 0 {
		return nil, &Refused{refused}
	}
	c.Treatment = treatment(a, b)
	c.rows(a, b)
	c.correct()
	c.Notes = notes(a, b)
	return c, nil
}

func side(r *result.Run) Side {
	return Side{Experiment: r.Experiment.Name, RunKey: r.RunKey, Started: r.Started.UTC().Format("2006-01-02T15:04:05Z"), Simulated: r.Simulated, Synthetic: r.Synthetic}
}

func effect(r *result.Run) float64 {
	if r.Experiment.Compare == nil {
		return 0
	}
	return r.Experiment.Compare.MinimumEffect
}

// sets compares which configs and load points there are. Without common every one must be in both; with it one suffices.
func (c *Comparison) sets(a, b *result.Run, common bool) []Difference {
	var refused []Difference
	for _, s := range []struct {
		key string
		of  func(*result.Run) []string
	}{{"configs", configNames}, {"load.points", pointNames}} {
		x, y := s.of(a), s.of(b)
		d := Difference{s.key, list(x), list(y)}
		both := slices.DeleteFunc(slices.Clone(x), func(n string) bool { return !slices.Contains(y, n) })
		switch {
		case len(both) == len(x) && len(both) == len(y):
		case common && len(both) > 0:
			c.LeftOut = append(c.LeftOut, Difference{s.key, list(without(x, both)), list(without(y, both))})
		default:
			refused = append(refused, d)
		}
	}
	return refused
}

func configNames(r *result.Run) []string {
	var out []string
	for _, c := range r.Experiment.Configs {
		out = append(out, c.Name)
	}
	return out
}

func pointNames(r *result.Run) []string {
	var out []string
	for _, p := range r.Experiment.Points() {
		out = append(out, p.String())
	}
	return out
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

func list(names []string) string { return orNone(strings.Join(names, ", ")) }

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// number is one of those that are compared.
type number struct {
	metric, title, unit string
	better              stats.Direction
	of                  func(*result.Cell) *result.Median
}

// numbers are throughput in the steady window and the latencies. Where one of the sides has no steady window in some start
// (an open loop has none), the wall clock's throughput stands in for both.
func numbers(a, b *result.Cell) []number {
	req := number{"steady_requests_per_second", "req/s", "1/s", stats.Higher, func(c *result.Cell) *result.Median { return c.SteadyReqPerS }}
	out := number{"steady_output_tokens_per_second", "tok/s", "1/s", stats.Higher, func(c *result.Cell) *result.Median { return c.SteadyOutPerS }}
	if !complete(req.of(a)) || !complete(req.of(b)) {
		req = number{"requests_per_second", "req/s (wall)", "1/s", stats.Higher, func(c *result.Cell) *result.Median { return c.RequestsPerS }}
	}
	if !complete(out.of(a)) || !complete(out.of(b)) {
		out = number{"output_tokens_per_second", "tok/s (wall)", "1/s", stats.Higher, func(c *result.Cell) *result.Median { return c.OutputPerS }}
	}
	return []number{req, out,
		{"ttft_p50", "TTFT p50", "s", stats.Lower, func(c *result.Cell) *result.Median { return c.TTFTP50 }},
		{"tpot_p50", "TPOT p50", "s", stats.Lower, func(c *result.Cell) *result.Median { return c.TPOTP50 }},
		{"e2e_p50", "E2E p50", "s", stats.Lower, func(c *result.Cell) *result.Median { return c.E2EP50 }},
		{"e2e_p99", "E2E p99", "s", stats.Lower, func(c *result.Cell) *result.Median { return c.E2EP99 }},
	}
}

func complete(m *result.Median) bool { return m != nil && !slices.Contains(m.Starts, nil) }

func (c *Comparison) rows(a, b *result.Run) {
	for i := range a.Cells {
		x := &a.Cells[i]
		y := cellOf(b, x.Config, x.Point)
		if y == nil {
			continue
		}
		why := orElse(doubt("A", a, x), doubt("B", b, y))
		for _, n := range numbers(x, y) {
			c.row(n, x, y, why)
		}
	}
}

func cellOf(r *result.Run, config string, p spec.Point) *result.Cell {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Config == config && c.Point == p {
			return c
		}
	}
	return nil
}

// doubt is why a cell of a run cannot be believed, with the trial; "" = it can.
func doubt(name string, r *result.Run, c *result.Cell) string {
	n := 0
	for i := range r.Trials {
		t := &r.Trials[i]
		if t.Config != c.Config || t.Point != c.Point {
			continue
		}
		n++
		if why := judge.Doubt(t); why != "" {
			return fmt.Sprintf("%s: %s: %s", name, t.ID, why)
		}
	}
	if n == 0 {
		return name + ": no trial"
	}
	for _, k := range r.Checks {
		if k.Invalid() {
			return fmt.Sprintf("%s: %s (%s)", name, k.Title, k.Measured)
		}
	}
	return ""
}

// row adds one number. Of a side that cannot be believed none is shown. A number that neither side has is left out: p99 of
// few requests, for one.
func (c *Comparison) row(n number, a, b *result.Cell, doubt string) {
	x, y := n.of(a), n.of(b)
	if x == nil && y == nil {
		return
	}
	r := Row{Config: a.Config, Point: a.Point, Metric: n.metric, Title: n.title, Unit: n.unit, Why: doubt}
	xs, ys := values(x), values(y)
	r.StartsA, r.StartsB = len(xs), len(ys)
	if doubt == "" {
		r.A, r.B = median(x), median(y)
		r.fill(xs, ys, n, c)
	}
	c.Rows = append(c.Rows, r)
}

func (r *Row) fill(xs, ys []float64, n number, c *Comparison) {
	iv, err := stats.Ratio(xs, ys, c.Level)
	if err != nil && !errors.Is(err, stats.ErrFew) && !errors.Is(err, stats.ErrNoSpread) {
		r.Why = "no ratio: " + err.Error()
		return
	}
	r.Ratio = &iv.Estimate
	if few := min(len(xs), len(ys)); few < stats.MinStarts {
		r.Why = fmt.Sprintf("%d and %d starts: a claim needs %d on each side", len(xs), len(ys), stats.MinStarts)
	}
	if err != nil {
		r.Why = orElse(r.Why, "the starts do not vary at all, so how much they do is not known")
		return
	}
	p, err := stats.RatioP(xs, ys)
	if err != nil || math.IsInf(iv.High, 0) || math.IsNaN(iv.High) {
		r.Why = orElse(r.Why, "the interval has no end")
		return
	}
	r.Low, r.High, r.P = &iv.Low, &iv.High, &p
	if r.Why == "" {
		r.Word = stats.Word(iv, c.MinimumEffect, n.better)
	}
}

// correct takes back words that the number of rows with a claim explains: of twenty intervals at 95 % one is wrong.
func (c *Comparison) correct() {
	var ps []float64
	var at []int
	for i, r := range c.Rows {
		switch {
		case r.Word != "":
			ps, at = append(ps, *r.P), append(at, i)
		default:
			c.Rows[i].P = nil
		}
	}
	decisions, err := stats.Holm(ps, 1-c.Level)
	if err != nil { // p-values of RatioP lie in 0..1
		return
	}
	for k, d := range decisions {
		r := &c.Rows[at[k]]
		r.P = &d.Adjusted
		if r.Word != stats.NoClearChange && !d.Reject {
			r.Word = stats.NoClearChange
			r.Why = fmt.Sprintf("clear by itself, and not among %d comparisons", len(ps))
		}
	}
}

func values(m *result.Median) []float64 {
	var out []float64
	if m != nil {
		for _, v := range m.Starts {
			if v != nil {
				out = append(out, *v)
			}
		}
	}
	return out
}

func median(m *result.Median) *float64 {
	if m == nil {
		return nil
	}
	v := m.Value
	return &v
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
