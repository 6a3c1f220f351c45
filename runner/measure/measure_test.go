package measure_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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
		if !strings.Contains(err.Error(), "sent 2 samples, found 0") {
			t.Errorf("the message does not say how many: %v", err)
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

// A user's own server is refused when it cannot hold exact windows.
func TestProbe(t *testing.T) {
	store := measuretest.Open(t)
	_ = store
	open := func(url string) error {
		s, err := measure.Open(t.Context(), measure.OpenOptions{URL: url})
		if err == nil {
			s.Close(context.Background())
		}
		return err
	}
	if err := open(store.URL()); err != nil {
		t.Errorf("our own server is refused: %v", err)
	}
	if err := open("http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "--vm-url") {
		t.Errorf("a server that is not there: %v", err)
	}
	// A server that merges the two samples of a second, as -dedup.minScrapeInterval=1s does: the proxy drops one.
	target, err := url.Parse(store.URL())
	if err != nil {
		t.Fatal(err)
	}
	lossy := httptest.NewServer(dropSecondLine{httputil.NewSingleHostReverseProxy(target)})
	defer lossy.Close()
	if err := open(lossy.URL); err == nil || !strings.Contains(err.Error(), "dedup") {
		t.Errorf("a server that drops samples: %v", err)
	}
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "force_flush") {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer closed.Close()
	if err := open(closed.URL); err == nil || !strings.Contains(err.Error(), "force_flush") {
		t.Errorf("a server without flush: %v", err)
	}
}

type dropSecondLine struct{ next http.Handler }

func (d dropSecondLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "import") {
		var lines []string
		buf := make([]byte, 1<<16)
		n, _ := r.Body.Read(buf)
		lines = strings.Split(string(buf[:n]), "\n")
		body := strings.Join(append(lines[:1], lines[2:]...), "\n")
		r2, err := http.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), strings.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		r = r2
	}
	d.next.ServeHTTP(w, r)
}
