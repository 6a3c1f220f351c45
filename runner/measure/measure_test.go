package measure_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/measure/measuretest"
	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
)

func TestMain(m *testing.M) {
	child.MaybeWatchdog()
	os.Exit(m.Run())
}

var series = []engine.Series{
	{Quantity: engine.QGenerationTokens, Kind: engine.Counter, Names: []string{"x:tokens_total", "x:old_tokens_total"}},
	{Quantity: engine.QRequestSuccess, Kind: engine.Counter, Names: []string{"x:success_total"}},
	{Quantity: engine.QE2E, Kind: engine.Histogram, Names: []string{"x:e2e_seconds"}},
	{Quantity: engine.QRunning, Kind: engine.Gauge, Names: []string{"x:running"}},
	{Quantity: engine.QProcessStart, Kind: engine.Gauge, Names: []string{"process_start_time_seconds"}},
}

const types = `# TYPE x:tokens_total counter
# TYPE x:success_total counter
# TYPE x:e2e_seconds histogram
# TYPE x:running gauge
# TYPE x:born_total counter
`

// now is the time of every test's window: fixed to whole milliseconds with odd digits, near the real time because the
// store has a retention.
func now() time.Time {
	return time.Now().Truncate(time.Second).Add(-time.Minute + 123*time.Millisecond)
}

func scrape(t *testing.T, at time.Time, format string, args ...any) *measure.Scrape {
	t.Helper()
	s, err := measure.ParseExposition(at, []byte(types+fmt.Sprintf(format, args...)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func window(ss ...*measure.Scrape) *measure.Scrapes {
	return &measure.Scrapes{T0: ss[0].At, T1: ss[len(ss)-1].At, All: ss}
}

func labels(trial string) []query.Label {
	return []query.Label{{Name: "run", Value: "r"}, {Name: "experiment", Value: "e"}, {Name: "config", Value: "c"}, {Name: "trial", Value: trial}}
}

func mustImport(t *testing.T, c *measure.Client, tr measure.Trial) measure.Imported {
	t.Helper()
	in, err := c.Import(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func mustQuery(t *testing.T, c *measure.Client, q string, at time.Time) float64 {
	t.Helper()
	v, err := c.Query(t.Context(), q, at)
	if err != nil {
		t.Fatal(err)
	}
	if v == nil {
		t.Fatalf("%s: no data", q)
	}
	return *v
}

// Every fact about exact windows, against the real server.
func TestRealStore(t *testing.T) {
	store := measuretest.Open(t)
	t.Logf("VictoriaMetrics answered after %v", store.Started)
	c := store.Client

	t.Run("gauges are read back and can be asked for", func(t *testing.T) {
		t0 := now()
		s := window(scrape(t, t0, "x:tokens_total 1\n"), scrape(t, t0.Add(3*time.Second), "x:tokens_total 2\n"))
		var gs []measure.Gauge
		for i, w := range []float64{100, 600, 650} {
			gs = append(gs, measure.Gauge{Name: "bench_gpu_power_watts", Labels: []measure.Label{{Name: "gpu", Value: "0"}}, At: t0.Add(time.Duration(i+1)*time.Second - 7*time.Millisecond), Value: w})
		}
		in := mustImport(t, c, measure.Trial{Labels: labels("gauges"), Scrapes: s, Gauges: gs})
		if in.Samples != 5 {
			t.Errorf("%d samples read back, want 2 of the engine and 3 gauges", in.Samples)
		}
		sel := query.Select("bench_gpu_power_watts", append(labels("gauges"), query.Label{Name: "gpu", Value: "0"}))
		if got := mustQuery(t, c, "avg_over_time("+sel+"[3s])", s.T1); got != 450 {
			t.Errorf("mean power %v, want 450", got)
		}
	})
	t.Run("increase between scrapes is exact", func(t *testing.T) {
		t0 := now()
		s := window(
			scrape(t, t0, "x:tokens_total 1000777\n"),
			scrape(t, t0.Add(877*time.Millisecond), "x:tokens_total 1000801\n"),
			scrape(t, t0.Add(1877*time.Millisecond), "x:tokens_total 1000950\n"),
			scrape(t, t0.Add(2654*time.Millisecond), "x:tokens_total 1001000\n"))
		mustImport(t, c, measure.Trial{Labels: labels("exact"), Scrapes: s})
		got, err := c.Engine(t.Context(), series, labels("exact"), s)
		if err != nil {
			t.Fatal(err)
		}
		if v := got.Increase[engine.QGenerationTokens]; v == nil || *v != 223 {
			t.Errorf("increase %v, want 223 to the unit", v)
		}
		if got.Names[engine.QGenerationTokens] != "x:tokens_total" {
			t.Errorf("found under %q", got.Names[engine.QGenerationTokens])
		}
		if v, have := got.Increase[engine.QRequestSuccess]; have {
			t.Errorf("a counter that the engine does not have is %v, want absent", *v)
		}
		if got.Restarted != nil {
			t.Error("an engine that does not say when it started has neither restarted nor not")
		}
	})

	t.Run("born inside the window", func(t *testing.T) {
		t0 := now()
		s := window(
			scrape(t, t0, "x:tokens_total 5\n"),
			scrape(t, t0.Add(time.Second), "x:tokens_total 5\nx:born_total{reason=\"a\"} 5000\n"),
			scrape(t, t0.Add(2*time.Second), "x:tokens_total 5\nx:born_total{reason=\"a\"} 5020\nx:born_total{reason=\"b\"} 40\nx:e2e_seconds_bucket{le=\"1\"} 3\nx:e2e_seconds_bucket{le=\"+Inf\"} 4\nx:e2e_seconds_sum 6\nx:e2e_seconds_count 4\nx:running 7\n"))
		in := mustImport(t, c, measure.Trial{Labels: labels("born"), Scrapes: s})
		if in.Born != 6 {
			t.Errorf("%d series were born, want 6: a gauge has no zero before it", in.Born)
		}
		q := query.Select("x:born_total", append(labels("born"), query.Label{Name: "reason", Value: "a"}))
		if v := mustQuery(t, c, "increase("+q+"[2000ms])", s.T1); v != 5020 {
			t.Errorf("increase of a counter born at 5000: %v, want 5020", v)
		}
		q = query.Select("x:born_total", append(labels("born"), query.Label{Name: "reason", Value: "b"}))
		if v := mustQuery(t, c, "increase("+q+"[2000ms])", s.T1); v != 40 {
			t.Errorf("increase of a counter seen once: %v, want 40", v)
		}
		got, err := c.Engine(t.Context(), series, labels("born"), s)
		if err != nil {
			t.Fatal(err)
		}
		if v := got.Mean[engine.QE2E]; v == nil || *v != 1.5 {
			t.Errorf("mean of a histogram born in the window: %v, want 6/4", v)
		}
		if v := got.Max[engine.QRunning]; v == nil || *v != 7 {
			t.Errorf("maximum of the gauge: %v, want 7", v)
		}
	})

	t.Run("restart is noticed", func(t *testing.T) {
		t0 := now()
		s := window(
			scrape(t, t0, "x:tokens_total 1000\nprocess_start_time_seconds 1.7e9\n"),
			scrape(t, t0.Add(time.Second), "x:tokens_total 1100\nprocess_start_time_seconds 1.8e9\n"))
		mustImport(t, c, measure.Trial{Labels: labels("restart"), Scrapes: s})
		got, err := c.Engine(t.Context(), series, labels("restart"), s)
		if err != nil {
			t.Fatal(err)
		}
		if got.Restarted == nil || !*got.Restarted {
			t.Error("a moved start time is a restart, also when the counters do not show it")
		}
	})

	t.Run("requests", func(t *testing.T) { requests(t, c) })

	t.Run("a quantile next to a failed request", func(t *testing.T) { besideFailure(t, c) })

	t.Run("what real vLLM says", func(t *testing.T) {
		for _, version := range []string{"0.25.1", "0.32.0"} {
			tr := recorded(t, version)
			in := mustImport(t, c, tr)
			if in.LeftOut != 0 || in.Born != 0 {
				t.Errorf("%s: %+v", version, in)
			}
			if v := mustQuery(t, c, query.Select("vllm:cache_config_info", tr.Labels), tr.Scrapes.T1); v != 1 {
				t.Errorf("%s: vllm:cache_config_info is %v", version, v)
			}
		}
	})

	t.Run("importing again changes nothing", func(t *testing.T) {
		t0 := now()
		s := window(scrape(t, t0, "x:tokens_total 1\n"), scrape(t, t0.Add(time.Second), "x:tokens_total 4\n"))
		tr := measure.Trial{Labels: labels("twice"), Scrapes: s}
		a, b := mustImport(t, c, tr), mustImport(t, c, tr)
		if a != b {
			t.Errorf("%+v, then %+v", a, b)
		}
		if v := mustQuery(t, c, "increase("+query.Select("x:tokens_total", labels("twice"))+"[1000ms])", s.T1); v != 3 {
			t.Errorf("increase %v, want 3", v)
		}
	})

	t.Run("a dropped import is noticed", func(t *testing.T) {
		far := time.Now().Add(10 * 24 * time.Hour).Truncate(time.Millisecond) // dropped with 204
		s := window(scrape(t, far, "x:tokens_total 1\n"), scrape(t, far.Add(time.Second), "x:tokens_total 4\n"))
		_, err := c.Import(t.Context(), measure.Trial{Labels: labels("dropped"), Scrapes: s})
		if !errors.Is(err, measure.ErrDropped) {
			t.Fatalf("got %v, want ErrDropped", err)
		}
		for _, want := range []string{"sent 2 samples, found 0", "x:tokens_total 0 instead of 2", "big_timestamp 2", "hint: compare its clock"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the message lacks %q: %v", want, err)
			}
		}
	})

	t.Run("scoping keeps trials apart", func(t *testing.T) {
		t0 := now()
		for i, trial := range []string{"one", "two"} {
			s := window(scrape(t, t0, "x:tokens_total 10\n"), scrape(t, t0.Add(time.Second), "x:tokens_total %d\n", 20+i))
			mustImport(t, c, measure.Trial{Labels: labels(trial), Scrapes: s})
		}
		for trial, want := range map[string]float64{"one": 10, "two": 11} {
			q, err := query.Scope("sum(increase(x:tokens_total[$window]))", time.Second, labels(trial))
			if err != nil {
				t.Fatal(err)
			}
			if v := mustQuery(t, c, q, t0.Add(time.Second)); v != want {
				t.Errorf("%s: %v, want %v", trial, v, want)
			}
		}
	})

	t.Run("an engine's own label named like ours", func(t *testing.T) {
		t0 := now()
		s := window(scrape(t, t0, "x:tokens_total{run=\"theirs\"} 1\n"), scrape(t, t0.Add(time.Second), "x:tokens_total{run=\"theirs\"} 3\n"))
		mustImport(t, c, measure.Trial{Labels: labels("clash"), Scrapes: s})
		if v := mustQuery(t, c, `increase(x:tokens_total{trial="clash",run="r",exported_run="theirs"}[1000ms])`, s.T1); v != 2 {
			t.Errorf("increase %v, want 2", v)
		}
	})

	t.Run("no data, many series", func(t *testing.T) {
		if v, err := c.Query(t.Context(), "nothing_of_that_name", time.Now()); v != nil || err != nil {
			t.Errorf("no data is %v, %v; want nil, nil", v, err)
		}
		if v, err := c.Query(t.Context(), "0/0", time.Now()); v != nil || err != nil {
			t.Errorf("NaN is %v, %v; want nil, nil", v, err)
		}
		if _, err := c.Query(t.Context(), `x:tokens_total{trial=~"one|two"}[5m]`, time.Now()); err == nil {
			t.Error("a range is not one value")
		}
		at := now().Add(time.Second)
		if _, err := c.Query(t.Context(), `last_over_time(x:tokens_total{trial=~"one|two"}[5m])`, at); !errors.Is(err, measure.ErrManySeries) {
			t.Errorf("got %v, want ErrManySeries", err)
		}
	})

	t.Run("OpenMetrics is read alike", func(t *testing.T) {
		t0 := now()
		body := func(n int) []byte {
			return fmt.Appendf(nil, "# TYPE x:tokens counter\n# UNIT x:tokens tokens\nx:tokens_total %d # {trace_id=\"a\"} 1 1.5\n# EOF\n", n)
		}
		a, err := measure.ParseExposition(t0, body(1))
		if err != nil {
			t.Fatal(err)
		}
		b, err := measure.ParseExposition(t0.Add(time.Second), body(9))
		if err != nil {
			t.Fatal(err)
		}
		s := window(a, b)
		mustImport(t, c, measure.Trial{Labels: labels("om"), Scrapes: s})
		got, err := c.Engine(t.Context(), series, labels("om"), s)
		if err != nil {
			t.Fatal(err)
		}
		if v := got.Increase[engine.QGenerationTokens]; v == nil || *v != 8 {
			t.Errorf("increase %v, want 8", v)
		}
	})
}

// requests compares the store's answers with values computed here from the records.
func requests(t *testing.T, c *measure.Client) {
	const n = 5000
	t0 := now()
	t1 := t0.Add(20 * time.Second)
	rng := rand.New(rand.NewPCG(1, 2))
	recs := make([]record.Record, n)
	var ttft, e2e []float64
	for i := range recs {
		end := int64(rng.Float64() * 20e6)
		e := int64(1e4 + rng.ExpFloat64()*2e5)
		f := int64(float64(e) * (0.1 + 0.5*rng.Float64()))
		recs[i] = record.Record{Index: int32(i), Scheduled: end - e, Sent: end - e, FirstByte: end - e + f, FirstToken: end - e + f, FirstContent: end - e + f,
			LastToken: end, End: end, PromptTokens: 15, OutputTokens: 8, CachedTokens: -1, Status: 200, Finish: "length"}
		if i%50 == 7 { // 2 % fail
			recs[i].Err, recs[i].OutputTokens = record.ErrTimeout, -1
			ttft, e2e = append(ttft, math.Inf(1)), append(e2e, math.Inf(1))
			continue
		}
		ttft, e2e = append(ttft, float64(f)/1e6), append(e2e, float64(e)/1e6)
	}
	s := window(scrape(t, t0, "x:tokens_total 1\n"), scrape(t, t1, "x:tokens_total 2\n"))
	mustImport(t, c, measure.Trial{Labels: labels("requests"), Scrapes: s, LoadStart: t0, Records: recs})
	f := func(q string, want float64) {
		t.Helper()
		scoped, err := query.Scope(q, t1.Sub(t0), labels("requests"))
		if err != nil {
			t.Fatal(err)
		}
		if got := mustQuery(t, c, scoped, t1); got != want && math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s = %v, want %v", q, got, want)
		}
	}
	f("count_over_time(bench_request_latency_seconds[$window])", n)
	f("share_gt_over_time(bench_request_latency_seconds[$window], 0.3)", share(e2e, 0.3))
	f("share_gt_over_time(bench_request_ttft_seconds[$window], 0.1)", share(ttft, 0.1))
	f("quantile_over_time(0.5, bench_request_ttft_seconds[$window])", quantile(ttft, 0.5))
	f("quantile_over_time(0.97, bench_request_latency_seconds[$window])", quantile(e2e, 0.97))
	// 2 % failed: the 99th percentile is a request that never met anything.
	f("quantile_over_time(0.99, bench_request_latency_seconds[$window])", math.Inf(1))
	f("1 - avg_over_time(bench_request_ok[$window])", 0.02)
	f("sum_over_time(bench_request_prompt_tokens[$window])", n*15)
	f("sum_over_time(bench_request_completion_tokens[$window])", n*8*0.98)
}

// besideFailure: a rank that is a whole number, with a failed request right of it, is the request on the left.
func besideFailure(t *testing.T, c *measure.Client) {
	t0 := now()
	t1 := t0.Add(time.Second)
	for _, x := range []struct{ n, failed int }{{101, 1}, {101, 2}, {101, 50}, {101, 51}, {3, 1}, {3, 2}, {201, 2}, {100, 1}} {
		ls := labels(fmt.Sprintf("beside-%d-%d", x.n, x.failed))
		recs := make([]record.Record, x.n)
		lat := make([]float64, x.n)
		for i := range recs {
			us := int64(i+1) * 1000
			recs[i] = record.Record{FirstToken: us, LastToken: us, End: us, PromptTokens: 1, OutputTokens: 1}
			if lat[i] = float64(us) / 1e6; i >= x.n-x.failed {
				recs[i].Err, lat[i] = record.ErrTimeout, math.Inf(1)
			}
		}
		s := window(scrape(t, t0, "x:tokens_total 1\n"), scrape(t, t1, "x:tokens_total 2\n"))
		mustImport(t, c, measure.Trial{Labels: ls, Scrapes: s, LoadStart: t0, Records: recs})
		sel := query.Select("bench_request_latency_seconds", ls) + "[1000ms]"
		for q, phi := range map[string]float64{
			"quantile_over_time(0.5, " + sel + ")": 0.5, "median_over_time(" + sel + ")": 0.5, "quantile_over_time(0.99, " + sel + ")": 0.99, "quantile_over_time(1, " + sel + ")": 1,
		} {
			want := quantile(lat, phi)
			if got := mustQuery(t, c, q, t1); got != want && math.Abs(got-want) > 1e-9*want {
				t.Errorf("%d of %d failed: %s = %v, want %v", x.failed, x.n, q, got, want)
			}
		}
	}
}

// recorded is a trial of two scrapes as a vLLM release answered them, with all the labels of a run.
func recorded(t *testing.T, version string) measure.Trial {
	t.Helper()
	body, err := os.ReadFile("testdata/metrics_" + version + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var ls []query.Label
	for _, name := range query.Pinned {
		ls = append(ls, query.Label{Name: name, Value: version})
	}
	t0 := now()
	var ss []*measure.Scrape
	for _, at := range []time.Time{t0, t0.Add(time.Second)} {
		s, err := measure.ParseExposition(at, body)
		if err != nil {
			t.Fatal(err)
		}
		ss = append(ss, s)
	}
	return measure.Trial{Labels: ls, Scrapes: window(ss...)}
}

func share(xs []float64, limit float64) float64 {
	n := 0
	for _, x := range xs {
		if math.Round(x*1e6)/1e6 > limit {
			n++
		}
	}
	return float64(n) / float64(len(xs))
}

// quantile interpolates at rank q(n-1), as MetricsQL does.
func quantile(xs []float64, q float64) float64 {
	s := append([]float64(nil), xs...)
	sort.Float64s(s)
	r := q * float64(len(s)-1)
	i := int(r)
	if i+1 >= len(s) || r == float64(i) {
		return s[i]
	}
	return s[i] + (s[i+1]-s[i])*(r-float64(i))
}

// More requests than milliseconds cannot be told apart.
func TestTooDense(t *testing.T) {
	t0 := now()
	recs := make([]record.Record, 11)
	s := window(scrape(t, t0, "a 1\n"), scrape(t, t0.Add(10*time.Millisecond), "a 2\n"))
	c, err := measure.NewClient("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Import(t.Context(), measure.Trial{Labels: labels("dense"), Scrapes: s, LoadStart: t0, Records: recs})
	if err == nil || !strings.Contains(err.Error(), "11 requests ended in a window of 10 ms") {
		t.Errorf("got %v", err)
	}
}

// serve starts a real server with settings as a user may have them.
func serve(t *testing.T, flags ...string) string {
	t.Helper()
	o := measure.OpenOptions{CacheDir: measuretest.CacheDir(t), StateDir: t.TempDir(), Progress: func(m string) { t.Log(m) }}
	s, err := measure.Open(t.Context(), o.WithFlags(flags...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.URL()
}

// A user's own server is taken when it can hold exact windows, and refused with the setting to change when it cannot.
func TestProbe(t *testing.T) {
	f := func(name, want string, flags ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := measure.Open(t.Context(), measure.OpenOptions{URL: serve(t, flags...)})
			switch {
			case want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--vm-url")):
				t.Errorf("got %v, want %q in it", err, want)
			}
			if err == nil {
				s.Close(context.Background())
			}
		})
	}
	f("ours", "")
	f("defaults", "", "-search.latencyOffset=30s", "-search.disableCache=false", "-dedup.minScrapeInterval=0s", "-retentionPeriod=1M", "-maxLabelsPerTimeseries=40")
	f("dedup 1s", "hint: start it with -dedup.minScrapeInterval=1ms", "-dedup.minScrapeInterval=1s")
	f("dedup 10ms", "hint: start it with -dedup.minScrapeInterval=1ms", "-dedup.minScrapeInterval=10ms")
	f("no backfill", "hint: start it with a longer -maxBackfillAge", "-maxBackfillAge=1h")
	f("few labels", "hint: start it with -maxLabelsPerTimeseries=200", "-maxLabelsPerTimeseries=15")
	f("flush closed", "its /internal/force_flush must be open", "-forceFlushAuthKey=secret")
}

func TestProbeUnreachable(t *testing.T) {
	if _, err := measure.Open(t.Context(), measure.OpenOptions{URL: "http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "--vm-url") {
		t.Errorf("a server that is not there: %v", err)
	}
}

// A server with ordinary settings does not take the widest series of vLLM 0.32; a run on it goes on without.
func TestFewLabels(t *testing.T) {
	said := ""
	store, err := measure.Open(t.Context(), measure.OpenOptions{URL: serve(t, "-maxLabelsPerTimeseries=40"), Progress: func(m string) { said = m }})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, "at most 40 labels") {
		t.Errorf("nobody was told: %q", said)
	}
	for version, want := range map[string]int{"0.25.1": 0, "0.32.0": 2} {
		if in := mustImport(t, store.Client, recorded(t, version)); in.LeftOut != want {
			t.Errorf("%s: %d samples were left out, want %d", version, in.LeftOut, want)
		}
	}
}

// Whoever did not ask about labels is told which series was dropped, and why.
func TestDroppedForLabels(t *testing.T) {
	c, err := measure.NewClient(serve(t, "-maxLabelsPerTimeseries=40"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Import(t.Context(), recorded(t, "0.32.0"))
	if !errors.Is(err, measure.ErrDropped) {
		t.Fatalf("got %v, want ErrDropped", err)
	}
	for _, want := range []string{"vllm:cache_config_info 0 instead of 2", "too_many_labels 2", "-maxLabelsPerTimeseries=200"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q: %v", want, err)
		}
	}
}

// BenchmarkImport is a trial of 100,000 requests in 333 s with a scrape every second.
func BenchmarkImport(b *testing.B) {
	store := measuretest.Open(b)
	body, err := os.ReadFile("testdata/metrics_0.25.1.txt")
	if err != nil {
		b.Fatal(err)
	}
	t0 := now().Add(-400 * time.Second)
	var ss []*measure.Scrape
	for i := range 334 {
		s, err := measure.ParseExposition(t0.Add(time.Duration(i)*time.Second), body)
		if err != nil {
			b.Fatal(err)
		}
		ss = append(ss, s)
	}
	recs := make([]record.Record, 100_000)
	for i := range recs {
		at := int64(i) * 3330
		recs[i] = record.Record{Scheduled: at, FirstToken: at + 123_457 + int64(i*7919%1000), LastToken: at + 523_457, End: at + 523_999, OutputTokens: 12, PromptTokens: 17}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Client.Import(b.Context(), measure.Trial{Labels: labels("many"), Scrapes: window(ss...), LoadStart: t0, Records: recs}); err != nil {
			b.Fatal(err)
		}
	}
}
