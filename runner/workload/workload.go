// Package workload says what is sent: it turns a description and a seed into the exact requests of one trial.
// The bytes are a pure function of both, so that two configs get the same prompts and a key can cover them.
// It does not say when requests are sent (arrival) or how (openai).
package workload

// API is the endpoint a workload talks to.
type API string

// The two streaming endpoints.
const (
	Chat        API = "chat"
	Completions API = "completions"
)

// Cache is what the prefix cache is declared to be when a window starts.
type Cache string

// The declared states of the prefix cache.
const (
	Warm Cache = "warm" // left as the warm-up leaves it
	Cold Cache = "cold" // reset before the window, and verified by counters
)

// Workload describes the requests of a trial. Exactly one of Text, Random, SharedPrefix and File is set.
type Workload struct {
	API          API           `json:"api"`
	Text         string        `json:"text,omitempty"`
	Random       *Random       `json:"random,omitempty"`
	SharedPrefix *SharedPrefix `json:"shared_prefix,omitempty"`
	File         *File         `json:"file,omitempty"`
	Output       Output        `json:"output"`
	Cache        Cache         `json:"cache"`
	Seed         *int64        `json:"seed,omitempty"` // per-request sampling seed; nil = none is sent
	Temperature  *float64      `json:"temperature,omitempty"`
}

// Random is a fresh prompt per request. With the completions API and Vocabulary > 0, token ids in
// [3, Vocabulary) are sent and Tokens is exact; otherwise Tokens is a number of short English words, which most
// tokenizers turn into about as many tokens (the server's count is recorded).
type Random struct {
	Tokens     int `json:"tokens"`               // 1..1,000,000
	Vocabulary int `json:"vocabulary,omitempty"` // 0 = words
}

// SharedPrefix is a prefix common to all requests of a group, followed by tokens of their own.
type SharedPrefix struct {
	Shared     int `json:"shared"` // tokens (or words) in common
	Own        int `json:"own"`    // tokens (or words) of each request's own, >= 1
	Groups     int `json:"groups"` // number of distinct prefixes, >= 1; requests take them in turn
	Vocabulary int `json:"vocabulary,omitempty"`
}

// File is a JSON Lines file of prompts; each line has "prompt" (string) and optionally "max_tokens" (int).
// Requests take the lines in order and start again at the end. Content is filled when the spec is read.
type File struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256"` // of the file's bytes, hex
	Content []byte `json:"-"`
}

// Output says how many tokens are asked for.
type Output struct {
	Tokens int  `json:"tokens"` // max_tokens, 1..1,000,000
	Exact  bool `json:"exact"`  // ignore_eos and min_tokens: every answer has exactly Tokens tokens
}

// Request is one request of a trial.
type Request struct {
	Index        int
	Prompt       string  // text; used when TokenIDs is nil
	TokenIDs     []int32 // completions API only
	PromptTokens int     // expected length in tokens; 0 = not known before the server says
	MaxTokens    int
	Exact        bool
	Class        string // prompt-length class, such as "300"; warm-up covers every class
}
