package load

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/workload"
)

func TestOneRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		got = q
		body, _ = io.ReadAll(q.Body)
		say(role, think, tok, last, usage, done)(w, q)
	})
	o := options(url+"/", 1, 1)
	o.Header = http.Header{"Authorization": {"Bearer x"}}
	o.Requests = []workload.Request{{Class: "300"}}
	res := run(t, o)
	r := res.Records[0]
	if r.Err != record.OK || r.Finish != "length" || r.Status != 200 || r.Class != "300" || r.Detail != "" || !r.ConnReused {
		t.Errorf("%+v", r)
	}
	if r.PromptTokens != 6 || r.OutputTokens != 3 || r.CachedTokens != 4 || r.Events != 3 {
		t.Errorf("counts: %+v", r)
	}
	order := []int64{r.Scheduled, r.Sent, r.FirstByte, r.FirstToken, r.FirstContent, r.LastToken, r.End}
	if r.Scheduled != 0 || !slices.IsSorted(order) {
		t.Errorf("times out of order: %v", order)
	}
	if wall := res.T1.Sub(res.T0).Microseconds(); wall != r.End || res.Aborted {
		t.Errorf("the window has %d µs, the request ended at %d", wall, r.End)
	}
	if got.Method != "POST" || got.URL.Path != "/v1/chat/completions" || string(body) != `{"n":0}` || got.ContentLength != int64(len(body)) {
		t.Errorf("%s %s %q", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{"Authorization": "Bearer x", "Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "", "Expect": ""} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("header %s: %q, want %q", name, v, want)
		}
	}
	events := uint32(0)
	for _, n := range res.Timeline {
		events += n
	}
	if events != 3 || res.Gaps.Count() != int(res.Health.Reads)-1 || res.Gaps.Count()+int(r.Coalesced) != 2 {
		t.Errorf("timeline %v, %d gaps, %d reads, %d coalesced", res.Timeline, res.Gaps.Count(), res.Health.Reads, r.Coalesced)
	}
}

func TestClosedLoop(t *testing.T) {
	const n, concurrency = 60, 5
	var mu sync.Mutex
	var inFlight, most int
	full := make(chan struct{}) // closed once all places were taken at the same time
	conns, bodies := map[string]bool{}, map[string]int{}
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		mu.Lock()
		inFlight++
		if most = max(most, inFlight); most == concurrency && len(bodies) == concurrency-1 {
			close(full)
		}
		conns[q.RemoteAddr] = true
		bodies[string(body)]++
		mu.Unlock()
		<-full
		say(role, tok, last)(w, q)
		mu.Lock()
		inFlight-- // before the end of the answer, so that the next request cannot be counted first
		mu.Unlock()
		say(usage, done)(w, q)
	})
	var reports [][3]int
	o := options(url, n, concurrency)
	o.Progress = func(d, f, total int) { reports = append(reports, [3]int{d, f, total}) }
	res := run(t, o)
	if len(res.Records) != n || len(bodies) != n || most != concurrency || len(conns) != concurrency || res.Health.NewConns != 0 {
		t.Errorf("%d records, %d bodies, %d in flight, %d connections, %d new", len(res.Records), len(bodies), most, len(conns), res.Health.NewConns)
	}
	first, ends := 0, map[int64]bool{}
	for _, r := range res.Records {
		ends[r.End] = true
		if r.Scheduled == 0 {
			first++
		}
	}
	if first != concurrency {
		t.Errorf("%d requests were scheduled at t0, want %d", first, concurrency)
	}
	for i, r := range res.Records {
		if r.Err != record.OK || r.Index != int32(i) || !r.ConnReused {
			t.Errorf("%+v", r)
		}
		if r.Scheduled != 0 && !ends[r.Scheduled] {
			t.Errorf("request %d was scheduled at %d, when no place became free", i, r.Scheduled)
		}
	}
	if len(reports) == 0 || reports[len(reports)-1] != [3]int{n, 0, n} {
		t.Errorf("progress: %v", reports)
	}
	if h := res.Health; h.CPU <= 0 || h.CPUPeak < h.CPU || h.PeakRSS < 1<<20 || h.LatenessP99 != nil {
		t.Errorf("%+v", h)
	}
}

func TestErrorClasses(t *testing.T) {
	plain := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", contentType)
			io.WriteString(w, body)
		}
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		h      http.HandlerFunc
		want   record.ErrClass
		detail string
		tokens int32
	}{
		"success":                  {say(role, tok, last, usage, done), record.OK, "", 2},
		"keep-alives":              {say(": ping\n\n", role, ":\n\n", tok, last, ": ping\n\n", done), record.OK, "", 2},
		"400":                      {status(400, `{"error":{"message":"too\nlong","code":400}}`), record.ErrStatus, "400 Bad Request: too long", 0},
		"404":                      {status(404, `{"detail":"Not Found"}`), record.ErrStatus, "404 Not Found: Not Found", 0},
		"503":                      {status(503, strings.Repeat("x", 100_000)), record.ErrStatus, "503 Service Unavailable: xxx", 0},
		"redirect":                 {status(307, ""), record.ErrStatus, "307", 0},
		"204":                      {status(204, ""), record.ErrStatus, "204", 0},
		"no stream":                {plain("application/json", `{"choices":[]}`), record.ErrProtocol, `"application/json"`, 0},
		"no JSON":                  {say(role, tok, "data: oops\n\n", last, done), record.ErrProtocol, "invalid character", 1},
		"odd usage":                {say(role, last, `data: {"usage":{"completion_tokens":-5}}`+"\n\n", done), record.ErrProtocol, "-5 tokens", 1},
		"error in the stream":      {say(role, tok, `data: {"error": {"message": "EngineCore encountered an issue."}}`+"\n\n", done), record.ErrInStream, "EngineCore encountered an issue.", 1},
		"error and then nothing":   {say(role, `data: {"error":"dead"}`+"\n\n"), record.ErrInStream, "dead", 0},
		"no [DONE]":                {say(role, tok, last, usage), record.ErrNoDone, "after 2 events", 2},
		"[DONE] without its end":   {say(role, tok, last, "data: [DONE]\n"), record.ErrNoDone, "after 2 events", 2},
		"no finish_reason":         {say(role, tok, usage, done), record.ErrNoFinish, "after 1 events", 1},
		"nothing at all":           {say(), record.ErrNoDone, "after 0 events", 0},
		"broken off":               {func(w http.ResponseWriter, q *http.Request) { say(role, tok)(w, q); panic(http.ErrAbortHandler) }, record.ErrTransport, "EOF", 1},
		"broken off before it":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, record.ErrTransport, "EOF", 0},
		"something behind [DONE]":  {say(role, last, done, "data: oops\n\n"), record.OK, "", 1},
		"an event that never ends": {say(role, "data: "+strings.Repeat("x", 20_000)+"\n\n"), record.ErrProtocol, "size limit", 0},
	} {
		o := options(serve(t, c.h), 1, 1)
		o.EventLimit = 10_000
		r := one(t, o)
		if r.Err != c.want || !strings.Contains(r.Detail, c.detail) || r.Events != c.tokens || (r.Detail == "") != (c.want == record.OK) {
			t.Errorf("%s: %q, %d tokens, %q; want %q, %d, %q", name, r.Err, r.Events, r.Detail, c.want, c.tokens, c.detail)
		}
		if len(r.Detail) > record.MaxDetail || r.Sent == record.Never || r.End < r.Sent {
			t.Errorf("%s: sent %d, end %d, %d bytes of detail", name, r.Sent, r.End, len(r.Detail))
		}
		if err := record.Write(io.Discard, []record.Record{r}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// raw serves connections by hand, for what net/http's server does not do.
func raw(t *testing.T, handle func(i int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				handle(i, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

func readRequest(t *testing.T, b *bufio.Reader) bool {
	q, err := http.ReadRequest(b)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, q.Body); err != nil {
		t.Error(err)
	}
	return true
}

func TestNotHTTP(t *testing.T) {
	url := raw(t, func(_ int, c net.Conn) {
		readRequest(t, bufio.NewReader(c))
		io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n\r\n")
	})
	if r := one(t, options(url, 1, 1)); r.Err != record.ErrProtocol || !strings.Contains(r.Detail, "malformed HTTP") {
		t.Errorf("%q %q", r.Err, r.Detail)
	}
}

// TestNoRetry: a connection that the server closes instead of answering again fails that request, once. net/http would
// send it again if it could, and its latency would then hold two attempts.
func TestNoRetry(t *testing.T) {
	const answer = role + last + done
	var requests atomic.Int32
	url := raw(t, func(_ int, c net.Conn) {
		b := bufio.NewReader(c)
		for first := true; readRequest(t, b); first = false {
			requests.Add(1)
			if !first {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		}
	})
	res := run(t, options(url, 4, 1))
	var classes []record.ErrClass
	for _, r := range res.Records {
		classes = append(classes, r.Err)
	}
	want := []record.ErrClass{record.OK, record.ErrTransport, record.OK, record.ErrTransport}
	if !slices.Equal(classes, want) || requests.Load() != 4 || res.Health.NewConns != 1 {
		t.Errorf("%q, %d requests at the server, %d new connections", classes, requests.Load(), res.Health.NewConns)
	}
	if !res.Records[1].ConnReused || res.Records[2].ConnReused {
		t.Error("the third request dialled, the second did not")
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	r, err := Prepare(t.Context(), options(url, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l.Close() // as an engine that dies between the scrape and the load
	r.dialer.close()
	res, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Records {
		if r.Err != record.ErrConnect || r.Sent != record.Never || r.ConnReused || !strings.Contains(r.Detail, "refused") {
			t.Errorf("%+v", r)
		}
	}
	if _, err := r.Run(t.Context()); err == nil {
		t.Error("a load ran twice")
	}
	if _, err := Prepare(t.Context(), options(url, 1, 1)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("prepared against nobody: %v", err)
	}
}

func TestPrepareFailure(t *testing.T) {
	url := serve(t, say(role, last, done))
	for want, change := range map[string]func(*Options){
		"no address":              func(o *Options) { o.URL = "engine:8000" },
		"no requests":             func(o *Options) { o.Bodies = [][]byte{} },
		"either a concurrency":    func(o *Options) { o.Concurrency = 0 },
		"a schedule":              func(o *Options) { o.Schedule = []time.Duration{0} },
		"either bodies":           func(o *Options) { o.Body = func(int) []byte { return nil } },
		"2 arrivals and only 1":   func(o *Options) { o.Concurrency, o.Schedule = 0, []time.Duration{0, 1} },
		"1 bodies and 2 requests": func(o *Options) { o.Requests = make([]workload.Request, 2) },
		"parse":                   func(o *Options) { o.URL = "http://[::1" },
		"open files":              func(o *Options) { o.Concurrency, o.Bodies = 1<<40, make([][]byte, 2_000_000) },
		"connect to 127.0.0.1:1":  func(o *Options) { o.URL = "http://127.0.0.1:1" },
	} {
		o := options(url, 1, 1)
		change(&o)
		if _, err := Prepare(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestEnoughFiles(t *testing.T) {
	if err := enoughFiles(456, 256); err != nil {
		t.Error(err)
	}
	if err := enoughFiles(455, 256); err == nil || !strings.Contains(err.Error(), "need 456 open files, and the hard limit is 455") {
		t.Error(err)
	}
}

func TestBodyFunction(t *testing.T) {
	var mu sync.Mutex
	got := map[string]bool{}
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		mu.Lock()
		got[string(b)] = true
		mu.Unlock()
		say(role, last, done)(w, q)
	})
	o := options(url, 0, 2)
	o.Bodies, o.Requests = nil, make([]workload.Request, 10)
	o.Body = func(i int) []byte { return fmt.Appendf(nil, "body %d", i) }
	if res := run(t, o); len(res.Records) != 10 || len(got) != 10 || !got["body 9"] {
		t.Errorf("%d records, bodies %v", len(res.Records), got)
	}
	o.Concurrency, o.Requests, o.Schedule = 0, nil, []time.Duration{0, 0, 0}
	if res := run(t, o); len(res.Records) != 3 {
		t.Errorf("%d records", len(res.Records))
	}
}

// TestAbort cancels while one request waits for headers, one for its second token, and one for a place.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, q *http.Request) {
			if b, _ := io.ReadAll(q.Body); string(b) == `{"n":1}` {
				say(role, tok)(w, q)
			}
			<-q.Context().Done()
		}
		o := options("", 5, 0)
		o.Schedule = []time.Duration{0, 0, time.Second, time.Hour, 2 * time.Hour}
		o.MaxInFlight = 2
		r, _ := bubble(t, h, nil, o)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		res, err := r.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Records) != 3 || !res.Aborted || res.Health.Capped != 1 {
			t.Fatalf("%d records, aborted %v, %d capped", len(res.Records), res.Aborted, res.Health.Capped)
		}
		for i, r := range res.Records {
			if r.Err != record.ErrAborted || r.End != 10e6 || r.Detail == "" || (r.Sent == record.Never) != (i == 2) || (r.FirstToken == 0) != (i == 1) {
				t.Errorf("request %d: %+v", i, r)
			}
		}
	})
}

func TestAbortClosed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		if string(b) == `{"n":7}` {
			cancel()
			<-q.Context().Done()
			return
		}
		say(role, last, done)(w, q)
	})
	res, err := Run(ctx, options(url, 100, 1))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Records) != 8 || res.Records[7].Err != record.ErrAborted || res.Records[6].Err != record.OK {
		t.Errorf("%d records: %+v", len(res.Records), res.Records)
	}
}

// TestTimeout: the deadline counts from the place in flight, before headers as behind them, and the error stays in the
// window beside the others.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, q *http.Request) {
			b, _ := io.ReadAll(q.Body)
			switch string(b) {
			case `{"n":0}`:
				<-q.Context().Done()
			case `{"n":1}`:
				say(role, tok)(w, q)
				<-q.Context().Done()
			default:
				say(role, last, done)(w, q)
			}
		}
		o := options("", 3, 1)
		o.Timeout = 30 * time.Second
		r, _ := bubble(t, h, nil, o)
		res, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := res.Records
		if len(a) != 3 || res.Aborted {
			t.Fatalf("%d records, aborted %v", len(a), res.Aborted)
		}
		if a[0].Err != record.ErrTimeout || a[1].Err != record.ErrTimeout || a[2].Err != record.OK || !strings.Contains(a[1].Detail, "30s") {
			t.Errorf("%+v", a)
		}
		if a[0].End != 30e6 || a[1].Scheduled != 30e6 || a[1].End != 60e6 || a[1].Events != 1 || a[2].Scheduled != 60e6 {
			t.Errorf("%+v", a)
		}
	})
}

// TestOpenLoopKeepsItsSchedule: a server that takes 10 s for every answer must not delay a request that is due every
// 100 ms. It fails when a request is sent by the dispatcher itself instead of a goroutine of its own.
func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, q *http.Request) {
			time.Sleep(10 * time.Second)
			say(role, last, done)(w, q)
		}
		o := options("", 50, 0)
		for i := range 50 {
			o.Schedule = append(o.Schedule, time.Duration(i)*100*time.Millisecond)
		}
		r, _ := bubble(t, h, nil, o)
		res, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range res.Records {
			want := int64(i) * 100_000
			if r.Err != record.OK || r.Scheduled != want || r.Sent != want || r.FirstToken != want+10e6 {
				t.Fatalf("request %d, due at %d µs: %+v", i, want, r)
			}
		}
		if res.Health.LatenessP99 == nil || *res.Health.LatenessP99 != 0 || res.Health.Capped != 0 {
			t.Errorf("%+v", res.Health)
		}
		if len(res.Timeline) != 1491 || res.Timeline[1000] != 1 || res.Timeline[1490] != 1 {
			t.Errorf("the timeline has %d bins", len(res.Timeline))
		}
	})
}

// TestCapKeepsTheIntendedTime: what a cap holds back stays late; the wait is not taken out of its latency.
func TestCapKeepsTheIntendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, q *http.Request) {
			time.Sleep(10 * time.Second)
			say(role, last, done)(w, q)
		}
		o := options("", 3, 0)
		o.Schedule = []time.Duration{0, time.Second, 2 * time.Second}
		o.MaxInFlight = 1
		r, p := bubble(t, h, nil, o)
		res, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range res.Records {
			sent := int64(i) * 10e6
			if r.Scheduled != int64(i)*1e6 || r.Sent != sent || r.End != sent+10e6 {
				t.Errorf("request %d: %+v", i, r)
			}
		}
		if h := res.Health; h.Capped != 2 || *h.LatenessP99 != 0 || h.NewConns != 0 || p.count() != 1 {
			t.Errorf("%+v, %d connections", h, p.count())
		}
	})
}

// TestConnectionsStayFresh: a server that closes idle connections after 5 s, as uvicorn does, is not sent a request on
// one of them, whether the pause is before the window or in it.
func TestConnectionsStayFresh(t *testing.T) {
	for _, pause := range []time.Duration{0, 3 * time.Second, 4500 * time.Millisecond, 5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			// Go's server applies its idle timeout to a connection's first request too.
			server := func(s *http.Server) { s.IdleTimeout, s.ReadHeaderTimeout = 5*time.Second, 5*time.Second }
			o := options("", 4, 0)
			o.Schedule = []time.Duration{0, 0, pause, pause}
			r, _ := bubble(t, say(role, last, done), server, o)
			time.Sleep(pause)
			res, err := r.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, rec := range res.Records {
				if rec.Err != record.OK || (i < 2) && !rec.ConnReused {
					t.Errorf("pause %v: %+v", pause, rec)
				}
			}
			if fresh := pause < idleLimit; (res.Health.NewConns == 0) != fresh {
				t.Errorf("pause %v: %d new connections", pause, res.Health.NewConns)
			}
		})
	}
}

// TestStamps: events are stamped with the socket read that carried their end, whatever way they are cut.
func TestStamps(t *testing.T) {
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	two := chunk(tok + tok)
	for name, c := range map[string]struct {
		pieces    []string // written at 1, 2, 3, … s
		first     int64    // seconds
		last      int64
		coalesced int32
		gaps      int
	}{
		"one event a read":            {[]string{chunk(role) + chunk(tok), chunk(tok), chunk(tok)}, 1, 3, 0, 2},
		"three events a read":         {[]string{chunk(role), chunk(tok) + chunk(tok) + chunk(tok)}, 2, 2, 2, 0},
		"three events, then one":      {[]string{chunk(tok) + chunk(tok) + chunk(tok), chunk(tok)}, 1, 2, 2, 1},
		"cut inside an event":         {[]string{chunk(tok)[:20], chunk(tok)[20:], chunk(tok)}, 2, 3, 0, 1},
		"cut inside the second event": {[]string{two[:len(tok)+20], two[len(tok)+20:]}, 1, 2, 0, 1},
		"cut behind the first event":  {[]string{chunk(tok) + chunk(tok)[:2], chunk(tok)[2:]}, 1, 2, 0, 1},
		"the role does not coalesce":  {[]string{chunk(role) + chunk(tok), chunk(tok)}, 1, 2, 0, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipes()
			var server sync.WaitGroup
			server.Go(func() { sendPieces(t, p, c.pieces, chunk) })
			o := options("http://engine", 1, 1)
			o.Dial = p.dial
			r := one(t, o)
			server.Wait()
			if r.Err != record.OK || r.FirstToken != c.first*1e6 || r.LastToken != c.last*1e6 || r.Coalesced != c.coalesced {
				t.Errorf("%s: first token %d µs, last %d, %d coalesced, %q %s", name, r.FirstToken, r.LastToken, r.Coalesced, r.Err, r.Detail)
			}
			if r.FirstByte != 0 || r.End != int64(len(c.pieces)+1)*1e6 {
				t.Errorf("%s: first byte %d µs, end %d", name, r.FirstByte, r.End)
			}
		})
	}
}

// sendPieces answers one request with a piece a second.
func sendPieces(t *testing.T, l net.Listener, pieces []string, chunk func(string) string) {
	c, err := l.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	readRequest(t, bufio.NewReader(c))
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	end := chunk(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n") + chunk(done) + "0\r\n\r\n"
	for _, p := range append(slices.Clone(pieces), end) {
		time.Sleep(time.Second)
		io.WriteString(c, p)
	}
}

// TestGaps: the inter-chunk latency is taken between reads; events of one read have none between them.
func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, q *http.Request) {
			say(role, tok)(w, q)
			for _, p := range []string{tok, tok + tok, tok, last} {
				time.Sleep(20 * time.Millisecond)
				io.WriteString(w, p)
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, done)
		}
		r, _ := bubble(t, h, nil, options("", 1, 1))
		res, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rec := res.Records[0]
		if rec.Events != 6 || rec.Coalesced != 1 || res.Gaps.Count() != 4 || res.Health.Reads != 5 || res.Gaps.Mean() != 20*time.Millisecond {
			t.Errorf("%d events, %d coalesced, %d gaps of %v, %d reads", rec.Events, rec.Coalesced, res.Gaps.Count(), res.Gaps.Mean(), res.Health.Reads)
		}
		if want := []uint32{1, 0, 1, 0, 2, 0, 1, 0, 1}; !slices.Equal(res.Timeline, want) {
			t.Errorf("timeline %v, want %v", res.Timeline, want)
		}
	})
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(say(role, tok, last, usage, done))
	t.Cleanup(s.Close)
	o := options(s.URL, 3, 1)
	if _, err := Prepare(t.Context(), o); err == nil {
		t.Fatal("an unknown certificate was accepted")
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	// As Prepare, with the test's certificate.
	r := &Runner{o: o}
	u, err := r.check()
	if err != nil {
		t.Fatal(err)
	}
	r.clock = newClock()
	r.dialer = newDialer(u, r.clock, nil)
	r.dialer.tls.RootCAs = roots
	if err := r.dialer.prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := r.ready(u); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	res, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Records {
		if r.Err != record.OK || r.Events != 2 || !r.ConnReused || r.Sent == record.Never || r.FirstToken < r.FirstByte || r.FirstByte <= r.Sent {
			t.Errorf("%+v", r)
		}
	}
}

// TestBrokenTimer: a schedule that could not be kept is no result.
func TestBrokenTimer(t *testing.T) {
	o := options(serve(t, say(role, last, done)), 3, 0)
	o.Schedule = []time.Duration{0, 1, 2}
	r, err := Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wait, broken := r.wait, errors.New("broken")
	r.wait = func(ctx context.Context, until time.Time) error {
		if r.next.Load() == 2 {
			return broken
		}
		return wait(ctx, until)
	}
	if res, err := r.Run(t.Context()); !errors.Is(err, broken) || res != nil {
		t.Errorf("%v, %v", res, err)
	}
}

// TestTimer waits for real: never too short, and not beyond the end of its context.
func TestTimer(t *testing.T) {
	for _, spin := range []time.Duration{0, 200 * time.Microsecond} {
		tm, err := newTimer(spin)
		if err != nil {
			t.Fatal(err)
		}
		defer tm.close()
		for _, d := range []time.Duration{-time.Second, 0, 1, 100 * time.Microsecond, 5 * time.Millisecond} {
			until := time.Now().Add(d)
			if err := tm.wait(t.Context(), until); err != nil || time.Now().Before(until) {
				t.Errorf("%v: %v, %v too early", d, err, time.Until(until))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := tm.wait(ctx, time.Now().Add(time.Hour)); err != context.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		if err := tm.wait(ctx, time.Now().Add(-time.Hour)); err != context.Canceled {
			t.Errorf("cancelled before: %v", err)
		}
	}
}

func TestProgressIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, q *http.Request) {
			time.Sleep(time.Millisecond)
			say(role, last, done)(w, q)
		}
		o := options("", 1000, 1)
		var calls []int
		o.Progress = func(done, _, _ int) { calls = append(calls, done) }
		r, _ := bubble(t, h, nil, o)
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(calls); n < 5 || n > 12 || calls[n-1] != 1000 || !slices.IsSorted(calls) {
			t.Errorf("told %d times in a second: %v", len(calls), calls)
		}
	})
}
