package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"h100-inference-control-plane/runner/sim/model"
)

// ErrCrashed is the end of a start that was asked to fail; the log has the engine's own words.
var ErrCrashed = errors.New("the simulated engine crashed while it was loading")

// Load is the start of the engine: it writes the log lines of a real one and takes as long as the profile says. It
// returns the context's error when that ends first, and ErrCrashed when a fault says so. It does not call Start.
func (s *Server) Load(ctx context.Context) error {
	ph := s.phases()
	s.logConfig()
	if err := s.pause(ctx, ph.Front, s.faults.slowStart); err != nil {
		return err
	}
	s.logEngineConfig()
	switch {
	case s.faults.crashAtStart:
		s.logStartFailure("RuntimeError: SIMULATED: the fault crash-at-start was asked for")
		return ErrCrashed
	case s.faults.hangAtStart:
		<-ctx.Done()
		return ctx.Err()
	}
	s.log.core("gpu_model_runner.py:5209", "Starting to load model %s...", s.cfg.Model)
	if err := s.pause(ctx, ph.Load, 0); err != nil {
		return err
	}
	s.log.core("gpu_model_runner.py:5306", "Model loading took %.2f GiB memory and %.6f seconds", s.prof.Memory.WeightsGiB, s.seconds(ph.Load))
	if s.prof.Model.Hybrid {
		s.log.core("interface.py:890", "Setting attention block size to %d tokens to ensure that attention page size is >= mamba page size.", s.prof.Memory.BlockTokens)
	}
	return s.initialise(ctx, ph)
}

func (s *Server) phases() model.StartPhases {
	switch {
	case s.set.engine.Eager:
		return s.prof.Start.Eager
	case s.faults.coldStart:
		return s.prof.Start.Cold
	}
	return s.prof.Start.Graphs
}

// seconds turns a length of simulated time into real seconds: the log tells what a clock on the wall would.
func (s *Server) seconds(simulated float64) float64 { return simulated / s.cfg.Speed }

func (s *Server) pause(ctx context.Context, simulated float64, more time.Duration) error {
	t := time.NewTimer(time.Duration(s.seconds(simulated)*float64(time.Second)) + more)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// initialise is what vLLM calls "init engine": compile, profile, cache, graphs.
func (s *Server) initialise(ctx context.Context, ph model.StartPhases) error {
	e, c := s.set.engine, s.engine.Capacity()
	if err := s.pause(ctx, ph.Compile, 0); err != nil {
		return err
	}
	if !e.Eager {
		if s.faults.coldStart {
			s.log.core("backends.py:393", "Compiling a graph for compile range (1, %d) takes %.2f s", e.BatchedTokens, s.seconds(ph.Compile))
		} else {
			s.log.core("backends.py:292", "Directly load the compiled graph(s) for compile range (1, %d) from the cache, took %.3f s", e.BatchedTokens, s.seconds(ph.Compile))
		}
		s.log.core("monitor.py:53", "torch.compile took %.2f s in total", s.seconds(ph.Compile))
	}
	if err := s.pause(ctx, ph.Warmup+ph.Rest, 0); err != nil {
		return err
	}
	if !e.Eager {
		s.log.core("monitor.py:81", "Initial profiling/warmup run took %.2f s", s.seconds(ph.Warmup))
	}
	s.log.core("gpu_worker.py:538", "Available KV cache memory: %.2f GiB", float64(c.Bytes)/(1<<30))
	s.log.core("kv_cache_utils.py:2146", "GPU KV cache size: %s tokens", thousands(c.Tokens))
	s.log.core("kv_cache_utils.py:2147", "Maximum concurrency for %s tokens per request: %.2fx", thousands(e.MaxModelLen), c.MaxConcurrency)
	if err := s.pause(ctx, ph.Capture, 0); err != nil {
		return err
	}
	if e.Eager {
		s.log.core("core.py:344", "init engine (profile, create kv cache, warmup model) took %.2f s", s.seconds(ph.Init()))
		return nil
	}
	s.log.core("gpu_model_runner.py:6707", "Graph capturing finished in %d secs, took %.2f GiB", int(math.Round(s.seconds(ph.Capture))), s.prof.Memory.GraphsGiB)
	s.log.core("core.py:337", "init engine (profile, create kv cache, warmup model) took %.2f s (compilation: %.2f s)", s.seconds(ph.Init()), s.seconds(ph.Compile))
	return nil
}

func (s *Server) logConfig() {
	s.log.line(apiServer, "WARNING", "sim.go:1", "SIMULATED engine: profile %s, speed %g, faults %s. Every number it shows is made up.",
		s.prof.Name, s.cfg.Speed, listOrNone(s.cfg.Faults))
	s.log.api("api_utils.py:273", "non-default args: %s", s.pythonArgs())
	if len(s.set.inert) > 0 {
		s.log.line(apiServer, "WARNING", "sim.go:2", "SIMULATED: these options change nothing here: %s", strings.Join(s.set.inert, ", "))
	}
	s.log.api("sim.go:3", "SIMULATED: noise seed %d", s.cfg.Seed)
	s.log.api("model.py:619", "Resolved architecture: %s", s.prof.Model.Architecture)
	s.log.api("model.py:1776", "Using max model len %d", s.set.engine.MaxModelLen)
	if s.set.engine.ChunkedPrefill {
		s.log.api("scheduler.py:252", "Chunked prefill is enabled with max_num_batched_tokens=%d.", s.set.engine.BatchedTokens)
	}
	if s.prof.Model.Hybrid && s.set.engine.PrefixCaching {
		s.log.line(apiServer, "WARNING", "config.py:563", "Mamba cache mode is set to 'align' for %s by default when prefix caching is enabled", s.prof.Model.Architecture)
	}
	s.log.api("vllm.py:1042", "Asynchronous scheduling is enabled.")
	if s.set.engine.Eager {
		s.log.line(apiServer, "WARNING", "vllm.py:1096", "Enforce eager set, disabling torch.compile and CUDAGraphs. This is equivalent to setting -cc.mode=none -cc.cudagraph_mode=none")
	}
}

func (s *Server) logEngineConfig() {
	e := s.set.engine
	s.log.core("core.py:114", "Initializing a V1 LLM engine (v%s) with config: model='%s', dtype=torch.%s, max_seq_len=%d, enforce_eager=%s, enable_prefix_caching=%s, enable_chunked_prefill=%s, SIMULATED",
		s.cfg.Version, s.cfg.Model, s.prof.Model.DType, e.MaxModelLen, python(e.Eager), python(e.PrefixCaching), python(e.ChunkedPrefill))
}

// logStartFailure writes what vLLM writes when its engine core fails to start.
func (s *Server) logStartFailure(exception string) {
	s.log.coreDies("core.py:1140", "EngineCore failed to start.", "run_engine_core", exception)
	s.log.uncaught("wait_for_engine_startup", "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
}

// logReady writes what vLLM writes when it answers at last.
func (s *Server) logReady(addr string) {
	s.log.api("api_server.py:612", "Supported tasks: ['generate']")
	s.log.api("api_server.py:616", "Starting vLLM server on http://%s", addr)
	s.log.uvicorn("Started server process [%d]", os.Getpid())
	s.log.uvicorn("Waiting for application startup.")
	s.log.uvicorn("Application startup complete.")
}

// logShutdown writes what vLLM writes on SIGTERM.
func (s *Server) logShutdown() {
	s.log.api("launcher.py:100", "[shutdown] API server: shutdown triggered")
	s.log.core("core.py:1214", "[shutdown] EngineCore: trigger received signal=SIGTERM")
	s.log.api("launcher.py:125", "[shutdown] API server: engine client stopped")
}

func (s *Server) logGone() {
	s.log.uvicorn("Shutting down")
	s.log.uvicorn("Waiting for application shutdown.")
	s.log.uvicorn("Application shutdown complete.")
}

// logDeath writes what vLLM writes when its engine core dies while serving.
func (s *Server) logDeath() {
	s.log.coreDies("core.py:1170", "EngineCore encountered a fatal error.", "run_busy_loop",
		fmt.Sprintf("RuntimeError: SIMULATED: the fault die-after=%d was asked for", *s.faults.dieAfter))
	s.log.line(apiServer, "ERROR", "async_llm.py:704", "AsyncLLM output_handler failed.")
	s.log.line(apiServer, "ERROR", "async_llm.py:704", "Traceback (most recent call last):")
	s.log.line(apiServer, "ERROR", "async_llm.py:704", "  File \"simulated\", line 1, in output_handler")
	s.log.line(apiServer, "ERROR", "async_llm.py:704", "vllm.v1.engine.exceptions.EngineDeadError: %s", deadMessage)
}

func (s *Server) logJIT(kernels []string) {
	for _, k := range kernels {
		s.log.line(engineCore, "WARNING", "jit_monitor.py:129",
			"Triton kernel JIT compilation during inference: %s. This causes a latency spike; consider extending warmup to cover this shape/config.", k)
	}
}

// pythonArgs renders the options as Python prints a dict.
func (s *Server) pythonArgs() string {
	parts := []string{"'model_tag': '" + s.cfg.Model + "'"}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Flags)) {
		v := python(s.cfg.Flags[name])
		if name == "api-key" {
			v = "'***'"
		}
		parts = append(parts, "'"+strings.ReplaceAll(name, "-", "_")+"': "+v)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func python(v any) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case string:
		return "'" + x + "'"
	case []any:
		var parts []string
		for _, e := range x {
			parts = append(parts, python(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

func listOrNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// thousands writes 2540105 as 2,540,105.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
