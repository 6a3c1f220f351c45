package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ErrCount is returned for a count that is negative or larger than the number of trials.
var ErrCount = errors.New("a count lies between 0 and n")

// Proportion is hits ÷ n with Wilson's score interval (Wilson 1927), which stays inside 0..1 and has a width also at 0
// of n and n of n. It treats the n as independent: within one engine start they are nearly so, over several starts the
// starts' own shares must be looked at beside it. Errors: ErrEmpty (n = 0), ErrCount, ErrLevel.
func Proportion(hits, n int, level float64) (Interval, error) {
	switch {
	case !(level > 0 && level < 1):
		return Interval{}, fmt.Errorf("level %v: %w", level, ErrLevel)
	case n == 0 && hits == 0:
		return Interval{}, ErrEmpty
	case hits < 0 || hits > n:
		return Interval{}, fmt.Errorf("%d of %d: %w", hits, n, ErrCount)
	}
	z := distuv.UnitNormal.Quantile((1 + level) / 2)
	k, p := float64(n), float64(hits)/float64(n)
	z2 := z * z / k
	centre := (p + z2/2) / (1 + z2)
	h := math.Sqrt(p*(1-p)*z2+z2*z2/4) / (1 + z2)
	iv := Interval{Estimate: p, Low: min(max(centre-h, 0), p), High: max(min(centre+h, 1), p), Level: level}
	return iv, nil
}

// QuantileInterval is the q-quantile of xs with an interval between two of its order statistics, whose ranks come from
// the binomial distribution: no shape is assumed, only independent values. ok is false when n is too small for one of
// the ends to exist, as with p99 of 20 requests; nothing should then be shown. QuantileNeeds says how many would do.
// Errors: as Quantile, and ErrLevel.
func QuantileInterval(xs []float64, q, level float64) (iv Interval, ok bool, err error) {
	x, err := Quantile(xs, q)
	if err != nil {
		return Interval{}, false, err
	}
	if !(level > 0 && level < 1) {
		return Interval{}, false, fmt.Errorf("level %v: %w", level, ErrLevel)
	}
	if len(xs) < QuantileNeeds(q, level) {
		return Interval{}, false, nil
	}
	sorted, err := sort(xs)
	if err != nil {
		return Interval{}, false, err
	}
	low, high := ranks(len(sorted), q, (1-level)/2)
	return Interval{Estimate: x, Low: min(sorted[low-1], x), High: max(sorted[high-1], x), Level: level}, true, nil
}

// QuantileNeeds is the smallest n for which QuantileInterval has both ends: 6 for a median and 368 for p99 at 95 %. At
// the 98 % level (1 % on either side) p99 needs 459. It is the largest int for q <= 0 and q >= 1: no sample bounds them.
func QuantileNeeds(q, level float64) int {
	tail := max(q, 1-q)
	if !(tail < 1) || !(level > 0 && level < 1) {
		return math.MaxInt
	}
	return int(math.Ceil(math.Log((1-level)/2)/math.Log(tail) - 1e-9))
}

// ranks returns the ranks (from 1) of the ends: the largest low with P(B < low) <= tail and the smallest high with
// P(B >= high) <= tail, B the number of values below the quantile, binomial (n, q). Both exist from QuantileNeeds on.
func ranks(n int, q, tail float64) (low, high int) {
	b := distuv.Binomial{N: float64(n), P: q}
	const slack = 1e-12 // QuantileNeeds says at which n the ends exist; rounding must not disagree
	low = first(1, n, func(k int) bool { return b.CDF(float64(k)) > tail+slack })
	high = first(low, n, func(k int) bool { return 1-b.CDF(float64(k-1)) <= tail+slack })
	return low, high
}

// first is the smallest k in lo..hi for which f holds, f being false up to some k and true from there; hi if none.
func first(lo, hi int, f func(int) bool) int {
	for lo < hi {
		mid := lo + (hi-lo)/2
		if f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
