package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"h100-inference-control-plane/runner/load/sse"
	"h100-inference-control-plane/runner/record"
)

// maxErrorBody bounds what is read of an answer that is no stream.
const maxErrorBody = 64 << 10

// attempt is one request on its way. Its times are on the runner's clock; 0 = did not happen.
type attempt struct {
	r     *Runner
	i     int
	slot  *slot
	conn  *stampConn
	live  stamps // written by conn; read through conn.look
	hit   bool   // the connection was there before
	body  io.Reader
	read  stamps // the socket as it was after the last read of the body
	reads uint64 // socket reads during the last read of the body

	sent, firstByte, firstToken, firstContent, lastToken, end int64

	status            int
	usage             sse.Usage
	events, coalesced int32
	lastSeq           uint64 // socket read of the last token event
	finish            string
	done              bool
	class             record.ErrClass
	detail            string
}

func failed(c record.ErrClass, detail string) *attempt {
	return &attempt{class: c, detail: detail, usage: sse.Usage{Prompt: -1, Completion: -1, Cached: -1}}
}

func (a *attempt) fail(c record.ErrClass, format string, args ...any) {
	if a.class == record.OK {
		a.class, a.detail = c, fmt.Sprintf(format, args...)
	}
}

// do sends request i and files its record. It returns when the request ended, on the clock.
func (r *Runner) do(ctx context.Context, i int, scheduled int64, s *slot) int64 {
	a := failed(record.OK, "")
	a.r, a.i, a.slot = r, i, s
	body := r.body(i)
	limited, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	a.exchange(httptrace.WithClientTrace(limited, &httptrace.ClientTrace{GotConn: a.gotConn}), body)
	if a.class != record.OK {
		a.explain(ctx, limited)
	}
	return r.file(i, scheduled, a)
}

func (r *Runner) body(i int) []byte {
	if r.o.Body != nil {
		return r.o.Body(i)
	}
	return r.o.Bodies[i]
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.conn = stamped(info.Conn)
	if a.conn == nil {
		return
	}
	a.hit = info.Reused || a.conn.early
	a.conn.begin(&a.live)
}

func (a *attempt) exchange(ctx context.Context, body []byte) {
	req := a.r.req
	// No GetBody: net/http then never sends a request twice, which would hide a failure and spoil its time.
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.ContentLength = int64(len(body))
	res, err := a.r.tr.RoundTrip(req.WithContext(ctx))
	if a.conn != nil {
		a.read = a.conn.look(&a.live)
		a.sent, a.firstByte = a.read.firstWrite, a.read.firstRead
	}
	if err != nil {
		a.fail(transportClass(err), "%v", err)
		return
	}
	defer res.Body.Close()
	a.status = res.StatusCode
	switch {
	case res.StatusCode != http.StatusOK:
		a.refused(res)
	case !isStream(res.Header.Get("Content-Type")):
		a.fail(record.ErrProtocol, "the answer is %q, not an event stream", res.Header.Get("Content-Type"))
	default:
		a.stream(res.Body)
	}
}

func isStream(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "text/event-stream"
}

// refused reads what the server says about a request that it does not serve.
func (a *attempt) refused(res *http.Response) {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	a.fail(record.ErrStatus, "%s: %s", res.Status, sse.Message(b))
	if err == nil {
		a.end = a.conn.look(&a.live).at
	}
}

// stream reads events up to the end of the answer: also behind [DONE], because only a connection that was read to its
// end is used again.
func (a *attempt) stream(body io.Reader) {
	a.body = body
	a.slot.reader.Reset(a, a.r.o.EventLimit)
	a.slot.dec.Reset()
	for {
		data, err := a.slot.reader.Next()
		if err != nil {
			a.ended(err)
			return
		}
		if !a.done && !a.event(data) {
			return
		}
	}
}

// Read reads the body and notes what the socket did meanwhile. (The reader of events reads from the attempt.)
func (a *attempt) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	st := a.conn.look(&a.live)
	a.reads = st.seq - a.read.seq
	a.read = st
	return n, err
}

// stamp is the time of the socket read that carried the end of the event just read, and that read's number. Mostly
// that is the last one. When one read of the body took several reads of the socket, an event with more bytes behind it
// than the last of them brought came with an earlier one.
func (a *attempt) stamp() (at int64, seq uint64) {
	if a.reads > 1 && a.slot.reader.Buffered() >= a.read.n {
		return a.read.before, a.read.seq - 1
	}
	return a.read.at, a.read.seq
}

// event takes one event in. It returns false when the stream cannot be followed any further.
func (a *attempt) event(data []byte) bool {
	var c sse.Chunk
	if err := a.slot.dec.Decode(data, &c); err != nil {
		a.fail(record.ErrProtocol, "%v", err)
		return false
	}
	if c.Token {
		a.token(data, &c)
	}
	if c.Finish != "" {
		a.finish = c.Finish
	}
	a.use(c.Usage)
	switch c.Kind {
	case sse.Error:
		a.fail(record.ErrInStream, "%s", c.Message)
	case sse.Done:
		a.done = true
	}
	return true
}

func (a *attempt) token(data []byte, c *sse.Chunk) {
	at, seq := a.stamp()
	switch {
	case a.events == 0:
		a.firstToken = at
		a.r.reads.Add(1)
	case seq == a.lastSeq:
		a.coalesced++
	default:
		a.r.gaps.Add(time.Duration(at - a.lastToken))
		a.r.reads.Add(1)
	}
	if c.Content && a.firstContent == 0 {
		a.firstContent = at
	}
	a.lastToken, a.lastSeq = at, seq
	a.events++
	a.r.timeline.add(time.Duration(at - a.r.t0))
	if a.r.o.OnToken != nil {
		a.r.o.OnToken(a.i, data, time.Duration(at-a.r.t0))
	}
}

// use keeps the last count of each kind: with usage in every chunk, the last one is the whole.
func (a *attempt) use(u sse.Usage) {
	if u.Prompt >= 0 {
		a.usage.Prompt = u.Prompt
	}
	if u.Completion >= 0 {
		a.usage.Completion = u.Completion
	}
	if u.Cached >= 0 {
		a.usage.Cached = u.Cached
	}
}

// ended judges a stream that gave err instead of another event.
func (a *attempt) ended(err error) {
	switch {
	case errors.Is(err, sse.ErrTooLong):
		a.fail(record.ErrProtocol, "%v", err)
	case err != io.EOF:
		a.fail(record.ErrTransport, "%v", err)
	default:
		a.end = a.read.at
		switch {
		case !a.done:
			a.fail(record.ErrNoDone, "the stream ended without [DONE] after %d events with tokens", a.events)
		case a.finish == "":
			a.fail(record.ErrNoFinish, "[DONE] came without a finish_reason after %d events with tokens", a.events)
		}
	}
}

// transportClass sorts the errors of net/http's round trip.
func transportClass(err error) record.ErrClass {
	var d *dialError
	switch {
	case errors.As(err, &d):
		return record.ErrConnect
	case strings.Contains(err.Error(), "malformed HTTP"):
		return record.ErrProtocol
	}
	return record.ErrTransport
}

// explain replaces the symptom of an ended context by its cause. What the server itself said stays.
func (a *attempt) explain(run, limited context.Context) {
	switch a.class {
	case record.ErrConnect, record.ErrTransport:
	default:
		return
	}
	switch {
	case run.Err() != nil:
		a.class, a.detail = record.ErrAborted, "the run ended before the answer did"
	case limited.Err() != nil:
		a.class, a.detail = record.ErrTimeout, fmt.Sprintf("no end after %v", a.r.o.Timeout)
	}
}

// file writes the record of a request that has ended and returns when that was, on the clock.
func (r *Runner) file(i int, scheduled int64, a *attempt) int64 {
	if a.end == 0 {
		a.end = r.clock.now()
	}
	class := ""
	if r.o.Requests != nil {
		class = record.OneLine(r.o.Requests[i].Class, record.MaxClass)
	}
	r.records[i] = record.Record{
		Index: int32(i), Scheduled: r.micros(scheduled), Sent: r.micros(a.sent), FirstByte: r.micros(a.firstByte),
		FirstToken: r.micros(a.firstToken), FirstContent: r.micros(a.firstContent), LastToken: r.micros(a.lastToken), End: r.micros(a.end),
		PromptTokens: a.usage.Prompt, OutputTokens: a.usage.Completion, CachedTokens: a.usage.Cached,
		Events: a.events, Coalesced: a.coalesced, Status: int16(min(a.status, math.MaxInt16)), ConnReused: a.hit,
		Finish: reason(a.finish), Err: a.class, Detail: record.OneLine(a.detail, record.MaxDetail), Class: class,
	}
	for last := r.lastEnd.Load(); a.end > last && !r.lastEnd.CompareAndSwap(last, a.end); last = r.lastEnd.Load() {
	}
	if a.class != record.OK {
		r.failed.Add(1)
	}
	r.done.Add(1)
	return a.end
}

func (r *Runner) micros(at int64) int64 {
	if at == 0 {
		return record.Never
	}
	return (at - r.t0) / int64(time.Microsecond)
}

// reason keeps one copy of the usual finish reasons instead of one a record.
func reason(s string) string {
	for _, known := range [...]string{"stop", "length", "tool_calls", "abort", "content_filter"} {
		if s == known {
			return known
		}
	}
	return record.OneLine(s, record.MaxFinish)
}
