package spec

import "github.com/goccy/go-yaml/ast"

// fileExperiment and the structs below it are the file's form. What they mean, resolved, is Experiment.
type fileExperiment struct {
	APIVersion  string       `json:"apiVersion" jsonschema:"enum=bench/v1" eg:"bench/v1" jsonschema_description:"Version of this format."`
	Kind        string       `json:"kind" jsonschema:"enum=Experiment" eg:"Experiment" jsonschema_description:"Always Experiment."`
	Name        string       `json:"name" jsonschema:"pattern=^[a-z0-9][a-z0-9-]*$,maxLength=63" says:"lower-case letters, digits and dashes" eg:"default-vs-optimized" jsonschema_description:"Name of the experiment; also of its results folder."`
	Description string       `json:"description,omitempty" jsonschema:"maxLength=2000" jsonschema_description:"What the experiment is to find out."`
	Model       fileModel    `json:"model" eg:"{name: Qwen/Qwen3-0.6B}" jsonschema_description:"What is served."`
	Engine      fileEngine   `json:"engine" eg:"{name: vllm, version: 0.25.1}" jsonschema_description:"The server, and what all configs have in common."`
	Configs     fileConfigs  `json:"configs" eg:"{default: {enforce-eager: true}}" jsonschema_description:"Engine flags by config name. Booleans are passed explicitly in both directions."`
	Workload    fileWorkload `json:"workload" eg:"{prompt: {text: Explain GPUs simply}, output: {tokens: 512}}" jsonschema_description:"What is sent."`
	Load        fileLoad     `json:"load" eg:"{closed: {concurrency: [16, 64], requests: 200}}" jsonschema_description:"How much of it at a time."`
	Starts      *int         `json:"starts,omitempty" jsonschema:"minimum=1,maximum=100,default=1" eg:"3" jsonschema_description:"Engine starts per config. The start is what is repeated: three or more say how much starts differ."`
	SLO         []fileSLO    `json:"slo,omitempty" jsonschema:"maxItems=50" eg:"[{name: ttft, query: ..., max: 500ms}]" jsonschema_description:"Objectives, judged per trial."`
	Compare     *fileCompare `json:"compare,omitempty" eg:"{baseline: default, candidates: [optimized]}" jsonschema_description:"What is compared with what."`
	Budget      *fileBudget  `json:"budget,omitempty" eg:"{gpu_minutes: 60}" jsonschema_description:"What a run may cost."`
}

type fileModel struct {
	Name     string `json:"name" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._/-]*$,maxLength=200" says:"a model's name" eg:"Qwen/Qwen3-0.6B" jsonschema_description:"Name in requests and reports; the engine resolves it where there is no path."`
	Revision string `json:"revision,omitempty" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._/-]*$,maxLength=100" says:"a commit of the weights" eg:"0123456789abcdef0123456789abcdef01234567" jsonschema_description:"Commit of the weights. Required to publish."`
	Path     string `json:"path,omitempty" jsonschema:"maxLength=1000" eg:"models/tiny-qwen3" jsonschema_description:"Folder with the model's files; relative to this file."`
}

type fileEngine struct {
	Name    string    `json:"name" jsonschema:"enum=vllm,enum=sim" eg:"vllm" jsonschema_description:"vllm, or sim (a simulated engine; its numbers are made up by a model)."`
	Version string    `json:"version" jsonschema:"pattern=^[0-9]+[.][0-9]+[.][0-9]+([.]post[0-9]+)?$" says:"a release such as 0.25.1" eg:"0.25.1" jsonschema_description:"Release of vLLM. Flags are checked against it, and the engine's own answer too."`
	Flags   fileFlags `json:"flags,omitempty" eg:"{max-model-len: 8192}" jsonschema_description:"Flags of all configs; a config's own flag of the same name wins."`
	Env     fileEnv   `json:"env,omitempty" eg:"{OMP_NUM_THREADS: 4}" jsonschema_description:"Additions to the engine's environment. No secrets."`
	Sim     *fileSim  `json:"sim,omitempty" eg:"{speed: 20}" jsonschema_description:"Behaviour of the simulated engine."`
}

type fileSim struct {
	Profile string   `json:"profile,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9.-]*$,maxLength=63" says:"a profile's name" jsonschema_description:"Step-time profile."`
	Speed   *float64 `json:"speed,omitempty" jsonschema:"minimum=0.001,maximum=10000,default=1" eg:"20" jsonschema_description:"Simulated seconds per real second."`
	Faults  []string `json:"faults,omitempty" jsonschema:"pattern=^[a-z][a-z0-9-]*(=[^ ]+)?$,maxItems=20" says:"a fault such as crash-at-start or die-after=40" eg:"[die-after=40]" jsonschema_description:"Faults on request."`
}

type fileWorkload struct {
	API         string     `json:"api,omitempty" jsonschema:"enum=chat,enum=completions,default=chat" eg:"chat" jsonschema_description:"Endpoint that is talked to."`
	Prompt      filePrompt `json:"prompt" eg:"{text: Explain GPUs simply}" jsonschema_description:"Exactly one kind of prompt."`
	Output      fileOutput `json:"output" eg:"{tokens: 512}" jsonschema_description:"How many tokens are asked for."`
	Cache       string     `json:"cache,omitempty" jsonschema:"enum=warm,enum=cold,default=warm" eg:"warm" jsonschema_description:"What the prefix cache is declared to be when a window begins."`
	Seed        *int64     `json:"seed,omitempty" jsonschema:"minimum=0" eg:"1" jsonschema_description:"Sampling seed of each request; none is sent by default."`
	Temperature *float64   `json:"temperature,omitempty" jsonschema:"minimum=0,maximum=10" eg:"0" jsonschema_description:"Sampling temperature; none is sent by default."`
}

type filePrompt struct {
	Text         *string           `json:"text,omitempty" eg:"Explain GPUs simply" jsonschema_description:"The same text for every request."`
	Random       *fileRandom       `json:"random,omitempty" eg:"{tokens: 300}" jsonschema_description:"A fresh prompt per request."`
	SharedPrefix *fileSharedPrefix `json:"shared_prefix,omitempty" eg:"{shared: 4224, own: 64}" jsonschema_description:"A prefix in common, then tokens of each request's own."`
	File         *filePromptFile   `json:"file,omitempty" eg:"prompts.jsonl" jsonschema_description:"A JSON Lines file, relative to this one; each line has prompt and optionally max_tokens."`
}

type fileRandom struct {
	Tokens     int  `json:"tokens" jsonschema:"minimum=1,maximum=1000000" eg:"300" jsonschema_description:"Tokens (words, without a vocabulary) per prompt."`
	Vocabulary *int `json:"vocabulary,omitempty" jsonschema:"minimum=16,maximum=10000000" eg:"2048" jsonschema_description:"Send token ids below this number, so that lengths are exact. Completions API only."`
}

type fileSharedPrefix struct {
	Shared     int  `json:"shared" jsonschema:"minimum=1,maximum=1000000" eg:"4224" jsonschema_description:"Tokens in common."`
	Own        int  `json:"own" jsonschema:"minimum=1,maximum=1000000" eg:"64" jsonschema_description:"Tokens of each request's own."`
	Groups     *int `json:"groups,omitempty" jsonschema:"minimum=1,maximum=1000000,default=1" eg:"1" jsonschema_description:"Number of distinct prefixes; requests take them in turn."`
	Vocabulary *int `json:"vocabulary,omitempty" jsonschema:"minimum=16,maximum=10000000" eg:"2048" jsonschema_description:"Send token ids below this number, so that lengths are exact. Completions API only."`
}

type fileOutput struct {
	Tokens int   `json:"tokens" jsonschema:"minimum=1,maximum=1000000" eg:"512" jsonschema_description:"Most tokens per answer."`
	Exact  *bool `json:"exact,omitempty" jsonschema:"default=false" eg:"true" jsonschema_description:"Every answer has exactly that many: the end-of-text token is ignored."`
}

type fileLoad struct {
	Closed   *fileClosed   `json:"closed,omitempty" eg:"{concurrency: [16, 64], requests: 200}" jsonschema_description:"A number of requests in flight at all times."`
	Open     *fileOpen     `json:"open,omitempty" eg:"{rates: [2, 4], duration: 60s}" jsonschema_description:"Requests at times that do not depend on the answers."`
	Capacity *fileCapacity `json:"capacity,omitempty" eg:"{concurrency: {max: 256}, requests: 200}" jsonschema_description:"Look for the highest load at which every gating objective is met."`
	Warmup   *int          `json:"warmup,omitempty" jsonschema:"minimum=0,maximum=100000" eg:"32" jsonschema_description:"Requests before each window. Left out, the plan chooses."`
	Timeout  *duration     `json:"timeout,omitempty" eg:"10m" jsonschema_description:"Longest time a request may take; 10m unless given."`
}

type fileClosed struct {
	Concurrency wholes `json:"concurrency" jsonschema:"minimum=1,maximum=10000,minItems=1,maxItems=50,uniqueItems=true" eg:"[16, 64]" jsonschema_description:"Requests in flight: a number, or one load point for each of a list."`
	Requests    int    `json:"requests" jsonschema:"minimum=1,maximum=10000000" eg:"200" jsonschema_description:"Requests per load point."`
}

type fileOpen struct {
	Rates       numbers  `json:"rates" jsonschema:"exclusiveMinimum=0,maximum=100000,minItems=1,maxItems=50,uniqueItems=true" eg:"[2, 4, 8]" jsonschema_description:"Requests per second: a number, or one load point for each of a list."`
	Arrival     string   `json:"arrival,omitempty" jsonschema:"enum=constant,enum=poisson,default=poisson" eg:"poisson" jsonschema_description:"How the times between requests are distributed."`
	Duration    duration `json:"duration" eg:"60s" jsonschema_description:"How long requests are sent at each rate."`
	MaxInFlight *int     `json:"max_in_flight,omitempty" jsonschema:"minimum=1,maximum=100000" eg:"512" jsonschema_description:"Most requests in flight; a run that reaches it says so. None unless given."`
}

type fileCapacity struct {
	Concurrency *fileWholes `json:"concurrency,omitempty" eg:"{min: 1, max: 256}" jsonschema_description:"Look for a number of requests in flight, between these. Needs requests."`
	Rate        *fileRates  `json:"rate,omitempty" eg:"{min: 0.5, max: 50}" jsonschema_description:"Look for a number of requests per second, between these. Needs duration."`
	Requests    *int        `json:"requests,omitempty" jsonschema:"minimum=1,maximum=10000000" eg:"200" jsonschema_description:"Requests per measurement; four times the concurrency where that is more."`
	Arrival     string      `json:"arrival,omitempty" jsonschema:"enum=constant,enum=poisson,default=poisson" eg:"poisson" jsonschema_description:"How the times between requests are distributed. Only with rate."`
	Duration    *duration   `json:"duration,omitempty" eg:"60s" jsonschema_description:"How long requests are sent at each rate."`
	MaxInFlight *int        `json:"max_in_flight,omitempty" jsonschema:"minimum=1,maximum=100000" eg:"512" jsonschema_description:"Most requests in flight. Only with rate; none unless given."`
	Resolution  *step       `json:"resolution,omitempty" eg:"5%" jsonschema_description:"How close the highest load that holds and the lowest that fails must come; 5% unless given."`
	AtLeast     *float64    `json:"at_least,omitempty" jsonschema:"exclusiveMinimum=0,maximum=100000" eg:"32" jsonschema_description:"What every config but the baseline must hold for the run to pass. Nothing unless given."`
}

type fileWholes struct {
	Min *int `json:"min,omitempty" jsonschema:"minimum=1,maximum=10000,default=1" eg:"1" jsonschema_description:"Where the search begins."`
	Max int  `json:"max" jsonschema:"minimum=1,maximum=10000" eg:"256" jsonschema_description:"The most that is tried."`
}

type fileRates struct {
	Min *float64 `json:"min,omitempty" jsonschema:"exclusiveMinimum=0,maximum=100000,default=1" eg:"0.5" jsonschema_description:"Where the search begins."`
	Max float64  `json:"max" jsonschema:"exclusiveMinimum=0,maximum=100000" eg:"50" jsonschema_description:"The most that is tried."`
}

type fileSLO struct {
	Name  string `json:"name" jsonschema:"pattern=^[a-z0-9][a-z0-9-]*$,maxLength=63" says:"lower-case letters, digits and dashes" eg:"ttft-p99" jsonschema_description:"Name in reports."`
	Query string `json:"query" jsonschema:"maxLength=10000" eg:"quantile_over_time(0.99, bench_request_ttft_seconds[$window])" jsonschema_description:"MetricsQL for one number per trial. $window is the trial's window; labels of the trial are added."`
	Max   *bound `json:"max,omitempty" eg:"500ms" jsonschema_description:"Upper bound: a number in base units, a duration, or a percentage."`
	Min   *bound `json:"min,omitempty" eg:"100" jsonschema_description:"Lower bound instead."`
	Gate  *bool  `json:"gate,omitempty" jsonschema:"default=true" eg:"false" jsonschema_description:"Whether missing it fails the run; false shows it only."`
}

type fileCompare struct {
	Baseline      string   `json:"baseline" eg:"default" jsonschema_description:"A config."`
	Candidates    []string `json:"candidates,omitempty" jsonschema:"minItems=1,maxItems=63,uniqueItems=true" eg:"[optimized]" jsonschema_description:"Configs; all others unless given."`
	MinimumEffect *share   `json:"minimum_effect,omitempty" eg:"3%" jsonschema_description:"Smallest change that matters; 3% unless given."`
	Attribute     *bool    `json:"attribute,omitempty" jsonschema:"default=false" eg:"true" jsonschema_description:"Split the change over the flags that differ: measures configs in between, see benchctl plan."`
	Design        *string  `json:"design,omitempty" jsonschema:"enum=one-at-a-time,enum=full,default=one-at-a-time" eg:"full" jsonschema_description:"Which configs in between: each flag alone from both ends, or every combination (up to 5 flags)."`
}

type fileBudget struct {
	GPUMinutes float64 `json:"gpu_minutes" jsonschema:"exclusiveMinimum=0,maximum=100000" eg:"60" jsonschema_description:"Engine minutes that a run may take."`
}

// fileConfigs are the configs in the order of the file.
type fileConfigs []fileConfig

type fileConfig struct {
	name  string
	place Position
	flags fileFlags
}

// fileFlags are flags in the order of the file, with their values as YAML has them.
type fileFlags []fileFlag

type fileFlag struct {
	name  string
	path  string
	place Position
	node  ast.Node
	value any
	good  bool
}

// fileEnv are environment variables.
type fileEnv map[string]string

// filePromptFile is a path, or a path and the SHA-256 that the file must have.
type filePromptFile struct {
	path   string
	sha256 string
}
