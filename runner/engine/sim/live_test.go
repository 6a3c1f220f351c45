package sim_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/enginetest"
	"h100-inference-control-plane/runner/engine/sim"
	"h100-inference-control-plane/runner/openai"
	server "h100-inference-control-plane/runner/sim"
)

// TestLive runs the suite that real vLLM passes on the simulated server, as it resembles both releases, started with
// the engine's own command line. Simulated time runs fast enough for a test, and slowly enough that a request of
// thousands of tokens can be given up.
func TestLive(t *testing.T) {
	for _, version := range []string{"0.25.1", "0.32.0"} {
		t.Run(version, func(t *testing.T) {
			url, log := start(t, version)
			enginetest.Live(t, sim.Engine{}, url, "org/m", log)
		})
	}
}

// start runs the server's main in this process and waits until it is healthy.
func start(t *testing.T, version string) (url, log string) {
	t.Helper()
	l := launch(engine.Sim{Speed: 20})
	l.Version, l.Port = version, freePort(t)
	l.Flags = []engine.Flag{
		{Name: "enable-chunked-prefill", Value: true}, {Name: "enable-prefix-caching", Value: true}, {Name: "enforce-eager", Value: false},
		{Name: "max-model-len", Value: int64(8192)},
	}
	cmd, err := sim.Engine{}.Command(l)
	if err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(t.TempDir(), "server.log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- server.Main(ctx, cmd.Argv[2:], io.Discard, f) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("the server ended with code %d", code)
		}
		f.Close()
	})
	url = fmt.Sprintf("http://127.0.0.1:%d", l.Port)
	waitHealthy(t, &openai.Client{BaseURL: url, Endpoints: sim.Engine{}.Endpoints()}, ended, log)
	return url, log
}

func waitHealthy(t *testing.T, c *openai.Client, ended chan int, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for c.Health(ctx) != nil {
		select {
		case <-tick.C:
		case code := <-ended:
			ended <- code
			b, err := os.ReadFile(log)
			t.Fatalf("the server ended with code %d: %s (%v)", code, sim.Engine{}.FailureReason(b), err)
		case <-ctx.Done():
			t.Fatal("the server is not healthy after a minute")
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
