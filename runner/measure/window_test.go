package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"h100-inference-control-plane/runner/engine"
)

var windowSeries = []engine.Series{
	{Quantity: engine.QGenerationTokens, Kind: engine.Counter, Names: []string{"x:new_tokens_total", "x:tokens_total"}},
	{Quantity: engine.QRequestSuccess, Kind: engine.Counter, Names: []string{"x:success_total"}},
	{Quantity: engine.QRunning, Kind: engine.Gauge, Names: []string{"x:running"}},
	{Quantity: engine.QWaiting, Kind: engine.Gauge, Names: []string{"x:waiting"}},
}

// fakeEngine answers scrapes; it is safe for concurrent use.
type fakeEngine struct {
	mu      sync.Mutex
	asked   int
	tokens  int
	running func(asked int) int
	fail    func(asked int) error
	took    time.Duration
}

func (e *fakeEngine) metrics(ctx context.Context) ([]byte, string, error) {
	e.mu.Lock()
	took := e.took
	e.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.fail != nil {
		if err := e.fail(e.asked); err != nil {
			return nil, "", err
		}
	}
	running := 0
	if e.running != nil {
		running = e.running(e.asked)
	}
	return fmt.Appendf(nil, "# TYPE x:tokens_total counter\nx:tokens_total{a=\"b\"} %d\nx:running %d\nx:waiting 0\n", e.tokens, running), "", nil
}

func (e *fakeEngine) serve(tokens int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens += tokens
}

func (e *fakeEngine) slow(took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.took = took
}

// Both edges are scraped whatever the second's tick, and the clock is the middle of question and answer.
func TestWindowEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{tokens: 7, took: 4 * time.Millisecond}
		w := NewWindow(e.metrics, windowSeries)
		began := time.Now()
		if err := w.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(470 * time.Millisecond)
			e.serve(10)
		}
		s, err := w.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.T0.Sub(began); got != 2*time.Millisecond {
			t.Errorf("t0 is %v after the question, want the middle of 4 ms", got)
		}
		if got := s.T1.Sub(s.T0); got < 2350*time.Millisecond || got > 2400*time.Millisecond {
			t.Errorf("a window of %v for a load of 2.35 s", got)
		}
		if s.Missed != 0 || len(s.All) != 4 {
			t.Errorf("%d scrapes and %d missed, want the edges and two ticks", len(s.All), s.Missed)
		}
		first, _ := s.All[0].Sum("x:tokens_total")
		last, _ := s.All[len(s.All)-1].Sum("x:tokens_total")
		if first != 7 || last != 57 {
			t.Errorf("edges saw %v and %v tokens, want 7 and 57", first, last)
		}
		for i, sc := range s.All {
			if edge := i == 0 || i == len(s.All)-1; (sc.Body != nil) != edge {
				t.Errorf("scrape %d of %d: body kept is %v", i, len(s.All), sc.Body != nil)
			}
			if i > 0 && !sc.At.After(s.All[i-1].At) {
				t.Errorf("scrape %d is not after the one before", i)
			}
		}
	})
}

// The end waits for an engine that still counts, and not for ever.
func TestWindowSettles(t *testing.T) {
	f := func(busyFor int, want func(time.Duration) bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			e := &fakeEngine{running: func(asked int) int {
				if asked > 1 && asked <= 1+busyFor {
					return 1
				}
				return 0
			}}
			w := NewWindow(e.metrics, windowSeries)
			if err := w.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			asked := time.Now()
			s, err := w.End(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if took := s.T1.Sub(asked); !want(took) {
				t.Errorf("busy for %d scrapes: the window ended %v after it was asked to", busyFor, took)
			}
		})
	}
	f(0, func(d time.Duration) bool { return d == settleEvery })
	f(10, func(d time.Duration) bool { return d == 10*settleEvery })
	f(1<<30, func(d time.Duration) bool { return d >= settleFor && d < settleFor+2*settleEvery })
}

func TestWindowMissesScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{fail: func(asked int) error {
			if asked == 3 {
				return errors.New("connection refused")
			}
			return nil
		}}
		w := NewWindow(e.metrics, windowSeries)
		if err := w.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3500 * time.Millisecond)
		s, err := w.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Missed != 1 || len(s.All) != 4 {
			t.Errorf("%d scrapes and %d missed, want 4 and 1", len(s.All), s.Missed)
		}
	})
}

func TestWindowFailure(t *testing.T) {
	refused := errors.New("connection refused")
	from := func(n int) func(int) error {
		return func(asked int) error {
			if asked >= n {
				return refused
			}
			return nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := NewWindow((&fakeEngine{fail: from(1)}).metrics, windowSeries)
		if err := w.Begin(t.Context()); !errors.Is(err, refused) {
			t.Errorf("without a first scrape there is no window: %v", err)
		}
		w.Abort()
	})
	synctest.Test(t, func(t *testing.T) {
		w := NewWindow((&fakeEngine{fail: from(2)}).metrics, windowSeries)
		if err := w.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.End(t.Context()); !errors.Is(err, refused) {
			t.Errorf("without a last scrape there is no window: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a server that hangs is given up, and Abort does not wait for it
		e := &fakeEngine{}
		w := NewWindow(e.metrics, windowSeries)
		if err := w.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.slow(time.Hour)
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		w.Abort()
		if d := time.Since(began); d != 0 {
			t.Errorf("Abort waited %v for a scrape", d)
		}
		if _, err := w.End(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the scrape's deadline", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := NewWindow(func(context.Context) ([]byte, string, error) { return []byte("<html>"), "text/html", nil }, windowSeries)
		if err := w.Begin(t.Context()); err == nil || !strings.Contains(err.Error(), "metrics line 1") {
			t.Errorf("an answer that is not metrics: %v", err)
		}
	})
}
