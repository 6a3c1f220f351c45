// Package statstest is what calibration tests share: their size, how close to its nominal value a counted share must be,
// and the table of numbers that goes into the docs. It computes no statistics of its own.
package statstest

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"h100-inference-control-plane/runner/stats"
)

// Full reports whether calibration runs at full size: BENCH_CALIBRATE_STATS=full, as `make calibrate-stats` sets it.
func Full() bool { return os.Getenv("BENCH_CALIBRATE_STATS") == "full" }

// Size is full at full size and ci otherwise.
func Size(ci, full int) int {
	if Full() {
		return full
	}
	return ci
}

// Check fails t unless hits of n agree with a share: at full size it must lie within low..high; in a small run, which
// could not tell these apart, its 99.9 % interval must hold some value within low..high.
func Check(t testing.TB, what string, hits, n int, low, high float64) {
	t.Helper()
	iv, err := stats.Proportion(hits, n, 0.999)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if Full() {
		iv.Low, iv.High = iv.Estimate, iv.Estimate
	}
	if iv.High < low || iv.Low > high {
		t.Errorf("%s: %d of %d (%.1f %%), want %.1f to %.1f %%", what, hits, n, 100*iv.Estimate, 100*low, 100*high)
	}
}

// Percent formats a share for a table.
func Percent(hits, n int) string { return fmt.Sprintf("%.1f %%", 100*float64(hits)/float64(n)) }

// Table shows a Markdown table. At full size it goes to stdout, and with BENCH_UPDATE=1 also into file, between the
// lines "<!-- name -->" and "<!-- /name -->"; otherwise it goes to the test's log.
func Table(t testing.TB, file, name, table string) {
	t.Helper()
	if !Full() {
		t.Logf("%s\n%s", name, table)
		return
	}
	fmt.Fprintf(os.Stdout, "\n%s\n\n%s", name, table)
	if os.Getenv("BENCH_UPDATE") != "1" {
		return
	}
	if err := update(file, name, table); err != nil {
		t.Errorf("write table %s: %v", name, err)
	}
}

func update(file, name, table string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte("<!-- "+name+" -->\n"))
	_, after, closed := bytes.Cut(rest, []byte("<!-- /"+name+" -->\n"))
	if !ok || !closed {
		return fmt.Errorf("%s has no place for it", file)
	}
	text := fmt.Sprintf("%s<!-- %s -->\n%s<!-- /%s -->\n%s", before, name, table, name, after)
	return os.WriteFile(file, []byte(text), 0o644)
}
