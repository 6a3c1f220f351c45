package statstest

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a test that only remembers whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCheck(t *testing.T) {
	f := func(size string, hits, n int, low, high float64, want bool) {
		t.Helper()
		t.Setenv("BENCH_CALIBRATE_STATS", size)
		r := &recorder{TB: t}
		Check(r, "share", hits, n, low, high)
		if r.failed != want {
			t.Fatalf("size %q: %d of %d against %v to %v: failed %v", size, hits, n, low, high, r.failed)
		}
	}
	f("", 190, 200, 0.93, 0.97, false)
	f("", 180, 200, 0.93, 0.97, false) // 90 %: 200 runs cannot tell
	f("", 160, 200, 0.93, 0.97, true)  // 80 %: they can, as when t is replaced by the normal distribution at 3 starts
	f("", 200, 200, 0.9, 0.93, true)
	f("full", 3800, 4000, 0.93, 0.97, false)
	f("full", 3719, 4000, 0.93, 0.97, true)
	f("full", 3881, 4000, 0.93, 0.97, true)
}

func TestUpdate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n")
	if err := update(file, "a", "| new |\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := "before\n<!-- a -->\n| new |\n<!-- /a -->\nafter\n"; err != nil || string(got) != want {
		t.Fatalf("%v: %q, want %q", err, got, want)
	}
	if err := update(file, "b", "x"); err == nil {
		t.Fatal("a table without a place was written")
	}
	write("<!-- a -->\nno end\n")
	if err := update(file, "a", "x"); err == nil {
		t.Fatal("a place without an end was overwritten")
	}
	if err := update(filepath.Join(t.TempDir(), "none.md"), "a", "x"); err == nil {
		t.Fatal("a missing file was no error")
	}
}
