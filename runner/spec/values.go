package spec

import (
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// maxDuration is the longest time that anything in a file may take.
const maxDuration = 24 * time.Hour

// duration is a time with its unit, such as 250ms or 1h30m.
type duration time.Duration

func (d *duration) read(r *reader, n ast.Node, path string, ru rules) bool {
	const what = "a duration with a unit, such as 250ms"
	s, isText := n.(*ast.StringNode)
	if !isText {
		hint := forExample(path, ru.example)
		switch n.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
			hint = fmt.Sprintf("seconds? Write %ss", source(n))
		}
		r.at(n, fmt.Sprintf("%swant %s, got %s", prefix(path), what, excerpt(source(n))), hint)
		return false
	}
	v, err := time.ParseDuration(strings.TrimSpace(s.Value))
	switch {
	case err != nil:
		r.at(n, fmt.Sprintf("%swant %s, got %s", prefix(path), what, excerpt(source(n))), "units are ms, s, m (minutes) and h")
	case v <= 0:
		r.at(n, fmt.Sprintf("%s%s is out of range: want a duration above 0", prefix(path), excerpt(s.Value)), "")
	case v > maxDuration:
		r.at(n, fmt.Sprintf("%s%s is longer than a day", prefix(path), excerpt(s.Value)), "")
	default:
		*d = duration(v)
		return true
	}
	return false
}

// bound is the limit of an objective in base units, and how it was written: "" as a number, "s" as a duration, "%".
type bound struct {
	value float64
	unit  string
}

// maxBound keeps typing errors out: it is 31 years, or an exabyte.
const maxBound = 1e18

func (b *bound) read(r *reader, n ast.Node, path string, _ rules) bool {
	s, isText := n.(*ast.StringNode)
	if !isText {
		f, ok := r.number(n, path, "500ms")
		b.value = f
		return ok && b.sane(r, n, path)
	}
	text := strings.TrimSpace(s.Value)
	if f, ok := percent(text); ok {
		b.value, b.unit = f, "%"
		return b.sane(r, n, path)
	}
	d, err := time.ParseDuration(text)
	if err != nil || !strings.ContainsAny(text, "smh") {
		hint := "for example 0.5, 500ms or 1%"
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			hint = fmt.Sprintf("write %s, without quotes", text)
		}
		r.at(n, fmt.Sprintf("%swant a number in base units, a duration or a percentage, got %s", prefix(path), excerpt(source(n))), hint)
		return false
	}
	if d > maxDuration {
		r.at(n, fmt.Sprintf("%s%s is longer than a day", prefix(path), excerpt(text)), "")
		return false
	}
	b.value, b.unit = d.Seconds(), "s"
	return b.sane(r, n, path)
}

func (b *bound) sane(r *reader, n ast.Node, path string) bool {
	if b.value < 0 || b.value > maxBound {
		r.at(n, fmt.Sprintf("%s%s is out of range: want a number from 0 up", prefix(path), excerpt(source(n))), "")
		return false
	}
	return true
}

// share is a ratio: 0.03, or 3%.
type share float64

func (s *share) read(r *reader, n ast.Node, path string, ru rules) bool {
	var f float64
	if t, isText := n.(*ast.StringNode); isText {
		var ok bool
		if f, ok = percent(strings.TrimSpace(t.Value)); !ok {
			r.at(n, fmt.Sprintf("%swant a share, got %s", prefix(path), excerpt(source(n))), "for example 3% or 0.03")
			return false
		}
	} else {
		var ok bool
		if f, ok = r.number(n, path, "3%"); !ok {
			return false
		}
	}
	if f < 0 || f >= 1 {
		hint := forExample(path, ru.example)
		if f >= 1 && f <= 100 {
			hint = fmt.Sprintf("write %v%% if that is what you mean", f)
		}
		r.at(n, fmt.Sprintf("%s%s is out of range: want a share from 0 to below 1", prefix(path), excerpt(source(n))), hint)
		return false
	}
	*s = share(f)
	return true
}

// step is a share that a search can reach.
type step share

func (s *step) read(r *reader, n ast.Node, path string, ru rules) bool {
	if !(*share)(s).read(r, n, path, ru) {
		return false
	}
	if *s < MinResolution {
		r.at(n, fmt.Sprintf("%s%s is out of range: want %s or more", prefix(path), excerpt(source(n)), asPercent(MinResolution)), "engine starts differ by more than that; "+forExample(path, ru.example))
		return false
	}
	return true
}

var percentage = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?%$`)

// percent reads "3%" as 0.03, by the decimal point and not by a division, so that it can be written back exactly.
func percent(s string) (float64, bool) {
	m := percentage.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	f, err := strconv.ParseFloat(m[1]+"e-2", 64)
	return f, err == nil
}

// asPercent is the inverse of percent.
func asPercent(f float64) string {
	v, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	if !ok {
		return ""
	}
	s := v.Mul(v, big.NewRat(100, 1)).FloatString(400)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}

// wholes and numbers are one number or a list of them.
type (
	wholes  []int
	numbers []float64
)

func (w *wholes) read(r *reader, n ast.Node, path string, ru rules) bool {
	if _, isList := n.(*ast.SequenceNode); isList {
		return r.slice(n, path, reflect.ValueOf((*[]int)(w)).Elem(), ru)
	}
	*w = make([]int, 1)
	return r.decode(n, path, reflect.ValueOf(&(*w)[0]).Elem(), ru)
}

func (f *numbers) read(r *reader, n ast.Node, path string, ru rules) bool {
	if _, isList := n.(*ast.SequenceNode); isList {
		return r.slice(n, path, reflect.ValueOf((*[]float64)(f)).Elem(), ru)
	}
	*f = make([]float64, 1)
	return r.decode(n, path, reflect.ValueOf(&(*f)[0]).Elem(), ru)
}

// maxConfigs bounds the configs of one experiment.
const maxConfigs = 64

var configName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func (c *fileConfigs) read(r *reader, n ast.Node, path string, ru rules) bool {
	entries, good := r.mapping(n, path, ru.example)
	if !good {
		return false
	}
	switch {
	case len(entries) == 0:
		r.at(n, "configs: want at least one", forExample(path, ru.example))
		return false
	case len(entries) > maxConfigs:
		r.at(n, fmt.Sprintf("configs: %d of them; at most %d are allowed", len(entries), maxConfigs), "")
		return false
	}
	for _, e := range entries {
		if !configName.MatchString(e.key) {
			r.add(Fault{Line: e.place.Line, Column: e.place.Column, Text: excerpt(e.key),
				Message: fmt.Sprintf("configs: %q cannot be a name", excerpt(e.key)), Hint: "lower-case letters, digits and dashes, at most 32"})
			good = false
		}
		cfg := fileConfig{name: e.key, place: e.place}
		if _, isNull := e.value.(*ast.NullNode); isNull {
			r.at(e.value, fmt.Sprintf("configs.%s has no flags", excerpt(e.key)), "write {} for a config that only has the shared ones")
			good = false
			continue
		}
		good = cfg.flags.read(r, e.value, join(path, e.key), rules{example: "{enforce-eager: true}"}) && good
		*c = append(*c, cfg)
	}
	return good
}

func (f *fileFlags) read(r *reader, n ast.Node, path string, ru rules) bool {
	entries, good := r.mapping(n, path, ru.example)
	for _, e := range entries {
		at := join(path, e.key)
		v, ok := r.value(e.value, at)
		*f = append(*f, fileFlag{name: e.key, path: at, place: e.place, node: e.value, value: v, good: ok})
		good = good && ok
	}
	return good
}

var envName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

func (f *fileEnv) read(r *reader, n ast.Node, path string, ru rules) bool {
	entries, good := r.mapping(n, path, ru.example)
	if !good {
		return false
	}
	*f = fileEnv{}
	for _, e := range entries {
		switch {
		case !envName.MatchString(e.key):
			r.add(Fault{Line: e.place.Line, Column: e.place.Column, Text: excerpt(e.key),
				Message: fmt.Sprintf("%s: %q cannot be a variable's name", path, excerpt(e.key)), Hint: "upper-case letters, digits and underscores"})
			good = false
			continue
		case secretName(e.key):
			r.add(Fault{Line: e.place.Line, Column: e.place.Column, Text: excerpt(e.key),
				Message: fmt.Sprintf("%s: %s looks like a secret, and this file is committed", path, e.key),
				Hint:    fmt.Sprintf("leave it out and export %s where benchctl runs: the engine inherits it", e.key)})
			good = false
			continue
		}
		v, ok := r.envValue(e.value, join(path, e.key))
		(*f)[e.key] = v
		good = good && ok
	}
	return good
}

// envValue reads text; a number or a switch counts as it is written.
func (r *reader) envValue(n ast.Node, path string) (string, bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return source(n), true
	}
	s, ok := r.str(n, path, `"1"`)
	if ok && strings.ContainsRune(s, 0) {
		r.at(n, prefix(path)+"it contains a NUL character, which no environment can carry", "")
		return "", false
	}
	return s, ok
}

// secretName reports whether one of the words of an environment variable's name says that its value is a secret.
// TOKENIZERS_PARALLELISM has no such word, HF_TOKEN has.
func secretName(name string) bool {
	for word := range strings.SplitSeq(name, "_") {
		switch word {
		case "TOKEN", "KEY", "APIKEY", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS", "CREDENTIAL", "CREDENTIALS":
			return true
		}
	}
	return false
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (f *filePromptFile) read(r *reader, n ast.Node, path string, ru rules) bool {
	at := path
	if _, isText := n.(*ast.StringNode); isText {
		s, ok := r.str(n, path, ru.example)
		if f.path = s; !ok {
			return false
		}
	} else {
		var long struct {
			Path   string  `json:"path" eg:"prompts.jsonl"`
			SHA256 *string `json:"sha256,omitempty"`
		}
		if !r.structure(n, path, reflect.ValueOf(&long).Elem(), ru) {
			return false
		}
		f.path, at = long.Path, join(path, "path")
		if long.SHA256 != nil {
			f.sha256 = *long.SHA256
			if !sha256Hex.MatchString(f.sha256) {
				r.on(join(path, "sha256"), prefix(join(path, "sha256"))+"want 64 lower-case hexadecimal digits", "")
				return false
			}
		}
	}
	if !filepath.IsLocal(f.path) {
		r.on(at, fmt.Sprintf("%s%q is not inside the folder of this file", prefix(at), excerpt(f.path)), "name a file beside this one or in a folder below it")
		return false
	}
	return true
}
