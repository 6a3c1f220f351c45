package vllm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/vllm"
	"h100-inference-control-plane/runner/openai"
)

// startServer starts the real program with the engine's own command line and waits until it is healthy.
func startServer(t *testing.T, bin, version, model string) (url, log string) {
	t.Helper()
	e := vllm.Engine{}
	port := freePort(t)
	cmd, err := e.Command(engine.Launch{
		Binary: []string{bin}, Version: version, Model: engine.Model{Name: "tiny", Path: model}, Host: "127.0.0.1", Port: port,
		Flags: []engine.Flag{
			{Name: "dtype", Value: "bfloat16"}, {Name: "enable-chunked-prefill", Value: true}, {Name: "enable-prefix-caching", Value: true},
			{Name: "enable-prompt-tokens-details", Value: true}, {Name: "enforce-eager", Value: true}, {Name: "load-format", Value: "dummy"},
			{Name: "max-model-len", Value: int64(2048)}, {Name: "max-num-seqs", Value: int64(16)},
		},
		// For a CPU build, which would take half of the memory for its cache; a GPU build does not read them.
		Env: map[string]string{"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"},
	})
	if err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(t.TempDir(), "server.log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(cmd.Argv[0], cmd.Argv[1:]...)
	p.Stdout, p.Stderr, p.Env = f, f, os.Environ()
	for k, v := range cmd.Env {
		p.Env = append(p.Env, k+"="+v)
	}
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { p.Wait(); close(ended) }()
	t.Cleanup(func() { stopServer(t, p.Process.Pid, ended); f.Close() })
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	waitHealthy(t, &openai.Client{BaseURL: url, Endpoints: e.Endpoints()}, ended, log)
	return url, log
}

func waitHealthy(t *testing.T, c *openai.Client, ended <-chan struct{}, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for c.Health(ctx) != nil {
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("the server ended: %s", reason(t, log))
		case <-ctx.Done():
			t.Fatalf("the server is not healthy after 8 minutes: %s", reason(t, log))
		}
	}
}

func reason(t *testing.T, log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s\n%s", vllm.Engine{}.FailureReason(b), bytes.TrimSpace(b[max(0, len(b)-2000):]))
}

// stopServer ends the whole process group, politely first.
func stopServer(t *testing.T, pgid int, ended <-chan struct{}) {
	syscall.Kill(-pgid, syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the server did not end within 30 s of SIGTERM")
	}
	syscall.Kill(-pgid, syscall.SIGKILL)
}
