package openai

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestParseErrorRecorded reads what real servers answered.
func TestParseErrorRecorded(t *testing.T) {
	for _, x := range []struct {
		file   string
		status int
		want   APIError
	}{
		{"vllm-0.25.1/bad_model.json", 404, APIError{404, "The model `nope` does not exist.", "NotFoundError"}},
		{"vllm-0.25.1/bad_temp.json", 400, APIError{400, "temperature must be non-negative, got -3.0. (parameter=temperature, value=-3.0)", "BadRequestError"}},
		{"vllm-0.25.1/too_long.json", 400, APIError{400, "This model's maximum context length is 8192 tokens. However, you requested 10 output tokens and your prompt contains at least 8183 input tokens, for a total of at least 8193 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=", "BadRequestError"}},
		{"vllm-0.25.1/bad_json.json", 400, APIError{400, `1 validation error: {'type': 'json_invalid', 'loc': ('body', 9), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'Expecting value'}} File "/opt/vllm/vllm/entrypoints/serve/utils/api_utils.py", line 40, in create_chat_completion POST /v1/chat/completions [{'type': 'json_invalid', 'loc': ('b`, "Bad Request"}},
		{"vllm-0.32.0/bad_model.json", 404, APIError{404, "The model `nope` does not exist. Valid aliases: tiny.", "NotFoundError"}},
		{"vllm-0.32.0/bad_json.json", 400, APIError{400, `1 validation error: {'type': 'json_invalid', 'loc': 'body.9', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}`, "Bad Request"}},
	} {
		if got := ParseError(x.status, testdata(t, x.file)); *got != x.want {
			t.Errorf("%s:\n got %+v\nwant %+v", x.file, *got, x.want)
		}
	}
}

func TestParseErrorShapes(t *testing.T) {
	for _, x := range []struct{ body, message, kind string }{
		{``, "", ""},
		{`upstream gone`, "upstream gone", ""},
		{`{"detail":"Not Found"}`, "Not Found", ""},
		{`{"detail":[{"msg":"field required"}]}`, `[{"msg":"field required"}]`, ""},
		{`{"object":"error","message":"old form","type":"BadRequestError","code":400}`, "old form", "BadRequestError"},
		{`{"error":"just text"}`, "just text", ""},
		{`{"error":{"code":5}}`, `{"code":5}`, ""},
		{`{}`, `{}`, ""},
		{"{\"error\":{\"message\":\"two\\nlines\",\"type\":\"E\"}}", "two lines", "E"},
		{"\xff\xfe", "\uFFFD", ""},
	} {
		if got := ParseError(500, []byte(x.body)); got.Message != x.message || got.Type != x.kind || got.Status != 500 {
			t.Errorf("ParseError(%q) = %+v, want message %q and type %q", x.body, *got, x.message, x.kind)
		}
	}
}

func FuzzParseError(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"error":{"message":"m","type":"t"}}`, `{"detail":"Not Found"}`, `{"message":"m","type":"t"}`, "\xff", strings.Repeat("é", 400)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := ParseError(500, body)
		if len(e.Message) > messageLimit || len(e.Type) > messageLimit || !utf8.ValidString(e.Message) || strings.ContainsAny(e.Error(), "\n\r") {
			t.Errorf("ParseError(%q) = %+v", body, *e)
		}
	})
}
