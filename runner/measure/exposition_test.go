package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/query"
)

func TestExpositionSuccess(t *testing.T) {
	f := func(text, name string, value float64, labels int) {
		t.Helper()
		s, err := ParseExposition(time.Now(), []byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if len(s.Samples) != 1 {
			t.Fatalf("%q: %d samples", text, len(s.Samples))
		}
		x := s.Samples[0]
		if x.Name != name || x.Value != value || len(x.Labels) != labels {
			t.Errorf("%q: %+v", text, x)
		}
	}
	f("a 1\n", "a", 1, 0)
	f("a{} 1", "a", 1, 0)
	f(`a:b{x="1",y="}\"\\ \n,"} 1.5e3 1700000000000`, "a:b", 1500, 2)
	f(`a{x="1",} 2 # {trace="z"} 1 1.5`, "a", 2, 1)
	f("\r\n# HELP a b\n# TYPE a counter\na 3\r\n# EOF\n", "a", 3, 0)
}

func TestExpositionFailure(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := ParseExposition(time.Now(), []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	f("a 1\nb", "line 2: no value")
	f("a x", `"x" is not a number`)
	f(`a{x="1" 2`, "no = after")
	f(`a{x="1`, "no closing quote")
	f(`a{x=1} 2`, "no quote")
	f("<html>", "no value")
	f("1a 2", "not a metric name")
	f("a 1 soon", "time stamp")
}

// What two vLLM releases really answer.
func TestRecordedExpositions(t *testing.T) {
	files, err := filepath.Glob("testdata/metrics_*.txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("recorded answers: %v, %v", files, err)
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseExposition(time.Now(), body)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if want := samplesIn(string(body)); len(s.Samples) != want {
			t.Errorf("%s: %d samples, want %d", f, len(s.Samples), want)
		}
		if !s.Has("vllm:time_to_first_token_seconds", engine.Histogram) || s.Kinds["vllm:num_requests_running"] != engine.Gauge {
			t.Errorf("%s: the well-known families are missing", f)
		}
		for name, grows := range map[string]bool{"vllm:prompt_tokens_total": true, "vllm:e2e_request_latency_seconds_bucket": true,
			"vllm:num_requests_running": false, "vllm:cache_config_info": false, "process_start_time_seconds": false} {
			if s.grows(name) != grows {
				t.Errorf("%s: grows(%s) = %v", f, name, !grows)
			}
		}
	}
}

func samplesIn(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && line[0] != '#' {
			n++
		}
	}
	return n
}

// The constant must be what the tools module pins, or CI and users run two servers.
func TestVersionIsPinned(t *testing.T) {
	mod, err := os.ReadFile("../../tools/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/VictoriaMetrics/VictoriaMetrics "+Version+" ") {
		t.Errorf("tools/go.mod does not pin VictoriaMetrics %s", Version)
	}
}

func FuzzExposition(f *testing.F) {
	for _, name := range []string{"testdata/metrics_0.25.1.txt", "testdata/metrics_0.32.0.txt"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`a:b{x="1",y="}\"\\ \n,"} 1.5e3 1700000000000` + "\n# TYPE a counter\n# EOF"))
	f.Add([]byte(`a{x="1",} NaN # {trace="z"} 1 1.5`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := ParseExposition(time.Unix(1, 0), body)
		if err != nil {
			return
		}
		for _, x := range s.Samples {
			if !validName(x.Name) {
				t.Fatalf("accepted the name %q", x.Name)
			}
			for _, l := range x.Labels {
				if !validName(l.Name) {
					t.Fatalf("accepted the label %q", l.Name)
				}
			}
		}
		// What is written for the store must be readable again, sample for sample.
		if i := roundTrip(s); i >= 0 {
			t.Fatalf("sample %d changed on its way", i)
		}
	})
}

// roundTrip writes each sample as an import does, reads it back, and returns the first that is another then, or -1.
func roundTrip(s *Scrape) int {
	for i, want := range s.Samples {
		im := newImporter([]query.Label{{Name: "run", Value: "r"}}, 0, nil)
		im.line(im.series(want), want.Value, 1)
		got, err := ParseExposition(s.At, im.buf.Bytes())
		if err != nil || len(got.Samples) != 1 {
			return i
		}
		g := got.Samples[0]
		if g.Name != want.Name || g.Value != want.Value && want.Value == want.Value {
			return i
		}
	}
	return -1
}
