package main_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/result"
)

// gpuSandbox is a machine with two GPUs and an engine that is not called simulated: a stand-in for nvidia-smi in PATH,
// and the simulated engine under vLLM's name.
func gpuSandbox(t *testing.T, load string) (s *sandbox, env, args []string) {
	s = newSandbox(t)
	bin, err := filepath.Abs("../../host/sample/testdata/bin")
	if err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(s.dir, "engine.pid")
	engine := s.write("engine.sh", "#!/bin/sh\necho $$ > "+pid+"\nexec "+benchctl+" sim --profile laptop --speed 1 \"$@\"\n")
	if err := os.Chmod(engine, 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("kill.yaml", `apiVersion: bench/v1
kind: Experiment
name: kill
model: {name: Qwen/Qwen3.6-35B-A3B-FP8}
engine:
  name: vllm
  version: 0.25.1
  flags: {max-model-len: 8192, enable-prefix-caching: true, enable-chunked-prefill: true, enforce-eager: false}
configs: {only: {}}
workload:
  prompt: {text: "Explain GPUs simply"}
  output: {tokens: 64, exact: true}
load:
  closed: {concurrency: [4], requests: `+load+`}
starts: 1
slo:
  - {name: power, query: "max_over_time(bench_gpu_power_watts{gpu=\"0\"}[$window])", max: 650}
  - {name: hot, query: "max_over_time(bench_gpu_throttle_active{gpu=\"0\",reason=\"thermal\"}[$window])", max: 0, gate: false}
  - {name: busy, query: "avg_over_time(bench_host_cpu_busy_ratio[$window])", max: 1, gate: false}
`)
	env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "SMI_REASONS=clocks_event_reasons.active", "SMI_MASK=0x0000000000000021", "SMI_PIDFILE=" + pid}
	return s, env, []string{"--engine-bin", engine}
}

// What nvidia-smi says in the window is in the document, in the checks, in the report and in VictoriaMetrics.
func TestGPUIsSampled(t *testing.T) {
	t.Parallel()
	s, env, args := gpuSandbox(t, "60")
	got := s.run(env, args...)
	wantCode(t, got, 3, "") // the GPU is too hot
	tr := s.document().Trials[0]
	if tr.Machine == nil || len(tr.Machine.GPUs) != 2 {
		t.Fatalf("machine %+v\n%s", tr.Machine, got.stderr)
	}
	g := tr.Machine.GPUs[0]
	if g.Used == nil || !*g.Used || *tr.Machine.GPUs[1].Used || g.Samples < 2 || g.SMClock.Median != 1.98e9 || *g.PowerW != 600 || g.Reasons["thermal"] != 1 || g.Others == nil || len(g.Others) > 0 {
		t.Errorf("the GPU: %+v", g)
	}
	if m := tr.Machine; m.CPUBusy == nil || *m.EnergyJ < 600 || math.Abs(*m.JoulesPerToken-*m.EnergyJ/float64(*tr.Client.OutputTokens)) > 1e-6 {
		t.Errorf("the machine: %+v", m)
	}
	want := map[string]float64{"power": 600, "hot": 1}
	for _, j := range tr.SLO {
		if v, ok := want[j.Name]; ok && (j.Value == nil || *j.Value != v) {
			t.Errorf("%s: %+v, want %v", j.Name, j, v)
		}
		if j.Name == "busy" && (j.Value == nil || !(*j.Value > 0 && *j.Value <= 1)) {
			t.Errorf("busy: %+v", j)
		}
	}
	i := slices.IndexFunc(tr.Checks, func(c result.Check) bool { return c.Name == "gpu-slowed" })
	if i < 0 || !tr.Checks[i].Invalid() {
		t.Errorf("a hot GPU trips no check: %+v", tr.Checks)
	}
	if !strings.Contains(got.stdout, "1980 MHz") || !strings.Contains(got.stdout, "600 W") {
		t.Errorf("the report says nothing of the GPU:\n%s", got.stdout)
	}
	s.nothingLeft()
}

// nvidia-smi does not outlive a benchctl that is killed inside the window.
func TestKilledWhileNvidiaSMIRuns(t *testing.T) {
	t.Parallel()
	s, env, args := gpuSandbox(t, "4000")
	cmd, wait := s.start(env, args...)
	samples := func() bool {
		return slices.ContainsFunc(s.processes(), func(p proc) bool { return strings.Contains(p.cmd, "-lms") })
	}
	for deadline := time.Now().Add(2 * time.Minute); !samples(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nvidia-smi was not started: %v", s.processes())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait()
	s.nothingLeft()
}
