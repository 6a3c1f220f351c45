package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// The structs of file.go describe the file once, for the reader here and for the JSON Schema: names, what may be left
// out (omitempty), and in the jsonschema tag the enum, minimum, maximum, pattern and so on. The eg tag is an example,
// shown where a value is missing or has another type; the says tag puts a pattern into words.

// selfReader is a type whose form in the file is not that of a Go type.
type selfReader interface {
	read(r *reader, n ast.Node, path string, ru rules) bool
}

// rules is what tags say of a value.
type rules struct {
	enum                       []string
	minimum, maximum, moreThan *float64
	pattern                    *regexp.Regexp
	says                       string
	maxLength, maxItems        int
	minItems                   int
	unique                     bool
	example                    string
}

// decode reads node n into v and reports whether it is good. What is not good has been reported.
func (r *reader) decode(n ast.Node, path string, v reflect.Value, ru rules) bool {
	if v.CanAddr() {
		if s, ok := v.Addr().Interface().(selfReader); ok {
			return s.read(r, n, path, ru)
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		good := r.decode(n, path, p.Elem(), ru)
		_, ownForm := p.Interface().(selfReader)
		if good || p.Elem().Kind() == reflect.Struct && !ownForm { // what is good inside it can still be checked
			v.Set(p)
		}
		return good
	case reflect.Struct:
		return r.structure(n, path, v, ru)
	case reflect.Slice:
		return r.slice(n, path, v, ru)
	case reflect.String:
		if ru.pattern != nil && isNumber(n) && !ru.pattern.MatchString(source(n)) {
			r.want(n, path, ru.says, ru.example)
			return false
		}
		s, ok := r.str(n, path, ru.example)
		v.SetString(s)
		return ok && r.worded(n, path, s, ru)
	case reflect.Int, reflect.Int64:
		i, ok := r.whole(n, path, ru.example)
		v.SetInt(i)
		return ok && r.bounded(n, path, float64(i), ru)
	case reflect.Float64:
		f, ok := r.number(n, path, ru.example)
		v.SetFloat(f)
		return ok && r.bounded(n, path, f, ru)
	case reflect.Bool:
		b, ok := r.boolean(n, path)
		v.SetBool(b)
		return ok
	}
	panic("spec: a field of type " + v.Type().String() + " cannot be read")
}

func (r *reader) structure(n ast.Node, path string, v reflect.Value, ru rules) bool {
	entries, good := r.mapping(n, path, ru.example)
	if !good {
		return false
	}
	fields := fieldsOf(v.Type())
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	found := map[string]bool{}
	for _, e := range entries {
		i := slices.Index(known, e.key)
		if i < 0 {
			r.unknownKey(e, path, known)
			found[closest(e.key, known)] = true // a misspelt key is one fault, not two
			good = false
			continue
		}
		found[e.key] = true
		if !r.decode(e.value, join(path, e.key), v.Field(fields[i].index), fields[i].rules) {
			good = false
		}
	}
	for _, f := range fields {
		if !f.optional && !found[f.name] {
			what := "the experiment"
			if path != "" {
				what = path
			}
			r.at(n, fmt.Sprintf("%s has no %s", excerpt(what), f.name), forExample(f.name, f.rules.example))
			good = false
		}
	}
	return good
}

func (r *reader) unknownKey(e entry, path string, known []string) {
	where := ""
	if path != "" {
		where = " in " + excerpt(path)
	}
	r.add(Fault{Line: e.place.Line, Column: e.place.Column, Text: excerpt(e.key),
		Message: fmt.Sprintf("unknown key %q%s", excerpt(e.key), where), Hint: oneOf(e.key, known)})
}

func (r *reader) slice(n ast.Node, path string, v reflect.Value, ru rules) bool {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.want(n, path, "a list", ru.example)
		return false
	}
	good := r.counted(n, path, len(s.Values), ru)
	out := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	each := ru
	each.example = ""
	for i, e := range s.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.keys[at], r.nodes[at] = r.place(e), e
		good = r.decode(e, at, out.Index(i), each) && good
	}
	v.Set(out)
	return good && (!ru.unique || r.distinct(path, out))
}

func (r *reader) counted(n ast.Node, path string, count int, ru rules) bool {
	switch {
	case count < ru.minItems:
		r.at(n, fmt.Sprintf("%swant a list with at least one entry", prefix(path)), forExample(path, ru.example))
		return false
	case ru.maxItems > 0 && count > ru.maxItems:
		r.at(n, fmt.Sprintf("%s%d entries; at most %d are allowed", prefix(path), count, ru.maxItems), "")
		return false
	}
	return true
}

func (r *reader) distinct(path string, list reflect.Value) bool {
	good, seen := true, map[any]int{}
	for i := range list.Len() {
		x := list.Index(i).Interface()
		if _, twice := seen[x]; twice {
			r.on(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s%v is in the list twice", prefix(path), x), "")
			good = false
		}
		seen[x] = i
	}
	return good
}

func (r *reader) bounded(n ast.Node, path string, f float64, ru rules) bool {
	from, low := "from", ru.minimum
	if ru.moreThan != nil {
		from, low = "above", ru.moreThan
	}
	tooLow := low != nil && (f < *low || ru.moreThan != nil && f == *low)
	tooHigh := ru.maximum != nil && f > *ru.maximum
	if !tooLow && !tooHigh {
		return true
	}
	span := ""
	switch {
	case low != nil && ru.maximum != nil:
		span = fmt.Sprintf("%s %s up to %s", from, thousands(*low), thousands(*ru.maximum))
	case low != nil:
		span = fmt.Sprintf("%s %s up", from, thousands(*low))
	default:
		span = "up to " + thousands(*ru.maximum)
	}
	r.at(n, fmt.Sprintf("%s%s is out of range: want a number %s", prefix(path), excerpt(source(n)), span), "")
	return false
}

// thousands writes a limit as people read it: 1,000,000.
func thousands(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}

func (r *reader) worded(n ast.Node, path, s string, ru rules) bool {
	switch {
	case ru.enum != nil && !slices.Contains(ru.enum, s):
		hint := ""
		if best := closest(s, ru.enum); best != "" && len(ru.enum) > 1 {
			hint = "did you mean " + best + "?"
		}
		r.at(n, fmt.Sprintf("%swant %s, got %s", prefix(path), strings.Join(ru.enum, " or "), excerpt(source(n))), hint)
	case ru.enum == nil && strings.TrimSpace(s) == "":
		r.at(n, prefix(path)+"it is empty", forExample(path, ru.example))
	case ru.maxLength > 0 && len([]rune(s)) > ru.maxLength:
		r.at(n, fmt.Sprintf("%s%d characters; at most %d are allowed", prefix(path), len([]rune(s)), ru.maxLength), "")
	case ru.pattern != nil && !ru.pattern.MatchString(s):
		r.at(n, fmt.Sprintf("%swant %s, got %s", prefix(path), ru.says, excerpt(source(n))), forExample(path, ru.example))
	default:
		return true
	}
	return false
}

// field is one key of a struct.
type field struct {
	name     string
	optional bool
	index    int
	rules    rules
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, options, _ := strings.Cut(tag.Get("json"), ",")
		ru := parseRules(tag.Get("jsonschema"))
		ru.example, ru.says = tag.Get("eg"), tag.Get("says")
		out = append(out, field{name, options == "omitempty", i, ru})
	}
	return out
}

// parseRules reads the part of a jsonschema tag that the reader enforces. An unknown word is a mistake in file.go.
func parseRules(tag string) rules {
	var ru rules
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		f, _ := strconv.ParseFloat(value, 64)
		switch key {
		case "", "default":
		case "enum":
			ru.enum = append(ru.enum, value)
		case "minimum":
			ru.minimum = &f
		case "exclusiveMinimum":
			ru.moreThan = &f
		case "maximum":
			ru.maximum = &f
		case "pattern":
			ru.pattern = regexp.MustCompile(value)
		case "maxLength":
			ru.maxLength = int(f)
		case "minItems":
			ru.minItems = int(f)
		case "maxItems":
			ru.maxItems = int(f)
		case "uniqueItems":
			ru.unique = true
		default:
			panic("spec: unknown rule " + part)
		}
	}
	return ru
}
