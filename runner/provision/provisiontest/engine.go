package provisiontest

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"h100-inference-control-plane/runner/engine"
)

// Mode is what a fake engine does.
type Mode string

// The modes. Several are joined with a comma.
const (
	Serves      Mode = "serves"   // answers at once
	Fails       Mode = "fails"    // writes a reason and ends with code 1
	EndsQuietly Mode = "quiet"    // ends with code 0 and no reason
	Hangs       Mode = "hangs"    // never listens
	Unready     Mode = "unready"  // its health endpoint says 503 for ever
	Deaf        Mode = "deaf"     // ignores SIGTERM; with another mode
	Family      Mode = "family"   // has two children, one of which left the process group; with another mode
	Progress    Mode = "progress" // writes a progress bar and an unfinished last line when it ends; with another mode
)

// Reason is what a fake engine gives as its reason to fail.
const Reason = "no kernel image is available"

const (
	modeVar = "PROVISIONTEST_MODE"
	addrVar = "PROVISIONTEST_ADDRESS"
	// lifetime bounds every fake process, so that a failing test leaves nothing for long.
	lifetime = 3 * time.Minute
)

// Engine is a fake engine: the test binary itself, see MaybePlay.
type Engine struct {
	Mode   Mode
	Binary string // "" = this program
}

var _ engine.Engine = Engine{}

// Name is "fake".
func (Engine) Name() string { return "fake" }

// Simulated is true.
func (Engine) Simulated() bool { return true }

// Command starts this program again as the engine. The launch's flags and model are not used.
func (e Engine) Command(l engine.Launch) (engine.Command, error) {
	if slices.ContainsFunc(l.Flags, func(f engine.Flag) bool { return f.Name == "impossible" }) {
		return engine.Command{}, fmt.Errorf("the flag impossible cannot be expressed")
	}
	env := map[string]string{modeVar: string(e.Mode), addrVar: net.JoinHostPort(l.Host, strconv.Itoa(l.Port))}
	for k, v := range l.Env {
		env[k] = v
	}
	return engine.Command{Argv: []string{cmp.Or(e.Binary, os.Args[0])}, Env: env}, nil
}

// Endpoints has only a health endpoint.
func (Engine) Endpoints() engine.Endpoints { return engine.Endpoints{Health: "/health"} }

// ParseVersion returns the body.
func (Engine) ParseVersion(body []byte) (string, error) { return string(body), nil }

// Effective reports no flag.
func (Engine) Effective([]byte) (map[string]any, error) { return map[string]any{}, nil }

// Series is empty.
func (Engine) Series() []engine.Series { return nil }

// LogLine knows no facts.
func (Engine) LogLine(string) (engine.LogFact, bool) { return engine.LogFact{}, false }

// FailureReason is the last line that begins with ERROR.
func (Engine) FailureReason(log []byte) string {
	reason := ""
	for line := range strings.Lines(string(log)) {
		if r, ok := strings.CutPrefix(line, "ERROR "); ok {
			reason = strings.TrimSpace(r)
		}
	}
	return reason
}

// MaybePlay plays the engine when this process was started as one, until the engine ends, and gives its exit code;
// otherwise ok is false. TestMain calls it first thing and exits with the code.
//
// Besides /health the engine serves POST /exit?code=N, which writes a reason and ends it.
func MaybePlay() (code int, ok bool) {
	mode, ok := os.LookupEnv(modeVar)
	if !ok {
		return 0, false
	}
	return play(os.Stdout, strings.Split(mode, ","), os.Getenv(addrVar)), true
}

func play(log io.Writer, words []string, addr string) int {
	has := func(m Mode) bool { return slices.Contains(words, string(m)) }
	if has(Deaf) {
		signal.Ignore(syscall.SIGTERM)
	}
	if has(Family) {
		child := Hangs
		if has(Deaf) {
			child += "," + Deaf
		}
		for _, attr := range []*syscall.SysProcAttr{nil, {Setsid: true}} {
			if err := fork(child, attr); err != nil {
				fmt.Fprintln(log, "ERROR", err)
				return 1
			}
		}
	}
	fmt.Fprintf(log, "pid %d\n", os.Getpid())
	switch {
	case has(Fails):
		fmt.Fprintln(log, "ERROR "+Reason)
		return 1
	case has(EndsQuietly):
		return 0
	case has(Hangs):
		time.Sleep(lifetime)
		return 1
	}
	return serve(log, addr, has(Unready), has(Progress))
}

func fork(mode Mode, attr *syscall.SysProcAttr) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeVar+"="+string(mode))
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = attr
	return cmd.Start()
}

func serve(log io.Writer, addr string, unready, progress bool) int {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(log, "ERROR", err)
		return 1
	}
	end := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if unready {
			http.Error(w, "loading", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			code = 99
		}
		select {
		case end <- code:
		default:
		}
	})
	fmt.Fprintln(log, "listening")
	go http.Serve(l, mux)
	code := 1
	select {
	case code = <-end:
	case <-time.After(lifetime):
	}
	if progress {
		fmt.Fprint(log, "load: 1%\rload: 50%\rload: 100%\r\n\nlast words")
	} else {
		fmt.Fprintln(log, "ERROR "+Reason)
	}
	return code
}
