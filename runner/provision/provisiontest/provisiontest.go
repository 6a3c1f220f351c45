// Package provisiontest is the suite that every provision.Provisioner passes, and a fake engine to pass it with. It
// does not test engines (enginetest does).
package provisiontest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"h100-inference-control-plane/runner/provision"
)

// Case is what one test of the suite runs.
type Case struct {
	Provisioner provision.Provisioner
	Request     provision.Request
}

// Harness makes an implementation testable.
type Harness struct {
	// New makes a provisioner and a request for an engine that behaves in that mode: Serves, Unready, and for a
	// provisioner that Owns its engines also Fails, EndsQuietly, Hangs, and Family or Deaf with another. The request
	// has an Engine named "fake", and a LogPath when logs are written.
	New func(t *testing.T, m Mode) Case
	// Crash ends a running engine unasked. Where there is an exit code it is code.
	Crash func(t *testing.T, s provision.Server, code int)
	// Owns is set when the provisioner starts engines itself. After its Stop nothing may be left.
	Owns bool
	// Left lists what is still there of an engine that was started for the case; nil when Owns is not set.
	Left func(t *testing.T, c Case) []string
}

// patience bounds the wait for what must happen. A test that it ends has failed.
const patience = time.Minute

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("Ready", h.ready)
	t.Run("StopTwice", h.stopTwice)
	t.Run("NeverReady", h.neverReady)
	t.Run("CancelledBefore", h.cancelledBefore)
	t.Run("CancelledWhileStarting", h.cancelledWhileStarting)
	t.Run("Crash", h.crash)
	t.Run("CrashWithCodeZero", h.crashZero)
	t.Run("StartContextOver", h.startContextOver)
	if h.Owns {
		t.Run("Fails", h.fails)
		t.Run("EndsQuietly", h.endsQuietly)
		t.Run("Family", h.family)
		t.Run("Deaf", h.deaf)
		t.Run("StopHasNoTime", h.stopHasNoTime)
	}
}

// start starts the engine of a case, and stops it after the test.
func (h Harness) start(t *testing.T, m Mode) (Case, provision.Server) {
	t.Helper()
	c := h.New(t, m)
	s, err := c.Provisioner.Start(t.Context(), c.Request)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("Stop in the end: %v", err)
		}
	})
	return c, s
}

func (h Harness) nothingLeft(t *testing.T, c Case) {
	t.Helper()
	if !h.Owns {
		return
	}
	if left := h.Left(t, c); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}

func (h Harness) ready(t *testing.T) {
	c, s := h.start(t, Serves)
	if c.Provisioner.Name() == "" {
		t.Error("no name")
	}
	u, err := url.Parse(s.URL())
	if err != nil || u.Host == "" || strings.HasSuffix(s.URL(), "/") {
		t.Errorf("URL %q: %v", s.URL(), err)
	}
	if code, err := get(s.URL() + "/health"); err != nil || code != http.StatusOK {
		t.Errorf("health right after Start: %d, %v", code, err)
	}
	if s.ReadyAt().IsZero() || s.ReadyAt().Before(s.StartedAt()) {
		t.Errorf("started %v, ready %v", s.StartedAt(), s.ReadyAt())
	}
	if over(s) || s.Err() != nil {
		t.Errorf("a running engine: exited %v, err %v", over(s), s.Err())
	}
	if h.Owns && s.StartedAt().IsZero() || !h.Owns && s.PID() != 0 {
		t.Errorf("owns engines: %v, but started %v, pid %d", h.Owns, s.StartedAt(), s.PID())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if !over(s) || s.Err() != nil {
		t.Errorf("after Stop: exited %v, err %v", over(s), s.Err())
	}
	h.nothingLeft(t, c)
	if code, err := get(s.URL() + "/health"); (err == nil) == h.Owns {
		t.Errorf("health after Stop: %d, %v; the engine is ours: %v", code, err, h.Owns)
	}
}

func (h Harness) stopTwice(t *testing.T) {
	_, s := h.start(t, Serves)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Stop(t.Context()); err != nil {
				t.Errorf("Stop beside Stop: %v", err)
			}
		})
	}
	wg.Wait()
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop after Stop: %v", err)
	}
	if !over(s) || s.Err() != nil {
		t.Errorf("exited %v, err %v", over(s), s.Err())
	}
}

func (h Harness) neverReady(t *testing.T) {
	modes := []Mode{Unready}
	if h.Owns {
		modes = append(modes, Hangs, Hangs+","+Family)
	}
	for _, m := range modes {
		c := h.New(t, m)
		c.Request.ReadyTimeout = 300 * time.Millisecond
		start := h.mustFail(t, c, provision.ErrTimeout)
		if start != nil && start.Doing == "" {
			t.Errorf("%s: the error does not say what was tried: %v", m, start)
		}
	}
}

// mustFail starts a case that cannot come up.
func (h Harness) mustFail(t *testing.T, c Case, cause error) *provision.StartError {
	t.Helper()
	s, err := c.Provisioner.Start(t.Context(), c.Request)
	if err == nil {
		s.Stop(context.Background())
		t.Fatal("Start gave a server")
	}
	if s != nil {
		t.Errorf("Start gave a server beside %v", err)
	}
	var start *provision.StartError
	if !errors.As(err, &start) || !errors.Is(err, cause) {
		t.Errorf("Start: %T %v; want a *StartError for %v", err, err, cause)
	}
	h.nothingLeft(t, c)
	return start
}

func (h Harness) cancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.mustBeCancelled(t, ctx, h.New(t, Unready))
}

func (h Harness) mustBeCancelled(t *testing.T, ctx context.Context, c Case) {
	t.Helper()
	s, err := c.Provisioner.Start(ctx, c.Request)
	var start *provision.StartError
	if s != nil || !errors.Is(err, context.Canceled) || errors.As(err, &start) {
		t.Errorf("Start: %v, %T %v; want the context's error", s, err, err)
	}
	h.nothingLeft(t, c)
}

func (h Harness) cancelledWhileStarting(t *testing.T) {
	m := Unready
	if h.Owns {
		m += "," + Family
	}
	c := h.New(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if h.Owns && c.Request.LogPath != "" {
		// Not before the engine is there.
		c.Request.OnLog = func(_ time.Time, line string) {
			if line == "listening" {
				cancel()
			}
		}
	} else {
		timer := time.AfterFunc(200*time.Millisecond, cancel)
		defer timer.Stop()
	}
	h.mustBeCancelled(t, ctx, c)
}

func (h Harness) crash(t *testing.T) { h.mustCrash(t, 3) }

// Real engines end with code 0 when their core has died (vllm#48966).
func (h Harness) crashZero(t *testing.T) { h.mustCrash(t, 0) }

func (h Harness) mustCrash(t *testing.T, code int) {
	m := Serves
	if h.Owns {
		m += "," + Family
	}
	c, s := h.start(t, m)
	h.Crash(t, s, code)
	select {
	case <-s.Exited():
	case <-time.After(patience):
		t.Fatal("Exited is never closed")
	}
	var crash *provision.CrashError
	if !errors.As(s.Err(), &crash) {
		t.Fatalf("Err: %T %v; want a *CrashError", s.Err(), s.Err())
	}
	if crash.Engine != "fake" || crash.Reason == "" || crash.Signal != "" {
		t.Errorf("crash: %+v", crash)
	}
	if h.Owns && (crash.ExitCode != code || crash.Reason != Reason || crash.Log != c.Request.LogPath) {
		t.Errorf("crash: %+v; want code %d, reason %q, log %q", crash, code, Reason, c.Request.LogPath)
	}
	h.nothingLeft(t, c)
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop after a crash: %v", err)
	}
	if !errors.As(s.Err(), &crash) {
		t.Errorf("Err after a crash and Stop: %v", s.Err())
	}
}

// The context of Start is not the engine's.
func (h Harness) startContextOver(t *testing.T) {
	c := h.New(t, Serves)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := c.Provisioner.Start(ctx, c.Request)
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if code, err := get(s.URL() + "/health"); err != nil || code != http.StatusOK || over(s) {
		t.Errorf("after the context of Start: health %d, %v; exited %v", code, err, over(s))
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if s.Err() != nil {
		t.Errorf("after Stop: %v", s.Err())
	}
}

func (h Harness) fails(t *testing.T) {
	c := h.New(t, Fails+","+Family)
	start := h.mustFail(t, c, provision.ErrExited)
	if start != nil && (start.Reason != Reason || start.Log != c.Request.LogPath) {
		t.Errorf("reason %q, log %q", start.Reason, start.Log)
	}
}

func (h Harness) endsQuietly(t *testing.T) {
	start := h.mustFail(t, h.New(t, EndsQuietly), provision.ErrExited)
	if start != nil && start.Reason != "" {
		t.Errorf("made up the reason %q", start.Reason)
	}
}

func (h Harness) family(t *testing.T) {
	c, s := h.start(t, Serves+","+Family)
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	h.nothingLeft(t, c)
}

func (h Harness) deaf(t *testing.T) {
	c := h.New(t, Serves+","+Family+","+Deaf)
	c.Request.StopGrace = time.Millisecond
	s, err := c.Provisioner.Start(t.Context(), c.Request)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if s.Err() != nil {
		t.Errorf("killed by Stop: %v", s.Err())
	}
	h.nothingLeft(t, c)
}

func (h Harness) stopHasNoTime(t *testing.T) {
	c, s := h.start(t, Serves+","+Deaf)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	h.nothingLeft(t, c)
}

func over(s provision.Server) bool {
	select {
	case <-s.Exited():
		return true
	default:
		return false
	}
}

func get(u string) (int, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Get(u)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// PIDs reads the process ids that fake engines have written into a log. A log that does not exist has none.
func PIDs(t *testing.T, logPath string) (pids []int) {
	t.Helper()
	f, err := os.Open(logPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		if s, ok := strings.CutPrefix(in.Text(), "pid "); ok {
			pid, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return pids
}

// Alive lists which of the processes run; one that has ended with all its threads and is only not collected yet does
// not. Linux.
func Alive(pids []int) (alive []string) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The fields after the name: the state first, the number of threads eighteenth (proc_pid_stat(5)).
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if ended := len(f) > 17 && (f[0] == "Z" || f[0] == "X") && (f[17] == "0" || f[17] == "1"); !ended {
			alive = append(alive, strconv.Itoa(pid))
		}
	}
	return alive
}
