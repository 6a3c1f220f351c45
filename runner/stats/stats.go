// Package stats describes samples of numbers and says how sure they are: quantiles, means and spreads of requests;
// intervals, ratios and words from engine starts. It knows no documents and no units, does not decide what counts as a
// replicate (the engine start does, never the request), gates nothing, and imports nothing of the runner.
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Causes of an error.
var (
	// ErrEmpty is returned for a sample without values: nothing is known, which is not 0.
	ErrEmpty = errors.New("no values")
	// ErrNotFinite is returned for a sample with a NaN or an infinity in it. One such value would hide in every number.
	ErrNotFinite = errors.New("a value is not finite")
	// ErrRank is returned for a quantile outside 0..1.
	ErrRank = errors.New("a quantile lies between 0 and 1")
)

// Summary describes a sample in the sample's own unit. Quantiles are those of Quantile.
type Summary struct {
	N    int
	Mean float64
	Std  float64 // population standard deviation: the sum of squares is divided by N
	Min  float64
	P50  float64
	P90  float64
	P95  float64
	P99  float64 // defined from one value up; whether it is worth showing is the caller's decision
	Max  float64
}

// Describe summarises xs, which may be in any order and is left alone. The error is ErrEmpty or ErrNotFinite.
func Describe(xs []float64) (Summary, error) {
	sorted, err := sort(xs)
	if err != nil {
		return Summary{}, err
	}
	lo, hi := sorted[0], sorted[len(sorted)-1]
	mean := mean(sorted)
	return Summary{
		N: len(sorted), Mean: mean, Std: deviation(sorted, mean), Min: lo, Max: hi,
		P50: quantile(sorted, 0.5), P90: quantile(sorted, 0.9), P95: quantile(sorted, 0.95), P99: quantile(sorted, 0.99),
	}, nil
}

// Quantile returns the q-quantile of xs, 0 <= q <= 1, by linear interpolation at rank q(n-1) of the sorted values.
// It is computed as MetricsQL's quantile_over_time computes it, so that the same samples give the same bits. xs may be
// in any order and is left alone. The error is ErrEmpty, ErrNotFinite or ErrRank.
func Quantile(xs []float64, q float64) (float64, error) {
	if !(q >= 0 && q <= 1) {
		return 0, fmt.Errorf("quantile %v: %w", q, ErrRank)
	}
	sorted, err := sort(xs)
	if err != nil {
		return 0, err
	}
	return quantile(sorted, q), nil
}

// Median is Quantile at 0.5.
func Median(xs []float64) (float64, error) { return Quantile(xs, 0.5) }

// Mean is the arithmetic mean of xs; it lies between the smallest and the largest value. The error is ErrEmpty or
// ErrNotFinite.
func Mean(xs []float64) (float64, error) {
	sorted, err := sort(xs)
	if err != nil {
		return 0, err
	}
	return mean(sorted), nil
}

// sort returns the values of xs in order. That the sums below run over sorted values makes every result independent of
// the order in which requests ended.
func sort(xs []float64) ([]float64, error) {
	if len(xs) == 0 {
		return nil, ErrEmpty
	}
	for i, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("value %d is %v: %w", i, x, ErrNotFinite)
		}
	}
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	return sorted, nil
}

// quantile is a*(1-w) + b*w between the neighbours of rank q(n-1). The conversions keep a compiler from fusing the
// multiplications into the addition, which would change the last bit on some machines.
func quantile(sorted []float64, q float64) float64 {
	rank := q * float64(len(sorted)-1)
	below := math.Floor(rank)
	w := rank - below
	a := sorted[int(below)]
	b := sorted[min(int(below)+1, len(sorted)-1)]
	return float64(a*(1-w)) + float64(b*w)
}

// mean adds halves when the plain sum would overflow, and corrects what each addition loses (Neumaier).
func mean(sorted []float64) float64 {
	lo, hi := sorted[0], sorted[len(sorted)-1]
	n := float64(len(sorted))
	var m float64
	if largest := max(math.Abs(lo), math.Abs(hi)); largest > math.MaxFloat64/n/2 {
		for _, x := range sorted {
			m += x / n
		}
	} else {
		var sum, lost float64
		for _, x := range sorted {
			t := sum + x
			if math.Abs(sum) >= math.Abs(x) {
				lost += (sum - t) + x
			} else {
				lost += (x - t) + sum
			}
			sum = t
		}
		m = (sum + lost) / n
	}
	return min(max(m, lo), hi) // rounding must not put a mean outside its sample
}

func deviation(sorted []float64, mean float64) float64 {
	var scale float64
	for _, x := range sorted {
		scale = max(scale, math.Abs(x/2-mean/2))
	}
	if scale == 0 {
		return 0
	}
	var sum float64
	for _, x := range sorted {
		d := (x/2 - mean/2) / scale
		sum += d * d
	}
	return min(2*(scale*math.Sqrt(sum/float64(len(sorted)))), math.MaxFloat64)
}
