// Package sim is the simulated engine as an engine.Engine: it speaks vLLM's language, so everything but its name and
// its command line is vLLM's. The server itself is package runner/sim.
package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/vllm"
)

// Engine is the simulated engine. The zero value is ready.
type Engine struct{ vllm.Engine }

var _ engine.Engine = Engine{}

// Name is "sim".
func (Engine) Name() string { return "sim" }

// Simulated is true.
func (Engine) Simulated() bool { return true }

// Command is the binary (normally this program and "sim"), then the simulation's own options [--profile P] [--speed X]
// [--fault F]... [--version V], then exactly what vLLM would be given: serve MODEL --served-model-name ... V is the
// release to resemble. A flag that vLLM does not have is refused here too.
func (e Engine) Command(l engine.Launch) (engine.Command, error) {
	if len(l.Binary) == 0 {
		return engine.Command{}, errors.New("make the command of sim: no binary is given")
	}
	own, err := options(l.Sim)
	if err != nil {
		return engine.Command{}, fmt.Errorf("make the command of sim: %w", err)
	}
	if l.Version != "" {
		own = append(own, "--version", l.Version)
	}
	l.Binary = slices.Concat(l.Binary, own)
	return e.Engine.Command(l)
}

func options(s engine.Sim) ([]string, error) {
	var args []string
	if s.Profile != "" {
		args = append(args, "--profile", s.Profile)
	}
	if s.Speed < 0 || math.IsNaN(s.Speed) || math.IsInf(s.Speed, 0) {
		return nil, fmt.Errorf("speed %v is not a positive number", s.Speed)
	}
	if s.Speed != 0 {
		args = append(args, "--speed", strconv.FormatFloat(s.Speed, 'f', -1, 64))
	}
	for _, f := range s.Faults {
		if f == "" || strings.HasPrefix(f, "-") {
			return nil, fmt.Errorf("%q is not a fault", f)
		}
		args = append(args, "--fault", f)
	}
	return args, nil
}
