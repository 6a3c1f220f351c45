// Package report renders a result document for people and for other tools: text for a terminal, Markdown for a pull
// request, JSON, the plain result files of a load test, and the JSON of vllm bench. It is pure: the same document gives
// the same bytes. It computes no number that is not in the document, except ratios of medians, and draws no conclusion.
package report

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/metric"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// none stands where there is no number.
const none = "–"

// JSON is the document itself, as it is stored.
func JSON(run *result.Run) ([]byte, error) { return result.Marshal(run) }

// simulatedText is on every page of a simulated result.
const simulatedText = "SIMULATED: a model of an engine made these numbers up. They say nothing about any GPU and cannot be published as a measurement."

func banners(run *result.Run) []string {
	var out []string
	if run.Simulated {
		out = append(out, simulatedText)
	}
	if run.Synthetic != "" {
		out = append(out, "SYNTHETIC WEIGHTS: "+run.Synthetic)
	}
	return out
}

// content is the whole report.
func content(run *result.Run) []block {
	blocks := []block{headline{string(run.Verdict), name(run), run.Reason}}
	for _, b := range banners(run) {
		blocks = append(blocks, banner{b})
	}
	if len(run.Findings) > 0 {
		blocks = append(blocks, list{run.Findings})
	}
	blocks = append(blocks, facts{about(run)})
	blocks = append(blocks, capacityBlocks(run)...)
	blocks = append(blocks, results(run)...)
	blocks = append(blocks, comparisons(run)...)
	blocks = append(blocks, attributions(run)...)
	blocks = append(blocks, validity(run)...)
	blocks = append(blocks, objectives(run)...)
	blocks = append(blocks, gpuTable(run)...)
	blocks = append(blocks, trouble(run)...)
	blocks = append(blocks, reconciliation(run)...)
	return append(blocks, closing(run)...)
}

func name(run *result.Run) string {
	if run.Experiment == nil || run.Experiment.Name == "" {
		return "unnamed experiment"
	}
	return run.Experiment.Name
}

// about says what was measured, with what, where and when.
func about(run *result.Run) [][2]string {
	e := run.Experiment
	if e == nil {
		return nil
	}
	model := e.Model.Name
	if e.Model.Revision != "" {
		model += " at revision " + e.Model.Revision
	}
	out := [][2]string{}
	add := func(name, value string) {
		if value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	add("question", e.Description)
	add("model", model)
	add("engine", engineText(run))
	for _, c := range e.Configs {
		if c.Derived == nil {
			add("config "+c.Name, flags(c.Flags))
		}
	}
	add("in between", between(e))
	add("prompts", prompts(e))
	add("load", load(e.Load))
	add("starts", fmt.Sprintf("%s per config, in this order: %s", plural(e.Starts, "engine start"), order(run.Plan.Order)))
	add("machine", machine(run))
	add("engine time", cost(run))
	if !run.Started.IsZero() {
		add("measured", fmt.Sprintf("%s, %s, with benchctl %s", run.Started.UTC().Format("2006-01-02 15:04 MST"), span(run.Ended.Sub(run.Started)), orNone(run.Tool.Version)))
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

func order(ids []string) string {
	const most = 12
	if len(ids) == 0 {
		return none
	}
	if len(ids) > most {
		return strings.Join(ids[:most], ", ") + fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return strings.Join(ids, ", ")
}

func engineText(run *result.Run) string {
	e := run.Experiment.Engine
	said := map[string]bool{}
	for _, s := range run.Starts {
		if s.Version != "" && s.Version != e.Version {
			said[s.Version] = true
		}
	}
	out := strings.TrimSpace(e.Name + " " + e.Version)
	if len(said) > 0 {
		out += ", says it is " + strings.Join(sortedKeys(said), " and ")
	}
	if len(e.Flags) > 0 {
		out += ", every config with " + flags(e.Flags)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func flags(fs []engine.Flag) string {
	if len(fs) == 0 {
		return "no flags of its own"
	}
	parts := make([]string, len(fs))
	for i, f := range fs {
		if v, ok := f.Value.(float64); ok { // every number, once it was read from JSON
			f.Value = result.Bound(v, "")
		}
		parts[i] = f.String()
	}
	return strings.Join(parts, ", ")
}

func prompts(e *spec.Experiment) string {
	w := e.Workload
	unit := func(vocabulary int) string {
		if vocabulary > 0 {
			return "tokens"
		}
		return "words"
	}
	var what string
	switch {
	case w.Random != nil:
		what = fmt.Sprintf("a fresh random one per request, %d %s", w.Random.Tokens, unit(w.Random.Vocabulary))
	case w.SharedPrefix != nil:
		p := w.SharedPrefix
		what = fmt.Sprintf("%d shared and %d own %s, %s", p.Shared, p.Own, unit(p.Vocabulary), plural(p.Groups, "distinct prefix"))
	case w.File != nil:
		what = "from " + w.File.Path
	default:
		what = fmt.Sprintf("the same one for all requests, “%s”", short(w.Text, 60))
	}
	length := "at most"
	if w.Output.Exact {
		length = "exactly"
	}
	return fmt.Sprintf("%s; %s %s out; prefix cache %s", what, length, plural(w.Output.Tokens, "token"), w.Cache)
}

func load(l spec.LoadLevels) string {
	switch {
	case l.Closed != nil:
		return fmt.Sprintf("closed loop, %s requests at once, %d requests for each", join(l.Closed.Concurrency), l.Closed.Requests)
	case l.Open != nil:
		return fmt.Sprintf("open loop, %s requests per second, %s arrivals, %s each", join(l.Open.Rates), l.Open.Arrival, span(l.Open.Duration))
	case l.Capacity != nil:
		return searchText(l.Capacity)
	}
	return ""
}

// searchText says where a search looks.
func searchText(c *spec.Capacity) string {
	r := c.Range()
	text := fmt.Sprintf("searched for, to %s, between %v and %v ", result.Bound(c.Resolution, "%"), r.Min, r.Max)
	if c.Concurrency != nil {
		return text + fmt.Sprintf("requests at once; closed loop, %d requests for each measurement or %d for each place where that is more", c.Requests, spec.RequestsPerPlace)
	}
	return text + fmt.Sprintf("requests per second; open loop, %s arrivals, %s each", c.Arrival, span(c.Duration))
}

func join[T any](vs []T) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = fmt.Sprint(v)
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func machine(run *result.Run) string {
	h := run.Host
	parts := []string{}
	switch {
	case len(h.GPUs) > 0:
		for _, g := range h.GPUs {
			parts = append(parts, fmt.Sprintf("%s (driver %s)", g.Name, orNone(g.Driver)))
		}
	case h.GPUs != nil:
		parts = append(parts, "no GPU")
	}
	if h.Cores > 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s", plural(h.Cores, "core"), h.CPU)))
	}
	if h.OS != "" {
		parts = append(parts, h.OS+"/"+h.Arch)
	}
	if run.Where != "" {
		parts = append(parts, "--on "+run.Where)
	}
	return strings.Join(parts, ", ")
}

// cost is how long engines ran and for what; a start that serves several configs counts once.
func cost(run *result.Run) string {
	var total, ready, warm, window float64
	seen := map[string]bool{}
	for _, s := range run.Starts {
		id := fmt.Sprintf("%s/%d", s.ID, s.Attempt)
		if seen[id] || s.EngineS == nil {
			continue
		}
		seen[id] = true
		total += *s.EngineS
		if s.ReadyS != nil {
			ready += *s.ReadyS
		}
	}
	for _, t := range run.Trials {
		if t.Warmup != nil {
			warm += t.Warmup.Seconds
		}
		if t.Window != nil {
			window += t.Window.Seconds
		}
	}
	if total == 0 {
		return ""
	}
	text := fmt.Sprintf("%s min over %s: %s min starting, %s warming up, %s measuring, %s the rest", result.Number(total/60), plural(len(seen), "engine start"),
		result.Number(ready/60), result.Number(warm/60), result.Number(window/60), result.Number(max(0, total-ready-warm-window)/60))
	if !run.Simulated && len(run.Host.GPUs) > 0 {
		return text + " (GPU minutes)"
	}
	return text
}

// span writes a length of time in words: 3 min 20 s.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d <= 0:
		return none
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "x"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func level(p spec.Point) string { return judge.Level(p) }

// A column is one number of a cell.
type column struct {
	title string
	of    func(c *result.Cell) *result.Median
	write func(v float64) string
}

func columns() []column {
	title := func(name, suffix string) string {
		m, _ := metric.Find(name)
		return strings.TrimSpace(m.Title + " " + suffix)
	}
	return []column{
		{title("client.requests_per_second", ""), requestsPerS, result.Number},
		{title("client.output_tokens_per_second", ""), outputPerS, result.Number},
		{title("client.ttft", "p50"), func(c *result.Cell) *result.Median { return c.TTFTP50 }, result.Seconds},
		{title("client.tpot", "p50"), func(c *result.Cell) *result.Median { return c.TPOTP50 }, result.Seconds},
		{title("client.e2e", "p50"), func(c *result.Cell) *result.Median { return c.E2EP50 }, result.Seconds},
		{title("client.e2e", "p99"), func(c *result.Cell) *result.Median { return c.E2EP99 }, result.Seconds},
	}
}

// Throughput is that of the steady window where every start has one: the wall clock's holds the time in which the load
// drains.
func requestsPerS(c *result.Cell) *result.Median {
	if steady(c) {
		return c.SteadyReqPerS
	}
	return c.RequestsPerS
}

func outputPerS(c *result.Cell) *result.Median {
	if steady(c) && complete(c.SteadyOutPerS) {
		return c.SteadyOutPerS
	}
	return c.OutputPerS
}

func steady(c *result.Cell) bool { return complete(c.SteadyReqPerS) }

// complete is true when every start has a value.
func complete(m *result.Median) bool { return m != nil && !slices.Contains(m.Starts, nil) }

func titles() []string {
	var out []string
	for _, c := range columns() {
		out = append(out, c.title)
	}
	return out
}

// cells are the document's, with the configs in the order of the file.
func cells(run *result.Run) []result.Cell {
	out := slices.Clone(run.Cells)
	if run.Experiment == nil {
		return out
	}
	place := map[string]int{}
	for i, c := range run.Experiment.Configs {
		place[c.Name] = i + 1
	}
	slices.SortStableFunc(out, func(a, b result.Cell) int { return place[a.Config] - place[b.Config] })
	return out
}

// results are the medians of every cell, and every start where there are several.
func results(run *result.Run) []block {
	if len(run.Cells) == 0 {
		return nil
	}
	t := table{head: slices.Concat([]string{"config", "load"}, titles(), []string{"errors", "verdict"}), left: 2, key: 2}
	starts := table{head: slices.Concat([]string{"config", "load", "start"}, titles(), []string{"errors"}), left: 3, key: 3, folded: "Every start"}
	several := false
	for _, c := range ownCells(run) {
		row := []string{c.Config, level(c.Point)}
		for _, col := range columns() {
			row = append(row, value(col, col.of(&c)))
		}
		t.rows = append(t.rows, append(row, errorCount(run, c.Trials...), cellVerdict(run, &c)))
		several = several || c.Planned > 1
		for i, id := range c.Trials {
			starts.rows = append(starts.rows, startRow(run, &c, i, id))
		}
	}
	blocks := []block{heading{"Results"}, t}
	if notes := notes(run); len(notes) > 0 {
		blocks = append(blocks, list{notes})
	}
	if searches(run) {
		t.folded, t.head[len(t.head)-1] = "Every load that was measured", "held"
		return []block{t, list{notes(run)}}
	}
	if several {
		return append(blocks, starts)
	}
	return blocks
}

// ownCells are those of the configs that the file names, derivedCells the others.
func ownCells(run *result.Run) []result.Cell {
	return slices.DeleteFunc(cells(run), func(c result.Cell) bool { return derived(run, c.Config) })
}

func derivedCells(run *result.Run) []result.Cell {
	return slices.DeleteFunc(cells(run), func(c result.Cell) bool { return !derived(run, c.Config) })
}

func derived(run *result.Run, config string) bool {
	return run.Experiment != nil && run.Experiment.Derived(config) != nil
}

func value(col column, m *result.Median) string {
	if m == nil {
		return none
	}
	return col.write(m.Value)
}

func startRow(run *result.Run, c *result.Cell, i int, id string) []string {
	start := none
	if t := trial(run, id); t != nil {
		start = t.Start
	}
	row := []string{c.Config, level(c.Point), start}
	for _, col := range columns() {
		m := col.of(c)
		if m == nil || i >= len(m.Starts) || m.Starts[i] == nil {
			row = append(row, none)
			continue
		}
		row = append(row, col.write(*m.Starts[i]))
	}
	return append(row, errorCount(run, id))
}

func trial(run *result.Run, id string) *result.Trial {
	for i := range run.Trials {
		if run.Trials[i].ID == id {
			return &run.Trials[i]
		}
	}
	return nil
}

// errorCount is failed of all requests over some trials, as the usual load tests print it.
func errorCount(run *result.Run, ids ...string) string {
	failed, all := 0, 0
	for _, id := range ids {
		if t := trial(run, id); t != nil && t.Client != nil {
			failed += t.Client.Failed
			all += t.Client.Requests
		}
	}
	if all == 0 {
		return none
	}
	return fmt.Sprintf("%d/%d", failed, all)
}

func cellVerdict(run *result.Run, c *result.Cell) string {
	if searches(run) {
		return held(run, c)
	}
	v := string(c.Verdict)
	if v == "" {
		return none
	}
	if isBaseline(run, c.Config) {
		v += baselineMark
	}
	return v
}

// baselineMark stands behind a verdict that never fails the run.
const baselineMark = "*"

func comparisonOf(run *result.Run) *spec.Compare {
	if run.Experiment == nil {
		return nil
	}
	return run.Experiment.Compare
}

func isBaseline(run *result.Run, config string) bool {
	c := comparisonOf(run)
	return c != nil && c.Baseline == config
}

// notes explain what the table leaves open: missing starts, numbers that are not there.
func notes(run *result.Run) []string {
	var out []string
	most := 0
	noP99, noTPOT := false, false
	for _, c := range ownCells(run) {
		most = max(most, c.Planned)
		if len(c.Trials) < c.Planned {
			out = append(out, fmt.Sprintf("%s, %s: %d of %s measured", c.Config, level(c.Point), len(c.Trials), plural(c.Planned, "start")))
		}
		noP99 = noP99 || c.E2EP50 != nil && c.E2EP99 == nil
		noTPOT = noTPOT || c.E2EP50 != nil && c.TPOTP50 == nil
	}
	if noP99 {
		out = append(out, fmt.Sprintf("p99 is shown from %d successful requests of a start up", result.MinP99))
	}
	if noTPOT {
		out = append(out, "TPOT needs two output tokens and the server's usage")
	}
	out = append(out, seedStyle(run)...)
	if c := comparisonOf(run); c != nil && !searches(run) {
		out = append(out, fmt.Sprintf("%s %s is the baseline: it is shown and never fails the run", baselineMark, c.Baseline))
	}
	switch {
	case searches(run):
		out = append(out, "each number is the median of all measurements of that load")
	case most > 1:
		out = append(out, fmt.Sprintf("each number is the median of up to %s", plural(most, "start")))
	case most == 1:
		out = append(out, "one start: how much starts differ is not known")
	}
	return out
}

// seedStyle puts the wall clock's throughput beside the steady one where they differ, with the reason.
func seedStyle(run *result.Run) []string {
	var out []string
	some, all := false, true
	for _, c := range ownCells(run) {
		if len(c.Trials) == 0 {
			continue
		}
		some, all = some || steady(&c), all && steady(&c)
		if !steady(&c) || c.RequestsPerS == nil || near(c.RequestsPerS, c.SteadyReqPerS) && near(c.OutputPerS, c.SteadyOutPerS) {
			continue
		}
		text := fmt.Sprintf("%s, %s: seed-style, over the wall clock, it is %s req/s", c.Config, level(c.Point), result.Number(c.RequestsPerS.Value))
		if c.OutputPerS != nil {
			text += " and " + result.Number(c.OutputPerS.Value) + " tok/s"
		}
		if why := wave(run, &c); why != "" {
			text += "; " + why
		}
		out = append(out, text)
	}
	switch {
	case some && all:
		out = append([]string{"req/s and tok/s are of the time in which every place was busy"}, out...)
	case some:
		out = append([]string{"req/s and tok/s are of the time in which every place was busy, and over the wall clock where a start has no such time"}, out...)
	}
	return out
}

func near(a, b *result.Median) bool {
	return a == nil || b == nil || math.Abs(b.Value/a.Value-1) <= differ
}

// differ is the relative difference from which the wall clock's throughput is shown beside the steady one.
const differ = 0.05

// wave is the sentence of the first start that has one, without its numbers, which are beside it already.
func wave(run *result.Run, c *result.Cell) string {
	for _, id := range c.Trials {
		if t := trial(run, id); t != nil && t.Steady != nil && t.Steady.Wave != "" {
			text, _, _ := strings.Cut(t.Steady.Wave, "; ")
			text, _, _ = strings.Cut(text, ": over")
			return text
		}
	}
	return ""
}

// objectives are the gates, why they are not passes, and the queries behind them.
func objectives(run *result.Run) []block {
	if len(run.Gates) == 0 {
		return nil
	}
	t := table{head: []string{"objective", "config", "load", "worst start", "limit", "verdict"}, left: 3, key: 3}
	var lines []string
	for _, c := range cells(run) {
		for _, g := range run.Gates {
			if g.Config != c.Config || g.Point != c.Point {
				continue
			}
			t.rows = append(t.rows, []string{g.SLO, g.Config, level(g.Point), worst(g), limit(g.Max, g.Min, g.Unit), gateVerdict(run, g)})
			if g.Reason != "" {
				lines = append(lines, fmt.Sprintf("%s, %s, %s: %s", g.SLO, g.Config, level(g.Point), g.Reason))
			}
		}
	}
	for _, g := range run.Gates {
		if g.Interval != nil {
			lines = append(lines, "in brackets: where the value of endlessly many requests to that start would lie, right 19 times in 20; the verdict is by the value itself")
			break
		}
	}
	if run.Experiment != nil {
		for _, s := range run.Experiment.SLO {
			lines = append(lines, s.Name+" is "+s.Query)
		}
	}
	if searches(run) {
		t.folded = "Every objective at every load"
		lines = lines[len(lines)-len(run.Experiment.SLO):] // the queries; why each load fails is in the table
	}
	return []block{heading{"Objectives"}, t, list{lines}}
}

func worst(g result.Gate) string {
	switch {
	case g.Infinite:
		return "∞"
	case g.Worst == nil:
		return none
	}
	text := result.Quantity(*g.Worst, g.Unit)
	if iv := g.Interval; iv != nil {
		text += fmt.Sprintf(" (%s to %s)", result.Quantity(iv.Low, g.Unit), result.Quantity(iv.High, g.Unit))
	}
	return text
}

func limit(most, least *float64, unit string) string {
	switch {
	case most != nil:
		return "at most " + result.Bound(*most, unit)
	case least != nil:
		return "at least " + result.Bound(*least, unit)
	}
	return none
}

func gateVerdict(run *result.Run, g result.Gate) string {
	v := string(g.Verdict)
	switch {
	case g.Gate:
		return v
	case searches(run) && gates(run, g.SLO):
		return v // it decides what holds, and fails nothing
	case isBaseline(run, g.Config):
		return v + baselineMark
	}
	return v + " (no gate)"
}

// gates is true for an objective that the file gates on.
func gates(run *result.Run, objective string) bool {
	return slices.ContainsFunc(run.Experiment.SLO, func(s spec.SLO) bool { return s.Name == objective && s.Gate })
}
