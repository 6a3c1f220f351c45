package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// render is what `benchctl validate` prints.
func render(faults []Fault) string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintln(&b, f.Error())
		if f.Hint != "" {
			fmt.Fprintln(&b, "  hint: "+f.Hint)
		}
	}
	return b.String()
}

func update() bool { return os.Getenv("BENCH_UPDATE") == "1" }

// golden compares got with a file, or rewrites the file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if update() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\ngot\n%s\nwant\n%s", path, got, want)
	}
}

func files(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file is like %s (%v)", pattern, err)
	}
	return paths
}

func TestBadFiles(t *testing.T) {
	paths := files(t, "testdata/bad/*.yaml")
	if len(paths) < 20 {
		t.Errorf("only %d bad files", len(paths))
	}
	for _, p := range paths {
		t.Run(filepath.Base(p), func(t *testing.T) {
			e, faults := Load(p)
			if e != nil || len(faults) == 0 {
				t.Fatalf("%s was accepted", p)
			}
			golden(t, strings.TrimSuffix(p, ".yaml")+".golden", render(faults))
		})
	}
}
