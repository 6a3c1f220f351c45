package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FaultHelp documents one fault.
type FaultHelp struct {
	Name string // as it is given, with its argument: "die-after=N"
	Help string
}

// Faults lists every fault there is, in the order of a start's life. N counts from the start; shares P are in 0..1 and
// drawn per request from the noise seed; DUR is a Go duration in real time.
func Faults() []FaultHelp {
	out := make([]FaultHelp, 0, len(faultTable))
	for _, f := range faultTable {
		name := f.name
		if f.arg != "" {
			name += "=" + f.arg
		}
		out = append(out, FaultHelp{name, f.help})
	}
	return out
}

// faults are the parsed faults; the zero value has none.
type faults struct {
	crashAtStart, hangAtStart, coldStart bool
	slowStart                            time.Duration
	ignoreTerm                           bool
	wrongEffective                       []setting

	dieAfter, dieHardAfter, hangAfter, restartAfter *int // generated tokens
	throttle                                        *throttle
	jitAfter                                        *int // ended requests

	http500, errorMidStream, truncate float64
	emptyUsage                        bool
	coalesce                          int
	keepAlive                         int
	clockDrift                        float64
	slowMetrics                       time.Duration
}

type setting struct{ flag, value string }

type throttle struct {
	factor float64
	after  int
}

var faultTable = []struct {
	name, arg, help string
	set             func(f *faults, arg string) error
}{
	{"crash-at-start", "", "the engine core dies while it loads: traceback in the log, exit code 1", func(f *faults, _ string) error { f.crashAtStart = true; return nil }},
	{"hang-at-start", "", "loading never ends; the port refuses; SIGTERM still works", func(f *faults, _ string) error { f.hangAtStart = true; return nil }},
	{"slow-start", "DUR", "loading takes DUR longer", func(f *faults, a string) (err error) { f.slowStart, err = duration(a); return }},
	{"cold-start", "", "no compile cache was kept: the profile's long start", func(f *faults, _ string) error { f.coldStart = true; return nil }},
	{"wrong-effective", "FLAG=VALUE", "/server_info reports VALUE for FLAG; nothing else changes", wrongEffective},
	{"ignore-term", "", "SIGTERM and SIGINT change nothing; only SIGKILL ends the process", func(f *faults, _ string) error { f.ignoreTerm = true; return nil }},
	{"die-after", "N", "after N generated tokens the engine dies as vLLM does: open streams get an error object and [DONE], the port closes, exit code 0", func(f *faults, a string) (err error) { f.dieAfter, err = count(a); return }},
	{"die-hard-after", "N", "after N generated tokens the process kills itself; connections break", func(f *faults, a string) (err error) { f.dieHardAfter, err = count(a); return }},
	{"hang-after", "N", "after N generated tokens nothing more is generated; /health stays 200", func(f *faults, a string) (err error) { f.hangAfter, err = count(a); return }},
	{"restart", "N", "after N generated tokens all counters start again at 0 and process_start_time_seconds changes", func(f *faults, a string) (err error) { f.restartAfter, err = count(a); return }},
	{"throttle", "F[@N]", "steps take F times as long, from the start or after N generated tokens", parseThrottle},
	{"jit-in-window", "N", "when N requests have ended, one step waits a second for a kernel, with vLLM's log line", func(f *faults, a string) (err error) { f.jitAfter, err = count(a); return }},
	{"http-500", "P", "a share P of requests is answered 500", func(f *faults, a string) (err error) { f.http500, err = share(a); return }},
	{"error-mid-stream", "P", "a share P of answers ends half-way with an error object and [DONE]", func(f *faults, a string) (err error) { f.errorMidStream, err = share(a); return }},
	{"truncate", "P", "a share P of streams ends half-way, without finish_reason and [DONE]", func(f *faults, a string) (err error) { f.truncate, err = share(a); return }},
	{"empty-usage", "", "no usage in any answer", func(f *faults, _ string) error { f.emptyUsage = true; return nil }},
	{"coalesce", "N", "N tokens per chunk after the first", func(f *faults, a string) (err error) { f.coalesce, err = positive(a); return }},
	{"keep-alive", "N", "an SSE comment before the first token and after every N-th chunk, as vLLM 0.30 and later may send", func(f *faults, a string) (err error) { f.keepAlive, err = positive(a); return }},
	{"clock-drift", "F", "durations in /metrics are F times what they were", func(f *faults, a string) (err error) { f.clockDrift, err = factor(a); return }},
	{"slow-metrics", "DUR", "/metrics answers after DUR", func(f *faults, a string) (err error) { f.slowMetrics, err = duration(a); return }},
}

// parseFaults reads faults such as "die-after=40" or "truncate=0.1,empty-usage".
func parseFaults(given []string) (faults, error) {
	var f faults
	for _, g := range given {
		for one := range strings.SplitSeq(g, ",") {
			if err := f.parse(strings.TrimSpace(one)); err != nil {
				return faults{}, err
			}
		}
	}
	return f, nil
}

func (f *faults) parse(s string) error {
	name, arg, hasArg := strings.Cut(s, "=")
	for _, row := range faultTable {
		if row.name != name {
			continue
		}
		if hasArg != (row.arg != "") {
			if row.arg == "" {
				return fmt.Errorf("fault %s takes no value", name)
			}
			return fmt.Errorf("fault %s needs a value: %s=%s", name, name, row.arg)
		}
		if err := row.set(f, arg); err != nil {
			return fmt.Errorf("fault %s: %w", s, err)
		}
		return nil
	}
	return fmt.Errorf("no fault is called %q", name)
}

func wrongEffective(f *faults, arg string) error {
	flag, value, ok := strings.Cut(arg, "=")
	if !ok || flag == "" {
		return fmt.Errorf("%q is not FLAG=VALUE", arg)
	}
	f.wrongEffective = append(f.wrongEffective, setting{strings.ReplaceAll(flag, "_", "-"), value})
	return nil
}

func parseThrottle(f *faults, arg string) error {
	by, after, has := strings.Cut(arg, "@")
	t := &throttle{}
	var err error
	if t.factor, err = factor(by); err != nil {
		return err
	}
	if has {
		n, err := count(after)
		if err != nil {
			return err
		}
		t.after = *n
	}
	f.throttle = t
	return nil
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 5s", s)
	}
	return d, nil
}

func count(s string) (*int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%q is not a number from 0 up", s)
	}
	return &n, nil
}

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number from 1 up", s)
	}
	return n, nil
}

func share(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%q is not a share between 0 and 1", s)
	}
	return p, nil
}

func factor(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x > 0 && x <= 1e6) {
		return 0, fmt.Errorf("%q is not a factor above 0", s)
	}
	return x, nil
}
