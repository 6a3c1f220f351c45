package sample

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/metric"
	"h100-inference-control-plane/runner/result"
)

var (
	t0 = time.Date(2026, 12, 1, 9, 0, 0, 123e6, time.UTC)
	t1 = after(10)
)

func after(seconds float64) time.Time { return t0.Add(time.Duration(seconds * 1e9)) }

func ptr[T any](v T) *T { return &v }

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, show(got), want)
	}
}

func show(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// watts is a device with a sample a second, the first half a second before the window.
func watts(ps ...float64) []row {
	var out []row
	for i, p := range ps {
		out = append(out, row{at: after(float64(i) - 0.5), uuid: "GPU-12345678-9", name: "NVIDIA H200", driver: "580",
			power: ptr(p), limit: ptr(700.0), sm: ptr(1.98e9), memory: ptr(float64(100 << 30)), reasons: ptr(uint64(0))})
	}
	return out
}

func gpuLog(rows []row) *Log {
	return &Log{gpus: rows, answered: true, engine: 1}
}

func TestEnergy(t *testing.T) {
	f := func(name string, rows []row, want float64) {
		t.Helper()
		m := gpuLog(rows).Machine(t0, t1, ptr(int64(2000)))
		near(t, name+": energy", m.EnergyJ, want)
		near(t, name+": power", m.GPUs[0].PowerW, want/10)
		near(t, name+": per token", m.JoulesPerToken, want/2000)
	}
	even := watts(600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600)
	f("constant power", even, 6000)
	// Each value counts for the second before it: 0.5 s of 100, nine seconds of 200 to 1000, and the last for what is left.
	ramp := watts(50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
	f("a ramp", ramp, 50+5400+500)
	f("one that goes on after the window", append(ramp, row{at: after(10.5), uuid: ramp[0].uuid, power: ptr(2000.0), memory: ptr(float64(100 << 30))}), 50+5400+1000)
	late := even[2:]
	f("a late first sample", late, 6000)
}

// A number that would be made up is null.
func TestEnergyUnknown(t *testing.T) {
	f := func(name string, l *Log) {
		t.Helper()
		m := l.Machine(t0, t1, ptr(int64(10)))
		if m.EnergyJ != nil || m.JoulesPerToken != nil {
			t.Errorf("%s: %v J", name, show(m.EnergyJ))
		}
	}
	all := watts(600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600)
	f("no GPU", gpuLog(nil))
	f("nvidia-smi died", gpuLog(all[:4]))
	f("nvidia-smi hung", gpuLog(append(append([]row(nil), all[:3]...), all[7:]...)))
	f("one sample only", gpuLog(all[:1]))
	silent := append([]row(nil), all...)
	silent[5].power = nil
	f("no power in one", gpuLog(silent))
	strange := gpuLog(all)
	strange.engine = 0
	f("an engine that is not ours", strange)
	other := append([]row(nil), all...)
	for _, r := range all {
		r.uuid, r.index = "GPU-99999999-9", 1
		other = append(other, r)
	}
	f("one of two GPUs, not known which", gpuLog(other))
	m := gpuLog(all).Machine(t0, t1, nil)
	near(t, "energy without tokens", m.EnergyJ, 6000)
	if m.JoulesPerToken != nil {
		t.Error("energy per token without tokens")
	}
	if m := gpuLog(all).Machine(t0, t1, ptr(int64(0))); m.JoulesPerToken != nil {
		t.Error("energy per token of no token")
	}
}

func TestDevice(t *testing.T) {
	rows := watts(600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600)
	for i := range rows {
		rows[i].sm = ptr(1e9 + 1e8*float64(i))
		rows[i].temperature = ptr(50 + float64(i))
		rows[i].utilization = ptr(0.1 * float64(i))
		if i > 0 && i <= 2 {
			rows[i].reasons = ptr(uint64(0x4 | 0x1))
		}
	}
	rows[4].reasons = nil
	rows[3].limit = ptr(650.0)
	g := gpuLog(rows).Machine(t0, t1, nil).GPUs[0]
	if g.Samples != 10 || g.SMClock.Min != 1.1e9 || g.SMClock.Max != 2e9 {
		t.Errorf("%d samples, clock %+v: the one before the window does not count", g.Samples, g.SMClock)
	}
	near(t, "median clock", &g.SMClock.Median, 1.55e9)
	near(t, "temperature", g.Temperature, 60)
	near(t, "utilization", g.Utilization, 0.55)
	near(t, "limit", g.PowerLimitW, 650)
	near(t, "gap", &g.GapS, 1)
	if len(g.Reasons) != 1 || g.Reasons["power-cap"] != 0.222222 {
		t.Errorf("reasons %v: two of the nine that tell", g.Reasons)
	}
	if g.MemoryClock != nil || g.Others != nil {
		t.Errorf("made up: %v %v", g.MemoryClock, g.Others)
	}
}

func TestWhoseGPU(t *testing.T) {
	f := func(name string, engine int, memory float64, apps []app, used string, others string) {
		t.Helper()
		rows := watts(600, 600)
		rows[0].memory, rows[1].memory = &memory, &memory
		l := &Log{gpus: rows, answered: true, engine: engine, apps: apps, asked: true}
		g := l.Machine(t0, t1, nil).GPUs[0]
		got := "unknown"
		if g.Used != nil {
			got = fmt.Sprint(*g.Used)
		}
		who := "unknown"
		if g.Others != nil {
			who = ""
			for _, p := range g.Others {
				who += fmt.Sprint(p.PID) + " "
			}
		}
		if got != used || strings.TrimSpace(who) != others {
			t.Errorf("%s: used %s, others %q; want %s, %q", name, got, who, used, others)
		}
	}
	const full, uuid = 100 << 30, "GPU-12345678-9"
	ours, theirs := app{uuid: uuid, pid: 5, ours: true}, app{uuid: uuid, pid: 9, memory: ptr(1e9)}
	f("ours alone, twice", 4, full, []app{ours, ours}, "true", "")
	f("with others, one of whom came later", 4, full, []app{ours, theirs, ours, theirs, {uuid: uuid, pid: 11}}, "true", "9 11")
	f("others that cannot be seen", 4, full, []app{ours, {uuid: uuid}}, "true", "0")
	f("ours is on another GPU", 4, full, []app{{uuid: "GPU-2", pid: 5, ours: true}, theirs}, "false", "9")
	f("numbers of another name space", 4, full, []app{theirs}, "true", "unknown")
	f("no processes shown", 4, full, nil, "true", "unknown")
	f("nothing in its memory", 4, 100<<20, nil, "false", "unknown")
	f("an engine that is not ours", 0, full, []app{theirs}, "unknown", "unknown")
}

func cpu(at, busy, steal, total float64) point {
	return point{at: after(at), cpu: &cpuTime{busy, steal, total}, throttle: ptr(busy / 100), load: ptr(busy)}
}

func TestHostShares(t *testing.T) {
	// Two processors. Nothing happens before the window; inside, one is busy and a tenth is stolen in the sixth second.
	l := &Log{host: []point{cpu(-1, 0, 0, 0)}}
	for s := range 11 {
		stolen := 0.0
		if s >= 6 {
			stolen = 0.2
		}
		l.host = append(l.host, cpu(float64(s), float64(s), stolen, 2+2*float64(s)))
	}
	m := l.Machine(t0, t1, nil)
	near(t, "busy", &m.CPUBusy.Mean, 0.5)
	near(t, "busiest second", m.CPUBusy.Max, 0.5)
	near(t, "steal", &m.CPUSteal.Mean, 0.01)
	near(t, "worst second", m.CPUSteal.Max, 0.1)
	near(t, "throttled", m.Throttled, 0.01)
	near(t, "load", m.LoadAverage, 10)
	if m.GPUs != nil {
		t.Errorf("GPUs %v without nvidia-smi", m.GPUs)
	}
	// Between two samples a counter is taken from the line between them.
	half := l.Machine(after(0.5), after(5.5), nil)
	near(t, "busy between samples", &half.CPUBusy.Mean, 0.5)
	near(t, "steal between samples", &half.CPUSteal.Mean, 0.1/10)
}

func TestHostSharesUnknown(t *testing.T) {
	f := func(name string, points ...point) {
		t.Helper()
		m := (&Log{host: points}).Machine(t0, t1, nil)
		if m.CPUBusy != nil || m.CPUSteal != nil || m.Throttled != nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	f("no samples")
	f("none after the window", cpu(-1, 0, 0, 0), cpu(9, 1, 0, 20))
	f("none before it", cpu(1, 0, 0, 0), cpu(11, 1, 0, 20))
	f("nothing readable", point{at: after(-1)}, point{at: after(11)})
	short := &Log{host: []point{cpu(0, 0, 0, 0), cpu(0.3, 0.1, 0, 0.6)}}
	if m := short.Machine(t0, after(0.3), nil); m.CPUBusy == nil || m.CPUBusy.Max != nil {
		t.Errorf("a window without a whole second: %+v", m.CPUBusy)
	}
	still := &Log{host: []point{{at: t0, cpu: &cpuTime{}}, {at: t1, cpu: &cpuTime{}}}}
	if m := still.Machine(t0, t1, nil); m.CPUBusy != nil {
		t.Errorf("a kernel that does not count: %+v", m.CPUBusy)
	}
}

// Every series is defined, in the window, and at most once a millisecond.
func TestValues(t *testing.T) {
	rows := watts(600, 600, 600, 600)
	for i := range rows {
		rows[i].mem, rows[i].temperature, rows[i].utilization = ptr(3.2e9), ptr(57.0), ptr(1.0)
	}
	rows[2].reasons = ptr(uint64(0x4))
	rows = append(rows, rows[3], row{at: after(60), uuid: rows[0].uuid, power: ptr(1.0)})
	l := &Log{host: []point{cpu(-1, 0, 0, 0), cpu(0, 1, 0, 2), cpu(1, 2, 0, 4), cpu(1.1, 2, 0, 4.2)}, gpus: rows, answered: true}
	seen, defined, sum := map[string]bool{}, map[string]int{}, map[string]float64{}
	for _, v := range l.Values(t0, t1) {
		if v.At.Before(t0) || v.At.After(t1) || v.At != v.At.Truncate(time.Millisecond) {
			t.Errorf("%+v is outside the window or no whole millisecond", v)
		}
		key := fmt.Sprint(v.Name, v.GPU, v.Reason, v.At.UnixMilli())
		if seen[key] {
			t.Errorf("%+v is there twice", v)
		}
		seen[key] = true
		defined[v.Name]++
		sum[v.Name+v.Reason] += v.Value
		if strings.HasPrefix(v.Name, "bench_gpu_") != (v.GPU == "0") {
			t.Errorf("%+v has the wrong labels", v)
		}
	}
	for _, g := range metric.Groups() {
		for _, m := range g.Metrics {
			if strings.HasPrefix(m.Name, "bench_host_") || strings.HasPrefix(m.Name, "bench_gpu_") {
				if defined[m.Name] == 0 {
					t.Errorf("%s has no value", m.Name)
				}
				delete(defined, m.Name)
			}
		}
	}
	for name := range defined {
		t.Errorf("%s is not in runner/metric", name)
	}
	if sum["bench_gpu_power_watts"] != 1800 || sum["bench_gpu_throttle_activepower-cap"] != 1 || sum["bench_gpu_throttle_activethermal"] != 0 || sum["bench_host_cpu_busy_ratio"] != 1 {
		t.Errorf("values: %v", sum)
	}
}

// What the engine used is what its energy is counted over.
func TestEnergyOfTheEnginesGPUs(t *testing.T) {
	rows := watts(600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600)
	for _, r := range rows {
		r.uuid, r.index, r.power = "GPU-99999999-9", 1, ptr(80.0)
		rows = append(rows, r)
	}
	l := &Log{gpus: rows, answered: true, asked: true, engine: 4, apps: []app{{uuid: "GPU-12345678-9", pid: 5, ours: true}}}
	m := l.Machine(t0, t1, nil)
	near(t, "energy", m.EnergyJ, 6000)
	if gpus, known := m.EngineGPUs(); !known || len(gpus) != 1 || gpus[0].Index != 0 {
		t.Errorf("%v %v", gpus, known)
	}
	var none *result.Machine = (&Log{}).Machine(t0, t1, nil)
	if gpus, known := none.EngineGPUs(); !known || len(gpus) != 0 {
		t.Errorf("%v %v", gpus, known)
	}
}
