package spec

import (
	"reflect"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/attribute"
)

const compared = `
apiVersion: bench/v1
kind: Experiment
name: x
model: {name: m}
engine: {name: sim, version: 0.25.1, flags: {max-model-len: 2048}}
configs:
  a: {enforce-eager: true, enable-prefix-caching: false, max-num-seqs: 8, gpu-memory-utilization: 0.8}
  b: {enforce-eager: false, enable-prefix-caching: true, max-num-seqs: 8, gpu-memory-utilization: 0.9, max-num-batched-tokens: 4096}
workload:
  prompt: {text: hello}
  output: {tokens: 4}
load:
  closed: {concurrency: [2], requests: 8}
compare: {baseline: a, candidates: [b], attribute: true}
`

func names(e *Experiment) []string {
	var out []string
	for _, c := range e.Configs {
		out = append(out, c.Name)
	}
	return out
}

func TestDerive(t *testing.T) {
	e := parse(t, compared)
	want := []string{"a", "b",
		"a+enable-prefix-caching", "a+enforce-eager", "a+gpu-memory-utilization", "a+max-num-batched-tokens",
		"b-enable-prefix-caching", "b-enforce-eager", "b-gpu-memory-utilization", "b-max-num-batched-tokens"}
	if got := names(e); !reflect.DeepEqual(got, want) {
		t.Fatalf("configs %v", got)
	}
	// Of the candidate's flags only the named one is taken; a flag that the baseline does not set is not set.
	flags := map[string]any{}
	for _, f := range e.Merged("a+enforce-eager") {
		flags[f.Name] = f.Value
	}
	if !reflect.DeepEqual(flags, map[string]any{"enable-prefix-caching": false, "enforce-eager": false, "gpu-memory-utilization": 0.8, "max-model-len": int64(2048), "max-num-seqs": int64(8)}) {
		t.Errorf("a+enforce-eager has %v", flags)
	}
	if v := valueOf(e.Merged("b-max-num-batched-tokens"), "max-num-batched-tokens"); v != nil {
		t.Errorf("b without the flag has %v", v)
	}
	d, ok := e.Design("b")
	if !ok || len(d.Configs) != 10 || d.Names[attribute.Baseline] != "a" || d.Names[attribute.Candidate(4)] != "b" || d.Names[attribute.Baseline.With(1)] != "a+enforce-eager" {
		t.Errorf("design %+v", d)
	}
}

// What was derived is not written: the file read again derives it again, and keys do not depend on it.
func TestDerivedIsNotWritten(t *testing.T) {
	e := parse(t, compared)
	y, err := e.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(y), "a+") {
		t.Errorf("spec.yaml names a derived config:\n%s", y)
	}
	again := parse(t, string(y))
	if !reflect.DeepEqual(names(again), names(e)) {
		t.Errorf("read again: %v", names(again))
	}
}

// A config of the file that already has a setting is used for it.
func TestDeriveReuses(t *testing.T) {
	text := strings.Replace(compared, "workload:", "  mine: {enforce-eager: false, enable-prefix-caching: false, max-num-seqs: 8, gpu-memory-utilization: 0.8}\nworkload:", 1)
	e := parse(t, text)
	d, ok := e.Design("b")
	if !ok || d.Names[attribute.Baseline.With(1)] != "mine" || len(e.Configs) != 10 {
		t.Errorf("%v, %v", d.Names, names(e))
	}
}

func TestDesignFull(t *testing.T) {
	e := parse(t, strings.Replace(compared, "attribute: true", "attribute: true, design: full", 1))
	if d, ok := e.Design("b"); !ok || len(d.Configs) != 16 || len(e.Configs) != 16 {
		t.Errorf("%d configs", len(e.Configs))
	}
	one := parse(t, strings.Replace(compared, "enforce-eager: true, enable-prefix-caching: false, max-num-seqs: 8, gpu-memory-utilization: 0.8", "enforce-eager: true, enable-prefix-caching: true, max-num-seqs: 8, gpu-memory-utilization: 0.9, max-num-batched-tokens: 4096", 1))
	if d, ok := one.Design("b"); !ok || len(one.Configs) != 2 || len(d.Factors) != 1 {
		t.Errorf("one factor: %v", names(one))
	}
	if _, ok := parse(t, strings.Replace(compared, "attribute: true", "attribute: false", 1)).Design("b"); ok {
		t.Error("a design that was not asked for")
	}
}

func TestDeriveFaults(t *testing.T) {
	f := func(old, new, want string) {
		t.Helper()
		_, faults := Parse("x.yaml", []byte(strings.Replace(compared, old, new, 1)))
		if len(faults) != 1 || !strings.Contains(faults[0].Message, want) || faults[0].Line == 0 {
			t.Errorf("%s: %+v", new, faults)
		}
	}
	f("attribute: true", "design: full", "nothing is attributed")
	six := strings.Replace(compared, "max-num-batched-tokens: 4096}", "max-num-batched-tokens: 4096, block-size: 32, seed: 7}", 1)
	_, faults := Parse("x.yaml", []byte(strings.Replace(six, "attribute: true", "attribute: true, design: full", 1)))
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "split over 5 at most") || !strings.Contains(faults[0].Hint, "leave design out") {
		t.Errorf("six factors: %+v", faults)
	}
}
