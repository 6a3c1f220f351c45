package result_test

import (
	"math"
	"testing"

	"h100-inference-control-plane/runner/result"
)

func TestFormat(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.39: "0.390", 4.2: "4.20", 38.36: "38.4", 99.96: "100", 3631: "3630", 999.6: "1000", 123456: "123000", 0.001: "0.00100",
		-4.2: "-4.20", 1e-9: "1.00e-09", 1e20: "1.00e+20", math.Inf(1): "∞", math.Inf(-1): "-∞"} {
		f(result.Number(v), want)
	}
	f(result.Number(math.NaN()), "?")
	for v, want := range map[float64]string{0: "0 s", 1.23e-5: "12.3 µs", 0.0482: "48.2 ms", 0.9996: "1.00 s", 0.99949: "999 ms", 38.36: "38.4 s", 1234: "1230 s", 0.00099999: "1.00 ms"} {
		f(result.Seconds(v), want)
	}
	f(result.Percent(0.0123), "1.23 %")
	f(result.Percent(0), "0 %")
	f(result.Percent(1), "100 %")
	f(result.Quantity(2, "s"), "2.00 s")
	f(result.Quantity(0.5, "%"), "50.0 %")
	f(result.Quantity(0.5, ""), "0.500")
	f(result.Quantity(math.Inf(1), "s"), "∞ s")
	f(result.Bound(2, "s"), "2 s")
	f(result.Bound(0.5, "s"), "500 ms")
	f(result.Bound(0.0025, "s"), "2.5 ms")
	f(result.Bound(0, "s"), "0 s")
	f(result.Bound(0.07, "%"), "7 %")
	f(result.Bound(0.01, ""), "0.01")
	f(result.Bound(1500, ""), "1500")
	f(result.Bound(1e-9, ""), "1e-09")
}
