package spec

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"h100-inference-control-plane/runner/arrival"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/flags"
	"h100-inference-control-plane/runner/workload"
)

// The values of what a file leaves out.
const (
	defaultTimeout       = 10 * time.Minute
	defaultMinimumEffect = 0.03
	defaultResolution    = 0.05
	defaultSearchMin     = 1
	defaultSpeed         = 1
	oneAtATime           = "one-at-a-time"
	fullDesign           = "full"
)

// resolve fills in defaults, types the flags, reads the prompt file, and checks what concerns several values at once.
// Values that have already been reported are zero here; a check must hold for them.
func (r *reader) resolve(f *fileExperiment) *Experiment {
	e := &Experiment{
		APIVersion: f.APIVersion, Kind: f.Kind, Name: f.Name, Description: f.Description,
		Model:  engine.Model{Name: f.Model.Name, Revision: f.Model.Revision, Path: f.Model.Path},
		Starts: or(f.Starts, 1),
		Dir:    filepath.Dir(r.file), File: r.file,
	}
	table, known := r.table(f, e)
	e.Engine = r.engine(f, table, known)
	for _, c := range f.Configs {
		e.Configs = append(e.Configs, Config{Name: c.name, Flags: r.flags(c.flags, table, known)})
	}
	e.Workload = r.workload(&f.Workload, e.Dir)
	e.Load = r.load(&f.Load)
	e.SLO = r.objectives(f.SLO)
	e.Compare = r.compare(f.Compare, f.Configs)
	r.derive(e)
	if f.Budget != nil {
		e.Budget = &Budget{GPUMinutes: f.Budget.GPUMinutes}
	}
	r.searchable(e)
	r.fits(e)
	e.Positions = r.keys
	return e
}

func or[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// table finds the engine's options. The version that no table covers is a fault; one that could not be read has been
// reported, and its flags are then not checked.
func (r *reader) table(f *fileExperiment, e *Experiment) (flags.Table, bool) {
	if f.Engine.Version == "" {
		return flags.Table{}, false
	}
	t, note, err := flags.Nearest(f.Engine.Version)
	if err != nil {
		if !r.faulty("engine.version") {
			r.on("engine.version", "engine.version: "+err.Error(), "oldest known: "+flags.Releases()[0])
		}
		return t, false
	}
	e.FlagTable = cmp.Or(note, t.Version())
	return t, true
}

// faulty reports whether the value at path has a fault already.
func (r *reader) faulty(path string) bool {
	n, ok := r.nodes[path]
	if !ok {
		return false
	}
	p := r.place(n)
	return slices.ContainsFunc(r.faults, func(f Fault) bool { return f.File == r.file && f.Line == p.Line && f.Column == p.Column })
}

func (r *reader) engine(f *fileExperiment, t flags.Table, known bool) Engine {
	out := Engine{Name: f.Engine.Name, Version: f.Engine.Version, Flags: r.flags(f.Engine.Flags, t, known)}
	if len(f.Engine.Env) > 0 {
		out.Env = f.Engine.Env
	}
	switch sim := f.Engine.Sim; {
	case f.Engine.Name == "sim":
		out.Sim = &engine.Sim{Speed: defaultSpeed}
		if sim != nil {
			out.Sim = &engine.Sim{Profile: sim.Profile, Speed: or(sim.Speed, defaultSpeed), Faults: sim.Faults}
		}
	case sim != nil && f.Engine.Name == "vllm":
		p := r.keys["engine.sim"]
		r.add(Fault{Line: p.Line, Column: p.Column, Message: "engine.sim is only for the simulated engine", Text: "sim", Hint: "leave it out, or write name: sim"})
	}
	return out
}

// flags types flags against the engine's options and sorts them by name.
func (r *reader) flags(in fileFlags, t flags.Table, known bool) []engine.Flag {
	out := []engine.Flag{}
	for _, f := range in {
		if !f.good || !known || r.full() {
			continue
		}
		v, p := t.Check(f.name, f.value)
		switch {
		case p != nil && p.Name:
			r.add(Fault{Line: f.place.Line, Column: f.place.Column, Message: p.Message, Text: excerpt(f.name), Hint: p.Hint})
		case p != nil:
			r.at(f.node, p.Message, p.Hint)
		default:
			out = append(out, engine.Flag{Name: f.name, Value: v})
		}
	}
	slices.SortFunc(out, func(a, b engine.Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (r *reader) workload(f *fileWorkload, dir string) workload.Workload {
	w := workload.Workload{
		API: cmp.Or(workload.API(f.API), workload.Chat), Cache: cmp.Or(workload.Cache(f.Cache), workload.Warm),
		Output: workload.Output{Tokens: f.Output.Tokens, Exact: or(f.Output.Exact, false)},
		Seed:   f.Seed, Temperature: f.Temperature,
	}
	p := f.Prompt
	r.exactlyOne("workload.prompt", []string{"text", "random", "shared_prefix", "file"})
	if p.Text != nil {
		w.Text = *p.Text
	}
	if p.Random != nil {
		w.Random = &workload.Random{Tokens: p.Random.Tokens, Vocabulary: or(p.Random.Vocabulary, 0)}
	}
	if s := p.SharedPrefix; s != nil {
		w.SharedPrefix = &workload.SharedPrefix{Shared: s.Shared, Own: s.Own, Groups: or(s.Groups, 1), Vocabulary: or(s.Vocabulary, 0)}
	}
	if p.File != nil && p.File.path != "" {
		w.File = r.promptFile(p.File, dir)
	}
	for _, kind := range []string{"random", "shared_prefix"} {
		path := "workload.prompt." + kind + ".vocabulary"
		if _, given := r.nodes[path]; given && w.API == workload.Chat {
			r.on(path, path+" needs the completions API: the chat API takes text only", "write api: completions in workload, or leave vocabulary out")
		}
	}
	return w
}

// exactlyOne checks that one of several keys of a map is there.
func (r *reader) exactlyOne(path string, kinds []string) {
	n, ok := r.nodes[path]
	if !ok || r.faulty(path) {
		return
	}
	var found []string
	for _, k := range kinds {
		if _, ok := r.nodes[join(path, k)]; ok {
			found = append(found, k)
		}
	}
	switch {
	case len(found) > 1:
		r.on(join(path, found[1]), fmt.Sprintf("%s has both %s and %s", path, found[0], found[1]), "choose one of "+strings.Join(kinds, ", "))
	case len(found) == 0 && !r.anyUnknown(path, kinds):
		r.at(n, path+" is empty", "choose one of "+strings.Join(kinds, ", "))
	}
}

// anyUnknown reports whether the map has a key that has been refused: it is likely the one that is missing.
func (r *reader) anyUnknown(path string, known []string) bool {
	for k := range r.keys {
		if rest, ok := strings.CutPrefix(k, path+"."); ok && !strings.ContainsAny(rest, ".[") && !slices.Contains(known, rest) {
			return true
		}
	}
	return false
}

func (r *reader) load(f *fileLoad) LoadLevels {
	l := LoadLevels{Warmup: or(f.Warmup, WarmupAuto), Timeout: time.Duration(or(f.Timeout, duration(defaultTimeout)))}
	r.exactlyOneOfLoad()
	if c := f.Closed; c != nil {
		l.Closed = &Closed{Concurrency: c.Concurrency, Requests: c.Requests}
		for i, n := range c.Concurrency {
			if n > c.Requests && c.Requests > 0 {
				path := "load.closed.concurrency"
				if item := fmt.Sprintf("%s[%d]", path, i); r.nodes[item] != nil {
					path = item
				}
				r.on(path, fmt.Sprintf("%d requests in flight, of %d in all: the load never gets that high", n, c.Requests), fmt.Sprintf("write requests: %d or more; ten times the concurrency gives a steady window", n))
			}
		}
	}
	if o := f.Open; o != nil {
		l.Open = &Open{Rates: o.Rates, Arrival: cmp.Or(arrival.Process(o.Arrival), arrival.Poisson), Duration: time.Duration(o.Duration), MaxInFlight: or(o.MaxInFlight, 0)}
		for i, rate := range o.Rates {
			if o.Duration > 0 && rate > 0 && rate*l.Open.Duration.Seconds() < 1 {
				path := "load.open.rates"
				if item := fmt.Sprintf("%s[%d]", path, i); r.nodes[item] != nil {
					path = item
				}
				r.on(path, fmt.Sprintf("%v requests per second for %s is less than one request", rate, short(l.Open.Duration)), "raise the rate or the duration")
			}
		}
	}
	if f.Capacity != nil {
		l.Capacity = r.capacity(f.Capacity)
	}
	return l
}

func (r *reader) exactlyOneOfLoad() {
	n, ok := r.nodes["load"]
	if !ok || r.faulty("load") {
		return
	}
	kinds := []string{"closed", "open", "capacity"}
	var found []string
	for _, k := range kinds {
		if _, ok := r.nodes["load."+k]; ok {
			found = append(found, k)
		}
	}
	switch {
	case len(found) > 1:
		r.on("load."+found[1], fmt.Sprintf("load has both %s and %s", found[0], found[1]), "choose one; a second experiment file can have the other, and shares the engine starts")
	case len(found) == 0 && !r.anyUnknown("load", append(kinds, "warmup", "timeout")):
		r.at(n, "load has none of closed, open and capacity", "for example closed: {concurrency: [16, 64], requests: 200}")
	}
}

func (r *reader) compare(f *fileCompare, configs fileConfigs) *Compare {
	if f == nil {
		return nil
	}
	var names []string
	for _, c := range configs {
		names = append(names, c.name)
	}
	unknown := func(path, name string) {
		if name != "" && len(names) > 0 && !slices.Contains(names, name) {
			r.on(path, fmt.Sprintf("%s: there is no config %q", path, excerpt(name)), oneOf(name, names))
		}
	}
	unknown("compare.baseline", f.Baseline)
	c := &Compare{Baseline: f.Baseline, Candidates: f.Candidates, MinimumEffect: float64(or(f.MinimumEffect, defaultMinimumEffect)), Attribute: or(f.Attribute, false), Full: or(f.Design, oneAtATime) == fullDesign}
	if f.Design != nil && !c.Attribute && !r.faulty("compare.design") {
		r.on("compare.design", "compare.design: nothing is attributed", "set attribute: true, or leave design out")
	}
	for i, name := range f.Candidates {
		path := fmt.Sprintf("compare.candidates[%d]", i)
		unknown(path, name)
		if name == f.Baseline && name != "" {
			r.on(path, fmt.Sprintf("%s: %s is the baseline; it cannot be compared with itself", path, excerpt(name)), "")
		}
	}
	if len(f.Candidates) > 0 {
		return c
	}
	for _, n := range names {
		if n != f.Baseline {
			c.Candidates = append(c.Candidates, n)
		}
	}
	if len(names) == 1 && !r.faulty("compare") {
		r.on("compare", "compare: there is only one config", "add the config that it is to be compared with, or leave compare out")
	}
	return c
}

// fits checks that prompts and answers are within the length that each config allows. A word is at least one token, so
// what is refused here the engine would refuse too, request by request.
func (r *reader) fits(e *Experiment) {
	tokens, path := promptTokens(&e.Workload)
	if tokens == 0 || e.Workload.Output.Tokens == 0 {
		return
	}
	for _, c := range e.Configs {
		for _, f := range e.Merged(c.Name) {
			limit, ok := f.Value.(int64)
			if f.Name != "max-model-len" || !ok || int64(tokens+e.Workload.Output.Tokens) <= limit {
				continue
			}
			r.on(path, fmt.Sprintf("%d prompt and %d output tokens are more than max-model-len of config %s, %d", tokens, e.Workload.Output.Tokens, c.Name, limit),
				"the engine would refuse every request; raise max-model-len or send less")
			return
		}
	}
}

// promptTokens is the least number of tokens in a prompt, where the workload says, and the path that says it.
func promptTokens(w *workload.Workload) (int, string) {
	switch {
	case w.Random != nil:
		return w.Random.Tokens, "workload.prompt.random.tokens"
	case w.SharedPrefix != nil && w.SharedPrefix.Shared > 0 && w.SharedPrefix.Own > 0:
		return w.SharedPrefix.Shared + w.SharedPrefix.Own, "workload.prompt.shared_prefix.shared"
	}
	return 0, ""
}

// short writes a duration without the zero units at its end.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
