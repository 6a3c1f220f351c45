package report

import (
	"fmt"
	"strings"

	"h100-inference-control-plane/runner/result"
)

// validity says in one line that nothing was found, or what was: failed checks that make numbers not believable, failed
// ones that only warn, and what is not known. Checks of several trials with one outcome are one entry.
func validity(run *result.Run) []block {
	var groups []*checkGroup
	passed, trials := 0, 0
	add := func(where string, checks []result.Check) {
		for _, c := range checks {
			if c.Status == result.CheckOK {
				passed++
				continue
			}
			groups = group(groups, where, c)
		}
	}
	for i := range run.Trials {
		if t := &run.Trials[i]; len(t.Checks) > 0 {
			trials++
			add(t.ID, t.Checks)
		}
	}
	add("", run.Checks)
	if passed+len(groups) == 0 {
		return nil
	}
	out := []block{heading{"Validity"}, para{tellChecks(passed, trials, groups)}}
	for _, k := range []kind{notBelieved, warned, notKnown} {
		var items []string
		for _, g := range groups {
			if kindOf(g.check) == k {
				items = append(items, g.text(trials))
			}
		}
		if len(items) > 0 {
			out = append(out, para{k.String() + ":"}, list{items})
		}
	}
	return out
}

// A kind orders what is not ok.
type kind int

const (
	notBelieved kind = iota
	warned
	notKnown
)

func (k kind) String() string {
	return [...]string{"Failed: these numbers are not to be believed", "Failed: read the numbers with this in mind", "Not known, which is not the same as fine"}[k]
}

func kindOf(c result.Check) kind {
	switch {
	case c.Status == result.CheckUnknown:
		return notKnown
	case c.Invalidates:
		return notBelieved
	}
	return warned
}

// checkGroup is one outcome of one check in some trials; where is empty for the run.
type checkGroup struct {
	check result.Check // of the first
	where []string
	same  bool // all measured the same
}

func group(groups []*checkGroup, where string, c result.Check) []*checkGroup {
	for _, g := range groups {
		if g.check.Name == c.Name && kindOf(g.check) == kindOf(c) {
			g.where = append(g.where, where)
			g.same = g.same && g.check.Measured == c.Measured
			return groups
		}
	}
	return append(groups, &checkGroup{check: c, where: []string{where}, same: true})
}

func (g *checkGroup) text(trials int) string {
	c := g.check
	measured := c.Measured
	if !g.same {
		measured = fmt.Sprintf("in %s %s", g.where[0], measured)
	}
	head := c.Title
	if kindOf(c) == notKnown {
		head = "whether " + c.Title
	}
	if g.where[0] != "" {
		head += " (" + places(g.where, trials) + ")"
	}
	text := head + ": " + measured
	if c.Limit != "" {
		text += "; limit: " + c.Limit
	}
	if kindOf(c) == notKnown {
		return text
	}
	return fmt.Sprintf("%s. %s. What helps: %s.", text, capital(c.Consequence), c.Fix)
}

// places names up to three trials.
func places(ids []string, trials int) string {
	switch n := len(ids); {
	case n == trials && n > 1:
		return fmt.Sprintf("all %d trials", n)
	case n > 3:
		return fmt.Sprintf("%s and %d more of %d trials", strings.Join(ids[:2], ", "), n-2, trials)
	}
	return strings.Join(ids, ", ")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// tellChecks is the section's first line.
func tellChecks(passed, trials int, groups []*checkGroup) string {
	n := map[kind]int{}
	for _, g := range groups {
		n[kindOf(g.check)] += len(g.where)
	}
	text := fmt.Sprintf("%s of %s passed", plural(passed, "check"), plural(trials, "trial"))
	if len(groups) == 0 {
		return "All " + text + ": nothing was found that speaks against the numbers."
	}
	var parts []string
	for _, k := range []kind{notBelieved, warned, notKnown} {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k], [...]string{"failed so that numbers cannot be believed", "failed as a warning", "could not be made"}[k]))
		}
	}
	return text + ", " + strings.Join(parts, ", ") + "."
}
