package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"h100-inference-control-plane/runner/child"
)

const (
	// askTimeout bounds one question. A driver without persistence mode needs seconds to wake a GPU.
	askTimeout = 10 * time.Second
	// skew is how far nvidia-smi's time stamp may be from the moment at which its line is read.
	skew = 5 * time.Second
)

// Before the reasons, and the name, which may hold anything, after them.
const fields = "timestamp,index,uuid,driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,utilization.gpu,memory.used,"

// reasonFields are the names of the bit mask of throttle reasons, the newest first; "" = the driver has none.
var reasonFields = [...]string{"clocks_event_reasons.active,", "clocks_throttle_reasons.active,", ""}

// smi asks nvidia-smi. One process that stays and prints every second costs about 2 ms a second (H200, driver 580), a
// new process every second about 35.
type smi struct {
	path     string // "" = it is not here
	stateDir string
	tell     func(string)
	reasons  string // one of reasonFields
	answers  bool
	devices  bool
}

// findSMI looks for nvidia-smi and for the fields that it knows.
func findSMI(ctx context.Context, stateDir string, tell func(string)) *smi {
	if tell == nil {
		tell = func(string) {}
	}
	s := &smi{stateDir: stateDir, tell: tell}
	var err error
	if s.path, err = exec.LookPath("nvidia-smi"); err != nil {
		s.path = ""
		return s
	}
	for _, s.reasons = range reasonFields {
		out, err := s.ask(ctx, s.query()...)
		switch {
		case err == nil:
			s.answers, s.devices = true, strings.TrimSpace(out) != ""
			return s
		case strings.Contains(out, "No devices were found"):
			s.answers = true
			return s
		case !strings.Contains(out, "not a valid field"):
			tell(fmt.Sprintf("the GPUs are not sampled: nvidia-smi: %v: %s", err, firstLine(out)))
			return s
		}
	}
	return s
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

func (s *smi) query() []string {
	return []string{"--query-gpu=" + fields + s.reasons + "name", "--format=csv,noheader,nounits"}
}

func (s *smi) options(args []string) child.Options {
	return child.Options{Argv: append([]string{s.path}, args...), StateDir: s.stateDir, Label: "nvidia-smi",
		Env: append(os.Environ(), "TZ=UTC", "LC_ALL=C")} // its time stamps name no zone
}

// ask runs nvidia-smi once. What it printed is returned also with an error.
func (s *smi) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var out bytes.Buffer
	o := s.options(args)
	o.Stdout, o.Stderr = &out, &out
	p, err := child.Start(o)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return "", errors.Join(context.Cause(ctx), p.Stop(context.WithoutCancel(ctx), 0))
	}
	if e := p.Exit(); e.Code != 0 {
		return out.String(), fmt.Errorf("exit code %d", e.Code)
	}
	return out.String(), nil
}

// stream starts the nvidia-smi that stays, and waits for its first line. Without GPUs it starts none.
func (s *smi) stream(ctx context.Context) (*child.Proc, *rowReader) {
	r := &rowReader{reasons: s.reasons != "", now: time.Now, first: make(chan struct{})}
	if !s.devices {
		return nil, r
	}
	o := s.options(append(s.query(), "-lms", strconv.FormatInt(every.Milliseconds(), 10)))
	o.Stdout = r
	p, err := child.Start(o)
	if err != nil {
		return nil, r
	}
	timer := time.NewTimer(askTimeout)
	defer timer.Stop()
	select {
	case <-r.first:
	case <-p.Done():
	case <-timer.C:
	case <-ctx.Done():
	}
	return p, r
}

// A row is one device at one instant. Nil = not reported.
type row struct {
	at                  time.Time
	index               int
	uuid, name, driver  string
	sm, mem             *float64 // hertz
	power, limit        *float64 // watts; power is the mean of the second before (nvidia-smi --help-query-gpu)
	temperature         *float64 // Celsius
	utilization, memory *float64 // ratio; bytes
	reasons             *uint64  // bit mask
}

// rowReader collects rows from the lines that are written to it. Lines that are none, such as a GPU that got lost, are
// left out: a gap in the samples shows.
type rowReader struct {
	reasons bool // the lines have them
	now     func() time.Time
	first   chan struct{} // closed at the first row

	mu   sync.Mutex
	part []byte
	rows []row
}

// Write implements io.Writer.
func (r *rowReader) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part = append(r.part, b...)
	for {
		line, rest, ok := bytes.Cut(r.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		if x, ok := parseRow(string(line), r.reasons); ok {
			r.add(x)
		}
		r.part = rest
	}
}

func (r *rowReader) add(x row) {
	if now := r.now(); x.at.Sub(now).Abs() > skew {
		x.at = now
	}
	if r.rows = append(r.rows, x); len(r.rows) == 1 {
		close(r.first)
	}
}

func (r *rowReader) all() []row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows
}

const stamp = "2006/01/02 15:04:05.000"

// parseRow reads a line of the query; false when it is none.
func parseRow(line string, reasons bool) (row, bool) {
	n := strings.Count(fields, ",")
	if reasons {
		n++
	}
	f := strings.SplitN(line, ",", n+1)
	if len(f) != n+1 {
		return row{}, false
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	at, err := time.Parse(stamp, f[0])
	index, err2 := strconv.Atoi(f[1])
	if err != nil || err2 != nil || index < 0 {
		return row{}, false
	}
	x := row{at: at, index: index, uuid: f[2], driver: f[3], name: f[n],
		sm: number(f[4], 1e6), mem: number(f[5], 1e6), power: number(f[6], 1), limit: number(f[7], 1),
		temperature: number(f[8], 1), utilization: number(f[9], 0.01), memory: number(f[10], 1<<20)}
	if reasons {
		if v, err := strconv.ParseUint(f[11], 0, 64); err == nil {
			x.reasons = &v
		}
	}
	return x, true
}

// number is nil for what nvidia-smi does not know: [N/A], [Not Supported], [Unknown Error]. None of its numbers is
// negative.
func number(s string, unit float64) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1e15) {
		return nil
	}
	v *= unit
	return &v
}

// An app is a process on a device.
type app struct {
	uuid   string
	pid    int // 0 = not told
	memory *float64
	ours   bool // of the engine
}

// apps are the processes that compute on the GPUs; false when they cannot be asked for.
func (s *smi) apps(ctx context.Context, engine int) ([]app, bool) {
	if !s.devices {
		return nil, s.answers
	}
	out, err := s.ask(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
	if err != nil {
		return nil, false
	}
	list := parseApps(out)
	for i := range list {
		list[i].ours = descends(list[i].pid, engine)
	}
	return list, true
}

func parseApps(text string) (out []app) {
	for line := range strings.Lines(text) {
		f := strings.Split(line, ",")
		if len(f) != 3 {
			continue
		}
		a := app{uuid: strings.TrimSpace(f[0]), memory: number(strings.TrimSpace(f[2]), 1<<20)}
		if pid, err := strconv.Atoi(strings.TrimSpace(f[1])); err == nil && pid > 0 {
			a.pid = pid
		}
		out = append(out, a)
	}
	return out
}

// maxDepth bounds the way up the process table, whose links can change while we walk.
const maxDepth = 64

// descends is true for the engine's first process, the members of its process group and what any of them forked.
func descends(pid, engine int) bool {
	fs, err := procfs.NewFS("/proc")
	if err != nil || engine <= 0 {
		return false
	}
	for range maxDepth {
		if pid == engine {
			return true
		}
		if pid <= 1 {
			return false
		}
		p, err := fs.Proc(pid)
		if err != nil {
			return false
		}
		stat, err := p.Stat()
		if err != nil {
			return false
		}
		if stat.PGRP == engine {
			return true
		}
		pid = stat.PPID
	}
	return false
}
