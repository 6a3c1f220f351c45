package sim

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/vllm"
	"h100-inference-control-plane/runner/sim/model"
)

// ends sends n requests of some tokens one after the other and returns how many streams had which end.
func ends(r *running, n, tokens int) map[string]int {
	out := map[string]int{}
	for i := range n {
		status, text, err := r.try("/v1/chat/completions", chat(fmt.Sprint("p ", i), tokens, ""))
		_, output, _ := readUsage(text)
		switch {
		case err != nil:
			out["broken"]++
		case status != 200:
			out[fmt.Sprint(status)]++
		case strings.Contains(text, `"error"`) && strings.HasSuffix(text, doneEvent):
			out["error"]++
		case !strings.HasSuffix(text, doneEvent):
			out["truncated"]++
		case output == 0:
			out["no usage"]++
		default:
			out["ok"]++
		}
	}
	return out
}

func TestFaultsPerRequest(t *testing.T) {
	for _, c := range []struct{ fault, end string }{
		{"http-500=1", "500"}, {"error-mid-stream=1", "error"}, {"truncate=1", "truncated"}, {"empty-usage", "no usage"}, {"slow-metrics=1ms", "ok"},
	} {
		r := start(t, Config{Faults: []string{c.fault}})
		if got := ends(r, 5, 6); got[c.end] != 5 {
			t.Errorf("%s: %v", c.fault, got)
		}
	}
	r := start(t, Config{Faults: []string{"http-500=0.2", "error-mid-stream=0.2,truncate=0.2"}, Seed: 1})
	got := ends(r, 200, 4)
	for end, want := range map[string]float64{"500": 40, "error": 32, "truncated": 25.6, "ok": 102.4} {
		if x := float64(got[end]); x < want*.6 || x > want*1.4 {
			t.Errorf("%s: %v of 200, want about %v (%v)", end, x, want, got)
		}
	}
}

func TestCutStreams(t *testing.T) {
	r := start(t, Config{Faults: []string{"truncate=1"}})
	_, text := r.post("/v1/chat/completions", chat("x", 10, ""))
	if _, _, chunks := readUsage(text); chunks != 5 || strings.Contains(text, `"finish_reason":"`) {
		t.Errorf("a truncated stream of 10 tokens has %d chunks\n%s", chunks, text)
	}
	r = start(t, Config{Faults: []string{"error-mid-stream=1"}})
	_, text = r.post("/v1/chat/completions", chat("x", 10, ""))
	if _, _, chunks := readUsage(text); chunks != 5 {
		t.Errorf("a failing stream of 10 tokens has %d chunks\n%s", chunks, text)
	}
	if status, body := r.post("/v1/completions", `{"prompt":"x","max_tokens":4}`); status != 500 || !strings.Contains(body, "InternalServerError") {
		t.Errorf("not streamed: %d %s", status, body)
	}
}

func TestDieAfter(t *testing.T) {
	r := start(t, Config{Faults: []string{"die-after=2"}})
	status, text := r.post("/v1/chat/completions", chat("x", 100, ""))
	want := shape(golden(t, "vllm-0.25.1/died.sse"))
	// The recorded stream died after one token, this one after two.
	token := strings.SplitAfter(want, "\n\n")[1]
	if want = strings.Replace(want, token, token+token, 1); status != 200 || shape(text) != want {
		t.Errorf("status %d\n got %s\nwant %s", status, shape(text), want)
	}
	<-r.sim.Died()
	if r.sim.Fate() != Dead {
		t.Errorf("fate %v", r.sim.Fate())
	}
	if status, body := r.post("/v1/completions", `{"prompt":"x"}`); status != 500 || !strings.Contains(body, "EngineCore") {
		t.Errorf("after the death: %d %s", status, body)
	}
	if status, _ := r.get("/health"); status != 503 {
		t.Errorf("health after the death: %d", status)
	}
	if reason := (vllm.Engine{}).FailureReason([]byte(r.log.String())); reason != "RuntimeError: SIMULATED: the fault die-after=2 was asked for" {
		t.Errorf("reason %q", reason)
	}
}

func TestDieHardAfter(t *testing.T) {
	r := start(t, Config{Faults: []string{"die-hard-after=3"}})
	if _, text, err := r.try("/v1/chat/completions", chat("x", 100, "")); err == nil {
		t.Errorf("the connection ended in order: %s", text)
	}
	if <-r.sim.Died(); r.sim.Fate() != Killed {
		t.Errorf("fate %v", r.sim.Fate())
	}
	killed := make(chan bool, 1)
	r = start(t, Config{Faults: []string{"die-hard-after=1"}, Kill: func() { killed <- true }})
	r.try("/v1/chat/completions", chat("x", 5, ""))
	<-killed
}

func TestHangAfter(t *testing.T) {
	r := start(t, Config{Faults: []string{"hang-after=3"}})
	resp, err := http.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(chat("x", 100, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	// The stream must have its three tokens and stay open: read on in the background until the server is closed.
	got := make(chan string, 100)
	go func() {
		defer close(got)
		b := make([]byte, 1<<16)
		for {
			n, err := resp.Body.Read(b)
			if n > 0 {
				got <- string(b[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	text := ""
	for strings.Count(text, `"content":" t`) < 3 {
		text += <-got
	}
	if status, _ := r.get("/health"); status != 200 {
		t.Errorf("health while hanging: %d", status)
	}
	if v := value(r.scrape(), "vllm:generation_tokens_total"); v != 3 {
		t.Errorf("%v tokens generated", v)
	}
	r.sim.Close()
	for more := range got {
		text += more
	}
	if strings.Count(text, `"content":" t`) != 3 || strings.Contains(text, "[DONE]") {
		t.Errorf("the stream went on: %s", text)
	}
}

func TestRestart(t *testing.T) {
	r := start(t, Config{Faults: []string{"restart=6"}})
	ends(r, 1, 3)
	before := r.scrape()
	ends(r, 1, 5)
	ends(r, 1, 2)
	after := r.scrape()
	if value(before, "vllm:generation_tokens_total") != 3 || value(after, "vllm:generation_tokens_total") != 4 {
		t.Errorf("%v tokens before, %v after", value(before, "vllm:generation_tokens_total"), value(after, "vllm:generation_tokens_total"))
	}
	if a, b := r.sim.begun, r.sim.metrics.start; !b.After(a) {
		t.Errorf("started at %v, then at %v", a, b)
	}
}

// gaps runs one request of 30 tokens without waiting for real time, and returns the mean time between its tokens as
// /metrics would tell it.
func gaps(t *testing.T, faults ...string) float64 {
	t.Helper()
	s, err := NewServer(Config{Faults: faults, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.throttleFromStart()
	if _, err := s.engine.Submit(0, model.Request{Tokens: []int32{20, 21, 22}, MaxTokens: 30}); err != nil {
		t.Fatal(err)
	}
	for {
		st, ok := s.engine.Step()
		if !ok {
			break
		}
		s.endStep(st)
		s.afterStep()
	}
	return s.metrics.itl.sum / float64(s.metrics.itl.n)
}

func TestThrottleDrift(t *testing.T) {
	plain := gaps(t)
	for fault, want := range map[string]float64{"throttle=3": 3, "throttle=3@15": 2.03, "clock-drift=1.5": 1.5, "empty-usage": 1} {
		if got := gaps(t, fault) / plain; got < want*.98 || got > want*1.02 {
			t.Errorf("%s: the time between tokens is %.3g times what it was, want %v", fault, got, want)
		}
	}
}

func TestJITInWindow(t *testing.T) {
	r := start(t, Config{Faults: []string{"jit-in-window=2"}})
	began := time.Now()
	ends(r, 3, 2)
	if took := time.Since(began); took < time.Second {
		t.Errorf("three requests with a stall took %v", took)
	}
	found := 0
	for line := range strings.SplitSeq(r.log.String(), "\n") {
		if f, ok := (vllm.Engine{}).LogLine(line); ok && f.Kind == engine.FactJIT && f.Text == "_simulated_fault_kernel" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d JIT lines\n%s", found, r.log)
	}
}

func TestCoalesceKeepAlive(t *testing.T) {
	r := start(t, Config{Faults: []string{"coalesce=3", "keep-alive=2"}})
	_, text := r.post("/v1/chat/completions", chat("x", 8, ""))
	_, output, chunks := readUsage(text)
	if output != 8 || chunks != 4 { // 1, 3, 3, 1
		t.Errorf("%d tokens in %d chunks\n%s", output, chunks, text)
	}
	if n := strings.Count(text, keepAliveComment); n != 3 || !strings.HasPrefix(text, keepAliveComment) {
		t.Errorf("%d comments\n%s", n, text)
	}
}

func TestParseFaultsFailure(t *testing.T) {
	for _, f := range []string{
		"", "nope", "empty-usage=1", "die-after", "die-after=x", "die-after=-1", "truncate=2", "truncate=NaN", "throttle=0", "throttle=2@x",
		"slow-start=5", "coalesce=0", "wrong-effective=x", "clock-drift=-1", "die-after=1,,truncate=1",
	} {
		if _, err := parseFaults([]string{f}); err == nil {
			t.Errorf("%q was accepted", f)
		}
	}
	for _, f := range Faults() {
		name, arg, has := strings.Cut(f.Name, "=")
		if has {
			name += "=" + map[string]string{"N": "3", "DUR": "1s", "P": "0.5", "F": "2", "F[@N]": "2@5", "FLAG=VALUE": "a=b"}[arg]
		}
		if _, err := parseFaults([]string{name}); err != nil || f.Help == "" {
			t.Errorf("%s: %v, %q", name, err, f.Help)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	for _, row := range Faults() {
		f.Add(row.Name)
	}
	f.Add("die-after=40,truncate=0.1")
	f.Add("throttle=1.5@100")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseFaults([]string{s})
		if err == nil && (got.truncate < 0 || got.truncate > 1 || got.coalesce < 0) {
			t.Errorf("%q gave %+v", s, got)
		}
	})
}
