package attribute

import (
	"math/bits"
	"slices"

	"h100-inference-control-plane/runner/stats"
)

type analysis struct {
	k      int
	full   bool
	opt    Options
	blocks []block
}

// contrast is a number per block, on the log scale.
type contrast []float64

func (a *analysis) each(f func(block) float64) contrast {
	c := make(contrast, len(a.blocks))
	for i, b := range a.blocks {
		c[i] = f(b)
	}
	return c
}

func (a *analysis) fill(r *Result, names []string) {
	end := Candidate(a.k)
	whole := a.each(func(b block) float64 { return b[end] - b[Baseline] })
	rest := append(contrast(nil), whole...)
	for i, name := range names {
		f, share := a.factor(i, whole)
		f.Name = name
		r.Factors = append(r.Factors, f)
		for j := range rest {
			rest[j] -= share[j]
		}
	}
	r.Whole = a.effect(whole)
	if a.full { // what is left of the subtraction is rounding
		rest = make(contrast, len(rest))
	}
	r.Remainder = a.effect(rest)
	r.Unexplained = a.clear(r.Remainder)
	r.Interactions = a.interactions(names)
	for _, x := range r.Interactions {
		for i := range r.Factors {
			if x.Clear && slices.Contains(x.Factors[:], r.Factors[i].Name) {
				r.Factors[i].Inert = false
			}
		}
	}
}

// factor computes everything about factor i, and its share in each block.
func (a *analysis) factor(i int, whole contrast) (Factor, contrast) {
	end := Candidate(a.k)
	added := func(b block) float64 { return b[Baseline.With(i)] - b[Baseline] }
	removed := func(b block) float64 { return b[end] - b[end.Without(i)] }
	share := a.each(func(b block) float64 { return (added(b) + removed(b)) / 2 })
	var main *Effect
	if a.full {
		share = a.each(func(b block) float64 { return a.average(b, i, a.shapley) })
		e := a.effect(a.each(func(b block) float64 { return a.average(b, i, a.even) }))
		main = &e
	}
	f := Factor{
		Added:   a.effect(a.each(added)),
		Removed: a.effect(a.each(removed)),
		Main:    main,
		Share:   a.effect(share),
		Company: a.effect(a.each(func(b block) float64 { return removed(b) - added(b) })),
	}
	f.DependsOnOthers = a.clear(f.Company)
	f.Inert = a.inert(f.Share) && (main == nil || a.inert(*main)) &&
		!a.clear(f.Added) && !a.clear(f.Removed) && !f.DependsOnOthers
	if iv, bounded, err := stats.Fraction(share, whole, a.opt.Level); err == nil && bounded {
		f.Fraction = &iv
	}
	return f, share
}

// average is the weighted mean of what factor i does over all settings of the others.
func (a *analysis) average(b block, i int, weight func(others int) float64) float64 {
	var sum float64
	for s := Baseline; s <= Candidate(a.k); s++ {
		if !s.Has(i) {
			sum += weight(bits.OnesCount32(uint32(s))) * (b[s.With(i)] - b[s])
		}
	}
	return sum
}

// shapley is |S|! (k-|S|-1)! / k!, the share of orders of the k factors in which exactly those of S come before the
// factor in question (Shapley 1953).
func (a *analysis) shapley(others int) float64 {
	w := 1 / float64(a.k)
	for j := 1; j <= others; j++ { // 1 / (k · C(k-1, others))
		w *= float64(j) / float64(a.k-j)
	}
	return w
}

func (a *analysis) even(int) float64 { return 1 / float64(int(1)<<(a.k-1)) }

// interactions of all pairs, in the order of the factors.
func (a *analysis) interactions(names []string) []Interaction {
	all := []Interaction{}
	if !a.full {
		return all
	}
	for i := range a.k {
		for j := i + 1; j < a.k; j++ {
			e := a.effect(a.each(func(b block) float64 { return a.together(b, i, j) }))
			all = append(all, Interaction{Factors: [2]string{names[i], names[j]}, Effect: e, Clear: a.clear(e)})
		}
	}
	return all
}

func (a *analysis) together(b block, i, j int) float64 {
	var sum float64
	for s := Baseline; s <= Candidate(a.k); s++ {
		if !s.Has(i) && !s.Has(j) {
			sum += b[s.With(i).With(j)] - b[s.With(i)] - b[s.With(j)] + b[s]
		}
	}
	return sum / float64(int(1)<<(a.k-2))
}

// effect is the mean of a contrast over blocks. The only errors left here are those of an unknown variation, which come
// with the estimate.
func (a *analysis) effect(c contrast) Effect {
	iv, err := stats.MeanInterval(c, a.opt.Level)
	ratio := iv.Exp()
	e := Effect{Log: iv.Estimate, Ratio: ratio.Estimate}
	if err == nil {
		e.LogInterval, e.RatioInterval = &iv, &ratio
	}
	return e
}

func (a *analysis) clear(e Effect) bool {
	return e.RatioInterval != nil && stats.Word(*e.RatioInterval, a.opt.MinimumEffect, "") != stats.NoClearChange
}

func (a *analysis) inert(e Effect) bool {
	return e.RatioInterval != nil && stats.Inert(*e.RatioInterval, a.opt.MinimumEffect)
}
