package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/sim/model"
)

// query is one request for tokens, checked.
type query struct {
	chat           bool
	model          string
	tokens         []int32
	maxTokens      int
	minTokens      int
	ignoreEOS      bool
	salt           uint64
	stream         bool
	includeUsage   bool
	continuous     bool
	returnTokenIDs bool
}

// apiError is an error answer in vLLM's shape.
type apiError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"`
	Status  int    `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func badRequest(param, format string, args ...any) *apiError {
	e := &apiError{Status: 400, Message: fmt.Sprintf(format, args...), Type: "BadRequestError"}
	if param != "" {
		e.Param = param
	}
	return e
}

// wire is the body of both APIs; what is not here is accepted and ignored, as sampling does not change a made-up text.
type wire struct {
	Model               string          `json:"model"`
	Messages            []wireMessage   `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	Temperature         *float64        `json:"temperature"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	ReturnTokenIDs bool   `json:"return_token_ids"`
	CacheSalt      string `json:"cache_salt"`
}

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

const maxBody = 64 << 20 // bytes

// decode reads JSON; a fault in it is vLLM's 400.
func decode(r io.Reader, into any, path string) *apiError {
	raw, err := io.ReadAll(io.LimitReader(r, maxBody))
	if err != nil {
		return badRequest("", "reading the body: %v", err)
	}
	err = json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	at := int64(len(raw))
	kind, message, detail := "json_invalid", "JSON decode error", "Expecting value"
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped):
		kind, message, detail = "type_error", "Input should be a valid "+mistyped.Type.String(), mistyped.Field
		at = mistyped.Offset
	case errors.As(err, &syntax):
		at = max(syntax.Offset-1, 0)
		if len(bytes.TrimSpace(raw)) > 0 && syntax.Offset < int64(len(raw)) {
			detail = syntax.Error()
		}
	}
	return &apiError{
		Status: 400, Type: "Bad Request", Param: fmt.Sprintf("body.%d", at),
		Message: fmt.Sprintf("1 validation error:\n  {'type': '%s', 'loc': ('body', %d), 'msg': '%s', 'input': {}, 'ctx': {'error': '%s'}}\n\n    POST %s", kind, at, message, detail, path),
	}
}

// parse checks a request as vLLM would.
func (s *Server) parse(body io.Reader, path string, chat bool) (*query, *apiError) {
	var in wire
	if err := decode(body, &in, path); err != nil {
		return nil, err
	}
	if err := s.checkModel(in.Model); err != nil {
		return nil, err
	}
	q := &query{chat: chat, model: in.Model, minTokens: in.MinTokens, ignoreEOS: in.IgnoreEOS, stream: in.Stream, returnTokenIDs: in.ReturnTokenIDs}
	if q.model == "" {
		q.model = s.set.served[0]
	}
	if in.CacheSalt != "" {
		h := fnv.New64a()
		h.Write([]byte(in.CacheSalt))
		q.salt = h.Sum64() | 1
	}
	if o := in.StreamOptions; o != nil {
		if !in.Stream {
			return nil, badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
		}
		q.includeUsage, q.continuous = o.IncludeUsage, o.IncludeUsage && o.Continuous
	}
	q.includeUsage = q.includeUsage || s.set.usageAlways
	switch {
	case in.Temperature != nil && *in.Temperature < 0:
		return nil, badRequest("temperature", "temperature must be non-negative, got %s. (parameter=temperature, value=%s)", pyFloat(*in.Temperature), pyFloat(*in.Temperature))
	case in.N != nil && *in.N != 1:
		return nil, badRequest("n", "The simulated engine gives one answer per request, not n=%d.", *in.N)
	}
	var err *apiError
	if chat {
		q.tokens, err = s.chatTokens(in.Messages)
	} else {
		q.tokens, err = s.promptTokens(in.Prompt)
	}
	if err != nil {
		return nil, err
	}
	return q, s.limit(q, in)
}

func (s *Server) checkModel(name string) *apiError {
	if name == "" || slices.Contains(s.set.served, name) {
		return nil
	}
	message := fmt.Sprintf("The model `%s` does not exist.", name)
	if !s.rel.before(0, 30) {
		message += " Valid aliases: " + strings.Join(s.set.served, ", ") + "."
	}
	return &apiError{Status: 404, Message: message, Type: "NotFoundError", Param: "model"}
}

// limit decides how many tokens come and refuses what does not fit.
func (s *Server) limit(q *query, in wire) *apiError {
	longest := s.set.engine.MaxModelLen
	asked := in.MaxTokens
	if q.chat && in.MaxCompletionTokens != nil {
		asked = in.MaxCompletionTokens
	}
	switch {
	case asked != nil:
		q.maxTokens = *asked
	case q.chat:
		q.maxTokens = max(longest-len(q.tokens), 1)
	default:
		q.maxTokens = 16
	}
	switch {
	case q.maxTokens < 1:
		return badRequest("max_tokens", "max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%d)", q.maxTokens, q.maxTokens)
	case q.minTokens < 0 || q.minTokens > q.maxTokens:
		return badRequest("min_tokens", "min_tokens must be greater than or equal to 0 and less than or equal to max_tokens=%d, got %d.", q.maxTokens, q.minTokens)
	case len(q.tokens)+q.maxTokens > longest:
		// vLLM stops counting the prompt where it is too long for certain.
		least := min(len(q.tokens), max(longest-q.maxTokens+1, 1))
		return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)",
			longest, q.maxTokens, least, least+q.maxTokens, least)
	}
	return nil
}

func (s *Server) chatTokens(messages []wireMessage) ([]int32, *apiError) {
	if len(messages) == 0 {
		return nil, badRequest("messages", "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}")
	}
	list := make([]model.Message, len(messages))
	for i, m := range messages {
		text, ok := contentText(m.Content)
		if !ok {
			return nil, badRequest("messages", "messages[%d].content is neither text nor a list of text parts", i)
		}
		list[i] = model.Message{Role: m.Role, Content: text}
	}
	return s.prof.ChatTokens(list), nil
}

// contentText reads a message's content: a text, null, or a list of {"type":"text"} parts.
func contentText(raw json.RawMessage) (string, bool) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		text += p.Text
	}
	return text, true
}

// promptTokens reads a prompt: a text, a list of token ids, or a list of one of either.
func (s *Server) promptTokens(raw json.RawMessage) ([]int32, *apiError) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		if tokens := s.prof.Tokenize(text); len(tokens) > 0 {
			return tokens, nil
		}
		return nil, badRequest("prompt", "The decoder prompt cannot be empty")
	}
	var ids []int32
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		for _, id := range ids {
			if id < 0 || int(id) >= s.prof.Model.Vocabulary {
				return nil, badRequest("prompt", "Token id %d is out of vocabulary", id)
			}
		}
		return ids, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) == 1 && len(list[0]) > 0 && (list[0][0] == '"' || list[0][0] == '[') {
		return s.promptTokens(list[0])
	}
	if len(list) > 1 {
		return nil, badRequest("prompt", "The simulated engine takes one prompt per request.")
	}
	return nil, badRequest("prompt", "prompt must be a text or a list of token ids")
}
