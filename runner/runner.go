// Package runner owns the order of a run: it takes a plan, brings each engine up, measures its trials, judges them and
// files the result. It knows no engine, no provisioner and no wire format: those are handed to it. What it writes is a
// results folder per experiment; what it prints is nothing (see Observer).
package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"h100-inference-control-plane/runner/capacity"
	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/host/sample"
	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/redact"
	"h100-inference-control-plane/runner/result"
)

// LoadGenerator is the version of the load generator's behaviour. It is part of every run key: raise it when a change
// may move a number.
const LoadGenerator = "1"

// A Runner measures plans. All fields but Floor, Sampler and Observer are required.
type Runner struct {
	Provisioner provision.Provisioner
	Engine      func(name string) (engine.Engine, bool)
	// Binary says which command is the engine ("vllm", a path, our own "sim"). The error is for the user.
	Binary func(engine, version string) ([]string, error)
	Store  *measure.Client // the VictoriaMetrics of this run
	Root   string          // results root; a folder per experiment is made in it
	Again  bool            // measure again although a finished result is there
	Redact *redact.Redactor
	Tool   result.Tool
	Host   result.Host
	Floor  *result.Floor
	// Sampler watches the machine inside the windows; nil = nothing is sampled.
	Sampler *sample.Sampler
	// ReadyTimeout bounds an engine start; 0 = the provisioner's default.
	ReadyTimeout time.Duration
	// ModelPath, when not empty, is the folder of the model's files, whatever the spec says.
	ModelPath string
	// NoConfirm fails a gate at once. Otherwise the cells of failed gates are measured again, once, before that.
	NoConfirm bool
	// Synthetic, when not empty, says why the weights are not the model's.
	Synthetic string
	Observer  Observer
}

// Result is what became of one experiment.
type Result struct {
	Run    *result.Run
	Dir    string
	Reused bool // the folder was finished before; nothing was measured
}

// errSkipped marks the trials of a start that was not tried, because the same engine failed to start before.
var errSkipped = errors.New("not tried: the same engine did not start before")

// errInterrupted marks the trials of a start that the user ended.
var errInterrupted = errors.New("the run was interrupted before this trial was finished")

// Run measures what of the plan has no result yet. It returns a Result per experiment also when it was interrupted
// (ctx ended) or the machinery failed; err then says why it stopped, and the same call goes on where it ended.
func (r *Runner) Run(ctx context.Context, p *plan.Plan) ([]Result, error) {
	if r.Observer == nil {
		r.Observer = silent{}
	}
	told := r.Observer
	r.Observer = redacting{told, r.Redact}
	defer func() { r.Observer = told }()
	jobs, err := r.open(p)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, j := range jobs {
			j.folder.close()
		}
	}()
	stop := r.starts(ctx, p, jobs)
	if more := r.confirm(p, jobs); stop == nil && len(more.Starts) > len(p.Starts) {
		p = more
		r.Observer.Event(Event{Kind: Note, Message: "a gate failed; its cells are measured once more before that counts"})
		stop = r.starts(ctx, p, jobs)
	}
	var out []Result
	for _, j := range jobs {
		res, err := r.finish(ctx, j, p, stop)
		stop = also(stop, err)
		if res != nil {
			out = append(out, *res)
		}
	}
	return out, stop
}

// A job is one experiment on its way to a results folder.
type job struct {
	exp    plan.Experiment
	folder *folder
	memory memory
	done   *Result // set when there was nothing to do
	broken map[string]result.Trial
	// seed is the plan's; observed remembers what trials meant for a capacity search.
	seed     uint64
	observed map[string]capacity.Observation
}

// open finds or makes the folder of each experiment and reads what is already there.
func (r *Runner) open(p *plan.Plan) ([]*job, error) {
	var jobs []*job
	now := time.Now()
	for _, e := range p.Experiments {
		dir, state, err := findFolder(r.Root, e.Name, e.RunKey, now.Year(), r.Again)
		if err != nil {
			return jobs, err
		}
		j := &job{exp: e, folder: &folder{dir: dir}, broken: map[string]result.Trial{}, seed: p.Seed, observed: map[string]capacity.Observation{}}
		jobs = append(jobs, j)
		if state == finished {
			run, err := result.Read(dir)
			if err != nil {
				return jobs, fmt.Errorf("%s is there and cannot be read (--again measures anew): %w", dir, err)
			}
			j.done = &Result{Run: run, Dir: dir, Reused: true}
			continue
		}
		if j.folder, err = openFolder(dir); err != nil {
			return jobs, err
		}
		if j.memory, err = j.folder.load(); err != nil {
			return jobs, err
		}
		if j.memory.began.IsZero() {
			j.memory.began = now.UTC().Truncate(time.Millisecond)
			if err := j.folder.saveDoc("began.json", j.memory.began); err != nil {
				return jobs, err
			}
		}
		r.Observer.Event(Event{Kind: FolderOpened, Experiment: e.Name, Message: dir, Done: len(j.memory.trials)})
	}
	return jobs, nil
}

// starts goes through the plan's starts in order. A nil error means that every start was tried; what failed then is in
// the jobs.
func (r *Runner) starts(ctx context.Context, p *plan.Plan, jobs []*job) (err error) {
	byName := map[string]*job{}
	for _, j := range jobs {
		byName[j.exp.Name] = j
	}
	failed := map[string]string{} // engine configuration -> why it did not start
	for i := range p.Starts {
		s := p.Starts[i]
		if s.Trials, err = r.remaining(s.Trials, byName); err != nil {
			return err
		}
		if len(s.Trials) == 0 {
			continue
		}
		id := fmt.Sprint(s.Labels)
		if why, ok := failed[id]; ok {
			r.markBroken(s.Trials, byName, s.ID, fmt.Errorf("%w: %s", errSkipped, why))
			r.Observer.Event(Event{Kind: StartSkipped, Start: &s, Message: why})
			continue
		}
		err := r.start(ctx, s, byName)
		var bad *provision.StartError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &bad):
			failed[id] = err.Error()
		default:
			var crash *provision.CrashError
			if !errors.As(err, &crash) {
				return err // disk full, VictoriaMetrics gone: the next start would fare no better
			}
		}
	}
	return nil
}

// remaining are the trials that have no result yet, and the searches that are not at their end.
func (r *Runner) remaining(ts []plan.Trial, jobs map[string]*job) ([]plan.Trial, error) {
	var out []plan.Trial
	for _, t := range ts {
		j := jobs[t.Experiment]
		if j.done != nil {
			continue
		}
		_, have := j.memory.trials[t.ID]
		if t.Search != nil {
			_, more, err := r.nextLoad(nil, t, j)
			if err != nil {
				return nil, err
			}
			have = !more
		}
		if !have {
			out = append(out, t)
		}
	}
	return out, nil
}

func (r *Runner) markBroken(ts []plan.Trial, jobs map[string]*job, start string, err error) {
	for _, t := range ts {
		j := jobs[t.Experiment]
		if _, have := j.memory.trials[t.ID]; have {
			continue
		}
		if _, have := j.broken[t.ID]; have {
			continue
		}
		outcome := result.Broken
		if errors.Is(err, errSkipped) || errors.Is(err, errInterrupted) {
			outcome = result.Missing
		}
		j.broken[t.ID] = result.Trial{
			ID: t.ID, Config: t.Config, Point: t.Point, Repeat: t.Repeat, Start: start, Seed: t.Seed,
			Outcome: outcome, Error: r.sentence(j, err), Verdict: result.Error, Confirms: t.Confirms,
		}
	}
}

// sentence is an error as one line for a document: what the engine said in it is redacted, and paths in it begin at the
// experiment's folder.
func (r *Runner) sentence(j *job, err error) string {
	return oneLine(r.Redact.String(strings.ReplaceAll(err.Error(), j.folder.dir+string(filepath.Separator), "")))
}

// confirm is the plan with what must be measured again: the cells of gates that failed on what was measured. It is the
// plan itself while anything of it is missing.
func (r *Runner) confirm(p *plan.Plan, jobs []*job) *plan.Plan {
	if r.NoConfirm {
		return p
	}
	var cells []plan.Cell
	for _, j := range jobs {
		if j.done != nil || j.exp.Spec.Load.Capacity != nil {
			continue // a search measures both of its ends twice anyway
		}
		run, err := r.judge(j, p)
		if err != nil || measured(run) < len(run.Trials) {
			continue // finish says what is wrong
		}
		for _, g := range run.Gates {
			if g.Gate && g.Verdict == result.Fail {
				cells = append(cells, plan.Cell{Experiment: j.exp.Name, Config: g.Config, Point: g.Point})
			}
		}
	}
	return p.Confirm(cells)
}

// judge makes the document and draws every conclusion.
func (r *Runner) judge(j *job, p *plan.Plan) (*result.Run, error) {
	run := r.assemble(j, p)
	return run, derive.Conclude(run, j.folder.records)
}

// finish judges and files one experiment.
func (r *Runner) finish(ctx context.Context, j *job, p *plan.Plan, stop error) (*Result, error) {
	if j.done != nil {
		return j.done, nil
	}
	run, err := r.judge(j, p)
	if err != nil {
		return &Result{Run: run, Dir: j.folder.dir}, err
	}
	if ctx.Err() != nil && measured(run) < len(run.Trials) {
		run.Verdict, run.Reason = result.Inconclusive, "interrupted: "+progress(run)+"; run it again to go on"
	} else if stop != nil && measured(run) < len(run.Trials) {
		run.Verdict, run.Reason = result.Error, r.sentence(j, stop)
	}
	complete := measured(run) == len(run.Trials)
	if err := r.file(j, run); err != nil {
		return &Result{Run: run, Dir: j.folder.dir}, err
	}
	if complete {
		if err := j.folder.finish(); err != nil {
			return &Result{Run: run, Dir: j.folder.dir}, err
		}
	}
	return &Result{Run: run, Dir: j.folder.dir}, nil
}

func measured(run *result.Run) int {
	n := 0
	for _, t := range run.Trials {
		if t.Outcome == result.Measured {
			n++
		}
	}
	return n
}
