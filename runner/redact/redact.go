// Package redact takes secrets, names of people and machines, and private paths out of what is stored: logs, server
// answers, error messages. It finds values that it was told, whatever they are wrapped in, and what looks like a
// credential by shape or by name. It cannot know a secret that has neither, so it is no licence to log one. It reads no
// environment and no files.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Marker stands where a secret was.
const Marker = "[redacted]"

const (
	minValue = 4 // bytes; a shorter value would redact half of every text
	minName  = 3
)

// A Redactor removes secrets from texts. It is safe for concurrent use. A nil Redactor knows no values and still applies
// every pattern.
type Redactor struct {
	values   [][]byte
	first    [256][]int // values by their first byte
	encoded  []string   // base64 and hexadecimal forms of the values
	keys     []*regexp.Regexp
	patterns []pattern
}

// New returns a Redactor for the given secret values and for names (of users and hosts) that are to be generalised.
// Values shorter than 4 bytes and names shorter than 3, or root, are ignored. The arguments are not kept.
func New(values []string, names ...string) *Redactor {
	r := &Redactor{patterns: patterns(), keys: []*regexp.Regexp{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`),
		regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\\\s]*`), // its end was cut off
	}}
	values = slices.Clone(values)
	// The longest first: a value may contain another.
	slices.SortFunc(values, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for _, v := range slices.Compact(values) {
		if len(v) < minValue {
			continue
		}
		r.first[v[0]] = append(r.first[v[0]], len(r.values))
		r.values = append(r.values, []byte(v))
		r.encoded = append(r.encoded, encodings(v)...)
	}
	for _, n := range names {
		if len(n) >= minName && n != "root" {
			r.patterns = append(r.patterns, namePattern(n))
		}
	}
	return r
}

// Folder generalises an absolute path and everything below it: path is written as. It returns r. A root or a relative
// path is ignored. What was given first wins, so give the deeper of two folders first.
func (r *Redactor) Folder(path, as string) *Redactor {
	path = strings.TrimRight(path, "/")
	if len(path) >= minName && path[0] == '/' {
		r.patterns = append(r.patterns, folderPattern(path, as))
	}
	return r
}

// Bytes returns b without terminal escape sequences, secrets, names and private paths. b is left alone. A value is found
// also where escape sequences split it, where it is percent-encoded, escaped as in JSON, HTML or a Python string, and
// inside base64 or hexadecimal. Redact before cutting a text: half a secret is not found.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil {
		r = New(nil)
	}
	text := r.dropEncoded(r.dropValues(string(stripANSI(b))))
	if strings.Contains(text, "PRIVATE KEY-----") {
		for _, k := range r.keys {
			text = k.ReplaceAllString(text, Marker)
		}
	}
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		out.WriteString(r.line(line))
	}
	return []byte(r.dropValues(out.String())) // once more: what was taken out may have stood inside a value
}

// line applies the patterns to one line.
func (r *Redactor) line(line string) string {
	lower := strings.ToLower(line)
	for _, p := range r.patterns {
		if !p.concerns(lower) {
			continue
		}
		if changed := p.apply(line); changed != line {
			line, lower = changed, strings.ToLower(changed)
		}
	}
	return dropPairs(line)
}

// namePattern finds a name where it is a word of its own.
func namePattern(name string) pattern {
	return pattern{
		hints: []string{strings.ToLower(name)}, to: "${1}[name]",
		re: regexp.MustCompile(`(^|[^A-Za-z0-9_])` + regexp.QuoteMeta(name) + `\b`),
	}
}

// folderPattern matches the path where it stands alone or goes on with a slash, also inside a longer argument
// (--model=/path). JSON may have escaped its slashes. A sibling such as PATH-old is generalised too: too much is better
// than too little.
func folderPattern(path, as string) pattern {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(path), "/", `\\?/`)
	last := path[strings.LastIndexByte(path, '/')+1:]
	return pattern{
		hints: []string{strings.ToLower(last)}, to: "${1}" + strings.ReplaceAll(as, "$", "$$"),
		re: regexp.MustCompile(`(^|[^A-Za-z0-9._~-])` + quoted + `\b`),
	}
}

// String is Bytes for a string.
func (r *Redactor) String(s string) string { return string(r.Bytes([]byte(s))) }

// dropValues replaces every value, in any mixture of the forms that nextUnits knows.
func (r *Redactor) dropValues(text string) string {
	if len(r.values) == 0 {
		return text
	}
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		end := r.matchAt(text, i)
		if end < 0 {
			i++
			continue
		}
		out.WriteString(text[done:i])
		out.WriteString(Marker)
		i, done = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// matchAt returns the end of the longest value that begins at i, or -1.
func (r *Redactor) matchAt(text string, i int) int {
	best := -1
	try := func(candidates []int) {
		for _, k := range candidates {
			if end := matchValue(text, i, r.values[k]); end > best {
				best = end
			}
		}
	}
	switch c := text[i]; c {
	case '%', '\\', '&', '+': // the first byte may be escaped
		var tried [256]bool
		for _, u := range units(text, i) {
			if b := u.value[0]; !tried[b] {
				tried[b] = true
				try(r.first[b])
			}
		}
	default:
		try(r.first[c])
	}
	return best
}

// dropEncoded replaces the whole run of encoding characters around an encoded value: its edges hold a few bits of the
// value as well.
func (r *Redactor) dropEncoded(text string) string {
	for _, e := range r.encoded {
		from := 0
		for {
			at := strings.Index(text[from:], e)
			if at < 0 {
				break
			}
			lo, hi := from+at, from+at+len(e)
			for lo > 0 && isBase64(text[lo-1]) {
				lo--
			}
			for hi < len(text) && isBase64(text[hi]) {
				hi++
			}
			text = text[:lo] + Marker + text[hi:]
			from = lo + len(Marker)
		}
	}
	return text
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}

// minEncoded is how many characters of an encoding must agree; fewer would hit by chance.
const minEncoded = 7

// encodings returns the texts by which v is recognised inside base64, at each of the three places where it may begin in
// a group, and in hexadecimal. Characters that depend on what stands before or after v are left out.
func encodings(v string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			s := enc.EncodeToString([]byte(strings.Repeat("x", before) + v))
			begin := (before*8 + 5) / 6
			end := (before + len(v)) * 8 / 6
			if end-begin >= minEncoded {
				out = append(out, s[begin:end])
			}
		}
	}
	if h := hex.EncodeToString([]byte(v)); len(h) >= 2*minEncoded {
		out = append(out, h, strings.ToUpper(h))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
