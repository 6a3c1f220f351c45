// Package provision is the vocabulary of getting a live engine: who starts it is one axis, what is started (engine)
// the other. Implementations live in folders of their own and pass the suite in provisiontest.
package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"h100-inference-control-plane/runner/engine"
)

// Request asks for one engine.
type Request struct {
	Engine  engine.Engine
	Launch  engine.Launch // Host and Port are filled in by the provisioner
	LogPath string        // file that receives the engine's output; created, never appended to
	// ReadyTimeout bounds the time to the first 200 of the health endpoint; 0 = 15 min.
	ReadyTimeout time.Duration
	// StopGrace is how long the engine may take to end after the polite signal before it is killed; 0 = 20 s.
	StopGrace time.Duration
	// OnLog, when set, is called with each line of the log as it is written, from one goroutine.
	OnLog func(at time.Time, line string)
}

// A Provisioner brings an engine up. It is safe for use by one goroutine at a time.
type Provisioner interface {
	// Name is the word after --on.
	Name() string
	// Start blocks until the engine's health endpoint answers 200, the engine ends, or the time is over. The error is a
	// *StartError, or ctx's. When it returns an error, nothing that it started is left.
	Start(ctx context.Context, r Request) (Server, error)
}

// Server is a running engine.
type Server interface {
	// URL is where it answers, without a trailing slash.
	URL() string
	// PID is the process that was started, or 0 when there is none of ours.
	PID() int
	// StartedAt and ReadyAt are when the process was started and when it first answered 200.
	StartedAt() time.Time
	ReadyAt() time.Time
	// Exited is closed when the engine has ended, asked or not.
	Exited() <-chan struct{}
	// Err is nil while the engine runs and after a Stop; otherwise a *CrashError. An engine that ends without being
	// asked has crashed, whatever its exit code; a Stop after that does not take the error back.
	Err() error
	// Stop ends the engine and everything it started, politely first, and waits. Stopping twice is stopping once.
	Stop(ctx context.Context) error
}

// StartError says why an engine did not come up.
type StartError struct {
	Doing  string // "start vllm"
	Reason string // the engine's own words where there are any
	Log    string // path, or ""
	Err    error  // ErrTimeout, ErrExited, or the system's
}

// Causes of a StartError.
var (
	ErrTimeout = errors.New("not ready in time")
	ErrExited  = errors.New("ended before it was ready")
)

func (e *StartError) Error() string { return e.Doing + ": " + cause(e.Err, e.Reason, e.Log) }

// Unwrap gives the cause.
func (e *StartError) Unwrap() error { return e.Err }

// CrashError says that a running engine ended unasked.
type CrashError struct {
	Engine   string
	ExitCode int    // -1 when it was killed by a signal, or is not known
	Signal   string // "" when it exited
	Reason   string // the engine's own words, or ""
	Log      string
}

func (e *CrashError) Error() string {
	how := fmt.Sprintf("exit code %d", e.ExitCode)
	switch {
	case e.Signal != "":
		how = "signal " + e.Signal
	case e.ExitCode < 0:
		how = "exit code not known"
	}
	return e.Engine + " ended while it was in use: " + cause(errors.New(how), e.Reason, e.Log)
}

func cause(err error, reason, log string) string {
	s := err.Error()
	if reason != "" {
		s += ": " + reason
	}
	if log != "" {
		s += " (log: " + log + ")"
	}
	return s
}
