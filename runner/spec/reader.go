package spec

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxFaults is how many faults of a file are reported. Finding more than maxLooked of them is not worth the time.
const (
	maxFaults = 50
	maxLooked = 500
)

// reader walks the syntax tree of one file and collects its faults.
type reader struct {
	file   string
	lines  []string
	faults []Fault
	more   int                 // faults that were not kept
	keys   map[string]Position // where each path's key is
	nodes  map[string]ast.Node // its value
}

func (r *reader) add(f Fault) {
	if f.File == "" {
		f.File = r.file
	}
	if r.full() {
		r.more++
		return
	}
	r.faults = append(r.faults, f)
}

// full reports whether there are so many faults that looking for more is pointless.
func (r *reader) full() bool { return len(r.faults) >= maxLooked }

// at reports a fault of the value at node.
func (r *reader) at(n ast.Node, message, hint string) {
	p := r.place(n)
	r.add(Fault{Line: p.Line, Column: p.Column, Message: message, Text: excerpt(source(n)), Hint: hint})
}

// on reports a fault of the value at a path that has been read.
func (r *reader) on(path, message, hint string) {
	if n, ok := r.nodes[path]; ok {
		r.at(n, message, hint)
		return
	}
	p := r.keys[path]
	r.add(Fault{Line: p.Line, Column: p.Column, Message: message, Hint: hint})
}

// place is where a node begins.
func (r *reader) place(n ast.Node) Position {
	t := n.GetToken()
	switch x := n.(type) {
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			t = x.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		t = x.Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return r.clamp(t.Position.Line, t.Position.Column)
}

// clamp keeps a place inside the file, whatever the parser says.
func (r *reader) clamp(line, column int) Position {
	line = min(max(line, 1), max(len(r.lines), 1))
	width := 0
	if len(r.lines) > 0 {
		width = utf8.RuneCountInString(r.lines[line-1])
	}
	return Position{line, min(max(column, 1), width+1)}
}

// source is a node as it is written, for messages.
func source(n ast.Node) string {
	switch x := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.LiteralNode:
		return strconv.Quote(x.Value.Value)
	case *ast.StringNode:
		if number, ok := unquoted(n); ok {
			return number
		}
		return strconv.Quote(x.Value)
	}
	if t := n.GetToken(); t != nil {
		return strings.TrimSpace(t.Value)
	}
	return "a value"
}

// entry is one key of a mapping.
type entry struct {
	key   string
	place Position
	value ast.Node
}

// mapping lists the entries of a map in the order of the file, each key once.
func (r *reader) mapping(n ast.Node, path, example string) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch x := n.(type) {
	case *ast.MappingNode:
		values = x.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{x}
	default:
		r.at(n, fmt.Sprintf("%swant a map, got %s", prefix(path), excerpt(source(n))), forExample(path, example))
		return nil, false
	}
	var out []entry
	seen := map[string]Position{}
	for _, v := range values {
		t := v.Key.GetToken()
		e := entry{key: strings.TrimSpace(t.Value), place: r.clamp(t.Position.Line, t.Position.Column), value: v.Value}
		if first, twice := seen[e.key]; twice {
			r.add(Fault{Line: e.place.Line, Column: e.place.Column, Text: excerpt(e.key),
				Message: fmt.Sprintf("the key %q is here twice", excerpt(e.key)), Hint: fmt.Sprintf("it is also on line %d; one of the two has to go", first.Line)})
			continue
		}
		seen[e.key] = e.place
		full := join(path, e.key)
		r.keys[full], r.nodes[full] = e.place, e.value
		out = append(out, e)
	}
	return out, true
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// prefix names what a message is about.
func prefix(path string) string {
	if path == "" {
		return ""
	}
	return excerpt(path) + ": "
}

func forExample(path, example string) string {
	if example == "" {
		return ""
	}
	return fmt.Sprintf("for example %s: %s", path[strings.LastIndex(path, ".")+1:], example)
}

func (r *reader) want(n ast.Node, path, what, example string) {
	r.at(n, fmt.Sprintf("%swant %s, got %s", prefix(path), what, excerpt(source(n))), forExample(path, example))
}

// str reads text. A number or a switch is refused, because YAML has already changed it (0.10 is 0.1).
func (r *reader) str(n ast.Node, path, example string) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		r.at(n, fmt.Sprintf("%swant text, got %s", prefix(path), excerpt(source(n))), fmt.Sprintf("put it in quotes: %q", source(n)))
		return "", false
	}
	r.want(n, path, "text", example)
	return "", false
}

func (r *reader) boolean(n ast.Node, path string) (bool, bool) {
	if b, ok := n.(*ast.BoolNode); ok {
		return b.Value, true
	}
	hint := ""
	if s, ok := n.(*ast.StringNode); ok {
		switch strings.ToLower(s.Value) {
		case "yes", "on", "true", "y":
			hint = "write true, without quotes"
		case "no", "off", "false", "n":
			hint = "write false, without quotes"
		}
	}
	r.at(n, fmt.Sprintf("%swant true or false, got %s", prefix(path), excerpt(source(n))), hint)
	return false, false
}

// float is a YAML float in the forms that the parser takes for text, such as 1e9.
var float = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// unquoted returns the text of a node that has no quotes and that YAML reads as a number all the same.
func unquoted(n ast.Node) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok || s.Token == nil || s.Token.Type != token.StringType || !float.MatchString(s.Value) {
		return "", false
	}
	return s.Value, true
}

func isNumber(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
}

// whole reads a whole number in plain decimal digits: 010, 0x10 and 1_000 mean something else to other readers.
func (r *reader) whole(n ast.Node, path, example string) (int64, bool) {
	i, isInt := n.(*ast.IntegerNode)
	if !isInt {
		hint := forExample(path, example)
		if f, err := strconv.ParseFloat(strings.TrimSpace(n.GetToken().Value), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1e15 {
			hint = fmt.Sprintf("write %.0f", f)
			if _, plain := unquoted(n); !plain && !isNumber(n) {
				hint += ", without quotes"
			}
		}
		r.at(n, fmt.Sprintf("%swant a whole number, got %s", prefix(path), excerpt(source(n))), hint)
		return 0, false
	}
	v, ok := plainInt(i.GetToken().Value)
	if !ok {
		r.at(n, fmt.Sprintf("%swant a whole number in plain decimal digits, got %s", prefix(path), excerpt(source(n))), fmt.Sprintf("write %v", i.Value))
	}
	return v, ok
}

func plainInt(s string) (int64, bool) {
	digits := strings.TrimLeft(strings.TrimSpace(s), "+-")
	v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return v, err == nil && (digits == "0" || !strings.HasPrefix(digits, "0"))
}

// number reads a finite number.
func (r *reader) number(n ast.Node, path, example string) (float64, bool) {
	switch x := n.(type) {
	case *ast.IntegerNode:
		v, ok := r.whole(n, path, example)
		return float64(v), ok
	case *ast.FloatNode:
		f, err := strconv.ParseFloat(strings.TrimSpace(x.GetToken().Value), 64)
		if err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, true
		}
	case *ast.InfinityNode, *ast.NanNode:
		r.at(n, fmt.Sprintf("%swant a finite number, got %s", prefix(path), excerpt(source(n))), "")
		return 0, false
	case *ast.StringNode:
		v, err := strconv.ParseFloat(strings.TrimSpace(x.Value), 64)
		if _, plain := unquoted(n); plain && err == nil {
			return v, true
		}
		if err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
			r.at(n, fmt.Sprintf("%swant a number, got %s", prefix(path), excerpt(source(n))), fmt.Sprintf("write %s, without quotes", strings.TrimSpace(x.Value)))
			return 0, false
		}
	}
	r.want(n, path, "a number", example)
	return 0, false
}

// value reads anything, as a flag's value may be: bool, int64, float64, string, nil, []any or map[string]any.
func (r *reader) value(n ast.Node, path string) (any, bool) {
	switch x := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.BoolNode:
		return x.Value, true
	case *ast.IntegerNode:
		return r.whole(n, path, "")
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return r.number(n, path, "")
	case *ast.StringNode, *ast.LiteralNode:
		if _, plain := unquoted(n); plain {
			return r.number(n, path, "")
		}
		return r.str(n, path, "")
	case *ast.SequenceNode:
		out, good := make([]any, 0, len(x.Values)), true
		for i, v := range x.Values {
			e, ok := r.value(v, fmt.Sprintf("%s[%d]", path, i))
			out, good = append(out, e), good && ok
		}
		return out, good
	}
	entries, good := r.mapping(n, path, "")
	out := map[string]any{}
	for _, e := range entries {
		v, ok := r.value(e.value, join(path, e.key))
		out[e.key], good = v, good && ok
	}
	return out, good
}
