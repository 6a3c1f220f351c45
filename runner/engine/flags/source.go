package flags

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// source is what tools/flagtable/dump.py writes: a release's argument parser as JSON.
type source struct {
	Version string                  `json:"version"`
	Flags   map[string]sourceOption `json:"flags"`
}

type sourceOption struct {
	Annotation string   `json:"annotation"` // type of the engine argument behind the option, where there is one
	Type       string   `json:"type"`       // name of the parser's conversion function
	Nargs      any      `json:"nargs"`
	Choices    []string `json:"choices"`
	Negatable  bool     `json:"negatable"`
	Default    any      `json:"default"`
	Aliases    []string `json:"aliases"`
}

// maxDefault is the length of the JSON of the longest default that is kept. Longer ones are whole configurations.
const maxDefault = 200

// Add returns the embedded form of tables (nil = none yet) with release version added or replaced by what dump, the
// JSON of its argument parser, says. The same tables in any order give the same bytes.
func Add(tables []byte, version string, dump []byte) ([]byte, error) {
	if _, err := parseVersion(version); err != nil {
		return nil, err
	}
	var src source
	if err := json.Unmarshal(dump, &src); err != nil {
		return nil, fmt.Errorf("read the options of vLLM %s: %w", version, err)
	}
	if src.Version != "" && src.Version != version {
		return nil, fmt.Errorf("the file has the options of vLLM %s, not of %s", src.Version, version)
	}
	if len(src.Flags) == 0 {
		return nil, errors.New("the file has no options")
	}
	old := &book{variants: map[string][]variant{}}
	if len(tables) > 0 {
		var err error
		if old, err = parseBook(tables); err != nil {
			return nil, err
		}
	}
	b := old.with(version)
	at := slices.Index(b.releases, version)
	for name, o := range src.Flags {
		opt, err := o.option(name)
		if err != nil {
			return nil, fmt.Errorf("option %s of vLLM %s: %w", name, version, err)
		}
		b.put(at, opt)
	}
	return b.bytes()
}

// with returns a copy that lists version, with no option in it.
func (b *book) with(version string) *book {
	out := &book{releases: slices.Clone(b.releases), variants: map[string][]variant{}}
	if !slices.Contains(out.releases, version) {
		out.releases = append(out.releases, version)
	}
	slices.SortFunc(out.releases, func(x, y string) int {
		a, _ := parseVersion(x)
		b, _ := parseVersion(y)
		return slices.Compare(a, b)
	})
	for name, vs := range b.variants {
		for _, v := range vs {
			in := make([]bool, len(out.releases))
			for i, r := range b.releases {
				in[slices.Index(out.releases, r)] = v.in[i] && r != version
			}
			if slices.Contains(in, true) {
				out.variants[name] = append(out.variants[name], variant{option: v.option, in: in})
			}
		}
	}
	return out
}

func (b *book) put(at int, o Option) {
	for i := range b.variants[o.Name] {
		if v := &b.variants[o.Name][i]; reflect.DeepEqual(v.option, o) {
			v.in[at] = true
			return
		}
	}
	v := variant{option: o, in: make([]bool, len(b.releases))}
	v.in[at] = true
	b.variants[o.Name] = append(b.variants[o.Name], v)
}

func (s sourceOption) option(name string) (Option, error) {
	o := Option{Name: name}
	if len(s.Choices) > 0 {
		o.Choices = s.Choices
	}
	if len(s.Aliases) > 0 {
		o.Aliases = s.Aliases
	}
	var err error
	if o.Type, err = s.kind(name); err != nil {
		return o, err
	}
	o.List = s.Nargs == "+" || s.Nargs == "*"
	o.Store = o.Type == Bool && !s.Negatable
	o.Default, err = keptDefault(s.Default, o.Type)
	return o, err
}

var (
	dictLike = regexp.MustCompile(`\bdict\b|Config\b|ConfigArgs\b`)
	listOf   = regexp.MustCompile(`^list\[(int|float)\]`)
)

// kind reads the type from the parser's conversion where it has one, else from the annotation. One option's conversion
// is hidden in a wrapper: the parser reads kv-cache-memory-bytes as it reads max-num-batched-tokens.
func (s sourceOption) kind(name string) (Type, error) {
	if name == "kv-cache-memory-bytes" {
		return Size, nil
	}
	switch s.Type {
	case "bool":
		return Bool, nil
	case "int":
		return Int, nil
	case "float":
		return Float, nil
	case "human_readable_int":
		return Size, nil
	case "human_readable_int_or_auto":
		return SizeOrAuto, nil
	case "parse_dataclass", "loads":
		return JSON, nil
	case "union_dict_and_str":
		return JSONOrText, nil
	case "str", "parse_reasoning_parser":
		return Text, nil
	case "":
		return s.annotated(), nil
	}
	return "", fmt.Errorf("the parser's type %q is new: say in kind() what values it takes", s.Type)
}

func (s sourceOption) annotated() Type {
	a := s.Annotation
	if m := listOf.FindStringSubmatch(a); m != nil {
		return Type(m[1])
	}
	switch {
	case a == "" || strings.HasPrefix(a, "list[int | str]"):
		return Any
	case strings.HasPrefix(a, "int |"):
		return Int
	case strings.HasPrefix(a, "float |"):
		return Float
	case dictLike.MatchString(a):
		return JSON
	}
	return Text
}

// keptDefault drops what is no value: the parser's own marks, and the Python representation of whole configurations.
func keptDefault(v any, t Type) (any, error) {
	s, isString := v.(string)
	if v == nil || s == "==SUPPRESS==" || isString && (t == JSON || strings.ContainsAny(s, "({<")) {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write its default: %w", err)
	}
	if len(b) > maxDefault {
		return nil, nil
	}
	return v, nil
}
