// Package validity says whether a trial's numbers may be believed: every reason to doubt them is a check with what was
// measured, the limit, what a failure does to the numbers and what would remove it. It measures nothing and draws no
// conclusion about objectives (judge). A measurement that is absent makes its check unknown, which is not ok.
package validity

import (
	"fmt"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
	"h100-inference-control-plane/runner/steady"
)

// severity is what a failure means.
type severity int

const (
	// invalid: the numbers are not believed, and a comparison with them has none.
	invalid severity = iota
	// warns: the numbers stand, a reader must know.
	warns
	// ofTheHost invalidates a measurement and only warns about a simulation. A simulated engine shares the machine with
	// its client, and what it teaches does not hang on a busy laptop.
	ofTheHost
)

func (s severity) invalidates(simulated bool) bool {
	return s == invalid || s == ofTheHost && !simulated
}

// A check is one row of the table. of returns nil where the check does not apply to the trial or run.
type check[T any] struct {
	name        string
	title       string
	severity    severity
	unasked     bool   // it says something also when no request succeeded
	timed       bool   // it looks at how long things took, so a busy machine can fail it
	limit       string // in words, for the reference
	consequence string
	fix         string
	of          func(in T) *finding
}

// finding is what a check saw.
type finding struct {
	status   result.CheckStatus
	measured string
	limit    string // "" = the table's
	fix      string // "" = the table's
	mild     bool   // this failure only warns, whatever the table says
}

func (c check[T]) run(in T, simulated bool) *result.Check {
	f := c.of(in)
	if f == nil {
		return nil
	}
	out := &result.Check{Name: c.name, Status: f.status, Measured: f.measured, Limit: f.limit}
	if f.status != result.CheckOK {
		out.Limit = or(f.limit, c.limit)
		out.Title, out.Invalidates = c.title, c.severity.invalidates(simulated) && !f.mild
		out.Consequence, out.Fix = c.consequence, or(f.fix, c.fix)
	}
	return out
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// trial is what the checks of one trial look at. start is nil when it is not in the document.
type trial struct {
	run     *result.Run
	exp     *spec.Experiment
	t       *result.Trial
	client  *result.Client
	server  result.Server
	start   *result.Start
	records []record.Record
}

// Trial checks one measured trial. Its Steady is read, so it must be there before. A trial that was not measured has
// no checks. recs are its requests, in any order.
func Trial(run *result.Run, t *result.Trial, recs []record.Record) []result.Check {
	if t.Outcome != result.Measured || t.Client == nil {
		return nil
	}
	in := trial{run: run, exp: run.Experiment, t: t, client: t.Client, start: startOf(run, t), records: recs}
	if in.exp == nil {
		in.exp = &spec.Experiment{}
	}
	if t.Server != nil {
		in.server = *t.Server
	}
	var out []result.Check
	for _, c := range trialChecks() {
		if t.Client.Succeeded == 0 && !c.unasked {
			continue
		}
		if got := c.run(in, run.Simulated); got != nil {
			out = append(out, *got)
		}
	}
	return out
}

// startOf is the engine life that a trial was measured in.
func startOf(run *result.Run, t *result.Trial) *result.Start {
	for i := range run.Starts {
		if s := &run.Starts[i]; s.ID == t.Start && s.Config == t.Config && s.Attempt == t.Attempt {
			return s
		}
	}
	return nil
}

// Run checks what only several trials or starts together can tell.
func Run(run *result.Run) []result.Check {
	var out []result.Check
	for _, c := range runChecks() {
		if got := c.run(run, run.Simulated); got != nil {
			out = append(out, *got)
		}
	}
	return out
}

// Fill sets Steady and Checks of every measured trial, and the Checks of the run. read returns a trial's requests. What
// was there before is replaced: filling twice is filling once.
func Fill(run *result.Run, read func(trial string) ([]record.Record, error)) error {
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Outcome != result.Measured {
			continue
		}
		recs, err := read(t.ID)
		if err != nil {
			return fmt.Errorf("check trial %s: %w", t.ID, err)
		}
		t.Steady = steady.Of(recs, Options(run, t))
		t.Checks = Trial(run, t, recs)
	}
	run.Checks = Run(run)
	return nil
}

// Options are those of a trial's steady window.
func Options(run *result.Run, t *result.Trial) steady.Options {
	o := steady.Options{Concurrency: t.Point.Concurrency}
	if e := run.Experiment; e != nil && e.Compare != nil {
		o.Precision = e.Compare.MinimumEffect
	}
	if t.Client != nil && t.Client.WallSeconds != nil {
		o.Wall = *t.Client.WallSeconds
	}
	return o
}

func okay(format string, args ...any) *finding {
	return &finding{status: result.CheckOK, measured: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) *finding {
	return &finding{status: result.CheckFailed, measured: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) *finding {
	return &finding{status: result.CheckUnknown, measured: fmt.Sprintf(format, args...)}
}

// limited compares a number with its limit.
func limited(v, limit float64, measured, text string) *finding {
	f := &finding{status: result.CheckOK, measured: measured, limit: text}
	if !(v <= limit) { // NaN is no pass
		f.status = result.CheckFailed
	}
	return f
}

// plural is 1 kernel, 3 kernels.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// signed is +3.1 %.
func signed(v float64) string {
	if v >= 0 {
		return "+" + result.Percent(v)
	}
	return result.Percent(v)
}
