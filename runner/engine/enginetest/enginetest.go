// Package enginetest is the conformance suite of engine.Engine. Pure checks what needs no server, Recorded checks an
// engine against answers recorded from a real server, and Live against a server that runs. It starts no server and
// measures no performance.
package enginetest

import (
	"bytes"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"h100-inference-control-plane/runner/engine"
)

// quantities are those that a run depends on; Series must map each.
var quantities = []engine.Quantity{
	engine.QPromptTokens, engine.QPromptTokensCached, engine.QGenerationTokens, engine.QRequestSuccess,
	engine.QPrefixQueries, engine.QPrefixHits, engine.QPreemptions, engine.QRunning, engine.QWaiting, engine.QKVUsage,
	engine.QTTFT, engine.QITL, engine.QTPOT, engine.QE2E, engine.QQueueTime, engine.QPrefillTime, engine.QDecodeTime,
	engine.QCacheConfig, engine.QProcessStart,
}

// reporter is the part of testing.T that a check needs; the suite's own tests watch checks fail through it.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Pure checks everything that an engine says without a server: its name, its series, its commands (started as binary,
// at the given release) and that its parsers bear nonsense.
func Pure(t *testing.T, e engine.Engine, binary []string, version string) {
	t.Run("name", func(t *testing.T) {
		if e.Name() == "" || strings.ToLower(e.Name()) != e.Name() || strings.ContainsAny(e.Name(), " \t") {
			t.Errorf("Name() = %q, want one lower-case word", e.Name())
		}
	})
	t.Run("endpoints", func(t *testing.T) { endpoints(t, e.Endpoints()) })
	t.Run("series", func(t *testing.T) { series(t, e.Series()) })
	t.Run("command", func(t *testing.T) { command(t, e, binary, version) })
	t.Run("nonsense", func(t *testing.T) { nonsense(t, e) })
}

func endpoints(t reporter, ends engine.Endpoints) {
	for name, p := range map[string]string{
		"Health": ends.Health, "Version": ends.Version, "Models": ends.Models, "Metrics": ends.Metrics, "ServerInfo": ends.ServerInfo,
		"ResetPrefixCache": ends.ResetPrefixCache, "Chat": ends.Chat, "Completions": ends.Completions, "Tokenize": ends.Tokenize,
	} {
		if p != "" && !strings.HasPrefix(p, "/") {
			t.Errorf("%s is %q, want a path with its leading slash", name, p)
		}
	}
	if ends.Health == "" || ends.Models == "" || ends.Metrics == "" || ends.Completions == "" || ends.Chat == "" {
		t.Errorf("an endpoint that every run needs is missing: %+v", ends)
	}
}

func series(t reporter, all []engine.Series) {
	seen := map[engine.Quantity]bool{}
	names := map[string]engine.Quantity{}
	for _, s := range all {
		if seen[s.Quantity] {
			t.Errorf("%s is mapped twice", s.Quantity)
		}
		seen[s.Quantity] = true
		if len(s.Names) == 0 {
			t.Errorf("%s has no name", s.Quantity)
		}
		for _, n := range s.Names {
			if other, taken := names[n]; taken {
				t.Errorf("%s is a name of both %s and %s", n, other, s.Quantity)
			}
			names[n] = s.Quantity
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if s.Kind == engine.Histogram && strings.HasSuffix(n, suffix) {
					t.Errorf("%s: histogram %s ends with %s, want the base name", s.Quantity, n, suffix)
				}
			}
		}
	}
	for _, q := range quantities {
		if !seen[q] {
			t.Errorf("%s is not mapped", q)
		}
	}
}

func command(t *testing.T, e engine.Engine, binary []string, version string) {
	const secret = "s3cr3t-value"
	l := engine.Launch{
		Binary: binary, Model: engine.Model{Name: "org/model", Path: "/models/m"}, Version: version, Host: "127.0.0.1", Port: 8123,
		Flags: []engine.Flag{
			{Name: "enable-prefix-caching", Value: false}, {Name: "enforce-eager", Value: true},
			{Name: "gpu-memory-utilization", Value: 0.85}, {Name: "max-model-len", Value: int64(4096)},
		},
		Env: map[string]string{"HF_TOKEN": secret, "DO_NOT_TRACK": "0"},
	}
	cmd, err := e.Command(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(cmd.Argv) < len(binary) || strings.Join(cmd.Argv[:len(binary)], "\x00") != strings.Join(binary, "\x00") {
		t.Errorf("Argv = %q does not begin with the binary %q", cmd.Argv, binary)
	}
	for _, want := range []string{"--no-enable-prefix-caching", "--enforce-eager"} {
		if !has(cmd.Argv, want) {
			t.Errorf("Argv = %q lacks %s: booleans are explicit both ways", cmd.Argv, want)
		}
	}
	for _, want := range []string{"8123", "127.0.0.1", "org/model", "/models/m", "0.85", "4096"} {
		if !strings.Contains(strings.Join(cmd.Argv, " "), want) {
			t.Errorf("Argv = %q lacks %s", cmd.Argv, want)
		}
	}
	if strings.Contains(strings.Join(cmd.Argv, " "), secret) {
		t.Errorf("Argv = %q has the value of an environment variable", cmd.Argv)
	}
	if cmd.Env["HF_TOKEN"] != secret || cmd.Env["DO_NOT_TRACK"] != "0" {
		t.Errorf("Env = %v: the launch's own variables must be in it, and win", cmd.Env)
	}
	again, err := e.Command(l)
	if err != nil || strings.Join(again.Argv, "\x00") != strings.Join(cmd.Argv, "\x00") {
		t.Errorf("the same launch gave %q, then %q (%v)", cmd.Argv, again.Argv, err)
	}
	l.Flags = []engine.Flag{{Name: "no-such-flag-anywhere", Value: true}}
	if cmd, err := e.Command(l); err == nil || !strings.Contains(err.Error(), "no-such-flag-anywhere") {
		t.Errorf("an unknown flag gave %q, %v; want an error that names it", cmd.Argv, err)
	}
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func nonsense(t *testing.T, e engine.Engine) {
	for _, s := range []string{"", " ", "\x00\xff", "{", "[]", "null", "()", "(x pid=", "INFO", strings.Repeat("a", 1<<16)} {
		if v, err := e.ParseVersion([]byte(s)); err == nil {
			t.Errorf("ParseVersion(%.20q) = %q without an error", s, v)
		}
		if f, ok := e.LogLine(s); ok {
			t.Errorf("LogLine(%.20q) = %+v, true", s, f)
		}
		if r := e.FailureReason([]byte(s)); r != "" {
			t.Errorf("FailureReason(%.20q) = %q", s, r)
		}
	}
	if m, err := e.Effective([]byte("{")); err == nil {
		t.Errorf("Effective of broken JSON = %v without an error", m)
	}
}

// Recorded checks the engine against what a server of a known release said. fsys holds version.json, models.json,
// metrics.txt and server_info.json, streams (*.sse; those named *died.sse hold a failure) and logs (*.log; each of a
// server that came up). The logs' facts must name the release of version.json.
func Recorded(t *testing.T, e engine.Engine, fsys fs.FS) {
	version, err := e.ParseVersion(read(t, fsys, "version.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("metrics", func(t *testing.T) {
		f := parseMetrics(t, read(t, fsys, "metrics.txt"), "text/plain; version=0.0.4; charset=utf-8")
		f.kinds(t, e)
	})
	t.Run("server_info", func(t *testing.T) {
		got, err := e.Effective(read(t, fsys, "server_info.json"))
		if err != nil {
			t.Fatal(err)
		}
		effective(t, got)
	})
	for _, name := range glob(t, fsys, "*.sse") {
		t.Run(name, func(t *testing.T) {
			got := readStream(bytes.NewReader(read(t, fsys, name)))
			if strings.HasSuffix(name, "died.sse") {
				got.failed(t)
			} else {
				got.complete(t)
			}
		})
	}
	for _, name := range glob(t, fsys, "*.log") {
		t.Run(name, func(t *testing.T) { logFacts(t, e, read(t, fsys, name), version) })
	}
}

func read(t *testing.T, fsys fs.FS, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func glob(t *testing.T, fsys fs.FS, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(fsys, pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no file %s is recorded (%v)", path.Clean(pattern), err)
	}
	return names
}

// mustReport are flags whose effective value every engine tells, with the type of the value.
var mustReport = map[string]string{
	"enable-prefix-caching": "bool", "enable-chunked-prefill": "bool", "enforce-eager": "bool", "gpu-memory-utilization": "float64",
	"max-model-len": "float64", "max-num-seqs": "float64", "max-num-batched-tokens": "float64", "block-size": "float64",
	"kv-cache-dtype": "string", "dtype": "string", "tensor-parallel-size": "float64",
}

func effective(t reporter, got map[string]any) {
	t.Helper()
	for flag, kind := range mustReport {
		if k := fmt.Sprintf("%T", got[flag]); k != kind {
			t.Errorf("%s = %v (%s), want a %s", flag, got[flag], k, kind)
		}
	}
	for flag, v := range got {
		switch v.(type) {
		case nil, bool, float64, string:
		default:
			t.Errorf("%s has a value of type %T", flag, v)
		}
		if flag != strings.ToLower(flag) || strings.HasPrefix(flag, "-") {
			t.Errorf("%q is not a flag's name", flag)
		}
	}
}

// logFacts checks the log of a server that came up.
func logFacts(t reporter, e engine.Engine, log []byte, version string) {
	t.Helper()
	facts := map[engine.FactKind]engine.LogFact{}
	for line := range strings.SplitSeq(string(log), "\n") {
		if f, ok := e.LogLine(line); ok {
			facts[f.Kind] = f
		}
	}
	for _, k := range []engine.FactKind{engine.FactVersion, engine.FactInit, engine.FactKVTokens, engine.FactReady} {
		if _, ok := facts[k]; !ok {
			t.Errorf("the log tells no %s", k)
		}
	}
	if v := facts[engine.FactVersion].Text; v != version {
		t.Errorf("the log says version %q, the server %q", v, version)
	}
	if facts[engine.FactInit].Value <= 0 || facts[engine.FactKVTokens].Value <= 0 {
		t.Errorf("init took %v s, the KV cache has %v tokens", facts[engine.FactInit].Value, facts[engine.FactKVTokens].Value)
	}
}

// families is one scrape.
type families map[string]*dto.MetricFamily

func parseMetrics(t *testing.T, body []byte, contentType string) families {
	t.Helper()
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "text/plain" {
		t.Fatalf("metrics are %q, which this suite cannot read (%v)", contentType, err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	f, err := p.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("metrics: %v", err)
	}
	return f
}

// find returns the family that goes by one of the names of q, newest first.
func (f families) find(e engine.Engine, q engine.Quantity) (*dto.MetricFamily, engine.Kind, bool) {
	for _, s := range e.Series() {
		if s.Quantity != q {
			continue
		}
		for _, n := range s.Names {
			if m, ok := f[n]; ok {
				return m, s.Kind, true
			}
		}
	}
	return nil, "", false
}

// kinds checks that every quantity is there and is of the kind that the engine says.
func (f families) kinds(t reporter, e engine.Engine) {
	t.Helper()
	types := map[engine.Kind]dto.MetricType{
		engine.Counter: dto.MetricType_COUNTER, engine.Gauge: dto.MetricType_GAUGE, engine.Histogram: dto.MetricType_HISTOGRAM, engine.Info: dto.MetricType_GAUGE,
	}
	for _, q := range quantities {
		m, kind, ok := f.find(e, q)
		switch {
		case !ok:
			t.Errorf("%s: no series goes by any of its names", q)
		case m.GetType() != types[kind]:
			t.Errorf("%s: %s is a %v, the engine says %s", q, m.GetName(), m.GetType(), kind)
		}
	}
	if m, _, ok := f.find(e, engine.QCacheConfig); ok && label(m.GetMetric()[0], "block_size") == "" {
		t.Errorf("%s has no label block_size", m.GetName())
	}
	if m, _, ok := f.find(e, engine.QRequestSuccess); ok && label(m.GetMetric()[0], "finished_reason") == "" {
		t.Errorf("%s has no label finished_reason", m.GetName())
	}
}

// value sums a counter or gauge over its labels; of a histogram it is the number of observations.
func (f families) value(t *testing.T, e engine.Engine, q engine.Quantity) float64 {
	t.Helper()
	m, _, ok := f.find(e, q)
	if !ok {
		t.Fatalf("%s: no series goes by any of its names", q)
	}
	sum := 0.0
	for _, x := range m.GetMetric() {
		switch {
		case x.Counter != nil:
			sum += x.Counter.GetValue()
		case x.Gauge != nil:
			sum += x.Gauge.GetValue()
		case x.Histogram != nil:
			sum += float64(x.Histogram.GetSampleCount())
		}
	}
	return sum
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
