package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sort"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/spec"
)

// Options are what a plan depends on besides the experiments.
type Options struct {
	// Seed orders the starts and makes the prompts. 0 = derived from the experiments, so that planning the same files
	// again gives the same plan.
	Seed uint64
	// Fingerprint identifies the machine and LoadGenerator the client's behaviour; both go into the run keys, so that
	// results of different machines are never mixed. Empty is allowed where nothing is run.
	Fingerprint   string
	LoadGenerator string
	// Where is the provisioner's name; it goes into the run keys.
	Where string
}

// New plans a run of one or more experiments. The experiments must be valid and have distinct names. The plan refers
// to them and does not change them.
func New(exps []*spec.Experiment, o Options) (*Plan, error) {
	if err := distinct(exps); err != nil {
		return nil, err
	}
	canon := make([][]byte, len(exps))
	for i, e := range exps {
		b, err := e.CanonicalJSON()
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", e.Name, err)
		}
		canon[i] = b
	}
	if o.Seed == 0 {
		o.Seed = seedOf(canon)
	}
	p := &Plan{Schema: Schema, Seed: o.Seed}
	for _, e := range exps {
		key, err := runKey(e, o)
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", e.Name, err)
		}
		p.Experiments = append(p.Experiments, Experiment{Name: e.Name, File: e.File, RunKey: key, Spec: e})
		p.Warnings = append(p.Warnings, warnings(e)...)
	}
	p.Starts = order(groups(exps), o.Seed)
	p.Estimate = estimate(p)
	p.Warnings = append(p.Warnings, budgetWarnings(p)...)
	return p, nil
}

func distinct(exps []*spec.Experiment) error {
	if len(exps) == 0 {
		return fmt.Errorf("plan: no experiment")
	}
	seen := map[string]string{}
	for _, e := range exps {
		if other, dup := seen[e.Name]; dup {
			return fmt.Errorf("%s and %s are both named %q; results are filed by name, so give each its own", other, e.File, e.Name)
		}
		seen[e.Name] = e.File
	}
	return nil
}

func seedOf(canon [][]byte) uint64 {
	h := sha256.New()
	for _, c := range canon {
		sum := sha256.Sum256(c)
		h.Write(sum[:])
	}
	// 53 bits: the seed survives JSON readers that hold numbers as float64.
	return binary.BigEndian.Uint64(h.Sum(nil))>>11 | 1
}

// runKey covers everything that may change a number or a verdict of the run. The description, the budget, the file's
// name, its key order and its comments are not in it.
func runKey(e *spec.Experiment, o Options) (string, error) {
	keyed := *e
	keyed.Description, keyed.Budget = "", nil
	c, err := keyed.CanonicalJSON()
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{
		"schema": Schema, "seed": o.Seed, "fingerprint": o.Fingerprint, "load_generator": o.LoadGenerator,
		"where": o.Where, "experiment": json.RawMessage(c),
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// A group is one way of launching an engine, with every config that asks for exactly it.
type group struct {
	start   Start // without ID, Block, Repeat and Trials
	members []member
	starts  int
}

type member struct {
	exp    *spec.Experiment
	config string
}

func groups(exps []*spec.Experiment) []*group {
	var out []*group
	byLaunch := map[string]*group{}
	for _, e := range exps {
		for _, c := range e.Configs {
			s := Start{
				Engine: e.Engine.Name, Version: e.Engine.Version, Model: e.Model,
				Flags: e.Merged(c.Name), Env: e.Engine.Env, Sim: e.Engine.Sim,
			}
			k := launchKey(s, e.Dir)
			g := byLaunch[k]
			if g == nil {
				g = &group{start: s}
				byLaunch[k] = g
				out = append(out, g)
			}
			g.members = append(g.members, member{e, c.Name})
			g.start.Labels = append(g.start.Labels, e.Name+"/"+c.Name)
			g.starts = max(g.starts, e.Starts)
		}
	}
	for _, g := range out {
		sort.Strings(g.start.Labels)
	}
	return out
}

// launchKey is equal for two starts exactly when one engine process can serve both.
func launchKey(s Start, dir string) string {
	if s.Model.Path == "" {
		dir = "" // only a relative model path depends on where the file lies
	}
	b, err := json.Marshal(struct {
		Engine, Version, Dir string
		Model                engine.Model
		Flags                []engine.Flag
		Env                  map[string]string
		Sim                  *engine.Sim
	}{s.Engine, s.Version, dir, s.Model, s.Flags, s.Env, s.Sim})
	if err != nil {
		panic(fmt.Sprintf("plan: flags of a valid experiment do not marshal: %v", err))
	}
	return string(b)
}

// order interleaves the starts: in every block each engine configuration starts once, and the order of an even block
// is the mirror image of the one before (ABBA), so that a linear drift of the machine falls on all of them alike. Each
// pair of blocks has an order of its own, drawn from the seed.
func order(gs []*group, seed uint64) []Start {
	blocks := 0
	for _, g := range gs {
		blocks = max(blocks, g.starts)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6f72646572))
	var out []Start
	var perm []int
	for b := 1; b <= blocks; b++ {
		if b%2 == 1 {
			perm = rng.Perm(len(gs))
		} else {
			reverse(perm)
		}
		for _, i := range perm {
			if b > gs[i].starts {
				continue
			}
			s := gs[i].start
			s.ID, s.Block, s.Repeat = fmt.Sprintf("s%02d", len(out)+1), b, b
			s.Trials = trials(gs[i], b, seed)
			s.EstimateS = startSeconds(s)
			for _, t := range s.Trials {
				s.EstimateS += t.EstimateS
			}
			out = append(out, s)
		}
	}
	return out
}

// trials lists the cells that one start measures. Load points go up in odd repeats and down in even ones, for the same
// reason as the mirrored blocks.
func trials(g *group, repeat int, seed uint64) []Trial {
	var out []Trial
	for _, m := range g.members {
		if repeat > m.exp.Starts {
			continue
		}
		if m.exp.Load.Capacity != nil {
			out = append(out, searchTrial(m.exp, m.config, repeat, seed))
			continue
		}
		points := append([]spec.Point(nil), m.exp.Points()...)
		if repeat%2 == 0 {
			reverse(points)
		}
		for _, p := range points {
			out = append(out, Trial{
				ID:         trialID(m.config, p, repeat),
				Experiment: m.exp.Name, Config: m.config, Point: p, Repeat: repeat,
				Requests: requests(m.exp, p), Warmup: warmup(m.exp, p),
				Seed:      trialSeed(seed, m.exp.Name, p, repeat),
				EstimateS: trialSeconds(m.exp, m.config, p),
			})
		}
	}
	return out
}

func trialID(config string, p spec.Point, repeat int) string {
	return fmt.Sprintf("%s-%s-%d", config, p, repeat)
}

// trialSeed is equal for all configs of a block, so that they are sent the same bytes, and fresh across blocks, so
// that no prefix cache of an outer layer can remember them.
func trialSeed(seed uint64, experiment string, p spec.Point, repeat int) uint64 {
	h := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%d", seed, experiment, p, repeat))
	return binary.BigEndian.Uint64(h[:])>>11 | 1
}

func requests(e *spec.Experiment, p spec.Point) int {
	switch l := e.Load; {
	case l.Closed != nil:
		return l.Closed.Requests
	case l.Capacity != nil && p.Concurrency > 0:
		return max(l.Capacity.Requests, spec.RequestsPerPlace*p.Concurrency)
	}
	return max(1, int(p.Rate*e.Load.Arrivals().Duration.Seconds()+0.5))
}

// warmup is the number of requests before a window: what the file says, or twice what is in flight at once.
func warmup(e *spec.Experiment, p spec.Point) int {
	if e.Load.Warmup != spec.WarmupAuto {
		return e.Load.Warmup
	}
	if p.Concurrency > 0 {
		return max(8, 2*p.Concurrency)
	}
	return max(8, int(2*p.Rate+0.5))
}

func reverse[T any](s []T) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}
