package validity

import (
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

func hostSteal(in trial) *finding {
	m := in.t.Machine
	switch {
	case m == nil || m.CPUSteal == nil:
		return unknown("the processors were not sampled")
	case in.t.Window == nil || in.t.Window.Seconds < minSampled:
		return unknown("the window is too short for the kernel's clock")
	}
	text := result.Percent(m.CPUSteal.Mean) + " stolen"
	if m.Throttled == nil {
		return limited(m.CPUSteal.Mean, maxSteal, text+"; a quota is not known", "")
	}
	text += ", " + result.Percent(*m.Throttled) + " stopped by a quota"
	return limited(max(m.CPUSteal.Mean/maxSteal, *m.Throttled/maxThrottled), 1, text, "")
}

// gpuLimits are the reasons that count, in the order in which they are told, and in what share of the samples each may be
// active. Clocks that somebody set (app-clocks, display-clock) are none: that is how a benchmark should run.
//
// Heat and supply are not the config's doing and change from trial to trial, so one sample is too many. The power limit is
// a property of the machine, in its fingerprint, and a config that reaches it runs like this for its user too: it warns.
var gpuLimits = []struct {
	word, title string
	limit       float64
	warns       bool
}{
	{"hw-thermal", "too hot (hardware)", 0, false},
	{"thermal", "too hot", 0, false},
	{"power-brake", "power supply", 0, false},
	{"hw-slowdown", "hardware slowdown", maxClockChange, false},
	{"sync-boost", "tied to a slower GPU", 0, true},
	{"power-cap", "power limit", maxPowerCap, true},
}

// gpuSlowed does not apply where no GPU was sampled: same-machine says so once for the run.
func gpuSlowed(in trial) *finding {
	gpus := engineGPUs(in.run, in.t)
	if len(gpus) == 0 {
		return nil
	}
	var over []string
	mild, silent := true, 0
	for _, g := range gpus {
		if g.Reasons == nil {
			silent++
			continue
		}
		for _, l := range gpuLimits {
			if v := g.Reasons[l.word]; v > l.limit {
				over = append(over, fmt.Sprintf("%s in %s of %s%s", l.title, result.Percent(v), plural(g.Samples, "sample"), at(gpus, g)))
				mild = mild && l.warns
			}
		}
	}
	switch {
	case len(over) > 0:
		f := failed("%s", strings.Join(over, "; "))
		f.mild = mild
		return f
	case silent > 0:
		return unknown("no sample of the GPU in the window tells")
	}
	if g := gpus[0]; g.GapS > maxSilent {
		return unknown("nvidia-smi was silent for %s", result.Seconds(g.GapS))
	}
	return okay("never for long in %s", plural(gpus[0].Samples, "sample"))
}

// at names a device where there are several.
func at(gpus []result.GPUUse, g result.GPUUse) string {
	if len(gpus) == 1 {
		return ""
	}
	return fmt.Sprintf(" of GPU %d", g.Index)
}

func gpuShared(in trial) *finding {
	gpus := engineGPUs(in.run, in.t)
	if len(gpus) == 0 {
		return nil
	}
	var others []string
	for _, g := range gpus {
		for _, p := range g.Others {
			text := fmt.Sprintf("process %d", p.PID)
			if p.PID == 0 {
				text = "a process that we cannot see"
			}
			if p.MemoryBytes != nil {
				text += fmt.Sprintf(" with %s MiB", result.Number(float64(*p.MemoryBytes)/(1<<20)))
			}
			others = append(others, text+at(gpus, g))
		}
	}
	switch {
	case len(others) > 0:
		return failed("%s", strings.Join(others, ", "))
	case slices.ContainsFunc(gpus, func(g result.GPUUse) bool { return g.Others == nil }):
		return unknown("the engine's processes cannot be told from others")
	}
	return okay("nobody else at either end of the window")
}

// engineGPUs are the devices whose state is the trial's. A simulated engine has none, and those of an endpoint may be in
// another machine.
func engineGPUs(run *result.Run, t *result.Trial) []result.GPUUse {
	if run.Simulated || t.Machine == nil || elsewhere(run) {
		return nil
	}
	gpus, _ := t.Machine.EngineGPUs()
	return gpus
}

func elsewhere(run *result.Run) bool { return run.Where == "endpoint" }

// sameMachine compares the GPUs of all measured trials.
func sameMachine(run *result.Run) *finding {
	switch {
	case run.Simulated:
		return nil // there is no GPU
	case elsewhere(run):
		return unknown("the engine's machine was not sampled: it may be another than this one")
	}
	var seen []*result.Trial
	missing, why := 0, "the GPU was not sampled"
	for i := range run.Trials {
		t := &run.Trials[i]
		switch {
		case t.Outcome != result.Measured:
		case t.Machine == nil:
			missing++
		case t.Machine.GPUs == nil:
			missing, why = missing+1, "nvidia-smi does not answer here"
		case len(engineGPUs(run, t)) > 0:
			seen = append(seen, t)
		}
	}
	different, mild := differentGPUs(run, seen)
	clocks, mildly := differentClocks(run, seen)
	switch {
	case len(different)+len(clocks) > 0:
		f := failed("%s", strings.Join(slices.Concat(different, clocks), "; "))
		f.mild = mild && mildly
		return f
	case missing > 0:
		return unknown("%s in %s", why, plural(missing, "trial"))
	case len(seen) == 0:
		return okay("the engine used no GPU")
	}
	return okay("%s%s", strings.Join(models(engineGPUs(run, seen[0])), " and "), clockText(run, seen))
}

// models are what may change a number, one for each device.
func models(gpus []result.GPUUse) []string {
	var out []string
	for _, g := range gpus {
		text := g.Name + ", driver " + or(g.Driver, "not known")
		if g.PowerLimitW != nil {
			text += ", " + result.Number(*g.PowerLimitW) + " W"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// differentGPUs tells in which way the devices differ. Another device of the same model only warns.
func differentGPUs(run *result.Run, trials []*result.Trial) (out []string, mild bool) {
	var kinds, ids []string
	for _, t := range trials {
		gpus := engineGPUs(run, t)
		if k := strings.Join(models(gpus), " and "); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
		var id []string
		for _, g := range gpus {
			id = append(id, g.ID)
		}
		slices.Sort(id)
		if k := strings.Join(id, " and "); !slices.Contains(ids, k) {
			ids = append(ids, k)
		}
	}
	switch {
	case len(kinds) > 1:
		return []string{strings.Join(kinds, " / ")}, false
	case len(ids) > 1:
		return []string{fmt.Sprintf("%d different devices of one model: %s", len(ids), strings.Join(ids, " / "))}, true
	}
	return nil, true
}

// differentClocks compares the clock at each load point, over all configs and starts: another load may well need another
// clock. Where the power limit lowered it, that is the config's own doing and only warns. Trials that gpu-slowed voids are
// left out: they are nobody's number already.
func differentClocks(run *result.Run, trials []*result.Trial) (out []string, mild bool) {
	mild = true
	for _, p := range points(run) {
		slow, fast := clockRange(run, trials, p)
		if slow.trial == nil || slow.hertz <= 0 || fast.hertz/slow.hertz-1 <= maxClockDiffer {
			continue
		}
		capped := slow.capped && slow.trial.Config != fast.trial.Config
		mild = mild && capped
		text := fmt.Sprintf("SM clock at %s %.0f MHz in %s, %.0f in %s", p, slow.hertz/1e6, slow.trial.ID, fast.hertz/1e6, fast.trial.ID)
		if capped {
			text += ", because it reached the power limit"
		}
		out = append(out, text)
	}
	return out, mild
}

// clock is the slowest device's median in one trial.
type clock struct {
	trial  *result.Trial
	hertz  float64
	capped bool
}

func clockRange(run *result.Run, trials []*result.Trial, p spec.Point) (slow, fast clock) {
	for _, t := range trials {
		c := clock{trial: t}
		for _, g := range engineGPUs(run, t) {
			if g.SMClock != nil && (c.hertz == 0 || g.SMClock.Median < c.hertz) {
				c.hertz, c.capped = g.SMClock.Median, g.Reasons["power-cap"] > maxPowerCap
			}
		}
		if t.Point != p || c.hertz == 0 || voided(run, t) {
			continue
		}
		if slow.trial == nil || c.hertz < slow.hertz {
			slow = c
		}
		if fast.trial == nil || c.hertz > fast.hertz {
			fast = c
		}
	}
	return slow, fast
}

func voided(run *result.Run, t *result.Trial) bool {
	f := gpuSlowed(trial{run: run, t: t})
	return f != nil && f.status == result.CheckFailed && !f.mild
}

func clockText(run *result.Run, trials []*result.Trial) string {
	var low, high float64
	for _, p := range points(run) {
		slow, fast := clockRange(run, trials, p)
		if slow.trial == nil {
			continue
		}
		if low == 0 || slow.hertz < low {
			low = slow.hertz
		}
		high = max(high, fast.hertz)
	}
	switch {
	case low == 0:
		return ", clock not known"
	case low == high:
		return fmt.Sprintf(", %.0f MHz", low/1e6)
	}
	return fmt.Sprintf(", %.0f to %.0f MHz", low/1e6, high/1e6)
}
