package sim

import (
	"net/http"

	"h100-inference-control-plane/runner/sim/model"
)

// answer writes one answer.
type answer struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	q      *query
	out    *stream
	enc    *writer
	cut    cut
	sent   int // tokens
	chunks int
}

// wait returns when there is news about the stream: its state, and its tokens so far. ok is false when nobody is there
// to hear more.
func (a *answer) wait() (state int32, emitted int, ok bool) {
	select {
	case <-a.out.signal:
	case <-a.r.Context().Done():
		a.s.abort(a.out, "")
		return 0, 0, false
	case <-a.s.loopDone:
		state, emitted = a.out.look()
		if state == open {
			state = a.s.ending()
		}
		return state, emitted, true
	}
	state, emitted = a.out.look()
	return state, emitted, true
}

// ending is how a stream ends whose engine is gone before it was known to it.
func (s *Server) ending() int32 {
	switch s.Fate() {
	case Dead:
		return dead
	case Killed:
		return broken
	}
	return closed
}

// stream sends server-sent events. Tokens that are there together are sent in one write, each in its own chunk (or
// stream-interval many in one): what arrives is the same however busy the machine is.
func (a *answer) stream() int {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(a.w)
	a.s.access(a.r, 200)
	a.w.WriteHeader(200)
	if a.s.faults.keepAlive > 0 {
		a.enc.buf = append(a.enc.buf, keepAliveComment...)
		a.put(flush)
	}
	for {
		state, emitted, ok := a.wait()
		if !ok {
			return 200
		}
		if a.cut.after > 0 && emitted >= a.cut.after && state != refused {
			a.cutOff(emitted)
			a.put(flush)
			return 200
		}
		a.chunksUpTo(emitted, state)
		over := a.finish(state)
		if !a.put(flush) {
			a.s.abort(a.out, "")
			return 200
		}
		if over {
			return 200
		}
	}
}

// put sends what is rendered; false when the client is gone.
func (a *answer) put(flush *http.ResponseController) bool {
	if len(a.enc.buf) == 0 {
		return true
	}
	_, err := a.w.Write(a.enc.buf)
	a.enc.buf = a.enc.buf[:0]
	return err == nil && flush.Flush() == nil
}

// chunksUpTo renders the tokens that have come, the first alone, then as many to a chunk as the interval says.
func (a *answer) chunksUpTo(emitted int, state int32) {
	every := a.s.set.interval
	for a.sent < emitted {
		n := 1
		if a.sent > 0 {
			n = every
		}
		last := a.sent+n >= emitted && state == finished
		if a.sent+n > emitted && !last {
			return
		}
		a.chunk(min(a.sent+n, emitted), last)
	}
}

// chunk renders the tokens after those sent, up to the to-th.
func (a *answer) chunk(to int, last bool) {
	if a.sent == 0 && a.q.chat {
		a.enc.role()
	}
	finish := model.Unfinished
	if last {
		finish = a.out.seq.Finish
	}
	a.enc.tokens(a.sent, to, finish)
	a.sent = to
	a.chunks++
	if k := a.s.faults.keepAlive; k > 0 && a.chunks%k == 0 {
		a.enc.buf = append(a.enc.buf, keepAliveComment...)
	}
}

// cutOff is the end that a fault asked for.
func (a *answer) cutOff(emitted int) {
	for a.sent < min(emitted, a.cut.after) {
		a.chunk(a.sent+1, false)
	}
	if a.cut.truncate {
		a.s.abort(a.out, "")
		return
	}
	a.s.abort(a.out, "error")
	a.enc.failure("SIMULATED: the fault error-mid-stream was asked for")
	a.enc.done()
}

// finish renders the end that the state asks for, and reports whether there is one.
func (a *answer) finish(state int32) bool {
	switch state {
	case open:
		return false
	case finished:
		if a.q.includeUsage && !a.s.faults.emptyUsage {
			a.enc.total(a.sent, a.cached())
		}
		a.enc.done()
	case dead:
		a.enc.failure(deadMessage)
		a.enc.done()
	case refused:
		a.enc.failure(a.out.err.Error())
		a.enc.done()
	case broken:
		panic(http.ErrAbortHandler) // net/http's way to break a connection
	}
	return true
}

// cached is for usage's details; -1 leaves them out.
func (a *answer) cached() int {
	if !a.s.set.promptDetails {
		return -1
	}
	return a.out.seq.Cached
}

// whole waits for the end and sends one object.
func (a *answer) whole(id string, created int64) int {
	for {
		state, emitted, ok := a.wait()
		switch {
		case !ok:
			return 499
		case a.cut.after > 0 && emitted >= a.cut.after && state != refused:
			a.s.abort(a.out, "error")
			return a.s.refuse(a.w, a.r, &apiError{Status: 500, Message: "SIMULATED: the fault error-mid-stream was asked for", Type: "InternalServerError"})
		case state == open:
			continue
		case state == finished:
			return a.s.json(a.w, a.r, 200, a.object(id, created, emitted))
		case state == refused:
			return a.s.refuse(a.w, a.r, badRequest("", "%v", a.out.err))
		case state == broken:
			panic(http.ErrAbortHandler) // as above
		default:
			return a.s.refuse(a.w, a.r, &apiError{Status: 500, Message: deadMessage, Type: "InternalServerError"})
		}
	}
}

// object is the answer that is not streamed.
func (a *answer) object(id string, created int64, n int) section {
	a.enc.text(0, n)
	text := string(a.enc.buf)
	choice := section{"index": 0, "logprobs": nil, "finish_reason": a.out.seq.Finish, "stop_reason": nil, "token_ids": nil}
	out := section{
		"id": id, "created": created, "model": a.q.model, "choices": []section{choice},
		"system_fingerprint": a.s.fingerprint(), "service_tier": nil,
	}
	if a.q.chat {
		out["object"] = "chat.completion"
		choice["message"] = section{"role": "assistant", "content": text, "refusal": nil, "reasoning": nil}
	} else {
		out["object"] = "text_completion"
		choice["text"] = text
	}
	if !a.s.faults.emptyUsage {
		p := len(a.q.tokens)
		usage := section{"prompt_tokens": p, "total_tokens": p + n, "completion_tokens": n, "prompt_tokens_details": nil}
		if c := a.cached(); c >= 0 {
			usage["prompt_tokens_details"] = section{"cached_tokens": c}
		}
		out["usage"] = usage
	}
	return out
}
