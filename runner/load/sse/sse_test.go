package sse

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// events reads a whole stream.
func events(src io.Reader, limit int) ([]string, error) {
	var r Reader
	r.Reset(src, limit)
	var out []string
	for {
		data, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				return out, errors.New("the error did not stay")
			}
			return out, err
		}
		out = append(out, string(data))
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"two events", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"a mixture of ends", "data: a\r\n\ndata: b\n\rdata: c\r\r\n", []string{"a", "b", "c"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"only one space goes", "data:  a \n\n", []string{" a "}},
		{"a colon in the value", "data: a: b\n\n", []string{"a: b"}},
		{"several fields", "data: a\ndata: b\ndata:\ndata: c\n\n", []string{"a\nb\n\nc"}},
		{"comments", ": keep-alive\n\n:\n\ndata: a\n: inside\n\n", []string{"a"}},
		{"other fields", "event: ping\nid: 7\nretry: 10\ndata: a\nid\nunknown: x\n\n", []string{"a"}},
		{"names that only begin like data", "database: x\ndat: y\ndata2: z\nDATA: w\n\ndata: a\n\n", []string{"a"}},
		{"an event without data", "event: ping\n\ndata: a\n\n", []string{"a"}},
		{"empty data", "data:\n\ndata\n\ndata: \n\n", []string{"", "", ""}},
		{"two empty data fields", "data\ndata\n\n", []string{"\n"}},
		{"byte order mark", "\ufeffdata: a\n\n", []string{"a"}},
		{"only the first is a mark", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []string{"b"}},
		{"no blank line at the end", "data: a\n\ndata: lost\n", []string{"a"}},
		{"no line end at the end", "data: a\n\ndata: lost", []string{"a"}},
		{"blank lines", "\n\n\r\n\rdata: a\n\n\n\n", []string{"a"}},
		{"nothing", "", nil},
		{"half a mark", "\xef\xbb", nil},
		{"longer than the buffer", "data: " + strings.Repeat("x", 50_000) + "\n\ndata: b\n\n", []string{strings.Repeat("x", 50_000), "b"}},
	} {
		for how, src := range map[string]io.Reader{
			"at once":         strings.NewReader(c.in),
			"byte by byte":    iotest.OneByteReader(strings.NewReader(c.in)),
			"halves":          iotest.HalfReader(strings.NewReader(c.in)),
			"error with data": iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			got, err := events(src, 0)
			if err != io.EOF || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, %s: %.80q, %v; want %.80q", c.name, how, got, err, c.want)
			}
		}
	}
}

func TestReaderFailure(t *testing.T) {
	broken := errors.New("broken")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken))
	if got, err := events(src, 0); err != broken || !reflect.DeepEqual(got, []string{"a"}) {
		t.Errorf("a broken source: %q, %v", got, err)
	}
	for name, in := range map[string]string{
		"a line":   "data: a\n\ndata: " + strings.Repeat("x", 20_000) + "\n\n",
		"an event": "data: a\n\n" + strings.Repeat("data: xxxxxxxx\n", 2_000) + "\n",
	} {
		if got, err := events(iotest.OneByteReader(strings.NewReader(in)), 10_000); err != ErrTooLong || !reflect.DeepEqual(got, []string{"a"}) {
			t.Errorf("%s over the limit: %.80q, %v", name, got, err)
		}
	}
	if _, err := events(strings.NewReader("data: "+strings.Repeat("x", 9_000)+"\n\n"), 10_000); err != io.EOF {
		t.Errorf("a line under the limit: %v", err)
	}
	if _, err := events(idle{}, 0); err != io.ErrNoProgress {
		t.Errorf("a source that gives nothing: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestBuffered(t *testing.T) {
	var r Reader
	r.Reset(strings.NewReader("data: a\n\ndata: bc\n\ndata: d"), 0)
	for i, want := range []int{17, 7} {
		if _, err := r.Next(); err != nil || r.Buffered() != want {
			t.Errorf("behind event %d are %d bytes, want %d (%v)", i, r.Buffered(), want, err)
		}
	}
}

// TestReset reads a second stream with the same reader, after one that ended in the middle of an event.
func TestReset(t *testing.T) {
	var r Reader
	for range 2 {
		r.Reset(strings.NewReader("\ufeffdata: a\r\r\ndata: lost\r"), 0)
		if got, err := r.Next(); err != nil || string(got) != "a" {
			t.Fatalf("%q, %v", got, err)
		}
		if got, err := r.Next(); err != io.EOF {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func content(s string) string {
	return `{"id":"x","choices":[{"index":0,"delta":{"content":` + s + `},"logprobs":null,"finish_reason":null}]}`
}

// TestDecode gives each event twice in a row to a decoder that has learnt an ordinary stream, and once to a fresh one.
func TestDecode(t *testing.T) {
	none := noUsage()
	token := Chunk{Token: true, Content: true, Usage: none}
	for _, c := range []struct {
		name, in string
		want     Chunk
	}{
		{"content", content(`" a"`), token},
		{"empty content", content(`""`), Chunk{Usage: none}},
		{"null content", content(`null`), Chunk{Usage: none}},
		{"a quote in it", content(`"a\"b"`), token},
		{"only a quote", content(`"\""`), token},
		{"a backslash at the end", content(`"a\\"`), token},
		{"escapes", content(`"\n\t\u00e9\ud83d\ude00"`), token},
		{"half a surrogate pair", content(`"\ud83d"`), token},
		{"text that looks like an event", content(`"\"},\"finish_reason\":\"stop\"}]} \"content\":\""`), token},
		{"broken UTF-8", content("\"\xff\""), token},
		{"role", `{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, Chunk{Usage: none}},
		{"spaces", `{ "choices": [ { "delta": { "content": "a" } } ] }`, token},
		{"finish with content", `{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`, Chunk{Token: true, Content: true, Finish: "length", Usage: none}},
		{"finish without content", `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, Chunk{Finish: "stop", Usage: none}},
		{"completions", `{"choices":[{"text":" a","logprobs":null,"finish_reason":null}]}`, token},
		{"completions, empty", `{"choices":[{"text":"","finish_reason":null}]}`, Chunk{Usage: none}},
		{"reasoning", `{"choices":[{"delta":{"reasoning":"hm"}}]}`, Chunk{Token: true, Usage: none}},
		{"reasoning of older releases", `{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, Chunk{Token: true, Usage: none}},
		{"reasoning beside an empty content", `{"choices":[{"delta":{"content":"","reasoning":"hm"}}]}`, Chunk{Token: true, Usage: none}},
		{"tool call", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"content\":\"x\"}"}}]}}]}`, Chunk{Token: true, Usage: none}},
		{"no tool call", `{"choices":[{"delta":{"tool_calls":[]}}]}`, Chunk{Usage: none}},
		{"content among log probabilities only", `{"choices":[{"delta":{"content":""},"logprobs":{"content":[{"token":"a","content":"x"}]},"finish_reason":null}]}`, Chunk{Usage: none}},
		{"content outside of the choices", `{"content":"x","choices":[]}`, Chunk{Usage: none}},
		{"content twice, the last one empty", `{"choices":[{"delta":{"content":"a","content":""}}]}`, Chunk{Usage: none}},
		{"second choice", `{"choices":[{"delta":{"content":""}},{"delta":{"content":"a"}}]}`, token},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":6,"total_tokens":10,"completion_tokens":4}}`, Chunk{Usage: Usage{6, 4, -1}}},
		{"usage with cache", `{"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}}`, Chunk{Usage: Usage{6, 4, 2}}},
		{"usage without details", `{"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":4,"prompt_tokens_details":null}}`, Chunk{Usage: Usage{6, 4, -1}}},
		{"usage null", `{"choices":[{"delta":{"content":"a"}}],"usage":null}`, token},
		{"usage in every chunk", `{"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":6,"completion_tokens":1}}`, Chunk{Token: true, Content: true, Usage: Usage{6, 1, -1}}},
		{"done", `[DONE]`, Chunk{Kind: Done, Usage: none}},
		{"empty", ` `, Chunk{Usage: none}},
		{"error", `{"error": {"message": "no", "code": 500}}`, Chunk{Kind: Error, Message: "no", Usage: none}},
		{"error in an ordinary chunk", `{"choices":[{"delta":{"content":"a"}}],"error":"no"}`, Chunk{Kind: Error, Message: "no", Usage: none}},
		{"error null", `{"choices":[{"delta":{"content":"a"}}],"error":null}`, token},
		{"error of old releases", `{"object":"error","message":"no","code":400}`, Chunk{Kind: Error, Message: "no", Usage: none}},
		{"another object", `{"type":"ping"}`, Chunk{Usage: none}},
	} {
		var fresh, learnt Decoder
		var got Chunk
		for _, s := range []string{`"x"`, `" y"`, `"z\n"`} {
			if err := learnt.Decode([]byte(content(s)), &got); err != nil || got != token {
				t.Fatalf("%s: %+v, %v", s, got, err)
			}
		}
		if len(learnt.before) == 0 {
			t.Fatal("an ordinary stream taught nothing")
		}
		for _, d := range []*Decoder{&fresh, &learnt, &learnt} {
			if err := d.Decode([]byte(c.in), &got); err != nil || got != c.want {
				t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
			}
		}
	}
}

func TestDecodeFailure(t *testing.T) {
	for _, in := range []string{
		"{", "hello", "[]", "17", content(`"a"`) + "}", content(`5`), content("\"a\nb\""), content(`"\x"`), content(`"\u12g4"`), content(`"\u12"`),
		content(`"a`), content(`a"`), content(`"a\"`), content(`"a""`),
		`{"choices":[],"usage":{"prompt_tokens":-1}}`, `{"choices":[],"usage":{"completion_tokens":99999999999}}`, `{"choices":[],"usage":{"completion_tokens":1.5}}`,
		`{"choices":{}}`, `{"choices":[{"finish_reason":5}]}`,
	} {
		var d Decoder
		var c Chunk
		for range 2 {
			if err := d.Decode([]byte(content(`"x"`)), &c); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Decode([]byte(in), &c); err == nil {
			t.Errorf("%s: %+v and no error", in, c)
		}
	}
}

// TestLearnsAgain follows a reasoning model, and a stream whose every chunk differs in more than its text.
func TestLearnsAgain(t *testing.T) {
	var d Decoder
	var c Chunk
	reasoning := func(s string) []byte { return []byte(`{"choices":[{"delta":{"reasoning":"` + s + `"}}]}`) }
	for _, s := range []string{"a", "b", "c"} {
		if err := d.Decode(reasoning(s), &c); err != nil || !c.Token || c.Content {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if !d.matches(reasoning("d")) {
		t.Error("the reasoning was not learnt")
	}
	for range 2 {
		if err := d.Decode([]byte(content(`"a"`)), &c); err != nil || !c.Content {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if !d.matches([]byte(content(`"b"`))) || d.matches(reasoning("d")) {
		t.Error("the answer was not learnt after the reasoning")
	}
	for i := range 100 {
		in := `{"choices":[{"delta":{"content":"a"},"token_ids":[` + strings.Repeat("1", i%20+1) + `]}]}`
		if err := d.Decode([]byte(in), &c); err != nil || !c.Content {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if d.learnt != maxLearn {
		t.Errorf("learnt %d times", d.learnt)
	}
	d.Reset()
	if d.matches([]byte(content(`"b"`))) || d.learnt != 0 {
		t.Error("Reset forgot nothing")
	}
}

// TestRecorded reads what real servers sent.
func TestRecorded(t *testing.T) {
	for _, c := range []struct {
		file   string
		tokens int
		finish string
		usage  Usage
		failed string
	}{
		{"vllm-0.25.1-chat.sse", 128, "length", Usage{334, 128, -1}, ""},
		{"vllm-0.25.1-completions.sse", 4, "length", Usage{3, 4, -1}, ""},
		{"vllm-0.25.1-continuous-usage.sse", 4, "length", Usage{6, 4, -1}, ""},
		{"vllm-0.25.1-engine-died.sse", 1, "", noUsage(), "EngineCore encountered an issue. See stack trace (above) for the root cause."},
		{"vllm-0.32.0-chat.sse", 4, "length", Usage{5, 4, -1}, ""},
		{"vllm-0.32.0-continuous-usage.sse", 3, "length", Usage{5, 4, -1}, ""}, // two tokens came in one chunk
	} {
		in, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		var r Reader
		r.Reset(bytes.NewReader(in), 0)
		var d Decoder
		tokens, finish, failed, done, usage := 0, "", "", 0, noUsage()
		for {
			data, err := r.Next()
			if err == io.EOF {
				break
			}
			var ch Chunk
			if err := errors.Join(err, d.Decode(data, &ch)); err != nil {
				t.Fatalf("%s: %v", c.file, err)
			}
			if ch.Token {
				tokens++
			}
			if ch.Finish != "" {
				finish = ch.Finish
			}
			if ch.Usage != noUsage() {
				usage = ch.Usage
			}
			if ch.Kind == Done {
				done++
			}
			failed += ch.Message
		}
		if tokens != c.tokens || finish != c.finish || usage != c.usage || failed != c.failed || done != 1 {
			t.Errorf("%s: %d tokens, finish %q, usage %v, error %q, %d × [DONE]", c.file, tokens, finish, usage, failed, done)
		}
	}
}

func TestMessage(t *testing.T) {
	for in, want := range map[string]string{
		`{"error":{"message":"too long","type":"BadRequestError","code":400}}`: "too long",
		`{"error":"plain"}`:                 "plain",
		`{"error":{"code":5}}`:              `{"code":5}`,
		`{"detail":"Not Found"}`:            "Not Found",
		`{"detail":[{"loc":1}]}`:            `[{"loc":1}]`,
		`{"object":"error","message":"no"}`: "no",
		`{"error":null,"message":"no"}`:     "no",
		`{"other":1}`:                       `{"other":1}`,
		"  Bad Gateway\n":                   "Bad Gateway",
		"":                                  "",
	} {
		if got := Message([]byte(in)); got != want {
			t.Errorf("Message(%s) = %q, want %q", in, got, want)
		}
	}
}

// TestNoAllocations holds the promise of the hot path.
func TestNoAllocations(t *testing.T) {
	in := stream(t)
	var r Reader
	var d Decoder
	var c Chunk
	src := &repeat{in: in}
	r.Reset(src, 0)
	next := func() {
		data, err := r.Next()
		if err != nil || d.Decode(data, &c) != nil || !c.Content {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	next()
	next()
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// stream is the token events of a recorded answer.
func stream(t testing.TB) []byte {
	t.Helper()
	in, err := os.ReadFile("testdata/vllm-0.25.1-chat.sse")
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(in, []byte("\n\n"))
	return bytes.Join(all[1:128], nil) // without role, finish and usage
}

// repeat gives one event a read, for ever, as a server that makes a token at a time.
type repeat struct {
	in  []byte
	pos int
}

func (r *repeat) Read(p []byte) (int, error) {
	rest := r.in[r.pos:]
	n := bytes.Index(rest, []byte("\n\n")) + 2
	r.pos = (r.pos + n) % len(r.in)
	return copy(p, rest[:n]), nil
}

func BenchmarkEvent(b *testing.B) {
	in := stream(b)
	b.Run("read and decode", func(b *testing.B) {
		var r Reader
		var d Decoder
		var c Chunk
		r.Reset(&repeat{in: in}, 0)
		b.ReportAllocs()
		for b.Loop() {
			data, err := r.Next()
			if err != nil || d.Decode(data, &c) != nil {
				b.Fatal(err)
			}
		}
	})
	event := bytes.TrimSuffix(bytes.TrimPrefix(in[:bytes.Index(in, []byte("\n\n"))], []byte("data: ")), []byte("\n\n"))
	b.Run("decode", func(b *testing.B) {
		var d Decoder
		var c Chunk
		b.ReportAllocs()
		for b.Loop() {
			if err := d.Decode(event, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode with encoding json", func(b *testing.B) {
		var c Chunk
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeJSON(event, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
