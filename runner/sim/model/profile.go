package model

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// DefaultProfile is the profile that is used when none is named.
const DefaultProfile = "laptop"

// Profile is the truth of one simulated machine and model. It is data: see the files in profiles, which name their
// sources. Times are seconds of simulated time.
type Profile struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Sources     []string `json:"sources"` // where the numbers come from; "invented" when from nowhere
	Notes       []string `json:"notes,omitempty"`

	Model   Facts    `json:"model"`
	Memory  Memory   `json:"memory"`
	Limits  Limits   `json:"limits"`
	Step    StepCost `json:"step"`
	Compile Compile  `json:"compile"`
	Noise   Noise    `json:"noise"`
	Start   Startup  `json:"start"`

	// EOSMeanTokens is the mean length of answers that may end early (geometric); 0 = they never do.
	EOSMeanTokens float64 `json:"eos_mean_tokens"`
}

// Facts are what the served model says about itself.
type Facts struct {
	Architecture  string `json:"architecture"`
	Vocabulary    int    `json:"vocabulary"` // token ids are in [0, Vocabulary)
	MaxModelLen   int    `json:"max_model_len"`
	DType         string `json:"dtype"`
	Quantization  string `json:"quantization,omitempty"`
	Hybrid        bool   `json:"hybrid"`         // has recurrent layers: a large cache block, prefix caching off by default before 0.28
	MessageTokens int    `json:"message_tokens"` // the chat template's own tokens around each message
	ReplyTokens   int    `json:"reply_tokens"`   // and before the answer
}

// Memory says how much KV cache there is.
type Memory struct {
	DeviceGiB   float64 `json:"device_gib"`
	WeightsGiB  float64 `json:"weights_gib"`
	OverheadGiB float64 `json:"overhead_gib"` // activations and the rest
	GraphsGiB   float64 `json:"graphs_gib"`   // only without enforce-eager
	BlockTokens int     `json:"block_tokens"` // tokens per cache block: the grain of prefix hits
	BlockBytes  int64   `json:"block_bytes"`
	StateBlocks int     `json:"state_blocks"` // blocks that each running request holds besides its tokens' (recurrent state)
	// StateBlocksCached takes the place of StateBlocks, with prefix caching on, in the reported maximum concurrency only.
	StateBlocksCached int `json:"state_blocks_cached"`
}

// Limits are the engine's defaults.
type Limits struct {
	BatchedTokens int     `json:"max_num_batched_tokens"`
	Seqs          int     `json:"max_num_seqs"`
	Utilization   float64 `json:"gpu_memory_utilization"`
}

// StepCost is the time of one engine step.
type StepCost struct {
	Decode     Curve   `json:"decode_s"`      // by running requests, CUDA graphs
	Prefill    Curve   `json:"prefill_s"`     // by prompt tokens computed in the step
	EagerFloor float64 `json:"eager_floor_s"` // a step without graphs takes at least this: the host launches every kernel
	Frontend   float64 `json:"frontend_s"`    // from a request's arrival to the scheduler: parsing, tokenising, queues
}

// Compile is what the first use of a shape costs.
type Compile struct {
	Prompts  []ShapeClass `json:"prompts"`   // by the tokens of a request's first chunk, ascending
	FirstHit *ShapeClass  `json:"first_hit"` // the first prefix cache hit; nil = free
}

// ShapeClass is a range of shapes that share compiled kernels.
type ShapeClass struct {
	UpTo    int      `json:"up_to"` // tokens, inclusive; larger than the last class counts as the last
	Cost    float64  `json:"cost_s"`
	Kernels []string `json:"kernels"` // names that the log tells; empty = it happens in silence
}

// Noise says how starts and steps of one configuration differ, as the standard deviation of the logarithm.
type Noise struct {
	Start        float64 `json:"start_sigma"`         // one draw per start, on decode steps
	StartPrefill float64 `json:"start_prefill_sigma"` // one draw per start, on steps with prompt tokens
	Step         float64 `json:"step_sigma"`          // one draw per step
}

// Startup is how long a start takes.
type Startup struct {
	Graphs StartPhases `json:"graphs"` // compile caches kept
	Cold   StartPhases `json:"cold"`   // nothing cached
	Eager  StartPhases `json:"eager"`
}

// StartPhases are the parts of a start, in order.
type StartPhases struct {
	Front   float64 `json:"front_s"`   // API server, imports, configuration
	Load    float64 `json:"load_s"`    // weights
	Compile float64 `json:"compile_s"` // torch.compile
	Warmup  float64 `json:"warmup_s"`  // profiling run
	Capture float64 `json:"capture_s"` // CUDA graphs
	Rest    float64 `json:"rest_s"`    // everything else of engine initialisation
}

// Init is the time that vLLM reports as "init engine".
func (p StartPhases) Init() float64 { return p.Compile + p.Warmup + p.Capture + p.Rest }

// Total is the whole start.
func (p StartPhases) Total() float64 { return p.Front + p.Load + p.Init() }

// Profiles lists the names of the built-in profiles, sorted.
func Profiles() []string {
	entries, err := profileFiles.ReadDir("profiles")
	if err != nil {
		return nil // the folder is compiled in
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(names)
	return names
}

// LoadProfile returns a built-in profile; "" is DefaultProfile. The error lists the names there are.
func LoadProfile(name string) (*Profile, error) {
	if name == "" {
		name = DefaultProfile
	}
	raw, err := profileFiles.ReadFile(path.Join("profiles", name+".json"))
	if err != nil {
		return nil, fmt.Errorf("no profile is called %q; there are %s", name, strings.Join(Profiles(), ", "))
	}
	return ParseProfile(raw)
}

// ParseProfile reads a profile and checks it. Unknown fields are errors.
func ParseProfile(raw []byte) (*Profile, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var p Profile
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("parse profile: %w", err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	return &p, nil
}

func (p *Profile) check() error {
	m := p.Memory
	switch {
	case p.Name == "":
		return errors.New("has no name")
	case len(p.Sources) == 0:
		return errors.New("names no source")
	case p.Model.Vocabulary < 2 || p.Model.MaxModelLen < 2:
		return errors.New("vocabulary and max_model_len must be at least 2")
	case m.BlockTokens < 1 || m.BlockBytes < 1 || m.StateBlocks < 0 || m.StateBlocksCached < 0:
		return errors.New("cache blocks must be positive")
	case p.Limits.BatchedTokens < 1 || p.Limits.Seqs < 1:
		return errors.New("limits must be positive")
	case !(p.Limits.Utilization > 0 && p.Limits.Utilization <= 1):
		return errors.New("gpu_memory_utilization must be in (0, 1]")
	case !(p.Step.EagerFloor >= 0 && p.Step.Frontend >= 0):
		return errors.New("times must not be negative")
	case !(p.Noise.Start >= 0 && p.Noise.StartPrefill >= 0 && p.Noise.Step >= 0):
		return errors.New("noise must not be negative")
	case !(p.EOSMeanTokens >= 0):
		return errors.New("eos_mean_tokens must not be negative")
	}
	if err := p.Step.Decode.check(); err != nil {
		return fmt.Errorf("decode_s: %w", err)
	}
	if err := p.Step.Prefill.check(); err != nil {
		return fmt.Errorf("prefill_s: %w", err)
	}
	for i, c := range p.Compile.Prompts {
		if c.Cost < 0 || i > 0 && c.UpTo <= p.Compile.Prompts[i-1].UpTo {
			return fmt.Errorf("compile class %d: costs must not be negative and classes must ascend", i)
		}
	}
	return nil
}

// Curve is a function given by points (x, seconds), x ascending; between them it is linear. Left of the first point it
// is flat, because a smaller batch never takes less than the smallest measured; right of the last it goes on with the
// last slope.
type Curve [][2]float64

func (c Curve) check() error {
	if len(c) == 0 {
		return errors.New("has no points")
	}
	for i, p := range c {
		if !(p[1] > 0) {
			return fmt.Errorf("point %d: %v is not a time", i, p[1])
		}
		if i > 0 && !(p[0] > c[i-1][0] && p[1] >= c[i-1][1]) {
			return fmt.Errorf("point %d: points must ascend", i)
		}
	}
	return nil
}

// At is the value at x.
func (c Curve) At(x float64) float64 {
	if x <= c[0][0] || len(c) == 1 {
		return c[0][1]
	}
	i := 1
	for i < len(c)-1 && c[i][0] < x {
		i++
	}
	a, b := c[i-1], c[i]
	return a[1] + (x-a[0])/(b[0]-a[0])*(b[1]-a[1])
}
