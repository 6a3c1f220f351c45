package sample

import (
	"math"
	"slices"
	"strings"
	"time"

	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/stats"
)

const (
	// minInterval is the shortest time over which processor shares are told: the kernel counts in ticks of 10 ms.
	minInterval = 500 * time.Millisecond
	// edge is how far after the window's edge, which is in whole milliseconds, the first sample may be.
	edge = 10 * time.Millisecond
	// maxGap is the longest time without a sample over which power is taken as constant.
	maxGap = 3 * every
	// noEngine is less memory than any engine takes: a context of the driver alone has about 500 MiB.
	noEngine = 256 << 20
	idDigits = len("GPU-12345678")
)

// Machine describes the window (t0, t1]. outputTokens are the client's; nil = not known. It is nil for a nil Log.
func (l *Log) Machine(t0, t1 time.Time, outputTokens *int64) *result.Machine {
	if l == nil {
		return nil
	}
	m := &result.Machine{
		CPUBusy:  l.share(t0, t1, func(c cpuTime) float64 { return c.busy }),
		CPUSteal: l.share(t0, t1, func(c cpuTime) float64 { return c.steal }),
	}
	if d, ok := l.counted(t0, t1, func(p point) *float64 { return p.throttle }); ok && t1.After(t0) {
		v := micro(min(1, d/t1.Sub(t0).Seconds()))
		m.Throttled = &v
	}
	if n := len(l.host); n > 0 {
		m.LoadAverage = l.host[n-1].load
	}
	if !l.answered {
		return m
	}
	m.GPUs = []result.GPUUse{}
	for _, rows := range byDevice(l.gpus) {
		m.GPUs = append(m.GPUs, l.device(rows, t0, t1))
	}
	l.assign(m.GPUs)
	m.EnergyJ = energy(m)
	if m.EnergyJ != nil && outputTokens != nil && *outputTokens > 0 {
		v := micro(*m.EnergyJ / float64(*outputTokens))
		m.JoulesPerToken = &v
	}
	return m
}

// micro rounds to millionths: a document shows no digits that only come from adding up.
func micro(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// counted is by how much a counter grew in the window; its value between two samples is taken from the line between
// them. False when the counter is absent or the samples do not reach over the window.
func (l *Log) counted(t0, t1 time.Time, of func(point) *float64) (float64, bool) {
	a, ok1 := l.at(t0, of)
	b, ok2 := l.at(t1, of)
	return max(0, b-a), ok1 && ok2
}

func (l *Log) at(t time.Time, of func(point) *float64) (float64, bool) {
	for i, p := range l.host {
		if p.at.Before(t) {
			continue
		}
		v := of(p)
		if v == nil {
			return 0, false
		}
		if i == 0 || p.at.Equal(t) {
			return *v, p.at.Sub(t) <= edge
		}
		before := of(l.host[i-1])
		if before == nil {
			return 0, false
		}
		q := l.host[i-1].at
		return *before + (*v-*before)*float64(t.Sub(q))/float64(p.at.Sub(q)), true
	}
	return 0, false
}

// share is a part of all processors' time.
func (l *Log) share(t0, t1 time.Time, part func(cpuTime) float64) *result.Share {
	of := func(f func(cpuTime) float64) func(point) *float64 {
		return func(p point) *float64 {
			if p.cpu == nil {
				return nil
			}
			v := f(*p.cpu)
			return &v
		}
	}
	d, ok := l.counted(t0, t1, of(part))
	all, _ := l.counted(t0, t1, of(func(c cpuTime) float64 { return c.total }))
	if !ok || all <= 0 {
		return nil
	}
	s := &result.Share{Mean: micro(min(1, d/all))}
	for i := 1; i < len(l.host); i++ {
		a, b := l.host[i-1], l.host[i]
		if !b.at.After(t0) || !a.at.Before(t1) {
			continue
		}
		if v, ok := between(a, b, part); ok && (s.Max == nil || v > *s.Max) {
			s.Max = &v
		}
	}
	return s
}

// between is the part from one sample to the next; false when they are too close, or the counters stand still.
func between(a, b point, part func(cpuTime) float64) (float64, bool) {
	if a.cpu == nil || b.cpu == nil || b.at.Sub(a.at) < minInterval {
		return 0, false
	}
	all := b.cpu.total - a.cpu.total
	if all <= 0 {
		return 0, false
	}
	return micro(min(1, max(0, part(*b.cpu)-part(*a.cpu))/all)), true
}

// byDevice puts the rows of each device together, by index.
func byDevice(rows []row) [][]row {
	var out [][]row
	where := map[string]int{}
	for _, r := range rows {
		i, seen := where[r.uuid]
		if !seen {
			i = len(out)
			where[r.uuid] = i
			out = append(out, nil)
		}
		if n := len(out[i]); n == 0 || r.at.After(out[i][n-1].at) {
			out[i] = append(out[i], r)
		}
	}
	slices.SortFunc(out, func(a, b []row) int { return a[0].index - b[0].index })
	return out
}

// device describes one GPU. rows has at least one.
func (l *Log) device(rows []row, t0, t1 time.Time) result.GPUUse {
	var in []row
	for _, r := range rows {
		if r.at.After(t0) && !r.at.After(t1) {
			in = append(in, r)
		}
	}
	last := rows[len(rows)-1]
	g := result.GPUUse{Index: last.index, ID: last.uuid[:min(len(last.uuid), idDigits)], Name: last.name, Driver: last.driver, Samples: len(in)}
	g.PowerLimitW = pick(rows, func(r row) *float64 { return r.limit }, func(a, b float64) float64 { return min(a, b) })
	g.SMClock = spread(in, func(r row) *float64 { return r.sm })
	g.MemoryClock = spread(in, func(r row) *float64 { return r.mem })
	higher := func(a, b float64) float64 { return max(a, b) }
	g.Temperature = pick(in, func(r row) *float64 { return r.temperature }, higher)
	if v := pick(rows, func(r row) *float64 { return r.memory }, higher); v != nil {
		n := int64(*v)
		g.MemoryBytes = &n
	}
	if xs := values(in, func(r row) *float64 { return r.utilization }); len(xs) > 0 {
		if v, err := stats.Mean(xs); err == nil {
			v = micro(v)
			g.Utilization = &v
		}
	}
	g.Reasons = reasons(in)
	g.GapS = gap(rows, t0, t1).Seconds()
	if j, ok := integrate(rows, t0, t1); ok && g.GapS <= maxGap.Seconds() && t1.After(t0) {
		j, w := micro(j), micro(j/t1.Sub(t0).Seconds())
		g.EnergyJ, g.PowerW = &j, &w
	}
	return g
}

func values(rows []row, of func(row) *float64) (out []float64) {
	for _, r := range rows {
		if v := of(r); v != nil {
			out = append(out, *v)
		}
	}
	return out
}

func pick(rows []row, of func(row) *float64, better func(a, b float64) float64) *float64 {
	xs := values(rows, of)
	if len(xs) == 0 {
		return nil
	}
	v := xs[0]
	for _, x := range xs[1:] {
		v = better(v, x)
	}
	return &v
}

func spread(rows []row, of func(row) *float64) *result.Spread {
	xs := values(rows, of)
	m, err := stats.Median(xs)
	if err != nil {
		return nil
	}
	return &result.Spread{Min: slices.Min(xs), Median: m, Max: slices.Max(xs)}
}

// gap is the longest time inside the window in which there was no sample.
func gap(rows []row, t0, t1 time.Time) time.Duration {
	longest, last := time.Duration(0), t0
	for _, r := range rows {
		if r.at.After(t0) && r.at.Before(t1) {
			longest, last = max(longest, r.at.Sub(last)), r.at
		}
	}
	return max(longest, t1.Sub(last))
}

// integrate gives the energy of the window. Each value of power is the mean of the second before it, so it counts for
// the time since the value before: a line between two values would be half a second late. After the last value it goes
// on as it was. False when a value is missing.
func integrate(rows []row, t0, t1 time.Time) (joules float64, ok bool) {
	from := t0
	for i, r := range rows {
		last := i == len(rows)-1
		if !r.at.After(t0) && !last {
			continue
		}
		if r.power == nil {
			return 0, false
		}
		to := r.at
		if last || to.After(t1) {
			to = t1
		}
		joules += *r.power * to.Sub(from).Seconds()
		if from = to; !from.Before(t1) {
			return joules, true
		}
	}
	return 0, false
}

// assign says which devices the engine used and who else was there. The process numbers are those of our own name space
// only when the engine's are among them; in a container they may be none or others.
func (l *Log) assign(gpus []result.GPUUse) {
	seen := slices.ContainsFunc(l.apps, func(a app) bool { return a.ours })
	filled := 0
	for _, g := range gpus {
		if g.MemoryBytes == nil || *g.MemoryBytes >= noEngine {
			filled++
		}
	}
	for i := range gpus {
		g := &gpus[i]
		var used bool
		switch {
		case l.engine == 0:
			continue // whose they are is not known
		case seen && l.asked:
			used = slices.ContainsFunc(l.apps, func(a app) bool { return a.ours && on(a, g) })
			g.Others = l.others(g)
		case g.MemoryBytes == nil:
			continue
		case *g.MemoryBytes < noEngine:
			used = false
		case filled == 1:
			used = true // it must be somewhere
		default:
			continue
		}
		g.Used = &used
	}
}

func on(a app, g *result.GPUUse) bool { return strings.HasPrefix(a.uuid, g.ID) }

func (l *Log) others(g *result.GPUUse) []result.GPUProcess {
	out := []result.GPUProcess{}
	for _, a := range l.apps {
		if a.ours || !on(a, g) || slices.ContainsFunc(out, func(p result.GPUProcess) bool { return p.PID == a.pid }) {
			continue
		}
		p := result.GPUProcess{PID: a.pid}
		if a.memory != nil {
			n := int64(*a.memory)
			p.MemoryBytes = &n
		}
		out = append(out, p)
	}
	return out
}

// energy is that of the engine's devices together.
func energy(m *result.Machine) *float64 {
	gpus, known := m.EngineGPUs()
	if !known || len(gpus) == 0 {
		return nil
	}
	sum := 0.0
	for _, g := range gpus {
		if g.EnergyJ == nil {
			return nil
		}
		sum += *g.EnergyJ
	}
	return &sum
}
