//go:build unix

package sim

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the simulated engine, so that what only a process can do is tested with one.
func TestMain(m *testing.M) {
	if os.Getenv("SIM_TEST_PROCESS") == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// process starts the engine as a process and waits until it answers.
func process(t *testing.T, faults string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "--speed", "100", "--fault", faults, "serve", "m", "--host", "127.0.0.1", "--port", "0")
	cmd.Env = append(os.Environ(), "SIM_TEST_PROCESS=1")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "Starting vLLM server on "); ok {
			url = after
		}
		if strings.HasSuffix(lines.Text(), "Application startup complete.") {
			go func() {
				for lines.Scan() { // the process must not block on a full pipe
				}
			}()
			return cmd, url
		}
	}
	t.Fatal("the process ended before it answered")
	return nil, ""
}

func TestProcess(t *testing.T) {
	cmd, _ := process(t, "slow-metrics=0s")
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0", err)
	}

	cmd, url := process(t, "die-hard-after=3")
	if resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":50}`)); err == nil {
		resp.Body.Close()
		t.Errorf("a killed process answered %d", resp.StatusCode)
	}
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("die-hard-after: %v, want SIGKILL", err)
	}

	cmd, url = process(t, "ignore-term")
	for range 3 {
		cmd.Process.Signal(syscall.SIGTERM)
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":5}`))
		if err != nil {
			t.Fatalf("after SIGTERM: %v", err)
		}
		resp.Body.Close()
	}
}
