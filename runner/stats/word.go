package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Direction says which way is better. Its values are those of the metric table.
type Direction string

// The directions.
const (
	Lower  Direction = "lower"
	Higher Direction = "higher"
)

// Change is the word for a comparison.
type Change string

// The words.
const (
	Better        Change = "better"
	Worse         Change = "worse"
	NoClearChange Change = "no clear change" // not "no change": see Inert
	Different     Change = "different"       // a clear change of something that has no good direction
)

// Word turns the interval of a ratio candidate ÷ baseline into a word. A change is clear when the interval excludes 1
// and the estimate is at least minimumEffect (0.03 = 3 %) away from it: at 1+m or above, or at 1/(1+m) or below, so
// that exchanging the two sides exchanges the words and nothing else. Everything else, NaN included, is NoClearChange.
//
// Without a true change the word is wrong in at most 1 - level of all comparisons: in just that share where starts vary
// by more than the minimum effect, and in fewer the steadier they are. The road not taken, asking for the whole interval
// to lie beyond the minimum effect, makes nearly no false calls and misses most changes of one and a half times the
// minimum effect; docs/explanation/statistics.md has both in numbers.
func Word(ratio Interval, minimumEffect float64, better Direction) Change {
	m := 1 + max(minimumEffect, 0)
	up := ratio.Low > 1 && ratio.Estimate >= m
	down := ratio.High < 1 && ratio.Estimate <= 1/m
	switch {
	case !up && !down:
		return NoClearChange
	case better != Lower && better != Higher:
		return Different
	case up == (better == Higher):
		return Better
	default:
		return Worse
	}
}

// Inert reports whether the whole interval of a ratio lies inside the minimum effect, from 1/(1+m) to 1+m: a change that
// matters is then as good as excluded, which NoClearChange alone does not say. It is false for NaN.
func Inert(ratio Interval, minimumEffect float64) bool {
	m := 1 + max(minimumEffect, 0)
	return ratio.Low >= 1/m && ratio.High <= m
}

// ErrP is returned for a p-value outside 0..1.
var ErrP = errors.New("a p-value lies between 0 and 1")

// Decision is one member of a family of tests.
type Decision struct {
	Adjusted float64 `json:"adjusted_p"` // 0..1, to be compared with alpha directly
	Reject   bool    `json:"reject"`     // "no change" is refuted, with an error of at most alpha over the whole family
}

// Holm decides a family of tests such that the chance of even one false rejection is at most alpha, whatever depends on
// what (Holm 1979). Decisions come in the order of ps; none for an empty family. A word that its decision does not
// reject is NoClearChange. Errors: ErrP, ErrLevel for an alpha outside (0, 1).
func Holm(ps []float64, alpha float64) ([]Decision, error) {
	if !(alpha > 0 && alpha < 1) {
		return nil, fmt.Errorf("alpha %v: %w", alpha, ErrLevel)
	}
	order := make([]int, len(ps))
	for i, p := range ps {
		if math.IsNaN(p) || p < 0 || p > 1 {
			return nil, fmt.Errorf("p-value %d is %v: %w", i, p, ErrP)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case ps[a] < ps[b]:
			return -1
		case ps[a] > ps[b]:
			return 1
		}
		return 0
	})
	out := make([]Decision, len(ps))
	var adjusted float64
	for done, i := range order {
		adjusted = max(adjusted, min(ps[i]*float64(len(ps)-done), 1))
		out[i] = Decision{Adjusted: adjusted, Reject: adjusted <= alpha}
	}
	return out, nil
}
