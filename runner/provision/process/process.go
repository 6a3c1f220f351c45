// Package process brings an engine up as a child process on this machine: a free port, a log file, readiness, the
// engine's own words when it fails, and an end that leaves nothing behind (see package child for how). It does not
// know what the engine is, and it restarts nothing: an engine that ends unasked has crashed.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/provision/internal/health"
)

const (
	defaultReady = 15 * time.Minute
	defaultGrace = 20 * time.Second
	probeEvery   = 50 * time.Millisecond
	probeTimeout = 500 * time.Millisecond
	// portAttempts is how often another port is tried when somebody takes the one that was chosen.
	portAttempts = 3
	host         = "127.0.0.1"
)

// Options say how engines are started.
type Options struct {
	// StateDir is the folder of child's lock files, the same for all runs of a user. Never empty.
	StateDir string
	// Environ is the environment that an engine gets besides what its Command adds; nil = os.Environ.
	Environ func() []string
}

// Provisioner starts engines as child processes.
type Provisioner struct {
	opts Options
	port func() (int, error) // chooses a port
}

// New returns a provisioner. It touches nothing until Start.
func New(o Options) *Provisioner {
	if o.Environ == nil {
		o.Environ = os.Environ
	}
	return &Provisioner{opts: o, port: freePort}
}

// Name is "process".
func (*Provisioner) Name() string { return "process" }

// Start implements provision.Provisioner. When the chosen port is taken by somebody else before the engine has it,
// the engine is started anew on another one, with a new log; OnLog has then seen the lines of both.
func (p *Provisioner) Start(ctx context.Context, r provision.Request) (provision.Server, error) {
	if r.ReadyTimeout == 0 {
		r.ReadyTimeout = defaultReady
	}
	if r.StopGrace == 0 {
		r.StopGrace = defaultGrace
	}
	within, cancel := context.WithTimeout(ctx, r.ReadyTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		s, f := p.attempt(within, r)
		switch {
		case f == nil:
			return s, nil
		case ctx.Err() != nil && f.stop == nil:
			return nil, ctx.Err()
		case ctx.Err() != nil:
			return nil, errors.Join(ctx.Err(), f.stop)
		case !f.portTaken || attempt == portAttempts || within.Err() != nil:
			return nil, f.start
		}
		if err := os.Remove(r.LogPath); err != nil {
			return nil, failed(r, err)
		}
	}
}

// failure is one attempt that did not work.
type failure struct {
	start     *provision.StartError
	portTaken bool  // another port may help
	stop      error // what could not be ended, also part of start
}

// attempt starts the engine on one port.
func (p *Provisioner) attempt(ctx context.Context, r provision.Request) (*server, *failure) {
	s, err := p.launch(r)
	if err != nil {
		return nil, &failure{start: failed(r, err)}
	}
	err = s.awaitReady(ctx)
	if err == nil {
		s.readyAt = time.Now()
		// Not fatal: the watchdog has the list already, only what Reap could use is shorter when the disk is full.
		_ = s.proc.Remember()
		return s, nil
	}
	words := s.lastWords() // before the end that we bring about adds its own
	// Also when ctx is over: what was started is stopped.
	f := &failure{stop: s.Stop(context.WithoutCancel(ctx))}
	cause := err
	switch {
	case errors.Is(err, errStranger):
		f.portTaken = true
	case errors.Is(err, provision.ErrExited):
		f.portTaken = s.saysPortTaken()
	default:
		cause = provision.ErrTimeout
	}
	if f.stop != nil {
		cause = errors.Join(cause, f.stop)
	}
	f.start = failed(r, cause)
	f.start.Log = r.LogPath
	f.start.Reason = words
	if !errors.Is(cause, provision.ErrTimeout) {
		f.start.Reason = s.reason()
	}
	return nil, f
}

func failed(r provision.Request, err error) *provision.StartError {
	return &provision.StartError{Doing: "start " + r.Engine.Name(), Err: err}
}

// launch starts the process and everything that watches it.
func (p *Provisioner) launch(r provision.Request) (*server, error) {
	port, err := p.port()
	if err != nil {
		return nil, err
	}
	r.Launch.Host, r.Launch.Port = host, port
	cmd, err := r.Engine.Command(r.Launch)
	if err != nil {
		return nil, err
	}
	// The child writes to the file itself. A pipe with us in the middle would end the engine's output when we are
	// killed, and stop the engine when we are slow; a full disk becomes the engine's own write error, which loggers
	// survive. What we want to see of it, we read back from the file.
	log, err := os.OpenFile(r.LogPath, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create the log: %w", err)
	}
	defer log.Close()
	s := &server{engine: r.Engine, port: port, logPath: r.LogPath, grace: r.StopGrace, exited: make(chan struct{})}
	s.tail, err = openTail(r.LogPath, r.OnLog)
	if err == nil {
		s.proc, err = child.Start(child.Options{
			Argv: cmd.Argv, Env: p.environ(cmd.Env), Stdout: log, Stderr: log,
			StateDir: p.opts.StateDir, Label: r.Engine.Name(), Port: port,
		})
	}
	if err != nil {
		s.tail.finish()
		return nil, errors.Join(err, os.Remove(r.LogPath))
	}
	go s.watch()
	return s, nil
}

// environ adds the command's variables, in a fixed order; the last of two equal names counts.
func (p *Provisioner) environ(add map[string]string) []string {
	env := slices.Clone(p.opts.Environ())
	var own []string
	for k, v := range add {
		own = append(own, k+"="+v)
	}
	slices.Sort(own)
	return append(env, own...)
}

// freePort asks the kernel for a port that nobody has now. Between this and the engine's bind somebody else may take
// it: the engine then says so, or a stranger answers, and Start tries another one.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", host+":0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// errStranger says that the port is answered, but not by our engine.
var errStranger = errors.New("another program answers on the port that was chosen for the engine")

// awaitReady is nil when our engine answers 200, provision.ErrExited when it has ended, errStranger, or ctx's error.
func (s *server) awaitReady(ctx context.Context) error {
	probing, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { // a probe that waits for an answer must not outlive the process
		select {
		case <-s.proc.Done():
			cancel()
		case <-probing.Done():
		}
	})
	every := time.NewTicker(probeEvery)
	defer every.Stop()
	client := health.Client()
	for {
		answers := s.probe(probing, client)
		select {
		case <-s.exited:
			return provision.ErrExited
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if answers {
			return s.checkListener()
		}
		select {
		case <-s.exited:
		case <-ctx.Done():
		case <-every.C:
		}
	}
}

func (s *server) probe(ctx context.Context, c *http.Client) bool {
	return health.Probe(ctx, c, s.URL()+s.engine.Endpoints().Health, probeTimeout) == nil
}

// checkListener makes sure that who answers is a process that we started. What cannot be found out is let pass.
func (s *server) checkListener() error {
	members, err := s.proc.Members()
	if err != nil {
		return nil
	}
	if strangerListens(s.port, members) {
		return errStranger
	}
	return nil
}
