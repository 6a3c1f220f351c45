package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/provision"
)

// reasonBytes is how much of the end of a log is searched for the reason of a failure. vLLM logs a traceback of about
// 5 KB for each open stream when its engine dies, and all of them come after the cause.
const reasonBytes = 4 << 20

// server is one engine process. err is set before exited is closed and not changed after.
type server struct {
	engine  engine.Engine
	port    int
	logPath string
	grace   time.Duration
	proc    *child.Proc
	tail    *tail
	readyAt time.Time
	exited  chan struct{}
	err     error
}

func (s *server) URL() string             { return fmt.Sprintf("http://%s:%d", host, s.port) }
func (s *server) PID() int                { return s.proc.PID() }
func (s *server) StartedAt() time.Time    { return s.proc.StartedAt() }
func (s *server) ReadyAt() time.Time      { return s.readyAt }
func (s *server) Exited() <-chan struct{} { return s.exited }

func (s *server) Err() error {
	select {
	case <-s.exited:
		return s.err
	default:
		return nil
	}
}

// watch waits for the end of the process and of its log, and says what kind of end it was.
func (s *server) watch() {
	<-s.proc.Done()
	s.tail.finish()
	if exit := s.proc.Exit(); !exit.Asked {
		s.err = &provision.CrashError{Engine: s.engine.Name(), ExitCode: exit.Code, Signal: exit.Signal, Reason: s.reason(), Log: s.logPath}
	}
	close(s.exited)
}

// Stop implements provision.Server. An engine that had crashed before keeps its CrashError.
func (s *server) Stop(ctx context.Context) error {
	err := s.proc.Stop(ctx, s.grace)
	select {
	case <-s.proc.Done():
		<-s.exited
	default: // it could not be ended; err says so
	}
	return err
}

// reason gives the engine's own words, from the end of its log.
func (s *server) reason() string {
	log, err := lastLines(s.logPath, reasonBytes)
	if err != nil {
		return ""
	}
	if reason := s.engine.FailureReason(log); reason != "" {
		return reason
	}
	if diskFull(s.logPath) {
		return "no space is left for the log, so it may not say why"
	}
	return ""
}

// lastWords is what an engine that does not come up has said: its reason, or else its last line.
func (s *server) lastWords() string {
	log, err := lastLines(s.logPath, reasonBytes)
	if err != nil {
		return ""
	}
	if reason := s.engine.FailureReason(log); reason != "" {
		return reason
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	last := strings.TrimSpace(string(lines[len(lines)-1]))
	if last == "" {
		return "it has written nothing"
	}
	return "its last line is: " + last
}

// saysPortTaken reports whether the log shows that the engine could not listen. These are the words of the C library
// and of libuv, which is where every engine has them from.
func (s *server) saysPortTaken() bool {
	log, err := lastLines(s.logPath, reasonBytes)
	if err != nil {
		return false
	}
	log = bytes.ToLower(log)
	return bytes.Contains(log, []byte("address already in use")) || bytes.Contains(log, []byte("eaddrinuse"))
}

// lastLines reads at most n bytes of whole lines from the end of a file.
func lastLines(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// One byte more than asked, to see whether the piece begins with a line.
	from := max(0, info.Size()-n-1)
	b := make([]byte, info.Size()-from)
	got, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b = b[:got]
	if info.Size() > n {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b, nil
}
