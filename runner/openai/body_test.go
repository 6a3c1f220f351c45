package openai

import (
	"math"
	"testing"

	"h100-inference-control-plane/runner/workload"
)

func TestBodySuccess(t *testing.T) {
	seed, zero := int64(7), 0.0
	for _, x := range []struct {
		name string
		api  workload.API
		r    workload.Request
		o    BodyOptions
		want string
	}{
		{"chat", workload.Chat, workload.Request{Prompt: "a <b> & \"c\"", MaxTokens: 5}, BodyOptions{},
			`{"model":"m","messages":[{"role":"user","content":"a <b> & \"c\""}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":5}`},
		{"exact, seed and temperature", workload.Chat, workload.Request{Prompt: "x", MaxTokens: 5, Exact: true}, BodyOptions{Seed: &seed, Temperature: &zero},
			`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"min_tokens":5,"ignore_eos":true,"temperature":0,"seed":7}`},
		{"completions of text", workload.Completions, workload.Request{Prompt: "", MaxTokens: 1}, BodyOptions{},
			`{"model":"m","prompt":"","stream":true,"stream_options":{"include_usage":true},"max_tokens":1}`},
		{"completions of ids", workload.Completions, workload.Request{Prompt: "ignored", TokenIDs: []int32{3, 9}, MaxTokens: 1}, BodyOptions{},
			`{"model":"m","prompt":[3,9],"stream":true,"stream_options":{"include_usage":true},"max_tokens":1}`},
	} {
		got, err := Body(x.api, "m", x.r, x.o)
		if err != nil || string(got) != x.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", x.name, got, err, x.want)
		}
	}
}

func TestBodyFailure(t *testing.T) {
	nan := math.NaN()
	for name, call := range map[string]func() ([]byte, error){
		"no tokens": func() ([]byte, error) { return Body(workload.Chat, "m", workload.Request{}, BodyOptions{}) },
		"ids in a chat": func() ([]byte, error) {
			return Body(workload.Chat, "m", workload.Request{TokenIDs: []int32{3}, MaxTokens: 1}, BodyOptions{})
		},
		"unknown api": func() ([]byte, error) { return Body("responses", "m", workload.Request{MaxTokens: 1}, BodyOptions{}) },
		"NaN temperature": func() ([]byte, error) {
			return Body(workload.Chat, "m", workload.Request{MaxTokens: 1}, BodyOptions{Temperature: &nan})
		},
	} {
		if b, err := call(); err == nil {
			t.Errorf("%s: %s without an error", name, b)
		}
	}
}
