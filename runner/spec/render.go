package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"h100-inference-control-plane/runner/engine"
)

// pair is an entry of a map whose order matters; block is such a map.
type (
	pair struct {
		key   string
		value any
	}
	block []pair
)

// YAML writes the experiment as a file again, with every default in place: what was run, for the results folder. Read
// again (beside the same prompt file), it has the same canonical JSON.
func (e *Experiment) YAML() ([]byte, error) {
	doc := block{
		{"apiVersion", e.APIVersion}, {"kind", e.Kind}, {"name", e.Name},
		{"description", orNothing(e.Description)},
		{"model", block{{"name", e.Model.Name}, {"revision", orNothing(e.Model.Revision)}, {"path", orNothing(e.Model.Path)}}},
		{"engine", engineBlock(e.Engine)},
		{"configs", configsBlock(e.Own())},
		{"workload", e.workloadBlock()},
		{"load", loadBlock(e.Load)},
		{"starts", e.Starts},
		{"slo", sloList(e.SLO)},
	}
	if c := e.Compare; c != nil {
		doc = append(doc, pair{"compare", block{
			{"baseline", c.Baseline}, {"candidates", anyList(c.Candidates)}, {"minimum_effect", c.MinimumEffect}, {"attribute", c.Attribute}, {"design", designName(c)},
		}})
	}
	if e.Budget != nil {
		doc = append(doc, pair{"budget", block{{"gpu_minutes", e.Budget.GPUMinutes}}})
	}
	var w yamlWriter
	w.block(doc, 0)
	if w.err != nil {
		return nil, fmt.Errorf("write the experiment as YAML: %w", w.err)
	}
	return w.out.Bytes(), nil
}

// orNothing leaves an empty text out.
func orNothing(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func designName(c *Compare) any {
	if !c.Full {
		return nil
	}
	return fullDesign
}

func anyList[T any](in []T) any {
	if len(in) == 0 {
		return nil
	}
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}

func engineBlock(e Engine) block {
	b := block{{"name", e.Name}, {"version", e.Version}}
	if len(e.Flags) > 0 {
		b = append(b, pair{"flags", flagsBlock(e.Flags)})
	}
	if len(e.Env) > 0 {
		var env block
		for _, k := range slices.Sorted(maps.Keys(e.Env)) {
			env = append(env, pair{k, e.Env[k]})
		}
		b = append(b, pair{"env", env})
	}
	if s := e.Sim; s != nil {
		b = append(b, pair{"sim", block{{"profile", orNothing(s.Profile)}, {"speed", s.Speed}, {"faults", anyList(s.Faults)}}})
	}
	return b
}

func flagsBlock(flags []engine.Flag) block {
	b := block{}
	for _, f := range flags {
		b = append(b, pair{f.Name, f.Value})
	}
	return b
}

func configsBlock(configs []Config) block {
	var b block
	for _, c := range configs {
		b = append(b, pair{c.Name, flagsBlock(c.Flags)})
	}
	return b
}

func (e *Experiment) workloadBlock() block {
	w := e.Workload
	var prompt block
	switch {
	case w.Random != nil:
		prompt = block{{"random", block{{"tokens", w.Random.Tokens}, {"vocabulary", orNone(w.Random.Vocabulary)}}}}
	case w.SharedPrefix != nil:
		s := w.SharedPrefix
		prompt = block{{"shared_prefix", block{{"shared", s.Shared}, {"own", s.Own}, {"groups", s.Groups}, {"vocabulary", orNone(s.Vocabulary)}}}}
	case w.File != nil:
		prompt = block{{"file", block{{"path", w.File.Path}, {"sha256", w.File.SHA256}}}}
	default:
		prompt = block{{"text", w.Text}}
	}
	b := block{
		{"api", string(w.API)}, {"prompt", prompt},
		{"output", block{{"tokens", w.Output.Tokens}, {"exact", w.Output.Exact}}},
		{"cache", string(w.Cache)},
	}
	if w.Seed != nil {
		b = append(b, pair{"seed", *w.Seed})
	}
	if w.Temperature != nil {
		b = append(b, pair{"temperature", *w.Temperature})
	}
	return b
}

// orNone leaves a zero out.
func orNone(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func loadBlock(l LoadLevels) block {
	var b block
	if c := l.Closed; c != nil {
		b = append(b, pair{"closed", block{{"concurrency", anyList(c.Concurrency)}, {"requests", c.Requests}}})
	}
	if o := l.Open; o != nil {
		b = append(b, pair{"open", block{{"rates", anyList(o.Rates)}, {"arrival", string(o.Arrival)}, {"duration", short(o.Duration)}, {"max_in_flight", orNone(o.MaxInFlight)}}})
	}
	if c := l.Capacity; c != nil {
		b = append(b, pair{"capacity", capacityBlock(c)})
	}
	if l.Warmup != WarmupAuto {
		b = append(b, pair{"warmup", l.Warmup})
	}
	return append(b, pair{"timeout", short(l.Timeout)})
}

func capacityBlock(c *Capacity) block {
	r := c.Range()
	limits := block{{"min", r.Min}, {"max", r.Max}}
	b := block{{"concurrency", limits}, {"requests", c.Requests}}
	if c.Rate != nil {
		b = block{{"rate", limits}, {"arrival", string(c.Arrival)}, {"duration", short(c.Duration)}, {"max_in_flight", orNone(c.MaxInFlight)}}
	}
	b = append(b, pair{"resolution", c.Resolution})
	if c.AtLeast != nil {
		b = append(b, pair{"at_least", *c.AtLeast})
	}
	return b
}

func sloList(slos []SLO) any {
	out := make([]any, 0, len(slos))
	for _, s := range slos {
		b := block{{"name", s.Name}, {"query", s.Query}}
		if s.Min != nil {
			b = append(b, pair{"min", boundText(*s.Min, s.Unit)})
		} else {
			b = append(b, pair{"max", boundText(s.Max, s.Unit)})
		}
		out = append(out, append(b, pair{"gate", s.Gate}))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// boundText is a bound in the unit in which it was written.
func boundText(v float64, unit string) any {
	switch unit {
	case "%":
		return asPercent(v)
	case "s":
		return short(time.Duration(math.Round(v * 1e9)))
	}
	return v
}

// yamlWriter writes the part of YAML that the reader takes: block maps and lists, short lists on one line, and texts
// in double quotes wherever another reader might take them for something else. A nil value leaves its key out.
type yamlWriter struct {
	out bytes.Buffer
	err error
}

func (w *yamlWriter) block(b block, depth int) {
	for _, p := range b {
		if p.value != nil {
			w.entry(p, depth, strings.Repeat("  ", depth))
		}
	}
}

func (w *yamlWriter) entry(p pair, depth int, lead string) {
	w.out.WriteString(lead + text(p.key) + ":")
	switch v := p.value.(type) {
	case block:
		if len(v) == 0 {
			w.out.WriteString(" {}\n")
			return
		}
		w.out.WriteByte('\n')
		w.block(v, depth+1)
	case []any:
		if _, ofBlocks := v[0].(block); ofBlocks {
			w.out.WriteByte('\n')
			w.list(v, depth)
			return
		}
		w.out.WriteString(" " + w.inline(v) + "\n")
	default:
		w.out.WriteString(" " + w.inline(v) + "\n")
	}
}

func (w *yamlWriter) list(items []any, depth int) {
	for _, item := range items {
		lead := strings.Repeat("  ", depth) + "  - "
		for _, p := range item.(block) {
			w.entry(p, depth+2, lead)
			lead = strings.Repeat("  ", depth+2)
		}
	}
}

// inline writes a value on one line, in flow style.
func (w *yamlWriter) inline(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(x)
	case int:
		return strconv.Itoa(x)
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case string:
		return text(x)
	case []any:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = w.inline(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, text(k)+": "+w.inline(x[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	w.err = fmt.Errorf("a value of type %T has no form in an experiment", v)
	return ""
}

var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)

// text writes a word as it is, and anything else in double quotes with JSON's escapes, which are YAML's too.
func text(s string) string {
	if plainText.MatchString(s) && !otherMeaning(s) {
		return s
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string always has a form in JSON
		return strconv.Quote(s)
	}
	return strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\x7f", `\u007f`)
}

// otherMeaning reports words that some YAML readers take for a switch or for nothing.
func otherMeaning(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "nan", "inf":
		return true
	}
	return false
}
