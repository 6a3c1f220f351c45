package flags

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Problem says why a flag cannot be used as it is written. Hint, when not empty, says what to write instead.
type Problem struct {
	Message string
	Hint    string
	// Name is true when the flag's name is at fault, not its value.
	Name bool
}

func (p *Problem) Error() string { return p.Message }

// Check types the value of one flag of a spec. v is bool, int64, float64, string, nil, []any or map[string]any, as
// read from YAML; the answer is one of the same types, and equal for values that mean the same (32k and 32000, a map
// and the same map as a JSON string), so that keys over it agree. name may have parts (compilation-config.mode), which
// set one key of a JSON option.
func (t Table) Check(name string, v any) (any, *Problem) {
	if why, ok := Reserved(name); ok {
		return nil, &Problem{Message: name + " is not a config's to set", Hint: why, Name: true}
	}
	base, part, dotted := strings.Cut(name, ".")
	o, ok := t.options[base]
	switch {
	case !ok:
		return nil, t.unknown(name, v)
	case dotted && (part == "" || o.Type != JSON && o.Type != JSONOrText):
		return nil, &Problem{Message: fmt.Sprintf("%s has no parts such as %q", base, part), Hint: "only a flag that takes a map has them", Name: true}
	case v == nil:
		return nil, &Problem{Message: name + " has no value", Hint: "leave the flag out to get the engine's own default"}
	case dotted:
		return scalar(name, v)
	case o.List:
		return o.list(v)
	}
	return o.one(v)
}

func (o Option) list(v any) (any, *Problem) {
	in, ok := v.([]any)
	if !ok {
		in = []any{v}
	}
	if len(in) == 0 {
		return nil, &Problem{Message: o.Name + " is an empty list", Hint: "leave the flag out to get the engine's own default"}
	}
	out := make([]any, len(in))
	for i, x := range in {
		typed, p := o.one(x)
		if p != nil {
			return nil, p
		}
		if s, ok := typed.(string); ok && strings.HasPrefix(s, "-") {
			return nil, &Problem{Message: fmt.Sprintf("%s: the engine would take %q for a flag", o.Name, s)}
		}
		out[i] = typed
	}
	return out, nil
}

func (o Option) one(v any) (any, *Problem) {
	var out any
	var p *Problem
	switch o.Type {
	case Bool:
		return o.boolean(v)
	case JSON, JSONOrText:
		return o.json(v)
	case Int:
		out, p = o.whole(v)
	case Size, SizeOrAuto:
		out, p = o.size(v)
	case Float:
		out, p = o.float(v)
	default:
		if m, ok := v.(map[string]any); ok && o.Type == Any && o.List {
			return m, nil
		}
		out, p = o.text(v)
	}
	if p != nil {
		return nil, p
	}
	if p := o.choice(out); p != nil {
		return nil, p
	}
	return out, o.bounded(out)
}

func (o Option) boolean(v any) (any, *Problem) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	p := &Problem{Message: fmt.Sprintf("%s is on or off: want true or false, got %s", o.Name, shown(v))}
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
	case "true", "yes", "on", "1", "y":
		p.Hint = "write true, without quotes"
	case "false", "no", "off", "0", "n":
		p.Hint = "write false, without quotes"
	case "auto", "none", "default":
		p.Hint = "leave the flag out to get the engine's own default"
	}
	return nil, p
}

func (o Option) whole(v any) (any, *Problem) {
	switch x := v.(type) {
	case int64:
		return x, nil
	case float64:
		if n, ok := wholeFloat(x); ok {
			return nil, o.wants("a whole number", v, fmt.Sprintf("write %d", n))
		}
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(x), 10, 64); err == nil {
			return nil, o.wants("a whole number", v, fmt.Sprintf("write %d, without quotes", n))
		}
	}
	return nil, o.wants("a whole number", v, "")
}

var sized = regexp.MustCompile(`^(\d+)(\.\d+)?([kKmMgGtT]?)$`)

// size reads whole numbers with the suffixes of vLLM's human_readable_int: k, m, g, t count in thousands, K, M, G, T in
// 1024s and only after a whole number.
func (o Option) size(v any) (any, *Problem) {
	want := "a whole number, such as 8192 or 8k"
	if o.Type == SizeOrAuto {
		want = "a whole number, such as 8192 or 8k, or auto"
	}
	switch x := v.(type) {
	case int64:
		if x == -1 && o.Type == SizeOrAuto {
			return "auto", nil
		}
		return x, nil
	case float64:
		if n, ok := wholeFloat(x); ok {
			return n, nil
		}
	case string:
		if o.Type == SizeOrAuto && strings.EqualFold(x, "auto") {
			return "auto", nil
		}
		if n, ok := suffixed(x); ok {
			return n, nil
		}
		if m := sized.FindStringSubmatch(x); m != nil && m[2] != "" && strings.Contains("KMGT", m[3]) && m[3] != "" {
			return nil, o.wants(want, v, fmt.Sprintf("%s counts in 1024s and takes no fraction; %s%s%s counts in thousands", m[3], m[1], m[2], strings.ToLower(m[3])))
		}
		if n, ok := suffixed(strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(x), " ", ""), "b")); ok {
			return nil, o.wants(want, v, fmt.Sprintf("write %d", n))
		}
	}
	return nil, o.wants(want, v, "")
}

func suffixed(s string) (int64, bool) {
	m := sized.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	step := 1000.0
	if m[3] != "" && strings.Contains("KMGT", m[3]) {
		step = 1024
	}
	if m[2] != "" && (step == 1024 || m[3] == "") {
		return 0, false
	}
	f, err := strconv.ParseFloat(m[1]+m[2], 64)
	if err != nil {
		return 0, false
	}
	if m[3] != "" {
		f *= math.Pow(step, float64(1+strings.Index("kmgt", strings.ToLower(m[3]))))
	}
	return wholeFloat(math.Trunc(f))
}

// wholeFloat converts a float that is a whole number and exact as one.
func wholeFloat(f float64) (int64, bool) {
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func (o Option) float(v any) (any, *Problem) {
	switch x := v.(type) {
	case int64:
		return float64(x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, o.wants("a finite number", v, "")
		}
		return x, nil
	case string:
		s := strings.TrimSpace(x)
		if p, ok := strings.CutSuffix(s, "%"); ok {
			if f, err := strconv.ParseFloat(strings.TrimSpace(p), 64); err == nil {
				return nil, o.wants("a number", v, fmt.Sprintf("write %g", f/100))
			}
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return nil, o.wants("a number", v, fmt.Sprintf("write %s, without quotes", s))
		}
	}
	return nil, o.wants("a number", v, "")
}

func (o Option) text(v any) (any, *Problem) {
	switch x := v.(type) {
	case string:
		if strings.ContainsRune(x, 0) {
			return nil, &Problem{Message: o.Name + " contains a NUL character, which no command line can carry"}
		}
		return x, nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case float64: // 0.10 has become 0.1 by now, which is another version
		return nil, o.wants("text", v, "put the value in quotes")
	case bool:
		return nil, o.wants("a value", v, "this flag is not a switch")
	}
	return nil, o.wants("one value", v, "")
}

// json takes a map or a list as YAML gives it, or the same as a string of JSON.
func (o Option) json(v any) (any, *Problem) {
	switch x := v.(type) {
	case map[string]any, []any:
		return x, nil
	case string:
		out, err := decodeJSON(x)
		_, isMap := out.(map[string]any)
		_, isList := out.([]any)
		switch {
		case err == nil && (isMap || isList):
			return out, nil
		case o.Type == JSONOrText && !strings.HasPrefix(strings.TrimSpace(x), "{"):
			return o.text(x)
		}
	}
	return nil, o.wants("a map", v, fmt.Sprintf("for example %s: {key: value}", o.Name))
}

// decodeJSON reads one JSON value with whole numbers as int64.
func decodeJSON(s string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("read JSON: something follows the value")
	}
	return numbers(v), nil
}

func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64() // out of range is an infinity of the right sign, as in JSON readers elsewhere
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

func scalar(name string, v any) (any, *Problem) {
	switch v.(type) {
	case map[string]any, []any:
		return nil, &Problem{Message: fmt.Sprintf("%s wants one value, got %s", name, shown(v)), Hint: "give the whole flag as a map instead"}
	}
	return v, nil
}

func (o Option) choice(v any) *Problem {
	if o.Choices == nil || slices.Contains(o.Choices, fmt.Sprint(v)) {
		return nil
	}
	p := &Problem{Message: fmt.Sprintf("%s cannot be %s", o.Name, shown(v)), Hint: "one of " + strings.Join(o.Choices, ", ")}
	word, isWord := v.(string)
	if best := closest(word, o.Choices); best != "" && isWord {
		p.Hint = "did you mean " + best + "? " + strings.ToUpper(p.Hint[:1]) + p.Hint[1:]
	}
	return p
}

func (o Option) wants(what string, v any, hint string) *Problem {
	return &Problem{Message: fmt.Sprintf("%s wants %s, got %s", o.Name, what, shown(v)), Hint: hint}
}

// shown is a value as a person would recognise it from the file.
func shown(v any) string {
	switch x := v.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(x)
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	default:
		return fmt.Sprint(x)
	}
}
