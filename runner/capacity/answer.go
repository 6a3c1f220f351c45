package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"h100-inference-control-plane/runner/stats"
)

// Level of the intervals.
const Level = 0.95

// MinStarts is from how many starts on an interval is given.
const MinStarts = 3

// Censoring says that the answer lies beyond the search.
type Censoring string

// The ways in which an answer can lie beyond the search.
const (
	Inside  Censoring = ""
	AtLeast Censoring = "at-least" // the highest load of the search held: the answer is that or more
	Below   Censoring = "below"    // the lowest load of the search failed: the answer is less
)

// Answer is the capacity of one config over its starts.
type Answer struct {
	// Value is the highest load that held in the median start (the lower one of two): at least half of the starts held
	// it. It is Max with AtLeast, and nil with Below or when no start is settled.
	Value    *float64
	Censored Censoring
	// Low and High bound the geometric mean of the starts' capacities with confidence Level; nil = there is no interval,
	// and Note says why.
	Low, High *float64
	Note      string
	Starts    []Bracket // every start with an observation, by number
	// Measurements is over all starts.
	Measurements int
}

// Answer puts the starts together. A start that is not closed is in Starts and counts nowhere else.
func (s Search) Answer(obs []Observation) Answer {
	var a Answer
	var numbers []int
	for _, o := range obs {
		if !slices.Contains(numbers, o.Start) {
			numbers = append(numbers, o.Start)
		}
	}
	slices.Sort(numbers)
	var closed []Bracket
	for _, n := range numbers {
		b := s.Bracket(n, obs)
		a.Starts = append(a.Starts, b)
		a.Measurements += b.Measurements
		if b.Closed {
			closed = append(closed, b)
		}
	}
	a.median(closed)
	a.interval(closed)
	return a
}

func (a *Answer) median(closed []Bracket) {
	if len(closed) == 0 {
		return
	}
	sorted := slices.Clone(closed)
	slices.SortStableFunc(sorted, func(x, y Bracket) int { return cmp.Compare(x.rank(), y.rank()) })
	switch m := sorted[(len(sorted)-1)/2]; {
	case m.Below():
		a.Censored = Below
	case m.AtLeast():
		a.Censored = AtLeast
		fallthrough
	default:
		a.Value = m.Holds
	}
}

func (b Bracket) rank() float64 {
	if b.Holds == nil {
		return 0
	}
	return *b.Holds
}

// interval: a start's capacity is known to lie between the ends of its bracket, so the interval reaches from the lower
// bound of the lower ends to the upper bound of the upper ends, each by Student's t on the logarithms. That is as wide as
// a common rounding to the search's steps can make it; starts that agree leave the bracket itself.
func (a *Answer) interval(closed []Bracket) {
	var low, high []float64
	for _, b := range closed {
		if b.Holds != nil && b.Fails != nil {
			low, high = append(low, *b.Holds), append(high, *b.Fails)
		}
	}
	switch {
	case len(closed) == 0:
		a.Note = "no start was settled"
	case len(closed) < MinStarts:
		a.Note = fmt.Sprintf("%s: how much starts differ is known from %d on", starts(len(closed)), MinStarts)
	case len(low) < len(closed):
		a.Note = fmt.Sprintf("no interval: in %d of %d starts the answer lies beyond the search", len(closed)-len(low), len(closed))
	default:
		a.Low, a.High = bound(low, func(i stats.Interval) float64 { return i.Low }), bound(high, func(i stats.Interval) float64 { return i.High })
	}
}

func bound(xs []float64, end func(stats.Interval) float64) *float64 {
	iv, err := stats.GeometricMean(xs, Level)
	switch {
	case errors.Is(err, stats.ErrNoSpread):
		return &xs[0]
	case err != nil:
		return nil // loads are positive and finite, so this cannot be
	}
	v := end(iv)
	return &v
}

func starts(n int) string {
	if n == 1 {
		return "one start"
	}
	return fmt.Sprintf("%d starts", n)
}

// Verdict says whether a load that is asked for is held.
type Verdict int

// The verdicts.
const (
	Unclear Verdict = iota
	Held
	NotHeld
)

// Reaches compares the answer with a load that is asked for, which is the Target of the search. With an interval it
// decides; without one every start has to agree.
func (a Answer) Reaches(target float64) Verdict {
	if a.Low != nil && a.High != nil {
		switch {
		case *a.Low >= target:
			return Held
		case *a.High <= target:
			return NotHeld
		}
		return Unclear
	}
	held, not, n := 0, 0, 0
	for _, b := range a.Starts {
		if !b.Closed {
			continue
		}
		n++
		switch {
		case b.Holds != nil && *b.Holds >= target:
			held++
		case b.Fails != nil && *b.Fails <= target:
			not++
		}
	}
	switch {
	case n > 0 && held == n:
		return Held
	case n > 0 && not == n:
		return NotHeld
	}
	return Unclear
}
