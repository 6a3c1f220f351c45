// Package stub is a server that streams answers shaped like vLLM's, at a known pace, with the time of sending written
// into every token: what a client's time stamps are compared with. It has no model of an engine (sim) and answers
// nothing but streaming chat completions.
package stub

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Mode says when the tokens of the streams are sent.
type Mode string

// The modes.
const (
	// Spread sends each stream's tokens at times of its own.
	Spread Mode = "spread"
	// Step sends a token of every stream at once, as an engine does that makes one token of each request a step: the
	// honest test of a client, because the streams queue.
	Step Mode = "step"
)

// Pace is the "stub" object of a request's body. Times are in nanoseconds.
type Pace struct {
	Mode     Mode          `json:"mode"`
	First    time.Duration `json:"first_ns"`    // from the request to the first token, at least
	Interval time.Duration `json:"interval_ns"` // between two tokens of a stream; 1 µs..1 h
}

// Body is a request: tokens answers at the pace p.
func Body(tokens int, p Pace) []byte {
	b, err := json.Marshal(request{MaxTokens: tokens, Model: "stub", Stream: true, Messages: []message{{"user", "go"}}, Stub: p})
	if err != nil {
		panic(err) // plain numbers and strings
	}
	return b
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type request struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	Stream    bool      `json:"stream"`
	MaxTokens int       `json:"max_tokens"`
	Stub      Pace      `json:"stub"`
}

func (q *request) check() error {
	p := q.Stub
	switch {
	case q.MaxTokens < 1 || q.MaxTokens > 10_000_000:
		return fmt.Errorf("max_tokens is %d", q.MaxTokens)
	case p.Mode != Spread && p.Mode != Step:
		return fmt.Errorf("stub.mode is %q", p.Mode)
	case p.Interval < time.Microsecond || p.Interval > time.Hour || p.First < 0 || p.First > time.Hour:
		return fmt.Errorf("stub.interval_ns is %d and stub.first_ns %d", p.Interval, p.First)
	}
	return nil
}

// stampDigits is the width of a send time: CLOCK_REALTIME in nanoseconds.
const stampDigits = 19

// Stamp reads the send time out of a token event: nanoseconds since 1970. ok is false for any other event.
func Stamp(data []byte) (ns int64, ok bool) {
	for i := 0; i+1+stampDigits < len(data); i++ {
		if data[i] != '@' {
			continue
		}
		for _, c := range data[i+1 : i+1+stampDigits] {
			if c < '0' || c > '9' {
				return 0, false
			}
			ns = ns*10 + int64(c-'0')
		}
		return ns, true
	}
	return 0, false
}

const (
	head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	// chunkFormat has the id, the delta, the finish reason and what follows it.
	chunkFormat = `data: {"id":"chatcmpl-%016x","object":"chat.completion.chunk","created":1796116352,"model":"stub","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s,"token_ids":null}]}` + "\n\n"
	usageFormat = `data: {"id":"chatcmpl-%016x","object":"chat.completion.chunk","created":1796116352,"model":"stub","choices":[],"usage":{"prompt_tokens":1,"total_tokens":%d,"completion_tokens":%d}}` + "\n\n"
	// token has room for the send time behind the @.
	token = `{"content":" @0000000000000000000"}`
)

// chunk frames an event for the chunked transfer coding.
func chunk(event string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(event), event) }

// answer is the stream of one request. The pacer sends it; the connection's goroutine waits for its end.
type answer struct {
	conn     net.Conn
	due      int64 // next token, on the pacer's clock
	interval int64
	left     int // tokens
	first    []byte
	next     []byte
	last     []byte // the last token, with its finish reason
	end      []byte
	opened   bool
	ended    chan error // capacity 1
}

func newAnswer(conn net.Conn, id uint64, q *request) *answer {
	event := func(delta, finish string) string { return chunk(fmt.Sprintf(chunkFormat, id, delta, finish)) }
	return &answer{
		conn: conn, interval: int64(q.Stub.Interval), left: q.MaxTokens, ended: make(chan error, 1),
		first: []byte(head + event(`{"role":"assistant","content":""}`, "null")),
		next:  []byte(event(token, "null")),
		last:  []byte(event(token, `"length"`)),
		end:   []byte(chunk(fmt.Sprintf(usageFormat, id, q.MaxTokens+1, q.MaxTokens)) + chunk("data: [DONE]\n\n") + "0\r\n\r\n"),
	}
}

// send sends the token that is due, and before and behind it what belongs there. Each token is a write of its own.
func (a *answer) send() (more bool, err error) {
	if !a.opened {
		a.opened = true
		if _, err := a.conn.Write(a.first); err != nil {
			return false, err
		}
	}
	b := a.next
	if a.left == 1 {
		b = a.last
	}
	stamp(b)
	if _, err := a.conn.Write(b); err != nil {
		return false, err
	}
	if a.left--; a.left > 0 {
		return true, nil
	}
	_, err = a.conn.Write(a.end)
	return false, err
}

// stamp writes the present time behind the @.
func stamp(event []byte) {
	for i := range event {
		if event[i] == '@' {
			strconv.AppendInt(event[i+1:i+1], time.Now().UnixNano(), 10)
			return
		}
	}
}

// Server is a running stub.
type Server struct {
	l     net.Listener
	pacer *pacer
	conns sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	ids    uint64
}

// Serve answers on l until ctx ends, then closes l and every connection, waits for all it started, and returns nil.
// Another error of l ends it too and is returned.
func Serve(ctx context.Context, l net.Listener) error {
	s := &Server{l: l, pacer: newPacer(), open: map[net.Conn]bool{}}
	defer s.conns.Wait()
	defer context.AfterFunc(ctx, s.close)()
	stop := s.pacer.start()
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			s.close()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("stub: accept: %w", err)
		}
		if s.add(c) {
			s.conns.Go(func() {
				defer s.remove(c)
				s.connection(c)
			})
		}
	}
}

func (s *Server) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	s.open[c] = true
	return true
}

func (s *Server) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	c.Close()
}

func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.l.Close()
	for c := range s.open {
		c.Close()
	}
}

func (s *Server) id() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return s.ids
}

// connection answers one request after another.
func (s *Server) connection(c net.Conn) {
	b := bufio.NewReader(c)
	for {
		q, err := readRequest(b)
		var bad *badRequest
		if errors.As(err, &bad) {
			body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": bad.Error(), "code": 400}})
			fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
		}
		if err != nil {
			return
		}
		a := newAnswer(c, s.id(), q)
		s.pacer.add(a, q.Stub)
		if <-a.ended != nil {
			return
		}
	}
}

type badRequest struct{ error }

func readRequest(b *bufio.Reader) (*request, error) {
	h, err := http.ReadRequest(b)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(h.Body)
	if err != nil {
		return nil, err
	}
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, &badRequest{err}
	}
	if err := q.check(); err != nil {
		return nil, &badRequest{err}
	}
	return &q, nil
}
