package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
)

func TestRequestValues(t *testing.T) {
	f := func(r record.Record, want string) {
		t.Helper()
		var got []string
		eachValue(&r, func(series string, v float64) {
			got = append(got, fmt.Sprintf("%s=%v", strings.TrimPrefix(series, "bench_request_"), v))
		})
		if s := strings.Join(got, " "); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
	}
	r := record.Record{Scheduled: 1000, FirstToken: 251_000, LastToken: 1_251_000, End: 1_301_000, PromptTokens: 15, OutputTokens: 4}
	f(r, "ttft_seconds=0.25 tpot_seconds=0.333333 latency_seconds=1.3 ok=1 prompt_tokens=15 completion_tokens=4")
	one := r
	one.OutputTokens = 1
	f(one, "ttft_seconds=0.25 latency_seconds=1.3 ok=1 prompt_tokens=15 completion_tokens=1")
	failed := r
	failed.Err, failed.OutputTokens, failed.PromptTokens = record.ErrNoDone, -1, -1
	f(failed, "ttft_seconds=+Inf tpot_seconds=+Inf latency_seconds=+Inf ok=0")
	never := record.Record{Scheduled: 5, Sent: record.Never, FirstToken: record.Never, LastToken: record.Never, End: record.Never, PromptTokens: -1, OutputTokens: -1, Err: record.ErrConnect}
	f(never, "ttft_seconds=+Inf tpot_seconds=+Inf latency_seconds=+Inf ok=0")
}

// Stamps are distinct, inside (t0, t1], in the order of the ends, and moved by no more than they must be.
func TestRequestStamps(t *testing.T) {
	t0 := time.UnixMilli(1_700_000_000_123)
	f := func(ms int64, ends []int64, want string) {
		t.Helper()
		recs := make([]record.Record, len(ends))
		for i, e := range ends {
			recs[i].End = e
		}
		_, stamp, err := requestStamps(recs, t0, t0, t0.Add(time.Duration(ms)*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		for i := range stamp {
			stamp[i] -= t0.UnixMilli()
		}
		if got := fmt.Sprint(stamp); got != want {
			t.Errorf("ends %v in %d ms: %s, want %s", ends, ms, got, want)
		}
	}
	f(100, []int64{5000, 9000, 7000}, "[5 9 7]")
	f(100, []int64{0, 100, 5000}, "[1 2 5]")             // t0 itself is outside
	f(100, []int64{5100, 5200, 5300, 6000}, "[5 6 7 8]") // to the right
	f(10, []int64{9900, 9950, 10500}, "[8 9 10]")        // and back from the end
	f(3, []int64{1000, 1000, 1000}, "[1 2 3]")           // as many as there is room for
	f(10, []int64{record.Never, 4000}, "[1 4]")
	f(10, nil, "[]")
}

// An import of any size is sent in pieces that end with a line.
func TestImportInPieces(t *testing.T) {
	var posts, lines int
	largest := 0
	im := newImporter([]query.Label{{Name: "run", Value: "r"}}, 0, func(b []byte) error {
		posts++
		largest = max(largest, len(b))
		lines += strings.Count(string(b), "\n")
		if b[len(b)-1] != '\n' {
			t.Error("a piece ends inside a line")
		}
		return nil
	})
	recs := make([]record.Record, 20_000)
	t0 := time.UnixMilli(1_700_000_000_000)
	order, stamp, err := requestStamps(recs, t0, t0, t0.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	im.requests(recs, order, stamp)
	im.send()
	if want := 5 * len(recs); lines != want || im.total() != int64(want) { // of no output token there is no TPOT
		t.Errorf("%d lines, %d counted, want %d", lines, im.total(), want)
	}
	if posts < 3 || largest > chunk+1000 {
		t.Errorf("%d pieces of up to %d bytes", posts, largest)
	}
}

func TestImportStopsAtAnError(t *testing.T) {
	posts := 0
	broken := errors.New("connection reset")
	im := newImporter(nil, 0, func([]byte) error { posts++; return broken })
	recs := make([]record.Record, 20_000)
	t0 := time.UnixMilli(1_700_000_000_000)
	order, stamp, err := requestStamps(recs, t0, t0, t0.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	im.requests(recs, order, stamp)
	im.send()
	if posts != 1 || im.err != broken {
		t.Errorf("%d pieces were sent, and the error is %v", posts, im.err)
	}
}

// What looks like our label in an engine's text does not make two series one.
func TestImportKeepsSeriesApart(t *testing.T) {
	s := func(at int64, text string) *Scrape {
		x, err := ParseExposition(time.UnixMilli(at), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var out strings.Builder
	im := newImporter([]query.Label{{Name: "run", Value: "r"}}, 0, func(b []byte) error { out.Write(b); return nil })
	text := "x 1\nx{run=\"r\"} 2\nx{ } 3\nx{a=\"\"} 4\nx{b=\"c\\\"\\n\"} 5\n"
	a, b := s(1000, text), s(2000, text)
	im.scrapes(&Scrapes{T0: a.At, T1: b.At, All: []*Scrape{a, b}})
	im.send()
	want := ""
	for _, ms := range []string{"1000", "2000"} {
		want += "x{run=\"r\"} 1 " + ms + "\nx{run=\"r\",exported_run=\"r\"} 2 " + ms + "\nx{run=\"r\",b=\"c\\\"\\n\"} 5 " + ms + "\n"
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestLostSeriesAreNamed(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	f := func(sent map[string]*int64, found map[string]int64, want string) {
		t.Helper()
		im := importer{sent: sent}
		if _, got := im.compare(found); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(map[string]*int64{"a": n(2), "b": n(0)}, map[string]int64{"a": 2}, "")
	f(map[string]*int64{"a": n(2)}, map[string]int64{"a": 1}, "a 1 instead of 2")
	// The totals agree, and yet it is wrong.
	f(map[string]*int64{"a": n(2), "b": n(1)}, map[string]int64{"a": 1, "b": 2}, "a 1 instead of 2, b 2 instead of 1")
	f(map[string]*int64{"a": n(2)}, map[string]int64{"a": 2, "b": 1}, "b 1 instead of none")
	f(map[string]*int64{"a": n(1), "b": n(1), "c": n(1), "d": n(1), "e": n(1)}, nil, "a 0 instead of 1, b 0 instead of 1, c 0 instead of 1, 2 more")
}

// Whatever may go down has no zero before it.
func TestGrows(t *testing.T) {
	s, err := ParseExposition(time.Now(), []byte(`# TYPE c counter
# TYPE d_total counter
# TYPE g gauge
# TYPE h histogram
# TYPE s summary
# TYPE i info
# TYPE e_created gauge
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"c": true, "c_total": true, "d_total": true, "h_bucket": true, "h_sum": true, "h_count": true, "s_sum": true, "s_count": true, "unknown_total": true, "unknown_bucket": true,
		"g": false, "g_total": false, "s": false, "i": false, "i_total": false, "e_created": false, "unknown": false, "unknown_sum": false, "unknown_count": false,
	} {
		if s.grows(name) != want {
			t.Errorf("%s grows: %v, want %v", name, !want, want)
		}
	}
}

// A wait for another build ends when the user stops it.
func TestWaitForAnotherBuild(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not here, so nothing is built")
	}
	dir := t.TempDir()
	other, err := os.Create(filepath.Join(dir, "build.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("interrupted")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		told := ""
		_, err := build(ctx, OpenOptions{CacheDir: dir, Progress: func(m string) { told = m; cancel(stop) }})
		if !errors.Is(err, stop) || !strings.Contains(told, "waiting") {
			t.Errorf("got %v after %q", err, told)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the other one has built it meanwhile
		path, err := build(t.Context(), OpenOptions{CacheDir: dir, Progress: func(string) {
			if err := os.WriteFile(cached(dir), nil, 0o755); err != nil {
				t.Error(err)
			}
			if err := unix.Flock(int(other.Fd()), unix.LOCK_UN); err != nil {
				t.Error(err)
			}
		}})
		if err != nil || path != cached(dir) {
			t.Errorf("got %s, %v", path, err)
		}
	})
}

func TestNoGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Open(t.Context(), OpenOptions{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "hint: install Go") {
		t.Errorf("got %v", err)
	}
}
