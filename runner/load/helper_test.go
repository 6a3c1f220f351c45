package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"h100-inference-control-plane/runner/record"
)

const (
	role   = `data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	tok    = `data: {"choices":[{"delta":{"content":" a"},"finish_reason":null}]}` + "\n\n"
	think  = `data: {"choices":[{"delta":{"reasoning":" hm"},"finish_reason":null}]}` + "\n\n"
	last   = `data: {"choices":[{"delta":{"content":" z"},"finish_reason":"length"}]}` + "\n\n"
	usage  = `data: {"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	done   = "data: [DONE]\n\n"
	stream = "text/event-stream; charset=utf-8"
)

// say is a handler that sends each piece by itself.
func say(pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", stream)
		for _, p := range pieces {
			io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func options(url string, n, concurrency int) Options {
	o := Options{URL: url, Path: "/v1/chat/completions", Concurrency: concurrency, Timeout: time.Minute}
	for i := range n {
		o.Bodies = append(o.Bodies, fmt.Appendf(nil, `{"n":%d}`, i))
	}
	return o
}

func run(t testing.TB, o Options) *Result {
	t.Helper()
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// one runs a single request.
func one(t testing.TB, o Options) record.Record {
	t.Helper()
	res := run(t, o)
	if len(res.Records) != 1 {
		t.Fatalf("%d records", len(res.Records))
	}
	return res.Records[0]
}

// pipes is a network in memory, for tests whose clock is not real.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	quit  chan struct{}

	mu     sync.Mutex
	dialed int
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), quit: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.quit:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.quit) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	p.dialed++
	p.mu.Unlock()
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.quit:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialed
}

// sleepUntil waits on the clock of a synctest bubble, which the kernel's sleep does not know.
func sleepUntil(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bubble serves h on a network in memory and prepares a load against it.
func bubble(t *testing.T, h http.HandlerFunc, change func(*http.Server), o Options) (*Runner, *pipes) {
	t.Helper()
	p := newPipes()
	s := &http.Server{Handler: h}
	if change != nil {
		change(s)
	}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(p) })
	o.URL, o.Dial = "http://engine", p.dial
	r, err := Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.wait = sleepUntil
	t.Cleanup(func() {
		r.Close()
		s.Close()
		serving.Wait()
	})
	return r, p
}
