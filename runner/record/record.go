// Package record holds what was measured of one request, and what follows from it by definition (TTFT, TPOT, E2E).
// It neither sends requests (load) nor summarises them (stats).
package record

// Never marks a time that did not happen or a count that was not reported.
const Never = -1 << 62

// ErrClass is why a request failed. The empty class is success.
type ErrClass string

// The classes of failure.
const (
	OK           ErrClass = ""
	ErrConnect   ErrClass = "connect"         // no connection
	ErrTransport ErrClass = "transport"       // the connection broke
	ErrStatus    ErrClass = "http_status"     // not 200
	ErrInStream  ErrClass = "error_in_stream" // an error event inside a 200 stream
	ErrNoDone    ErrClass = "no_done"         // the stream ended without [DONE]
	ErrNoFinish  ErrClass = "no_finish"       // [DONE] came without any finish_reason
	ErrTimeout   ErrClass = "timeout"
	ErrProtocol  ErrClass = "protocol" // what came was not an event stream
	ErrAborted   ErrClass = "aborted"  // the run was cancelled
)

// Record is one request as measured. Times are microseconds after the trial's t0 on the monotonic clock, stamped at
// the socket read that carried the event; Never = did not happen. Counts are the server's; Never = not reported.
type Record struct {
	Index        int32
	Scheduled    int64 // when it should have been sent; latency starts here
	Sent         int64 // when its first byte was written
	FirstByte    int64 // first byte of the response (headers)
	FirstToken   int64 // first event with non-empty content, reasoning or tool-call delta
	FirstContent int64 // first event with non-empty content (differs for reasoning models)
	LastToken    int64
	End          int64 // end of the stream, or the failure
	PromptTokens int32 // usage.prompt_tokens; -1 = not reported
	OutputTokens int32 // usage.completion_tokens; -1 = not reported
	CachedTokens int32 // usage.prompt_tokens_details.cached_tokens; -1 = not reported
	Events       int32 // events that carried a delta
	Coalesced    int32 // of those, events that shared a socket read with the event before
	Status       int16 // HTTP status; 0 = none
	ConnReused   bool
	Finish       string // finish_reason
	Err          ErrClass
	Detail       string // the server's or the system's message, one line, at most 300 bytes; redacted before it is stored
	Class        string
}

// Limits of the text fields, in bytes. Write and Read refuse longer ones.
const (
	MaxDetail = 300
	MaxFinish = 64
	MaxClass  = 64
)

// TTFT is the time from Scheduled to FirstToken in seconds. ok is false when no token came. A failed request that had
// a first token has a TTFT; whether it counts is the reader's decision.
func (r Record) TTFT() (seconds float64, ok bool) { return between(r.Scheduled, r.FirstToken) }

// TTFTContent is the time from Scheduled to FirstContent in seconds: the first answer token of a reasoning model.
func (r Record) TTFTContent() (seconds float64, ok bool) { return between(r.Scheduled, r.FirstContent) }

// TPOT is (LastToken - FirstToken) / (OutputTokens - 1) in seconds per token. ok is false below two output tokens and
// when the server reported no usage: a time per token is never derived from the number of events.
func (r Record) TPOT() (seconds float64, ok bool) {
	if r.OutputTokens < 2 {
		return 0, false
	}
	span, ok := between(r.FirstToken, r.LastToken)
	return span / float64(r.OutputTokens-1), ok
}

// E2E is the time from Scheduled to End in seconds; of a failed request, to the failure.
func (r Record) E2E() (seconds float64, ok bool) { return between(r.Scheduled, r.End) }

// Lateness is the time from Scheduled to Sent in seconds: what the load generator itself, or its cap on requests in
// flight, added to every latency.
func (r Record) Lateness() (seconds float64, ok bool) { return between(r.Scheduled, r.Sent) }

func between(from, to int64) (float64, bool) {
	if from == Never || to == Never {
		return 0, false
	}
	return float64(to-from) / 1e6, true
}
