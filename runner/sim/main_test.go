package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/enginetest"
	"h100-inference-control-plane/runner/engine/vllm"
)

// watched is a log that tells when a text has come.
type watched struct {
	mu   sync.Mutex
	cond *sync.Cond
	b    bytes.Buffer
	over bool
}

func newWatched() *watched {
	w := &watched{}
	w.cond = sync.NewCond(&w.mu)
	return w
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cond.Broadcast()
	return w.b.Write(p)
}

func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.cond.Broadcast()
}

// until waits for a text; false when the program ended without it.
func (w *watched) until(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !strings.Contains(w.b.String(), text) {
		if w.over {
			return false
		}
		w.cond.Wait()
	}
	return true
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// program is Main, running.
type program struct {
	log  *watched
	stop context.CancelFunc
	exit chan int
}

func launch(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &program{log: newWatched(), stop: cancel, exit: make(chan int, 1)}
	go func() {
		code := Main(ctx, args, &bytes.Buffer{}, p.log)
		p.log.end()
		p.exit <- code
	}()
	return p
}

const fast = "--speed=100"

// url waits until the server answers.
func (p *program) url(t *testing.T) string {
	t.Helper()
	if !p.log.until("Application startup complete.") {
		t.Fatalf("it did not come up: exit %d\n%s", <-p.exit, p.log)
	}
	m := regexp.MustCompile(`Starting vLLM server on (http://\S+)`).FindStringSubmatch(p.log.String())
	return m[1]
}

func TestMainServes(t *testing.T) {
	p := launch(t, fast, "--profile", "h200-qwen3.6-35b-a3b-fp8", "--noise-seed=1", "serve", "org/model", "--host=127.0.0.1", "--port", "0",
		"--served-model-name", "m", "--max_model_len=8192", "--no-enforce-eager", "--enable-prefix-caching", "--moe-backend", "triton")
	url := p.url(t)
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"a b c","max_tokens":3}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	p.stop()
	if code := <-p.exit; code != 0 {
		t.Errorf("exit code %d", code)
	}
	log := p.log.String()
	first, _, _ := strings.Cut(log, "\n")
	if !strings.Contains(first, "SIMULATED") {
		t.Errorf("the first line is %q", first)
	}
	facts := map[engine.FactKind]engine.LogFact{}
	for line := range strings.SplitSeq(log, "\n") {
		if f, ok := (vllm.Engine{}).LogLine(line); ok {
			facts[f.Kind] = f
		}
	}
	for _, k := range []engine.FactKind{
		engine.FactVersion, engine.FactArch, engine.FactModelLoad, engine.FactCompile, engine.FactGraphCapture, engine.FactInit,
		engine.FactKVTokens, engine.FactBlockSize, engine.FactMaxConc, engine.FactJIT, engine.FactReady,
	} {
		if _, ok := facts[k]; !ok {
			t.Errorf("no line tells %s\n%s", k, log)
		}
	}
	if facts[engine.FactKVTokens].Value != 2605670 && facts[engine.FactKVTokens].Value < 2.5e6 || facts[engine.FactBlockSize].Value != 1056 {
		t.Errorf("facts %+v", facts)
	}
	for _, want := range []string{"moe-backend", "'max_model_len': 8192", `"POST /v1/completions HTTP/1.1" 200 OK`, "[shutdown] API server: shutdown triggered"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q\n%s", want, log)
		}
	}
	if _, err := http.Get(url + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
}

// TestConformance runs the suite that real servers pass.
func TestConformance(t *testing.T) {
	for _, version := range []string{"0.25.1", "0.32.0"} {
		p := launch(t, "--version", version, "--speed", "5", "serve", "org/model", "--host", "127.0.0.1", "--port", "0", "--enable-prefix-caching", "--max-model-len", "2048")
		url := p.url(t)
		t.Run(version, func(t *testing.T) { enginetest.Live(t, vllm.Engine{}, url, "org/model", "") })
		p.stop()
		<-p.exit
	}
}

func TestMainFailure(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		reason string // as read from the log
	}{
		{"no command", nil, 2, "must follow"},
		{"unknown own option", []string{"--nope", "serve", "m"}, 2, "unrecognized arguments: --nope"},
		{"unknown option", []string{"serve", "m", "--no-such-thing"}, 2, "unrecognized arguments: --no-such-thing"},
		{"removed option", []string{"serve", "m", "--disable-log-requests"}, 2, "unrecognized arguments: --disable-log-requests"},
		{"boolean with a value", []string{"serve", "m", "--enforce-eager=true"}, 2, "argument --enforce-eager: ignored explicit argument"},
		{"boolean with a word", []string{"serve", "m", "--enforce-eager", "true"}, 2, "unrecognized arguments: true"},
		{"no value", []string{"serve", "m", "--max-num-seqs"}, 2, "argument --max-num-seqs: expected one argument"},
		{"mistyped", []string{"serve", "m", "--max-num-seqs", "many"}, 2, "argument --max-num-seqs: invalid int value: 'many'"},
		{"choice", []string{"serve", "m", "--kv-cache-dtype", "int3"}, 2, "argument --kv-cache-dtype: invalid choice: 'int3'"},
		{"bad fault", []string{"--fault", "nope", "serve", "m"}, 2, `argument --fault: no fault is called "nope"`},
		{"bad profile", []string{"--profile", "nope", "serve", "m"}, 2, `no profile is called "nope"`},
		{"bad version", []string{"--version", "x", "serve", "m"}, 2, "is not a version"},
		{"bad port", []string{"serve", "m", "--port", "99999"}, 2, "argument --port: invalid value"},
		{"port taken", []string{"serve", "m", "--host", "127.0.0.1", "--port", port}, 1, "OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', " + port + "): address already in use"},
		{"crash", []string{fast, "--fault", "crash-at-start", "serve", "m", "--host", "127.0.0.1", "--port", "0"}, 1, "RuntimeError: SIMULATED: the fault crash-at-start was asked for"},
		{"no memory", []string{"serve", "m", "--host", "127.0.0.1", "--port", "0", "--gpu-memory-utilization", "0.1"}, 1, "ValueError: no memory for the KV cache"},
		{"batch", []string{"serve", "m", "--host", "127.0.0.1", "--port", "0", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "100"}, 1, "ValueError: max_num_batched_tokens is smaller"},
	} {
		p := launch(t, c.args...)
		if code := <-p.exit; code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", c.name, code, c.code, p.log)
		}
		if reason := (vllm.Engine{}).FailureReason([]byte(p.log.String())); !strings.Contains(reason, c.reason) {
			t.Errorf("%s: reason %q, want %q\n%s", c.name, reason, c.reason, p.log)
		}
	}
}

func TestMainHangs(t *testing.T) {
	p := launch(t, fast, "--fault=hang-at-start", "serve", "m", "--host", "127.0.0.1", "--port", "0")
	if !p.log.until("Initializing a V1 LLM engine") {
		t.Fatalf("exit %d\n%s", <-p.exit, p.log)
	}
	p.stop()
	if code := <-p.exit; code != 0 || strings.Contains(p.log.String(), "startup complete") {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
}

func TestMainDies(t *testing.T) {
	p := launch(t, fast, "--fault", "die-after=5", "serve", "m", "--host", "127.0.0.1", "--port", "0")
	url := p.url(t)
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":50,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if code := <-p.exit; code != 0 {
		t.Errorf("exit code %d, vLLM's is 0", code)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil || !strings.Contains(text.String(), "EngineCore encountered an issue") || !strings.HasSuffix(text.String(), doneEvent) {
		t.Errorf("%v: %s", err, text.String())
	}
	if _, err := http.Get(url + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the death: %v", err)
	}
}

func TestParseArgs(t *testing.T) {
	c, err := parseArgs([]string{
		"--speed", "20", "--fault=die-after=3", "--fault", "empty-usage", "serve", "org/m", "--served_model_name", "a", "b", "--port=8001",
		"-tp", "2", "-O1", "--compilation-config.cudagraph_mode", "NONE", "--no-enable-prefix-caching", "--speculative-config", `{"method":"mtp"}`,
		"--gpu-memory-utilization=0.85", "--max-model-len", "32k", "--seed", "-1",
	}, 7)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"served-model-name": []any{"a", "b"}, "port": int64(8001), "tensor-parallel-size": int64(2), "compilation-config.cudagraph_mode": "NONE",
		"enable-prefix-caching": false, "speculative-config": map[string]any{"method": "mtp"}, "gpu-memory-utilization": .85,
		"max-model-len": "32k", "seed": int64(-1),
	}
	level := c.cfg.Flags["optimization-level"]
	delete(c.cfg.Flags, "optimization-level")
	if !reflect.DeepEqual(c.cfg.Flags, want) || fmt.Sprint(level) != "1" {
		t.Errorf("flags %#v, level %v", c.cfg.Flags, level)
	}
	if c.cfg.Model != "org/m" || c.cfg.Speed != 20 || c.cfg.Seed != 7 || len(c.cfg.Faults) != 2 || c.port != 8001 || c.host != "0.0.0.0" {
		t.Errorf("%+v", c)
	}
	if _, err := NewServer(c.cfg); err != nil {
		t.Error(err)
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"--help"}, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	for _, f := range Faults() {
		if !strings.Contains(out.String(), f.Name) {
			t.Errorf("help lacks %s", f.Name)
		}
	}
}

func FuzzParseArgs(f *testing.F) {
	f.Add("--speed 20 --fault die-after=3 serve m --max-model-len 32k --no-enforce-eager")
	f.Add("serve m --served-model-name a b -O2 -cc.mode=3 --seed -1")
	f.Add("serve --help")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parseArgs(strings.Fields(line), 1)
		if err == nil && !c.help && (c.cfg.Model == "" || c.port < 0 || c.port > 65535) {
			t.Errorf("%q gave %+v", line, c)
		}
	})
}
