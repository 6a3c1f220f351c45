//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/provision/provisiontest"
)

func TestMain(m *testing.M) {
	child.MaybeWatchdog()
	if code, ok := provisiontest.MaybePlay(); ok {
		os.Exit(code)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for the programs that we start: no second of sleep when they end
	os.Exit(m.Run())
}

func newCase(t *testing.T, m provisiontest.Mode) provisiontest.Case {
	dir := t.TempDir()
	return provisiontest.Case{
		Provisioner: New(Options{StateDir: filepath.Join(dir, "state")}),
		Request:     provision.Request{Engine: provisiontest.Engine{Mode: m}, LogPath: filepath.Join(dir, "engine.log")},
	}
}

func post(t *testing.T, u string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if res, err := c.Post(u, "", nil); err == nil { // an error is the rule: the engine ends instead of answering
		res.Body.Close()
	}
}

func TestConformance(t *testing.T) {
	provisiontest.Run(t, provisiontest.Harness{
		New:  newCase,
		Owns: true,
		Crash: func(t *testing.T, s provision.Server, code int) {
			post(t, fmt.Sprintf("%s/exit?code=%d", s.URL(), code))
		},
		Left: func(t *testing.T, c provisiontest.Case) []string {
			left := provisiontest.Alive(provisiontest.PIDs(t, c.Request.LogPath))
			state := filepath.Join(filepath.Dir(c.Request.LogPath), "state")
			entries, err := os.ReadDir(state)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, e := range entries {
				left = append(left, e.Name())
			}
			return left
		},
	})
}

func start(t *testing.T, c provisiontest.Case) provision.Server {
	t.Helper()
	s, err := c.Provisioner.Start(t.Context(), c.Request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestKilledEngine(t *testing.T) {
	s := start(t, newCase(t, provisiontest.Serves))
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
	var crash *provision.CrashError
	if !errors.As(s.Err(), &crash) || crash.Signal != "SIGKILL" || crash.ExitCode != -1 {
		t.Errorf("got %v", s.Err())
	}
}

// ports gives out these, then free ones.
func ports(t *testing.T, p provision.Provisioner, first ...int) {
	p.(*Provisioner).port = func() (int, error) {
		if len(first) == 0 {
			return freePort()
		}
		port := first[0]
		first = first[1:]
		return port, nil
	}
}

// taken is a port that somebody listens on without ever answering.
func taken(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestPortTaken(t *testing.T) {
	c := newCase(t, provisiontest.Serves)
	ports(t, c.Provisioner, taken(t), taken(t))
	var lines []string
	c.Request.OnLog = func(_ time.Time, line string) { lines = append(lines, line) }
	s := start(t, c)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(c.Request.LogPath)
	if err != nil || bytes.Contains(log, []byte("ERROR")) || !bytes.HasSuffix(log, []byte("listening\n")) {
		t.Errorf("the log is not the last attempt's: %q, %v", log, err)
	}
	if n := len(lines); n != 6 || !strings.Contains(lines[1], "address already in use") || lines[5] != "listening" {
		t.Errorf("lines: %q", lines)
	}
}

func TestPortTakenTooOften(t *testing.T) {
	c := newCase(t, provisiontest.Serves)
	ports(t, c.Provisioner, taken(t), taken(t), taken(t))
	_, err := c.Provisioner.Start(t.Context(), c.Request)
	if !errors.Is(err, provision.ErrExited) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

// Our engine has not come up, but somebody else answers on its port.
func TestStrangerAnswers(t *testing.T) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	stranger := func() int {
		srv := httptest.NewServer(ok)
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().(*net.TCPAddr).Port
	}
	c := newCase(t, provisiontest.Hangs)
	ports(t, c.Provisioner, stranger(), stranger(), stranger())
	_, err := c.Provisioner.Start(t.Context(), c.Request)
	if !errors.Is(err, errStranger) {
		t.Errorf("got %v", err)
	}
	if left := provisiontest.Alive(provisiontest.PIDs(t, c.Request.LogPath)); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}

// Two programs that both set SO_REUSEPORT share the connections to a port.
func TestStrangerShares(t *testing.T) {
	l, err := net.Listen("tcp4", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if strangerListens(port, []int{os.Getpid()}) {
		t.Error("our own listener is called a stranger's")
	}
	if !strangerListens(port, []int{os.Getppid()}) {
		t.Error("a stranger's listener is called ours")
	}
	l.Close()
	if strangerListens(port, []int{os.Getpid()}) {
		t.Error("nobody listens, and that is called a stranger")
	}
	all, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	port = all.Addr().(*net.TCPAddr).Port
	if strangerListens(port, []int{os.Getpid()}) || !strangerListens(port, nil) {
		t.Error("wrong about a listener on all addresses")
	}
}

func TestParseListeners(t *testing.T) {
	table := []byte(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 112 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 113 1 0 100 0 0 10 0
   3: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 114 1 0 100 0 0 10 0
   4: 0100007F:1F91 00000000:0000 0A
`)
	f := func(port int, address string, want ...string) {
		t.Helper()
		if got := parseListeners(table, port, address); !slices.Equal(got, want) {
			t.Errorf("%d on %s: %v, want %v", port, address, got, want)
		}
	}
	f(8080, "0100007F", "111", "112")
	f(8080, "00000000", "114")
	f(8081, "0100007F")
}

func TestStartFailure(t *testing.T) {
	f := func(name string, edit func(*provisiontest.Case), want error, text string) {
		t.Helper()
		c := newCase(t, provisiontest.Serves)
		edit(&c)
		s, err := c.Provisioner.Start(t.Context(), c.Request)
		if err == nil {
			s.Stop(context.Background())
			t.Fatalf("%s: started", name)
		}
		var start *provision.StartError
		if !errors.As(err, &start) || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	existing := filepath.Join(t.TempDir(), "old.log")
	if err := os.WriteFile(existing, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f("log exists", func(c *provisiontest.Case) { c.Request.LogPath = existing }, fs.ErrExist, "start fake: create the log")
	if b, err := os.ReadFile(existing); string(b) != "old" {
		t.Errorf("the old log was touched: %q, %v", b, err)
	}
	f("no folder for the log", func(c *provisiontest.Case) { c.Request.LogPath = "/nonexistent/x.log" }, fs.ErrNotExist, "create the log")
	f("no program", func(c *provisiontest.Case) { c.Request.Engine = provisiontest.Engine{Binary: "/nonexistent/vllm"} }, fs.ErrNotExist, "start fake: fork/exec /nonexistent/vllm")
	f("impossible flag", func(c *provisiontest.Case) { c.Request.Launch.Flags = []engine.Flag{{Name: "impossible"}} }, nil, "start fake: the flag impossible")
	f("no state folder", func(c *provisiontest.Case) { c.Provisioner = New(Options{}) }, nil, "no state folder")
	f("no port", func(c *provisiontest.Case) {
		c.Provisioner.(*Provisioner).port = func() (int, error) { return 0, errors.New("all in use") }
	}, nil, "start fake: all in use")
}

// The program is missing: the log that would be empty is not left in the way of the next try.
func TestNoLogWithoutProcess(t *testing.T) {
	c := newCase(t, provisiontest.Serves)
	c.Request.Engine = provisiontest.Engine{Binary: "/nonexistent/vllm"}
	if _, err := c.Provisioner.Start(t.Context(), c.Request); err == nil {
		t.Fatal("started")
	}
	if _, err := os.Stat(c.Request.LogPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("log: %v", err)
	}
}

func TestOnLog(t *testing.T) {
	c := newCase(t, provisiontest.Serves+","+provisiontest.Progress)
	var lines []string
	var last time.Time
	c.Request.OnLog = func(at time.Time, line string) {
		if at.Before(last) {
			t.Errorf("%q at %v, before %v", line, at, last)
		}
		last = at
		lines = append(lines, line)
	}
	s := start(t, c)
	pid := fmt.Sprintf("pid %d", s.PID())
	post(t, s.URL()+"/exit?code=0")
	<-s.Exited()
	if want := []string{pid, "listening", "load: 1%", "load: 50%", "load: 100%", "", "last words"}; !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
}

func TestEnvironment(t *testing.T) {
	p := New(Options{StateDir: "unused", Environ: func() []string { return []string{"A=1", "B=2"} }})
	got := p.environ(map[string]string{"C": "3", "B": "4"})
	if want := []string{"A=1", "B=2", "B=4", "C=3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]string{100: "one\ntwo\nthree", 13: "one\ntwo\nthree", 12: "two\nthree", 9: "two\nthree", 8: "three", 5: "three", 4: ""} {
		if got, err := lastLines(path, n); err != nil || string(got) != want {
			t.Errorf("last %d bytes: %q, %v; want %q", n, got, err, want)
		}
	}
	if _, err := lastLines(path+"x", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
