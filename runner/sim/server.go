// Package sim is the simulated engine: an HTTP server that behaves like `vllm serve` (endpoints, metrics, log lines,
// command line, failures on request) over a model of step times with a known truth. Client and server talk for real;
// only the time that a step takes is made up. It generates no meaningful text, serves one model on one address, and
// is never evidence about a GPU: its log, its fingerprint and /server_info say SIMULATED.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"h100-inference-control-plane/runner/sim/model"
)

// DefaultVersion is the vLLM release that is simulated when none is named.
const DefaultVersion = "0.25.1"

// Config is one simulated server.
type Config struct {
	Model   string         // the name or path after "serve"; served under this name unless served-model-name is in Flags
	Version string         // vLLM release to resemble; empty = DefaultVersion
	Profile string         // a name from model.Profiles; empty = model.DefaultProfile
	Speed   float64        // simulated seconds per real second; 0 = 1
	Faults  []string       // see Faults
	Flags   map[string]any // vLLM's options by kebab-case name; bool, int64, float64, string, []any or map[string]any
	APIKeys []string       // when not empty, /v1 asks for one of them as bearer token
	Seed    uint64         // of the noise between starts and steps
	Log     io.Writer      // where log lines go; nil = nowhere
	Kill    func()         // what die-hard-after does; nil = break all connections
}

// Server is one simulated engine. NewServer, then Start, then requests through Handler, then Close.
type Server struct {
	cfg    Config
	rel    release
	prof   *model.Profile
	set    settings
	faults faults
	log    *logger
	begun  time.Time // real time of the engine's time 0
	mux    *http.ServeMux

	engine *model.Engine // only the loop touches it after Start

	mu       sync.Mutex
	commands []func() // for the loop, in order
	wake     chan struct{}
	stop     chan struct{}
	stopOnce sync.Once
	loopDone chan struct{}
	started  atomic.Bool

	metrics *metrics
	streams map[*model.Seq]*stream // open ones; only the loop touches it
	before  model.Counters         // at the last step that was counted

	generated, ended int
	fired            map[string]bool // faults that happen once
	draws            atomic.Uint64

	fate     atomic.Int32
	died     chan struct{}
	diedOnce sync.Once
}

// Fate says how an engine ended by itself.
type Fate int32

// The fates. Alive is also the fate of an engine that was closed.
const (
	Alive  Fate = iota
	Dead        // as vLLM dies: streams were ended with an error
	Killed      // at once, without a word
)

// NewServer prepares a server. The error is that of a bad option, fault or profile; or wraps model.ErrNoMemory or
// model.ErrBatch where a real engine would fail while it loads.
func NewServer(cfg Config) (*Server, error) {
	if cfg.Version == "" {
		cfg.Version = DefaultVersion
	}
	if cfg.Speed == 0 {
		cfg.Speed = 1
	}
	if !(cfg.Speed > 0 && cfg.Speed <= 1e6) {
		return nil, fmt.Errorf("speed must be above 0 and at most 1000000, not %v", cfg.Speed)
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	s := &Server{
		cfg: cfg, log: &logger{w: cfg.Log, pid: os.Getpid()}, begun: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), loopDone: make(chan struct{}), died: make(chan struct{}),
		streams: map[*model.Seq]*stream{}, fired: map[string]bool{},
	}
	var err error
	if s.rel, err = parseRelease(cfg.Version); err != nil {
		return nil, err
	}
	if s.prof, err = model.LoadProfile(cfg.Profile); err != nil {
		return nil, err
	}
	if s.faults, err = parseFaults(cfg.Faults); err != nil {
		return nil, err
	}
	if s.set, err = newSettings(s.prof, cfg.Flags, []string{cfg.Model}, s.rel); err != nil {
		return nil, err
	}
	s.set.apiKeys = append(s.set.apiKeys, cfg.APIKeys...)
	s.set.engine.Seed = cfg.Seed
	s.interval()
	if s.engine, err = model.New(s.set.engine); err != nil {
		return nil, err
	}
	s.set.engine = s.engine.Config()
	drift := s.faults.clockDrift
	if drift == 0 {
		drift = 1
	}
	s.metrics = newMetrics(s.begun, s.set.engine.MaxModelLen, drift, !s.rel.before(0, 28))
	s.routes()
	return s, nil
}

// interval lets the fault win over the option.
func (s *Server) interval() {
	if s.faults.coalesce > 0 {
		s.set.interval = s.faults.coalesce
	}
}

// Handler serves the API. Requests wait until Start.
func (s *Server) Handler() http.Handler { return s.mux }

// Died is closed when the engine ended by a fault; Fate then says how.
func (s *Server) Died() <-chan struct{} { return s.died }

// Fate says how the engine ended by itself, if it did.
func (s *Server) Fate() Fate { return Fate(s.fate.Load()) }

// Start makes the engine work. It returns at once; a second call does nothing.
func (s *Server) Start() {
	if s.started.Swap(true) {
		return
	}
	s.throttleFromStart()
	go s.loop()
}

func (s *Server) throttleFromStart() {
	if t := s.faults.throttle; t != nil && t.after == 0 {
		s.engine.Slow(t.factor)
	}
}

// Close stops the engine and breaks off open streams. It waits until the engine has stopped; it may be called more
// than once and before Start.
func (s *Server) Close() error {
	s.stopOnce.Do(func() { close(s.stop) })
	if s.started.Load() {
		<-s.loopDone
	}
	return nil
}

// clock is the engine's time now.
func (s *Server) clock() time.Duration {
	return time.Duration(float64(time.Since(s.begun)) * s.cfg.Speed)
}

// real turns a length of the engine's time into real time.
func (s *Server) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.cfg.Speed)
}

// do hands f to the loop, which runs it between two steps.
func (s *Server) do(f func()) {
	s.mu.Lock()
	s.commands = append(s.commands, f)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

var errStopped = errors.New("the engine has stopped")

// call runs f in the loop and waits for it.
func (s *Server) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	s.do(func() { f(); close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.loopDone:
		return errStopped
	}
}

func (s *Server) runCommands() {
	s.mu.Lock()
	list := s.commands
	s.commands = nil
	s.mu.Unlock()
	for _, f := range list {
		f()
	}
}

// lateness is how far the engine may fall behind real time before its clock is moved forward. Below it, deadlines are
// absolute, so that a late wake-up does not make all that follows late too.
const lateness = 5 * time.Millisecond

func (s *Server) loop() {
	defer close(s.loopDone)
	defer s.failAll(closed)
	for {
		select {
		case <-s.stop:
			return
		default:
		}
		s.runCommands()
		if !s.engine.Busy() {
			select {
			case <-s.wake:
			case <-s.stop:
				return
			}
			continue
		}
		if now := s.clock(); now-s.engine.Now() > time.Duration(float64(lateness)*s.cfg.Speed) {
			s.engine.AdvanceTo(now)
		}
		st, ok := s.engine.Step()
		if !ok {
			continue
		}
		s.beginStep(st)
		if !s.sleepUntil(s.begun.Add(s.real(st.End))) {
			return
		}
		s.endStep(st)
		if !s.afterStep() {
			return
		}
	}
}

// beginStep shows the requests that the step works on as running while it runs.
func (s *Server) beginStep(st *model.Step) {
	for _, c := range st.Compiled {
		s.logJIT(c.Kernels)
	}
	ending := 0
	for _, t := range st.Tokens {
		if t.Finish != model.Unfinished {
			ending++
		}
	}
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	s.metrics.running, s.metrics.waiting = s.engine.Running()+ending, s.engine.Waiting()
	s.metrics.kvUsage = s.engine.KVUsage()
}

// endStep counts first and gives the tokens out then: a client that has its answer finds it in the metrics.
func (s *Server) endStep(st *model.Step) {
	after := s.engine.Counters()
	s.metrics.mu.Lock()
	s.metrics.step(st, s.before, after, s.cfg.Speed)
	s.metrics.running, s.metrics.waiting = s.engine.Running(), s.engine.Waiting()
	s.metrics.kvUsage = s.engine.KVUsage()
	s.metrics.mu.Unlock()
	s.before = after
	s.generated += len(st.Tokens)
	for _, t := range st.Tokens {
		out := s.streams[t.Seq]
		if t.Finish != model.Unfinished {
			s.ended++
			delete(s.streams, t.Seq)
		}
		if out == nil {
			continue
		}
		if t.Finish != model.Unfinished {
			out.emit(t.N, finished)
			out.notify()
			continue
		}
		out.emit(t.N, open)
		if t.N == 1 || (t.N-1)%s.set.interval == 0 {
			out.notify()
		}
	}
}

// afterStep lets faults happen; false = the engine is over.
func (s *Server) afterStep() bool {
	f := &s.faults
	once := func(name string, after *int, n int) bool {
		if after == nil || n < *after || s.fired[name] {
			return false
		}
		s.fired[name] = true
		return true
	}
	if t := f.throttle; t != nil && once("throttle", &t.after, s.generated) {
		s.engine.Slow(t.factor)
	}
	if once("restart", f.restartAfter, s.generated) {
		s.metrics.mu.Lock()
		s.metrics.reset(time.Now(), s.set.engine.MaxModelLen)
		s.metrics.mu.Unlock()
	}
	if once("jit", f.jitAfter, s.ended) {
		s.engine.Stall("_simulated_fault_kernel", time.Duration(float64(time.Second)*s.cfg.Speed))
	}
	switch {
	case once("hard", f.dieHardAfter, s.generated):
		s.die(Killed)
		return false
	case once("die", f.dieAfter, s.generated):
		s.logDeath()
		s.die(Dead)
		return false
	case once("hang", f.hangAfter, s.generated):
		<-s.stop
		return false
	}
	return true
}

// die ends all streams the way the fate says and makes the end known.
func (s *Server) die(how Fate) {
	s.fate.Store(int32(how))
	if how == Killed {
		if s.cfg.Kill != nil {
			s.cfg.Kill()
		}
		s.failAll(broken)
	} else {
		s.failAll(dead)
	}
	s.diedOnce.Do(func() { close(s.died) })
}

// failAll ends every open stream. Requests that come later see the fate or the closed loop themselves.
func (s *Server) failAll(how int32) {
	for _, out := range maps.All(s.streams) {
		out.end(how)
	}
	clear(s.streams)
}

// sleepUntil waits for a moment; false = the server was closed meanwhile. The last stretch is slept in the kernel,
// because the runtime's timers are a millisecond coarse when the process is idle.
func (s *Server) sleepUntil(t time.Time) bool {
	const fine = 1500 * time.Microsecond
	if d := time.Until(t); d > fine {
		timer := time.NewTimer(d - fine)
		select {
		case <-timer.C:
		case <-s.stop:
			timer.Stop()
			return false
		}
	}
	nap(time.Until(t))
	return true
}

// submit hands a request to the engine; its stream hears of every token.
func (s *Server) submit(out *stream, at time.Duration, r model.Request) {
	s.do(func() {
		if out.gone.Load() {
			return
		}
		seq, err := s.engine.Submit(at, r)
		if err != nil {
			out.err = err
			out.end(refused)
			return
		}
		out.seq = seq
		s.streams[seq] = out
	})
}

// abort drops a request whose client is gone or whose stream a fault cut.
func (s *Server) abort(out *stream, reason string) {
	out.gone.Store(true)
	s.do(func() {
		if out.seq == nil || out.seq.Finish != model.Unfinished {
			return
		}
		s.engine.Abort(out.seq)
		delete(s.streams, out.seq)
		s.metrics.mu.Lock()
		defer s.metrics.mu.Unlock()
		if reason != "" {
			s.metrics.finished[reason]++
		}
		s.metrics.running, s.metrics.waiting, s.metrics.kvUsage = s.engine.Running(), s.engine.Waiting(), s.engine.KVUsage()
	})
}
