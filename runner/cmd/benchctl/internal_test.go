package main

import "testing"

// These tests also make the program part of the test binary. The other tests run a program that they build themselves;
// without this file `go test` would not see that its source has changed, and would report a cached pass.

func TestWorse(t *testing.T) {
	f := func(a, b, want int) {
		t.Helper()
		if got := worse(a, b); got != want {
			t.Errorf("worse(%d, %d) = %d, want %d", a, b, got, want)
		}
		if got := worse(b, a); got != want {
			t.Errorf("worse(%d, %d) = %d, want %d", b, a, got, want)
		}
	}
	f(exitOK, exitInconclusive, exitInconclusive)
	f(exitInconclusive, exitFail, exitFail)
	f(exitFail, exitMachinery, exitMachinery)
	f(exitOK, exitOK, exitOK)
}

func TestClock(t *testing.T) {
	for s, want := range map[float64]string{0: "0 s", 45: "45 s", 90: "1.5 min", 600: "10 min", 3600: "60 min"} {
		if got := clock(s); got != want {
			t.Errorf("clock(%v) = %q, want %q", s, got, want)
		}
	}
}
