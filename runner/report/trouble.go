package report

import (
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/result"
)

// trouble is everything else that should make a reader hesitate: what was not measured, failed requests with their first
// message, warnings of the plan. In a document without checks, it is also what they would say: settings that are not what
// was asked for, compilations inside a window.
func trouble(run *result.Run) []block {
	var items []string
	for _, t := range run.Trials {
		if t.Outcome != result.Measured {
			items = append(items, fmt.Sprintf("%s is %s: %s", t.ID, t.Outcome, orNone(t.Error)))
			continue
		}
		items = append(items, ofTrial(&t)...)
	}
	seen := map[string]bool{}
	for _, s := range run.Starts {
		for _, d := range s.Differs {
			if checked(run) {
				break // it is a check
			}
			item := fmt.Sprintf("%s: %s was asked for as %v, the engine says %v", s.Config, d.Flag, d.Requested, d.Effective)
			if !seen[item] {
				seen[item] = true
				items = append(items, item)
			}
		}
		if s.Error != "" {
			items = append(items, fmt.Sprintf("engine start %s of %s: %s", s.ID, s.Config, s.Error))
		}
	}
	for _, w := range run.Warnings {
		about := w.Code
		if w.Factor != "" {
			about += " " + w.Factor
		}
		items = append(items, about+": "+w.Message)
	}
	const most = 20
	if len(items) > most {
		items = append(items[:most:most], fmt.Sprintf("and %d more in run.json", len(items)-most))
	}
	if len(items) == 0 {
		return nil
	}
	return []block{heading{"Warnings"}, list{items}}
}

// checked is true when the document says what may be believed.
func checked(run *result.Run) bool {
	return slices.ContainsFunc(run.Trials, func(t result.Trial) bool { return len(t.Checks) > 0 })
}

func ofTrial(t *result.Trial) []string {
	var items []string
	add := func(format string, args ...any) { items = append(items, t.ID+": "+fmt.Sprintf(format, args...)) }
	if c := t.Client; c != nil {
		if c.Failed > 0 {
			var classes []string
			for _, k := range sortedKeys(c.Errors) {
				classes = append(classes, fmt.Sprintf("%d %s", c.Errors[k], k))
			}
			text := fmt.Sprintf("%d of %d requests failed (%s)", c.Failed, c.Requests, strings.Join(classes, ", "))
			if c.ErrorDetail != "" {
				text += ", first: " + c.ErrorDetail
			}
			add("%s", text)
		}
		if len(t.Checks) > 0 {
			return items
		}
		if c.NoUsage > 0 {
			add("%d answers came without usage, so their tokens are not known", c.NoUsage)
		}
		if c.WrongLength > 0 {
			add("%d answers have another length than was asked for", c.WrongLength)
		}
	}
	if s := t.Server; s != nil {
		if s.JIT > 0 {
			add("the engine compiled %s inside the window (%s); the requests that waited for it are in the numbers", plural(s.JIT, "kernel"), strings.Join(s.JITKernels, ", "))
		}
		if s.Restarted != nil && *s.Restarted {
			add("the engine restarted inside the window")
		}
		if s.Preemptions != nil && *s.Preemptions > 0 {
			add("the engine preempted %s: the KV cache was full", plural(int(*s.Preemptions), "request"))
		}
	}
	if l := t.Load; l != nil && l.Capped > 0 {
		add("%s had to wait for max_in_flight", plural(l.Capped, "arrival"))
	}
	return items
}

// reconciliation says on how many trials client and server agree, with the numbers of the first that does not.
func reconciliation(run *result.Run) []block {
	rows := map[string]*tally{}
	var order []string
	trials := 0
	for i := range run.Trials {
		t := &run.Trials[i]
		if len(t.Agree) == 0 {
			continue
		}
		trials++
		for _, a := range t.Agree {
			if rows[a.What] == nil {
				rows[a.What] = &tally{}
				order = append(order, a.What)
			}
			rows[a.What].add(t, a)
		}
	}
	if trials == 0 {
		return nil
	}
	tb := table{head: []string{"counted on both sides", "client", "server", "agree", "limit"}, left: 1, key: 1}
	for _, what := range order {
		r := rows[what]
		tb.rows = append(tb.rows, []string{what, r.sum(what, r.client), r.sum(what, r.server), r.verdict(), r.limit})
	}
	text := fmt.Sprintf("Sums (of times: means) over %s.", plural(trials, "trial"))
	return []block{heading{"Client and server"}, para{text}, tb}
}

// tally adds up one quantity over trials.
type tally struct {
	client, server              float64
	both, agree, differ, silent int
	limit, where                string
}

func (r *tally) add(t *result.Trial, a result.Agreement) {
	if a.Client != nil && a.Server != nil {
		r.client += *a.Client
		r.server += *a.Server
		r.both++
	}
	switch {
	case a.Agrees == nil:
		r.silent++
	case *a.Agrees:
		r.agree++
	default:
		r.differ++
		if r.where == "" {
			r.where = t.ID
			r.limit = a.Limit
		}
	}
	if r.limit == "" {
		r.limit = a.Limit
	}
}

func (r *tally) sum(what string, v float64) string {
	switch {
	case r.both == 0:
		return none
	case strings.HasPrefix(what, "mean "):
		return result.Seconds(v / float64(r.both))
	}
	return thousands(v)
}

func (r *tally) verdict() string {
	var parts []string
	if r.differ > 0 {
		parts = append(parts, fmt.Sprintf("no, in %s", plural(r.differ, "trial"))+" (first "+r.where+")")
	} else if r.agree > 0 {
		parts = append(parts, "yes")
	}
	if r.silent > 0 {
		parts = append(parts, fmt.Sprintf("not known in %s", plural(r.silent, "trial")))
	}
	return strings.Join(parts, ", ")
}

// thousands writes a count in full: 268,928.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// closing says where things are and what to do next.
func closing(run *result.Run) []block {
	key := run.RunKey
	if len(key) > 12 {
		key = key[:12]
	}
	return []block{
		heading{"Words and files"},
		list{[]string{
			"TTFT: time to the first token. TPOT: time per token after it. E2E: the whole answer. p50: half of the requests were faster. All from when a request was due. docs/reference/metrics.md defines every number.",
			"In the results folder (run " + orNone(key) + "): run.json has everything, results_CONFIG_LOAD.txt the numbers of each load point, server_CONFIG_K.log what the engines said, requests/ every single request, vllm-bench/ the same in the format of vllm bench serve.",
			"Next: " + next(run),
		}},
	}
}

func next(run *result.Run) string {
	switch run.Verdict {
	case result.Error:
		return "give the same command again: it goes on with what was not measured."
	case result.Fail:
		return "look at the objective that failed and the start that failed it; change the config or the bound, and run again."
	case result.Inconclusive:
		return "remove what is named in the first line, then run again with --again. An inconclusive run is no pass and no failure."
	}
	if run.Simulated {
		return "measure a real engine: engine.name vllm in the file. Without a GPU, docs/how-to/real-vllm-on-cpu.md shows how."
	}
	return "commit the results folder; benchctl report FOLDER prints this again."
}
