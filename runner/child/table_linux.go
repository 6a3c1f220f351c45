package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ident is a process that no later process can be taken for: numbers are used again, start times are not.
type ident struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// proc is one line of the process table.
type proc struct {
	pid, ppid, pgid int
	start           uint64
	state           byte // of the main thread; 'Z' = ended, not collected
	threads         int
}

func (p proc) ident() ident { return ident{p.pid, p.start} }

// dead reports that nothing of the process runs and holds memory any more. The state alone is the main thread's: a
// killed engine is 'Z' while its other threads still tear down gigabytes, and a program may go on without its main
// thread.
func (p proc) dead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// signal reaches exactly this process, or nobody: through a pidfd when the kernel has them, because between reading
// the table and sending the signal the number may have become somebody else's.
func (p proc) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if err == unix.ESRCH {
		return
	}
	if now, rerr := readProc(p.pid); rerr != nil || now.start != p.start {
		return
	}
	if err == nil {
		if unix.PidfdSendSignal(fd, sig, nil, 0) == nil {
			return
		}
	}
	unix.Kill(p.pid, sig)
}

// readProc reads one line of the table.
func readProc(pid int) (proc, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	return parseStat(b)
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The name in parentheses may itself hold spaces and parentheses.
func parseStat(b []byte) (proc, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return proc{}, errors.New("stat line without a name")
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return proc{}, errors.New("stat line is too short")
	}
	var p proc
	var errs [5]error
	p.state = f[0][0]
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	p.ppid, errs[1] = strconv.Atoi(string(f[1]))
	p.pgid, errs[2] = strconv.Atoi(string(f[2]))
	p.threads, errs[3] = strconv.Atoi(string(f[17]))
	p.start, errs[4] = strconv.ParseUint(string(f[19]), 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return proc{}, fmt.Errorf("stat line: %w", err)
	}
	return p, nil
}

// table reads the process table. Processes that end meanwhile are not in it.
func table() ([]proc, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []proc
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// carries reports whether the environment that a process was started with has the owner's mark. False also when it
// may not be read, or the process wrote over it.
func carries(pid int, id string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	want := []byte(ownerVar + "=" + id)
	return slices.ContainsFunc(bytes.Split(b, []byte{0}), func(kv []byte) bool { return bytes.Equal(kv, want) })
}

// A family is a child and everything that came from it.
type family struct {
	rec     record
	known   map[ident]bool
	trusted bool // the group's number is ours without proof: its first process is not collected, or was a moment ago
}

func newFamily(r record, trusted bool) *family {
	f := &family{rec: r, known: map[ident]bool{}, trusted: trusted}
	if r.PID != 0 {
		f.known[ident{r.PID, r.Start}] = true
	}
	for _, m := range r.Members {
		f.known[m] = true
	}
	return f
}

// alive lists the members that run now. Who was a member once stays one, so that a process whose parent died since
// the last look is not lost.
//
// PR_SET_CHILD_SUBREAPER would keep orphans in our tree, but it would also make us collect every orphan of every
// program we start, beside os/exec's own waiting. The mark in the environment finds them without.
func (f *family) alive() ([]proc, error) {
	all, err := table()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	self := os.Getpid()
	group := f.trusted && f.rec.PID != 0
	for _, p := range all {
		if p.pid != self && p.start >= f.rec.OwnerStart && !f.known[p.ident()] && carries(p.pid, f.rec.ID) {
			f.known[p.ident()] = true
		}
		// One known member, dead or alive, proves that the group is still the one that we made.
		group = group || f.rec.PID != 0 && p.pgid == f.rec.PID && f.known[p.ident()]
	}
	members := map[int]bool{} // by number, within this one reading of the table
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if p.pid == self || members[p.pid] {
				continue
			}
			if f.known[p.ident()] || group && p.pgid == f.rec.PID || members[p.ppid] {
				members[p.pid], f.known[p.ident()], changed = true, true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p proc) bool { return !members[p.pid] || p.dead() }), nil
}

// kill kills until nobody is left, or the time is over; then the error names who is left. It returns everybody whom
// it found alive.
func (f *family) kill(limit time.Duration) ([]int, error) {
	deadline := time.Now().Add(limit)
	var found []int
	for {
		alive, err := f.alive()
		if err != nil {
			return found, err
		}
		found = append(found, pids(alive)...)
		slices.Sort(found)
		found = slices.Compact(found)
		switch {
		case len(alive) == 0:
			return found, nil
		case time.Now().After(deadline):
			return found, fmt.Errorf("processes %v do not end, not even killed", pids(alive))
		}
		for _, p := range alive {
			p.signal(unix.SIGKILL)
		}
		time.Sleep(pollEvery)
	}
}

func pids(ps []proc) []int {
	var out []int
	for _, p := range ps {
		out = append(out, p.pid)
	}
	slices.Sort(out)
	return out
}
