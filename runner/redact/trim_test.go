package redact_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"h100-inference-control-plane/runner/redact"
)

// TestTrimLogGolden shows what is left of recorded logs in a third of their size.
func TestTrimLogGolden(t *testing.T) {
	for _, name := range []string{"server_crash_0.25.1", "server_graphs_0.25.1"} {
		raw, err := os.ReadFile("testdata/" + name + ".log")
		if err != nil {
			t.Fatal(err)
		}
		out := redact.TrimLog(raw, len(raw)/3)
		golden(t, name+".trimmed.golden", out)
		if again := redact.TrimLog(raw, len(raw)/3); !bytes.Equal(again, out) {
			t.Errorf("%s: two calls, two results", name)
		}
	}
}

// TestTrimLogKeeps says which lines must be there however little room there is left.
func TestTrimLogKeeps(t *testing.T) {
	crash, err := os.ReadFile("testdata/server_crash_0.25.1.log")
	if err != nil {
		t.Fatal(err)
	}
	graphs, err := os.ReadFile("testdata/server_graphs_0.25.1.log")
	if err != nil {
		t.Fatal(err)
	}
	f := func(log []byte, max int, wants ...string) {
		t.Helper()
		out := string(redact.TrimLog(log, max))
		for _, w := range wants {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not among the %d bytes:\n%s", w, max, out)
			}
		}
	}
	f(crash, 1500, "WorkerProc hit an exception", "lines left out]")
	f(crash, 9000, "non-default args", "Resolved architecture", "GPU KV cache size", "init engine", "RuntimeError: CPU Generator does not use offset", "MPClient: complete")
	f(graphs, 5000, "Kernel JIT monitor activated", "JIT compilation during inference: _topk_topp_kernel", "Graph capturing finished in 37 secs", "updates]")
}

func TestTrimLogSmall(t *testing.T) {
	f := func(in string, max int, want string) {
		t.Helper()
		if got := string(redact.TrimLog([]byte(in), max)); got != want {
			t.Errorf("TrimLog(%q, %d)\n got %q\nwant %q", in, max, got, want)
		}
	}
	f("", 100, "")
	f("one\ntwo\n", 100, "one\ntwo\n")
	f("no newline", 100, "no newline\n")
	f("one\n", 0, "")
	f("one\n", -1, "")
	f("a\r\nb\r\n", 100, "a\nb\n")
	f("\x1b[32mgreen\x1b[0m\x00\x07\ttab\n", 100, "green tab\n")
	f("bad \xff utf\n", 100, "bad \uFFFD utf\n")
	f("load:   0%|   | 0/3\rload:  33%|#  | 1/3\rload: 100%|###| 3/3\ndone\n", 100, "load: 100%|###| 3/3 [+2 updates]\ndone\n")
	f("a:  50%|# | 1/2\nb:  50%|# | 1/2\na: 100%|##| 2/2\n", 200, "a:  50%|# | 1/2\nb:  50%|# | 1/2\na: 100%|##| 2/2\n")
	f("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 30, "[... 1 line left out]\n")
	f("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 5, "[... ")
}

// TestTrimLogCounts: what is shown and what is said to be left out is the whole log.
func TestTrimLogCounts(t *testing.T) {
	var log strings.Builder
	const lines = 4000
	for i := range lines {
		fmt.Fprintf(&log, "INFO line %d says something\n", i)
	}
	for max := 200; max < 40000; max += 1777 {
		out := string(redact.TrimLog([]byte(log.String()), max))
		if len(out) > max {
			t.Fatalf("%d bytes, at most %d were asked for", len(out), max)
		}
		shown, left := 0, 0
		for line := range strings.Lines(out) {
			var n int
			if _, err := fmt.Sscanf(line, "[... %d line", &n); err == nil {
				left += n
			} else {
				shown++
			}
		}
		if shown+left != lines {
			t.Fatalf("max %d: %d lines shown and %d left out of %d", max, shown, left, lines)
		}
		if max > 2000 && len(out) < max/2 {
			t.Fatalf("max %d: only %d bytes were used", max, len(out))
		}
	}
}

func FuzzTrimLog(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), 10)
	f.Add([]byte("load:   0%|   | 0/3\rload: 100%|###| 3/3\nERROR x\n\x1b[31m"), 40)
	f.Add(bytes.Repeat([]byte("(Worker pid=1) ERROR 12-01 [x.py:1]   File \"a\"\n"), 50), 300)
	f.Add(bytes.Repeat([]byte("é"), 2000), 1601)
	f.Fuzz(func(t *testing.T, log []byte, max int) {
		out := redact.TrimLog(log, max)
		if len(out) > 0 && len(out) > max {
			t.Fatalf("%d bytes, at most %d were asked for", len(out), max)
		}
		if !utf8.Valid(out) {
			t.Fatalf("not UTF-8: %q", out)
		}
		if bytes.ContainsAny(out, "\x1b\x00\r") {
			t.Fatalf("control characters: %q", out)
		}
	})
}
