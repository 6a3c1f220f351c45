package calibrate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"h100-inference-control-plane/runner/load/stub"
)

const (
	stubCommand   = "calibrate-stub"
	clientCommand = "calibrate-client"
	// childEnv is set for the stub's process: a program that does not call MaybeStub would otherwise calibrate again
	// in its child, and so on without end.
	childEnv    = "BENCHCTL_CALIBRATE_CHILD"
	startTime   = 10 * time.Second
	childFailed = 4
)

// MaybeStub turns this process into the stub or into one client, when it was started as one, and then does not return.
// Programs that call Run call it first in main.
//
//	PROGRAM calibrate-stub                      serves on a free port, prints its address, ends with its standard input
//	PROGRAM calibrate-client -url … -mode …     measures one load against such a server, prints JSON
func MaybeStub() {
	if len(os.Args) < 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case stubCommand:
		err = serveStub(os.Stdin, os.Stdout)
	case clientCommand:
		err = runClient(os.Args[2:], os.Stdout)
	default:
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(childFailed)
	}
	os.Exit(0)
}

// serveStub serves until in ends, which it does when the parent is gone, however it went.
func serveStub(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		l.Close()
		return err
	}
	return stub.Serve(ctx, l)
}

func runClient(args []string, out io.Writer) error {
	c := Client{}
	f := flag.NewFlagSet(clientCommand, flag.ContinueOnError)
	f.StringVar(&c.URL, "url", "", "address of the stub")
	f.StringVar((*string)(&c.Mode), "mode", string(stub.Spread), "spread or step")
	f.IntVar(&c.Streams, "streams", 256, "open streams")
	f.IntVar(&c.Tokens, "tokens", 500, "tokens of each stream")
	f.DurationVar(&c.Interval, "interval", 10*time.Millisecond, "between two tokens of a stream")
	if err := f.Parse(args); err != nil {
		return err
	}
	m, err := c.Measure(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(m)
}

// server is a stub that runs.
type server struct {
	url  string
	stop func() error
}

func start(ctx context.Context, inProcess bool) (*server, error) {
	if inProcess {
		return startHere(ctx)
	}
	if os.Getenv(childEnv) != "" {
		return nil, errors.New("this program does not answer as the stub: it must call calibrate.MaybeStub first in main")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startChild(ctx, exec.Command(self, stubCommand))
}

func startHere(ctx context.Context) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- stub.Serve(ctx, l) }()
	return &server{url: "http://" + l.Addr().String(), stop: func() error {
		cancel()
		return <-ended
	}}, nil
}

// startChild starts the stub as a process of its own, so that its CPU time is not counted as the client's. It ends when
// its standard input does.
func startChild(ctx context.Context, cmd *exec.Cmd) (*server, error) {
	cmd.Env = append(os.Environ(), childEnv+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() })
	watch := time.AfterFunc(startTime, kill)
	unwatch := context.AfterFunc(ctx, kill)
	line, err := bufio.NewReader(io.LimitReader(out, 200)).ReadString('\n')
	watch.Stop()
	unwatch()
	url := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
		kill()
		return nil, errors.Join(fmt.Errorf("it said %q and not its address: %s", url, strings.TrimSpace(stderr.String())), cmd.Wait())
	}
	return &server{url: url, stop: func() error {
		in.Close()
		slow := time.AfterFunc(startTime, kill)
		defer slow.Stop()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the stub ended badly: %w: %s", err, strings.TrimSpace(stderr.String()))
		}
		return nil
	}}, nil
}
