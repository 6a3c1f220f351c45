package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"h100-inference-control-plane/runner/engine/catalog"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/verify"
)

// leaves calls use with every number, text, truth value and null of a document, and a function that puts another value
// in its place.
func leaves(path string, v any, set func(any), use func(path string, v any, set func(any))) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			leaves(path+"."+k, x[k], func(v any) { x[k] = v }, use)
		}
	case []any:
		for i := range x {
			leaves(fmt.Sprintf("%s[%d]", path, i), x[i], func(v any) { x[i] = v }, use)
		}
	default:
		use(path, v, set)
	}
}

func tree(t testing.TB, doc []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestEveryValue changes every kind of value that the document has, one at a time: each change is named, or the value is
// one that the report says was taken as it stands.
func TestEveryValue(t *testing.T) {
	base := read(t, sound)
	doc := tree(t, base["run.json"].Data)
	seen := map[string]bool{".schema": true}
	taken := 0
	leaves("", doc, nil, func(path string, v any, set func(any)) {
		kind := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]")
		kind = regexp.MustCompile(`effective\..*`).ReplaceAllString(kind, "effective")
		w := other(v)
		if seen[kind] || w == nil {
			return
		}
		seen[kind] = true
		set(w)
		folder := fstest.MapFS{}
		for p, x := range base {
			folder[p] = x
		}
		folder["run.json"] = &fstest.MapFile{Data: written(t, doc)}
		set(v)
		r := check(t, folder)
		if !r.OK() {
			return
		}
		taken++
		if !named(r, strings.TrimPrefix(kind, ".")) {
			t.Errorf("%s: %v instead of %v is neither a difference nor named as taken as it stands", path, w, v)
		}
	})
	if len(seen) < 120 || taken > 40 {
		t.Errorf("%d kinds of values, of which %d were taken as they stand", len(seen), taken)
	}
}

// other is another value of the same kind; nil for a null.
func other(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n + 1
		}
		f, err := x.Float64()
		if err != nil {
			return nil
		}
		return f*1.5 + 1
	case string:
		if at, err := time.Parse(time.RFC3339, x); err == nil {
			return at.AddDate(1, 0, 0)
		}
		return x + "x"
	case bool:
		return !x
	}
	return nil
}

// named is true when the report says that a value, or what it is a part of, was taken as it stands.
func named(r *verify.Report, kind string) bool {
	for _, s := range r.NotRecomputed {
		for _, what := range strings.Split(s.What, ", ") {
			if kind == what || strings.HasPrefix(kind, what+".") || strings.HasPrefix(kind, what+"[") {
				return true
			}
		}
	}
	return false
}

// written is the document as a careful forger would write it.
func written(t testing.TB, doc any) []byte {
	t.Helper()
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	run, err := result.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = result.Marshal(run); err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzValue puts any JSON into any place of the document: nothing panics and nothing takes for ever.
func FuzzValue(f *testing.F) {
	base := read(f, sound)
	for i, v := range []string{"0", "-1", "1e308", "9223372036854775807", `""`, "null", "[]", "{}", "true", `"../x"`, `[null]`} {
		f.Add(uint16(97*i), v)
	}
	f.Fuzz(func(t *testing.T, place uint16, value string) {
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			return
		}
		doc := tree(t, base["run.json"].Data)
		n := 0
		leaves("", doc, nil, func(_ string, _ any, set func(any)) {
			if n++; n == int(place) {
				set(v)
			}
		})
		folder := fstest.MapFS{}
		for p, x := range base {
			folder[p] = x
		}
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		folder["run.json"] = &fstest.MapFile{Data: b}
		if _, err := verify.Folder(folder, verify.Options{Engine: catalog.Get}); err != nil && !errors.Is(err, result.ErrSchema) {
			t.Fatal(err)
		}
	})
}
