package calibrate

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/load/stub"
	"h100-inference-control-plane/runner/result"
)

// TestMain lets the test program be its own stub, as benchctl is.
func TestMain(m *testing.M) {
	MaybeStub()
	os.Exit(m.Run())
}

// TestRun calibrates for a load so small that it ends soon; its numbers say nothing and are not looked at.
func TestRun(t *testing.T) {
	for _, inProcess := range []bool{false, true} {
		var parts []string
		res, err := Run(t.Context(), Options{
			Streams: 4, Interval: 5 * time.Millisecond, Duration: 100 * time.Millisecond, Rate: 50, Many: 20, InProcess: inProcess,
			Progress: func(p string) { parts = append(parts, p) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append([]Measured{res.Spread, res.Step}, res.Levels...) {
			if m.Streams != 4 || m.Events == 0 || m.Events%4 != 0 || m.ErrorP50 == 0 || m.ErrorP99 < m.ErrorP50 || m.CPUPerEvent <= 0 || m.EventsPerRead < 1 || m.Kept <= 0 {
				t.Errorf("in process %v: %+v", inProcess, m)
			}
		}
		if m := res.Machine; m.CPUPerRead <= 0 || m.SleepLate50 <= 0 || m.SleepLate99 < m.SleepLate50 || m.SleepBusy99 <= 0 {
			t.Errorf("%+v", m)
		}
		if res.Spread.Events != 80 || res.Spread.Mode != "spread" || res.Step.Mode != "step" || len(res.Levels) == 0 {
			t.Errorf("%+v", res)
		}
		if res.LatenessP99 < res.LatenessP50 || res.LatenessP50 <= 0 || res.Many != 20 || res.InProcess != inProcess {
			t.Errorf("%+v", res)
		}
		if len(parts) != 5+len(res.Levels) {
			t.Errorf("parts: %q", parts)
		}
		when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		want := result.Floor{Streams: 4, IntervalS: 0.005, ErrorP50: res.Step.ErrorP50, ErrorP99: res.Step.ErrorP99, CPUPerEvent: res.Step.CPUPerEvent,
			EventsPerSecond: res.Sustained, LatenessP99: res.LatenessP99, When: when}
		if got := res.Floor(when); got != want {
			t.Errorf("floor %+v, want %+v", got, want)
		}
	}
}

func TestRunFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Streams: 2, Duration: 50 * time.Millisecond}); err == nil {
		t.Error("a calibration that was cancelled has a result")
	}
	t.Setenv(childEnv, "1")
	if _, err := Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "MaybeStub") {
		t.Errorf("a stub started a stub: %v", err)
	}
}

func TestClientCommand(t *testing.T) {
	srv, err := start(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runClient([]string{"-url", srv.url, "-mode", "step", "-streams", "3", "-tokens", "4", "-interval", "2ms"}, &out); err != nil {
		t.Fatal(err)
	}
	var m Measured
	if err := json.Unmarshal(out.Bytes(), &m); err != nil || m.Events != 12 || m.Mode != string(stub.Step) {
		t.Errorf("%s: %v", out.String(), err)
	}
	if err := runClient([]string{"-url", srv.url, "-mode", "odd"}, &out); err == nil || !strings.Contains(err.Error(), "http_status") {
		t.Errorf("an unknown mode: %v", err)
	}
	if err := srv.stop(); err != nil {
		t.Error(err)
	}
	if err := runClient([]string{"-url", srv.url}, &out); err == nil {
		t.Error("a client of nobody")
	}
}

func TestAllowed(t *testing.T) {
	f := &result.Floor{EventsPerSecond: 1000}
	for _, c := range []struct {
		planned float64
		f       *result.Floor
		ok      bool
	}{{500, f, true}, {501, f, false}, {1e9, nil, true}, {1e9, &result.Floor{}, true}} {
		if err := Allowed(c.planned, c.f); (err == nil) != c.ok {
			t.Errorf("%v events/s with %+v: %v", c.planned, c.f, err)
		}
	}
}

func TestTable(t *testing.T) {
	good := Result{
		Spread: Measured{Streams: 256, IntervalS: 0.01, ErrorP50: 50e-6, ErrorP99: 900e-6, CPUPerEvent: 9.9e-6, EventsPerRead: 1},
		Step:   Measured{ErrorP50: 250e-6, ErrorP99: 2e-3}, Sustained: 60_000, Rate: 300, LatenessP50: 40e-6, LatenessP99: 400e-6, Many: 5000, PerStream: 40_000,
	}
	for _, x := range good.Targets() {
		if !x.OK {
			t.Errorf("%+v", x)
		}
	}
	bad := good
	bad.Spread.ErrorP50, bad.Spread.ErrorP99, bad.Spread.CPUPerEvent, bad.LatenessP99, bad.PerStream = 101e-6, 1.1e-3, 11e-6, 501e-6, 46_000
	for _, x := range bad.Targets() {
		if x.OK {
			t.Errorf("%+v", x)
		}
	}
	slow := good
	slow.Machine = Machine{CPUPerRead: 24e-6, SleepBusy99: 300e-6}
	slow.Spread.CPUPerEvent, slow.LatenessP99 = 28.9e-6, 799e-6
	for _, x := range slow.Targets() {
		if !x.OK {
			t.Errorf("on a slow machine: %+v", x)
		}
	}
	slow.Spread.CPUPerEvent, slow.LatenessP99 = 29.1e-6, 801e-6
	for i, x := range slow.Targets() {
		if (i == 2 || i == 3) == x.OK {
			t.Errorf("on a slow machine: %+v", x)
		}
	}
	for _, want := range []string{"0.050 ms", "9.9 µs", "40.0 KB", "60000", "256 streams × 10 ms", "yes"} {
		if !strings.Contains(good.Table(), want) {
			t.Errorf("the table has no %q:\n%s", want, good.Table())
		}
	}
	bad.NotMeasured, bad.InProcess = "this", true
	if s := bad.Table(); strings.Count(s, "NO") != 5 || !strings.Contains(s, "Not measured: this.") || !strings.Contains(s, "ran in this process") {
		t.Errorf("%s", s)
	}
	few := good
	few.Many = 0
	if strings.Contains(few.Table(), "memory") {
		t.Error("memory that was not measured is in the table")
	}
}
