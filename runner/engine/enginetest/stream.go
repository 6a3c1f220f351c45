package enginetest

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
)

// stream is what a streamed answer said. It is read slowly and strictly: this suite is about what the server sends.
type stream struct {
	tokenEvents int    // events whose delta carried text
	text        string // of all deltas
	finish      string
	usage       *usage
	errors      []string
	bad         []string // payloads that are not JSON
	done        bool     // [DONE] came, and nothing after it
	afterUsage  int      // events with a choice that came after the usage
	err         error    // of the connection
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

type chunk struct {
	Error   *struct{ Message string } `json:"error"`
	Usage   *usage                    `json:"usage"`
	Choices []struct {
		Text   string `json:"text"`
		Finish string `json:"finish_reason"`
		Delta  struct {
			Content          string          `json:"content"`
			Reasoning        string          `json:"reasoning"`
			ReasoningContent string          `json:"reasoning_content"`
			ToolCalls        json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
}

// readStream reads server-sent events to their end.
func readStream(r io.Reader) stream {
	var s stream
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data:"); ok {
			s.event(strings.TrimSpace(data))
		}
	}
	s.err = in.Err()
	return s
}

func (s *stream) event(data string) {
	if data == "[DONE]" {
		s.done = true
		return
	}
	s.done = false
	var c chunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		s.bad = append(s.bad, data)
		return
	}
	if c.Error != nil {
		s.errors = append(s.errors, c.Error.Message)
	}
	final := c.Usage != nil && len(c.Choices) == 0
	for _, x := range c.Choices {
		text := x.Text + x.Delta.Content + x.Delta.Reasoning + x.Delta.ReasoningContent
		if text != "" {
			s.tokenEvents++
		}
		s.text += text
		if x.Finish != "" {
			s.finish = x.Finish
		}
		if s.usage != nil {
			s.afterUsage++
		}
	}
	if final {
		s.usage = c.Usage
	}
}

// complete checks a stream that ended well: tokens, a finish reason, then usage, then [DONE].
func (s *stream) complete(t reporter) {
	t.Helper()
	switch {
	case s.err != nil:
		t.Errorf("the connection broke: %v", s.err)
	case len(s.bad) > 0:
		t.Errorf("an event is not JSON: %q", s.bad[0])
	case len(s.errors) > 0:
		t.Errorf("an error came in the stream: %s", s.errors[0])
	case !s.done:
		t.Errorf("the stream did not end with [DONE]")
	case s.finish == "":
		t.Errorf("the stream has no finish_reason")
	case s.usage == nil:
		t.Errorf("the stream has no final usage")
	case s.afterUsage > 0:
		t.Errorf("%d choices came after the usage", s.afterUsage)
	case s.tokenEvents == 0 || s.tokenEvents > s.usage.Completion:
		t.Errorf("%d events carried tokens, usage says %d tokens", s.tokenEvents, s.usage.Completion)
	case s.usage.Total != s.usage.Prompt+s.usage.Completion:
		t.Errorf("usage does not add up: %+v", *s.usage)
	}
}

// failed checks a stream whose server died: HTTP 200 was sent long before, so the error is an event.
func (s *stream) failed(t reporter) {
	t.Helper()
	if len(s.errors) == 0 || s.errors[0] == "" {
		t.Errorf("no error came in the stream")
	}
	if s.finish != "" || s.usage != nil {
		t.Errorf("a stream that failed says finish_reason %q and usage %v", s.finish, s.usage)
	}
}
