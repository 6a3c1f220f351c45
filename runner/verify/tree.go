package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// parseTree reads one JSON value, with numbers as they are written.
func parseTree(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the document")
	}
	return tree, nil
}

// diffTree calls say for every place at which two documents differ: the deepest one that still tells. about says which
// trial, cell or check the place belongs to. A side that has nothing there is "(absent)".
func diffTree(path, about string, stored, computed any, say func(path, about, stored, computed string)) {
	switch a := stored.(type) {
	case map[string]any:
		if b, ok := computed.(map[string]any); ok {
			diffObjects(path, about, a, b, say)
			return
		}
	case []any:
		if b, ok := computed.([]any); ok {
			diffLists(path, about, a, b, say)
			return
		}
	default:
		if a == computed && a != nil || a == nil && computed == nil {
			return
		}
	}
	say(path, about, compact(stored), compact(computed))
}

func diffObjects(path, about string, a, b map[string]any, say func(path, about, stored, computed string)) {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		x, inA := a[k]
		y, inB := b[k]
		at := k
		if path != "" {
			at = path + "." + k
		}
		switch {
		case !inA:
			say(at, about, absent, compact(y))
		case !inB:
			say(at, about, compact(x), absent)
		default:
			diffTree(at, about, x, y, say)
		}
	}
}

func diffLists(path, about string, a, b []any, say func(path, about, stored, computed string)) {
	for i := range max(len(a), len(b)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(a):
			say(at, label(about, b[i]), absent, compact(b[i]))
		case i >= len(b):
			say(at, label(about, a[i]), compact(a[i]), absent)
		default:
			diffTree(at, label(about, a[i]), a[i], b[i], say)
		}
	}
}

const absent = "(absent)"

// label adds what an entry of a list is called to what it is a part of.
func label(about string, entry any) string {
	m, ok := entry.(map[string]any)
	if !ok {
		return about
	}
	name := ""
	for _, k := range []string{"id", "slo", "name", "what", "path", "flag"} {
		if s, ok := m[k].(string); ok && name == "" {
			name = s
		}
	}
	if config, ok := m["config"].(string); ok && (name == "" || m["slo"] != nil) {
		name = trim(name + " " + config + " " + loadOf(m["load"]))
	}
	return trim(about + " " + name)
}

func loadOf(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if c, ok := m["concurrency"].(json.Number); ok {
		return "c" + c.String()
	}
	if r, ok := m["rate"].(json.Number); ok {
		return "r" + r.String()
	}
	return ""
}

func trim(s string) string { return string(bytes.Join(bytes.Fields([]byte(s)), []byte(" "))) }

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // it was read from JSON
		return err.Error()
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func quote(s string) string { return strconv.Quote(s) }

// firstLine is the first line in which two texts differ.
func firstLine(stored, computed []byte) Difference {
	a, b := bytes.Split(stored, []byte("\n")), bytes.Split(computed, []byte("\n"))
	for i := range max(len(a), len(b)) {
		x, y := absent, absent
		if i < len(a) {
			x = quote(string(a[i]))
		}
		if i < len(b) {
			y = quote(string(b[i]))
		}
		if x != y {
			return Difference{Path: fmt.Sprintf("line %d", i+1), Stored: x, Again: y}
		}
	}
	return Difference{}
}
