package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"h100-inference-control-plane/runner/sim/model"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Times of the HTTP server and of its end.
const (
	keepAlive     = 5 * time.Second // vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE
	headerTimeout = 10 * time.Second
	drain         = 700 * time.Millisecond // for answers to be written after the engine has ended
	statsInterval = 10 * time.Second
)

// Main runs `sim [options] serve MODEL [vLLM options]` until ctx ends (SIGTERM and SIGINT are the caller's to turn
// into that) or the engine ends by a fault. Log lines go to stderr, help to stdout. Exit codes are vLLM's: 0 after a
// requested end and, as of vllm#48966, after the engine died while serving; 1 when it failed to start; 2 for a bad
// command line. The fault die-hard-after kills the process.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseArgs(args, rand.Uint64())
	if err != nil {
		fmt.Fprintf(stderr, "usage: %s\nvllm serve: error: %v\n", usageLine, err)
		return exitUsage
	}
	if c.help {
		writeHelp(stdout)
		return exitOK
	}
	c.cfg.Log = stderr
	c.cfg.Kill = killSelf
	if k := os.Getenv("VLLM_API_KEY"); k != "" {
		c.cfg.APIKeys = append(c.cfg.APIKeys, k)
	}
	return c.run(ctx)
}

const usageLine = "sim [--profile P] [--speed X] [--fault F]... [--version V] [--noise-seed N] serve MODEL [vLLM options]"

func writeHelp(w io.Writer) {
	fmt.Fprintf(w, `usage: %s

A SIMULATED engine on vLLM's wire. What it measures is made up by a model; it says nothing about a GPU.

  --profile P       step times and memory (default %s):
`, usageLine, model.DefaultProfile)
	for _, name := range model.Profiles() {
		if p, err := model.LoadProfile(name); err == nil {
			fmt.Fprintf(w, "                    %s: %s\n", name, p.Description)
		}
	}
	fmt.Fprintf(w, `  --speed X         simulated seconds per real second (default 1)
  --version V       vLLM release to resemble (default %s)
  --noise-seed N    seed of the noise between starts and steps (default: another one each time)
  --fault F         what goes wrong; repeat it or separate with commas:
`, DefaultVersion)
	for _, f := range Faults() {
		fmt.Fprintf(w, "      %-28s %s\n", f.Name, f.Help)
	}
}

// run is the life of one server process.
func (c *command) run(ctx context.Context) int {
	log := &logger{w: c.cfg.Log, pid: os.Getpid()}
	bound, err := bind(c.host, c.port)
	if errors.Is(err, syscall.EADDRINUSE) {
		log.uncaught("create_server_socket", "OSError: [Errno 98] error while attempting to bind on address ('"+c.host+"', "+strconv.Itoa(c.port)+"): address already in use")
		return exitFailed
	}
	if err != nil {
		log.uncaught("create_server_socket", fmt.Sprintf("OSError: bind %s port %d: %v", c.host, c.port, err))
		return exitFailed
	}
	defer bound.Close()
	s, err := NewServer(c.cfg)
	if err != nil {
		return c.cannotStart(log, err)
	}
	if s.faults.ignoreTerm {
		// Whoever turns signals into the end of ctx lets the second one kill; this keeps it from doing so.
		deaf := make(chan os.Signal, 1)
		signal.Notify(deaf, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(deaf)
		ctx = context.WithoutCancel(ctx)
	}
	switch err := s.Load(ctx); {
	case errors.Is(err, ErrCrashed):
		return exitFailed
	case err != nil:
		s.logShutdown()
		return exitOK
	}
	ln, err := bound.Listen()
	if err != nil {
		log.uncaught("serve", fmt.Sprintf("OSError: listen: %v", err))
		return exitFailed
	}
	return s.serve(ctx, ln)
}

// cannotStart writes what a real engine would say: bad options end the API server, lack of memory the engine core.
func (c *command) cannotStart(log *logger, err error) int {
	s := &Server{cfg: c.cfg, log: log}
	switch {
	case errors.Is(err, model.ErrNoMemory):
		s.logStartFailure(fmt.Sprintf("ValueError: %v. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", err))
	default:
		log.uncaught("create_engine_config", fmt.Sprintf("ValueError: %v", err))
	}
	return exitFailed
}

// serve answers until ctx ends or the engine dies.
func (s *Server) serve(ctx context.Context, ln net.Listener) int {
	srv := &http.Server{Handler: s.Handler(), IdleTimeout: keepAlive, ReadHeaderTimeout: headerTimeout, ErrorLog: nil}
	s.Start()
	s.logReady(ln.Addr().String())
	var all sync.WaitGroup
	failed := make(chan error, 1)
	all.Go(func() { failed <- srv.Serve(ln) })
	over := make(chan struct{})
	all.Go(func() { s.logStats(over) })
	code := exitOK
	select {
	case <-ctx.Done():
		s.logShutdown()
		s.Close()
	case <-s.Died():
	case err := <-failed:
		s.log.uncaught("serve", fmt.Sprintf("OSError: %v", err))
		code = exitFailed
	}
	close(over)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close()
	}
	s.Close()
	all.Wait()
	s.logGone()
	return code
}

// logStats writes vLLM's periodic line while there is something to tell.
func (s *Server) logStats(over <-chan struct{}) {
	tick := time.NewTicker(statsInterval)
	defer tick.Stop()
	m := s.metrics
	var prompt, output int64
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		m.mu.Lock()
		dp, dg := m.promptTokens-prompt, m.generated-output
		prompt, output = m.promptTokens, m.generated
		running, waiting, usage, queries, hits := m.running, m.waiting, m.kvUsage, m.prefixQueries, m.prefixHits
		m.mu.Unlock()
		if s.set.noStats || dp == 0 && dg == 0 && running == 0 {
			continue
		}
		rate := 0.0
		if queries > 0 {
			rate = float64(hits) / float64(queries)
		}
		s.log.api("loggers.py:273", "Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%",
			float64(dp)/statsInterval.Seconds(), float64(dg)/statsInterval.Seconds(), running, waiting, usage*100, rate*100)
	}
}
