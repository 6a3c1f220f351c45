package enginetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/vllm"
)

// watch collects what a check reports.
type watch struct{ errors []string }

func (*watch) Helper() {}

func (w *watch) Errorf(format string, args ...any) {
	w.errors = append(w.errors, fmt.Sprintf(format, args...))
}

// reports fails unless exactly the wanted complaints came; "" = none.
func (w *watch) reports(t *testing.T, name, want string) {
	t.Helper()
	got := strings.Join(w.errors, "; ")
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: the suite reports %q, want %q", name, got, want)
	}
}

const (
	role  = `data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	token = `data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	last  = `data: {"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]}` + "\n\n"
	use   = `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

func TestStreamComplete(t *testing.T) {
	for _, x := range []struct{ name, in, want string }{
		{"good", role + token + last + use + done, ""},
		{"good, without spaces, with comments", ": keep-alive\n" + strings.ReplaceAll(role+last+use+done, "data: ", "data:"), ""},
		{"usage in every event", strings.ReplaceAll(last, `}]}`, `}],"usage":{"completion_tokens":1}}`) + use + done, ""},
		{"no end", token + last + use, "[DONE]"},
		{"an event after the end", last + use + done + token, "[DONE]"},
		{"no usage", token + last + done, "usage"},
		{"no finish", token + use + done, "finish_reason"},
		{"no tokens", role + strings.Replace(last, `"b"`, `""`, 1) + use + done, "carried tokens"},
		{"more events than tokens", token + token + last + use + done, "carried tokens"},
		{"usage in the middle", use + last + done, "after the usage"},
		{"usage that does not add up", last + strings.Replace(use, "7", "8", 1) + done, "add up"},
		{"an error", token + `data: {"error":{"message":"dead"}}` + "\n\n" + done, "dead"},
		{"not JSON", "data: {\n\n" + last + use + done, "not JSON"},
	} {
		var w watch
		s := readStream(strings.NewReader(x.in))
		s.complete(&w)
		w.reports(t, x.name, x.want)
	}
}

func TestStreamFailed(t *testing.T) {
	for _, x := range []struct{ name, in, want string }{
		{"died", token + `data: {"error": {"message": "dead"}}` + "\n\n" + done, ""},
		{"no error", token + done, "no error"},
		{"an error after a good end", last + use + `data: {"error": {"message": "dead"}}` + "\n\n" + done, "finish_reason"},
	} {
		var w watch
		s := readStream(strings.NewReader(x.in))
		s.failed(&w)
		w.reports(t, x.name, x.want)
	}
}

func TestSeries(t *testing.T) {
	good := vllm.Engine{}.Series
	for _, x := range []struct {
		name   string
		change func([]engine.Series) []engine.Series
		want   string
	}{
		{"good", func(s []engine.Series) []engine.Series { return s }, ""},
		{"one is missing", func(s []engine.Series) []engine.Series { return s[1:] }, "is not mapped"},
		{"one comes twice", func(s []engine.Series) []engine.Series { return append(s, s[0]) }, "mapped twice"},
		{"one has no name", func(s []engine.Series) []engine.Series { s[0].Names = nil; return s }, "has no name"},
		{"two share a name", func(s []engine.Series) []engine.Series { s[0].Names = s[1].Names; return s }, "is a name of both"},
		{"a histogram's part", func(s []engine.Series) []engine.Series {
			s[slices.IndexFunc(s, func(x engine.Series) bool { return x.Kind == engine.Histogram })].Names = []string{"x_sum"}
			return s
		}, "want the base name"},
	} {
		var w watch
		series(&w, x.change(good()))
		w.reports(t, x.name, x.want)
	}
}

func TestKinds(t *testing.T) {
	body, err := os.ReadFile("../vllm/testdata/0.25.1/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	const text = "text/plain; version=1.0.0"
	for _, x := range []struct{ name, old, new, want string }{
		{"good", "", "", ""},
		{"a series is gone", "vllm:prompt_tokens_total", "vllm:prompt_tokens_other", "prompt_tokens: no series"},
		{"another type", "# TYPE vllm:num_requests_running gauge", "# TYPE vllm:num_requests_running counter", "requests_running: vllm:num_requests_running is a COUNTER"},
		{"a label is gone", "block_size=", "block_length=", "no label block_size"},
	} {
		var w watch
		parseMetrics(t, []byte(strings.ReplaceAll(string(body), x.old, x.new)), text).kinds(&w, vllm.Engine{})
		w.reports(t, x.name, x.want)
	}
}

func TestEffectiveAndLog(t *testing.T) {
	info, err := os.ReadFile("../vllm/testdata/0.25.1/server_info.json")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../vllm/testdata/0.25.1/optimized_cold.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ name, old, new, want string }{
		{"good", "\x00", "", ""},
		{"a flag is not reported", `"enforce_eager"`, `"eager"`, "enforce-eager = <nil>"},
		{"a flag has another type", `"enable_prefix_caching":true`, `"enable_prefix_caching":"on"`, "enable-prefix-caching = on (string)"},
		{"another version", "v0.25.1", "v0.25.2", `"0.25.2"`},
		{"no ready line", "Application startup complete.", "Application started.", "tells no ready"},
		{"no time for init", "took 213.28 s", "took 0 s", "init took 0 s"},
	} {
		var w watch
		got, err := vllm.Engine{}.Effective([]byte(strings.ReplaceAll(string(info), x.old, x.new)))
		if err != nil {
			t.Fatal(err)
		}
		effective(&w, got)
		logFacts(&w, vllm.Engine{}, []byte(strings.ReplaceAll(string(log), x.old, x.new)), "0.25.1")
		w.reports(t, x.name, x.want)
	}
}
