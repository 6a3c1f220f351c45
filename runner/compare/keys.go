package compare

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/workload"
)

// A key is something that may change a number and is not what is compared. of is "" for what is not there.
type key struct {
	name string
	of   func(*result.Run) string
}

func keys() []key {
	load := func(of func(r *result.Run) any) func(*result.Run) string {
		return func(r *result.Run) string { return text(of(r)) }
	}
	return []key{
		{"engine.name", func(r *result.Run) string { return r.Experiment.Engine.Name }},
		{"engine.version", versions},
		{"engine.sim", load(func(r *result.Run) any { return r.Experiment.Engine.Sim })},
		{"model", func(r *result.Run) string {
			return strings.TrimSpace(r.Experiment.Model.Name + " " + r.Experiment.Model.Revision)
		}},
		{"simulated", func(r *result.Run) string { return fmt.Sprint(r.Simulated) }},
		{"synthetic", func(r *result.Run) string { return r.Synthetic }},
		{"workload", load(func(r *result.Run) any { return sent(r.Experiment.Workload) })},
		{"load.kind", kind},
		{"load.requests", amount},
		{"load.warmup", func(r *result.Run) string { return fmt.Sprint(r.Experiment.Load.Warmup) }},
		{"load.timeout", func(r *result.Run) string { return r.Experiment.Load.Timeout.String() }},
		{"where", func(r *result.Run) string { return r.Where }},
		{"machine", machine},
		{"load_generator", func(r *result.Run) string { return r.Tool.LoadGenerator }},
	}
}

// Keys are the names of what must be the same in two runs, or be named to compare across it.
func Keys() []string {
	var out []string
	for _, k := range keys() {
		out = append(out, k.name)
	}
	return out
}

// versions are those that the engines said, or the one that was asked for where none said.
func versions(r *result.Run) string {
	var out []string
	for _, s := range r.Starts {
		if s.Version != "" && !slices.Contains(out, s.Version) {
			out = append(out, s.Version)
		}
	}
	if len(out) == 0 {
		return r.Experiment.Engine.Version
	}
	sort.Strings(out)
	return strings.Join(out, " and ")
}

// sent is the workload without the name of its file: the content's hash says which one it is.
func sent(w workload.Workload) workload.Workload {
	if w.File != nil {
		f := *w.File
		f.Path = ""
		w.File = &f
	}
	return w
}

func kind(r *result.Run) string {
	switch l := r.Experiment.Load; {
	case l.Closed != nil:
		return "closed"
	case l.Open != nil:
		return fmt.Sprintf("open, %s, at most %d in flight", l.Open.Arrival, l.Open.MaxInFlight)
	}
	return ""
}

// amount is how much each load point is measured with.
func amount(r *result.Run) string {
	switch l := r.Experiment.Load; {
	case l.Closed != nil:
		return fmt.Sprintf("%d requests", l.Closed.Requests)
	case l.Open != nil:
		return l.Open.Duration.String()
	}
	return ""
}

// machine is the fingerprint with what a person knows it by.
func machine(r *result.Run) string {
	h := r.Host
	out := fmt.Sprintf("%d cores %s", h.Cores, h.CPU)
	for _, g := range h.GPUs {
		out += ", " + g.Name
	}
	return out + " (" + h.Fingerprint[:min(12, len(h.Fingerprint))] + ")"
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if string(b) == "null" {
		return ""
	}
	return string(b)
}

// treatment lists the flags and the environment in which a config differs.
func treatment(a, b *result.Run) []Difference {
	var out []Difference
	for _, name := range configNames(a) {
		if !slices.Contains(configNames(b), name) {
			continue
		}
		x, y := flags(a.Experiment.Merged(name)), flags(b.Experiment.Merged(name))
		out = append(out, maps(name+" ", x, y)...)
	}
	return append(out, maps("environment ", a.Experiment.Engine.Env, b.Experiment.Engine.Env)...)
}

func flags(fs []engine.Flag) map[string]string {
	out := map[string]string{}
	for _, f := range fs {
		out[f.Name] = text(f.Value)
	}
	return out
}

func maps(prefix string, x, y map[string]string) []Difference {
	var names []string
	for n := range x {
		names = append(names, n)
	}
	for n := range y {
		if _, both := x[n]; !both {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	var out []Difference
	for _, n := range names {
		v, inX := x[n]
		w, inY := y[n]
		if v != w || inX != inY {
			out = append(out, Difference{prefix + n, orNone(v), orNone(w)})
		}
	}
	return out
}

// notes are what a reader must know besides the numbers.
func notes(a, b *result.Run) []string {
	out := []string{"the runs were measured at different times and share no engine start: what the machine did in between is in the difference too"}
	if a.RunKey == b.RunKey {
		out = append(out, "both runs are of the same plan: without a change between them, every clear difference is one of the machine")
	}
	if a.Plan.Seed != b.Plan.Seed {
		out = append(out, "the prompts are drawn alike, and are not the same ones: the plans have different seeds")
	}
	return out
}
