// Package child starts a program so that it cannot outlive us: in a process group of its own, stopped politely and then
// by force together with everything it forked, and ended by others when we are killed before we can. It knows nothing
// about what it starts: no ports, no health, no log formats. It is for Linux; elsewhere Start returns
// errors.ErrUnsupported.
//
// Four lines of defence, each for the case that the one before did not get to run:
//
//  1. Stop: SIGTERM to the group, a grace period, SIGKILL, and a search for what left the group.
//  2. Pdeathsig: the kernel kills the direct child when we die.
//  3. A watchdog process per child, which holds a pipe from us and kills the whole family when the pipe closes.
//  4. Reap: a lock file per child, read by the next run.
package child

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// ownerVar is set in the environment of everything that is started, so that descendants are found even after they
// left the process group and lost their parents.
const ownerVar = "BENCHCTL_OWNER"

// watchdogVar makes this program a watchdog, see MaybeWatchdog.
const watchdogVar = "BENCHCTL_WATCHDOG"

const (
	// unaskedGrace is how long the rest of a family may take to end after its first process ended by itself: enough
	// for the last lines of a log, short because whoever watches waits for it.
	unaskedGrace = time.Second
	// killWait bounds the wait for the kernel after SIGKILL. A process in a driver (GPU memory being torn down) can
	// take seconds.
	killWait = 15 * time.Second
	// pollEvery is the distance between two looks at the process table while something is being ended. The kernel
	// has no event for "this process group is empty".
	pollEvery = 10 * time.Millisecond
	// readyWait bounds the start of a watchdog, which is milliseconds on an idle machine.
	readyWait = 30 * time.Second
)

// Options say what to start.
type Options struct {
	Argv []string // Argv[0] is looked up in PATH when it has no slash; never empty
	Env  []string // the whole environment, "K=V"; nil = ours
	Dir  string   // working directory; "" = ours
	// Stdout and Stderr receive the output; nil discards it. An *os.File is handed to the child as it is, and is then
	// the caller's to close right after Start. Anything else is fed from a pipe until the last writer is gone; its
	// errors are dropped, because a full disk on our side must not become a broken pipe on the child's.
	Stdout, Stderr io.Writer
	StateDir       string // folder of the lock files; created; the same for all runs of a user; never empty
	Label          string // for people: "vllm", "victoria-metrics"; "" = Argv[0]
	Port           int    // for people; 0 = none or unknown
	// NoWatchdog leaves the third line of defence out, for a program that does not call MaybeWatchdog.
	NoWatchdog bool
}

// Exit says how the first process of a child ended.
type Exit struct {
	Code   int    // exit code, -1 when it was killed by a signal
	Signal string // "SIGKILL" and the like, or ""
	Asked  bool   // Stop had been called before it ended
}

// Reaped is one child of an owner that is gone.
type Reaped struct {
	Label string
	Owner int   // process id that the owner had
	PIDs  []int // what was still running and has been killed, sorted; empty = everything had ended
	Port  int   // 0 = unknown
}

// String is one line for people.
func (r Reaped) String() string {
	if len(r.PIDs) == 0 {
		return fmt.Sprintf("%s of process %d, which is gone: nothing was left running, lock file removed", r.Label, r.Owner)
	}
	pids := strings.Trim(fmt.Sprint(r.PIDs), "[]")
	return fmt.Sprintf("%s of process %d, which is gone: killed %s", r.Label, r.Owner, strings.ReplaceAll(pids, " ", ", "))
}
