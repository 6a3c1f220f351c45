package sample

import (
	"strconv"
	"time"
)

// A Value is one sample of one series, in base units.
type Value struct {
	Name string
	// GPU is the index of the device and Reason a word for why its clock was held down; "" = the series has no such label.
	GPU, Reason string
	At          time.Time // whole milliseconds
	Value       float64
}

// Values are the series of the window, both edges included: bench_host_* and bench_gpu_*. At most one of a series falls on
// a millisecond.
func (l *Log) Values(t0, t1 time.Time) []Value {
	if l == nil {
		return nil
	}
	v := &valueList{t0: t0, t1: t1, last: map[Value]time.Time{}}
	for i, p := range l.host {
		v.add("bench_host_load_average", "", "", p.at, p.load)
		if i == 0 {
			continue
		}
		before := l.host[i-1]
		if busy, ok := between(before, p, func(c cpuTime) float64 { return c.busy }); ok {
			v.add("bench_host_cpu_busy_ratio", "", "", p.at, &busy)
		}
		if steal, ok := between(before, p, func(c cpuTime) float64 { return c.steal }); ok {
			v.add("bench_host_cpu_steal_ratio", "", "", p.at, &steal)
		}
		if d := p.at.Sub(before.at); p.throttle != nil && before.throttle != nil && d >= minInterval {
			share := micro(min(1, max(0, *p.throttle-*before.throttle)/d.Seconds()))
			v.add("bench_host_throttled_ratio", "", "", p.at, &share)
		}
	}
	for _, r := range l.gpus {
		v.row(r)
	}
	return v.out
}

type valueList struct {
	t0, t1 time.Time
	last   map[Value]time.Time // by name and labels
	out    []Value
}

func (v *valueList) add(name, gpu, reason string, at time.Time, value *float64) {
	at = at.Truncate(time.Millisecond)
	if value == nil || at.Before(v.t0) || at.After(v.t1) {
		return
	}
	series := Value{Name: name, GPU: gpu, Reason: reason}
	if had, ok := v.last[series]; ok && !at.After(had) {
		return
	}
	v.last[series] = at
	v.out = append(v.out, Value{name, gpu, reason, at, *value})
}

func (v *valueList) row(r row) {
	gpu := strconv.Itoa(r.index)
	v.add("bench_gpu_sm_clock_hertz", gpu, "", r.at, r.sm)
	v.add("bench_gpu_memory_clock_hertz", gpu, "", r.at, r.mem)
	v.add("bench_gpu_power_watts", gpu, "", r.at, r.power)
	v.add("bench_gpu_power_limit_watts", gpu, "", r.at, r.limit)
	v.add("bench_gpu_temperature_celsius", gpu, "", r.at, r.temperature)
	v.add("bench_gpu_utilization_ratio", gpu, "", r.at, r.utilization)
	v.add("bench_gpu_memory_used_bytes", gpu, "", r.at, r.memory)
	if r.reasons == nil {
		return
	}
	for _, k := range reasonBits {
		active := 0.0
		if *r.reasons&k.bit != 0 {
			active = 1
		}
		v.add("bench_gpu_throttle_active", gpu, k.word, r.at, &active)
	}
}
