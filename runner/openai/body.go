package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"h100-inference-control-plane/runner/workload"
)

// BodyOptions are the sampling settings of a request. nil = the field is not sent, and the server's default holds.
type BodyOptions struct {
	Seed        *int64
	Temperature *float64
}

// body is a streaming request of either API. The order of the fields is the order of the bytes.
type body struct {
	Model         string        `json:"model"`
	Messages      []message     `json:"messages,omitempty"`
	Prompt        any           `json:"prompt,omitempty"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	MaxTokens     int           `json:"max_tokens"`
	MinTokens     int           `json:"min_tokens,omitempty"`
	IgnoreEOS     bool          `json:"ignore_eos,omitempty"`
	Temperature   *float64      `json:"temperature,omitempty"`
	Seed          *int64        `json:"seed,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Body returns the JSON of one streaming request: the same bytes for the same arguments. Exact asks for exactly
// MaxTokens tokens, by ignore_eos and min_tokens. max_tokens is always sent, because the two APIs have different
// defaults. The chat API cannot carry token ids.
func Body(api workload.API, model string, r workload.Request, o BodyOptions) ([]byte, error) {
	if r.MaxTokens < 1 {
		return nil, fmt.Errorf("max_tokens is %d, want at least 1", r.MaxTokens)
	}
	b := body{
		Model: model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
		MaxTokens: r.MaxTokens, Temperature: o.Temperature, Seed: o.Seed,
	}
	if r.Exact {
		b.MinTokens, b.IgnoreEOS = r.MaxTokens, true
	}
	switch {
	case api == workload.Chat && r.TokenIDs != nil:
		return nil, errors.New("the chat API takes text, not token ids")
	case api == workload.Chat:
		b.Messages = []message{{Role: "user", Content: r.Prompt}}
	case api == workload.Completions && r.TokenIDs != nil:
		b.Prompt = r.TokenIDs
	case api == workload.Completions:
		b.Prompt = r.Prompt
	default:
		return nil, fmt.Errorf("%q is not an API that streams", api)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
