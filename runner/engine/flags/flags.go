// Package flags knows the options of vLLM's server, release by release, as each release's own argument parser gives
// them: which exist, what values they take, and which can be negated. It writes no command line (engine/vllm does)
// and knows nothing about what an option is good for.
package flags

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed table.jsonl
var embedded []byte

// tables parses the embedded file once: it is immutable, and a spec with many configs asks often.
var tables = sync.OnceValues(func() (*book, error) { return parseBook(embedded) })

// Type says what value an option takes.
type Type string

// The types of options.
const (
	Bool       Type = "bool"
	Int        Type = "int"
	Float      Type = "float"
	Size       Type = "size"         // a whole number, also 32k (32,000) or 32K (32,768)
	SizeOrAuto Type = "size-or-auto" // a Size, or "auto"
	Text       Type = "text"
	JSON       Type = "json"         // a map or a list
	JSONOrText Type = "json-or-text" // a map, or a word
	Any        Type = "any"          // the parser does not say: any scalar, list or map
)

// Option is one option of one release.
type Option struct {
	Name    string   // kebab-case, without dashes
	Type    Type     // of each element where List is true
	List    bool     // takes several values after its name
	Store   bool     // a Bool without a --no- form: it can only be switched on
	Choices []string // the only values allowed; nil = any
	Default any      // the parser's: bool, float64, string, []any, map[string]any; nil = none, or decided later
	Aliases []string // other names that the release accepts for the same option
}

// Table is the options of one release. The zero Table has none.
type Table struct {
	version string
	asked   string // the version that was asked for; the hints name it where it is another one
	options map[string]Option
	book    *book
}

// Releases returns the releases that have a table, oldest first.
func Releases() []string {
	b, err := tables()
	if err != nil {
		return nil
	}
	return slices.Clone(b.releases)
}

// Nearest returns the table of the newest release at or below version ("x.y.z", optionally ".postN"). The note is
// empty when that is exactly version, and says which release was taken otherwise. The error is for a version that is
// not one, or older than every table.
func Nearest(version string) (Table, string, error) {
	b, err := tables()
	if err != nil {
		return Table{}, "", err
	}
	want, err := parseVersion(version)
	if err != nil {
		return Table{}, "", err
	}
	at := -1
	for i, r := range b.releases {
		if v, err := parseVersion(r); err == nil && slices.Compare(v, want) <= 0 {
			at = i
		}
	}
	if at < 0 {
		return Table{}, "", fmt.Errorf("vLLM %s is older than the oldest release whose options are known, %s", version, b.releases[0])
	}
	t := b.table(b.releases[at])
	t.asked = version
	switch {
	case t.version == version:
		return t, "", nil
	case at == len(b.releases)-1:
		return t, fmt.Sprintf("the options of vLLM %s are not known; those of %s, the newest known, were used", version, t.version), nil
	}
	return t, fmt.Sprintf("the options of vLLM %s are not known; those of %s, the nearest release below, were used", version, t.version), nil
}

// Newest returns the table of the newest release.
func Newest() (Table, error) {
	b, err := tables()
	if err != nil {
		return Table{}, err
	}
	return b.table(b.releases[len(b.releases)-1]), nil
}

// Version is the release that the table was read from.
func (t Table) Version() string { return t.version }

// Names returns the options' names, sorted.
func (t Table) Names() []string {
	names := make([]string, 0, len(t.options))
	for n := range t.options {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Lookup returns an option. The caller must not change its slices.
func (t Table) Lookup(name string) (Option, bool) {
	o, ok := t.options[name]
	return o, ok
}

// Has reports whether the release has the option.
func (t Table) Has(name string) bool { _, ok := t.options[name]; return ok }

// IsBool reports whether the option is on or off and takes no value.
func (t Table) IsBool(name string) bool { return t.options[name].Type == Bool }

// Negatable reports whether the option is a boolean with a --no- form.
func (t Table) Negatable(name string) bool {
	o := t.options[name]
	return o.Type == Bool && !o.Store
}

// IsList reports whether the option takes several values after its name (--x a b c).
func (t Table) IsList(name string) bool { return t.options[name].List }

// parseVersion turns "x.y.z" or "x.y.z.postN" into numbers that compare in order.
func parseVersion(s string) ([]int, error) {
	main, post, hasPost := strings.Cut(s, ".post")
	parts := strings.Split(main, ".")
	if hasPost {
		parts = append(parts, post)
	} else {
		parts = append(parts, "0")
	}
	if len(parts) != 4 {
		return nil, notARelease(s)
	}
	out := make([]int, 0, 4)
	for _, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != p {
			return nil, notARelease(s)
		}
		out = append(out, int(n))
	}
	return out, nil
}

func notARelease(s string) error { return fmt.Errorf("%q is not a release such as 0.25.1", s) }

var errEmptyBook = errors.New("read the option tables: no release in them")
