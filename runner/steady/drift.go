package steady

import (
	"math"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/stats"
)

// minHalf is how many requests each half needs before a median of them says something.
const minHalf = 8

// Drift compares the first with the second half of the successes whose answers lie between two times (seconds after the
// load began). Nil = fewer than 16 of them have the value. It is for loads without a steady window.
func Drift(recs []record.Record, from, to float64, value func(record.Record) (float64, bool)) *result.Drift {
	return drift(between(recs, int64(from*1e6), int64(to*1e6)), value)
}

// drift takes requests in the order of their first tokens. Medians, because one slow request is no drift.
func drift(recs []record.Record, value func(record.Record) (float64, bool)) *result.Drift {
	var xs []float64
	for _, r := range recs {
		if v, ok := value(r); ok {
			xs = append(xs, v)
		}
	}
	half := len(xs) / 2
	if half < minHalf {
		return nil
	}
	first, se1 := centre(xs[:half])
	second, se2 := centre(xs[len(xs)-half:])
	if !(first > 0) {
		return nil
	}
	return &result.Drift{
		First: first, Second: second, Change: second/first - 1, Noise: 1.96 * math.Hypot(se1, se2) / first, N: 2 * half,
	}
}

// centre is the median and its standard error, from the median absolute deviation, which a few slow requests do not
// move. For a normal sample the deviation is 1.4826 × MAD and the median's error 1.2533 × deviation ÷ √n (Kenney and
// Keeping, Mathematics of Statistics, 1962, §§ 4, 8).
func centre(xs []float64) (median, se float64) {
	median, err := stats.Median(xs)
	if err != nil {
		return 0, 0
	}
	off := make([]float64, len(xs))
	for i, x := range xs {
		off[i] = math.Abs(x - median)
	}
	mad, err := stats.Median(off)
	if err != nil {
		return 0, 0
	}
	return median, 1.2533 * 1.4826 * mad / math.Sqrt(float64(len(xs)))
}
