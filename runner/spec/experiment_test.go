package spec

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
)

// load reads a file that must be good.
func load(t testing.TB, path string) *Experiment {
	t.Helper()
	e, faults := Load(path)
	if len(faults) > 0 {
		t.Fatalf("%s:\n%s", path, render(faults))
	}
	return e
}

// parse reads a text that must be good, as if it were beside testdata/good.
func parse(t testing.TB, text string) *Experiment {
	t.Helper()
	e, faults := Parse("testdata/good/x.yaml", []byte(text))
	if len(faults) > 0 {
		t.Fatalf("%s\n%s", text, render(faults))
	}
	return e
}

func canonical(t testing.TB, e *Experiment) string {
	t.Helper()
	b, err := e.CanonicalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// goodFiles are those of the tests and those of the repository.
func goodFiles(t testing.TB) []string {
	return append(files(t, "testdata/good/*.yaml"), files(t, "../../experiments/*.yaml")...)
}

func TestGoodFilesRenderToThemselves(t *testing.T) {
	for _, p := range goodFiles(t) {
		e := load(t, p)
		y, err := e.YAML()
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		again, faults := Parse(filepath.Join(filepath.Dir(p), "resolved.yaml"), y)
		if len(faults) > 0 {
			t.Fatalf("%s is rendered as\n%s\nwhich has faults:\n%s", p, y, render(faults))
		}
		if a, b := canonical(t, e), canonical(t, again); a != b {
			t.Errorf("%s is rendered as\n%s\nwhich means\n%s\nnot\n%s", p, y, b, a)
		}
		if y2, _ := again.YAML(); !bytes.Equal(y, y2) {
			t.Errorf("%s: rendered twice, the YAML differs:\n%s\n%s", p, y, y2)
		}
	}
}

func TestEverything(t *testing.T) {
	e := load(t, "testdata/good/everything.yaml")
	got, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/good/everything.json", string(got)+"\n")
	if !strings.Contains(e.FlagTable, "those of 0.25.1, the nearest release below") {
		t.Errorf("FlagTable = %q", e.FlagTable)
	}
	if e.Load.Open.Duration != time.Hour+500*time.Millisecond {
		t.Errorf("duration = %v", e.Load.Open.Duration)
	}
	if got := e.Configs[0].Name + e.Configs[1].Name; got != "zetaalpha" {
		t.Errorf("configs are not in the order of the file: %s", got)
	}
	y, err := e.YAML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/good/everything.resolved", string(y))
}

func TestResultDocumentRoundTrip(t *testing.T) {
	for _, p := range goodFiles(t) {
		e := load(t, p)
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Experiment
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if a, b := canonical(t, e), canonical(t, &back); a != b {
			t.Errorf("%s: read from JSON it is\n%s\nnot\n%s", p, b, a)
		}
	}
}

const small = `apiVersion: bench/v1
kind: Experiment
name: small
model: {name: org/model}
engine: {name: vllm, version: 0.25.1, flags: {max-model-len: 8192, seed: 1}}
configs:
  a: {seed: 2, enforce-eager: true}
  b: {}
workload: {prompt: {text: hello}, output: {tokens: 8}}
load: {closed: {concurrency: [4, 16], requests: 32}}
slo: [{name: miss, query: "share_gt_over_time(bench_request_latency_seconds[$window], 2)", max: 1%}]
`

func TestDefaults(t *testing.T) {
	e := parse(t, small)
	if e.Starts != 1 || e.Load.Warmup != WarmupAuto || e.Load.Timeout != 10*time.Minute {
		t.Errorf("starts %d, warm-up %d, timeout %v", e.Starts, e.Load.Warmup, e.Load.Timeout)
	}
	if e.Workload.API != "chat" || e.Workload.Cache != "warm" || e.Workload.Output.Exact || e.Workload.Seed != nil || e.Workload.Temperature != nil {
		t.Errorf("workload %+v", e.Workload)
	}
	if s := e.SLO[0]; !s.Gate || s.Max != 0.01 || s.Unit != "%" || s.Min != nil {
		t.Errorf("slo %+v", s)
	}
	if e.Compare != nil || e.Budget != nil || e.Engine.Sim != nil {
		t.Errorf("compare %v, budget %v, sim %v: want none", e.Compare, e.Budget, e.Engine.Sim)
	}
	sim := parse(t, strings.Replace(small, "name: vllm", "name: sim", 1))
	if !reflect.DeepEqual(sim.Engine.Sim, &engine.Sim{Speed: 1}) {
		t.Errorf("sim %+v", sim.Engine.Sim)
	}
	cmp := parse(t, small+"compare: {baseline: b}\n")
	if c := cmp.Compare; c.MinimumEffect != 0.03 || c.Attribute || !reflect.DeepEqual(c.Candidates, []string{"a"}) {
		t.Errorf("compare %+v", c)
	}
}

func TestMerged(t *testing.T) {
	e := parse(t, small)
	want := []engine.Flag{{Name: "enforce-eager", Value: true}, {Name: "max-model-len", Value: int64(8192)}, {Name: "seed", Value: int64(2)}}
	if got := e.Merged("a"); !reflect.DeepEqual(got, want) {
		t.Errorf("a: %v, want %v", got, want)
	}
	want = []engine.Flag{{Name: "max-model-len", Value: int64(8192)}, {Name: "seed", Value: int64(1)}}
	if got := e.Merged("b"); !reflect.DeepEqual(got, want) {
		t.Errorf("b: %v, want %v", got, want)
	}
	if got := e.Merged("c"); got != nil {
		t.Errorf("an unknown config has flags: %v", got)
	}
}

func TestPoints(t *testing.T) {
	names := func(e *Experiment) string {
		var out []string
		for _, p := range e.Points() {
			out = append(out, p.String())
		}
		return strings.Join(out, " ")
	}
	if got := names(parse(t, small)); got != "c4 c16" {
		t.Errorf("closed: %s", got)
	}
	open := strings.Replace(small, "closed: {concurrency: [4, 16], requests: 32}", "open: {rates: [2.5, 10, 0.1], duration: 60s}", 1)
	if got := names(parse(t, open)); got != "r2.5 r10 r0.1" {
		t.Errorf("open: %s", got)
	}
}

func TestPositions(t *testing.T) {
	e := parse(t, small)
	for path, want := range map[string]Position{
		"name": {3, 1}, "engine.flags.seed": {5, 68}, "configs.a": {7, 3}, "configs.a.enforce-eager": {7, 16}, "slo[0]": {11, 7}, "slo[0].query": {11, 20},
	} {
		if got := e.Positions[path]; got != want {
			t.Errorf("%s is at %v, want %v", path, got, want)
		}
	}
}

// TestPositionsWithCRLF: the lexer counts CRLF after a comment as two lines; editors do not.
func TestPositionsWithCRLF(t *testing.T) {
	e := parse(t, "# a comment\r\n"+strings.ReplaceAll(small, "\n", "\r\n"))
	if got, want := e.Positions["slo[0].query"], (Position{12, 20}); got != want {
		t.Errorf("slo[0].query is at %v, want %v", got, want)
	}
}

// TestCanonicalJSON holds what a key may and may not depend on.
func TestCanonicalJSON(t *testing.T) {
	base := canonical(t, parse(t, small))
	same := func(what, from, to string) {
		t.Helper()
		text := strings.Replace(small, from, to, 1)
		if text == small {
			t.Fatalf("%s: %q is not in the file", what, from)
		}
		if got := canonical(t, parse(t, text)); got != base {
			t.Errorf("%s changes the canonical form:\n%s\n%s", what, base, got)
		}
	}
	same("a comment", "name: small", "name: small # what it is")
	same("the order of keys", "{name: vllm, version: 0.25.1, ", "{version: 0.25.1, name: vllm, ")
	same("the order of configs", "  a: {seed: 2, enforce-eager: true}\n  b: {}\n", "  b: {}\n  a: {enforce-eager: true, seed: 2}\n")
	same("a number's spelling", "max-model-len: 8192", "max-model-len: 8K")
	same("a bound's spelling", "max: 1%", "max: 0.01")
	same("quotes", "text: hello", `text: "hello"`)
	same("a default", "{name: miss,", "{name: miss, gate: true,")
	same("a default", "\nload: {", "\nstarts: 1\nload: {timeout: 10m, ")
	if got := canonical(t, parse(t, strings.ReplaceAll("# two bytes end a line\n"+small, "\n", "\r\n"))); got != base {
		t.Errorf("CRLF changes the canonical form: %s", got)
	}
	if got, faults := Parse("elsewhere/renamed.yaml", []byte(small)); len(faults) > 0 || canonical(t, got) != base {
		t.Error("the file's name changes the canonical form")
	}
	other := func(from, to string) {
		t.Helper()
		if got := canonical(t, parse(t, strings.Replace(small, from, to, 1))); got == base {
			t.Errorf("%q in place of %q does not change the canonical form", to, from)
		}
	}
	other("seed: 2", "seed: 3")
	other("requests: 32", "requests: 33")
	other("[4, 16]", "[4, 8]")
	other("text: hello", "text: hallo")
	other("0.25.1", "0.25.2")
	other("max: 1%", "max: 2%")
}

// TestPromptFileKey: a renamed prompt file is the same workload, another byte in it is another.
func TestPromptFileKey(t *testing.T) {
	dir := t.TempDir()
	read := func(name, content string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		e, faults := Parse(filepath.Join(dir, "x.yaml"), []byte(strings.Replace(small, "text: hello", "file: "+name, 1)))
		if len(faults) > 0 {
			t.Fatal(render(faults))
		}
		if string(e.Workload.File.Content) != content {
			t.Errorf("content %q, want %q", e.Workload.File.Content, content)
		}
		return canonical(t, e)
	}
	a := read("a.jsonl", `{"prompt": "one"}`)
	if b := read("b.jsonl", `{"prompt": "one"}`); a != b {
		t.Errorf("renaming the prompt file changes the canonical form:\n%s\n%s", a, b)
	}
	if b := read("a.jsonl", `{"prompt": "two"}`); a == b {
		t.Error("another prompt does not change the canonical form")
	}
}

func TestPercent(t *testing.T) {
	for _, s := range []string{"1%", "0.07%", "12.5%", "99.999%", "0%", "7%", "0.000001%"} {
		f, ok := percent(s)
		if !ok {
			t.Errorf("%s is not a percentage", s)
		}
		if got := asPercent(f); got != s {
			t.Errorf("%s is read as %v and written as %s", s, f, got)
		}
	}
	a, _ := percent("33.333333333333336%") // 17 digits: another spelling, the same number
	if b, _ := percent(asPercent(a)); a != b {
		t.Errorf("%v is written as %s, which is %v", a, asPercent(a), b)
	}
	for _, s := range []string{"", "%", "-1%", "1e2%", "1.%", ".5%", "NaN%", "1 0%"} {
		if f, ok := percent(s); ok {
			t.Errorf("%q is read as %v", s, f)
		}
	}
}
