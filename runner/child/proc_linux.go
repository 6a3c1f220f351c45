package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Proc is one started child with everything it forks. Its methods may be called from several goroutines.
type Proc struct {
	label   string
	started time.Time
	reg     *registration
	dog     *watchdog // nil without one

	asked   atomic.Bool
	killNow chan struct{} // closed when the grace is over
	once    sync.Once     // closes killNow
	done    chan struct{} // closed when everything is over; exit and left are set before

	mu  sync.Mutex // guards fam
	fam *family

	exit Exit
	left error
}

// Start starts a child. It returns when the program is running (the exec has succeeded), and an error otherwise, which
// does not name the label; nothing is left then. The caller owns the Proc and calls Stop; after the child has ended by
// itself that is harmless.
func Start(o Options) (*Proc, error) {
	if len(o.Argv) == 0 || o.StateDir == "" {
		return nil, errors.New("no command or no state folder")
	}
	if o.Label == "" {
		o.Label = o.Argv[0]
	}
	if _, ok := os.LookupEnv(watchdogVar); ok {
		// We are a watchdog that runs the program's normal code. Going on would start the next one, and so on.
		return nil, errNoHook
	}
	reg, err := register(o.StateDir, record{Label: o.Label, Port: o.Port})
	if err != nil {
		return nil, err
	}
	var dog *watchdog
	if !o.NoWatchdog {
		if dog, err = startWatchdog(reg); err != nil {
			return nil, fmt.Errorf("start the watchdog: %w", errors.Join(err, reg.remove()))
		}
	}
	p := &Proc{label: o.Label, reg: reg, dog: dog, killNow: make(chan struct{}), done: make(chan struct{})}
	started := make(chan error, 1)
	go p.live(command(o, reg.rec.ID), started)
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

var errNoHook = errors.New("main must call child.MaybeWatchdog before anything else")

func command(o Options, id string) *exec.Cmd {
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...)
	cmd.Dir = o.Dir
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, ownerVar+"=") })
	cmd.Env = append(env, ownerVar+"="+id)
	cmd.Stdout, cmd.Stderr = sink(o.Stdout), sink(o.Stderr)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// live is the goroutine of one child, from its start to the end of its last descendant.
//
// It keeps its thread for all that time, because Pdeathsig is sent when the *thread* that forked ends, and the Go
// runtime ends threads as it likes (for example with a goroutine that locked one and returned): a child started from
// any goroutine can be killed in the middle of a healthy run. The thread is given back only when the child is dead.
func (p *Proc) live(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		p.release()
		started <- err
		return
	}
	pid := cmd.Process.Pid
	err := p.announce(pid)
	if err != nil {
		p.once.Do(func() { close(p.killNow) })
		p.signalGroup(unix.SIGKILL)
	}
	started <- err
	// The first process is waited for but not yet collected: as long as it is a zombie its number, which is the
	// group's, belongs to nobody else, and signals to the group cannot reach strangers.
	waitUncollected(pid)
	p.exit.Asked = p.asked.Load()
	p.left = p.sweep()
	p.distrust()
	cmd.Wait() // its error repeats the exit code, or says that a descendant kept a pipe open
	if state := cmd.ProcessState; state != nil {
		p.exit.Code = state.ExitCode()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			p.exit.Signal = unix.SignalName(ws.Signal())
		}
	}
	// With survivors the lock file and the watchdog stay: they get another chance when we end.
	if p.left == nil {
		p.left = p.release()
	}
}

// announce tells the registry and the watchdog who was started.
func (p *Proc) announce(pid int) error {
	self, err := readProc(pid)
	rec := p.reg.current()
	rec.PID, rec.Start = pid, self.start
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fam = newFamily(rec, true)
	return errors.Join(err, p.reg.update(rec), p.dog.tell(p.reg, true))
}

func (p *Proc) release() error {
	return errors.Join(p.reg.remove(), p.dog.dismiss())
}

func waitUncollected(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return // nil, or ECHILD when somebody else collected it: over either way
		}
	}
}

// PID is the process id of the first process, which is also the id of its group.
func (p *Proc) PID() int { return p.reg.pid() }

// StartedAt is when the process was started.
func (p *Proc) StartedAt() time.Time { return p.started }

// Done is closed when the child and everything it forked is gone (or could not be killed), its output is complete,
// and its exit status is known.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Exit says how the first process ended. It is the zero value until Done is closed.
func (p *Proc) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Members lists the process ids of the child and everything it forked that live now, sorted.
func (p *Proc) Members() ([]int, error) {
	alive, err := p.alive()
	return pids(alive), err
}

// Remember writes the processes that live now into the lock file. Reap finds most descendants without it; it needs
// this for those that overwrite their environment (as setproctitle does) and whose first process has died. Call it
// when the child is fully up.
func (p *Proc) Remember() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive, err := p.fam.alive()
	rec := p.reg.current()
	rec.Members = nil
	for _, m := range alive {
		rec.Members = append(rec.Members, m.ident())
	}
	if err == nil {
		err = errors.Join(p.reg.update(rec), p.dog.tell(p.reg, p.fam.trusted))
	}
	if err != nil {
		return fmt.Errorf("remember the processes of %s: %w", p.label, err)
	}
	return nil
}

// Stop ends the child and everything it forked, and waits: SIGTERM to the group, then, after grace or when ctx is
// over, SIGKILL to all. The error names the processes that survived even that. Stopping twice is stopping once; a
// second Stop with less grace shortens the first one's.
func (p *Proc) Stop(ctx context.Context, grace time.Duration) error {
	select {
	case <-p.done:
		return p.left
	default:
	}
	if p.asked.CompareAndSwap(false, true) {
		_, err := p.alive() // learn who left the group, while the parents that lead to them are still there
		p.signalGroup(unix.SIGTERM)
		if err != nil {
			grace = 0
		}
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.left
	case <-timer.C:
	case <-ctx.Done():
	}
	p.once.Do(func() { close(p.killNow) })
	p.signalGroup(unix.SIGKILL)
	last := time.NewTimer(2 * killWait)
	defer last.Stop()
	select {
	case <-p.done:
		return p.left
	case <-last.C:
		return fmt.Errorf("stop %s: process %d does not end, not even killed", p.label, p.PID())
	}
}

// signalGroup is only used while the group's number is certainly ours: before the first process is collected.
func (p *Proc) signalGroup(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fam.trusted {
		unix.Kill(-p.fam.rec.PID, sig) // ESRCH = all gone; EPERM shows up as survivors
	}
}

// sweep ends what the first process left behind. It runs after that one ended, asked or not.
func (p *Proc) sweep() error {
	alive, err := p.alive()
	asked := p.asked.Load()
	for _, m := range alive {
		// The group was signalled by Stop. A second SIGTERM makes some programs skip their clean-up.
		if !asked || m.pgid != p.PID() {
			m.signal(unix.SIGTERM)
		}
	}
	var over <-chan time.Time
	if !asked {
		timer := time.NewTimer(unaskedGrace)
		defer timer.Stop()
		over = timer.C
	}
	for err == nil && len(alive) > 0 {
		select {
		case <-p.killNow:
			return p.finish()
		case <-over:
			return p.finish()
		case <-time.After(pollEvery):
		}
		alive, err = p.alive()
	}
	return err
}

func (p *Proc) finish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.fam.kill(killWait); err != nil {
		return fmt.Errorf("stop %s: %w", p.label, err)
	}
	return nil
}

// distrust ends the time in which the group's number is known to be ours, for us and for the watchdog.
func (p *Proc) distrust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fam.trusted = false
	p.left = errors.Join(p.left, p.dog.tell(p.reg, false))
}

func (p *Proc) alive() ([]proc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fam.alive()
}

// sink wraps a writer so that its errors do not reach the child. Files are handed over as they are.
func sink(w io.Writer) io.Writer {
	switch w.(type) {
	case nil, *os.File:
		return w
	}
	return deaf{w}
}

type deaf struct{ w io.Writer }

func (d deaf) Write(b []byte) (int, error) {
	d.w.Write(b)
	return len(b), nil
}
