package flags

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// book is every table. On disk it is JSON lines: the first names the releases, each other one is an option as one or
// more releases have it, so that an option that never changed is one line.
type book struct {
	releases []string             // oldest first
	variants map[string][]variant // by option name
}

// variant is an option in the releases that have it in this form.
type variant struct {
	option Option
	in     []bool // by release
}

// row is a line of the file.
type row struct {
	Flag    string   `json:"flag"`
	In      string   `json:"in"` // "0.11.2..0.17.1 0.25.1": ranges of known releases, ends included
	Type    Type     `json:"type"`
	List    bool     `json:"list,omitempty"`
	Store   bool     `json:"store,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Default any      `json:"default,omitempty"`
	Aliases []string `json:"aliases,omitempty"`
}

type header struct {
	Releases []string `json:"releases"`
}

func parseBook(data []byte) (*book, error) {
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	var h header
	if err := json.Unmarshal(lines[0], &h); err != nil {
		return nil, fmt.Errorf("read the option tables: line 1: %w", err)
	}
	if len(h.Releases) == 0 {
		return nil, errEmptyBook
	}
	b := &book{releases: h.Releases, variants: map[string][]variant{}}
	for i, l := range lines[1:] {
		var r row
		if err := json.Unmarshal(l, &r); err != nil {
			return nil, fmt.Errorf("read the option tables: line %d: %w", i+2, err)
		}
		in, err := b.expand(r.In)
		if err != nil {
			return nil, fmt.Errorf("read the option tables: line %d: %w", i+2, err)
		}
		b.variants[r.Flag] = append(b.variants[r.Flag], variant{in: in, option: Option{
			Name: r.Flag, Type: r.Type, List: r.List, Store: r.Store, Choices: r.Choices, Default: r.Default, Aliases: r.Aliases,
		}})
	}
	return b, nil
}

func (b *book) expand(in string) ([]bool, error) {
	out := make([]bool, len(b.releases))
	for span := range strings.FieldsSeq(in) {
		first, last, isRange := strings.Cut(span, "..")
		if !isRange {
			last = first
		}
		i, j := slices.Index(b.releases, first), slices.Index(b.releases, last)
		if i < 0 || j < i {
			return nil, fmt.Errorf("%q is not a range of %v", span, b.releases)
		}
		for ; i <= j; i++ {
			out[i] = true
		}
	}
	return out, nil
}

func (b *book) compact(in []bool) string {
	var spans []string
	for i := 0; i < len(in); i++ {
		if !in[i] {
			continue
		}
		j := i
		for j+1 < len(in) && in[j+1] {
			j++
		}
		span := b.releases[i]
		if j > i {
			span += ".." + b.releases[j]
		}
		spans = append(spans, span)
		i = j
	}
	return strings.Join(spans, " ")
}

// bytes writes the book in its one form: options by name, their variants by age.
func (b *book) bytes() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{b.releases}); err != nil {
		return nil, fmt.Errorf("write the option tables: %w", err)
	}
	names := make([]string, 0, len(b.variants))
	for n := range b.variants {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		vs := slices.Clone(b.variants[n])
		slices.SortFunc(vs, func(x, y variant) int { return slices.Index(x.in, true) - slices.Index(y.in, true) })
		for _, v := range vs {
			o := v.option
			r := row{o.Name, b.compact(v.in), o.Type, o.List, o.Store, o.Choices, o.Default, o.Aliases}
			if err := enc.Encode(r); err != nil {
				return nil, fmt.Errorf("write the option tables: %s: %w", n, err)
			}
		}
	}
	return out.Bytes(), nil
}

func (b *book) table(version string) Table {
	at := slices.Index(b.releases, version)
	t := Table{version: version, asked: version, options: map[string]Option{}, book: b}
	for name, vs := range b.variants {
		for _, v := range vs {
			if at >= 0 && v.in[at] {
				t.options[name] = v.option
			}
		}
	}
	return t
}

// has reports, by release, whether the option exists in it.
func (b *book) has(name string) []bool {
	out := make([]bool, len(b.releases))
	for _, v := range b.variants[name] {
		for i, in := range v.in {
			out[i] = out[i] || in
		}
	}
	return out
}
