package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	pmodel "github.com/prometheus/common/model"

	"h100-inference-control-plane/runner/engine/vllm"
)

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is a server under test.
type running struct {
	t   *testing.T
	sim *Server
	url string
	log *buffer
}

// start serves cfg in this process. Steps are made short: tests look at what is said, not at how long it takes.
func start(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{t: t, log: &buffer{}}
	cfg.Log = r.log
	if cfg.Model == "" {
		cfg.Model = "m"
	}
	if cfg.Speed == 0 {
		cfg.Speed = 50
	}
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	r.sim, r.url = s, web.URL
	return r
}

func (r *running) post(path, body string) (int, string) {
	r.t.Helper()
	status, text, err := r.try(path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, text
}

func (r *running) try(path, body string) (int, string, error) {
	resp, err := http.Post(r.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	resp, err := http.Get(r.url + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func (r *running) scrape() map[string]*dto.MetricFamily {
	r.t.Helper()
	_, text := r.get("/metrics")
	parser := expfmt.NewTextParser(pmodel.UTF8Validation)
	f, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		r.t.Fatalf("metrics: %v\n%s", err, text)
	}
	return f
}

// value sums a family over its labels; of a histogram it is the number of observations.
func value(f map[string]*dto.MetricFamily, name string) float64 {
	sum := 0.0
	for _, m := range f[name].GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

func chat(prompt string, tokens int, more string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}%s}`, prompt, tokens, more)
}

func golden(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// shape replaces what differs between two answers of one server.
func shape(s string) string {
	for _, r := range []struct{ from, to string }{
		{`"id":"(chatcmpl|cmpl)-[0-9a-f]{16}"`, `"id":"$1-ID"`},
		{`"created":\d+`, `"created":0`},
		{`"model":"\w+"`, `"model":"m"`},
		{` t\d+`, ` tN`},
		{`"(prompt_tokens|total_tokens|completion_tokens)":\d+`, `"$1":0`},
		{`token_ids":\[[\d,]+\]`, `token_ids":[ids]`},
		{`vllm-0.25.1-\w+`, `vllm-0.25.1-X`},
	} {
		s = regexp.MustCompile(r.from).ReplaceAllString(s, r.to)
	}
	return s
}

// TestStreamShape compares answers byte by byte with those of vLLM 0.25.1, but for what is random in them.
func TestStreamShape(t *testing.T) {
	r := start(t, Config{})
	for _, c := range []struct{ name, path, body string }{
		{"chat_stream.sse", "/v1/chat/completions", chat("a b c", 4, "")},
		{"cont_usage.sse", "/v1/chat/completions", strings.Replace(chat("x", 4, `,"return_token_ids":true`), `"include_usage":true`, `"include_usage":true,"continuous_usage_stats":true`, 1)},
		{"completions_ids.sse", "/v1/completions", `{"model":"m","prompt":[17,18,19],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`},
	} {
		status, got := r.post(c.path, c.body)
		want := shape(golden(t, "vllm-0.25.1/"+c.name))
		if status != 200 || shape(got) != want {
			t.Errorf("%s: status %d\n got %s\nwant %s", c.name, status, shape(got), want)
		}
	}
	_, got := r.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":4}`)
	sameFields(t, "nonstream.json", got, golden(t, "vllm-0.25.1/nonstream.json"))
}

// sameFields checks that got has no field that the recorded answer lacks, and the ones that clients read.
func sameFields(t *testing.T, name, got, recorded string) {
	t.Helper()
	var g, w map[string]any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%s: %v: %s", name, err, got)
	}
	if err := json.Unmarshal([]byte(recorded), &w); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, g, w map[string]any)
	walk = func(path string, g, w map[string]any) {
		for k, v := range g {
			other, ok := w[k]
			if !ok {
				t.Errorf("%s: %s%s is not in the recorded answer", name, path, k)
				continue
			}
			if list, ok := v.([]any); ok {
				v, other = list[0], other.([]any)[0]
			}
			a, okA := v.(map[string]any)
			b, okB := other.(map[string]any)
			if okA && okB {
				walk(path+k+".", a, b)
			}
		}
	}
	walk("", g, w)
	for _, k := range []string{"id", "object", "created", "model", "choices", "usage"} {
		if g[k] == nil {
			t.Errorf("%s: no %s", name, k)
		}
	}
}

func TestErrors(t *testing.T) {
	r := start(t, Config{Profile: "h200-qwen3.6-35b-a3b-fp8", Flags: map[string]any{"max-model-len": int64(8192)}})
	long := `{"model":"m","prompt":[` + strings.TrimSuffix(strings.Repeat("20,", 9000), ",") + `],"max_tokens":10}`
	for _, c := range []struct {
		name, path, body string
		status           int
		file             string // byte by byte; "" = not recorded
		has              string
	}{
		{"wrong model", "/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`, 404, "bad_model.json", ""},
		{"too long", "/v1/completions", long, 400, "too_long.json", ""},
		{"temperature", "/v1/completions", `{"model":"m","prompt":"x","temperature":-3}`, 400, "bad_temp.json", ""},
		{"broken JSON", "/v1/chat/completions", `{"model":`, 400, "", `"JSON decode error"`},
		{"no JSON", "/v1/chat/completions", ``, 400, "", "json_invalid"},
		{"mistyped", "/v1/chat/completions", `{"model":3}`, 400, "", "valid string"},
		{"no messages", "/v1/chat/completions", `{"model":"m"}`, 400, "", "Field required"},
		{"no tokens", "/v1/completions", `{"model":"m","prompt":"x","max_tokens":0}`, 400, "", "at least 1"},
		{"empty prompt", "/v1/completions", `{"model":"m","prompt":""}`, 400, "", "empty"},
		{"two prompts", "/v1/completions", `{"model":"m","prompt":["a","b"]}`, 400, "", "one prompt"},
		{"vocabulary", "/v1/completions", `{"model":"m","prompt":[999999]}`, 400, "", "out of vocabulary"},
		{"n", "/v1/completions", `{"model":"m","prompt":"x","n":2}`, 400, "", "n=2"},
		{"min above max", "/v1/completions", `{"model":"m","prompt":"x","max_tokens":2,"min_tokens":3}`, 400, "", "min_tokens"},
		{"options without stream", "/v1/completions", `{"model":"m","prompt":"x","stream_options":{"include_usage":true}}`, 400, "", "stream=True"},
		{"tokenize for nobody", "/tokenize", `{"model":"nope","prompt":"x"}`, 404, "bad_model.json", ""},
		{"no such path", "/v1/nothing", `{}`, 404, "", "Not Found"},
	} {
		status, got := r.post(c.path, c.body)
		if status != c.status || !strings.Contains(strings.ReplaceAll(got, `'`, `"`), c.has) {
			t.Errorf("%s: %d %s", c.name, status, got)
		}
		if c.file != "" && got != golden(t, "vllm-0.25.1/"+c.file) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, golden(t, "vllm-0.25.1/"+c.file))
		}
	}
	if v := value(r.scrape(), "vllm:generation_tokens_total"); v != 0 {
		t.Errorf("refused requests generated %v tokens", v)
	}
	later := start(t, Config{Version: "0.32.0", Flags: map[string]any{"served-model-name": []any{"tiny"}}})
	if _, got := later.post("/v1/completions", `{"model":"nope","prompt":"x"}`); got != golden(t, "vllm-0.32.0/bad_model.json") {
		t.Errorf("0.32.0, wrong model: %s", got)
	}
}

// notSimulated are recorded series that this server does not have.
var notSimulated = regexp.MustCompile(`^(process_(virtual|resident|cpu|open|max)|http_(request|response)_size|vllm:(admission_rejections|prompt_tokens_cached_by_source))`)

func TestMetricNames(t *testing.T) {
	for _, version := range []string{"0.25.1", "0.32.0"} {
		flags := map[string]any{"max-model-len": int64(8192)}
		if version == "0.32.0" {
			flags["max-model-len"] = int64(2048) // that of the recorded server: it decides where token buckets end
		}
		r := start(t, Config{Version: version, Flags: flags})
		r.post("/v1/chat/completions", chat("a", 3, ""))
		_, text := r.get("/metrics")
		families := r.scrape()
		lines := bufio.NewScanner(strings.NewReader(golden(t, "vllm-"+version+"/metrics.names")))
		checked := 0
		for lines.Scan() {
			name, rest, _ := strings.Cut(lines.Text(), " ")
			if notSimulated.MatchString(name) {
				continue
			}
			checked++
			bound, isBound := strings.CutPrefix(rest, "le ")
			switch {
			case isBound && !regexp.MustCompile(regexp.QuoteMeta(name)+`_bucket\{[^}]*le="`+regexp.QuoteMeta(bound)+`"`).MatchString(text):
				t.Errorf("%s: %s has no bucket %s", version, name, bound)
			case !isBound && strings.ToLower(families[name].GetType().String()) != rest:
				t.Errorf("%s: %s is not a %s", version, name, rest)
			}
		}
		if checked < 300 {
			t.Errorf("%s: only %d names and bounds were checked", version, checked)
		}
		for _, s := range (vllm.Engine{}).Series() {
			if families[s.Names[0]] == nil {
				t.Errorf("%s: no series %s", version, s.Names[0])
			}
		}
	}
}

// TestCounters checks that the metrics say exactly what the answers say, as soon as the last answer is there.
func TestCounters(t *testing.T) {
	r := start(t, Config{Flags: map[string]any{"enable-prefix-caching": true}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var prompt, output, chunks int
	const n = 40
	for i := range n {
		wg.Go(func() {
			_, text, err := r.try("/v1/chat/completions", chat(strings.Repeat("w ", 5+i)+fmt.Sprint(i), 1+i%7, ""))
			p, o, c := readUsage(text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || o != 1+i%7 || c != o {
				t.Errorf("request %d: %v, %d tokens in %d chunks", i, err, o, c)
			}
			prompt, output, chunks = prompt+p, output+o, chunks+c
		})
	}
	wg.Wait()
	f := r.scrape()
	for name, want := range map[string]int{
		"vllm:prompt_tokens_total": prompt, "vllm:generation_tokens_total": output, "vllm:request_success_total": n,
		"vllm:time_to_first_token_seconds": n, "vllm:inter_token_latency_seconds": output - n, "vllm:e2e_request_latency_seconds": n,
		"vllm:request_time_per_output_token_seconds": n, "vllm:request_queue_time_seconds": n, "vllm:prefix_cache_queries_total": prompt,
		"vllm:prompt_tokens_by_source_total": prompt, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
		"vllm:kv_cache_usage_perc": 0, "vllm:request_prompt_tokens": n, "http_requests_total": n, "vllm:num_preemptions_total": 0,
	} {
		if got := value(f, name); got != float64(want) {
			t.Errorf("%s = %v, want %d", name, got, want)
		}
	}
	if chunks != output {
		t.Errorf("%d chunks for %d tokens", chunks, output)
	}
	e2e := f["vllm:e2e_request_latency_seconds"].GetMetric()[0].GetHistogram().GetSampleSum()
	parts := 0.0
	for _, p := range []string{"queue", "prefill", "decode"} {
		parts += f["vllm:request_"+p+"_time_seconds"].GetMetric()[0].GetHistogram().GetSampleSum()
	}
	if parts <= 0 || parts > e2e {
		t.Errorf("queue, prefill and decode add up to %v s of %v s", parts, e2e)
	}
}

// readUsage returns the final usage of a stream and the number of chunks with text.
func readUsage(text string) (prompt, output, chunks int) {
	for line := range strings.SplitSeq(text, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct{ Content string }
				Text  string
			}
			Usage *struct {
				Prompt int `json:"prompt_tokens"`
				Output int `json:"completion_tokens"`
			}
		}
		if json.Unmarshal([]byte(data), &c) != nil {
			continue
		}
		if len(c.Choices) > 0 && c.Choices[0].Delta.Content+c.Choices[0].Text != "" {
			chunks++
		}
		if len(c.Choices) == 0 && c.Usage != nil {
			prompt, output = c.Usage.Prompt, c.Usage.Output
		}
	}
	return prompt, output, chunks
}

func TestPrefixCacheOverHTTP(t *testing.T) {
	for _, c := range []struct{ version, reset string }{{"0.25.1", ""}, {"0.28.0", `{"success":true}`}} {
		r := start(t, Config{Version: c.version, Flags: map[string]any{"enable-prefix-caching": true, "enable-prompt-tokens-details": true}})
		ask := func() float64 {
			before := value(r.scrape(), "vllm:prefix_cache_hits_total")
			r.post("/v1/chat/completions", chat(strings.Repeat("same ", 100), 2, ""))
			return value(r.scrape(), "vllm:prefix_cache_hits_total") - before
		}
		cold, warm := ask(), ask()
		if status, body := r.post("/reset_prefix_cache", ""); status != 200 || body != c.reset {
			t.Errorf("%s: reset: %d %q", c.version, status, body)
		}
		if again := ask(); cold != 0 || warm != 96 || again != 0 { // 108 tokens, blocks of 16
			t.Errorf("%s: hits %v cold, %v warm, %v after the reset", c.version, cold, warm, again)
		}
	}
}

func TestServerInfo(t *testing.T) {
	r := start(t, Config{
		Profile: "h200-qwen3.6-35b-a3b-fp8", Model: "org/model", Faults: []string{"wrong-effective=enforce-eager=false,wrong-effective=max-num-seqs=7"},
		Flags: map[string]any{
			"enforce-eager": true, "enable-prefix-caching": false, "gpu-memory-utilization": .85, "max-model-len": "32k", "kv-cache-dtype": "fp8",
			"moe-backend": "triton", "tensor-parallel-size": int64(2), "gdn-prefill-backend": "triton", "language-model-only": true,
		},
	})
	_, body := r.get("/server_info?config_format=json")
	got, err := vllm.Engine{}.Effective([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]any{
		"enforce-eager": false, "enable-prefix-caching": false, "enable-chunked-prefill": true, "gpu-memory-utilization": .85,
		"max-model-len": 32000., "kv-cache-dtype": "fp8", "moe-backend": "triton", "tensor-parallel-size": 2., "gdn-prefill-backend": "triton",
		"language-model-only": true, "max-num-seqs": 7., "max-num-batched-tokens": 8192., "block-size": 1056., "dtype": "bfloat16",
		"compilation-config.cudagraph_mode": "NONE",
	} {
		if got[flag] != want {
			t.Errorf("%s = %v, want %v", flag, got[flag], want)
		}
	}
	if !strings.Contains(body, `"simulated":true`) {
		t.Error("/server_info does not say that it is simulated")
	}
	if _, models := r.get("/v1/models"); !strings.Contains(models, `"id":"org/model"`) || !strings.Contains(models, `"max_model_len":32000`) {
		t.Errorf("models: %s", models)
	}
}

func TestDefaultsByRelease(t *testing.T) {
	for _, c := range []struct {
		profile, version string
		prefix           bool
	}{{"h200-qwen3.6-35b-a3b-fp8", "0.25.1", false}, {"h200-qwen3.6-35b-a3b-fp8", "0.28.0", true}, {"laptop", "0.25.1", true}} {
		s, err := NewServer(Config{Profile: c.profile, Version: c.version})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.set.engine.PrefixCaching; got != c.prefix {
			t.Errorf("%s, %s: prefix caching %v by default", c.profile, c.version, got)
		}
	}
	s, err := NewServer(Config{Flags: map[string]any{"enable-chunked-prefill": false}})
	if err != nil || s.set.engine.BatchedTokens != 8192 {
		t.Errorf("chunked prefill off: %d tokens a step (%v), want the context length", s.set.engine.BatchedTokens, err)
	}
}

func TestKeys(t *testing.T) {
	r := start(t, Config{APIKeys: []string{"k"}})
	if status, _ := r.get("/v1/models"); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	if status, _ := r.get("/health"); status != 200 {
		t.Errorf("health needs a key: %d", status)
	}
	req, err := http.NewRequest("GET", r.url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("with the key: %d", resp.StatusCode)
	}
}

func TestSmallEndpoints(t *testing.T) {
	r := start(t, Config{Flags: map[string]any{"enable-request-id-headers": true}})
	for path, want := range map[string]string{"/health": "", "/ping": "", "/version": `{"version":"0.25.1"}`, "/load": `{"server_load":0}`} {
		if status, body := r.get(path); status != 200 || body != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	_, text := r.post("/tokenize", `{"model":"m","prompt":"one two three"}`)
	_, templated := r.post("/tokenize", `{"messages":[{"role":"user","content":[{"type":"text","text":"one two three"}]}]}`)
	if !strings.Contains(text, `"count":3`) || !strings.Contains(templated, `"count":11`) {
		t.Errorf("tokenize: %s, %s", text, templated)
	}
	if n := value(r.scrape(), "http_requests_total"); n != 2 {
		t.Errorf("http_requests_total = %v: health, ping, version, load and metrics do not count", n)
	}
	req, err := http.NewRequest("POST", r.url+"/v1/completions", strings.NewReader(`{"prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "mine")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(raw), `"id":"cmpl-mine"`) || !strings.Contains(string(raw), `"completion_tokens":16`) || resp.Header.Get("X-Request-Id") != "mine" {
		t.Errorf("request id: %v %s", err, raw)
	}
}

// TestDisconnect checks that a client that goes away ends its request.
func TestDisconnect(t *testing.T) {
	r := start(t, Config{Speed: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/completions", strings.NewReader(`{"prompt":"x","max_tokens":8000,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	cancel()
	for value(r.scrape(), "vllm:num_requests_running") > 0 {
	}
	f := r.scrape()
	if made := value(f, "vllm:generation_tokens_total"); made == 0 || made >= 8000 {
		t.Errorf("%v of 8000 tokens were made", made)
	}
	if done := value(f, "vllm:request_success_total"); done != 0 {
		t.Errorf("an abandoned request was counted as finished")
	}
}

func TestSameRequestSameText(t *testing.T) {
	r := start(t, Config{})
	_, a := r.post("/v1/chat/completions", chat("hello", 5, ""))
	_, b := r.post("/v1/chat/completions", chat("hello", 5, ""))
	_, c := r.post("/v1/chat/completions", chat("other", 5, ""))
	words := regexp.MustCompile(` t\d+`)
	same := func(x, y string) bool {
		return fmt.Sprint(words.FindAllString(x, -1)) == fmt.Sprint(words.FindAllString(y, -1))
	}
	if !same(a, b) || same(a, c) {
		t.Error("the text of an answer must be a function of its prompt")
	}
}

func TestStreamInterval(t *testing.T) {
	r := start(t, Config{Flags: map[string]any{"stream-interval": int64(4)}})
	_, text := r.post("/v1/chat/completions", chat("a", 11, ""))
	if _, output, chunks := readUsage(text); output != 11 || chunks != 4 { // 1, 4, 4, 2
		t.Errorf("%d tokens in %d chunks\n%s", output, chunks, text)
	}
}

func TestNewServerFailure(t *testing.T) {
	for _, cfg := range []Config{
		{Profile: "nope"}, {Faults: []string{"nope"}}, {Version: "x"}, {Speed: -1},
		{Flags: map[string]any{"enforce-eager": "yes"}}, {Flags: map[string]any{"max-model-len": "long"}},
		{Flags: map[string]any{"max-num-seqs": 1.5}}, {Flags: map[string]any{"stream-interval": int64(0)}},
		{Flags: map[string]any{"gpu-memory-utilization": .1}},
		{Flags: map[string]any{"enable-chunked-prefill": false, "max-num-batched-tokens": int64(100)}},
	} {
		if _, err := NewServer(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
