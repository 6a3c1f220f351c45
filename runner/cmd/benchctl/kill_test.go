package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/result"
)

// These tests break a run on purpose, for real: the shipped program, a simulated engine in a process of its own, a real
// VictoriaMetrics. Each states the exit code, the one-line cause, what was kept, that nothing is left, and that the
// same command then completes.

const experiment = `apiVersion: bench/v1
kind: Experiment
name: kill
model: {name: Qwen/Qwen3.6-35B-A3B-FP8}
engine:
  name: sim
  version: 0.25.1
  flags: {max-model-len: 8192, enable-prefix-caching: true, enable-chunked-prefill: true}
  sim: {profile: laptop, speed: 20}
configs:
  eager:  {enforce-eager: true}
  graphs: {enforce-eager: false}
workload:
  prompt: {text: "Explain GPUs simply"}
  output: {tokens: 16, exact: true}
load:
  closed: {concurrency: [2, 4], requests: 40}
starts: 1
slo:
  - {name: latency, query: "share_gt_over_time(bench_request_latency_seconds[$window], 30)", max: 1%}
`

// A sandbox is one user with one experiment: a folder, a cache of its own for locks and registries, and a process mark
// by which everything that was started from it can be found.
type sandbox struct {
	t    *testing.T
	dir  string
	mark string
	env  []string
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: t.TempDir(), mark: fmt.Sprintf("BENCHCTL_TEST_MARK=%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid())}
	cache := filepath.Join(s.dir, "cache")
	s.shareStore(cache)
	s.env = append(os.Environ(), s.mark, "XDG_CACHE_HOME="+cache, "NO_COLOR=1", "CI=true")
	s.write("kill.yaml", experiment)
	t.Cleanup(func() {
		for _, p := range s.processes() {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return s
}

// shareStore lets the sandbox use the VictoriaMetrics that the user's cache already has.
func (s *sandbox) shareStore(cache string) {
	base, err := os.UserCacheDir()
	if err != nil {
		s.t.Fatal(err)
	}
	have, err := filepath.Glob(filepath.Join(base, "h100-inference-control-plane", "victoria-metrics-*"))
	if err != nil {
		s.t.Fatal(err)
	}
	to := filepath.Join(cache, "h100-inference-control-plane")
	if err := os.MkdirAll(to, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range have {
		if err := os.Symlink(p, filepath.Join(to, filepath.Base(p))); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *sandbox) write(name, text string) string {
	s.t.Helper()
	p := filepath.Join(s.dir, name)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// A finished is what a command left.
type ended struct {
	code           int
	stdout, stderr string
}

// start begins `benchctl run kill.yaml` with extra environment and arguments.
func (s *sandbox) start(extra []string, args ...string) (*exec.Cmd, func() ended) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, benchctl, append([]string{"run", "kill.yaml", "--out", "out"}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(append([]string(nil), s.env...), extra...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second // a leftover that holds the pipes must not hang the test: it must fail it
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return cmd, func() ended {
		s.t.Helper()
		cmd.Wait()
		return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
}

func (s *sandbox) run(extra []string, args ...string) ended {
	s.t.Helper()
	_, wait := s.start(extra, args...)
	return wait()
}

// A proc is a live process that was started from the sandbox.
type proc struct {
	pid int
	cmd string
}

func (s *sandbox) processes() []proc {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	var out []proc
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(env, []byte(s.mark)) {
			continue
		}
		stat, err := os.ReadFile(d + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		cmd, err := os.ReadFile(d + "/cmdline")
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(d))
		out = append(out, proc{pid, strings.ReplaceAll(string(cmd), "\x00", " ")})
	}
	return out
}

// nothingLeft waits for everything that was started to be gone: a killed process takes a moment to be reaped.
func (s *sandbox) nothingLeft() {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := s.processes()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			s.t.Errorf("still running: %v", left)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// noTemporaries fails when a half-written file is in the results.
func (s *sandbox) noTemporaries() {
	s.t.Helper()
	filepath.WalkDir(filepath.Join(s.dir, "out"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".tmp") {
			s.t.Errorf("a temporary file is left: %s", p)
		}
		return nil
	})
}

// folder is the one results folder of the sandbox.
func (s *sandbox) folder() string {
	s.t.Helper()
	got, err := filepath.Glob(filepath.Join(s.dir, "out/kill/*/*"))
	if err != nil || len(got) != 1 {
		s.t.Fatalf("results folders: %v (%v), want one", got, err)
	}
	return got[0]
}

func (s *sandbox) document() *result.Run {
	s.t.Helper()
	run, err := result.Read(s.folder())
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// finishedTrials reads the journal: the trials that a killed run has kept, with their documents' bytes.
func (s *sandbox) finishedTrials() map[string]string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.folder(), "journal/trial-*.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			s.t.Fatal(err)
		}
		if !json.Valid(b) {
			s.t.Errorf("%s is torn", n)
		}
		out[filepath.Base(n)] = string(b)
	}
	return out
}

// awaitTrials waits until n trials are in the journal.
func (s *sandbox) awaitTrials(n int) {
	s.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		got, _ := filepath.Glob(filepath.Join(s.dir, "out/kill/*/*/journal/trial-*.json"))
		if len(got) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("%d trials did not finish in time", n)
}

// completes runs the same command again, undisturbed, and checks that it measures only what is missing.
func (s *sandbox) completes(kept map[string]string) {
	s.t.Helper()
	got := s.run(nil)
	run := s.document()
	// Complete means that everything is measured. On a machine that is busy with other tests a check may fail, and the
	// run then says so.
	if got.code != 0 && got.code != 3 {
		s.t.Fatalf("the second run ended with %d, %s: %s\n%s", got.code, run.Verdict, run.Reason, got.stderr)
	}
	for _, tr := range run.Trials {
		if tr.Outcome != result.Measured {
			s.t.Errorf("trial %s is %s after the second run", tr.ID, tr.Outcome)
		}
		before, had := kept["trial-"+tr.ID+".json"]
		if !had {
			continue
		}
		var old result.Trial
		if err := json.Unmarshal([]byte(before), &old); err != nil {
			s.t.Fatal(err)
		}
		if !old.Window.T0.Equal(tr.Window.T0) {
			s.t.Errorf("trial %s was measured again although it was finished", tr.ID)
		}
	}
	if _, err := os.Stat(filepath.Join(s.folder(), "journal")); err == nil {
		s.t.Error("the finished folder still has a journal")
	}
	s.nothingLeft()
	s.noTemporaries()
}

func wantCode(t *testing.T, got ended, code int, cause string) {
	t.Helper()
	if got.code != code {
		t.Errorf("exit code %d, want %d\nstderr:\n%s", got.code, code, got.stderr)
	}
	if last := causeLine(got.stderr); !strings.Contains(last, cause) {
		t.Errorf("the line of the cause is %q, want %q in it\nstderr:\n%s", last, cause, got.stderr)
	}
}

// causeLine is the one line in which benchctl says why it ended.
func causeLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "benchctl: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func TestEngineCrashesAtStart(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	got := s.run([]string{"BENCHCTL_SIM_FAULT=crash-at-start"})
	wantCode(t, got, 4, "ended before it was ready")
	if !strings.Contains(got.stderr, "RuntimeError") && !strings.Contains(got.stderr, "Error") {
		t.Errorf("the engine's own words are missing:\n%s", got.stderr)
	}
	if run := s.document(); run.Verdict != result.Error {
		t.Errorf("verdict %s, want ERROR", run.Verdict)
	}
	s.nothingLeft()
	s.completes(nil)
}

func TestEngineHangsAtStart(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	got := s.run([]string{"BENCHCTL_SIM_FAULT=hang-at-start"}, "--ready-timeout", "2s")
	wantCode(t, got, 4, "not ready in time")
	s.nothingLeft()
	s.completes(nil)
}

// vLLM's server exits with code 0 when its engine dies (vllm#48966).
func TestEngineDiesInWindowWithCodeZero(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	got := s.run([]string{"BENCHCTL_SIM_FAULT=die-after=900"})
	wantCode(t, got, 4, "ended while it was in use")
	if !strings.Contains(causeLine(got.stderr), "exit code 0") {
		t.Errorf("the exit code is not named: %s", causeLine(got.stderr))
	}
	kept := s.finishedTrials()
	if len(kept) == 0 {
		t.Error("no finished trial was kept")
	}
	s.nothingLeft()
	s.completes(kept)
}

func TestEngineKilledInWindow(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	got := s.run([]string{"BENCHCTL_SIM_FAULT=die-hard-after=900"})
	wantCode(t, got, 4, "ended while it was in use")
	kept := s.finishedTrials()
	s.nothingLeft()
	s.completes(kept)
}

func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			cmd, wait := s.start(nil)
			s.awaitTrials(1)
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			got := wait()
			wantCode(t, got, 130, "interrupted")
			if run := s.document(); run.Verdict != result.Inconclusive {
				t.Errorf("the partial run's verdict is %s, want INCONCLUSIVE", run.Verdict)
			}
			s.nothingLeft()
			s.noTemporaries()
			s.completes(s.finishedTrials())
		})
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd, wait := s.start(nil)
	s.awaitTrials(1)
	if len(s.processes()) < 3 {
		t.Fatalf("want benchctl, an engine and VictoriaMetrics running, have %v", s.processes())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait()
	s.nothingLeft()
	s.completes(s.finishedTrials())
}

// The engine ignores the polite signal: it is killed, and the run ends as if nothing were wrong.
func TestEngineIgnoresTerm(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd, wait := s.start([]string{"BENCHCTL_SIM_FAULT=ignore-term"})
	s.awaitTrials(1)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	wantCode(t, wait(), 130, "interrupted")
	s.nothingLeft()
	s.completes(s.finishedTrials())
}

func TestStoreKilled(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	_, wait := s.start(nil)
	s.awaitTrials(1)
	for _, p := range s.processes() {
		if strings.Contains(p.cmd, "victoria-metrics") && !strings.Contains(p.cmd, "benchctl") {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	wantCode(t, wait(), 4, "VictoriaMetrics")
	kept := s.finishedTrials()
	if len(kept) == 0 {
		t.Error("no finished trial was kept")
	}
	s.nothingLeft()
	s.completes(kept)
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd, wait := s.start(nil)
	s.awaitTrials(1)
	got := s.run(nil)
	wantCode(t, got, 4, "another benchctl is filling this folder")
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the first run was disturbed: %v", err)
	}
	if first := wait(); first.code != 0 && first.code != 3 {
		t.Errorf("the first run ended with %d:\n%s", first.code, first.stderr)
	}
	s.nothingLeft()
}

// The results folder is on a file system that fills up.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	small := filepath.Join(s.dir, "out")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("needs the right to mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	_, wait := s.start(nil)
	s.awaitTrials(1)
	filler := filepath.Join(small, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := f.Write(make([]byte, 512)); err != nil {
			break
		}
	}
	f.Close()
	got := wait()
	wantCode(t, got, 4, "no space left on device")
	kept := s.finishedTrials()
	if len(kept) == 0 {
		t.Error("no finished trial was kept")
	}
	s.nothingLeft()
	s.noTemporaries()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	s.completes(kept)
}

// An engine may repeat a secret of its environment in its last words. They are shown and stored, the secret is not.
func TestSecretInTheEnginesWords(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const secret = "planted-secret-4711"
	engine := s.write("engine.sh", "#!/bin/sh\necho \"RuntimeError: cannot log in with $HF_TOKEN\" >&2\nexit 1\n")
	if err := os.Chmod(engine, 0o755); err != nil {
		t.Fatal(err)
	}
	real := strings.Replace(experiment, "  name: sim\n", "  name: vllm\n", 1)
	s.write("kill.yaml", strings.Replace(real, "  sim: {profile: laptop, speed: 20}\n", "", 1))
	got := s.run([]string{"HF_TOKEN=" + secret}, "--engine-bin", engine)
	wantCode(t, got, 4, "RuntimeError: cannot log in with")
	if strings.Contains(got.stdout+got.stderr, secret) {
		t.Errorf("the secret is printed:\n%s\n%s", got.stdout, got.stderr)
	}
	files := 0
	err := filepath.WalkDir(s.folder(), func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "journal":
			return filepath.SkipDir // git-ignored: the engine wrote its log there itself
		case d.IsDir():
			return nil
		}
		files++
		b, err := os.ReadFile(p)
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("the secret is in %s", p)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}
