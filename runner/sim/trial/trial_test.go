package trial_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/sim/trial"
)

func config(t testing.TB, seed uint64, exact bool) model.Config {
	t.Helper()
	p, err := model.LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	return model.Config{Profile: p, ChunkedPrefill: true, Warm: true, Exact: exact, Seed: seed}
}

func run(t testing.TB, cfg model.Config, slow float64, s trial.Shape, seed uint64) trial.Outcome {
	t.Helper()
	o, err := trial.Run(cfg, slow, s.Concurrency, s.Draw(seed))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRunKnown works one request out by hand: 1 ms of front end, a prefill of 16 tokens in 6 ms, then nine steps of one
// request at 3 ms.
func TestRunKnown(t *testing.T) {
	one := []model.Request{{Tokens: make([]int32, 16), MaxTokens: 10, IgnoreEOS: true}}
	o, err := trial.Run(config(t, 0, true), 1, 1, one)
	if err != nil {
		t.Fatal(err)
	}
	if o.TTFT != 7*time.Millisecond || o.TPOT != 3*time.Millisecond || math.Abs(o.OutputPerS-10/0.034) > 1e-9 {
		t.Fatalf("got %+v; want TTFT 7 ms, TPOT 3 ms and 10 tokens in 34 ms", o)
	}
	slow, err := trial.Run(config(t, 0, true), 2, 1, one)
	if err != nil {
		t.Fatal(err)
	}
	if slow.TTFT != 13*time.Millisecond || slow.TPOT != 6*time.Millisecond {
		t.Fatalf("twice as slow: %+v; want TTFT 13 ms (the front end does not slow down) and TPOT 6 ms", slow)
	}
}

func TestRunFailure(t *testing.T) {
	if _, err := trial.Run(model.Config{}, 1, 1, nil); err == nil {
		t.Fatal("an engine without a profile started")
	}
	tooLong := []model.Request{{Tokens: make([]int32, 9000), MaxTokens: 1}}
	if _, err := trial.Run(config(t, 0, true), 1, 1, tooLong); err == nil {
		t.Fatal("a prompt beyond the model's length was taken")
	}
	if o, err := trial.Run(config(t, 0, true), 1, 1, nil); err != nil || o != (trial.Outcome{}) {
		t.Fatalf("no requests: %+v, %v", o, err)
	}
}

func TestDraw(t *testing.T) {
	s := trial.Shape{Requests: 50, Concurrency: 8, Shared: 32, Prompt: 100, Output: 20}
	a, b, other := s.Draw(1), s.Draw(1), s.Draw(2)
	if !reflect.DeepEqual(a, b) {
		t.Fatal("the same seed drew other requests")
	}
	if reflect.DeepEqual(a[0].Tokens[:32], other[0].Tokens[:32]) {
		t.Fatal("two seeds share a prefix")
	}
	for i, r := range a {
		if own := len(r.Tokens) - 32; own < 25 || own > 100 || r.MaxTokens < 10 || r.MaxTokens > 20 {
			t.Fatalf("request %d: %d own tokens, %d out", i, own, r.MaxTokens)
		}
		if !reflect.DeepEqual(r.Tokens[:32], a[0].Tokens[:32]) {
			t.Fatalf("request %d does not begin with the shared tokens", i)
		}
	}
}

func TestRunRepeats(t *testing.T) {
	s := trial.Shape{Requests: 24, Concurrency: 8, Prompt: 200, Output: 32}
	if a, b := run(t, config(t, 7, false), 1, s, 3), run(t, config(t, 7, false), 1, s, 3); a != b {
		t.Fatalf("the same start measured %+v and %+v", a, b)
	}
	if a, b := run(t, config(t, 7, false), 1, s, 3), run(t, config(t, 8, false), 1, s, 3); a == b {
		t.Fatal("two starts with noise measured the same to the nanosecond")
	}
}

func BenchmarkRun(b *testing.B) {
	s := trial.Shape{Requests: 24, Concurrency: 8, Prompt: 200, Output: 32}
	cfg, reqs := config(b, 1, false), s.Draw(1)
	for b.Loop() {
		if _, err := trial.Run(cfg, 1, s.Concurrency, reqs); err != nil {
			b.Fatal(err)
		}
	}
}
