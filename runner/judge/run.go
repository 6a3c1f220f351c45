package judge

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// ExitCode is the exit code of a program that ends with a verdict: 0 PASS, 1 FAIL, 3 INCONCLUSIVE or SUPERSEDED, 4 ERROR
// and anything unknown. (2 is bad usage, 130 an interrupt.)
func ExitCode(v result.Verdict) int {
	switch v {
	case result.Pass:
		return 0
	case result.Fail:
		return 1
	case result.Inconclusive, result.Superseded:
		return 3
	}
	return 4
}

// Trial is the verdict of one trial; see Explain.
func Trial(t *result.Trial) result.Verdict {
	v, _ := Explain(t)
	return v
}

// Explain judges one trial and says why it is not a pass. In this order:
//
//   - ERROR: it was not measured;
//   - INCONCLUSIVE: its numbers cannot be believed, whatever they are (every request failed, or a check failed that
//     invalidates them; of a trial without checks: the engine restarted inside the window, client and server disagree);
//   - FAIL: a gating objective is not met;
//   - INCONCLUSIVE: more than 1 % errors, or a gating objective has no data;
//   - PASS.
//
// It knows no baseline: whether a trial's failure fails the run is decided by Run.
func Explain(t *result.Trial) (result.Verdict, string) {
	if t.Outcome != result.Measured || t.Client == nil {
		return result.Error, orElse(t.Error, "not measured")
	}
	if why := void(t); why != "" {
		return result.Inconclusive, why
	}
	if j := firstOf(t, result.Fail); j != nil {
		return result.Fail, j.Name + ": " + j.Reason
	}
	if why := tooManyErrors(t.Client); why != "" {
		return result.Inconclusive, why
	}
	if j := firstOf(t, result.Inconclusive); j != nil {
		return result.Inconclusive, j.Name + ": " + j.Reason
	}
	return result.Pass, ""
}

func firstOf(t *result.Trial, v result.Verdict) *result.Judgement {
	for i := range t.SLO {
		if t.SLO[i].Gate && t.SLO[i].Verdict == v {
			return &t.SLO[i]
		}
	}
	return nil
}

// void says why a measured trial's numbers cannot be believed, or "".
func void(t *result.Trial) string {
	c := t.Client
	switch {
	case c.Requests == 0:
		return "no request was sent"
	case c.Succeeded == 0:
		return fmt.Sprintf("all %d requests failed%s", c.Requests, detail(c))
	case len(t.Checks) > 0:
		return failedCheck(t.Checks)
	case t.Server != nil && t.Server.Restarted != nil && *t.Server.Restarted:
		return "the engine restarted inside the window"
	}
	for _, a := range t.Agree {
		if a.Agrees != nil && !*a.Agrees {
			return "client and server disagree on " + sides(a)
		}
	}
	return ""
}

// errorsCheck is the one check that has a place of its own in Explain: an objective about errors must be able to fail.
const errorsCheck = "errors"

// failedCheck is the first failed check that invalidates, as a sentence; "" = there is none.
func failedCheck(checks []result.Check) string {
	for _, c := range checks {
		if c.Invalid() && c.Name != errorsCheck {
			return c.Title + " (" + c.Measured + ")"
		}
	}
	return ""
}

func sides(a result.Agreement) string {
	return fmt.Sprintf("%s: %s and %s (%s)", a.What, a.Side(a.Client), a.Side(a.Server), a.Limit)
}

func tooManyErrors(c *result.Client) string {
	if float64(c.Failed) <= MaxErrorShare*float64(c.Requests) {
		return ""
	}
	return fmt.Sprintf("errors: %d of %d requests failed%s", c.Failed, c.Requests, detail(c))
}

// detail is the most frequent class of error with the server's first message.
func detail(c *result.Client) string {
	classes := make([]string, 0, len(c.Errors))
	for k := range c.Errors {
		classes = append(classes, k)
	}
	sort.Slice(classes, func(a, b int) bool {
		if x, y := c.Errors[classes[a]], c.Errors[classes[b]]; x != y {
			return x > y
		}
		return classes[a] < classes[b]
	})
	var parts []string
	if len(classes) > 0 {
		parts = append(parts, classes[0])
	}
	if c.ErrorDetail != "" {
		parts = append(parts, c.ErrorDetail)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Run judges a run whose Experiment, Trials and Cells are filled: it sets the verdict and reason of every trial, the
// verdict of every cell, Gates, Comparisons, Attributions, Findings, and the run's Verdict and Reason. Judging twice is judging once.
//
// A gate is one objective of one cell. Gates apply to every config but the comparison's baseline, which is shown and
// never fails a run, not to the configs that attribution adds, and not to objectives that the file marks as no gates. A
// gate fails when any start fails it and, where the cell was measured once more because of that, that start fails it too;
// otherwise it is INCONCLUSIVE. The
// run's verdict, in this order:
//
//   - ERROR: a planned trial was not measured. The same command goes on from there, so this comes before what the
//     measured ones say; the reason names a gate that failed all the same.
//   - FAIL: a gate failed on complete evidence. It stays failed whatever another cell would say, so an inconclusive cell
//     does not hide it.
//   - INCONCLUSIVE: a gate has no verdict, or a trial (of the baseline too) or the run as a whole cannot be believed.
//   - PASS: every gate passed. Without any gate: everything was measured.
//
// Of a capacity search it also sets Capacity. Its gates fail nothing, because loads that fail are what it looks for; what
// decides instead is whether each config holds what the file asks for, if it asks.
func Run(run *result.Run) {
	for i := range run.Trials {
		t := &run.Trials[i]
		t.Verdict, t.Reason = Explain(t)
	}
	run.Gates = gates(run)
	for i := range run.Cells {
		run.Cells[i].Verdict = cell(run, &run.Cells[i])
	}
	run.Capacity = capacities(run)
	run.Verdict, run.Reason = conclude(run)
	compareAll(run)
	attributeAll(run)
	run.Findings = findings(run)
}

// gates lists every objective of every cell of the configs that the file names, in the order of the cells.
func gates(run *result.Run) []result.Gate {
	if run.Experiment == nil {
		return nil
	}
	var out []result.Gate
	for _, c := range run.Cells {
		if derived(run, c.Config) {
			continue
		}
		for _, s := range run.Experiment.SLO {
			out = append(out, gate(run, s, &c))
		}
	}
	return out
}

// searches is true for a capacity search, in which a load that fails is no failure.
func searches(run *result.Run) bool {
	return run.Experiment != nil && run.Experiment.Load.Capacity != nil
}

func baseline(run *result.Run) string {
	if run.Experiment == nil || run.Experiment.Compare == nil {
		return ""
	}
	return run.Experiment.Compare.Baseline
}

// derived is true of a config that the file does not name. It explains others and is not judged itself.
func derived(run *result.Run, config string) bool {
	return run.Experiment != nil && run.Experiment.Derived(config) != nil
}

// trialsOf are the trials of a cell, measured or not.
func trialsOf(run *result.Run, c *result.Cell) []*result.Trial {
	var out []*result.Trial
	for i := range run.Trials {
		if t := &run.Trials[i]; t.Config == c.Config && t.Point == c.Point {
			out = append(out, t)
		}
	}
	return out
}

// gate takes the worst verdict over the starts.
func gate(run *result.Run, s spec.SLO, c *result.Cell) result.Gate {
	g := result.Gate{SLO: s.Name, Config: c.Config, Point: c.Point, Gate: s.Gate && c.Config != baseline(run) && !searches(run), Unit: s.Unit, Verdict: result.Pass}
	if s.Min != nil {
		g.Min = ptr(*s.Min)
	} else {
		g.Max = ptr(s.Max)
	}
	trials, again := split(trialsOf(run, c))
	if len(trials) == 0 {
		g.Verdict, g.Reason = result.Error, "no trial was planned"
	}
	for _, t := range trials {
		v, why, j := ofTrial(t, s.Name)
		if j != nil && (v == result.Pass || v == result.Fail) {
			worst(&g, j)
		}
		if rank(v) > rank(g.Verdict) {
			g.Verdict, g.Reason = v, why
			if len(trials) > 1 {
				g.Reason = t.ID + ": " + why
			}
		} else if v == result.Pass && g.Verdict == result.Pass && g.Reason == "" {
			g.Reason = why
		}
	}
	if g.Verdict == result.Fail && len(again) > 0 {
		confirm(&g, again[len(again)-1])
	}
	return g
}

// split separates the trials that confirm a failed gate.
func split(trials []*result.Trial) (first, again []*result.Trial) {
	for _, t := range trials {
		if t.Confirms {
			again = append(again, t)
		} else {
			first = append(first, t)
		}
	}
	return first, again
}

// confirm lets a failed gate fail only when the cell, measured again, fails it too.
func confirm(g *result.Gate, again *result.Trial) {
	switch v, why, j := ofTrial(again, g.SLO); v {
	case result.Fail:
		worst(g, j)
		g.Reason += "; measured again it failed again"
	case result.Pass:
		g.Verdict = result.Inconclusive
		g.Reason += "; measured again it passed (" + again.ID + "), so starts differ more than the bound allows to tell"
	default:
		g.Verdict = result.Inconclusive
		g.Reason += "; it could not be confirmed: " + orElse(why, string(v))
	}
}

// ofTrial is one objective's verdict on one trial. A trial that cannot be believed has none.
func ofTrial(t *result.Trial, slo string) (result.Verdict, string, *result.Judgement) {
	if t.Outcome != result.Measured || t.Client == nil {
		return result.Error, "not measured: " + orElse(t.Error, "no reason is known"), nil
	}
	if why := void(t); why != "" {
		return result.Inconclusive, why, nil
	}
	for i := range t.SLO {
		if j := &t.SLO[i]; j.Name == slo {
			return j.Verdict, j.Reason, j
		}
	}
	return result.Inconclusive, "it was not judged", nil
}

// rank orders verdicts of one thing over several starts.
func rank(v result.Verdict) int {
	switch v {
	case result.Pass:
		return 0
	case result.Inconclusive:
		return 1
	case result.Fail:
		return 2
	}
	return 3
}

// worst keeps the value that is farthest on the wrong side.
func worst(g *result.Gate, j *result.Judgement) {
	v := j.Value
	if j.WithFailures != nil {
		v = j.WithFailures
	}
	switch {
	case j.Infinite:
		g.Infinite, g.Worst, g.Interval = true, nil, nil
	case v == nil || g.Infinite:
	case g.Worst == nil, g.Max != nil && *v > *g.Worst, g.Max == nil && *v < *g.Worst:
		g.Worst, g.Interval = ptr(*v), j.Interval
	}
}

// cell is the worst of a cell's gating objectives (the baseline's too: what it is shown as), or of its trials where there
// is none.
func cell(run *result.Run, c *result.Cell) result.Verdict {
	v := result.Pass
	raise := func(x result.Verdict) {
		if rank(x) > rank(v) {
			v = x
		}
	}
	trials := trialsOf(run, c)
	if len(trials) == 0 {
		return result.Error
	}
	first, again := split(trials)
	for _, t := range first {
		raise(t.Verdict)
	}
	if v == result.Fail && len(again) > 0 && !slices.ContainsFunc(run.Gates, func(g result.Gate) bool {
		return g.Config == c.Config && g.Point == c.Point && g.Gate && g.Verdict == result.Fail
	}) {
		return result.Inconclusive // no gate's failure was confirmed
	}
	return v
}

// conclude is the verdict of the whole and one sentence of why.
func conclude(run *result.Run) (result.Verdict, string) {
	if len(run.Trials) == 0 {
		return result.Error, "nothing was planned"
	}
	failed, unclear, asked := sortGates(run)
	if missing := notMeasured(run); len(missing) > 0 {
		why := fmt.Sprintf("%d of %d trials were not measured (%s: %s)", len(missing), len(run.Trials), missing[0].ID, missing[0].Reason)
		if len(failed) > 0 {
			why += "; of the measured ones, " + tell(failed[0])
		}
		return result.Error, why
	}
	if searches(run) {
		return concludeCapacity(run)
	}
	if len(failed) > 0 {
		return result.Fail, tell(failed[0]) + more(len(failed)-1, "gate")
	}
	if len(unclear) > 0 {
		return result.Inconclusive, tell(unclear[0]) + more(len(unclear)-1, "gate")
	}
	if doubtful := doubtful(run); len(doubtful) > 0 {
		t := doubtful[0]
		return result.Inconclusive, fmt.Sprintf("%s at %s: %s%s", t.Config, t.Point, believe(t), more(len(doubtful)-1, "trial"))
	}
	if why := failedCheck(run.Checks); why != "" {
		return result.Inconclusive, why
	}
	if asked == 0 {
		return result.Pass, fmt.Sprintf("no gate was asked for; %s measured", all(len(run.Trials), "trial", "was", "were"))
	}
	return result.Pass, fmt.Sprintf("%s passed; %s measured", all(asked, "gate", "", ""), all(len(run.Trials), "trial", "was", "were"))
}

func sortGates(run *result.Run) (failed, unclear []result.Gate, asked int) {
	for _, g := range run.Gates {
		if !g.Gate {
			continue
		}
		asked++
		switch g.Verdict {
		case result.Fail:
			failed = append(failed, g)
		case result.Inconclusive:
			unclear = append(unclear, g)
		}
	}
	return failed, unclear, asked
}

func notMeasured(run *result.Run) []*result.Trial {
	var out []*result.Trial
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Verdict == result.Error && !(t.Outcome == result.Broken && derived(run, t.Config)) {
			out = append(out, &run.Trials[i])
		}
	}
	return out
}

// doubtful are the measured trials that cannot be believed, of whatever config.
func doubtful(run *result.Run) []*result.Trial {
	var out []*result.Trial
	for i := range run.Trials {
		if t := &run.Trials[i]; t.Verdict != result.Error && !derived(run, t.Config) && believe(t) != "" {
			out = append(out, t)
		}
	}
	return out
}

func believe(t *result.Trial) string { return orElse(void(t), tooManyErrors(t.Client)) }

func tell(g result.Gate) string {
	return fmt.Sprintf("%s of %s at %s: %s", g.SLO, g.Config, g.Point, orElse(g.Reason, string(g.Verdict)))
}

func more(n int, what string) string {
	switch {
	case n <= 0:
		return ""
	case n == 1:
		return fmt.Sprintf(" (and 1 more %s)", what)
	}
	return fmt.Sprintf(" (and %d more %ss)", n, what)
}

// all is "the gate", "both gates", "all 4 gates", followed by the verb for one or many.
func all(n int, what, one, many string) string {
	switch n {
	case 1:
		return strings.TrimSpace("the " + what + " " + one)
	case 2:
		return strings.TrimSpace("both " + what + "s " + many)
	}
	return strings.TrimSpace(fmt.Sprintf("all %d %ss %s", n, what, many))
}
