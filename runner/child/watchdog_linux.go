package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// watchdog is our end of the helper process that outlives us. A nil *watchdog is one that was not wanted.
type watchdog struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	pipe *os.File // closed = we are dead, unless dismissed before
	done chan struct{}
}

// order is what a watchdog is told, one JSON line each. The last one counts.
type order struct {
	Record  record `json:"record"`
	Path    string `json:"path"`
	Trusted bool   `json:"trusted,omitempty"` // see family
	Dismiss bool   `json:"dismiss,omitempty"` // all is well, go
}

// startWatchdog starts this program once more, as a watchdog, and waits until it is in place.
//
// It has a session of its own, so that neither Ctrl-C nor a signal to our group reaches it, and none of our
// environment. /proc/self/exe is this very program, also when the file was replaced since.
func startWatchdog(reg *registration) (*watchdog, error) {
	orders, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	ready, answer, err := os.Pipe()
	if err != nil {
		pipe.Close()
		return nil, err
	}
	defer ready.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "watchdog", "of", reg.rec.Label}
	// A program with the race detector sleeps for a second when it exits, unless told not to.
	cmd.Env = []string{watchdogVar + "=" + reg.rec.ID, "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout = orders, answer
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	answer.Close()
	if err != nil {
		pipe.Close()
		return nil, err
	}
	w := &watchdog{cmd: cmd, pipe: pipe, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(w.done)
	}()
	err = w.await(ready)
	if err == nil {
		err = w.tell(reg, true)
	}
	if err != nil {
		cmd.Process.Kill()
		<-w.done
		pipe.Close()
		return nil, err
	}
	return w, nil
}

// await reads the word that only a watchdog says.
func (w *watchdog) await(ready *os.File) error {
	if err := ready.SetReadDeadline(time.Now().Add(readyWait)); err != nil {
		return err
	}
	got := make([]byte, len(readyWord))
	if _, err := io.ReadFull(ready, got); err != nil || string(got) != readyWord {
		return fmt.Errorf("no answer: %w", errNoHook)
	}
	return nil
}

const readyWord = "watching\n"

func (w *watchdog) tell(reg *registration, trusted bool) error {
	return w.send(order{Record: reg.current(), Path: reg.path, Trusted: trusted})
}

func (w *watchdog) send(o order) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, err := json.Marshal(o)
	if err == nil {
		_, err = w.pipe.Write(append(b, '\n'))
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return nil // it was killed, or dismissed; the lock file remains as the last line
	}
	return err
}

// dismiss sends the watchdog away and waits for it.
func (w *watchdog) dismiss() error {
	if w == nil {
		return nil
	}
	err := w.send(order{Dismiss: true})
	w.mu.Lock()
	w.pipe.Close()
	w.mu.Unlock()
	timer := time.NewTimer(readyWait)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		w.cmd.Process.Kill()
		<-w.done
	}
	return err
}

// MaybeWatchdog turns this process into a watchdog when it was started as one, and then does not return. Every
// program that calls Start calls it first thing in main, tests in TestMain.
func MaybeWatchdog() {
	if _, ok := os.LookupEnv(watchdogVar); !ok {
		return
	}
	// Whoever sends these to every process of a job means the owner. We go when it has gone.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if _, err := os.Stdout.WriteString(readyWord); err != nil {
		os.Exit(1)
	}
	os.Stdout.Close()
	os.Exit(watch(os.Stdin))
}

// watch follows orders until it is dismissed or the pipe closes, and then kills. It returns an exit code.
func watch(orders io.Reader) int {
	var last order
	in := bufio.NewReader(orders)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var o order
		if json.Unmarshal(line, &o) != nil {
			continue
		}
		if o.Dismiss {
			return 0
		}
		last = o
	}
	if last.Record.ID == "" {
		return 0 // the owner died before it started anything
	}
	if _, err := newFamily(last.Record, last.Trusted).kill(killWait); err != nil {
		return 1 // the lock file stays for Reap
	}
	if removeFile(last.Path) != nil {
		return 1
	}
	return 0
}
