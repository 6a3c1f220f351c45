// Package arrival computes when requests are sent in an open loop: a schedule is a pure function of its parameters
// and a seed, made before the first request leaves. It does not wait for those times (load).
package arrival

import (
	"math"
	"math/rand/v2"
	"time"
)

// Process is the kind of an arrival process.
type Process string

// The arrival processes.
const (
	Constant Process = "constant"
	Poisson  Process = "poisson"
)

// Schedule returns the times, from the start of the window, at which requests are sent: ascending, each in [0, d), in
// nanoseconds. Constant sends the first request at once and then one every 1/rate; Poisson draws each gap from an
// exponential distribution with mean 1/rate, so that the number of arrivals varies from seed to seed around rate × d.
// The rate is in requests per second. An unknown process, and a rate or a duration that is not positive and finite,
// give no arrivals. The caller bounds rate × d: the schedule is held in memory, 8 bytes an arrival.
func Schedule(p Process, rate float64, d time.Duration, seed uint64) []time.Duration {
	if !(rate > 0) || math.IsInf(rate, 0) || d <= 0 {
		return nil
	}
	switch p {
	case Constant:
		return constant(rate, d)
	case Poisson:
		return poisson(rate, d, seed)
	}
	return nil
}

// constant multiplies rather than adds up, because a rounded gap would drift from the rate over a long window.
func constant(rate float64, d time.Duration) []time.Duration {
	var out []time.Duration
	for k := 0; ; k++ {
		at := float64(k) / rate * float64(time.Second)
		if at >= float64(d) {
			return out
		}
		out = append(out, time.Duration(at))
	}
}

// stream keeps the numbers of a schedule apart from those of anything else that is drawn from the same seed.
const stream = 0x6172726976616c // "arrival"

func poisson(rate float64, d time.Duration, seed uint64) []time.Duration {
	r := rand.New(rand.NewPCG(seed, stream))
	var out []time.Duration
	at := 0.0 // seconds
	for {
		at += -math.Log1p(-r.Float64()) / rate // inverse of the exponential distribution function
		next := time.Duration(at * float64(time.Second))
		if at >= d.Seconds() || next >= d {
			return out
		}
		out = append(out, next)
	}
}
