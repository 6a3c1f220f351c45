package attribute

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"h100-inference-control-plane/runner/stats"
)

// Causes of an error of Analyse.
var (
	// ErrDesign is returned for configs that are neither of the designs of Design, or with one named twice.
	ErrDesign = errors.New("not a design")
	// ErrNoBlock is returned when no block has a value for every config: nothing can be compared with anything.
	ErrNoBlock = errors.New("no block has all configs")
	// ErrMinimumEffect is returned for a minimum effect that is negative or not finite.
	ErrMinimumEffect = errors.New("a minimum effect is 0 or more")
	// ErrValue is returned for a value that is not positive and finite, or given twice, or of a config outside the design.
	ErrValue = errors.New("not a value of the design")
)

// Observation is one start's value, such as its median TTFT in seconds.
type Observation struct {
	Config Assignment
	Block  int     // starts of one block ran interleaved; any numbers
	Value  float64 // positive and finite, in the metric's base unit
}

// Options say what counts.
type Options struct {
	Level         float64 // confidence of intervals, 0..1; 0 = stats.DefaultLevel
	MinimumEffect float64 // smallest change that matters, as a ratio less 1; 0 = every clear one
}

// Kind names a design.
type Kind string

// The designs.
const (
	OneAtATime    Kind = "one-at-a-time"
	FullFactorial Kind = "full-factorial"
)

// Effect is a change on two scales: log = ln(ratio). Logs add up, ratios multiply. Both intervals are null with fewer
// than two complete blocks, and where all blocks agree to the last digit, so that their variation is unknown.
type Effect struct {
	Log           float64         `json:"log"`            // 0 = no change
	Ratio         float64         `json:"ratio"`          // after ÷ before; 1 = no change
	LogInterval   *stats.Interval `json:"log_interval"`   // of Log
	RatioInterval *stats.Interval `json:"ratio_interval"` // of Ratio
}

// Factor is what one factor did.
type Factor struct {
	Name    string  `json:"name"`
	Added   Effect  `json:"added"`   // (baseline with this factor) ÷ baseline
	Removed Effect  `json:"removed"` // candidate ÷ (candidate without this factor): above 1 where the factor raises the value
	Main    *Effect `json:"main"`    // mean over all settings of the others; null unless the design is full
	Share   Effect  `json:"share"`   // its part of the whole: Shapley's in a full design, else the mean of Added and Removed
	// Fraction is Share.Log ÷ Whole.Log with Fieller's interval; below 0 or above 1 where factors work against each
	// other. Null when the whole is not clearly different from no change: there is then nothing to share out.
	Fraction        *stats.Interval `json:"fraction"`
	Company         Effect          `json:"company"`           // Removed ÷ Added: how much more it does at the candidate's end
	DependsOnOthers bool            `json:"depends_on_others"` // Company is a clear change of at least the minimum effect
	// Inert: the intervals of Share and Main lie inside the minimum effect, neither end nor their difference shows a clear
	// change, and no interaction of the factor is clear. Asking for both ends to lie inside as well would find an inert
	// factor in 19 % of runs instead of 95 % (three factors, five starts).
	Inert bool `json:"inert"`
}

// Interaction is what two factors do together beyond what each does without the other, averaged over the settings of
// the rest: (both ÷ one) ÷ (other ÷ neither).
type Interaction struct {
	Factors [2]string `json:"factors"`
	Effect  Effect    `json:"effect"`
	Clear   bool      `json:"clear"` // the interval excludes no change and the effect is at least the minimum effect
}

// Result is an attribution. Shares and Remainder multiply to Whole as ratios and add up to it as logs.
type Result struct {
	Design        Kind          `json:"design"`
	Level         float64       `json:"level"`
	MinimumEffect float64       `json:"minimum_effect"`
	Configs       int           `json:"configs"`
	Blocks        []int         `json:"blocks"`       // blocks that count: those with a value for every config, ascending
	Incomplete    []int         `json:"incomplete"`   // blocks left out because a value is missing, ascending
	Whole         Effect        `json:"whole"`        // candidate ÷ baseline
	Factors       []Factor      `json:"factors"`      // in the order given
	Remainder     Effect        `json:"remainder"`    // what no share explains; exactly 1 in a full design
	Unexplained   bool          `json:"unexplained"`  // Remainder is a clear change of at least the minimum effect: factors interact
	Interactions  []Interaction `json:"interactions"` // every pair; empty unless the design is full
}

// Analyse attributes the change of one metric in one cell to the factors. Every number is a contrast of logarithms that
// is computed inside each block and then averaged over blocks with Student's t interval (blocks - 1 degrees of freedom):
// what a block does to all its starts cancels, and configs may differ in how much their starts vary. Only complete
// blocks count, so that the shares add up exactly. With fewer than stats.MinStarts blocks no claim should be shown.
//
// Errors: ErrFactors, ErrDesign, ErrMinimumEffect, ErrValue, ErrNoBlock, stats.ErrLevel.
func Analyse(factors []string, design []Assignment, observations []Observation, opt Options) (*Result, error) {
	if opt.Level == 0 {
		opt.Level = stats.DefaultLevel
	}
	if !(opt.Level > 0 && opt.Level < 1) {
		return nil, fmt.Errorf("attribute: level %v: %w", opt.Level, stats.ErrLevel)
	}
	if !(opt.MinimumEffect >= 0) || math.IsInf(opt.MinimumEffect, 0) {
		return nil, fmt.Errorf("attribute: minimum effect %v: %w", opt.MinimumEffect, ErrMinimumEffect)
	}
	for i, name := range factors {
		if slices.Contains(factors[:i], name) {
			return nil, fmt.Errorf("attribute: factor %q twice: %w", name, ErrFactors)
		}
	}
	full, err := recognise(len(factors), design)
	if err != nil {
		return nil, err
	}
	a := &analysis{k: len(factors), full: full, opt: opt}
	r := &Result{Design: OneAtATime, Level: opt.Level, MinimumEffect: opt.MinimumEffect, Configs: len(design)}
	if full {
		r.Design = FullFactorial
	}
	if a.blocks, r.Blocks, r.Incomplete, err = arrange(design, observations); err != nil {
		return nil, err
	}
	a.fill(r, factors)
	return r, nil
}

// recognise checks the design and says whether it is the full factorial.
func recognise(k int, design []Assignment) (full bool, err error) {
	least, err := Design(k, false)
	if err != nil {
		return false, fmt.Errorf("attribute: %w", err)
	}
	seen := map[Assignment]bool{}
	for _, c := range design {
		if seen[c] || c > Candidate(k) {
			return false, fmt.Errorf("attribute: config %b: %w", c, ErrDesign)
		}
		seen[c] = true
	}
	for _, c := range least {
		if !seen[c] {
			return false, fmt.Errorf("attribute: config %b is missing: %w", c, ErrDesign)
		}
	}
	full = len(seen) == 1<<k
	if !full && len(seen) != len(least) {
		return false, fmt.Errorf("attribute: %d configs: %w", len(seen), ErrDesign)
	}
	return full, nil
}

// block holds the logarithm of each config's value.
type block map[Assignment]float64

// arrange sorts observations into blocks and keeps the complete ones, in the order of their numbers.
func arrange(design []Assignment, observations []Observation) (blocks []block, complete, incomplete []int, err error) {
	byNumber := map[int]block{}
	for _, o := range observations {
		b := byNumber[o.Block]
		if b == nil {
			b = block{}
			byNumber[o.Block] = b
		}
		_, twice := b[o.Config]
		if twice || !(o.Value > 0) || math.IsInf(o.Value, 0) || !slices.Contains(design, o.Config) {
			return nil, nil, nil, fmt.Errorf("attribute: config %b in block %d: %v: %w", o.Config, o.Block, o.Value, ErrValue)
		}
		b[o.Config] = math.Log(o.Value)
	}
	complete, incomplete = []int{}, []int{}
	for n, b := range byNumber {
		if len(b) == len(design) {
			complete = append(complete, n)
		} else {
			incomplete = append(incomplete, n)
		}
	}
	slices.Sort(complete)
	slices.Sort(incomplete)
	for _, n := range complete {
		blocks = append(blocks, byNumber[n])
	}
	if len(blocks) == 0 {
		return nil, nil, nil, fmt.Errorf("attribute: %w", ErrNoBlock)
	}
	return blocks, complete, incomplete, nil
}
