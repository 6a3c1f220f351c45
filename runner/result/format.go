package result

import (
	"math"
	"strconv"
	"strings"
)

// Number writes a measured number for people, with three significant digits: 0.390, 4.20, 38.4, 3630. Zero is "0"; a
// number that is not finite is "∞" or "?".
func Number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.IsInf(v, 0):
		return map[bool]string{true: "∞", false: "-∞"}[v > 0]
	case math.IsNaN(v):
		return "?"
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return "?"
	}
	magnitude := int(math.Floor(math.Log10(math.Abs(rounded))))
	if magnitude < -6 || magnitude > 14 {
		return strconv.FormatFloat(v, 'e', 2, 64)
	}
	return strconv.FormatFloat(rounded, 'f', max(0, 2-magnitude), 64)
}

// Side writes one side's value of a reconciled quantity: a time for the mean ones, a count for all others, – for one
// that was not reported.
func (a Agreement) Side(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case strings.HasPrefix(a.What, "mean "):
		return Seconds(*v)
	}
	return strconv.FormatFloat(*v, 'f', 0, 64)
}

// Seconds writes a measured time for people: 12.3 µs, 48.2 ms, 4.20 s.
func Seconds(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		rounded = v
	}
	switch a := math.Abs(rounded); {
	case v == 0:
		return "0 s"
	case a < 1e-3:
		return Number(v*1e6) + " µs"
	case a < 1:
		return Number(v*1e3) + " ms"
	}
	return Number(v) + " s"
}

// Percent writes a measured ratio for people: 1.23 %.
func Percent(v float64) string { return Number(v*100) + " %" }

// Quantity writes a measured value in the unit in which an objective's bound was written: "s", "%", or "" for a plain
// number.
func Quantity(v float64, unit string) string {
	switch unit {
	case "s":
		return Seconds(v)
	case "%":
		return Percent(v)
	}
	return Number(v)
}

// Bound writes a limit for people as exactly as it was given: 2 s, 500 ms, 1 %, 0.01.
func Bound(v float64, unit string) string {
	exact := func(v float64) string {
		if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
			return strconv.FormatFloat(v, 'g', 12, 64)
		}
		// Twelve digits: 0.07 * 100 is 7.000000000000001.
		f, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
		if err != nil {
			return "?"
		}
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	switch {
	case unit == "%":
		return exact(v*100) + " %"
	case unit == "s" && v != 0 && math.Abs(v) < 1:
		return exact(v*1e3) + " ms"
	case unit == "s":
		return exact(v) + " s"
	}
	return exact(v)
}
