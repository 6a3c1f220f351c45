package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse looks for files that make the reader panic, that it refuses without a place or a message, or that change
// their meaning when they are rendered and read again.
func FuzzParse(f *testing.F) {
	for _, p := range append(goodFiles(f), files(f, "testdata/bad/*.yaml")...) {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(small))
	f.Add([]byte("a: |\n  x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join("testdata", "good", "x.yaml")
		e, faults := Parse(path, data)
		if (e == nil) != (len(faults) > 0) {
			t.Fatalf("experiment %v with %d faults", e, len(faults))
		}
		lines := strings.Count(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n") + 1
		for _, x := range faults {
			if x.Message == "" || x.File == "" || strings.Contains(x.Error(), "\n") || !utf8.ValidString(x.Message) {
				t.Fatalf("a fault that cannot be shown: %#v", x)
			}
			if x.File == path && (x.Line < 1 || x.Column < 1 || x.Line > lines) {
				t.Fatalf("a fault outside the file of %d lines: %#v", lines, x)
			}
		}
		if e == nil {
			return
		}
		y, err := e.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, faults := Parse(path, y)
		if len(faults) > 0 {
			t.Fatalf("rendered as\n%s\nit has faults:\n%s", y, render(faults))
		}
		if a, b := canonical(t, e), canonical(t, again); a != b {
			t.Fatalf("rendered as\n%s\nit means\n%s\nnot\n%s", y, b, a)
		}
	})
}
