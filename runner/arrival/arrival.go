// Package arrival computes when requests are sent in an open loop: a schedule is a pure function of its parameters
// and a seed, made before the first request leaves.
package arrival

// Process is the kind of an arrival process.
type Process string

// The arrival processes.
const (
	Constant Process = "constant"
	Poisson  Process = "poisson"
)
