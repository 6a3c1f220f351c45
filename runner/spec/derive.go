package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/attribute"
	"h100-inference-control-plane/runner/engine"
)

// Derived says how a config that the file does not name was made: the baseline's flags, with the candidate's value for
// each flag of Flags.
type Derived struct {
	Candidate string   `json:"candidate"`
	Flags     []string `json:"flags"` // sorted, at least one and not all that differ
}

// Factors are the flags whose merged values differ between two configs, sorted. A flag that one config sets and the
// other leaves to the engine's default differs.
func (e *Experiment) Factors(a, b string) []string {
	return differing(e.Merged(a), e.Merged(b))
}

func differing(a, b []engine.Flag) []string {
	var out []string
	for _, f := range append(slices.Clone(a), b...) {
		if !reflect.DeepEqual(valueOf(a, f.Name), valueOf(b, f.Name)) && !slices.Contains(out, f.Name) {
			out = append(out, f.Name)
		}
	}
	slices.Sort(out)
	return out
}

// valueOf is nil for a flag that is not set.
func valueOf(flags []engine.Flag, name string) any {
	for _, f := range flags {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Design is which config measures which setting of the factors between the baseline and a candidate.
type Design struct {
	Factors []string                        // as Factors
	Configs []attribute.Assignment          // in the order of attribute.Design
	Names   map[attribute.Assignment]string // every one of Configs: a config's name
}

// Design of the attribution to candidate. ok is false when none was asked for, or nothing differs, or the configs that
// it needs are not in the experiment.
func (e *Experiment) Design(candidate string) (d Design, ok bool) {
	if e.Compare == nil || !e.Compare.Attribute {
		return Design{}, false
	}
	d.Factors = e.Factors(e.Compare.Baseline, candidate)
	var err error
	if d.Configs, err = attribute.Design(len(d.Factors), e.Compare.Full); err != nil {
		return Design{}, false
	}
	d.Names = map[attribute.Assignment]string{}
	for _, a := range d.Configs {
		flags := e.mixed(candidate, d.Factors, a)
		at := slices.IndexFunc(e.Configs, func(c Config) bool { return len(differing(e.Merged(c.Name), flags)) == 0 })
		if a == attribute.Candidate(len(d.Factors)) {
			at = slices.IndexFunc(e.Configs, func(c Config) bool { return c.Name == candidate })
		}
		if at < 0 {
			return Design{}, false
		}
		d.Names[a] = e.Configs[at].Name
	}
	return d, true
}

// mixed is the baseline with the candidate's value for the factors of a, merged.
func (e *Experiment) mixed(candidate string, factors []string, a attribute.Assignment) []engine.Flag {
	base, other := e.Merged(e.Compare.Baseline), e.Merged(candidate)
	var out []engine.Flag
	for _, f := range base {
		if !slices.Contains(factors, f.Name) {
			out = append(out, f)
		}
	}
	for i, name := range factors {
		from := base
		if a.Has(i) {
			from = other
		}
		if v := valueOf(from, name); v != nil {
			out = append(out, engine.Flag{Name: name, Value: v})
		}
	}
	slices.SortFunc(out, func(a, b engine.Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// derive adds the configs that attribution measures between the baseline and its candidates. A setting that some config
// already has is not added again.
func (r *reader) derive(e *Experiment) {
	if e.Compare == nil || !e.Compare.Attribute || r.faulty("compare") {
		return
	}
	for _, candidate := range e.Compare.Candidates {
		factors := e.Factors(e.Compare.Baseline, candidate)
		if len(factors) == 0 {
			continue // plan warns of equal configs
		}
		design, err := attribute.Design(len(factors), e.Compare.Full)
		if err != nil {
			most, hint := attribute.MaxFactors, "compare configs that differ in fewer flags"
			if e.Compare.Full {
				most, hint = attribute.MaxFull, "leave design out: one flag at a time needs fewer configs"
			}
			r.on("compare.attribute", fmt.Sprintf("compare.attribute: %s and %s differ in %d flags (%s); the change can be split over %d at most",
				e.Compare.Baseline, candidate, len(factors), strings.Join(factors, ", "), most), hint)
			return
		}
		for _, a := range design {
			e.deriveOne(candidate, factors, a)
		}
	}
}

func (e *Experiment) deriveOne(candidate string, factors []string, a attribute.Assignment) {
	flags := e.mixed(candidate, factors, a)
	if slices.ContainsFunc(e.Configs, func(c Config) bool { return len(differing(e.Merged(c.Name), flags)) == 0 }) {
		return
	}
	var own []engine.Flag // what the shared flags do not say already
	for _, f := range flags {
		if !reflect.DeepEqual(valueOf(e.Engine.Flags, f.Name), f.Value) {
			own = append(own, f)
		}
	}
	set, unset := []string{}, []string{}
	for i, f := range factors {
		if a.Has(i) {
			set = append(set, f)
		} else {
			unset = append(unset, f)
		}
	}
	name := e.Compare.Baseline + "+" + strings.Join(set, "+")
	if len(set) > len(unset) {
		name = candidate + "-" + strings.Join(unset, "-")
	}
	for slices.ContainsFunc(e.Configs, func(c Config) bool { return c.Name == name }) {
		name += "+"
	}
	e.Configs = append(e.Configs, Config{Name: name, Flags: own, Derived: &Derived{Candidate: candidate, Flags: set}})
}

// Own are the configs of the file, without the derived ones.
func (e *Experiment) Own() []Config {
	return slices.DeleteFunc(slices.Clone(e.Configs), func(c Config) bool { return c.Derived != nil })
}

// Derived is how a config was made; nil for one of the file, and for an unknown name.
func (e *Experiment) Derived(config string) *Derived {
	for _, c := range e.Configs {
		if c.Name == config {
			return c.Derived
		}
	}
	return nil
}
