// Package sse reads event streams: it splits bytes into events as the HTML standard says, and says of each event what
// an OpenAI-compatible server put into it, quickly enough that timing tokens does not disturb their timing. It knows
// neither HTTP nor clocks (load).
package sse

import (
	"bytes"
	"errors"
	"io"
)

// DefaultLimit is the greatest number of bytes of one event. An event with log probabilities for many alternatives has
// tens of kilobytes; a Scanner's 64 KB would be too little.
const DefaultLimit = 4 << 20

// ErrTooLong is returned for an event above the limit.
var ErrTooLong = errors.New("event over the size limit")

// errNoProgress guards against a source that returns neither bytes nor an error for ever.
var errNoProgress = io.ErrNoProgress

const firstBuffer = 4 << 10

// Reader splits a stream into events. The zero value is not ready: call Reset. It is not safe for concurrent use.
//
// It follows the event stream interpretation of the HTML standard
// (https://html.spec.whatwg.org/multipage/server-sent-events.html): a leading byte order mark is skipped; lines end
// with LF, CR or CRLF, wherever the stream is split; one space after the colon is dropped; several data fields are
// joined with LF; comments and all other fields are skipped; an event that no blank line ends is dropped.
type Reader struct {
	src   io.Reader
	err   error // from src; returned once the buffer has no more event
	limit int

	buf  []byte
	r    int // first byte that is still needed: the pending data line, or the line being read
	pos  int // start of the line being read
	scan int // bytes before it were searched for the end of the line
	w    int // end of what was read

	begun  bool // the byte order mark was looked for
	skipLF bool // the last line ended with CR: an LF that follows belongs to it

	fields  int    // data fields of the pending event
	from    int    // the only data field is buf[from:to]
	to      int    //
	joined  []byte // the data fields, when there are several
	pending int    // bytes of joined that count towards the limit
}

// Reset makes r read src from its beginning, keeping its buffers. The limit is in bytes an event; 0 = DefaultLimit.
func (r *Reader) Reset(src io.Reader, limit int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	buf, joined := r.buf, r.joined[:0]
	if buf == nil || cap(buf) > 16*firstBuffer { // one long event must not be paid for ever after
		buf = make([]byte, firstBuffer)
	}
	*r = Reader{src: src, limit: limit, buf: buf, joined: joined}
}

// Next returns the data of the next event, possibly empty; events without a data field are skipped. The slice is valid
// until the next call. Events that are complete are returned before an error of the source, io.EOF among them. After
// an error every call returns it again.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, ok := r.line()
		if !ok {
			if r.err != nil {
				return nil, r.err
			}
			r.fill()
			continue
		}
		if len(line) > 0 {
			r.field(line)
			continue
		}
		if data, ok := r.dispatch(); ok {
			return data, nil
		}
	}
}

// Buffered is the number of bytes that came behind the event that Next returned last. It tells which of several socket
// reads carried the event's end.
func (r *Reader) Buffered() int { return r.w - r.pos }

// line takes the next complete line out of the buffer, without its end.
func (r *Reader) line() ([]byte, bool) {
	if !r.begun && !r.begin() {
		return nil, false
	}
	if r.skipLF && r.pos < r.w {
		r.skipLF = false
		if r.buf[r.pos] == '\n' {
			r.advance(r.pos + 1)
		}
	}
	rest := r.buf[r.scan:r.w]
	end := bytes.IndexByte(rest, '\n')
	if end < 0 {
		end = len(rest)
	}
	// JSON has no raw CR, so this second search finds nothing but the end of a CRLF.
	if cr := bytes.IndexByte(rest[:end], '\r'); cr >= 0 {
		end = cr
	}
	if end == len(rest) {
		r.scan = r.w
		return nil, false
	}
	at := r.scan + end
	line := r.buf[r.pos:at]
	r.skipLF = r.buf[at] == '\r'
	r.pos, r.scan = at+1, at+1
	return line, true
}

// advance forgets bytes before i that no pending data field needs.
func (r *Reader) advance(i int) {
	r.pos, r.scan = i, i
	if r.fields != 1 {
		r.r = i
	}
}

// begin skips a byte order mark. It waits for three bytes only while what is there could be the start of one.
func (r *Reader) begin() bool {
	const bom = "\xef\xbb\xbf"
	have := r.buf[r.pos:r.w]
	if len(have) < len(bom) && r.err == nil && bytes.HasPrefix([]byte(bom), have) {
		return false
	}
	r.begun = true
	if bytes.HasPrefix(have, []byte(bom)) {
		r.advance(r.pos + len(bom))
	}
	return true
}

// field takes a line that is not blank into the pending event.
func (r *Reader) field(line []byte) {
	value, ok := dataField(line)
	switch {
	case !ok:
	case r.fields == 0:
		r.to = r.pos - 1
		r.from = r.to - len(value)
		r.r = r.from
		r.fields = 1
		return
	case r.fields == 1:
		r.joined = append(append(append(r.joined[:0], r.buf[r.from:r.to]...), '\n'), value...)
		r.fields = 2
	default:
		r.joined = append(append(r.joined, '\n'), value...)
		r.fields++
	}
	if r.fields != 1 {
		r.r = r.pos
	}
	r.pending = len(r.joined)
}

func dataField(line []byte) (value []byte, ok bool) {
	const name = "data"
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	if len(line) == len(name) {
		return line[len(name):], true
	}
	if line[len(name)] != ':' {
		return nil, false
	}
	value = line[len(name)+1:]
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return value, true
}

// dispatch ends the pending event at a blank line.
func (r *Reader) dispatch() ([]byte, bool) {
	n := r.fields
	r.fields, r.pending = 0, 0
	r.r = r.pos
	switch n {
	case 0:
		return nil, false
	case 1:
		return r.buf[r.from:r.to], true
	}
	return r.joined, true
}

// fill reads more bytes, making room for them first.
func (r *Reader) fill() {
	if r.w-r.r+r.pending > r.limit {
		r.err = ErrTooLong
		return
	}
	if r.r == r.w {
		r.shift()
	}
	if r.w == len(r.buf) {
		if r.r > 0 {
			r.shift()
		} else {
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.w:])
		r.w += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = errNoProgress
}

// shift moves what is still needed to the front of the buffer.
func (r *Reader) shift() {
	n := copy(r.buf, r.buf[r.r:r.w])
	d := r.r
	r.pos, r.scan, r.from, r.to = r.pos-d, r.scan-d, r.from-d, r.to-d
	r.r, r.w = 0, n
}
