// Package model is the engine that the simulated server serves, without the server: a continuous-batching scheduler
// with a known truth about how long its steps take. It has no clock, no sockets and no goroutines; time is what the
// steps add up to, so thousands of trials run in a second, and the same code runs in real time when its caller sleeps
// between steps. Same configuration, seed and submissions: same steps to the nanosecond.
//
// It does not generate text, does not model several GPUs, speculative decoding or LoRA, and is no evidence about any
// GPU: it repeats what its profile says.
package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Config is one engine: a profile and the settings that act on it. The zero value of a number is the profile's default.
type Config struct {
	Profile        *Profile
	Eager          bool    // no CUDA graphs: a step takes at least the profile's eager floor
	PrefixCaching  bool    // prompts are found again by whole blocks
	ChunkedPrefill bool    // a prompt may be computed in several steps
	BatchedTokens  int     // most tokens in one step
	Seqs           int     // most requests running at once
	MaxModelLen    int     // most tokens of one request, prompt and answer
	Utilization    float64 // share of the device's memory, (0, 1]
	KVBytes        int64   // size of the KV cache instead of Utilization
	Blocks         int     // number of cache blocks instead of either
	BlockTokens    int     // tokens per block; ignored where the profile's model is hybrid, which has no choice
	CountRetries   bool    // count a prefix query again for each step in which its request could not start (vLLM before 0.27)
	Seed           uint64  // of the noise; two starts of one config differ in nothing else
	Warm           bool    // everything is compiled already
	Exact          bool    // no noise
}

// Errors of New and Submit that callers tell apart.
var (
	ErrNoMemory = errors.New("no memory for the KV cache")
	ErrTooLong  = errors.New("the request does not fit")
	ErrBatch    = errors.New("max_num_batched_tokens is smaller than max_model_len")
)

// Request is one prompt.
type Request struct {
	Tokens    []int32 // the prompt; at least one; kept, not changed
	MaxTokens int     // at least 1
	MinTokens int     // no early end before that many
	IgnoreEOS bool    // no early end at all
	Salt      uint64  // prompts share cached blocks only within one salt
	Tag       any     // the caller's own
}

// Reason says why an answer ended.
type Reason string

// The reasons. Unfinished is the zero value.
const (
	Unfinished Reason = ""
	Length     Reason = "length"
	Stop       Reason = "stop"
	Aborted    Reason = "abort"
)

// Seq is a request inside the engine. All times are on the engine's clock. Callers read it only.
type Seq struct {
	Request
	ID          int           // 1, 2, 3 … in order of submission
	Arrival     time.Duration // when it was submitted
	Queued      time.Duration // when the scheduler could first see it
	Scheduled   time.Duration // start of the first step that worked on it; 0 before
	First, Last time.Duration // end of the steps that gave its first and its latest token
	Emitted     int           // tokens so far
	Cached      int           // prompt tokens found in the prefix cache when it first started
	Preemptions int
	Finish      Reason

	end       int // tokens after which it ends
	early     bool
	computed  int // tokens whose KV is in the cache
	resumed   bool
	hashes    []uint64
	blocks    []int32
	state     []int32
	published int
	planned   int // tokens in the current step
	queried   bool
}

// TTFT is the time from arrival to the first token.
func (s *Seq) TTFT() time.Duration { return s.First - s.Arrival }

// TPOT is the time per token after the first; 0 for a single token.
func (s *Seq) TPOT() time.Duration {
	if s.Emitted < 2 {
		return 0
	}
	return (s.Last - s.First) / time.Duration(s.Emitted-1)
}

// Token is one token given out at the end of a step.
type Token struct {
	Seq    *Seq
	N      int // 1 for the first
	Gap    time.Duration
	Finish Reason // other than Unfinished on the last one
}

// Compiled is a compilation that a step had to wait for.
type Compiled struct {
	Kernels []string // empty: not logged
	Cost    time.Duration
}

// Step is what one step did. Its slices are reused: they are valid until the next call of Step.
type Step struct {
	Start, End time.Duration
	Decode     int // requests that got a further token
	Prefill    int // prompt tokens computed
	Tokens     []Token
	Compiled   []Compiled
	Preempted  int
}

// Counters count since the engine was made.
type Counters struct {
	PromptTokens   int64 // of requests that got their first token
	CachedTokens   int64 // of those, found in the prefix cache
	Generated      int64
	PrefixQueries  int64 // tokens
	PrefixHits     int64 // tokens
	Preemptions    int64
	Finished       int64
	Steps          int64
	ComputedPrompt int64 // prompt tokens computed, including after preemption
}

// Capacity describes the KV cache.
type Capacity struct {
	Bytes          int64
	Blocks         int
	BlockTokens    int
	Tokens         int     // as vLLM reports it: MaxModelLen × MaxConcurrency
	MaxConcurrency float64 // requests of MaxModelLen tokens
}

// Engine is one running engine. It is not safe for concurrent use.
type Engine struct {
	cfg   Config
	prof  *Profile
	cap   Capacity
	pool  *pool
	rng   *rand.Rand
	now   time.Duration
	count Counters

	arriving []*Seq // submitted, not yet queued; by Queued
	waiting  []*Seq
	running  []*Seq
	lastID   int

	decodeFactor, prefillFactor float64
	slow                        float64
	compiled                    []bool
	hitCompiled                 bool
	stalls                      []Compiled
	step                        Step
}

// New starts an engine at time 0. Errors: ErrNoMemory, ErrBatch, or a setting out of range.
func New(cfg Config) (*Engine, error) {
	if cfg.Profile == nil {
		return nil, errors.New("model: no profile")
	}
	p := cfg.Profile
	cfg.BatchedTokens = orDefault(cfg.BatchedTokens, p.Limits.BatchedTokens)
	cfg.Seqs = orDefault(cfg.Seqs, p.Limits.Seqs)
	cfg.MaxModelLen = orDefault(cfg.MaxModelLen, p.Model.MaxModelLen)
	cfg.BlockTokens = orDefault(cfg.BlockTokens, p.Memory.BlockTokens)
	if p.Model.Hybrid {
		cfg.BlockTokens = p.Memory.BlockTokens
	}
	if cfg.Utilization == 0 {
		cfg.Utilization = p.Limits.Utilization
	}
	switch {
	case cfg.BatchedTokens < 1 || cfg.Seqs < 1 || cfg.MaxModelLen < 2 || cfg.BlockTokens < 1:
		return nil, errors.New("model: limits must be positive")
	case !(cfg.Utilization > 0 && cfg.Utilization <= 1):
		return nil, errors.New("model: gpu_memory_utilization must be in (0, 1]")
	case !cfg.ChunkedPrefill && cfg.BatchedTokens < cfg.MaxModelLen:
		return nil, fmt.Errorf("%w (%d < %d) and chunked prefill is off", ErrBatch, cfg.BatchedTokens, cfg.MaxModelLen)
	}
	e := &Engine{cfg: cfg, prof: p, slow: 1, compiled: make([]bool, len(p.Compile.Prompts))}
	if err := e.allocateCache(); err != nil {
		return nil, err
	}
	e.rng = rand.New(rand.NewPCG(cfg.Seed, 0x5eed))
	e.decodeFactor = e.lognormal(p.Noise.Start)
	e.prefillFactor = e.lognormal(p.Noise.StartPrefill)
	if cfg.Warm {
		for i := range e.compiled {
			e.compiled[i] = true
		}
		e.hitCompiled = true
	}
	return e, nil
}

func orDefault(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}

const gib = 1 << 30

func (e *Engine) allocateCache() error {
	m := e.prof.Memory
	bytesPerBlock := m.BlockBytes * int64(e.cfg.BlockTokens) / int64(m.BlockTokens)
	free := e.cfg.KVBytes
	if free == 0 {
		g := e.cfg.Utilization*m.DeviceGiB - m.WeightsGiB - m.OverheadGiB
		if !e.cfg.Eager {
			g -= m.GraphsGiB
		}
		free = int64(g * gib)
	}
	blocks := e.cfg.Blocks
	if blocks == 0 {
		blocks = int(free / bytesPerBlock)
	}
	if blocks < 1 {
		return fmt.Errorf("%w: %.2f GiB are left", ErrNoMemory, float64(free)/gib)
	}
	state := m.StateBlocks
	if e.cfg.PrefixCaching {
		state = m.StateBlocksCached
	}
	perRequest := ceilDiv(e.cfg.MaxModelLen, e.cfg.BlockTokens) + state
	if blocks < perRequest {
		return fmt.Errorf("%w: one request of %d tokens needs %.2f GiB, there are %.2f",
			ErrNoMemory, e.cfg.MaxModelLen, float64(int64(perRequest)*bytesPerBlock)/gib, float64(free)/gib)
	}
	c := float64(blocks) / float64(perRequest)
	e.cap = Capacity{Bytes: free, Blocks: blocks, BlockTokens: e.cfg.BlockTokens, Tokens: int(c * float64(e.cfg.MaxModelLen)), MaxConcurrency: c}
	e.pool = newPool(blocks)
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// lognormal draws a factor around 1.
func (e *Engine) lognormal(sigma float64) float64 {
	if e.cfg.Exact || sigma == 0 {
		return 1
	}
	return math.Exp(sigma * e.rng.NormFloat64())
}

// Config returns the settings with the defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Capacity describes the KV cache.
func (e *Engine) Capacity() Capacity { return e.cap }

// Counters returns the counts so far.
func (e *Engine) Counters() Counters { return e.count }

// Now is the end of the last step.
func (e *Engine) Now() time.Duration { return e.now }

// Running and Waiting are numbers of requests; a request still in the front end counts as neither.
func (e *Engine) Running() int { return len(e.running) }

// Waiting is the number of requests in the queue.
func (e *Engine) Waiting() int { return len(e.waiting) }

// KVUsage is the share of cache blocks in use, 0 to 1.
func (e *Engine) KVUsage() float64 {
	return 1 - float64(e.pool.free)/float64(e.pool.size())
}

// Busy reports whether Step has something to do.
func (e *Engine) Busy() bool { return len(e.running)+len(e.waiting)+len(e.arriving) > 0 }

// AdvanceTo moves the clock forward to t; it never goes back. A caller in real time uses it after it was late.
func (e *Engine) AdvanceTo(t time.Duration) { e.now = max(e.now, t) }

// Slow makes every later step factor times as long; 1 is normal.
func (e *Engine) Slow(factor float64) { e.slow = factor }

// Stall makes the next step wait for a compilation of that name.
func (e *Engine) Stall(kernel string, cost time.Duration) {
	e.stalls = append(e.stalls, Compiled{Kernels: []string{kernel}, Cost: cost})
}

// ResetPrefixCache forgets all cached prompts. It does nothing and returns false while requests hold blocks.
func (e *Engine) ResetPrefixCache() bool { return e.pool.reset() }

// Submit hands in a request that arrives at time at; a time before Now is a request that came during the last step.
// The error wraps ErrTooLong when it can never run.
func (e *Engine) Submit(at time.Duration, r Request) (*Seq, error) {
	total := len(r.Tokens) + r.MaxTokens
	switch {
	case len(r.Tokens) == 0:
		return nil, errors.New("model: the prompt is empty")
	case r.MaxTokens < 1:
		return nil, errors.New("model: max tokens must be at least 1")
	case total > e.cfg.MaxModelLen:
		return nil, fmt.Errorf("%w: %d tokens of %d", ErrTooLong, total, e.cfg.MaxModelLen)
	case e.blocksFor(total)+e.prof.Memory.StateBlocks > e.pool.size():
		return nil, fmt.Errorf("%w: %d tokens need more than the %d cache blocks", ErrTooLong, total, e.pool.size())
	}
	e.lastID++
	s := &Seq{Request: r, ID: e.lastID, Arrival: at, Queued: at + seconds(e.prof.Step.Frontend)}
	s.end, s.early = e.answerLength(r)
	if e.cfg.PrefixCaching {
		s.hashes = blockHashes(r.Tokens, e.cfg.BlockTokens, r.Salt)
	}
	i := len(e.arriving)
	for i > 0 && e.arriving[i-1].Queued > s.Queued {
		i--
	}
	e.arriving = slices.Insert(e.arriving, i, s)
	return s, nil
}

// answerLength draws where an answer ends, if the profile has early ends.
func (e *Engine) answerLength(r Request) (n int, early bool) {
	if r.IgnoreEOS || e.prof.EOSMeanTokens <= 1 {
		return r.MaxTokens, false
	}
	n = 1 + int(math.Log(1-e.rng.Float64())/math.Log1p(-1/e.prof.EOSMeanTokens))
	n = max(n, r.MinTokens)
	return min(n, r.MaxTokens), n < r.MaxTokens
}

// Abort drops a request wherever it is; finished ones are left alone.
func (e *Engine) Abort(s *Seq) {
	if s.Finish != Unfinished {
		return
	}
	s.Finish = Aborted
	same := func(o *Seq) bool { return o == s }
	e.arriving = slices.DeleteFunc(e.arriving, same)
	e.waiting = slices.DeleteFunc(e.waiting, same)
	e.running = slices.DeleteFunc(e.running, same)
	e.freeBlocks(s)
}

func (e *Engine) blocksFor(tokens int) int { return ceilDiv(tokens, e.cfg.BlockTokens) }

// freeBlocks gives a request's blocks back, the last ones first, so that the front of a prompt stays longest.
func (e *Engine) freeBlocks(s *Seq) {
	for i := len(s.blocks) - 1; i >= 0; i-- {
		e.pool.release(s.blocks[i])
	}
	for _, b := range s.state {
		e.pool.release(b)
	}
	s.blocks, s.state, s.published = s.blocks[:0], s.state[:0], 0
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
