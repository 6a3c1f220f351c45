package sse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Kind says what an event is.
type Kind uint8

// The kinds of event.
const (
	Delta Kind = iota // a chunk of a completion; possibly one that carries nothing
	Done              // [DONE]
	Error             // the server reports a failure inside its 200 answer
)

// Chunk is what one event says.
type Chunk struct {
	Kind    Kind
	Token   bool // a content, reasoning or tool-call delta that is not empty, of any choice
	Content bool // a content (chat) or text (completions) delta that is not empty
	Finish  string
	Message string // Kind Error: the server's words
	Usage   Usage
}

// Usage is what the server counted. Each count is -1 when it was not reported.
type Usage struct {
	Prompt, Completion, Cached int32
}

func noUsage() Usage { return Usage{-1, -1, -1} }

// Decoder reads the events of one stream after another; call Reset between two. It is not safe for concurrent use.
//
// Decoding JSON costs twenty times as much as all the rest of an event. Nearly all events of a stream are equal but
// for one string, so the decoder learns their bytes before and behind that string, from an event that was decoded with
// encoding/json, and proves the place by decoding the same event with another string there. An event between the same
// bytes, with the body of a JSON string in the middle, then decodes to the same chunk: what stands before the string
// puts the parser into it, and only a quote gets it out. Everything else (role, finish, usage, error, tool calls,
// log probabilities, usage in every chunk) goes through encoding/json.
type Decoder struct {
	before, behind []byte // a token event is before + string body + behind
	content        bool   // the string is content or text, and not reasoning
	learnt         int    // how often something was learnt in this stream
	probe          []byte
}

// maxLearn bounds what a stream costs whose chunks differ in more than the string. Two are normal for a reasoning
// model: one for the reasoning, one for the answer.
const maxLearn = 6

// Reset forgets the stream; ids and names in the next one differ.
func (d *Decoder) Reset() { d.before, d.behind, d.learnt = d.before[:0], d.behind[:0], 0 }

// Decode reads the data of one event into c. An event that is neither [DONE] nor JSON of the expected types is an
// error. Data without any byte but spaces is a Delta with nothing in it. It keeps no part of data.
func (d *Decoder) Decode(data []byte, c *Chunk) error {
	if d.matches(data) {
		*c = Chunk{Token: true, Content: d.content, Usage: noUsage()}
		return nil
	}
	w, err := decodeJSON(data, c)
	if err != nil || d.learnt >= maxLearn {
		return err
	}
	d.learn(data, w, c)
	return nil
}

// matches reports whether data is the event that was learnt with another string in it that is not empty.
func (d *Decoder) matches(data []byte) bool {
	n, m := len(d.before), len(d.behind)
	return n > 0 && len(data) > n+m && bytes.HasPrefix(data, d.before) && bytes.HasSuffix(data, d.behind) && stringBody(data[n:len(data)-m])
}

// stringBody reports whether s can stand between the quotes of a JSON string.
func stringBody(s []byte) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			n := escape(s[i+1:])
			if n == 0 {
				return false
			}
			i += n
		case c == '"' || c < 0x20:
			return false
		}
	}
	return true
}

// escape is the number of bytes of the escape that s begins with, behind its backslash; 0 = it is none.
func escape(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	switch s[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(s) < 5 {
			return 0
		}
		for _, c := range s[1:5] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}

// learn takes an event as the pattern of those to come, if it is a token event with nothing else in it.
func (d *Decoder) learn(data []byte, w wire, c *Chunk) {
	value, ok := w.onlyString(c)
	if !ok {
		return
	}
	d.learnt++
	for _, name := range [...]string{"content", "text", "reasoning", "reasoning_content"} {
		from, to, ok := locate(data, name)
		if !ok {
			continue
		}
		// Any string will do, as long as it is another one.
		other := byte('0')
		if value == "0" {
			other = '1'
		}
		d.probe = append(append(append(d.probe[:0], data[:from]...), other), data[to:]...)
		var pc Chunk
		pw, err := decodeJSON(d.probe, &pc)
		if err != nil || pc != *c {
			continue
		}
		if got, ok := pw.onlyString(&pc); ok && len(got) == 1 && got[0] == other {
			d.before, d.behind = append(d.before[:0], data[:from]...), append(d.behind[:0], data[to:]...)
			d.content = c.Content
			return
		}
	}
}

// locate finds the first "name":"…" in data, with or without a space behind the colon: the string's body is
// data[from:to].
func locate(data []byte, name string) (from, to int, ok bool) {
	var key [32]byte
	k := append(append(append(key[:0], '"'), name...), '"', ':')
	i := bytes.Index(data, k)
	if i < 0 {
		return 0, 0, false
	}
	from = i + len(k)
	if from < len(data) && data[from] == ' ' {
		from++
	}
	if from >= len(data) || data[from] != '"' {
		return 0, 0, false
	}
	from++
	for to = from; to < len(data); to++ {
		switch data[to] {
		case '\\':
			to++
		case '"':
			return from, to, true
		}
	}
	return 0, 0, false
}

// wire is what of an event is looked at.
type wire struct {
	Object  string `json:"object"`
	Message string `json:"message"`
	Choices []struct {
		Delta        delta   `json:"delta"`
		Text         string  `json:"text"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *wireUsage      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// delta has both names of reasoning: vLLM called it reasoning_content up to 0.15 and reasoning since.
type delta struct {
	Content          string            `json:"content"`
	Reasoning        string            `json:"reasoning"`
	ReasoningContent string            `json:"reasoning_content"`
	ToolCalls        []json.RawMessage `json:"tool_calls"`
}

type wireUsage struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Details    *struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// decodeJSON is the definition of what an event means; the fast path must agree with it.
func decodeJSON(data []byte, c *Chunk) (wire, error) {
	*c = Chunk{Usage: noUsage()}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		c.Kind = Done
		return wire{}, nil
	}
	if len(data) == 0 {
		return wire{}, nil
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return wire{}, fmt.Errorf("decode an event: %w", err)
	}
	if len(w.Error) > 0 && string(w.Error) != "null" || w.Object == "error" {
		c.Kind, c.Message = Error, Message(data)
		return wire{}, nil
	}
	for _, ch := range w.Choices {
		content := ch.Delta.Content != "" || ch.Text != ""
		c.Content = c.Content || content
		c.Token = c.Token || content || ch.Delta.Reasoning != "" || ch.Delta.ReasoningContent != "" || len(ch.Delta.ToolCalls) > 0
		if ch.FinishReason != nil && *ch.FinishReason != "" {
			c.Finish = *ch.FinishReason
		}
	}
	return w, w.usage(&c.Usage)
}

func (w *wire) usage(u *Usage) error {
	if w.Usage == nil {
		return nil
	}
	var cached *int64
	if w.Usage.Details != nil {
		cached = w.Usage.Details.Cached
	}
	for _, f := range [...]struct {
		from *int64
		to   *int32
	}{{w.Usage.Prompt, &u.Prompt}, {w.Usage.Completion, &u.Completion}, {cached, &u.Cached}} {
		if f.from == nil {
			continue
		}
		if *f.from < 0 || *f.from > math.MaxInt32 {
			return fmt.Errorf("decode an event: usage reports %d tokens", *f.from)
		}
		*f.to = int32(*f.from)
	}
	return nil
}

// onlyString is the one string that makes this chunk a token event. ok is false when there is more in it.
func (w *wire) onlyString(c *Chunk) (string, bool) {
	if !c.Token || c.Finish != "" || c.Usage != noUsage() || w.Usage != nil || len(w.Choices) != 1 || len(w.Choices[0].Delta.ToolCalls) > 0 {
		return "", false
	}
	found, n := "", 0
	d := &w.Choices[0].Delta
	for _, s := range [...]string{d.Content, d.Reasoning, d.ReasoningContent, w.Choices[0].Text} {
		if s != "" {
			found = s
			n++
		}
	}
	return found, n == 1
}

// Message finds the words of a server in the body of an error: error.message, error, message or detail of a JSON object
// (OpenAI, vLLM, FastAPI), or the body itself.
func Message(body []byte) string {
	var in struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &in) != nil {
		return string(bytes.TrimSpace(body))
	}
	var inner struct {
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(in.Error, &inner) == nil && len(inner.Message) > 0 {
		in.Error = inner.Message
	}
	for _, raw := range []json.RawMessage{in.Error, in.Message, in.Detail} {
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
		return string(raw)
	}
	return string(bytes.TrimSpace(body))
}
