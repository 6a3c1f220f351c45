package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

// assemble makes the result document of one experiment from what its journal holds, but for what follows from it:
// checks, cells and verdicts.
func (r *Runner) assemble(j *job, p *plan.Plan) *result.Run {
	e := j.exp
	run := &result.Run{
		Schema: result.Schema, RunKey: e.RunKey, Synthetic: r.Synthetic, Started: j.memory.began, Ended: time.Now().UTC().Truncate(time.Millisecond),
		Tool: r.Tool, Host: r.Host, Where: r.Provisioner.Name(), Experiment: e.Spec, Floor: r.Floor,
		Plan: result.Plan{Seed: p.Seed, Estimate: p.Estimate}, Starts: j.memory.starts,
	}
	if eng, ok := r.Engine(e.Spec.Engine.Name); ok {
		run.Simulated = eng.Simulated()
	}
	sort.SliceStable(run.Starts, func(a, b int) bool {
		x, y := run.Starts[a], run.Starts[b]
		if x.ID != y.ID {
			return x.ID < y.ID
		}
		if x.Attempt != y.Attempt {
			return x.Attempt < y.Attempt
		}
		return x.Config < y.Config
	})
	for _, s := range p.Starts {
		configs := map[string]bool{}
		for _, t := range s.Trials {
			if t.Experiment != e.Name {
				continue
			}
			if !configs[t.Config] {
				configs[t.Config] = true
				run.Plan.Order = append(run.Plan.Order, s.ID+" "+t.Config)
			}
			if t.Search != nil {
				run.Trials = append(run.Trials, r.searched(t, s.ID, j)...)
				continue
			}
			run.Trials = append(run.Trials, j.outcome(t, s.ID))
		}
	}
	for _, w := range p.Warnings {
		if w.Experiment == e.Name {
			run.Warnings = append(run.Warnings, w)
		}
	}
	return run
}

// outcome is what became of a planned trial.
func (j *job) outcome(t plan.Trial, start string) result.Trial {
	if got, ok := j.memory.trials[t.ID]; ok {
		return got
	}
	if got, ok := j.broken[t.ID]; ok {
		return got
	}
	return result.Trial{
		ID: t.ID, Config: t.Config, Point: t.Point, Repeat: t.Repeat, Start: start, Seed: t.Seed,
		Outcome: result.Missing, Error: "the run ended before this trial", Verdict: result.Error, Confirms: t.Confirms,
	}
}

// file writes everything that is rendered from the document, and the document last.
func (r *Runner) file(j *job, run *result.Run) error {
	f := j.folder
	files, err := derive.Files(run, f.records)
	if err != nil {
		return err
	}
	for _, x := range files {
		if err := f.write(x.Path, x.Bytes); err != nil {
			return err
		}
	}
	if run.Files, err = f.list(); err != nil {
		return err
	}
	doc, err := result.Marshal(run)
	if err != nil {
		return fmt.Errorf("write run.json: %w", err)
	}
	return f.write("run.json", doc)
}

// records reads a trial's requests back.
func (f *folder) records(trial string) ([]record.Record, error) {
	file, err := os.Open(f.path(requestsFile(trial)))
	if err != nil {
		return nil, fmt.Errorf("read the requests of %s: %w", trial, err)
	}
	defer file.Close()
	recs, err := record.Read(file)
	if err != nil {
		return nil, fmt.Errorf("read the requests of %s: %w", trial, err)
	}
	return recs, nil
}

// list describes every file of the folder but run.json and the journal, sorted by path.
func (f *folder) list() ([]result.File, error) {
	var out []result.File
	err := filepath.WalkDir(f.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.dir, p)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel == journalDir:
			return filepath.SkipDir
		case d.IsDir() || rel == "run.json" || strings.HasSuffix(rel, ".tmp"):
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		out = append(out, result.File{Path: filepath.ToSlash(rel), Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:])})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the results folder: %w", err)
	}
	return out, nil
}
