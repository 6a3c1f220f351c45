package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/openai"
	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/redact"
	"h100-inference-control-plane/runner/result"
)

const (
	// stopTimeout bounds the end of an engine, also after Ctrl-C.
	stopTimeout = 60 * time.Second
	// firstCompletion bounds the one real completion that makes an engine ready.
	firstCompletion = 2 * time.Minute
	logBudget       = 24 << 10 // bytes of each engine log that go into the results
)

// A live is one engine while it is up.
type live struct {
	start  plan.Start
	eng    engine.Engine
	server provision.Server
	client *openai.Client
	log    *logFacts
	doc    result.Start
	ctx    context.Context // ends with the engine; its cause is a *provision.CrashError
}

// start brings one engine up, measures its trials and takes it down. Trials that could not be measured are marked in
// their jobs, each with the cause; the error is that cause.
func (r *Runner) start(ctx context.Context, s plan.Start, jobs map[string]*job) (err error) {
	doc := result.Start{ID: s.ID, Repeat: s.Repeat, Block: s.Block, Attempt: attempt(s, jobs), Began: time.Now().UTC().Truncate(time.Millisecond)}
	defer func() {
		switch {
		case err == nil:
		case ctx.Err() != nil:
			r.markBroken(s.Trials, jobs, s.ID, errInterrupted)
		default:
			r.markBroken(s.Trials, jobs, s.ID, err)
		}
	}()
	eng, ok := r.Engine(s.Engine)
	if !ok {
		return fmt.Errorf("no engine is called %q", s.Engine)
	}
	launch, err := r.launch(s, jobs)
	if err != nil {
		return err
	}
	r.Observer.Event(Event{Kind: StartBegins, Start: &s})
	facts := newLogFacts(eng)
	logPath := owner(s, jobs).folder.journal(engineLog(s.ID, doc.Attempt))
	server, err := r.Provisioner.Start(ctx, provision.Request{
		Engine: eng, Launch: launch, LogPath: logPath, ReadyTimeout: r.ReadyTimeout, OnLog: facts.line,
	})
	if err != nil {
		doc.Error = r.sentence(owner(s, jobs), err)
		r.Observer.Event(Event{Kind: StartFailed, Start: &s, Message: oneLine(err.Error())})
		doc.Facts = facts.all(r.Redact)
		return also(err, r.saveStart(doc, s, jobs, logPath))
	}
	doc.Argv = r.argv(eng, launch, server)
	l := &live{start: s, eng: eng, server: server, log: facts, doc: doc}
	defer func() {
		stopErr := r.stop(ctx, l)
		l.doc.Facts = facts.all(r.Redact)
		if err != nil {
			l.doc.Error = r.sentence(owner(s, jobs), err)
		}
		err = also(also(err, stopErr), r.saveStart(l.doc, s, jobs, logPath))
	}()
	return r.serve(ctx, l, launch, jobs)
}

// serve does everything between an engine that answers and its end.
func (r *Runner) serve(ctx context.Context, l *live, launch engine.Launch, jobs map[string]*job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-l.server.Exited():
			if err := l.server.Err(); err != nil {
				cancel(err)
			}
		case <-ctx.Done():
		}
	})
	l.ctx = ctx
	ready := l.server.ReadyAt().Sub(l.server.StartedAt())
	if !l.server.StartedAt().IsZero() {
		l.doc.ReadyS = ptr(seconds(ready))
	}
	l.client = &openai.Client{BaseURL: l.server.URL(), Endpoints: l.eng.Endpoints(), HTTP: &http.Client{}}
	if err := r.identify(ctx, l, launch, jobs); err != nil {
		return l.cause(ctx, err)
	}
	r.Observer.Event(Event{Kind: StartReady, Start: &l.start, Elapsed: ready})
	for i := range l.start.Trials {
		t := l.start.Trials[i]
		measure := r.trial
		if t.Search != nil {
			measure = r.search
		}
		if err := measure(ctx, l, t, jobs[t.Experiment]); err != nil {
			err = l.cause(ctx, err)
			r.Observer.Event(Event{Kind: TrialFailed, Start: &l.start, Trial: &t, Message: oneLine(err.Error())})
			return err
		}
	}
	return nil
}

// identify asks the engine what it is, and makes it answer once for real.
func (r *Runner) identify(ctx context.Context, l *live, launch engine.Launch, jobs map[string]*job) error {
	body, err := l.client.Version(ctx)
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", l.eng.Name(), err)
	}
	if l.doc.Version, err = l.eng.ParseVersion(body); err != nil {
		return fmt.Errorf("read the version of %s: %w", l.eng.Name(), err)
	}
	if l.doc.Version != l.start.Version {
		r.Observer.Event(Event{Kind: Note, Start: &l.start, Message: fmt.Sprintf("the spec says %s %s, the engine says %s", l.eng.Name(), l.start.Version, l.doc.Version)})
		l.doc.Differs = append(l.doc.Differs, result.Difference{Flag: "version", Requested: l.start.Version, Effective: l.doc.Version})
	}
	switch info, err := l.client.ServerInfo(ctx); {
	case errors.Is(err, openai.ErrAbsent):
	case err != nil:
		return fmt.Errorf("ask %s for its settings: %w", l.eng.Name(), err)
	default:
		if l.doc.Effective, err = l.eng.Effective(info); err != nil {
			return fmt.Errorf("read the settings of %s: %w", l.eng.Name(), err)
		}
		l.doc.Differs = append(l.doc.Differs, derive.Differences(l.start.Flags, l.doc.Effective)...)
		for k, v := range l.doc.Effective {
			l.doc.Effective[k] = r.clean(v)
		}
		for i := range l.doc.Differs {
			l.doc.Differs[i].Effective = r.clean(l.doc.Differs[i].Effective)
		}
		safe, err := r.Redact.JSON(info)
		if err != nil {
			return fmt.Errorf("redact the settings of %s: %w", l.eng.Name(), err)
		}
		if safe, err = pack(safe); err != nil {
			return err
		}
		for _, t := range l.start.Trials {
			name := fmt.Sprintf("server_info/%s_%d.json.gz", t.Config, t.Repeat)
			if err := jobs[t.Experiment].folder.write(name, safe); err != nil {
				return err
			}
		}
	}
	once, cancel := context.WithTimeout(ctx, firstCompletion)
	defer cancel()
	if err := l.client.Complete(once, launch.Model.Name); err != nil {
		return fmt.Errorf("first completion of %s: %w", l.eng.Name(), err)
	}
	return nil
}

// clean redacts every text in a JSON-like value: what an engine reports names folders of this machine, and may repeat
// what it was given.
func (r *Runner) clean(v any) any {
	switch x := v.(type) {
	case string:
		return r.Redact.String(x)
	case []any:
		for i := range x {
			x[i] = r.clean(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = r.clean(x[k])
		}
	}
	return v
}

// stop ends the engine, also when ctx is over.
func (r *Runner) stop(ctx context.Context, l *live) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := l.server.Stop(ctx)
	if !l.server.StartedAt().IsZero() {
		l.doc.EngineS = ptr(seconds(time.Since(l.server.StartedAt())))
	}
	r.Observer.Event(Event{Kind: StartEnded, Start: &l.start, Elapsed: time.Since(l.doc.Began)})
	if err != nil {
		return fmt.Errorf("stop %s: %w", l.eng.Name(), err)
	}
	return nil
}

func (r *Runner) launch(s plan.Start, jobs map[string]*job) (engine.Launch, error) {
	bin, err := r.Binary(s.Engine, s.Version)
	if err != nil {
		return engine.Launch{}, err
	}
	model := s.Model
	switch {
	case r.ModelPath != "":
		model.Path = r.ModelPath
	case model.Path != "" && !filepath.IsAbs(model.Path):
		abs, err := filepath.Abs(filepath.Join(owner(s, jobs).exp.Spec.Dir, model.Path))
		if err != nil {
			return engine.Launch{}, fmt.Errorf("find the model: %w", err)
		}
		model.Path = abs
	}
	l := engine.Launch{Binary: bin, Model: model, Version: s.Version, Flags: s.Flags, Env: s.Env}
	if s.Sim != nil {
		l.Sim = *s.Sim
	}
	return l, nil
}

// argv is the command line of an engine that we started, as a person would type it: the program's name without its
// folder. Nil for one that already ran.
func (r *Runner) argv(eng engine.Engine, launch engine.Launch, server provision.Server) []string {
	u, err := url.Parse(server.URL())
	if server.PID() == 0 || err != nil {
		return nil
	}
	launch.Host = u.Hostname()
	launch.Port, _ = strconv.Atoi(u.Port()) // a URL of our own making has one
	cmd, err := eng.Command(launch)
	if err != nil {
		return nil // it was started, so this cannot be
	}
	out := []string{filepath.Base(cmd.Argv[0])}
	for _, a := range cmd.Argv[1:] {
		out = append(out, r.Redact.String(a))
	}
	return out
}

// owner is the job of a start's first trial; the engine's log is written into its journal.
func owner(s plan.Start, jobs map[string]*job) *job { return jobs[s.Trials[0].Experiment] }

// attempt counts how often a start was made before, by any of its experiments. A start that could not be recorded has
// left its log all the same.
func attempt(s plan.Start, jobs map[string]*job) int {
	n := 1
	for _, j := range jobs {
		for _, had := range j.memory.starts {
			if had.ID == s.ID {
				n = max(n, had.Attempt+1)
			}
		}
	}
	for exists(owner(s, jobs).folder.journal(engineLog(s.ID, n))) {
		n++
	}
	return n
}

func engineLog(start string, attempt int) string {
	return fmt.Sprintf("engine-%s-%d.log", start, attempt)
}

// serverLog is the name of an engine's log in the results folder.
func serverLog(config string, repeat int) string {
	return fmt.Sprintf("server_%s_%d.log", config, repeat)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// saveStart files a start with each experiment that it served, under the names of its configs there.
func (r *Runner) saveStart(doc result.Start, s plan.Start, jobs map[string]*job, logPath string) error {
	log, err := readLog(logPath)
	if err != nil {
		return err
	}
	if log != nil {
		log = redact.TrimLog(r.Redact.Bytes(log), logBudget)
	}
	saved := map[string]bool{}
	for _, t := range s.Trials {
		if saved[t.Experiment+"/"+t.Config] {
			continue
		}
		saved[t.Experiment+"/"+t.Config] = true
		j, d := jobs[t.Experiment], doc
		d.Config = t.Config
		if log != nil {
			d.Log = serverLog(t.Config, s.Repeat)
			if err := j.folder.write(d.Log, log); err != nil {
				return err
			}
		}
		if err := j.folder.saveDoc(fmt.Sprintf("start-%s-%s-%d.json", d.ID, d.Config, d.Attempt), d); err != nil {
			return err
		}
		j.memory.starts = append(j.memory.starts, d)
	}
	return nil
}

// dying is how long an engine that does not answer any more may take to end. vLLM's port is closed up to a second
// before its process is gone.
const dying = 5 * time.Second

// cause prefers why an engine ended over what broke because of it. When the engine does not answer it waits a moment
// for its end.
func (l *live) cause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		probe, cancel := context.WithTimeout(ctx, time.Second)
		healthy := l.client.Health(probe) == nil
		cancel()
		if !healthy {
			select {
			case <-ctx.Done():
			case <-time.After(dying):
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// also joins two errors, unless both say that the disk is full: what failed after it for the same reason is no
// news.
func also(err, next error) error {
	if errors.Is(err, syscall.ENOSPC) && errors.Is(next, syscall.ENOSPC) {
		return err
	}
	return errors.Join(err, next)
}

func ptr[T any](v T) *T { return &v }

func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Second)
}
