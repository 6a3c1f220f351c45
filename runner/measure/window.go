package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"h100-inference-control-plane/runner/engine"
)

const (
	scrapeEvery   = time.Second
	scrapeTimeout = 10 * time.Second
	// settleFor bounds the wait for an engine to have counted its last request: the client has the end of a stream a
	// moment before the engine's own books are closed.
	settleFor   = 3 * time.Second
	settleEvery = 15 * time.Millisecond
)

// Fetch gets the engine's metrics: the body and its content type.
type Fetch func(ctx context.Context) (body []byte, contentType string, err error)

// A Window scrapes an engine at both edges of a trial and every second in between.
type Window struct {
	fetch   Fetch
	series  []engine.Series
	known   map[string]Sample // what scrapes share
	scrapes []*Scrape
	missed  int
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// Scrapes is what a window saw. The first is at T0 and the last at T1.
type Scrapes struct {
	T0, T1 time.Time // whole milliseconds
	All    []*Scrape // in order of time, each at another millisecond
	Missed int       // scrapes in between that failed
}

// NewWindow prepares a window. series are the engine's, for knowing when it has settled.
func NewWindow(fetch Fetch, series []engine.Series) *Window {
	return &Window{fetch: fetch, series: series, known: map[string]Sample{}}
}

// Begin scrapes at t0 and goes on scraping in the background. The engine must be idle, so that any instant between
// question and answer is the same. Without a first scrape there is no window.
func (w *Window) Begin(ctx context.Context) error {
	first, err := w.scrape(ctx)
	if err != nil {
		return err
	}
	w.scrapes = []*Scrape{first}
	ctx, w.stop = context.WithCancel(ctx)
	w.done.Go(func() { w.watch(ctx) })
	return nil
}

func (w *Window) watch(ctx context.Context) {
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s, err := w.scrape(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				w.missed++
			default:
				s.Body = nil
				w.scrapes = append(w.scrapes, s)
			}
		}
	}
}

// Abort ends a window that will have no result.
func (w *Window) Abort() {
	if w.stop != nil {
		w.stop()
		w.done.Wait()
	}
}

// End scrapes at t1: once the engine is idle and its counters stand still, or settleFor later.
func (w *Window) End(ctx context.Context) (*Scrapes, error) {
	w.Abort()
	last, err := w.settled(ctx)
	if err != nil {
		return nil, err
	}
	out := &Scrapes{T0: w.scrapes[0].At, T1: last.At, Missed: w.missed}
	for _, s := range w.scrapes {
		if s.At.Before(last.At) && (len(out.All) == 0 || s.At.After(out.All[len(out.All)-1].At)) {
			out.All = append(out.All, s)
		}
	}
	if len(out.All) == 0 {
		return nil, fmt.Errorf("the window is shorter than a millisecond")
	}
	out.All = append(out.All, last)
	return out, nil
}

func (w *Window) settled(ctx context.Context) (*Scrape, error) {
	deadline := time.Now().Add(settleFor)
	var before *Scrape
	for {
		s, err := w.scrape(ctx)
		if err != nil {
			return nil, err
		}
		if before != nil && (w.idle(s) && w.same(before, s) || time.Now().After(deadline)) {
			return s, nil
		}
		before = s
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// idle is true when nothing runs and nothing waits, as far as the engine says.
func (w *Window) idle(s *Scrape) bool {
	for _, q := range []engine.Quantity{engine.QRunning, engine.QWaiting} {
		if v, ok := s.Sum(nameOf(w.series, q, s)); ok && v != 0 {
			return false
		}
	}
	return true
}

// same is true when the counts of requests and tokens did not move between two scrapes.
func (w *Window) same(a, b *Scrape) bool {
	for _, q := range []engine.Quantity{engine.QRequestSuccess, engine.QGenerationTokens} {
		name := nameOf(w.series, q, b)
		x, _ := a.Sum(name)
		y, _ := b.Sum(name)
		if x != y {
			return false
		}
	}
	return true
}

// nameOf is the newest name of a quantity that the scrape has, or "".
func nameOf(all []engine.Series, q engine.Quantity, s *Scrape) string {
	for _, x := range all {
		if x.Quantity != q {
			continue
		}
		for _, n := range x.Names {
			if s.Has(n, x.Kind) {
				return n
			}
		}
	}
	return ""
}

// scrape reads once. Its time is the middle between question and answer.
func (w *Window) scrape(ctx context.Context) (*Scrape, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	before := time.Now()
	body, _, err := w.fetch(ctx)
	if err != nil {
		return nil, err
	}
	return parseExposition(before.Add(time.Since(before)/2), body, w.known)
}
