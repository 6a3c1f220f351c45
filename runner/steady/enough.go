package steady

import (
	"fmt"
	"math"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

// minWaves is how many requests long a window must be: a single wave shows only requests that began together.
const minWaves = 2

// length fills how long the window is in requests, how precise that allows throughput to be, and how many requests
// would do. With k waves of c places and the coefficient of variation v of E2E, the number of requests that end in the
// window has a relative error of v/√(c·k) (renewal theory: Cox, Renewal Theory, 1962, § 3.3). A wave that an edge cuts
// may be short of the time in which it has no tokens yet, the share s of TTFT in E2E: s/k at most.
func length(s *result.Steady, recs []record.Record, places int) {
	m := moments(recs)
	if m.n == 0 || m.e2e <= 0 {
		return
	}
	s.Waves = s.Seconds / m.e2e
	a, b := m.ttft/m.e2e, 1.96*m.spread/m.e2e/math.Sqrt(float64(places))
	precision := a/s.Waves + b/math.Sqrt(s.Waves)
	s.Precision = &precision
	if precision <= s.Asked && s.Waves >= minWaves*0.95 {
		return
	}
	// a/k + b/√k = asked, solved for 1/√k.
	need := float64(minWaves)
	if a > 0 || b > 0 {
		x := s.Asked * 2 / (b + math.Sqrt(b*b+4*a*s.Asked)) // the root of a·x² + b·x − asked, written so that a = 0 does no harm
		need = max(need, 1/(x*x))
	}
	s.NeedRequests = places * (int(math.Ceil(need)) + 1)
}

type summary struct {
	n                 int
	ttft, e2e, spread float64 // means, and the standard deviation of E2E, in seconds
}

func moments(recs []record.Record) summary {
	var m summary
	var sum, squares, ttft float64
	for _, r := range recs {
		e, ok := r.E2E()
		t, have := r.TTFT()
		if r.Err != record.OK || !ok || !have {
			continue
		}
		m.n++
		sum += e
		squares += e * e
		ttft += t
	}
	if m.n == 0 {
		return m
	}
	n := float64(m.n)
	m.e2e, m.ttft = sum/n, ttft/n
	m.spread = math.Sqrt(max(0, squares/n-m.e2e*m.e2e))
	return m
}

// rates are requests and output tokens per second over the wall clock; 0 = not known.
type rates struct{ requests, tokens float64 }

func wallRates(recs []record.Record, wall float64) rates {
	c := result.Summarise(recs, result.SummaryOptions{Seconds: wall})
	var r rates
	if c.RequestsPerS != nil {
		r.requests = *c.RequestsPerS
	}
	if c.OutputPerS != nil {
		r.tokens = *c.OutputPerS
	}
	return r
}

// explain says in one sentence why requests ÷ wall time is another throughput.
func explain(s *result.Steady, n, places int, wall rates) string {
	inside, outside, unit := s.OutputPerS, wall.tokens, "tok/s"
	if inside == nil || outside == 0 {
		inside, outside, unit = s.RequestsPerS, wall.requests, "req/s"
	}
	if inside == nil || outside == 0 || math.Abs(*inside/outside-1) <= Differ {
		return ""
	}
	numbers := fmt.Sprintf("over the whole wall time it is %s %s, with every place busy %s %s", result.Number(outside), unit, result.Number(*inside), unit)
	switch {
	case *inside < outside:
		return fmt.Sprintf("the steady window has only the first %s of the load: %s", result.Seconds(s.To), numbers)
	case s.Tail == 0:
		return fmt.Sprintf("%d requests at %d at once end one by one, and places that find no work stay empty until the last has ended: %s", n, places, numbers)
	}
	return fmt.Sprintf("%d requests at %d at once are %s: %d of %d places have no work in the last one; %s",
		n, places, waves(s.FullWaves, places, s.Tail), places-s.Tail, places, numbers)
}

// waves names them: "two waves, 64 and 36".
func waves(full, places, tail int) string {
	switch full {
	case 1:
		return fmt.Sprintf("two waves, %d and %d", places, tail)
	case 2:
		return fmt.Sprintf("three waves, %d, %d and %d", places, places, tail)
	}
	return fmt.Sprintf("%d waves of %d and a last one of %d", full, places, tail)
}
