package validity

import (
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func sameEngine(run *result.Run) *finding {
	var versions []string
	silent := 0
	for _, s := range run.Starts {
		switch {
		case !used(run, s):
		case s.Version == "":
			silent++
		case !slices.Contains(versions, s.Version):
			versions = append(versions, s.Version)
		}
	}
	switch {
	case len(versions) > 1:
		slices.Sort(versions)
		return failed("%s", strings.Join(versions, " and "))
	case silent > 0 || len(versions) == 0:
		return unknown("not every start told its version")
	}
	return okay("%s", versions[0])
}

// used is true when a measured trial belongs to the start.
func used(run *result.Run, s result.Start) bool {
	return slices.ContainsFunc(run.Trials, func(t result.Trial) bool {
		return t.Outcome == result.Measured && t.Start == s.ID && t.Config == s.Config && t.Attempt == s.Attempt
	})
}

// sameOutput compares the mean answer length of the configs at each load point.
func sameOutput(run *result.Run) *finding {
	e := run.Experiment
	if e == nil || len(e.Configs) < 2 || e.Workload.Output.Exact {
		return nil // exact lengths are checked one by one
	}
	worst, text := 0.0, ""
	for _, p := range points(run) {
		short, long := extremes(run, p)
		if short == nil || long == nil || short.mean <= 0 {
			continue
		}
		if d := long.mean/short.mean - 1; text == "" || d > worst {
			worst = d
			text = fmt.Sprintf("%s at %s: %s %s tokens, %s %s", signed(d), p, short.config, result.Number(short.mean), long.config, result.Number(long.mean))
		}
	}
	if text == "" {
		return unknown("the lengths of the answers are not known")
	}
	f := limited(worst, maxLengthDiffer, text, "")
	f.mild = e.Compare == nil
	return f
}

func points(run *result.Run) []spec.Point {
	var out []spec.Point
	for _, t := range run.Trials {
		if !slices.Contains(out, t.Point) {
			out = append(out, t.Point)
		}
	}
	return out
}

type length struct {
	config string
	mean   float64
}

// extremes are the configs with the shortest and the longest answers, each over all its starts; nil = fewer than one
// config is known.
func extremes(run *result.Run, p spec.Point) (short, long *length) {
	var configs []string
	sum, n := map[string]float64{}, map[string]float64{}
	for _, t := range run.Trials {
		if t.Point != p || t.Client == nil || t.Client.OutputLength == nil {
			continue
		}
		if n[t.Config] == 0 {
			configs = append(configs, t.Config)
		}
		sum[t.Config] += t.Client.OutputLength.Mean
		n[t.Config]++
	}
	for _, c := range configs {
		l := &length{c, sum[c] / n[c]}
		if short == nil || l.mean < short.mean {
			short = l
		}
		if long == nil || l.mean > long.mean {
			long = l
		}
	}
	return short, long
}

func enoughStarts(run *result.Run) *finding {
	e := run.Experiment
	if e == nil || e.Compare == nil {
		return nil
	}
	return limited(minStarts, float64(e.Starts), plural(e.Starts, "start"), "")
}
