// Package load sends requests to an OpenAI-compatible server over HTTP/1.1 and records what came back and when: a
// closed loop with so many requests in flight, or an open loop on a schedule made beforehand. Times are stamped at the
// socket. It neither makes the requests (workload, openai) nor the schedule (arrival), and judges nothing; what it
// reports about itself (Health) lets others judge it.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"h100-inference-control-plane/runner/load/sse"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/workload"
)

// DefaultTimeout bounds a request whose Options do not.
const DefaultTimeout = 10 * time.Minute

// Options is one load. Exactly one of Concurrency and Schedule is set. Nothing in it may change until Run has
// returned.
type Options struct {
	URL    string      // the server's root, http or https
	Path   string      // of the endpoint, with its leading slash
	Header http.Header // sent with every request besides Content-Type and Accept, e.g. Authorization

	// The requests: Bodies, or Body, which is asked for each one in the goroutine that sends it, just before (its time
	// counts as lateness, its bytes need not all be in memory at once). Body must be safe for concurrent use.
	Bodies [][]byte
	Body   func(i int) []byte
	// Requests describes them; only Class is read. Nil = no class. With Body and a closed loop, its length is the
	// number of requests.
	Requests []workload.Request

	Concurrency int             // closed loop: requests in flight, >= 1
	Schedule    []time.Duration // open loop: when each request is sent, ascending, from t0; at most as many as there are bodies
	MaxInFlight int             // open loop: arrivals above it wait, their latency running; 0 = no cap

	// Timeout bounds each request from the moment it has its place in flight; 0 = DefaultTimeout. A request that it
	// ends is an error inside the window.
	Timeout time.Duration
	// SpinTail is how long before each arrival of an open loop the dispatcher spins instead of sleeping; 0 = it sleeps.
	// It saves about 80 µs of lateness for much of a core: only where one is idle.
	SpinTail time.Duration
	// EventLimit bounds one event in bytes; 0 = sse.DefaultLimit.
	EventLimit int

	// Progress is told how far the load is, at most ten times a second and once at the end, from one goroutine at a
	// time. Nil = nobody is.
	Progress func(done, failed, total int)
	// OnToken sees every event with a token, with the time of its socket read after t0, in the stream's goroutine. It is
	// for calibration; it must be quick and keeps no part of data. Nil = nobody does.
	OnToken func(request int, data []byte, at time.Duration)
	// Dial replaces the TCP dialler, for tests. Nil = TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// TimelineBin is the width of a bin of Result.Timeline.
const TimelineBin = 10 * time.Millisecond

// Result is what a load measured.
type Result struct {
	T0      time.Time // when the load began: zero of every time in Records; with a monotonic reading
	T1      time.Time // when its last request ended
	Records []record.Record
	Aborted bool // the context ended first: requests that had not begun have no record
	// Timeline counts the events with tokens in each TimelineBin after T0. A server may put several tokens into one
	// event; scale by a request's OutputTokens ÷ Events where that matters.
	Timeline []uint32
	// Gaps are the times between two socket reads of one stream that brought tokens: the inter-chunk latency. Events
	// that shared a read with the one before have no gap; records count them as Coalesced.
	Gaps   *Histogram
	Health Health
}

// Health is how well the load generator did its own work.
type Health struct {
	CPU         float64  // share of the cores that it may use (GOMAXPROCS), over the window
	CPUPeak     float64  // the same, of the worst second
	CPUSeconds  float64  // of this process inside the window
	SchedP99    *float64 // seconds that a goroutine waited for a thread; nil = too few samples
	LatenessP99 *float64 // seconds from scheduled to sent, of arrivals that no cap held back; nil = closed loop
	NewConns    int      // connections opened inside the window; those made before it do not count
	Capped      int      // open loop: arrivals that had to wait for MaxInFlight
	Reads       int64    // socket reads that brought tokens
	PeakRSS     int64    // bytes, of the process so far; 0 = not known
}

// Runner is a load that is ready to begin.
type Runner struct {
	o       Options
	n       int
	req     http.Request // what all requests have in common
	dialer  *dialer
	tr      *http.Transport
	clock   clock
	slots   chan *slot
	timer   *timer // nil = closed loop
	wait    func(ctx context.Context, until time.Time) error
	started atomic.Bool

	// while it runs
	t0       int64 // on the clock
	records  []record.Record
	capped   []bool
	timeline timeline
	gaps     *Histogram
	reads    atomic.Int64
	next     atomic.Int64 // requests begun
	done     atomic.Int64
	failed   atomic.Int64
	lastEnd  atomic.Int64
}

// Prepare checks a load and makes everything it needs, connections included, so that Run begins at once. It fails when
// the options make no sense, the server cannot be reached, or the process may not open enough files. Close the
// Runner when done.
func Prepare(ctx context.Context, o Options) (*Runner, error) {
	r := &Runner{o: o}
	u, err := r.check()
	if err != nil {
		return nil, fmt.Errorf("prepare a load: %w", err)
	}
	if err := checkFiles(r.inFlight()); err != nil {
		return nil, fmt.Errorf("prepare a load: %w", err)
	}
	r.clock = newClock()
	r.dialer = newDialer(u, r.clock, o.Dial)
	if err := r.dialer.prepare(ctx, r.connections()); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", u.Host, err)
	}
	if err := r.ready(u); err != nil {
		r.dialer.close()
		return nil, fmt.Errorf("prepare a load: %w", err)
	}
	return r, nil
}

// ready makes what the requests share.
func (r *Runner) ready(u *url.URL) error {
	if r.o.Timeout <= 0 {
		r.o.Timeout = DefaultTimeout
	}
	r.tr = r.transport()
	r.req = http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: r.header(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	r.records = make([]record.Record, r.n)
	r.capped = make([]bool, len(r.o.Schedule))
	r.gaps = &Histogram{}
	r.slots = make(chan *slot, r.inFlight())
	if r.o.Schedule == nil {
		return nil
	}
	var err error
	if r.timer, err = newTimer(r.o.SpinTail); err != nil {
		return err
	}
	r.wait = r.timer.wait
	return nil
}

func (r *Runner) check() (*url.URL, error) {
	o := &r.o
	u, err := url.Parse(strings.TrimRight(o.URL, "/") + o.Path)
	if err != nil {
		return nil, err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of an HTTP server", u.Redacted())
	}
	r.n = len(o.Bodies)
	if o.Body != nil {
		r.n = len(o.Requests)
	}
	switch {
	case (o.Concurrency > 0) == (o.Schedule != nil):
		return nil, errors.New("a load has either a concurrency or a schedule with arrivals")
	case (o.Bodies == nil) == (o.Body == nil):
		return nil, errors.New("a load has either bodies or a function that makes them")
	case o.Body != nil && o.Schedule != nil && o.Requests == nil:
		r.n = len(o.Schedule)
	case o.Bodies != nil && o.Requests != nil && len(o.Requests) != len(o.Bodies):
		return nil, fmt.Errorf("%d bodies and %d requests", len(o.Bodies), len(o.Requests))
	}
	if o.Schedule != nil {
		if len(o.Schedule) > r.n {
			return nil, fmt.Errorf("%d arrivals and only %d requests", len(o.Schedule), r.n)
		}
		r.n = len(o.Schedule)
	}
	if r.n == 0 {
		return nil, errors.New("it has no requests")
	}
	return u, nil
}

// inFlight is how many requests may be in flight at once.
func (r *Runner) inFlight() int {
	switch {
	case r.o.Schedule == nil:
		return min(r.o.Concurrency, r.n)
	case r.o.MaxInFlight > 0:
		return min(r.o.MaxInFlight, r.n)
	}
	return r.connections()
}

// connections is how many are opened before the window. An open loop does not know how many it will need: the busiest
// second's arrivals are a guess; what goes beyond is dialled inside the window and counted.
func (r *Runner) connections() int {
	if r.o.Schedule == nil {
		return min(r.o.Concurrency, r.n)
	}
	most, from := 0, 0
	for i, at := range r.o.Schedule {
		for at-r.o.Schedule[from] >= time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	most = max(most, min(r.n, 8))
	if r.o.MaxInFlight > 0 {
		most = min(most, r.o.MaxInFlight)
	}
	return most
}

func (r *Runner) header() http.Header {
	h := r.o.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "benchctl")
	}
	return h
}

// Run begins at once and returns when every request has ended. When ctx ends, requests in flight end as ErrAborted and
// it returns at once with what there is (Aborted). With an error there is no result. A Runner runs once.
func (r *Runner) Run(ctx context.Context) (*Result, error) {
	if !r.started.CompareAndSwap(false, true) {
		return nil, errors.New("run a load: it ran already")
	}
	r.dialer.refresh(ctx)
	m := startMonitor(r)
	t0 := time.Now()
	r.t0 = r.clock.at(t0)
	r.lastEnd.Store(r.t0)
	r.dialer.opened.Store(0)
	loop := r.closed
	if r.o.Schedule != nil {
		loop = r.open
	}
	err := loop(ctx)
	res := &Result{
		T0: t0, T1: t0.Add(time.Duration(r.lastEnd.Load() - r.t0)), Records: r.records[:min(int(r.next.Load()), r.n)],
		Aborted: ctx.Err() != nil, Timeline: r.timeline.counts(), Gaps: r.gaps,
	}
	res.Health = m.stop(res)
	if err != nil {
		return nil, fmt.Errorf("run a load: %w", err)
	}
	return res, nil
}

// Close ends the connections. It may be called more than once.
func (r *Runner) Close() {
	r.tr.CloseIdleConnections()
	r.dialer.close()
	if r.timer != nil {
		r.timer.close()
	}
}

// Run prepares a load, runs it and closes it.
func Run(ctx context.Context, o Options) (*Result, error) {
	r, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Run(ctx)
}

// slot is what one request in flight needs; the next one takes it over.
type slot struct {
	reader sse.Reader
	dec    sse.Decoder
}

// takeSlot never waits: when all are in use, it makes one.
func (r *Runner) takeSlot() *slot {
	select {
	case s := <-r.slots:
		return s
	default:
		return &slot{}
	}
}

func (r *Runner) giveSlot(s *slot) {
	select {
	case r.slots <- s:
	default:
	}
}

// clock counts nanoseconds on the monotonic clock, from a second before its making: 0 is left to say "never".
type clock struct{ base time.Time }

func newClock() clock { return clock{time.Now().Add(-time.Second)} }

func (c clock) now() int64 { return int64(time.Since(c.base)) }

func (c clock) at(t time.Time) int64 { return int64(t.Sub(c.base)) }
