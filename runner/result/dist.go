package result

import (
	"errors"

	"h100-inference-control-plane/runner/stats"
)

// MinP99 is the number of samples from which a 99th percentile is shown: below it, it is the largest value.
const MinP99 = 100

// NewDist describes a sample. It is nil for a sample without values; the error is stats.ErrNotFinite.
func NewDist(xs []float64) (*Dist, error) {
	s, err := stats.Describe(xs)
	if errors.Is(err, stats.ErrEmpty) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &Dist{N: s.N, Mean: s.Mean, Min: s.Min, P50: s.P50, P90: s.P90, P95: s.P95, Max: s.Max}
	if s.N >= MinP99 {
		d.P99 = &s.P99
	}
	return d, nil
}

// dist is NewDist for values that are finite by construction: differences of integers over positive counts.
func dist(xs []float64) *Dist {
	d, err := NewDist(xs)
	if err != nil {
		return nil
	}
	return d
}
