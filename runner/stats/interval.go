package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// DefaultLevel is the confidence level of every interval in a report.
	DefaultLevel = 0.95
	// MinStarts is the fewest starts (or blocks) per config from which a claim may be made. Intervals are computed from
	// two values up, where they are honest and too wide to be of use (the t factor is 12.7).
	MinStarts = 3
)

// Causes of an error. After ErrFew and ErrNoSpread the estimate is set and the interval is everything possible.
var (
	// ErrFew is returned where one value, or one pair, is all there is: its variation is unknown.
	ErrFew = errors.New("one value says nothing about variation")
	// ErrNoSpread is returned when all values are equal. Variation was then not seen, which is not the same as none; a
	// real machine never repeats itself to the last digit, so the values are copies, or counts of something fixed.
	ErrNoSpread = errors.New("all values are equal")
	// ErrNotPositive is returned for a zero or negative value where only ratios have a meaning.
	ErrNotPositive = errors.New("a value is not positive")
	// ErrPairs is returned when the two sides of a paired comparison have different lengths.
	ErrPairs = errors.New("the sides have different numbers of values")
	// ErrLevel is returned for a confidence level outside (0, 1).
	ErrLevel = errors.New("a confidence level lies between 0 and 1")
)

// Interval is an estimate and the range that holds the truth in Level (0..1) of all repetitions of the experiment.
// Low <= Estimate <= High, all in the unit of what was estimated; a ratio has no unit and no change is 1.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Level    float64 `json:"level"`
}

// Contains reports whether x lies in the interval, its ends included.
func (iv Interval) Contains(x float64) bool { return iv.Low <= x && x <= iv.High }

// Exp takes an interval of natural logarithms to the scale of ratios. What overflows becomes the largest number.
func (iv Interval) Exp() Interval {
	e := func(x float64) float64 { return min(math.Exp(x), math.MaxFloat64) }
	return Interval{Estimate: e(iv.Estimate), Low: e(iv.Low), High: e(iv.High), Level: iv.Level}
}

// MeanInterval is the mean of xs with Student's t interval: mean ± t(n-1) s/√n, s² = Σ(x-mean)²/(n-1). It suits values
// that are about normal, such as logarithms of start medians. A spread below 1e-12 of the largest value (or of 1, if
// that is larger) is rounding and counts as none.
// Errors: ErrEmpty, ErrNotFinite, ErrLevel; with the estimate set, ErrFew (n = 1) and ErrNoSpread.
func MeanInterval(xs []float64, level float64) (Interval, error) {
	m, err := momentsOf(xs)
	if err != nil {
		return Interval{}, err
	}
	return m.interval(level)
}

// GeometricMean is the geometric mean of xs with the t interval of the mean of its logarithms, on the scale of xs.
// Errors: as MeanInterval, and ErrNotPositive.
func GeometricMean(xs []float64, level float64) (Interval, error) {
	l, err := logs(xs)
	if err != nil {
		return Interval{}, err
	}
	return onRatioScale(MeanInterval(l, level))
}

// Ratio is candidate ÷ baseline of geometric means, from independent values on both sides, whose spreads may differ:
// Welch's t interval on the logarithms (Welch 1947, degrees of freedom after Satterthwaite 1946). At n = 3 against 3
// it is a little too wide rather than too narrow. Where starts were interleaved in blocks, PairedRatio is the one to use.
// Errors: as GeometricMean for each side.
func Ratio(baseline, candidate []float64, level float64) (Interval, error) {
	m, err := unpaired(baseline, candidate)
	if err != nil {
		return Interval{}, err
	}
	return onRatioScale(m.interval(level))
}

// PairedRatio is candidate ÷ baseline of geometric means where baseline[i] and candidate[i] come from the same block:
// the t interval of the differences of their logarithms. What a block does to both sides cancels, and nothing is
// assumed about the spread of either side.
// Errors: as GeometricMean, and ErrPairs.
func PairedRatio(baseline, candidate []float64, level float64) (Interval, error) {
	m, err := paired(baseline, candidate)
	if err != nil {
		return Interval{}, err
	}
	return onRatioScale(m.interval(level))
}

// RatioP is the two-sided p-value of "no change" that belongs to Ratio: at most 1 - level exactly when its interval
// excludes 1. Errors: as Ratio; ErrFew and ErrNoSpread come with p = 1.
func RatioP(baseline, candidate []float64) (float64, error) {
	m, err := unpaired(baseline, candidate)
	if err != nil {
		return 1, err
	}
	return m.p()
}

// PairedP is the two-sided p-value of "no change" that belongs to PairedRatio. Errors: as PairedRatio; ErrFew and
// ErrNoSpread come with p = 1.
func PairedP(baseline, candidate []float64) (float64, error) {
	m, err := paired(baseline, candidate)
	if err != nil {
		return 1, err
	}
	return m.p()
}

// Fraction is Σpart ÷ Σwhole for pairs from the same blocks, with Fieller's interval (Fieller 1954): all θ for which a
// t test cannot tell part - θ·whole from 0 on average. Such an interval is finite only while the whole differs clearly
// from 0; bounded is false otherwise, and a fraction of nothing should not be shown.
// Errors: as MeanInterval for the whole, and ErrPairs. A part without spread is a valid part.
func Fraction(part, whole []float64, level float64) (iv Interval, bounded bool, err error) {
	if len(part) != len(whole) {
		return Interval{}, false, fmt.Errorf("%d and %d: %w", len(part), len(whole), ErrPairs)
	}
	w, err := momentsOf(whole)
	if err != nil {
		return Interval{}, false, err
	}
	all, err := w.interval(level)
	if err != nil {
		return Interval{}, false, err
	}
	p, err := momentsOf(part)
	if err != nil {
		return Interval{}, false, err
	}
	if all.Contains(0) {
		return Interval{}, false, nil
	}
	return fieller(p, w, covariance(part, whole, p.mean, w.mean), level), true, nil
}

// fieller solves (p - θw)² <= t²(var p - 2θ cov + θ² var w) for θ; var and cov are of the means.
func fieller(p, w moments, cov, level float64) Interval {
	n := w.df + 1
	t := critical(w.df, level)
	g := t * t
	a := w.mean*w.mean - g*w.se*w.se // positive, because the whole's interval excludes 0
	b := p.mean*w.mean - g*cov/n
	c := p.mean*p.mean - g*p.se*p.se
	root := math.Sqrt(max(b*b-a*c, 0))
	x := p.mean / w.mean
	return Interval{Estimate: x, Low: min((b-root)/a, x), High: max((b+root)/a, x), Level: level}
}

func covariance(xs, ys []float64, mx, my float64) float64 {
	var sum float64
	for i := range xs {
		sum += (xs[i] - mx) * (ys[i] - my)
	}
	return sum / float64(len(xs)-1)
}

// moments is an estimate with its standard error and the degrees of freedom of that error. se is 0 when nothing varied.
type moments struct{ mean, se, df float64 }

// roundingSpread is the spread that logarithms and their differences can have from rounding alone, with room.
const roundingSpread = 1e-12

func momentsOf(xs []float64) (moments, error) {
	sorted, err := sort(xs)
	if err != nil {
		return moments{}, err
	}
	n := float64(len(sorted))
	m := moments{mean: mean(sorted), df: n - 1}
	if n < 2 {
		return m, nil
	}
	largest := max(math.Abs(sorted[0]), math.Abs(sorted[len(sorted)-1]), 1)
	if sd := deviation(sorted, m.mean) * math.Sqrt(n/(n-1)); sd > roundingSpread*largest {
		m.se = sd / math.Sqrt(n)
	}
	return m, nil
}

func unpaired(baseline, candidate []float64) (moments, error) {
	var m [2]moments
	for i, xs := range [][]float64{baseline, candidate} {
		l, err := logs(xs)
		if err != nil {
			return moments{}, err
		}
		if m[i], err = momentsOf(l); err != nil {
			return moments{}, err
		}
	}
	a, b := m[0], m[1]
	out := moments{mean: b.mean - a.mean, se: math.Hypot(a.se, b.se), df: min(a.df, b.df)}
	if out.df > 0 && out.se > 0 {
		u, v := a.se/out.se, b.se/out.se // shares of the error: a fourth power cannot overflow
		out.df = 1 / (math.Pow(u, 4)/a.df + math.Pow(v, 4)/b.df)
	}
	return out, nil
}

func paired(baseline, candidate []float64) (moments, error) {
	if len(baseline) != len(candidate) {
		return moments{}, fmt.Errorf("%d and %d: %w", len(baseline), len(candidate), ErrPairs)
	}
	a, err := logs(baseline)
	if err != nil {
		return moments{}, err
	}
	b, err := logs(candidate)
	if err != nil {
		return moments{}, err
	}
	for i := range a {
		b[i] -= a[i]
	}
	return momentsOf(b)
}

func (m moments) interval(level float64) (Interval, error) {
	if !(level > 0 && level < 1) {
		return Interval{}, fmt.Errorf("level %v: %w", level, ErrLevel)
	}
	if err := m.known(); err != nil {
		return Interval{Estimate: m.mean, Low: math.Inf(-1), High: math.Inf(1), Level: level}, err
	}
	h := critical(m.df, level) * m.se
	return Interval{Estimate: m.mean, Low: m.mean - h, High: m.mean + h, Level: level}, nil
}

// p comes from the lower tail, where small probabilities keep their digits.
func (m moments) p() (float64, error) {
	if err := m.known(); err != nil {
		return 1, err
	}
	return min(2*student(m.df).CDF(-math.Abs(m.mean/m.se)), 1), nil
}

func (m moments) known() error {
	switch {
	case m.df <= 0:
		return ErrFew
	case m.se == 0:
		return ErrNoSpread
	}
	return nil
}

func student(df float64) distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: df} }

func critical(df, level float64) float64 { return student(df).Quantile((1 + level) / 2) }

// onRatioScale keeps the estimate that comes with ErrFew and ErrNoSpread.
func onRatioScale(iv Interval, err error) (Interval, error) {
	if err == nil {
		return iv.Exp(), nil
	}
	if iv.Level == 0 {
		return Interval{}, err
	}
	return Interval{Estimate: iv.Exp().Estimate, High: math.Inf(1), Level: iv.Level}, err
}

func logs(xs []float64) ([]float64, error) {
	if len(xs) == 0 {
		return nil, ErrEmpty
	}
	out := make([]float64, len(xs))
	for i, x := range xs {
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			return nil, fmt.Errorf("value %d is %v: %w", i, x, ErrNotFinite)
		case x <= 0:
			return nil, fmt.Errorf("value %d is %v: %w", i, x, ErrNotPositive)
		}
		out[i] = math.Log(x)
	}
	return out, nil
}
