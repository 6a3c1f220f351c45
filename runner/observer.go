package runner

import (
	"strings"
	"time"

	"h100-inference-control-plane/runner/plan"
	"h100-inference-control-plane/runner/redact"
)

// EventKind says what happened.
type EventKind string

// What an Observer is told.
const (
	FolderOpened  EventKind = "folder-opened"  // Message = path, Done = trials it already has
	StartBegins   EventKind = "start-begins"   // the engine process is being started
	StartReady    EventKind = "start-ready"    // it answers; Elapsed = seconds it took
	StartFailed   EventKind = "start-failed"   // Message = why
	StartSkipped  EventKind = "start-skipped"  // Message = why
	StartEnded    EventKind = "start-ended"    // stopped; Elapsed = its whole life
	WarmupBegins  EventKind = "warmup-begins"  // Total = requests
	TrialBegins   EventKind = "trial-begins"   // Total = requests
	TrialProgress EventKind = "trial-progress" // Done, Failed, Total; at most ten a second
	TrialEnded    EventKind = "trial-ended"    // Message = one line of result
	TrialFailed   EventKind = "trial-failed"   // Message = why
	Note          EventKind = "note"           // Message
)

// Event is one step of a run.
type Event struct {
	Kind       EventKind
	Experiment string
	Start      *plan.Start
	Trial      *plan.Trial
	Done       int
	Failed     int
	Total      int
	Elapsed    time.Duration
	Message    string
}

// An Observer is told what happens, in order, from one goroutine at a time. It must not block.
type Observer interface{ Event(Event) }

// redacting passes events on without secrets: an observer prints them, and what is printed ends in CI logs.
type redacting struct {
	next   Observer
	redact *redact.Redactor
}

func (o redacting) Event(e Event) {
	if e.Message != "" {
		e.Message = o.redact.String(e.Message)
	}
	o.next.Event(e)
}

type silent struct{}

func (silent) Event(Event) {}

// oneLine makes a text fit for a table cell or a log line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = s[:397] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
