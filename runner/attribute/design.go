// Package attribute splits the difference between two configs over the flags in which they differ: which configs to
// measure for that, and, from what was measured, each factor's effect, its share of the whole, interactions and factors
// that do nothing here. It measures nothing, plans no order and no cost in minutes, knows no units but ratios and their
// natural logarithms, and does not say whether a trial was valid: only valid values belong in.
package attribute

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

const (
	// MaxFactors is the most factors a design can have.
	MaxFactors = 16
	// MaxFull is the most factors of a full factorial: 32 configs.
	MaxFull = 5
)

// ErrFactors is returned for a number of factors that no design is made for, and for a factor named twice.
var ErrFactors = errors.New("unusable factors")

// Assignment is one config of a design: bit i is set when factor i has the candidate's level. 0 is the baseline.
type Assignment uint32

// Baseline has every factor at the baseline's level.
const Baseline Assignment = 0

// Candidate has every one of k factors at the candidate's level.
func Candidate(k int) Assignment { return Assignment(1)<<k - 1 }

// Has reports whether factor i is at the candidate's level.
func (a Assignment) Has(i int) bool { return a>>i&1 == 1 }

// With is a with factor i at the candidate's level.
func (a Assignment) With(i int) Assignment { return a | 1<<i }

// Without is a with factor i at the baseline's level.
func (a Assignment) Without(i int) Assignment { return a &^ (1 << i) }

// Design lists the configs to measure for k factors, each once, the baseline first and the candidate last; the cost is
// their number times the starts. With full it is all 2^k combinations (k <= MaxFull). Otherwise it is one at a time from
// both ends: each factor added to the baseline, then each removed from the candidate, 2k + 2 configs. For one factor
// these are 2 and for two they are 4, because both ends reach the same configs; up to k = 3 they are the full factorial.
// The error is ErrFactors.
func Design(k int, full bool) ([]Assignment, error) {
	most := MaxFactors
	if full {
		most = MaxFull
	}
	if k < 1 || k > most {
		return nil, fmt.Errorf("%d factors, 1 to %d can be told apart: %w", k, most, ErrFactors)
	}
	if full || k <= 3 {
		return factorial(k), nil
	}
	design := []Assignment{Baseline}
	for i := range k {
		design = append(design, Baseline.With(i))
	}
	for i := range k {
		design = append(design, Candidate(k).Without(i))
	}
	return append(design, Candidate(k)), nil
}

// factorial lists all combinations by the number of factors changed, then in the order of the factors.
func factorial(k int) []Assignment {
	var all []Assignment
	for a := Baseline; a <= Candidate(k); a++ {
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b Assignment) int { return bits.OnesCount32(uint32(a)) - bits.OnesCount32(uint32(b)) })
	return all
}
