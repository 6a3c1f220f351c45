package validity

import (
	"fmt"
	"math"
	"strings"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/workload"
)

// compiled counts the log's lines. Of an engine whose log is not ours to read, nothing is known.
func compiled(in trial) *finding {
	n := in.server.JIT
	switch {
	case n > 0 && len(in.server.JITKernels) > 0:
		return failed("%s: %s", plural(n, "kernel"), strings.Join(in.server.JITKernels, ", "))
	case n > 0:
		return failed("%s", plural(n, "kernel"))
	case in.start == nil || in.start.Log == "":
		return unknown("the engine's log was not read")
	}
	return okay("0 kernels")
}

func effective(in trial) *finding {
	if in.start == nil {
		return unknown("the engine start is not in the document")
	}
	if len(in.start.Differs) > 0 {
		var parts []string
		for _, d := range in.start.Differs {
			parts = append(parts, fmt.Sprintf("%s is %v, asked for was %v", d.Flag, d.Effective, d.Requested))
		}
		return failed("%s", strings.Join(parts, "; "))
	}
	if in.start.Effective == nil {
		return unknown("the engine does not tell its settings")
	}
	return okay("equal")
}

func restart(in trial) *finding {
	switch {
	case in.server.Restarted == nil:
		return unknown("the engine does not say when it started")
	case *in.server.Restarted:
		return failed("it restarted")
	}
	return okay("it did not")
}

func preemptions(in trial) *finding {
	if in.server.Preemptions == nil {
		return unknown("the engine does not count them")
	}
	return limited(*in.server.Preemptions, 0, plural(int(*in.server.Preemptions), "preemption"), "")
}

func errorShare(in trial) *finding {
	c := in.client
	if c.Requests == 0 {
		return failed("no request was sent")
	}
	text := fmt.Sprintf("%d of %d", c.Failed, c.Requests)
	return limited(float64(c.Failed)/float64(c.Requests), maxErrors, text, "")
}

// agreement repeats the table of both sides. In a simulation, a client that is slower than the engine's own clock says
// is a busy machine; one that is quicker is impossible there too.
func agreement(in trial) *finding {
	if in.server.Restarted != nil && *in.server.Restarted {
		return unknown("the engine's counters began anew inside the window")
	}
	var differ, silent []string
	mild := in.run.Simulated
	for _, a := range in.t.Agree {
		switch {
		case a.Agrees == nil:
			silent = append(silent, a.What)
		case !*a.Agrees:
			differ = append(differ, sides(a))
			mild = mild && strings.HasPrefix(a.What, "mean ") && *a.Client > *a.Server
		}
	}
	switch {
	case len(differ) > 0:
		f := failed("%s", strings.Join(differ, "; "))
		f.mild = mild
		return f
	case len(in.t.Agree) == 0:
		return unknown("it was not compared")
	case len(silent) > 0:
		return unknown("not comparable: %s", strings.Join(silent, ", "))
	}
	return okay("all %d numbers agree", len(in.t.Agree))
}

func sides(a result.Agreement) string {
	return fmt.Sprintf("%s: client %s, server %s", a.What, a.Side(a.Client), a.Side(a.Server))
}

// running compares the engine's gauge with the client's count, both over the whole window (t0, t1]. The scrape at t1
// finds an idle engine by construction; what is before it is sampled once a second. More running than were sent is
// somebody else's load. Fewer is the engine's own doing where its time of a request, from arrival to end, is known: then
// agreement has compared it with the client's, and what the scheduler does not run is in the engine's queue or front end.
func running(in trial) *finding {
	if in.t.Point.Concurrency == 0 {
		return nil // requests of an open loop may wait: that is what it is to show
	}
	w, client, server := in.t.Window, in.client.MeanInFlight, in.server.MeanRunning
	switch {
	case w == nil || client == nil || *client <= 0:
		return unknown("the window is not known")
	case server == nil:
		return unknown("the engine does not report it")
	case w.Seconds < minScrapes:
		return unknown("the window of %s has too few scrapes, one a second, for a mean", result.Seconds(w.Seconds))
	}
	inside := math.Floor(w.Seconds)
	mean := *server * (inside + 1) / inside
	off := mean / *client - 1
	text := fmt.Sprintf("%s running, %s in flight (%s)", result.Number(mean), result.Number(*client), signed(off))
	f := limited(math.Abs(off), maxOffLoad, text, "")
	if off >= -maxOffLoad {
		return f
	}
	f.mild = in.server.MeanE2E != nil
	f.fix = "raise max-num-seqs or the KV cache, or lower the concurrency, unless this is what is to be shown"
	if share, ok := queueShare(in.server); ok {
		f.measured += fmt.Sprintf("; %s of a request's time is in the engine's queue", result.Percent(share))
		if share < maxOffLoad && f.mild {
			f.measured += ", the rest outside its scheduler"
			f.fix = "give the engine's API server more CPU (more cores, or api-server-count), unless this is what is to be shown"
		}
	}
	return f
}

// queueShare is the part of the engine's own time of a request that it waited to be scheduled.
func queueShare(s result.Server) (share float64, ok bool) {
	if s.MeanQueue == nil || s.MeanE2E == nil || *s.MeanE2E <= 0 {
		return 0, false
	}
	return *s.MeanQueue / *s.MeanE2E, true
}

// cacheState compares hits with the prompt tokens of the window. (Queries count repeated attempts before vLLM 0.26.1.)
func cacheState(in trial) *finding {
	if in.server.PrefixHits == nil {
		if on, known := caching(in); known && !on {
			return okay("prefix caching is off")
		}
		return unknown("the engine does not count prefix cache hits")
	}
	tokens := in.server.PromptTokens
	if tokens == nil || *tokens <= 0 {
		return unknown("the prompt tokens are not known")
	}
	share := *in.server.PrefixHits / *tokens
	text := result.Percent(share) + " of the prompt tokens were hits"
	if in.exp.Workload.Cache == workload.Cold {
		return limited(share, maxColdHits, text, "cold: at most 1 %")
	}
	if on, known := caching(in); known && !on {
		return okay("prefix caching is off")
	}
	least, why := allowed(in)
	if why != "" {
		return unknown("%s; how much the prompts allow is not known: %s", text, why)
	}
	f := okay("%s", text)
	f.limit = fmt.Sprintf("warm: at least %s, which is what the prompts allow less 5 points", result.Percent(max(0, least-warmSlack)))
	if least <= warmSlack {
		f.limit = "warm: any, the prompts share no whole block"
	}
	if share < least-warmSlack {
		f.status = result.CheckFailed
	}
	return f
}

// caching is whether the engine says, or was asked, to cache prefixes.
func caching(in trial) (on, known bool) {
	if in.start != nil {
		if v, ok := in.start.Effective["enable-prefix-caching"].(bool); ok {
			return v, true
		}
	}
	for _, f := range in.exp.Merged(in.t.Config) {
		if v, ok := f.Value.(bool); ok && f.Name == "enable-prefix-caching" {
			return v, true
		}
	}
	return false, false
}

// allowed is the least share of prompt tokens that a warm cache must find, from what the prompts have in common with the
// warm-up: whole blocks only, and never the last token of a prompt, which is always computed.
func allowed(in trial) (share float64, why string) {
	w := in.exp.Workload
	if w.Text == "" && w.SharedPrefix == nil {
		return 0, "" // nothing in common that could be asked for
	}
	if in.client.PromptLength == nil {
		return 0, "the prompts' lengths were not reported"
	}
	length := in.client.PromptLength.Mean
	common := length - 1
	if p := w.SharedPrefix; p != nil {
		common = float64(p.Shared)
		if p.Vocabulary == 0 { // words: about as many tokens
			common = length * float64(p.Shared) / float64(p.Shared+p.Own)
		}
	}
	block, ok := blockTokens(in.start)
	if !ok {
		return 0, "the engine does not tell its cache block"
	}
	blocks := math.Floor(common / block)
	if p := w.SharedPrefix; p != nil && p.Vocabulary == 0 {
		blocks = max(0, blocks-1) // where the words end is not known to a token
	}
	return blocks * block / length * primed(in), ""
}

// primed is the share of requests that come after their common part was computed: all of them when the warm-up did it.
func primed(in trial) float64 {
	groups := 1
	if p := in.exp.Workload.SharedPrefix; p != nil {
		groups = p.Groups
	}
	warm := in.exp.Load.Warmup
	if warm < 0 {
		warm = max(8, 2*in.t.Point.Concurrency) // what plan chooses at least
	}
	if warm >= groups {
		return 1
	}
	n := float64(in.client.Requests)
	return max(0, n-float64(max(groups, in.t.Point.Concurrency))) / n
}

// blockTokens is the size of a cache block: as the engine's settings say, else as its log does.
func blockTokens(s *result.Start) (float64, bool) {
	if s == nil {
		return 0, false
	}
	if v, ok := s.Effective["block-size"].(float64); ok && v > 0 {
		return v, true
	}
	for i := len(s.Facts) - 1; i >= 0; i-- {
		if f := s.Facts[i]; f.Kind == engine.FactBlockSize && f.Value > 0 {
			return f.Value, true
		}
	}
	return 0, false
}
