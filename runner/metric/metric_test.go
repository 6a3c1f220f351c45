package metric_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/metric"
)

func TestReferenceGolden(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	got := metric.Reference()
	if os.Getenv("BENCH_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (BENCH_UPDATE=1 writes it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: BENCH_UPDATE=1 go test ./runner/metric rewrites it", path)
	}
}

func TestTable(t *testing.T) {
	units := map[metric.Unit]bool{metric.Seconds: true, metric.Tokens: true, metric.Requests: true, metric.RequestsPerSecond: true,
		metric.TokensPerSecond: true, metric.Ratio: true, metric.Bytes: true, metric.Count: true,
		metric.Hertz: true, metric.Watts: true, metric.Joules: true, metric.JoulesPerToken: true, metric.Celsius: true}
	seen := map[string]bool{}
	for _, g := range metric.Groups() {
		for _, m := range g.Metrics {
			switch {
			case seen[m.Name]:
				t.Errorf("%s is there twice", m.Name)
			case !units[m.Unit]:
				t.Errorf("%s has the unknown unit %q", m.Name, m.Unit)
			case !strings.HasSuffix(m.Definition, "."):
				t.Errorf("%s: a definition is a sentence: %q", m.Name, m.Definition)
			case m.Source == "":
				t.Errorf("%s has no source", m.Name)
			}
			seen[m.Name] = true
			if got, ok := metric.Find(m.Name); !ok || got != m {
				t.Errorf("Find(%q) = %+v, %v", m.Name, got, ok)
			}
		}
	}
	if m, ok := metric.Find("no.such"); ok {
		t.Errorf("Find of an unknown name: %+v", m)
	}
}
