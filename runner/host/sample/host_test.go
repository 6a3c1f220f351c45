package sample

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReadHost(t *testing.T) {
	proc, cgroup := t.TempDir(), t.TempDir()
	write(t, proc, "stat", "cpu  400 100 200 8000 500 10 20 770 50 0\ncpu0 400 100 200 8000 500 10 20 770 50 0\nintr 7 1\nctxt 1\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n")
	write(t, proc, "loadavg", "1.25 0.5 0.1 1/217 515\n")
	write(t, proc, "42/cgroup", "0::/box/bench\n")
	if err := os.Symlink("42", filepath.Join(proc, "self")); err != nil {
		t.Fatal(err)
	}
	write(t, cgroup, "cpu.stat", "usage_usec 5\n") // the root has no quota
	write(t, cgroup, "box/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 2\nthrottled_usec 250000\n")
	write(t, cgroup, "box/bench/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 1\nthrottled_usec 500000\n")
	p := newHost(proc, cgroup).read()
	if p.cpu == nil || *p.cpu != (cpuTime{busy: 7.3, steal: 7.7, total: 100}) {
		t.Errorf("processors: %+v", p.cpu)
	}
	if p.load == nil || *p.load != 1.25 || p.throttle == nil || *p.throttle != 0.75 {
		t.Errorf("load %v, throttled %v", p.load, p.throttle)
	}
}

func TestReadHostAbsent(t *testing.T) {
	if p := newHost(filepath.Join(t.TempDir(), "none"), t.TempDir()).read(); p.cpu != nil || p.load != nil || p.throttle != nil || p.at.IsZero() {
		t.Errorf("%+v", p)
	}
	proc := t.TempDir()
	write(t, proc, "stat", "cpu x\n")
	write(t, proc, "loadavg", "?\n")
	if p := newHost(proc, t.TempDir()).read(); p.cpu != nil || p.load != nil || p.throttle != nil {
		t.Errorf("what is no number was read: %+v", p)
	}
}

// This machine's own counters stand for every Linux that the tests run on.
func TestReadThisHost(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc")
	}
	p := newHost("/proc", "/sys/fs/cgroup").read()
	if p.cpu == nil || p.cpu.total <= 0 || p.load == nil || time.Since(p.at) < 0 {
		t.Errorf("%+v", p)
	}
}

func FuzzThrottled(f *testing.F) {
	f.Add("usage_usec 15398139\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
	f.Add("throttled_usec 18446744073709551616\n")
	f.Add("throttled_usec -1\n")
	f.Fuzz(func(t *testing.T, s string) {
		if v := throttled(s); v != nil && !(*v >= 0) {
			t.Errorf("%q: %v", s, *v)
		}
	})
}
