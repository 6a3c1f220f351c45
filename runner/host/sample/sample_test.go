package sample

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/result"
)

func TestMain(m *testing.M) {
	child.MaybeWatchdog()
	os.Exit(m.Run())
}

// fake puts testdata's nvidia-smi in front, with its environment.
func fake(t *testing.T, env ...string) {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("testdata", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
}

// run samples once with the test as the engine, and returns the machine and what was told. Nothing may be left of it.
func run(t *testing.T, ctx context.Context) (*result.Machine, string) {
	t.Helper()
	var told []string
	s := &Sampler{StateDir: t.TempDir(), Tell: func(m string) { told = append(told, m) }}
	began := time.Now().Truncate(time.Millisecond)
	g := s.Begin(ctx, Target{PID: os.Getpid(), GPUs: true})
	l := g.End(ctx)
	if again := g.End(ctx); again != l {
		t.Error("the second End is not the first")
	}
	if left, err := filepath.Glob(filepath.Join(s.StateDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left in the registry: %v %v", left, err)
	}
	tokens := int64(100)
	return l.Machine(began, time.Now(), &tokens), strings.Join(told, "\n")
}

func TestSampleGPUs(t *testing.T) {
	pid := os.Getpid()
	fake(t, "SMI_REASONS=clocks_event_reasons.active", "SMI_MASK=0x0000000000000024", fmt.Sprintf("SMI_APPS=GPU-0032a3d9-f72b-607f-bc2c-ed9645744904, %d, 2566\nGPU-0032a3d9-f72b-607f-bc2c-ed9645744904, 1, 100", pid))
	m, told := run(t, t.Context())
	if told != "" || len(m.GPUs) != 2 {
		t.Fatalf("%d GPUs, told %q", len(m.GPUs), told)
	}
	g, idle := m.GPUs[0], m.GPUs[1]
	if g.Name != "NVIDIA H200" || g.Driver != "580.159.04" || g.ID != "GPU-0032a3d9" || *g.PowerLimitW != 700 || g.Samples != 1 || g.SMClock.Median != 1.98e9 || g.MemoryClock.Max != 3.201e9 || *g.Temperature != 57 || *g.Utilization != 1 || *g.MemoryBytes != 2575<<20 {
		t.Errorf("read wrongly: %+v", g)
	}
	if len(g.Reasons) != 2 || g.Reasons["power-cap"] != 1 || g.Reasons["thermal"] != 1 {
		t.Errorf("reasons %v", g.Reasons)
	}
	if g.Used == nil || !*g.Used || idle.Used == nil || *idle.Used {
		t.Error("the engine is on the first GPU only")
	}
	if len(g.Others) != 1 || g.Others[0].PID != 1 || *g.Others[0].MemoryBytes != 100<<20 || idle.Others == nil || len(idle.Others) != 0 {
		t.Errorf("others %v and %v, want process 1 and none", g.Others, idle.Others)
	}
	if m.EnergyJ == nil || *m.EnergyJ != *g.EnergyJ || math.Abs(*m.JoulesPerToken-*m.EnergyJ/100) > 1e-6 || *g.PowerW != 600 {
		t.Errorf("energy %v of GPU %v", m.EnergyJ, g.EnergyJ)
	}
}

// The bit mask of reasons had another name before driver 535, and none before that.
func TestReasonFieldNames(t *testing.T) {
	for name, known := range map[string]bool{"clocks_event_reasons.active": true, "clocks_throttle_reasons.active": true, "": false} {
		fake(t, "SMI_REASONS="+name)
		m, told := run(t, t.Context())
		if told != "" || len(m.GPUs) != 2 || (m.GPUs[0].Reasons != nil) != known || m.GPUs[0].Name != "NVIDIA H200" {
			t.Errorf("%q: %+v, told %q", name, m.GPUs, told)
		}
	}
}

func TestSampleWithoutGPUs(t *testing.T) {
	t.Run("no devices", func(t *testing.T) {
		fake(t, "SMI_EMPTY=1")
		if m, told := run(t, t.Context()); m.GPUs == nil || len(m.GPUs) != 0 || told != "" {
			t.Errorf("%v, told %q; want an empty list", m.GPUs, told)
		}
	})
	t.Run("broken driver", func(t *testing.T) {
		fake(t, "SMI_FAIL=NVIDIA-SMI has failed because it could not communicate with the driver")
		if m, told := run(t, t.Context()); m.GPUs != nil || !strings.Contains(told, "could not communicate") {
			t.Errorf("%v, told %q; want null and the reason", m.GPUs, told)
		}
	})
	t.Run("no nvidia-smi", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if m, told := run(t, t.Context()); m.GPUs != nil || told != "" {
			t.Errorf("%v, told %q; want null", m.GPUs, told)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		fake(t, "SMI_HANG=1")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("Ctrl-C"))
		if m, told := run(t, ctx); m.GPUs != nil || !strings.Contains(told, "Ctrl-C") {
			t.Errorf("%v, told %q", m.GPUs, told)
		}
	})
	t.Run("not asked for", func(t *testing.T) {
		fake(t, "SMI_FAIL=nobody may ask")
		s := &Sampler{StateDir: t.TempDir(), Tell: func(m string) { t.Error(m) }}
		m := s.Begin(t.Context(), Target{PID: os.Getpid()}).End(t.Context()).Machine(time.Now(), time.Now(), nil)
		if m.GPUs != nil {
			t.Errorf("%v", m.GPUs)
		}
	})
}

func TestNilSampler(t *testing.T) {
	var s *Sampler
	l := s.Begin(t.Context(), Target{}).End(t.Context())
	if m, v := l.Machine(time.Now(), time.Now(), nil), l.Values(time.Now(), time.Now()); m != nil || v != nil {
		t.Errorf("%v %v", m, v)
	}
}

func TestDescends(t *testing.T) {
	p, err := child.Start(child.Options{Argv: []string{"sleep", "1000"}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.WithoutCancel(t.Context()), 0); err != nil {
			t.Error(err)
		}
	})
	self := os.Getpid()
	f := func(pid, engine int, want bool) {
		t.Helper()
		if got := descends(pid, engine); got != want {
			t.Errorf("descends(%d, %d) = %v", pid, engine, got)
		}
	}
	f(p.PID(), p.PID(), true)
	f(p.PID(), self, true)  // its child
	f(self, p.PID(), false) // its parent
	f(1, self, false)
	f(0, self, false)
	f(self, 0, false)
	f(1<<30, self, false) // there is no such process
}
