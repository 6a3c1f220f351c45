package sse

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reference reads a whole stream in the plainest way the standard allows.
func reference(in string) []string {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	lines := strings.Split(in, "\n")
	lines = lines[:len(lines)-1] // what no line end follows is no line
	var out, data []string
	for _, line := range lines {
		if line == "" {
			if data != nil {
				out = append(out, strings.Join(data, "\n"))
			}
			data = nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if name == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return out
}

// pieces gives a stream in pieces of the lengths in sizes, over and over.
type pieces struct {
	in    []byte
	sizes []byte
	i     int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := len(p.in)
	if len(p.sizes) > 0 {
		n = int(p.sizes[p.i%len(p.sizes)])%64 + 1
		p.i++
	}
	n = copy(b, p.in[:min(n, len(p.in))])
	p.in = p.in[n:]
	return n, nil
}

// FuzzSSE compares the reader with the reference at any split, and the decoder, which learns from the events before,
// with encoding/json on each event alone.
func FuzzSSE(f *testing.F) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal("no recorded streams", err)
	}
	for _, name := range files {
		in, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		in = in[:min(len(in), 3000)]
		f.Add(in, []byte{})
		f.Add(bytes.ReplaceAll(in, []byte("\n"), []byte("\r\n")), []byte{3, 60, 0})
	}
	for _, in := range []string{
		"\ufeffdata:a\r\rdata\ndata: b\n\n: c\nid: 1\n\n",
		"data: " + content(`"a"`) + "\n\ndata: " + content(`"\"b\\"`) + "\n\ndata: " + content(`""`) + "\n\n",
		"data: " + content(`"0"`) + "\n\ndata: " + content(`"0","reasoning":"x"`) + "\n\ndata: " + content(`"1"`) + "\n\n",
		"data: " + content(`"a"`) + "\n\ndata: " + content("\"\xff\\u00\"") + "\n\ndata: [DONE]\n\n",
		`data: {"choices":[{"delta":{"content":"a"},"logprobs":{"content":"b"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":""},"logprobs":{"content":"b"}}]}` + "\n\n",
		`data: {"logprobs":{"content":"a"},"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"logprobs":{"content":"b"},"choices":[{"delta":{"content":""}}]}` + "\n\n",
	} {
		f.Add([]byte(in), []byte{0})
		f.Add([]byte(in), []byte{7, 1})
	}
	f.Fuzz(func(t *testing.T, in, sizes []byte) {
		want := reference(string(in))
		var r Reader
		var d Decoder
		r.Reset(&pieces{in: in, sizes: sizes}, 0)
		for i := 0; ; i++ {
			data, err := r.Next()
			if err != nil {
				if err != io.EOF || i != len(want) {
					t.Fatalf("%v after %d events, want %d", err, i, len(want))
				}
				return
			}
			if i >= len(want) || string(data) != want[i] {
				t.Fatalf("event %d is %q, want %q", i, data, want)
			}
			var fast, slow Chunk
			fastErr := d.Decode(data, &fast)
			_, slowErr := decodeJSON(data, &slow)
			if (fastErr == nil) != (slowErr == nil) || (slowErr == nil && fast != slow) {
				t.Fatalf("event %q: %+v, %v by what was learnt (%q … %q); %+v, %v by encoding/json", data, fast, fastErr, d.before, d.behind, slow, slowErr)
			}
		}
	})
}
