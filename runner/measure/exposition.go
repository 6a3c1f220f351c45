package measure

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"h100-inference-control-plane/runner/engine"
)

// A Sample is one value of one series.
type Sample struct {
	Name   string
	Labels []Label // in the order of the text
	Value  float64
	text   string // name and labels as they were written; "" for a sample that was not parsed
}

// Label is a name and a value.
type Label struct{ Name, Value string }

// A Scrape is one reading of an engine's metrics.
type Scrape struct {
	At      time.Time // whole milliseconds
	Body    []byte    // as it came; nil between a window's edges, where nobody reads it
	Samples []Sample
	Kinds   map[string]engine.Kind // by family name, as the TYPE lines say; OpenMetrics names counters without _total
}

const (
	// maxExposition bounds a scrape. vLLM's is about 50 KB.
	maxExposition = 16 << 20
	maxSamples    = 200_000
)

// ParseExposition reads Prometheus text (version 0.0.4) and OpenMetrics 1.0 text alike. The library's parser takes only
// the first, and an engine may answer with the second without being asked (vLLM's Rust frontend); they differ in what
// is optional here: exemplars, time stamps (both are dropped) and the final # EOF. A line that is neither is an error
// with its number.
func ParseExposition(at time.Time, body []byte) (*Scrape, error) {
	return parseExposition(at, body, map[string]Sample{})
}

// parseExposition takes the names and labels of series that it knows from known, and adds those that it does not: a
// window has many scrapes of the same series.
func parseExposition(at time.Time, body []byte, known map[string]Sample) (*Scrape, error) {
	if len(body) > maxExposition {
		return nil, fmt.Errorf("metrics of %d bytes are over the limit of %d", len(body), maxExposition)
	}
	s := &Scrape{At: at.Truncate(time.Millisecond), Body: body, Kinds: map[string]engine.Kind{}}
	for n := 1; len(body) > 0; n++ {
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		text := strings.TrimSpace(string(line))
		switch {
		case text == "":
		case text[0] == '#':
			s.comment(text)
		default:
			x, err := parseSample(text)
			if err != nil {
				return nil, fmt.Errorf("metrics line %d: %w", n, err)
			}
			if len(s.Samples) == maxSamples {
				return nil, fmt.Errorf("metrics line %d: more than %d samples", n, maxSamples)
			}
			if k, ok := known[x.text]; ok {
				x.Name, x.Labels, x.text = k.Name, k.Labels, k.text
			} else {
				known[x.text] = x
			}
			s.Samples = append(s.Samples, x)
		}
	}
	return s, nil
}

func (s *Scrape) comment(text string) {
	f := strings.Fields(text)
	if len(f) != 4 || f[0] != "#" || f[1] != "TYPE" {
		return
	}
	switch f[3] {
	case "counter":
		s.Kinds[f[2]] = engine.Counter
	case "gauge":
		s.Kinds[f[2]] = engine.Gauge
	case "histogram", "summary":
		s.Kinds[f[2]] = engine.Histogram
	case "info":
		s.Kinds[f[2]] = engine.Info
	}
}

// parseSample reads `name{a="b"} 1.5 [time stamp] [# exemplar]`.
func parseSample(text string) (Sample, error) {
	var x Sample
	i := strings.IndexAny(text, "{ \t")
	if i <= 0 {
		return x, fmt.Errorf("no value in %q", clip(text))
	}
	x.Name = text[:i]
	if !validName(x.Name) {
		return x, fmt.Errorf("%q is not a metric name", clip(x.Name))
	}
	rest := text[i:]
	if rest[0] == '{' {
		var err error
		if x.Labels, rest, err = parseLabels(rest[1:]); err != nil {
			return x, fmt.Errorf("labels of %s: %w", x.Name, err)
		}
	}
	x.text = strings.TrimSpace(text[:len(text)-len(rest)])
	f := strings.Fields(rest)
	if len(f) == 0 {
		return x, fmt.Errorf("no value for %s", x.Name)
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil && !math.IsInf(v, 0) {
		return x, fmt.Errorf("value of %s: %q is not a number", x.Name, clip(f[0]))
	}
	if len(f) > 1 && f[1] != "#" {
		if _, err := strconv.ParseFloat(f[1], 64); err != nil {
			return x, fmt.Errorf("time stamp of %s: %q is not a number", x.Name, clip(f[1]))
		}
	}
	x.Value = v
	return x, nil
}

// parseLabels reads `a="b",c="d"}` and returns what follows the brace.
func parseLabels(s string) ([]Label, string, error) {
	var out []Label
	for {
		s = strings.TrimLeft(s, " \t,")
		if s == "" {
			return nil, "", fmt.Errorf("no closing brace")
		}
		if s[0] == '}' {
			return out, s[1:], nil
		}
		eq := strings.IndexByte(s, '=')
		if eq < 0 {
			return nil, "", fmt.Errorf("no = after %q", clip(s))
		}
		name := strings.TrimSpace(s[:eq])
		if !validName(name) {
			return nil, "", fmt.Errorf("%q is not a label name", clip(name))
		}
		s = strings.TrimLeft(s[eq+1:], " \t")
		value, rest, err := quoted(s)
		if err != nil {
			return nil, "", fmt.Errorf("value of %s: %w", name, err)
		}
		out = append(out, Label{name, value})
		s = rest
	}
}

// quoted reads a string in double quotes with the escapes \\, \" and \n.
func quoted(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", fmt.Errorf("no quote at %q", clip(s))
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			if !utf8.ValidString(b.String()) {
				return "", "", fmt.Errorf("not UTF-8")
			}
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("no closing quote")
}

func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && c != ':' && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "?") + "..."
	}
	return s
}

// Has reports whether the scrape has a sample under the name, or of the histogram with that base name.
func (s *Scrape) Has(name string, kind engine.Kind) bool {
	if kind == engine.Histogram {
		name += "_count"
	}
	for _, x := range s.Samples {
		if x.Name == name {
			return true
		}
	}
	return false
}

// Sum adds the values of all samples of a name; ok is false when there is none.
func (s *Scrape) Sum(name string) (v float64, ok bool) {
	for _, x := range s.Samples {
		if x.Name == name {
			v, ok = v+x.Value, true
		}
	}
	return v, ok
}

// grows reports whether a series only ever grows, so that one that is absent from a scrape was 0 then.
func (s *Scrape) grows(name string) bool {
	if k, ok := s.Kinds[name]; ok {
		return k == engine.Counter // under a histogram's or summary's own name stand quantiles, which go down too
	}
	for _, suffix := range []string{"_total", "_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			switch s.Kinds[base] {
			case engine.Counter, engine.Histogram:
				return true
			case engine.Gauge, engine.Info:
				return false
			}
			return suffix == "_total" || suffix == "_bucket"
		}
	}
	return false
}
