package sim

import (
	"encoding/json"
	"strconv"
	"sync/atomic"

	"h100-inference-control-plane/runner/sim/model"
)

// stream is one request between the engine's loop and its handler. The loop only counts: which token comes n-th is a
// function of the prompt, so nothing but a number is handed over, and one wake-up serves one step.
type stream struct {
	// now is the state (high 32 bits) and the tokens so far (low 32 bits) in one word: a handler that sees the last
	// token must see that it is the last, or it sends it without a finish_reason.
	now    atomic.Int64
	gone   atomic.Bool // nobody listens any more
	signal chan struct{}
	seq    *model.Seq // set by the loop; the handler reads it after an end
	err    error      // set by the loop before refused
}

// States of a stream.
const (
	open     int32 = iota
	finished       // all tokens are there
	refused        // the engine cannot run it
	dead           // the engine died
	broken         // the process "was killed"
	closed         // the server was closed
)

func newStream() *stream { return &stream{signal: make(chan struct{}, 1)} }

func (o *stream) notify() {
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// emit says that there are n tokens, and with finished that there will be no more.
func (o *stream) emit(n int, state int32) { o.now.Store(int64(state)<<32 | int64(n)) }

// end ends the stream with the tokens that there are.
func (o *stream) end(how int32) {
	_, n := o.look()
	o.emit(n, how)
	o.notify()
}

// look returns the state and the tokens so far, of one moment.
func (o *stream) look() (state int32, emitted int) {
	v := o.now.Load()
	return int32(v >> 32), int(int32(v))
}

// writer renders the chunks of one answer in vLLM's shape, piece by piece the same bytes.
type writer struct {
	chat        bool
	head        []byte // up to and including `"choices":[`
	prompt      []int32
	hash        uint64
	prof        *model.Profile
	continuous  bool
	tokenIDs    bool
	details     bool // usage has completion_tokens_details (0.32 and later)
	fingerprint string
	buf         []byte
}

func newWriter(s *Server, q *query, id string, created int64) *writer {
	w := &writer{
		chat: q.chat, prompt: q.tokens, hash: model.PromptHash(q.tokens), prof: s.prof,
		continuous: q.continuous, tokenIDs: q.returnTokenIDs, details: !s.rel.before(0, 32), fingerprint: s.fingerprint(),
	}
	object := "text_completion"
	if w.chat {
		object = "chat.completion.chunk"
	}
	name, _ := json.Marshal(q.model) // a string always encodes
	w.head = append(w.head, `{"id":"`+id+`","object":"`+object+`","created":`+strconv.FormatInt(created, 10)+`,"model":`+string(name)+`,"choices":[`...)
	return w
}

func (w *writer) begin() {
	w.buf = append(w.buf, "data: "...)
	w.buf = append(w.buf, w.head...)
}

// role is a chat's first chunk.
func (w *writer) role() {
	w.begin()
	w.buf = append(w.buf, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if w.continuous {
		w.usage(0, -1, true)
	}
	w.buf = append(w.buf, `,"prompt_token_ids":`...)
	if w.tokenIDs {
		w.ids(w.prompt)
	} else {
		w.buf = append(w.buf, "null"...)
	}
	w.buf = append(w.buf, `,"prompt_text":null}`+"\n\n"...)
}

// tokens is a chunk with the tokens from+1 to to; finish is "" before the last.
func (w *writer) tokens(from, to int, finish model.Reason) {
	w.begin()
	w.buf = append(w.buf, `{"index":0,"`...)
	if w.chat {
		w.buf = append(w.buf, `delta":{"content":"`...)
	} else {
		w.buf = append(w.buf, `text":"`...)
	}
	w.text(from, to)
	w.buf = append(w.buf, '"')
	if w.chat {
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, `,"logprobs":null,"finish_reason":`...)
	if finish == model.Unfinished {
		w.buf = append(w.buf, "null"...)
	} else {
		w.buf = append(append(append(w.buf, '"'), finish...), '"')
	}
	if !w.chat || finish != model.Unfinished {
		w.buf = append(w.buf, `,"stop_reason":null`...)
	}
	if !w.chat {
		w.promptIDs(from)
	}
	w.buf = append(w.buf, `,"token_ids":`...)
	w.outputIDs(from, to)
	w.buf = append(w.buf, "}]"...)
	if w.continuous {
		w.usage(to, -1, true)
	}
	w.buf = append(w.buf, "}\n\n"...)
}

func (w *writer) promptIDs(from int) {
	w.buf = append(w.buf, `,"prompt_token_ids":`...)
	if w.tokenIDs && from == 0 {
		w.ids(w.prompt)
		return
	}
	w.buf = append(w.buf, "null"...)
}

func (w *writer) outputIDs(from, to int) {
	if !w.tokenIDs {
		w.buf = append(w.buf, "null"...)
		return
	}
	w.buf = append(w.buf, '[')
	for n := from + 1; n <= to; n++ {
		if n > from+1 {
			w.buf = append(w.buf, ',')
		}
		w.buf = strconv.AppendInt(w.buf, int64(w.prof.OutputToken(w.hash, n)), 10)
	}
	w.buf = append(w.buf, ']')
}

// text appends the words of some tokens: " t123 t45".
func (w *writer) text(from, to int) {
	for n := from + 1; n <= to; n++ {
		w.buf = append(w.buf, " t"...)
		w.buf = strconv.AppendInt(w.buf, int64(w.prof.OutputToken(w.hash, n)), 10)
	}
}

func (w *writer) ids(list []int32) {
	w.buf = append(w.buf, '[')
	for i, id := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = strconv.AppendInt(w.buf, int64(id), 10)
	}
	w.buf = append(w.buf, ']')
}

// usage appends the field; cached below 0 leaves the prompt's details out.
func (w *writer) usage(n, cached int, chunk bool) {
	p := int64(len(w.prompt))
	w.buf = append(w.buf, `,"usage":{"prompt_tokens":`...)
	w.buf = strconv.AppendInt(w.buf, p, 10)
	w.buf = append(w.buf, `,"total_tokens":`...)
	w.buf = strconv.AppendInt(w.buf, p+int64(n), 10)
	w.buf = append(w.buf, `,"completion_tokens":`...)
	w.buf = strconv.AppendInt(w.buf, int64(n), 10)
	if cached >= 0 {
		w.buf = append(w.buf, `,"prompt_tokens_details":{"cached_tokens":`...)
		w.buf = strconv.AppendInt(w.buf, int64(cached), 10)
		w.buf = append(w.buf, '}')
	}
	if w.details && chunk {
		w.buf = append(w.buf, `,"completion_tokens_details":null`...)
	}
	w.buf = append(w.buf, '}')
}

// total is the last chunk, with usage and no choice.
func (w *writer) total(n, cached int) {
	w.begin()
	w.buf = append(w.buf, ']')
	w.usage(n, cached, false)
	w.buf = append(w.buf, `,"system_fingerprint":"`...)
	w.buf = append(w.buf, w.fingerprint...)
	w.buf = append(w.buf, `"}`+"\n\n"...)
}

const doneEvent = "data: [DONE]\n\n"

func (w *writer) done() { w.buf = append(w.buf, doneEvent...) }

const (
	keepAliveComment = ": keep-alive\n\n"
	deadMessage      = "EngineCore encountered an issue. See stack trace (above) for the root cause."
)

// failure is an error inside a stream. vLLM writes this one with spaces.
func (w *writer) failure(message string) {
	text, _ := json.Marshal(message) // a string always encodes
	w.buf = append(w.buf, `data: {"error": {"message": `...)
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, `, "type": "InternalServerError", "param": null, "code": 500}}`+"\n\n"...)
}
