// Package spec reads an experiment file: strictly, with a position for every fault. It decides nothing about how the
// experiment is run (plan) and never touches the network.
package spec

import (
	"time"

	"h100-inference-control-plane/runner/arrival"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/workload"
)

// The apiVersion and kind of an experiment file.
const (
	APIVersion = "bench/v1"
	Kind       = "Experiment"
)

// Experiment is one file, resolved: defaults filled in, flags typed, prompt files read. It marshals to canonical
// JSON (used in keys), and to the spec.yaml of a results folder.
type Experiment struct {
	APIVersion  string            `json:"apiVersion"`
	Kind        string            `json:"kind"`
	Name        string            `json:"name"` // [a-z0-9-], 1..63 characters
	Description string            `json:"description,omitempty"`
	Model       engine.Model      `json:"model"`
	Engine      Engine            `json:"engine"`
	Configs     []Config          `json:"configs"` // in the order of the file, 1..64, then the derived ones
	Workload    workload.Workload `json:"workload"`
	Load        LoadLevels        `json:"load"`
	Starts      int               `json:"starts"` // engine starts per config, 1..100
	SLO         []SLO             `json:"slo,omitempty"`
	Compare     *Compare          `json:"compare,omitempty"`
	Budget      *Budget           `json:"budget,omitempty"`

	// Dir is the folder of the file; relative paths in it (model.path, file) start there. Not part of any key.
	Dir string `json:"-"`
	// File is the path as given by the user. Not part of any key.
	File string `json:"-"`
	// FlagTable is the release whose flag table was used; where that is not Engine.Version, a sentence that says so.
	FlagTable string `json:"-"`
	// Positions gives the line and column of the key (in a list: of the entry) at a path such as "slo[0].query" or
	// "configs.default.enforce-eager".
	Positions map[string]Position `json:"-"`
}

// Position is a place in a file, counted from 1.
type Position struct{ Line, Column int }

// Engine is the engine block.
type Engine struct {
	Name    string            `json:"name"`    // vllm | sim
	Version string            `json:"version"` // x.y.z
	Flags   []engine.Flag     `json:"flags,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Sim     *engine.Sim       `json:"sim,omitempty"` // only with name: sim
}

// Config is one set of flags. Flags holds only the config's own; see Experiment.Merged.
type Config struct {
	Name  string        `json:"name"` // [a-z0-9-], 1..32 characters
	Flags []engine.Flag `json:"flags"`
	// Derived is not nil for a config that the file does not name, added to split a change over the flags that differ.
	// Such names may hold "+" and be longer.
	Derived *Derived `json:"derived,omitempty"`
}

// LoadLevels says how requests are offered. Exactly one of Closed, Open and Capacity is set. In JSON its times are in
// seconds: timeout_seconds, and duration_seconds of Open and Capacity.
type LoadLevels struct {
	Closed   *Closed       `json:"closed,omitempty"`
	Open     *Open         `json:"open,omitempty"`
	Capacity *Capacity     `json:"capacity,omitempty"`
	Warmup   int           `json:"warmup"`  // requests before each window; 0 = none, WarmupAuto = plan chooses (twice the concurrency, at least 8)
	Timeout  time.Duration `json:"timeout"` // per request; default 10 min
}

// Closed keeps a number of requests in flight.
type Closed struct {
	Concurrency []int `json:"concurrency"` // each 1..10,000, distinct
	Requests    int   `json:"requests"`    // per load point, 1..10,000,000
}

// Open sends at times that do not depend on the answers.
type Open struct {
	Rates       []float64       `json:"rates"` // requests per second, each > 0, distinct
	Arrival     arrival.Process `json:"arrival"`
	Duration    time.Duration   `json:"duration"`
	MaxInFlight int             `json:"max_in_flight,omitempty"` // 0 = no cap; a cap that is ever reached is reported
}

// Capacity looks for the highest load at which every gating objective is met. Exactly one of Concurrency and Rate is
// set, and with it either Requests or Arrival and Duration.
type Capacity struct {
	Concurrency *Range          `json:"concurrency,omitempty"` // whole numbers of requests in flight, within 1..10,000
	Rate        *Range          `json:"rate,omitempty"`        // requests per second, above 0
	Requests    int             `json:"requests,omitempty"`    // closed loop: of a measurement, or RequestsPerPlace times the concurrency where that is more
	Arrival     arrival.Process `json:"arrival,omitempty"`     // open loop
	Duration    time.Duration   `json:"duration,omitempty"`    // open loop: of a measurement
	MaxInFlight int             `json:"max_in_flight,omitempty"`
	Resolution  float64         `json:"resolution"`         // the search ends when the lowest load that fails is at most 1 + this times the highest that holds; MinResolution to below 1
	AtLeast     *float64        `json:"at_least,omitempty"` // what a config must hold for the run to pass; nil = nothing is asked for
}

// Range is where a search looks: 0 < Min < Max, in the unit of the load.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

const (
	// RequestsPerPlace is how many requests a capacity search sends for each place of a closed loop, at least: with fewer
	// than a few waves, the first burst and the last stragglers are most of what is measured.
	RequestsPerPlace = 4
	// MinResolution is the finest step of a capacity search. Starts differ by more.
	MinResolution = 0.01
)

// Point is one load level.
type Point struct {
	Concurrency int     `json:"concurrency,omitempty"` // closed loop
	Rate        float64 `json:"rate,omitempty"`        // open loop, requests per second
}

// SLO is one objective, judged per trial.
type SLO struct {
	Name  string   `json:"name"`           // [a-z0-9-]
	Query string   `json:"query"`          // MetricsQL, with $window
	Max   float64  `json:"max"`            // in base units: seconds, ratio
	Unit  string   `json:"unit,omitempty"` // how Max was written: "s", "%", "" — for people only
	Min   *float64 `json:"min,omitempty"`  // lower bound instead of Max (throughput); exactly one of Max and Min is set by the file
	Gate  bool     `json:"gate"`           // default true
}

// Compare names what is compared.
type Compare struct {
	Baseline      string   `json:"baseline"`
	Candidates    []string `json:"candidates"`
	MinimumEffect float64  `json:"minimum_effect"` // ratio, default 0.03
	Attribute     bool     `json:"attribute"`      // split the change over the flags that differ
	Full          bool     `json:"full,omitempty"` // with every combination of the flags; otherwise one at a time from both ends
}

// Budget bounds what a run may cost.
type Budget struct {
	GPUMinutes float64 `json:"gpu_minutes"` // > 0
}

// WarmupAuto is the Load.Warmup of a file that does not say.
const WarmupAuto = -1
