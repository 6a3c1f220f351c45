package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDerived(t *testing.T) {
	full := Record{
		Scheduled: 1_000_000, Sent: 1_000_250, FirstByte: 1_020_000, FirstToken: 1_050_000, FirstContent: 1_080_000,
		LastToken: 2_050_000, End: 2_051_000, OutputTokens: 101,
	}
	none := Record{Scheduled: 5, Sent: Never, FirstByte: Never, FirstToken: Never, FirstContent: Never, LastToken: Never, End: Never, OutputTokens: -1}
	one := full
	one.OutputTokens = 1
	noUsage := full
	noUsage.OutputTokens, noUsage.Events = -1, 101
	for _, c := range []struct {
		name string
		f    func() (float64, bool)
		want float64
		ok   bool
	}{
		{"ttft", full.TTFT, 0.05, true},
		{"ttft of the answer", full.TTFTContent, 0.08, true},
		{"tpot", full.TPOT, 0.01, true},
		{"e2e", full.E2E, 1.051, true},
		{"lateness", full.Lateness, 0.00025, true},
		{"ttft without a token", none.TTFT, 0, false},
		{"tpot without a token", none.TPOT, 0, false},
		{"e2e without an end", none.E2E, 0, false},
		{"lateness of what was never sent", none.Lateness, 0, false},
		{"tpot of one token", one.TPOT, 0, false},
		{"tpot without usage is not taken from events", noUsage.TPOT, 0, false},
	} {
		got, ok := c.f()
		if ok != c.ok || (ok && (got < c.want-1e-9 || got > c.want+1e-9)) {
			t.Errorf("%s = %v, %v; want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// random makes a record that Write accepts, with every field exercised.
func random(r *rand.Rand, i int) Record {
	when := func(from int64) int64 {
		if r.IntN(5) == 0 {
			return Never
		}
		return from + r.Int64N(1e9) - 1000
	}
	count := func() int32 {
		if r.IntN(4) == 0 {
			return -1
		}
		return r.Int32N(1 << 30)
	}
	words := []string{"", "stop", `a "quoted" word`, "comma, semicolon;", "ünïcode ✓", `back\slash`, " edge spaces ", "#", "'=1+1"}
	classes := []ErrClass{OK, ErrConnect, ErrTransport, ErrStatus, ErrInStream, ErrNoDone, ErrNoFinish, ErrTimeout, ErrProtocol, ErrAborted}
	s := r.Int64N(1e12)
	return Record{
		Index: int32(i), Scheduled: s, Sent: when(s), FirstByte: when(s), FirstToken: when(s), FirstContent: when(s),
		LastToken: when(s), End: when(s), PromptTokens: count(), OutputTokens: count(), CachedTokens: count(),
		Events: r.Int32N(1000), Coalesced: r.Int32N(1000), Status: int16(r.IntN(600)), ConnReused: r.IntN(2) == 0,
		Finish: words[r.IntN(len(words))], Err: classes[r.IntN(len(classes))], Detail: words[r.IntN(len(words))], Class: words[r.IntN(len(words))],
	}
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 1000} {
		var in []Record
		for i := range n {
			in = append(in, random(r, i))
		}
		var a, b bytes.Buffer
		if err := errors.Join(Write(&a, in), Write(&b, in)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Error("the same records gave different bytes")
		}
		out, err := Read(&a)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in, out) {
			t.Errorf("%d records came back changed", n)
		}
	}
}

func TestWriteFailure(t *testing.T) {
	ok := Record{Scheduled: 1, Sent: Never, FirstByte: Never, FirstToken: Never, FirstContent: Never, LastToken: Never, End: Never}
	for want, change := range map[string]func(*Record){
		"index":                func(r *Record) { r.Index = -1 },
		"control character":    func(r *Record) { r.Detail = "two\r\nlines" },
		"detail has 301 bytes": func(r *Record) { r.Detail = strings.Repeat("x", 301) },
		"not UTF-8":            func(r *Record) { r.Finish = "\xff" },
		"class has 65 bytes":   func(r *Record) { r.Class = strings.Repeat("x", 65) },
		"unknown error class":  func(r *Record) { r.Err = "odd" },
		"scheduled time":       func(r *Record) { r.Scheduled, r.End = Never, 5 },
		"out of range":         func(r *Record) { r.End = 1 << 61 },
		"count":                func(r *Record) { r.OutputTokens = -2 },
	} {
		r := ok
		change(&r)
		err := Write(io.Discard, []Record{ok, r})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "record 1") {
			t.Errorf("want an error about record 1 with %q, got %v", want, err)
		}
	}
}

func zip(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadFailure(t *testing.T) {
	head := version + "\n" + strings.Join(columns[:], ",") + "\n"
	row := "0,1,2,3,4,5,6,7,8,9,10,11,12,200,1,stop,,,c\n"
	if _, err := Read(bytes.NewReader(zip(t, head+row))); err != nil {
		t.Fatalf("the row that the cases below spoil: %v", err)
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"not gzip":        {[]byte(head + row), "gzip"},
		"empty":           {nil, "EOF"},
		"another version": {zip(t, "bench/records/v9\n"+head), "begins with"},
		"another column":  {zip(t, strings.Replace(head, "status", "state", 1)), `column 14 is "state"`},
		"too few cells":   {zip(t, head+"0,1\n"), "record 0"},
		"not a number":    {zip(t, head+row+strings.Replace(row, "200", "ok", 1)), "record 1: status"},
		"too large":       {zip(t, head+strings.Replace(row, "200", "40000", 1)), "out of range"},
		"odd flag":        {zip(t, head+strings.Replace(row, "200,1", "200,yes", 1)), "conn_reused"},
		"no schedule":     {zip(t, head+strings.Replace(row, "0,1,2", "0,,2", 1)), "scheduled"},
		"cut off":         {zip(t, head+row)[:60], "EOF"},
	} {
		if _, err := Read(bytes.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", name, c.want, err)
		}
	}
}

func TestReadLimits(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, make([]Record, 100)); err != nil {
		t.Fatal(err)
	}
	for _, l := range []limits{{rows: 99, bytes: 1 << 20}, {rows: 1000, bytes: 1000}} {
		if _, err := read(bytes.NewReader(b.Bytes()), l); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%+v: want ErrTooLarge, got %v", l, err)
		}
	}
	if got, err := read(bytes.NewReader(b.Bytes()), limits{rows: 100, bytes: 1 << 20}); err != nil || len(got) != 100 {
		t.Errorf("at the limit: %d records, %v", len(got), err)
	}
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 10, ""},
		{" a\r\n\tb\x00c  d ", 20, "a b c d"},
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc..."},
		{"ééééé", 8, "éé..."},
		{"a\xffb", 10, "a?b"},
		{strings.Repeat("x ", 10000), 5, "x ..."},
		{"abc", 2, ".."},
	} {
		if got := OneLine(c.in, c.limit); got != c.want {
			t.Errorf("OneLine(%.20q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 5} {
		var in []Record
		for i := range n {
			in = append(in, random(r, i))
		}
		var b bytes.Buffer
		if err := Write(&b, in); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), true)
		z, err := gzip.NewReader(&b)
		if err != nil {
			f.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plain, false)
	}
	// Half of the inputs are packed first, so that the fuzzer reaches the rows and not only the checksum.
	f.Fuzz(func(t *testing.T, in []byte, packed bool) {
		if !packed {
			in = zip(t, string(in))
		}
		recs, err := read(bytes.NewReader(in), limits{rows: 1000, bytes: 1 << 20})
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Write(&b, recs); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Read(&b)
		if err != nil || !reflect.DeepEqual(recs, again) {
			t.Fatalf("read, written and read again: %v", err)
		}
	})
}

func FuzzOneLine(f *testing.F) {
	f.Add("a\nb", 300)
	f.Add("é\xff\x00", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 0 || limit > 1000 {
			return
		}
		got := OneLine(s, limit)
		if len(got) > limit || !utf8.ValidString(got) || text("text", got, limit) != nil {
			t.Fatalf("OneLine(%q, %d) = %q", s, limit, got)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	recs := make([]Record, 1000)
	for i := range recs {
		recs[i] = random(r, i)
	}
	var n countWriter
	for b.Loop() {
		n = 0
		if err := Write(&n, recs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/1000, "bytes/record")
}

type countWriter int

func (c *countWriter) Write(p []byte) (int, error) {
	*c += countWriter(len(p))
	return len(p), nil
}
