package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/openai"
	"h100-inference-control-plane/runner/workload"
)

const (
	// callTimeout bounds one question to a live server.
	callTimeout = 2 * time.Minute
	// settle bounds how long counters may take to follow an answer: the server may count after it has answered.
	settle = 30 * time.Second
	// poll is the time between looks at a counter.
	poll = 50 * time.Millisecond
)

// Live checks the engine against a server that runs at url and serves model, with nobody else asking it anything. It
// needs prefix caching on, the endpoints for settings and cache reset, and a context of more than two cache blocks.
// logPath is the server's log so far; empty = not checked.
func Live(t *testing.T, e engine.Engine, url, model, logPath string) {
	s := &subject{e: e, model: model, url: strings.TrimRight(url, "/"), client: &openai.Client{BaseURL: url, Endpoints: e.Endpoints()}}
	for _, x := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"health", s.health}, {"version", s.versionTest}, {"models", s.models}, {"metrics", s.metrics}, {"server_info", s.serverInfo},
		{"completion", s.completion}, {"tokenize", s.tokenize},
		{"stream", s.streams}, {"counters", s.counters}, {"prefix_cache", s.prefixCache},
		{"bad_requests", s.badRequests}, {"disconnect", s.disconnect},
	} {
		if !t.Run(x.name, x.run) && (x.name == "health" || x.name == "models" || x.name == "metrics") {
			t.Fatalf("%s failed: the rest would tell nothing", x.name)
		}
	}
	t.Run("log", func(t *testing.T) {
		if logPath == "" {
			t.Skip("no log was given")
		}
		log, err := os.ReadFile(logPath)
		if err != nil {
			t.Fatal(err)
		}
		logFacts(t, e, log, s.version)
	})
}

// subject is the server under test and what it said about itself.
type subject struct {
	e          engine.Engine
	client     *openai.Client
	url, model string

	version string
	maxLen  int // tokens
	block   int // tokens per cache block
}

func call(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

func (s *subject) health(t *testing.T) {
	if err := s.client.Health(call(t)); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) versionTest(t *testing.T) {
	body, err := s.client.Version(call(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.version, err = s.e.ParseVersion(body); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s", s.e.Name(), s.version)
}

func (s *subject) models(t *testing.T) {
	list, err := s.client.Models(call(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.ID == s.model {
			s.maxLen = m.MaxModelLen
		}
	}
	if s.maxLen <= 0 {
		t.Fatalf("no model %q with a length is in %+v", s.model, list)
	}
}

func (s *subject) scrape(t *testing.T) families {
	t.Helper()
	body, contentType, err := s.client.Metrics(call(t))
	if err != nil {
		t.Fatal(err)
	}
	return parseMetrics(t, body, contentType)
}

func (s *subject) metrics(t *testing.T) {
	f := s.scrape(t)
	f.kinds(t, s.e)
	m, _, ok := f.find(s.e, engine.QCacheConfig)
	if !ok {
		t.FailNow()
	}
	n, err := strconv.Atoi(label(m.GetMetric()[0], "block_size"))
	if err != nil || n < 1 {
		t.Fatalf("block_size = %d, %v", n, err)
	}
	s.block = n
	t.Logf("cache block of %d tokens, context of %d", s.block, s.maxLen)
}

func (s *subject) serverInfo(t *testing.T) {
	body, err := s.client.ServerInfo(call(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.e.Effective(body)
	if err != nil {
		t.Fatal(err)
	}
	effective(t, got)
	if got["max-model-len"] != float64(s.maxLen) {
		t.Errorf("max-model-len = %v, the list of models says %d", got["max-model-len"], s.maxLen)
	}
	// Hybrid models report another block here than the metrics do, so the larger one decides what can hit.
	if b, ok := got["block-size"].(float64); ok && int(b) > s.block {
		s.block = int(b)
	}
	t.Logf("%d effective flags; prefix caching %v, chunked prefill %v, eager %v, async scheduling %v", len(got),
		got["enable-prefix-caching"], got["enable-chunked-prefill"], got["enforce-eager"], got["async-scheduling"])
}

func (s *subject) completion(t *testing.T) {
	if err := s.client.Complete(call(t), s.model); err != nil {
		t.Error(err)
	}
}

func (s *subject) tokenize(t *testing.T) {
	ids, err := s.client.Tokenize(call(t), s.model, "t9 t10 t11")
	if err != nil || len(ids) == 0 {
		t.Errorf("Tokenize() = %v, %v", ids, err)
	}
}

// ids is a prompt of n token ids; the same salt gives the same prompt, and different ones differ from the first id on.
func ids(n, salt int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(10 + (i*i*7+i*31+salt*97)%400)
	}
	out[0] = int32(10 + salt%400)
	return out
}

// send starts one streaming request.
func (s *subject) send(ctx context.Context, t *testing.T, api workload.API, r workload.Request) *http.Response {
	t.Helper()
	body, err := openai.Body(api, s.model, r, openai.BodyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.post(ctx, s.path(api), body)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (s *subject) path(api workload.API) string {
	if api == workload.Chat {
		return s.e.Endpoints().Chat
	}
	return s.e.Endpoints().Completions
}

func (s *subject) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
}

// ask sends a streaming request and checks its answer: it ends well and has exactly the tokens that were asked for.
func (s *subject) ask(t *testing.T, api workload.API, r workload.Request) stream {
	t.Helper()
	resp := s.send(call(t), t, api, r)
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(ct, "text/event-stream") {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		t.Fatalf("%s: HTTP %d %s: %s", api, resp.StatusCode, ct, body)
	}
	got := readStream(resp.Body)
	got.complete(t)
	if got.usage == nil {
		t.FailNow()
	}
	if r.Exact && (got.usage.Completion != r.MaxTokens || got.finish != "length") {
		t.Errorf("%s: %d tokens, finish_reason %q; want exactly %d and length", api, got.usage.Completion, got.finish, r.MaxTokens)
	}
	if r.TokenIDs != nil && got.usage.Prompt != len(r.TokenIDs) {
		t.Errorf("%s: usage says %d prompt tokens, %d ids were sent", api, got.usage.Prompt, len(r.TokenIDs))
	}
	return got
}

func (s *subject) streams(t *testing.T) {
	for _, n := range []int{1, 2, 33} {
		chat := s.ask(t, workload.Chat, workload.Request{Prompt: "t20 t21 t22", MaxTokens: n, Exact: true})
		s.ask(t, workload.Completions, workload.Request{TokenIDs: ids(7, n), MaxTokens: n, Exact: true})
		text := s.ask(t, workload.Completions, workload.Request{Prompt: "t20 t21 t22", MaxTokens: n, Exact: true})
		if chat.usage.Prompt < text.usage.Prompt {
			t.Errorf("a chat of 3 words has %d prompt tokens, the same words alone %d", chat.usage.Prompt, text.usage.Prompt)
		}
	}
	if got := s.ask(t, workload.Chat, workload.Request{Prompt: "t20", MaxTokens: 5}); got.usage.Completion > 5 {
		t.Errorf("%d tokens came, at most 5 were asked for", got.usage.Completion)
	}
}

// counters checks that what the server counts is what it said in its answers, to the token.
func (s *subject) counters(t *testing.T) {
	before := s.idle(t)
	var prompt, output, n float64
	for i := range 4 {
		api, r := workload.Completions, workload.Request{TokenIDs: ids(20+i, 50+i), MaxTokens: 3 + 5*i, Exact: true}
		if i%2 == 1 {
			api, r.TokenIDs, r.Prompt = workload.Chat, nil, strings.Repeat("t30 ", 1+i)
		}
		got := s.ask(t, api, r)
		prompt, output, n = prompt+float64(got.usage.Prompt), output+float64(got.usage.Completion), n+1
	}
	want := map[engine.Quantity]float64{
		engine.QPromptTokens: prompt, engine.QGenerationTokens: output, engine.QRequestSuccess: n, engine.QTTFT: n, engine.QE2E: n,
		engine.QITL: output - n, engine.QTPOT: n, engine.QQueueTime: n, engine.QPrefillTime: n, engine.QDecodeTime: n,
		engine.QPreemptions: 0,
	}
	after := s.until(t, func(f families) bool {
		return f.value(t, s.e, engine.QRequestSuccess)-before.value(t, s.e, engine.QRequestSuccess) >= n
	})
	for q, w := range want {
		if d := after.value(t, s.e, q) - before.value(t, s.e, q); d != w {
			t.Errorf("%s rose by %v, the answers say %v", q, d, w)
		}
	}
	if a, b := after.value(t, s.e, engine.QProcessStart), before.value(t, s.e, engine.QProcessStart); a != b || a <= 0 {
		t.Errorf("the start time was %v, then %v", b, a)
	}
	t.Logf("%v requests: %v prompt tokens, %v output tokens, equal on both sides", n, prompt, output)
}

// idle waits until nothing runs or waits, and returns that scrape.
func (s *subject) idle(t *testing.T) families {
	t.Helper()
	return s.until(t, func(f families) bool {
		return f.value(t, s.e, engine.QRunning) == 0 && f.value(t, s.e, engine.QWaiting) == 0
	})
}

// until scrapes until ok, or for a bounded time, and returns the last scrape.
func (s *subject) until(t *testing.T, ok func(families) bool) families {
	t.Helper()
	end := time.Now().Add(settle)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		f := s.scrape(t)
		if ok(f) {
			return f
		}
		if time.Now().After(end) {
			t.Errorf("the metrics did not become what was expected within %v", settle)
			return f
		}
		<-tick.C
	}
}

// prefixCache checks by the counters that a repeated prompt hits, and misses after a reset.
func (s *subject) prefixCache(t *testing.T) {
	n := 2*s.block + s.block/2
	if n+4 > s.maxLen {
		t.Fatalf("a prompt of two blocks of %d does not fit into %d tokens", s.block, s.maxLen)
	}
	prompt := workload.Request{TokenIDs: ids(n, 77), MaxTokens: 2, Exact: true}
	// The blocks of a request that has just ended may be held for a moment; the client asks again.
	if err := s.client.ResetPrefixCache(call(t)); err != nil {
		t.Fatal(err)
	}
	cold := s.hits(t, prompt)
	warm := s.hits(t, prompt)
	if err := s.client.ResetPrefixCache(call(t)); err != nil {
		t.Fatal(err)
	}
	again := s.hits(t, prompt)
	if cold != 0 || again != 0 {
		t.Errorf("%v tokens hit in an empty cache, %v after the reset; want 0", cold, again)
	}
	if warm < float64(2*s.block) || warm > float64(n) {
		t.Errorf("%v of %d tokens hit on the second time, want at least the two full blocks of %d", warm, n, s.block)
	}
	t.Logf("prompt of %d tokens, blocks of %d: hits %v cold, %v warm, %v after the reset", n, s.block, cold, warm, again)
}

// hits sends one request and returns how many of its prompt tokens the cache had.
func (s *subject) hits(t *testing.T, r workload.Request) float64 {
	t.Helper()
	before := s.idle(t)
	s.ask(t, workload.Completions, r)
	after := s.until(t, func(f families) bool {
		return f.value(t, s.e, engine.QRequestSuccess) > before.value(t, s.e, engine.QRequestSuccess)
	})
	if q := after.value(t, s.e, engine.QPrefixQueries) - before.value(t, s.e, engine.QPrefixQueries); q != float64(len(r.TokenIDs)) {
		t.Errorf("%v tokens were looked up for a prompt of %d", q, len(r.TokenIDs))
	}
	d := after.value(t, s.e, engine.QPrefixHits) - before.value(t, s.e, engine.QPrefixHits)
	if c := after.value(t, s.e, engine.QPromptTokensCached) - before.value(t, s.e, engine.QPromptTokensCached); c != d {
		t.Errorf("%v prompt tokens came from the cache, %v tokens hit", c, d)
	}
	return d
}

func (s *subject) badRequests(t *testing.T) {
	before := s.idle(t)
	long, err := openai.Body(workload.Completions, s.model, workload.Request{TokenIDs: ids(s.maxLen+10, 3), MaxTokens: 4}, openai.BodyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(map[string]any{"model": "no-such-model", "messages": []any{map[string]any{"role": "user", "content": "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	chat, completions := s.e.Endpoints().Chat, s.e.Endpoints().Completions
	for _, x := range []struct {
		name, path string
		body       []byte
		status     int
	}{
		{"wrong model", chat, other, 404},
		{"broken JSON", chat, []byte(`{"model":`), 400},
		{"too long", completions, long, 400},
		{"negative temperature", completions, fmt.Appendf(nil, `{"model":%q,"prompt":"t9","temperature":-3}`, s.model), 400},
	} {
		err := s.refusal(t, x.path, x.body)
		if err.Status != x.status || err.Message == "" || err.Type == "" {
			t.Errorf("%s: %v, want HTTP %d with a type and a message", x.name, err, x.status)
		}
		t.Logf("%s: %v", x.name, err)
	}
	if _, err := s.client.Tokenize(call(t), "no-such-model", "x"); err == nil || errors.Is(err, openai.ErrAbsent) {
		t.Errorf("tokenizing for an unknown model: %v", err)
	}
	after := s.idle(t)
	if d := after.value(t, s.e, engine.QGenerationTokens) - before.value(t, s.e, engine.QGenerationTokens); d != 0 {
		t.Errorf("requests that were refused made %v tokens", d)
	}
}

func (s *subject) refusal(t *testing.T, path string, body []byte) *openai.APIError {
	t.Helper()
	resp, err := s.post(call(t), path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return openai.ParseError(resp.StatusCode, answer)
}

// disconnect checks that a request ends when its client goes away: the rest of its tokens is never made.
func (s *subject) disconnect(t *testing.T) {
	before := s.idle(t)
	asked := s.maxLen - 32
	ctx, cancel := context.WithCancel(call(t))
	defer cancel()
	resp := s.send(ctx, t, workload.Completions, workload.Request{TokenIDs: ids(9, 5), MaxTokens: asked, Exact: true})
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("HTTP %d", resp.StatusCode)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 64)); err != nil {
		t.Fatalf("no first event: %v", err)
	}
	s.until(t, func(f families) bool { return f.value(t, s.e, engine.QRunning) == 1 })
	cancel()
	gone := s.idle(t)
	made := gone.value(t, s.e, engine.QGenerationTokens) - before.value(t, s.e, engine.QGenerationTokens)
	if made >= float64(asked) {
		t.Errorf("all %v tokens were made after the client had gone", made)
	}
	s.ask(t, workload.Completions, workload.Request{TokenIDs: ids(9, 6), MaxTokens: 3, Exact: true})
	after := s.until(t, func(f families) bool {
		return f.value(t, s.e, engine.QGenerationTokens) >= gone.value(t, s.e, engine.QGenerationTokens)+3
	})
	if d := after.value(t, s.e, engine.QGenerationTokens) - gone.value(t, s.e, engine.QGenerationTokens); d != 3 {
		t.Errorf("%v tokens were made for a request of 3 after the one that was given up", d)
	}
	t.Logf("the client left; %v of %d tokens were made", made, asked)
}
