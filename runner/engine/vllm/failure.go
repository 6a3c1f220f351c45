package vllm

import (
	"bytes"
	"strings"
)

// Lines that join the parts of a Python traceback.
const (
	tracebackHead = "Traceback (most recent call last):"
	causedBy      = "The above exception was the direct cause of the following exception:"
	whileHandling = "During handling of the above exception, another exception occurred:"
)

// pointers are phrases of exceptions that only say that something else went wrong before. vLLM raises one in every
// process that is waiting for the one that failed.
var pointers = [...]string{
	"See root cause above",
	"See stack trace (above)",
	"See stack trace for root cause",
	"check the stack trace above",
	"EngineDeadError",
	"Executor failed",
	"CancelledError",
	"KeyboardInterrupt",
	"SystemExit",
	"BrokenPipeError",
	"ConnectionResetError",
	"EOFError",
}

// FailureReason returns the exception that ended the engine, in this order of trust: the first one of the engine's own
// processes (EngineCore, workers), a rejected command line, an uncaught one of the API server, a crash of the
// interpreter, an error message, a request to shut down, and last an exception that only points at another. Exceptions
// that the API server logs for single requests never count. Within a chained traceback the last exception counts,
// because libraries wrap what they catch with what it means.
func (Engine) FailureReason(log []byte) string {
	s := scan{open: map[string]*traceback{}}
	for len(log) > 0 {
		line, rest, _ := bytes.Cut(log, []byte("\n"))
		log = rest
		if s.line(splitLine(string(line))) {
			break
		}
	}
	return clip(s.reason())
}

// scan walks through a log. Processes write at the same time, so each has its own traceback in progress.
type scan struct {
	open       map[string]*traceback
	tracebacks []*traceback // in order of their first line
	usage      string       // argparse's
	fatal      string       // the interpreter's or the shell's
	message    string       // first plain error of an engine process
	shutdown   string
	inRequest  bool // the next traceback without a level belongs to a request
}

// traceback is a chain of exceptions of one process.
type traceback struct {
	process    string
	level      string // "" = written by the interpreter: nobody caught it
	request    bool   // it ended a request, not the server
	exceptions []string
	frames     bool // inside the frames, before an exception
	joint      bool // a joint was read: the next traceback goes on with this chain
	validation bool // the last exception is pydantic's, whose text is on the lines that follow
}

// line takes one line in and reports whether the rest of the log is only about the shutdown.
func (s *scan) line(r record) (done bool) {
	if strings.HasPrefix(r.msg, "[shutdown]") && (strings.Contains(r.msg, "shutdown triggered") || strings.Contains(r.msg, "received signal")) {
		s.shutdown = r.msg
		return true
	}
	t := s.open[r.process]
	switch {
	case r.msg == tracebackHead:
		s.begin(r, t)
	case t != nil && t.level == r.level && t.takes(r.msg):
	default:
		s.loose(r)
	}
	return false
}

func (s *scan) begin(r record, t *traceback) {
	if t != nil && t.joint && t.level == r.level {
		t.joint, t.frames = false, true
		return
	}
	t = &traceback{process: r.process, level: r.level, frames: true, request: s.inRequest && r.level == ""}
	s.inRequest = false
	s.open[r.process] = t
	s.tracebacks = append(s.tracebacks, t)
}

// takes reports whether the line belongs to the traceback, and keeps what is worth keeping of it.
func (t *traceback) takes(msg string) bool {
	indented := msg == "" || msg[0] == ' ' || msg[0] == '\t'
	switch {
	case t.frames && indented:
		return true
	case t.frames:
		t.frames = false
		t.add(msg)
		return true
	case msg == causedBy || msg == whileHandling:
		t.joint = true
		return true
	case t.validation && msg != "":
		t.detail(msg)
		return true
	}
	return indented
}

func (t *traceback) add(msg string) {
	class, text, _ := strings.Cut(msg, ": ")
	class = class[strings.LastIndexByte(class, '.')+1:]
	if text != "" {
		class += ": " + text
	}
	t.exceptions = append(t.exceptions, class)
	t.validation = strings.HasPrefix(class, "ValidationError: ") && strings.Contains(text, " validation error")
}

// detail adds a line of pydantic's text to the exception it belongs to:
//
//	ValidationError: 1 validation error for ModelConfig
//	  Value error, User-specified max_model_len (9000) is ... [type=value_error, input_value=...]
//	    For further information visit ...
func (t *traceback) detail(msg string) {
	msg = strings.TrimSpace(msg)
	last := len(t.exceptions) - 1
	if strings.HasPrefix(msg, "For further information") || len(t.exceptions[last]) > textLimit {
		t.validation = false
		return
	}
	msg, _, _ = strings.Cut(msg, " [type=")
	t.exceptions[last] += ": " + msg
}

// best is the last exception of the chain that is not a pointer.
func (t *traceback) best() string {
	for i := len(t.exceptions) - 1; i >= 0; i-- {
		if !isPointer(t.exceptions[i]) {
			return t.exceptions[i]
		}
	}
	return ""
}

// loose takes in a line outside of any traceback.
func (s *scan) loose(r record) {
	severe := r.level == "ERROR" || r.level == "CRITICAL"
	switch {
	case severe && strings.HasPrefix(r.msg, "Exception in ASGI application"):
		s.inRequest = true
	case (severe || r.level == "") && looksLikeException(r.msg):
		t := &traceback{process: r.process, level: r.level} // its head may be before the part we were given
		t.add(r.msg)
		s.tracebacks = append(s.tracebacks, t)
		s.open[r.process] = t
	case severe && r.process != apiServer && s.message == "" && isMessage(r.msg) && !isPointer(r.msg):
		s.message = r.msg
	case r.level == "" && s.usage == "":
		if _, after, ok := strings.Cut(r.msg, ": error: "); ok && r.msg[0] != ' ' {
			s.usage = after
		} else if s.fatal == "" && isFatal(r.msg) {
			s.fatal = r.msg
		}
	}
}

const apiServer = "APIServer"

func (s *scan) reason() string {
	for _, t := range s.tracebacks {
		if t.process != apiServer && t.process != "" && t.best() != "" {
			return t.best()
		}
	}
	if s.usage != "" {
		return s.usage
	}
	for _, t := range s.tracebacks {
		if !t.request && (t.level == "" || t.process == "") && t.best() != "" {
			return t.best()
		}
	}
	for _, found := range []string{s.fatal, s.message} {
		if found != "" {
			return found
		}
	}
	for _, t := range s.tracebacks {
		for _, e := range t.exceptions {
			if isPointer(e) {
				return e
			}
		}
	}
	return s.shutdown
}

func isPointer(s string) bool {
	for _, p := range pointers {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// isFatal knows how the interpreter, the C runtime and the shell report the end of a process.
func isFatal(msg string) bool {
	for _, p := range [...]string{"Fatal Python error: ", "terminate called ", "Segmentation fault", "Killed", "Aborted", "!!!!!!! Segfault encountered"} {
		if strings.HasPrefix(msg, p) {
			return true
		}
	}
	for _, p := range [...]string{": command not found", ": not found", ": No such file or directory", ": Permission denied", ": Exec format error", "No space left on device"} {
		if strings.HasSuffix(msg, p) {
			return true
		}
	}
	return strings.Contains(msg, "error while loading shared libraries")
}

// looksLikeException accepts "package.SomeError: text" and "SomeError".
func looksLikeException(msg string) bool {
	class, _, _ := strings.Cut(msg, ": ")
	name := class[strings.LastIndexByte(class, '.')+1:]
	if name == "" || strings.ContainsAny(class, " \t/'\"()[]{}=,;") {
		return false
	}
	return strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception") || name == "KeyboardInterrupt" || name == "SystemExit"
}
