// Package engine says how an LLM server is started and how what it says is read: its command line, the names of
// its endpoints and metrics, and the facts in its log. It does no I/O: the bytes come from provision, openai and
// measure, which know nothing about any particular engine.
package engine

import (
	"encoding/json"
	"fmt"
	"time"
)

// An Engine is one kind of server (vLLM, or the simulated one). Implementations are stateless values and safe for
// concurrent use; each passes the suite in enginetest.
type Engine interface {
	// Name is the word used in spec files: "vllm" or "sim".
	Name() string
	// Simulated reports whether numbers from this engine are made up by a model. True marks every page of a result.
	Simulated() bool
	// Command returns the argument vector and the environment additions that start the engine as l asks.
	// Booleans are always passed explicitly, both ways (--x or --no-x). No secret is ever put into Argv.
	// The error names the flag that cannot be expressed.
	Command(l Launch) (Command, error)
	// Endpoints are the HTTP paths of this engine.
	Endpoints() Endpoints
	// ParseVersion reads the body of Endpoints.Version.
	ParseVersion(body []byte) (string, error)
	// Effective reads the body of Endpoints.ServerInfo and returns what the engine says its settings are, by flag
	// name (kebab-case, without dashes) with JSON-like values (bool, float64, string, nil). Only flags it can map are
	// present; a flag that is absent was not reported.
	Effective(serverInfo []byte) (map[string]any, error)
	// Series maps what we want to know to the names it goes by, newest first.
	Series() []Series
	// LogLine reads one line of the engine's log (without newline). ok is false when the line says nothing known.
	LogLine(line string) (f LogFact, ok bool)
	// FailureReason returns the line of a log that best says why the engine failed, cleaned of its prefix, or "".
	// It is given the last part of the log (at least the last 4 MiB, whole lines).
	FailureReason(log []byte) string
}

// Launch is everything that decides how one engine process is started.
type Launch struct {
	Binary  []string // command that is the engine, e.g. ["vllm"] or ["/path/benchctl", "sim"]; never empty
	Model   Model
	Version string            // release whose flag table applies, e.g. "0.25.1"
	Flags   []Flag            // shared and per-config flags merged, sorted by name, each name once
	Env     map[string]string // additions to the environment; values may be secret, keys are not
	Host    string            // address to listen on, normally 127.0.0.1
	Port    int               // 1..65535
	Sim     Sim               // only read by the simulated engine
}

// Model names what is served.
type Model struct {
	Name     string `json:"name"`               // the name in requests and reports
	Revision string `json:"revision,omitempty"` // commit of the weights; empty = not pinned
	Path     string `json:"path,omitempty"`     // folder with the files; empty = the engine resolves Name itself
}

// Sim selects the behaviour of the simulated engine.
type Sim struct {
	Profile string   `json:"profile,omitempty"` // step-time profile; empty = the default one
	Speed   float64  `json:"speed,omitempty"`   // simulated seconds per real second; 0 = 1
	Faults  []string `json:"faults,omitempty"`  // faults on request, e.g. "crash-at-start", "die-after=40"
}

// Flag is one engine option. Name is kebab-case without dashes. Value is one of bool, int64, float64, string,
// []any or map[string]any (the last two become JSON on the command line).
type Flag struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// String renders a flag for people: name=value.
func (f Flag) String() string {
	switch v := f.Value.(type) {
	case string:
		return f.Name + "=" + v
	case []any, map[string]any:
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprintf("%s=%v", f.Name, v)
		}
		return f.Name + "=" + string(b)
	default:
		return fmt.Sprintf("%s=%v", f.Name, v)
	}
}

// Command is a process to start.
type Command struct {
	Argv []string          // Argv[0] is the program
	Env  map[string]string // additions to the runner's environment
}

// Endpoints are paths relative to the server's root, each with its leading slash; "" = the engine has none.
type Endpoints struct {
	Health           string
	Version          string
	Models           string
	Metrics          string
	ServerInfo       string // includes its query string
	ResetPrefixCache string // POST
	Chat             string // POST, OpenAI chat completions
	Completions      string // POST, OpenAI completions
	Tokenize         string // POST
}

// Quantity is something an engine counts, whatever its release calls it.
type Quantity string

// The quantities the runner reads from an engine's /metrics.
const (
	QPromptTokens       Quantity = "prompt_tokens"        // counter, tokens
	QGenerationTokens   Quantity = "generation_tokens"    // counter, tokens
	QRequestSuccess     Quantity = "request_success"      // counter, requests, label finished_reason
	QPrefixQueries      Quantity = "prefix_cache_queries" // counter, tokens
	QPrefixHits         Quantity = "prefix_cache_hits"    // counter, tokens
	QPreemptions        Quantity = "preemptions"          // counter, requests
	QRunning            Quantity = "requests_running"     // gauge, requests
	QWaiting            Quantity = "requests_waiting"     // gauge, requests
	QKVUsage            Quantity = "kv_cache_usage"       // gauge, ratio 0..1
	QTTFT               Quantity = "ttft"                 // histogram, seconds
	QITL                Quantity = "itl"                  // histogram, seconds per step
	QTPOT               Quantity = "tpot"                 // histogram, seconds per token
	QE2E                Quantity = "e2e"                  // histogram, seconds
	QQueueTime          Quantity = "queue_time"           // histogram, seconds
	QPrefillTime        Quantity = "prefill_time"         // histogram, seconds
	QDecodeTime         Quantity = "decode_time"          // histogram, seconds
	QCacheConfig        Quantity = "cache_config"         // info gauge; labels carry block_size and the like
	QProcessStart       Quantity = "process_start"        // gauge, Unix seconds; a change is a restart
	QPromptTokensCached Quantity = "prompt_tokens_cached" // counter, tokens
)

// Kind is the type of a series.
type Kind string

// The kinds of series.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram" // Names are the base names, without _bucket, _sum and _count
	Info      Kind = "info"
)

// Series gives the names of one quantity, newest first. A reader takes the first name that is present and records
// which one it was; none present means "not reported", never 0.
type Series struct {
	Quantity Quantity
	Kind     Kind
	Names    []string
}

// FactKind says what a log line told.
type FactKind string

// The facts that are read from engine logs. All are best effort: wording changes between releases.
const (
	FactVersion      FactKind = "version"       // Text
	FactArch         FactKind = "architecture"  // Text
	FactModelLoad    FactKind = "model_load"    // Value in seconds
	FactCompile      FactKind = "compile"       // Value in seconds, torch.compile in total
	FactGraphCapture FactKind = "graph_capture" // Value in seconds
	FactInit         FactKind = "init"          // Value in seconds, engine initialisation in total
	FactKVTokens     FactKind = "kv_tokens"     // Value in tokens
	FactBlockSize    FactKind = "block_size"    // Value in tokens per cache block
	FactMaxConc      FactKind = "max_concurrency"
	FactJIT          FactKind = "jit"   // Text = kernel; a compile while serving
	FactReady        FactKind = "ready" // the HTTP server accepts requests
	FactWarning      FactKind = "warning"
	FactError        FactKind = "error" // Text = message
)

// LogFact is one thing a log line said.
type LogFact struct {
	Kind  FactKind  `json:"kind"`
	Value float64   `json:"value,omitempty"`
	Text  string    `json:"text,omitempty"`
	Time  time.Time `json:"-"` // from the line when it carries one (no year, no zone in vLLM's), else zero
}
