// Package capacity finds the highest load at which every objective is met: it says which load to measure next, and in
// the end between which two loads the answer lies, in each engine start and over all of them. It sees outcomes only:
// it measures nothing, judges no objective (judge) and does not decide what may be believed (validity).
//
// Within a start the load doubles from the lowest until one fails, then the gap is halved (on a log scale) until it is
// narrow enough, then both of its ends are measured twice more with fresh prompts. A load whose measurements disagree
// is no end: it lies inside the bracket, which is the wider for it. So one lucky or unlucky measurement decides nothing,
// and what noise there is shows in the answer. A measurement that cannot be believed counts for neither side and is made
// again once.
package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Outcome is what a measurement says about a load.
type Outcome int

// The outcomes.
const (
	Invalid Outcome = iota // it cannot be believed
	Holds                  // every objective was met
	Fails                  // one was not
)

// Observation is one measurement. Those of a start are in the order in which they were made.
type Observation struct {
	Start   int     // which engine start, from 1
	Load    float64 // requests in flight or per second
	Outcome Outcome
	Why     string  // what failed or why it cannot be believed; "" = Holds
	Limits  []Limit // of each objective, where it has a verdict
}

// Limit is one objective at one load.
type Limit struct {
	Objective string
	Met       bool
	Value     *float64 // nil = none, or infinite
}

// Search is where to look and how closely. 0 < Min < Max and Resolution > 0.
type Search struct {
	Min, Max   float64
	Whole      bool    // loads are whole numbers, and so are Min and Max
	Resolution float64 // the search ends when the lowest load that fails is at most 1 + this times the highest that holds
	Target     float64 // a load on whose outcome something depends, so that it is measured itself; 0 = none
}

const (
	agree      = 3 // measurements of the end of a bracket, all with one outcome; what two would cost is in docs/explanation/capacity.md
	enough     = 3 // measurements of a load whose measurements disagree
	maxInvalid = 2 // measurements of one load that cannot be believed, after which it is given up
	doubling   = 2 // factor from load to load while nothing has failed
)

// Bracket is what a start knows: the answer is at least Holds and below Fails.
type Bracket struct {
	Start int
	Holds *float64 // highest load that held with none that failed below it; nil = none
	Fails *float64 // lowest load that failed; nil = none
	// Closed means that the search ended as it should: both ends are confirmed and close enough, or it ran into Min or
	// Max and that is confirmed.
	Closed bool
	// Stopped says why a search that is not Closed goes no further; "" = it would.
	Stopped string
	// NotMonotone says which load held although a lower one failed; "" = none did.
	NotMonotone string
	// Disagree are the loads between the ends on which measurements disagree, ascending: the bracket is wide because of them.
	Disagree     []float64
	Measurements int
}

// AtLeast reports whether the highest load of the search held, so that the answer may be higher.
func (b Bracket) AtLeast() bool { return b.Closed && b.Holds != nil && b.Fails == nil }

// Below reports whether the lowest load of the search failed, so that the answer is lower.
func (b Bracket) Below() bool { return b.Closed && b.Holds == nil && b.Fails != nil }

// Step is a measurement to make.
type Step struct {
	Load  float64
	Again int // how often this load was measured in this start before
}

// tally is what is known of one load in one start.
type tally struct {
	load                  float64
	holds, fails, invalid int
}

func (t tally) count() int { return t.holds + t.fails }

func (t tally) mixed() bool { return t.holds > 0 && t.fails > 0 }

// open reports whether the load has to be measured again before anything is made of it.
func (t tally) open() bool { return t.count() == 0 || t.mixed() && t.count() < enough }

// settled reports whether the load can be an end of a bracket.
func (t tally) settled() bool { return !t.mixed() && t.count() >= agree }

// verdict is what most measurements say.
func (t tally) verdict() Outcome {
	if t.holds > t.fails {
		return Holds
	}
	return Fails
}

// Next is the measurement that a start needs next; false = none, see Bracket. It depends on the observations alone:
// those of other starts only say where to look first.
func (s Search) Next(start int, obs []Observation) (Step, bool) {
	ts := tallies(start, obs)
	b, load := s.look(start, ts, s.hint(start, obs))
	if b.Closed || b.Stopped != "" {
		return Step{}, false
	}
	step := Step{Load: load}
	if t := find(ts, load); t != nil {
		step.Again = t.count() + t.invalid
	}
	return step, true
}

// Bracket is what is known of a start.
func (s Search) Bracket(start int, obs []Observation) Bracket {
	b, _ := s.look(start, tallies(start, obs), s.hint(start, obs))
	return b
}

// Most is how many measurements one start takes at most, and Usual how many it takes when every outcome is as expected
// and the answer lies in the upper half.
func (s Search) Most() int { return s.up() + 2*s.halvings() + 12 }

// Usual: see Most.
func (s Search) Usual() int { return s.up() + s.halvings() + 2*(agree-1) }

// up is the number of loads from Min to Max by doubling, both counted.
func (s Search) up() int { return 1 + int(math.Ceil(math.Log2(s.Max/s.Min)-1e-9)) }

// halvings is how often a gap of one doubling is halved.
func (s Search) halvings() int {
	n := int(math.Ceil(math.Log2(math.Log(doubling)/math.Log1p(s.Resolution)) - 1e-9))
	if s.Whole {
		n = min(n, int(math.Ceil(math.Log2(s.Max/doubling)))) // a gap of whole numbers has an end of its own
	}
	n = max(n, 0)
	if s.Target > 0 {
		n++
	}
	return n
}

func tallies(start int, obs []Observation) []tally {
	var out []tally
	for _, o := range obs {
		if o.Start != start {
			continue
		}
		t := find(out, o.Load)
		if t == nil {
			out = append(out, tally{load: o.Load})
			t = &out[len(out)-1]
		}
		switch o.Outcome {
		case Holds:
			t.holds++
		case Fails:
			t.fails++
		default:
			t.invalid++
		}
	}
	slices.SortFunc(out, func(a, b tally) int { return cmp.Compare(a.load, b.load) })
	return out
}

func find(ts []tally, load float64) *tally {
	for i := range ts {
		if ts[i].load == load {
			return &ts[i]
		}
	}
	return nil
}

// look says what is known, and which load is needed next where something is missing.
func (s Search) look(start int, ts []tally, hint *Bracket) (b Bracket, next float64) {
	b = s.known(start, ts)
	next, closed := s.want(ts, hint)
	b.Closed = closed
	if closed {
		return b, 0
	}
	t := find(ts, next)
	switch {
	case t != nil && t.invalid >= maxInvalid:
		b.Stopped = fmt.Sprintf("the measurements at %s cannot be believed", Number(next))
	case b.Measurements >= s.Most():
		b.Stopped = fmt.Sprintf("%d measurements did not settle it", b.Measurements)
	}
	return b, next
}

// A picture is what is known of a start: loads that hold, then perhaps loads about which measurements disagree, then
// loads that fail. Nil = none.
type picture struct {
	holds, low, high, fails *tally // low and high are the lowest and highest load of disagreement
	notMonotone             string
}

// see sorts the loads. A load whose measurements disagree takes the side of most of them when a settled load beyond it
// does too: one that held twice out of three below one that held every time was an accident.
func see(ts []tally) picture {
	var p picture
	var fails []*tally
	for i := range ts {
		t := &ts[i]
		switch {
		case t.open():
		case t.mixed() && !accident(ts, i):
			if p.low == nil {
				p.low = t
			}
			p.high = t
		case t.verdict() == Fails:
			fails = append(fails, t)
		}
	}
	for i := range ts {
		t := &ts[i]
		if t.open() || t.mixed() && !accident(ts, i) || t.verdict() != Holds {
			continue
		}
		switch below := p.low == nil || t.load < p.low.load; {
		case len(fails) > 0 && t.load > fails[0].load:
			if p.notMonotone == "" && t.settled() && fails[0].settled() {
				p.notMonotone = fmt.Sprintf("it held at %s although it failed at %s", Number(t.load), Number(fails[0].load))
			}
		case below:
			p.holds = t
		}
	}
	for _, t := range fails {
		if p.high == nil || t.load > p.high.load {
			p.fails = t
			break
		}
	}
	return p
}

// accident: see see.
func accident(ts []tally, i int) bool {
	v := ts[i].verdict()
	beyond := ts[i+1:]
	if v == Fails {
		beyond = ts[:i]
	}
	return slices.ContainsFunc(beyond, func(t tally) bool { return t.settled() && t.verdict() == v })
}

func (s Search) known(start int, ts []tally) Bracket {
	p := see(ts)
	b := Bracket{Start: start, NotMonotone: p.notMonotone}
	if p.holds != nil {
		b.Holds = &p.holds.load
	}
	if p.fails != nil {
		b.Fails = &p.fails.load
	}
	for _, t := range ts {
		b.Measurements += t.count() + t.invalid
		if t.mixed() && (b.Holds == nil || t.load > *b.Holds) && (b.Fails == nil || t.load < *b.Fails) {
			b.Disagree = append(b.Disagree, t.load)
		}
	}
	return b
}

// want is the load that is needed next, or that nothing is. Loads on which two measurements disagree come first: what
// follows depends on them.
func (s Search) want(ts []tally, hint *Bracket) (load float64, closed bool) {
	for _, t := range ts {
		if t.open() {
			return t.load, false
		}
	}
	p := see(ts)
	// Above what holds comes the disagreement, where there is one, and above that what fails.
	above, below := p.fails, p.holds
	if p.low != nil {
		above, below = p.low, p.high
	}
	switch {
	case p.holds == nil && above == nil:
		return s.first(hint), false
	case p.holds == nil && above.load > s.Min:
		return s.lower(above.load, hint), false
	case p.fails == nil && below.load < s.Max:
		return s.higher(below.load, hint), false
	}
	for _, gap := range [][2]*tally{{p.holds, above}, {below, p.fails}} {
		if gap[0] == nil || gap[1] == nil {
			continue
		}
		if mid, ok := s.between(gap[0].load, gap[1].load); ok {
			return mid, false
		}
	}
	for _, end := range []*tally{p.holds, p.fails} {
		if end != nil && end.count() < agree {
			return end.load, false
		}
	}
	return 0, true
}

func (s Search) first(hint *Bracket) float64 {
	if hint != nil && hint.Holds != nil {
		return *hint.Holds
	}
	return s.Min
}

// higher doubles. Near what an earlier start found it begins with one step of the resolution, and each step is as long
// as the way so far.
func (s Search) higher(load float64, hint *Bracket) float64 {
	factor := float64(doubling)
	if hint != nil && load >= *hint.Holds {
		if load < *hint.Fails {
			return *hint.Fails
		}
		factor = min(max(load / *hint.Holds, 1+s.Resolution), doubling)
	}
	next := s.round(load * factor)
	if s.Whole {
		next = max(next, load+1)
	}
	return min(next, s.Max)
}

// lower is higher, downwards.
func (s Search) lower(load float64, hint *Bracket) float64 {
	factor := float64(doubling)
	if hint != nil && load <= *hint.Holds {
		factor = min(max(*hint.Fails/load, 1+s.Resolution), doubling)
	}
	next := s.round(load / factor)
	if s.Whole {
		next = min(next, load-1)
	}
	return max(next, s.Min)
}

// between is the load that halves a gap; false = it is narrow enough.
func (s Search) between(low, high float64) (float64, bool) {
	if low < s.Target && s.Target < high {
		return s.Target, true
	}
	if high/low <= 1+s.Resolution*(1+1e-9) || s.Whole && high-low <= 1 {
		return 0, false
	}
	mid := s.round(math.Sqrt(low * high))
	if s.Whole {
		mid = min(max(mid, low+1), high-1)
	}
	return mid, low < mid && mid < high
}

// round makes a load fit to be named: whole, or with four digits.
func (s Search) round(load float64) float64 {
	if s.Whole {
		return math.Round(load)
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(load, 'g', 4, 64), 64)
	if err != nil {
		return load // a formatted number parses
	}
	return f
}

// hint is the bracket of the newest earlier start that has one with two ends: starts of one config differ little, so two
// measurements there usually replace the whole way up. The start still decides by its own measurements.
func (s Search) hint(start int, obs []Observation) *Bracket {
	for k := start - 1; k > 0; k-- {
		ts := tallies(k, obs)
		if b, _ := s.look(k, ts, nil); b.Holds != nil && b.Fails != nil && b.Closed {
			return &b
		}
	}
	return nil
}

// Number writes a load for people.
func Number(load float64) string { return strconv.FormatFloat(load, 'f', -1, 64) }
