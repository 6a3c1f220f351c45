package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// version is the first line of a file of records; the columns follow. Times after the first are stored as distances
// from it, because short numbers compress better. An empty cell is Never, or "not reported".
const version = "bench/records/v1"

var columns = [...]string{
	"index", "scheduled_us", "sent_after_us", "first_byte_after_us", "first_token_after_us", "first_content_after_us",
	"last_token_after_us", "end_after_us", "prompt_tokens", "output_tokens", "cached_tokens", "events", "coalesced",
	"status", "conn_reused", "finish", "error", "detail", "class",
}

// ErrTooLarge is returned by Read for a file with more rows or more decompressed bytes than any run of ours makes.
var ErrTooLarge = errors.New("more records than a file may hold")

// limits bound what Read accepts, because a small file can decompress to any size.
type limits struct {
	rows  int
	bytes int64
}

func defaultLimits() limits { return limits{rows: 10_000_000, bytes: 1 << 30} }

// Write writes records as CSV inside gzip, with a versioned header. The same records give the same bytes: no time and
// no file name is stored. It refuses a record that Read would not give back unchanged, naming it: a text with a
// control character or longer than its limit, a negative index, a time set without Scheduled, or an error class that
// this package does not know.
func Write(w io.Writer, recs []Record) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	b := bufio.NewWriterSize(z, 64<<10)
	c := csv.NewWriter(b)
	b.WriteString(version + "\n")
	if err := c.Write(columns[:]); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	var row [len(columns)]string
	for i := range recs {
		if err := check(&recs[i]); err != nil {
			return fmt.Errorf("write record %d: %w", i, err)
		}
		fill(&row, &recs[i])
		if err := c.Write(row[:]); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
	}
	c.Flush()
	if err := errors.Join(c.Error(), b.Flush(), z.Close()); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}

func fill(row *[len(columns)]string, r *Record) {
	after := func(t int64) string {
		if t == Never {
			return ""
		}
		return strconv.FormatInt(t-r.Scheduled, 10)
	}
	count := func(n int32) string {
		if n < 0 {
			return ""
		}
		return strconv.FormatInt(int64(n), 10)
	}
	scheduled := ""
	if r.Scheduled != Never {
		scheduled = strconv.FormatInt(r.Scheduled, 10)
	}
	reused := "0"
	if r.ConnReused {
		reused = "1"
	}
	*row = [...]string{
		count(r.Index), scheduled, after(r.Sent), after(r.FirstByte), after(r.FirstToken), after(r.FirstContent),
		after(r.LastToken), after(r.End), count(r.PromptTokens), count(r.OutputTokens), count(r.CachedTokens),
		count(r.Events), count(r.Coalesced), strconv.Itoa(int(r.Status)), reused, r.Finish, string(r.Err), r.Detail, r.Class,
	}
}

// Read reads what Write wrote. It refuses another version, any malformed row (with its number), more than ten million
// rows and more than 1 GiB of decompressed text (ErrTooLarge).
func Read(r io.Reader) ([]Record, error) { return read(r, defaultLimits()) }

func read(r io.Reader, l limits) ([]Record, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	b := bufio.NewReaderSize(&capped{r: z, left: l.bytes}, 64<<10)
	head := make([]byte, len(version)+1)
	if _, err := io.ReadFull(b, head); err != nil {
		return nil, fmt.Errorf("read the header of the records: %w", err)
	}
	if string(head) != version+"\n" {
		return nil, fmt.Errorf("read records: the file begins with %q, not with %q", head, version)
	}
	c := csv.NewReader(b)
	c.ReuseRecord = true
	c.FieldsPerRecord = len(columns)
	names, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("read the columns of the records: %w", err)
	}
	for i, name := range names {
		if name != columns[i] {
			return nil, fmt.Errorf("read records: column %d is %q, not %q", i+1, name, columns[i])
		}
	}
	return rows(c, l)
}

func rows(c *csv.Reader, l limits) ([]Record, error) {
	var out []Record
	for {
		row, err := c.Read()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", len(out), err)
		}
		if len(out) == l.rows {
			return nil, fmt.Errorf("read records: %w: over %d rows", ErrTooLarge, l.rows)
		}
		rec, err := parse(row)
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", len(out), err)
		}
		out = append(out, rec)
	}
}

// cells reads the fields of a row one after another and keeps the first error.
type cells struct {
	row []string
	i   int
	err error
}

func (c *cells) next() (name, cell string) {
	name, cell = columns[c.i], c.row[c.i]
	c.i++
	return name, cell
}

func (c *cells) number(bits int, empty int64) int64 {
	name, cell := c.next()
	if cell == "" {
		return empty
	}
	n, err := strconv.ParseInt(cell, 10, bits)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%s: %w", name, err)
	}
	return n
}

func (c *cells) after(scheduled int64) int64 {
	d := c.number(64, Never)
	if d == Never || scheduled == Never {
		return d
	}
	if (d > 2*maxTime || d < -2*maxTime) && c.err == nil {
		c.err = fmt.Errorf("%s: %d is out of range", columns[c.i-1], d)
	}
	return scheduled + d
}

func (c *cells) count() int32 { return int32(c.number(32, -1)) }

func (c *cells) text() string {
	_, cell := c.next()
	return cell
}

func parse(row []string) (Record, error) {
	c := &cells{row: row}
	var r Record
	r.Index = c.count()
	r.Scheduled = c.number(64, Never)
	r.Sent, r.FirstByte, r.FirstToken = c.after(r.Scheduled), c.after(r.Scheduled), c.after(r.Scheduled)
	r.FirstContent, r.LastToken, r.End = c.after(r.Scheduled), c.after(r.Scheduled), c.after(r.Scheduled)
	r.PromptTokens, r.OutputTokens, r.CachedTokens = c.count(), c.count(), c.count()
	r.Events, r.Coalesced = c.count(), c.count()
	r.Status = int16(c.number(16, 0))
	reused := c.text()
	if reused != "0" && reused != "1" && c.err == nil {
		c.err = fmt.Errorf("conn_reused is %q, not 0 or 1", reused)
	}
	r.ConnReused = reused == "1"
	r.Finish, r.Err, r.Detail, r.Class = c.text(), ErrClass(c.text()), c.text(), c.text()
	if c.err != nil {
		return Record{}, c.err
	}
	return r, check(&r)
}

// maxTime is about 36,000 years in microseconds: sums and differences of two times stay far from overflow and Never.
const maxTime = 1 << 60

// check says whether a record can be stored and read back unchanged.
func check(r *Record) error {
	if r.Index < 0 {
		return fmt.Errorf("the index is %d", r.Index)
	}
	for _, t := range [...]int64{r.Scheduled, r.Sent, r.FirstByte, r.FirstToken, r.FirstContent, r.LastToken, r.End} {
		if t == Never {
			continue
		}
		if r.Scheduled == Never {
			return errors.New("a time is set, and the scheduled time is not")
		}
		if t > maxTime || t < -maxTime {
			return fmt.Errorf("the time %d µs is out of range", t)
		}
	}
	for _, n := range [...]int32{r.PromptTokens, r.OutputTokens, r.CachedTokens, r.Events, r.Coalesced} {
		if n < -1 {
			return fmt.Errorf("a count is %d", n)
		}
	}
	if !r.Err.Known() {
		return fmt.Errorf("unknown error class %q", r.Err)
	}
	return errors.Join(text("finish", r.Finish, MaxFinish), text("detail", r.Detail, MaxDetail), text("class", r.Class, MaxClass))
}

func text(name, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s has %d bytes, over %d", name, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s is not UTF-8", name)
	}
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return fmt.Errorf("%s has a control character", name)
		}
	}
	return nil
}

// Known reports whether c is one of this package's classes; OK is one of them.
func (c ErrClass) Known() bool {
	switch c {
	case OK, ErrConnect, ErrTransport, ErrStatus, ErrInStream, ErrNoDone, ErrNoFinish, ErrTimeout, ErrProtocol, ErrAborted:
		return true
	}
	return false
}

// OneLine makes s fit for a text field: one line of valid UTF-8 without control characters, at most limit bytes. What
// was cut is marked by three dots.
func OneLine(s string, limit int) string {
	b := make([]byte, 0, min(len(s), limit))
	for _, f := range bytes.FieldsFunc([]byte(s), func(r rune) bool { return r < 0x20 || r == 0x7f || r == ' ' || r == 0x85 || r == 0xa0 }) {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		if b = append(b, f...); len(b) > 4*limit {
			break
		}
	}
	out := bytes.ToValidUTF8(b, []byte("?"))
	if len(out) <= limit {
		return string(out)
	}
	const dots = "..."
	if limit <= len(dots) {
		return dots[:max(limit, 0)]
	}
	cut := limit - len(dots)
	for cut > 0 && !utf8.RuneStart(out[cut]) {
		cut--
	}
	return string(out[:cut]) + dots
}

// capped fails once more than left bytes were read.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}
