// Package plan turns experiments into the exact engine starts and trials of a run, in order, with every seed. It is a
// pure function: same experiments and options, same plan. It starts nothing.
package plan

import (
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/spec"
)

// Schema is the version of the plan document.
const Schema = "bench/plan/v1"

// Plan is a run before it happens.
type Plan struct {
	Schema      string       `json:"schema"`
	Seed        uint64       `json:"seed"`
	Experiments []Experiment `json:"experiments"`
	Starts      []Start      `json:"starts"` // in the order in which they run
	Estimate    Estimate     `json:"estimate"`
	Warnings    []Warning    `json:"warnings,omitempty"`
}

// Experiment is one experiment's part of a plan.
type Experiment struct {
	Name   string           `json:"name"`
	File   string           `json:"file"`
	RunKey string           `json:"run_key"` // hex SHA-256 over everything in the plan of this experiment that may change a number
	Spec   *spec.Experiment `json:"spec"`
}

// Start is one life of an engine. Configs of several experiments that launch the same engine share it.
type Start struct {
	ID        string            `json:"id"`     // "s01"
	Block     int               `json:"block"`  // interleaving block, from 1
	Repeat    int               `json:"repeat"` // k-th start of this engine configuration, from 1
	Engine    string            `json:"engine"`
	Version   string            `json:"version"`
	Model     engine.Model      `json:"model"`
	Flags     []engine.Flag     `json:"flags"`
	Env       map[string]string `json:"env,omitempty"`
	Sim       *engine.Sim       `json:"sim,omitempty"`
	Labels    []string          `json:"labels"` // "experiment/config", sorted
	Trials    []Trial           `json:"trials"`
	EstimateS float64           `json:"estimate_seconds"` // start and trials
}

// Trial is one cell measured in one start.
type Trial struct {
	ID         string     `json:"id"` // "<config>-c16-1" or "<config>-r2.5-1"; unique within an experiment
	Experiment string     `json:"experiment"`
	Config     string     `json:"config"`
	Point      spec.Point `json:"load"`
	Repeat     int        `json:"repeat"`
	Requests   int        `json:"requests"`
	Warmup     int        `json:"warmup"`
	Seed       uint64     `json:"seed"`               // of the workload: equal for all configs of a block, fresh across blocks
	Confirms   bool       `json:"confirms,omitempty"` // measures a cell once more because a gate of it failed
	EstimateS  float64    `json:"estimate_seconds"`
	// Search is set when this stands for a capacity search, whose trials follow from one another: ID names the search,
	// Point is zero, Requests and Warmup are sums and with EstimateS of the worst case. See Measurement.
	Search *Search `json:"search,omitempty"`
}

// Search is what of a capacity search is known before it.
type Search struct {
	Trials int `json:"trials"` // at most
	Usual  int `json:"usual"`  // when measurements of one load agree
}

// Estimate is what a run will cost, as far as it is known before.
type Estimate struct {
	EngineMinutes float64 `json:"engine_minutes"`
	StartMinutes  float64 `json:"start_minutes"`
	Starts        int     `json:"starts"`
	Trials        int     `json:"trials"` // at most, where there is a search
	Requests      int     `json:"requests"`
	AtMost        bool    `json:"at_most,omitempty"` // a capacity search is in it: these are upper limits
	Basis         string  `json:"basis"`             // where the figures come from
	// Attribution is the part that is measured only to split a change over flags; its starts are among Starts. Null = none.
	Attribution *Share `json:"attribution,omitempty"`
}

// Share is a part of an estimate.
type Share struct {
	Configs       int     `json:"configs"`
	Starts        int     `json:"starts"`
	EngineMinutes float64 `json:"engine_minutes"`
}

// Warning is something a person should know before paying for the run.
type Warning struct {
	Code       string `json:"code"` // e.g. "inert-factor"
	Experiment string `json:"experiment"`
	Factor     string `json:"factor,omitempty"` // flag name
	Message    string `json:"message"`
	Line       int    `json:"line,omitempty"`
	Column     int    `json:"column,omitempty"`
}
