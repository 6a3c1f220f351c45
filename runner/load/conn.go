package load

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idleLimit is below the 5 s after which uvicorn closes an idle connection: a request on one that the server is
	// just closing fails through nobody's fault.
	idleLimit = 4 * time.Second
	// dialsAtOnce keeps a server's accept queue from overflowing, which costs a second for the connection that is lost.
	dialsAtOnce = 64
	dialTimeout = 10 * time.Second
)

// transport is net/http's with everything off that would hide or move time: no proxy, no compression, no HTTP/2, no
// limit on connections (a limit is a queue), no waiting for 100-continue.
func (r *Runner) transport() *http.Transport {
	var p http.Protocols
	p.SetHTTP1(true)
	return &http.Transport{
		Protocols:           &p,
		DisableCompression:  true,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: max(r.n, 1), // the default of 2 makes all others dial anew
		IdleConnTimeout:     idleLimit,
		ReadBufferSize:      16 << 10,
		WriteBufferSize:     writeBuffer(r.o.Bodies),
		DialContext:         r.dialer.get,
		DialTLSContext:      r.dialer.get,
	}
}

// writeBuffer is large enough to send the usual request in one write, and not larger: every connection has one.
func writeBuffer(bodies [][]byte) int {
	most := 0
	for _, b := range bodies {
		most = max(most, len(b))
	}
	size := 4 << 10
	for size < most+1024 && size < 64<<10 {
		size *= 2
	}
	return size
}

// dialError marks the failures of a connection that never was.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialer opens connections before the window and hands them out when net/http asks for new ones. net/http has no way
// to open its own ahead of a request, and 256 dials at once delay a first token by up to 27 ms.
type dialer struct {
	addr   string
	tls    *tls.Config // nil = plain
	clock  clock
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	opened atomic.Int64 // by get, itself

	mu    sync.Mutex
	ready []*readyConn
}

type readyConn struct {
	net.Conn
	since time.Time
}

func newDialer(u *url.URL, c clock, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *dialer {
	d := &dialer{addr: u.Host, clock: c, dial: dial}
	if dial == nil {
		d.dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		d.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	}
	if u.Port() == "" {
		d.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return d
}

// get is what net/http calls for a new connection.
func (d *dialer) get(ctx context.Context, _, _ string) (net.Conn, error) {
	if c := d.take(); c != nil {
		return c.Conn, nil
	}
	d.opened.Add(1)
	c, err := d.open(ctx, false)
	if err != nil {
		return nil, &dialError{err}
	}
	return c, nil
}

// take hands out the connection that was opened last, and closes those that became too old.
func (d *dialer) take() *readyConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.ready) > 0 {
		c := d.ready[len(d.ready)-1]
		d.ready = d.ready[:len(d.ready)-1]
		if time.Since(c.since) < idleLimit {
			return c
		}
		c.Close()
	}
	return nil
}

// open makes a connection whose socket is stamped. early marks one made before the window.
func (d *dialer) open(ctx context.Context, early bool) (net.Conn, error) {
	c, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	s := &stampConn{Conn: c, clock: d.clock, early: early}
	if d.tls == nil {
		return s, nil
	}
	t := tls.Client(s, d.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// prepare opens n connections. The first error ends it.
func (d *dialer) prepare(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var dials sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range min(n, dialsAtOnce) {
		dials.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				c, err := d.open(ctx, true)
				if err != nil {
					cancel(err)
					return
				}
				d.mu.Lock()
				d.ready = append(d.ready, &readyConn{c, time.Now()})
				d.mu.Unlock()
			}
		})
	}
	dials.Wait()
	if err := context.Cause(ctx); err != nil {
		d.close()
		return err
	}
	return nil
}

// refresh replaces connections that the server could close before they are used. When one cannot be replaced, all are
// given up: the requests then dial for themselves, and their failures are recorded.
func (d *dialer) refresh(ctx context.Context) {
	d.mu.Lock()
	old := d.ready
	d.ready = nil
	n := 0
	for _, c := range old {
		if time.Since(c.since) < idleLimit/2 {
			d.ready = append(d.ready, c)
			continue
		}
		c.Close()
		n++
	}
	d.mu.Unlock()
	_ = d.prepare(ctx, n)
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.ready {
		c.Close()
	}
	d.ready = nil
}

// stamps is what happened on a socket during one request. Times are on the runner's clock; 0 = not yet.
type stamps struct {
	firstWrite int64
	firstRead  int64
	at         int64  // last read that brought bytes
	before     int64  // the one before it
	n          int    // bytes of the last read
	seq        uint64 // reads that brought bytes
}

// stampConn notes the time of each read: what happens between the socket and the event (scheduling of other streams,
// decoding) is then not taken for the server's.
type stampConn struct {
	net.Conn
	clock clock
	early bool // opened before the window

	mu sync.Mutex
	s  *stamps // of the present request; nil = none yet
}

// begin says that what follows belongs to the request of s. The one before keeps its own: its connection may be in use
// again before it has read its last stamp.
func (c *stampConn) begin(s *stamps) {
	c.mu.Lock()
	c.s = s
	c.mu.Unlock()
}

// look copies s, which was given to begin.
func (c *stampConn) look(s *stamps) stamps {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *s
}

func (c *stampConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		at := c.clock.now()
		c.mu.Lock()
		if s := c.s; s != nil {
			s.before, s.at, s.n = s.at, at, n
			s.seq++
			if s.firstRead == 0 {
				s.firstRead = at
			}
		}
		c.mu.Unlock()
	}
	return n, err
}

func (c *stampConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.s != nil && c.s.firstWrite == 0 {
		c.s.firstWrite = c.clock.now()
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// stamped finds the stamped socket under a connection of ours.
func stamped(c net.Conn) *stampConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, _ := c.(*stampConn)
	return s
}
