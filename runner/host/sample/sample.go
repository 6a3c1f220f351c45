// Package sample watches the machine while a trial runs: processors, the cgroup's quota, and the GPUs through one
// nvidia-smi that stays. What cannot be read is absent, never 0, and nothing here makes a trial fail. It judges nothing,
// and it does not describe the machine itself (host does).
package sample

import (
	"context"
	"sync"
	"time"

	"h100-inference-control-plane/runner/child"
)

// every is the distance between two samples.
const every = time.Second

// A Sampler begins samplings, one at a time. A nil one samples nothing.
type Sampler struct {
	// StateDir is where child processes are registered, see child.Options. Never empty.
	StateDir string
	// Tell is told in one line what of the GPUs is left out and why; may be nil.
	Tell func(string)

	smi  *smi // nil until the first sampling that asks for GPUs
	host *host
}

// Target is whose trial is watched.
type Target struct {
	PID int // of the engine's first process; 0 = none of ours
	// GPUs is false when there is nothing to be learnt from them: a simulated engine uses none.
	GPUs bool
}

// A Sampling is one that runs.
type Sampling struct {
	target Target
	kernel *host
	smi    *smi // nil when GPUs are not asked for
	proc   *child.Proc
	rows   *rowReader
	apps   []app
	asked  bool // about the processes on the GPUs, with success
	points []point
	stop   context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
	log    *Log
}

// Begin takes the first samples and goes on in the background, until End. It blocks until nvidia-smi has answered, for
// at most a few seconds. The caller calls End whatever happens.
func (s *Sampler) Begin(ctx context.Context, t Target) *Sampling {
	if s == nil {
		return nil
	}
	if s.host == nil {
		s.host = newHost("/proc", "/sys/fs/cgroup")
	}
	g := &Sampling{target: t, kernel: s.host}
	if t.GPUs {
		if s.smi == nil {
			s.smi = findSMI(ctx, s.StateDir, s.Tell)
		}
		g.smi = s.smi
		g.proc, g.rows = g.smi.stream(ctx)
		g.apps, g.asked = g.smi.apps(ctx, t.PID)
	}
	g.points = []point{g.kernel.read()}
	ctx, g.stop = context.WithCancel(ctx)
	g.done.Go(func() { g.watch(ctx) })
	return g
}

func (g *Sampling) watch(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.points = append(g.points, g.kernel.read())
		}
	}
}

// End takes the last samples, ends what Begin started and returns what was seen; nil of a nil Sampling. It does so also
// when ctx is over. Ending twice is ending once.
func (g *Sampling) End(ctx context.Context) *Log {
	if g == nil {
		return nil
	}
	g.once.Do(func() { g.log = g.end(context.WithoutCancel(ctx)) })
	return g.log
}

func (g *Sampling) end(ctx context.Context) *Log {
	g.stop()
	g.done.Wait()
	l := &Log{host: append(g.points, g.kernel.read()), engine: g.target.PID}
	if g.smi == nil {
		return l
	}
	if g.proc != nil {
		// It has nothing to put away, and notices a signal only after its pause: no grace.
		if err := g.proc.Stop(ctx, 0); err != nil {
			g.smi.tell(err.Error())
		}
	}
	more, asked := g.smi.apps(ctx, g.target.PID)
	l.gpus, l.answered = g.rows.all(), g.smi.answers
	l.apps, l.asked = append(g.apps, more...), asked && g.asked
	return l
}

// A Log is what was seen of the machine. Machine and Values make something of it.
type Log struct {
	host     []point // in order of time
	gpus     []row   // in order of time for each device
	answered bool    // nvidia-smi is there and answers
	apps     []app   // at both ends
	asked    bool    // apps is all of them
	engine   int     // its first process; 0 = none of ours
}
