package sample

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// A point is what the kernel's counters said at one instant. Nil = not reported.
type point struct {
	at       time.Time
	cpu      *cpuTime
	throttle *float64 // seconds, summed over processors, since the cgroups were made
	load     *float64 // threads, over the last minute
}

// cpuTime is in seconds, summed over processors, since boot.
type cpuTime struct{ busy, steal, total float64 }

// host reads the kernel's counters.
type host struct {
	proc  *procfs.FS
	stats []string // cpu.stat of our cgroup and of those above it
}

func newHost(proc, cgroup string) *host {
	h := &host{}
	if fs, err := procfs.NewFS(proc); err == nil {
		h.proc = &fs
		h.stats = cgroupStats(fs, cgroup)
	}
	return h
}

// cgroupStats are the files that may count throttling: a quota of a cgroup above ours stops us too, and is counted there
// only.
func cgroupStats(fs procfs.FS, root string) []string {
	self, err := fs.Self()
	if err != nil {
		return nil
	}
	groups, err := self.Cgroups()
	if err != nil {
		return nil
	}
	for _, g := range groups {
		if g.HierarchyID != 0 { // 0 is version 2 (cgroups(7))
			continue
		}
		var out []string
		for path := filepath.Clean("/" + g.Path); ; path = filepath.Dir(path) {
			out = append(out, filepath.Join(root, path, "cpu.stat"))
			if path == "/" {
				return out
			}
		}
	}
	return nil
}

func (h *host) read() point {
	p := point{at: time.Now()}
	if h.proc == nil {
		return p
	}
	if s, err := h.proc.Stat(); err == nil {
		p.cpu = ofStat(s.CPUTotal)
	}
	if l, err := h.proc.LoadAvg(); err == nil {
		p.load = &l.Load1
	}
	for _, path := range h.stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if v := throttled(string(b)); v != nil {
			sum := *v
			if p.throttle != nil {
				sum += *p.throttle
			}
			p.throttle = &sum
		}
	}
	return p
}

// ofStat adds up /proc/stat's first line (proc_stat(5)). User and nice hold guest and guest_nice already. Waiting for a
// disk is idling.
func ofStat(c procfs.CPUStat) *cpuTime {
	busy := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ
	return &cpuTime{busy: busy, steal: c.Steal, total: busy + c.Steal + c.Idle + c.Iowait}
}

// throttled reads throttled_usec of a cgroup's cpu.stat (the kernel's cgroup-v2 document, "CPU interface files"), in
// seconds; nil when the group has no such counter, as the root has none.
func throttled(stat string) *float64 {
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) != 2 || f[0] != "throttled_usec" {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return nil
		}
		v := float64(n) / 1e6
		return &v
	}
	return nil
}
