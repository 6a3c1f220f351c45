package validity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// two is a run of two trials whose GPUs are changed.
func two(first, second func(*result.GPUUse)) *result.Run {
	p := healthy()
	p.summarise()
	a := p.run.Trials[0]
	b := a
	a.Machine, b.Machine = machine(first), machine(second)
	b.ID, b.Start, b.Repeat = "a-c4-2", "s02", 2
	p.run.Trials = []result.Trial{a, b}
	return p.run
}

func same(*result.GPUUse) {}

func find(checks []result.Check, name string) result.Check {
	i := slices.IndexFunc(checks, func(c result.Check) bool { return c.Name == name })
	if i < 0 {
		return result.Check{}
	}
	return checks[i]
}

func TestSameMachine(t *testing.T) {
	f := func(name string, run *result.Run, want result.CheckStatus, invalid bool, words ...string) {
		t.Helper()
		c := find(Run(run), "same-machine")
		if c.Status != want || c.Invalid() != invalid {
			t.Errorf("%s: %s, invalid %v (%s)", name, c.Status, c.Invalid(), c.Measured)
		}
		for _, w := range words {
			if !strings.Contains(c.Measured, w) {
				t.Errorf("%s: %q lacks %q", name, c.Measured, w)
			}
		}
	}
	clock := func(mhz float64) func(*result.GPUUse) {
		return func(g *result.GPUUse) { g.SMClock = &result.Spread{Median: mhz * 1e6} }
	}
	capped := func(g *result.GPUUse) { clock(1700)(g); g.Reasons = map[string]float64{"power-cap": 0.8} }

	f("the same", two(same, same), result.CheckOK, false, "NVIDIA H200, driver 580, 700 W", "1980 MHz")
	f("another model", two(same, func(g *result.GPUUse) { g.Name = "NVIDIA H100" }), result.CheckFailed, true, "H100", "H200")
	f("another driver", two(same, func(g *result.GPUUse) { g.Driver = "590" }), result.CheckFailed, true, "driver 580", "driver 590")
	f("another power limit", two(same, func(g *result.GPUUse) { v := 500.0; g.PowerLimitW = &v }), result.CheckFailed, true, "500 W")
	f("another device of the model", two(same, func(g *result.GPUUse) { g.ID = "GPU-2" }), result.CheckFailed, false, "2 different devices")
	f("2.5 % slower", two(clock(1980), clock(1932)), result.CheckOK, false, "1932 to 1980 MHz")
	f("3.5 % slower", two(clock(1980), clock(1913)), result.CheckFailed, true, "c4 1913 MHz in a-c4-2, 1980 in a-c4-1")
	f("the same config at the power limit in one start", two(same, capped), result.CheckFailed, true, "1700")

	other := two(same, capped)
	other.Trials[1].Config = "b"
	f("a config that needs the power limit", other, result.CheckFailed, false, "because it reached the power limit")
	hot := func(g *result.GPUUse) { clock(1200)(g); g.Reasons = map[string]float64{"thermal": 0.5} }
	f("one that is void by its heat", two(same, hot), result.CheckOK, false, "1980 MHz")
	load := two(same, capped)
	load.Trials[1].Point = spec.Point{Concurrency: 64}
	f("a load that needs the power limit", load, result.CheckOK, false, "1700 to 1980 MHz")
	silent := two(same, same)
	silent.Trials[1].Machine = nil
	f("not sampled in one", silent, result.CheckUnknown, false, "not sampled in 1 trial")
	silent.Trials[1].Machine = &result.Machine{}
	f("no nvidia-smi", silent, result.CheckUnknown, false, "nvidia-smi does not answer")
	f("no clocks", two(func(g *result.GPUUse) { g.SMClock = nil }, func(g *result.GPUUse) { g.SMClock = nil }), result.CheckOK, false, "clock not known")
	no := false
	unused := func(g *result.GPUUse) { g.Used = &no; g.Name = "" }
	f("an engine without GPU", two(unused, unused), result.CheckOK, false, "used no GPU")
	far := two(same, same)
	far.Where = "endpoint"
	f("an endpoint", far, result.CheckUnknown, false, "another")
}

func TestNoGPUInASimulation(t *testing.T) {
	hot := func(g *result.GPUUse) {
		g.Reasons["thermal"] = 1
		g.Others = []result.GPUProcess{{PID: 1}}
		g.Driver = ""
	}
	run := two(same, hot)
	run.Simulated = true
	for _, c := range append(Run(run), Trial(run, &run.Trials[1], nil)...) {
		if c.Name == "same-machine" || strings.HasPrefix(c.Name, "gpu-") {
			t.Errorf("%s in a simulation: %+v", c.Name, c)
		}
	}
}

func TestTrialMachine(t *testing.T) {
	f := func(name string, m *result.Machine, check string, want result.CheckStatus, invalid bool, words ...string) {
		t.Helper()
		run := two(same, same)
		tr := &run.Trials[0]
		tr.Machine = m
		c := find(Trial(run, tr, nil), check)
		if c.Status != want || c.Invalid() != invalid {
			t.Errorf("%s: %q, invalid %v (%s)", name, c.Status, c.Invalid(), c.Measured)
		}
		for _, w := range words {
			if !strings.Contains(c.Measured, w) {
				t.Errorf("%s: %q lacks %q", name, c.Measured, w)
			}
		}
	}
	reason := func(word string, share float64) *result.Machine {
		return machine(func(g *result.GPUUse) { g.Reasons = map[string]float64{word: share} })
	}
	f("cool", machine(same), "gpu-slowed", result.CheckOK, false, "30 samples")
	f("one hot sample", reason("hw-thermal", 1.0/30), "gpu-slowed", result.CheckFailed, true, "too hot", "3.33 % of 30 samples")
	f("a clock that changed", reason("hw-slowdown", 0.04), "gpu-slowed", result.CheckOK, false)
	f("a slow clock", reason("hw-slowdown", 0.06), "gpu-slowed", result.CheckFailed, true, "hardware slowdown")
	f("at the power limit", reason("power-cap", 0.06), "gpu-slowed", result.CheckFailed, false, "power limit")
	f("sync boost", reason("sync-boost", 0.01), "gpu-slowed", result.CheckFailed, false)
	f("clocks that were set", reason("app-clocks", 1), "gpu-slowed", result.CheckOK, false)
	f("no reasons", machine(func(g *result.GPUUse) { g.Reasons = nil }), "gpu-slowed", result.CheckUnknown, false)
	f("a silent nvidia-smi", machine(func(g *result.GPUUse) { g.GapS = 12 }), "gpu-slowed", result.CheckUnknown, false, "12")
	f("no GPU sampled", &result.Machine{}, "gpu-slowed", "", false)
	f("alone", machine(same), "gpu-shared", result.CheckOK, false)
	f("not known", machine(func(g *result.GPUUse) { g.Others = nil }), "gpu-shared", result.CheckUnknown, false)
	mib := int64(512 << 20)
	f("others", machine(func(g *result.GPUUse) { g.Others = []result.GPUProcess{{PID: 7, MemoryBytes: &mib}, {}} }), "gpu-shared", result.CheckFailed, true, "process 7 with 512 MiB", "cannot see")

	f("quiet", machine(same), "host-steal", result.CheckOK, false, "1.00 % stolen", "stopped by a quota")
	f("not sampled", nil, "host-steal", result.CheckUnknown, false)
	noQuota := machine(same)
	noQuota.Throttled = nil
	f("no quota known", noQuota, "host-steal", result.CheckOK, false, "not known")
	noQuota.CPUSteal.Mean = 0.2
	f("steal alone", noQuota, "host-steal", result.CheckFailed, true, "20.0 % stolen")

	run := two(same, same)
	tr := &run.Trials[0]
	tr.Window = &result.Window{T0: tr.Window.T0, T1: tr.Window.T0.Add(300 * time.Millisecond), Seconds: 0.3}
	if c := find(Trial(run, tr, nil), "host-steal"); c.Status != result.CheckUnknown {
		t.Errorf("a short window: %+v", c)
	}
	run.Simulated = true
	tr.Window.Seconds = 30
	tr.Machine.CPUSteal.Mean = 0.2
	if c := find(Trial(run, tr, nil), "host-steal"); c.Status != result.CheckFailed || c.Invalid() {
		t.Errorf("steal in a simulation: %+v", c)
	}
}

// One hot GPU of several is named.
func TestSeveralGPUs(t *testing.T) {
	run := two(same, same)
	tr := &run.Trials[0]
	second := machine(func(g *result.GPUUse) { g.Index, g.ID, g.Reasons = 1, "GPU-2", map[string]float64{"thermal": 0.5} })
	tr.Machine.GPUs = append(tr.Machine.GPUs, second.GPUs...)
	if c := find(Trial(run, tr, nil), "gpu-slowed"); !c.Invalid() || !strings.Contains(c.Measured, "of GPU 1") {
		t.Errorf("%+v", c)
	}
}
