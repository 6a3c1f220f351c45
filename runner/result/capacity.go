package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Capacity is the highest load at which one config meets every gating objective, as far as its starts tell.
type Capacity struct {
	Config string `json:"config"`
	Unit   string `json:"unit"` // "concurrency" (requests in flight) or "rate" (requests per second), of every load here
	// Value is the highest load that held in the median start (the lower one of two). With Censored "at-least" it is the
	// highest load of the search, and the capacity may be higher; with "below" it is null: the lowest load failed.
	Value    *float64 `json:"value"`
	Censored string   `json:"censored,omitempty"`
	// Low and High are the 95 % interval of the starts' capacities (of their geometric mean); null = there is none, and
	// Note says why.
	Low    *float64        `json:"low"`
	High   *float64        `json:"high"`
	Note   string          `json:"note,omitempty"`
	Starts []CapacityStart `json:"starts"`
	Trials int             `json:"trials"` // measurements, of all starts
	// LimitedBy is the objective that failed in most starts just above what held; empty = none failed.
	LimitedBy string `json:"limited_by,omitempty"`
	// AtLeast repeats what was asked for, and Verdict says whether it is held: PASS, FAIL or INCONCLUSIVE. Null and empty
	// where nothing was asked, and of the baseline.
	AtLeast *float64 `json:"at_least,omitempty"`
	Verdict Verdict  `json:"verdict,omitempty"`
	// Search is where was looked.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// The values of Capacity.Censored.
const (
	CapacityAtLeast = "at-least"
	CapacityBelow   = "below"
)

// CapacityStart is what one start knows: the capacity is at least Holds and below Fails.
type CapacityStart struct {
	Start       string          `json:"start"` // ID
	Repeat      int             `json:"repeat"`
	Holds       *float64        `json:"holds"` // null = no load held
	Fails       *float64        `json:"fails"` // null = no load failed
	Trials      int             `json:"trials"`
	Limits      []CapacityLimit `json:"limits,omitempty"`       // the gating objectives that failed at Fails
	Stopped     string          `json:"stopped,omitempty"`      // why the search ended without an answer
	NotMonotone string          `json:"not_monotone,omitempty"` // a load held although a lower one failed
	Disagree    []float64       `json:"disagree,omitempty"`     // loads between Holds and Fails whose measurements disagree
}

// CapacityLimit is an objective on both sides of the edge: medians over the measurements there. Null = no value, which
// at Fails may be an infinite one.
type CapacityLimit struct {
	Objective string   `json:"objective"`
	AtHolds   *float64 `json:"at_holds"`
	AtFails   *float64 `json:"at_fails"`
	Max       *float64 `json:"max"`
	Min       *float64 `json:"min"`
	Unit      string   `json:"unit,omitempty"`
}

// Load writes a load for people: "37 at once", "4.2 requests/s". The unit is that of Capacity.
func Load(v float64, unit string) string {
	if unit == "concurrency" {
		return plain(v) + " at once"
	}
	return plain(v) + " requests/s"
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

const holdsEvery = " holds every objective"

// Tell says in one clause what the config holds.
func (c Capacity) Tell() string {
	switch {
	case c.Censored == CapacityBelow:
		return fmt.Sprintf("%s misses an objective even at %s, the lowest load that was tried", c.Config, Load(c.Min, c.Unit))
	case c.Value == nil:
		return c.Config + ": no answer"
	case c.Censored == CapacityAtLeast:
		return fmt.Sprintf("%s%s at %s, the highest load that was tried: its capacity is at least that", c.Config, holdsEvery, Load(*c.Value, c.Unit))
	}
	return fmt.Sprintf("%s%s up to %s (%s)", c.Config, holdsEvery, Load(*c.Value, c.Unit), c.Between())
}

// Between is the interval in words or, where there is none, what the starts span; "" = neither.
func (c Capacity) Between() string {
	if c.Low != nil && c.High != nil {
		if c.Unit == "concurrency" {
			return fmt.Sprintf("between %s and %s", plain(math.Floor(*c.Low)), plain(math.Ceil(*c.High)))
		}
		return fmt.Sprintf("between %s and %s", Number(*c.Low), Number(*c.High))
	}
	var held, failed *float64
	n := 0
	for _, s := range c.Starts {
		if s.Stopped != "" {
			continue
		}
		n++
		if s.Holds != nil && (held == nil || *s.Holds < *held) {
			held = s.Holds
		}
		if s.Fails != nil && (failed == nil || *s.Fails > *failed) {
			failed = s.Fails
		}
	}
	switch {
	case held == nil || failed == nil:
		return ""
	case n == 1:
		return fmt.Sprintf("%s failed; one start", plain(*failed))
	}
	return fmt.Sprintf("%s held in each of %d starts, %s in none", plain(*held), n, plain(*failed))
}

// TellCapacities says in one sentence what each config holds, the highest first, and what limits them.
func TellCapacities(cs []Capacity) string {
	sorted := slices.Clone(cs)
	slices.SortStableFunc(sorted, func(a, b Capacity) int { return cmp.Compare(b.rank(), a.rank()) })
	var parts, limits []string
	for i, c := range sorted {
		text := c.Tell()
		if i > 0 && c.inside() && sorted[i-1].Value != nil {
			text = fmt.Sprintf("%s up to %s (%s)", c.Config, plain(*c.Value), c.Between())
		}
		parts = append(parts, text)
		if c.LimitedBy != "" && !slices.Contains(limits, c.LimitedBy) {
			limits = append(limits, c.LimitedBy)
		}
	}
	switch {
	case len(limits) == 1:
		parts = append(parts, "limited by "+limits[0])
	case len(limits) > 1:
		for _, c := range sorted {
			if c.LimitedBy != "" {
				parts = append(parts, c.Config+" is limited by "+c.LimitedBy)
			}
		}
	}
	return strings.Join(parts, "; ")
}

func (c Capacity) inside() bool { return c.Value != nil && c.Censored == "" }

func (c Capacity) rank() float64 {
	if c.Value == nil {
		return 0
	}
	return *c.Value
}
