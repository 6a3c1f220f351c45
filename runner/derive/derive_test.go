package derive_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func TestDifferences(t *testing.T) {
	f := func(asked, effective any, differ bool) {
		t.Helper()
		got := derive.Differences([]engine.Flag{{Name: "x", Value: asked}}, map[string]any{"x": effective, "y": 1})
		if len(got) > 0 != differ {
			t.Errorf("%v asked, %v effective: %v", asked, effective, got)
		}
	}
	f(true, true, false)
	f(true, false, true)
	f(int64(8192), 8192.0, false)
	f(int64(8192), 4096.0, true)
	f("auto", "bfloat16", false)
	f("fp8", "auto", true)
	f(map[string]any{"mode": int64(3)}, map[string]any{"mode": 3.0}, false)
	f([]any{"a"}, []any{"b"}, true)
	f(true, nil, true)
	if got := derive.Differences([]engine.Flag{{Name: "x", Value: true}}, map[string]any{"y": false}); got != nil {
		t.Errorf("a flag that is not reported: %v", got)
	}
}

func TestLabels(t *testing.T) {
	began := time.Date(2026, 12, 1, 15, 9, 27, 73e6, time.FixedZone("x", 3600))
	label := derive.RunLabel("0123456789abcdef", began)
	if label != "0123456789ab-20261201T140927" {
		t.Errorf("the run's label is %q", label)
	}
	var got []string
	for _, l := range derive.Labels(label, "e", &result.Trial{ID: "c-r2.5-1", Config: "c", Point: spec.Point{Rate: 2.5}, Start: "s01"}) {
		got = append(got, l.Name+"="+l.Value)
	}
	if want := []string{"run=" + label, "experiment=e", "config=c", "cell=c-r2.5", "trial=c-r2.5-1", "start=s01"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestConclude: concluding twice is concluding once, and what was there before does not matter.
func TestConclude(t *testing.T) {
	fresh := func() *result.Run {
		return &result.Run{
			Experiment: &spec.Experiment{Name: "e", Configs: []spec.Config{{Name: "c"}}, SLO: []spec.SLO{{Name: "s", Gate: true, Max: 1}}},
			Trials: []result.Trial{{
				ID: "c-c1-1", Config: "c", Point: spec.Point{Concurrency: 1}, Repeat: 1, Outcome: result.Measured,
				Client: &result.Client{Requests: 1, Succeeded: 1}, SLO: []result.Judgement{{Name: "s", Gate: true, Verdict: result.Pass}},
			}},
		}
	}
	recs := []record.Record{{Sent: 1, FirstByte: 2, FirstToken: 3, FirstContent: 3, LastToken: 9, End: 10, OutputTokens: 4, Events: 4}}
	read := func(string) ([]record.Record, error) { return recs, nil }
	once, twice := fresh(), fresh()
	twice.Verdict, twice.Reason, twice.Gates, twice.Cells = result.Superseded, "x", make([]result.Gate, 3), make([]result.Cell, 2)
	twice.Checks, twice.Trials[0].Checks = make([]result.Check, 1), make([]result.Check, 1)
	for run, n := range map[*result.Run]int{once: 1, twice: 2} {
		for range n {
			if err := derive.Conclude(run, read); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !reflect.DeepEqual(once, twice) {
		t.Errorf("%+v\n%+v", once, twice)
	}
	if len(once.Cells) != 1 || len(once.Gates) != 1 || len(once.Trials[0].Checks) == 0 || once.Verdict == "" {
		t.Errorf("%d cells, %d gates, %d checks, verdict %q", len(once.Cells), len(once.Gates), len(once.Trials[0].Checks), once.Verdict)
	}
	files, err := derive.Files(once, read)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	if want := []string{"spec.yaml", "results_c_c1.txt", "vllm-bench/c-c1-1.json", "report.md"}; !slices.Equal(names, want) {
		t.Errorf("files: %q", names)
	}
	lost := errors.New("lost")
	if _, err := derive.Files(once, func(string) ([]record.Record, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Errorf("without records: %v", err)
	}
	if err := derive.Conclude(once, func(string) ([]record.Record, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Errorf("without records: %v", err)
	}
}
