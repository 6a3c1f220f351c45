package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// unknown says what is wrong with a name that the release does not have, and what is likely to be meant.
func (t Table) unknown(name string, v any) *Problem {
	p := &Problem{Message: fmt.Sprintf("vLLM %s has no flag %q", t.version, name), Name: true}
	tidy := strings.ReplaceAll(strings.ToLower(strings.TrimLeft(strings.TrimSpace(name), "-")), "_", "-")
	switch {
	case t.Has(tidy):
		p.Hint = fmt.Sprintf("write %s: lower case, dashes between words, none before", tidy)
		return p
	case t.negated(tidy) != "":
		p.Hint = inverse(t.negated(tidy), v)
		return p
	case t.alias(tidy) != "":
		p.Hint = "write " + t.alias(tidy)
		return p
	}
	if h := t.history(tidy); h != "" {
		p.Hint = h
		if s := successor(tidy); s != "" {
			p.Hint += "; " + s
		}
		return p
	}
	if best := t.closest(tidy); best != "" {
		p.Hint = "did you mean " + best + "?"
	}
	return p
}

// negated returns the boolean that no-X, disable-X or enable-X is the opposite of, or "".
func (t Table) negated(name string) string {
	var positive []string
	if x, ok := strings.CutPrefix(name, "no-"); ok {
		positive = append(positive, x)
	}
	if x, ok := strings.CutPrefix(name, "disable-"); ok {
		positive = append(positive, "enable-"+x)
	}
	if x, ok := strings.CutPrefix(name, "enable-"); ok {
		positive = append(positive, "disable-"+x)
	}
	for _, x := range positive {
		if t.IsBool(x) {
			return x
		}
	}
	return ""
}

func inverse(name string, v any) string {
	if off, ok := v.(bool); ok {
		return fmt.Sprintf("write %s: %t; the runner turns it into the engine's spelling", name, !off)
	}
	return fmt.Sprintf("write %s: true or false; the runner turns it into the engine's spelling", name)
}

// alias resolves the short names of vLLM's command line and the other names that a release accepts.
func (t Table) alias(name string) string {
	if long := short(name); long != "" && t.Has(long) {
		return long
	}
	for _, o := range t.options {
		if slices.Contains(o.Aliases, "--"+name) {
			return o.Name
		}
	}
	return ""
}

// short are the one-dash names of vLLM 0.25.1's parser, and "o" for -O0 to -O3.
func short(name string) string {
	switch name {
	case "tp":
		return "tensor-parallel-size"
	case "pp":
		return "pipeline-parallel-size"
	case "dp":
		return "data-parallel-size"
	case "ep":
		return "enable-expert-parallel"
	case "dcp":
		return "decode-context-parallel-size"
	case "pcp":
		return "prefill-context-parallel-size"
	case "q":
		return "quantization"
	case "cc":
		return "compilation-config"
	case "ac":
		return "attention-config"
	case "sc":
		return "speculative-config"
	case "asc":
		return "api-server-count"
	case "o", "o0", "o1", "o2", "o3":
		return "optimization-level"
	}
	return ""
}

// history says which release had the flag. The tables are samples, so a removal is known only to lie between two.
func (t Table) history(name string) string {
	if t.book == nil {
		return ""
	}
	has, at := t.book.has(name), slices.Index(t.book.releases, t.version)
	for i := at - 1; i >= 0; i-- {
		if has[i] {
			return fmt.Sprintf("it was removed by %s; %s still had it", t.book.releases[i+1], t.book.releases[i])
		}
	}
	for i := at + 1; i < len(has); i++ {
		if !has[i] {
			continue
		}
		if t.asked != t.version && i == at+1 {
			return fmt.Sprintf("%s has it, %s does not; the flags of %s itself are not known (make flags adds a release)", t.book.releases[i], t.version, t.asked)
		}
		return fmt.Sprintf("it was added by %s; %s does not have it yet", t.book.releases[i], t.book.releases[i-1])
	}
	return ""
}

// successor says what took the place of a removed flag, where one did.
func successor(name string) string {
	switch {
	case name == "disable-log-requests":
		return "requests are not logged unless enable-log-requests is true"
	case name == "cuda-graph-sizes":
		return "it is cudagraph-capture-sizes now"
	case name == "override-pooler-config":
		return "it is pooler-config now"
	case strings.HasPrefix(name, "guided-decoding-"):
		return "it is a part of structured-outputs-config now"
	case strings.HasPrefix(name, "eplb-") || name == "num-redundant-experts":
		return "it is a part of eplb-config now"
	case name == "task":
		return "it is runner and convert now"
	}
	return ""
}

func (t Table) closest(name string) string {
	names := t.Names()
	if best := closest(name, names); best != "" {
		return best
	}
	var inside []string // a part of exactly one name: prefix-caching, memory-utilization
	for _, n := range names {
		if len(name) >= 5 && strings.Contains(n, name) {
			inside = append(inside, n)
		}
	}
	if len(inside) == 1 {
		return inside[0]
	}
	for _, n := range inside { // an enable- before it is the most likely meaning of several
		if n == "enable-"+name {
			return n
		}
	}
	return ""
}

// closest returns the candidate at the smallest edit distance that is still a likely slip (up to a third of the word,
// at most 4), or "".
func closest(s string, candidates []string) string {
	best, at := "", min(max(1, len(s)/3), 4)+1
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(strings.ToLower(s), strings.ToLower(c)); d < at {
			best, at = c, d
		}
	}
	return best
}
