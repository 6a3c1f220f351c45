package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"h100-inference-control-plane/runner"
	"h100-inference-control-plane/runner/plan"
)

// ui tells the story of a run on stderr: a bar on a terminal, plain lines everywhere else.
type ui struct {
	mu     sync.Mutex
	out    io.Writer
	tty    bool
	bar    *progressbar.ProgressBar
	began  time.Time
	trials int  // planned
	atMost bool // trials is an upper limit: a search ends when it has its answer
	ended  int  // measured or failed
}

func newUI(out io.Writer, p *plan.Plan) *ui {
	u := &ui{out: out, began: time.Now(), trials: p.Estimate.Trials, atMost: p.Estimate.AtMost}
	if f, ok := out.(*os.File); ok {
		u.tty = term.IsTerminal(int(f.Fd())) && os.Getenv("CI") == ""
	}
	return u
}

// line prints one line above the bar.
func (u *ui) line(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.print(fmt.Sprintf(format, args...))
}

func (u *ui) print(s string) {
	if u.bar != nil {
		u.bar.Clear()
	}
	fmt.Fprintf(u.out, "%5s  %s\n", clock(time.Since(u.began).Seconds()), s)
}

// Close removes the bar.
func (u *ui) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.endBar()
}

// Event implements runner.Observer.
func (u *ui) Event(e runner.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch e.Kind {
	case runner.FolderOpened:
		if e.Done > 0 {
			u.ended += e.Done
			u.print(fmt.Sprintf("%s: going on with %s (%d trials measured before)", e.Experiment, e.Message, e.Done))
		} else {
			u.print(fmt.Sprintf("%s: writing %s", e.Experiment, e.Message))
		}
	case runner.StartBegins:
		u.print(fmt.Sprintf("%s  starting %s %s for %s", e.Start.ID, e.Start.Engine, e.Start.Version, strings.Join(e.Start.Labels, ", ")))
	case runner.StartReady:
		u.print(fmt.Sprintf("%s  ready after %s", e.Start.ID, shortDuration(e.Elapsed)))
	case runner.StartFailed, runner.StartSkipped:
		u.endBar()
		u.ended += len(e.Start.Trials)
		u.print(fmt.Sprintf("%s  %s", e.Start.ID, e.Message))
	case runner.StartEnded:
		u.endBar()
		u.print(fmt.Sprintf("%s  stopped after %s", e.Start.ID, shortDuration(e.Elapsed)))
	case runner.WarmupBegins:
		u.newBar(fmt.Sprintf("%s %s warm-up", u.count(u.ended+1), e.Trial.ID), e.Total)
	case runner.TrialBegins:
		u.newBar(fmt.Sprintf("%s %s", u.count(u.ended+1), e.Trial.ID), e.Total)
	case runner.TrialProgress:
		if u.bar != nil {
			u.bar.Set(e.Done)
		}
	case runner.TrialEnded, runner.TrialFailed:
		u.endBar()
		u.ended++
		u.trials = max(u.trials, u.ended) // a gate that failed is measured once more
		u.print(fmt.Sprintf("%s %s  %s", u.count(u.ended), e.Trial.ID, e.Message) + u.eta(e))
	case runner.Note:
		u.print(e.Message)
	}
}

func (u *ui) count(n int) string {
	if u.atMost {
		return fmt.Sprintf("[%d, at most %d]", n, u.trials)
	}
	return fmt.Sprintf("[%d/%d]", n, u.trials)
}

// eta scales the estimate by how the run has gone so far.
func (u *ui) eta(e runner.Event) string {
	left := u.trials - u.ended
	if left <= 0 || u.ended == 0 || u.atMost || e.Kind != runner.TrialEnded {
		return ""
	}
	per := time.Since(u.began).Seconds() / float64(u.ended)
	return fmt.Sprintf("  (%d left, about %s)", left, clock(per*float64(left)))
}

func (u *ui) newBar(what string, total int) {
	u.endBar()
	if !u.tty {
		return
	}
	u.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(u.out), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(24))
}

func (u *ui) endBar() {
	if u.bar != nil {
		u.bar.Clear()
		u.bar = nil
	}
}

func shortDuration(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return clock(d.Seconds())
}
