// Package calibrate measures the load generator's own error on this machine, against a server that writes the time of
// sending into every token (stub). It says what the generator can measure here; it never corrects a measurement.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"h100-inference-control-plane/runner/arrival"
	"h100-inference-control-plane/runner/load"
	"h100-inference-control-plane/runner/load/stub"
	"h100-inference-control-plane/runner/result"
)

// Options says what to calibrate for. The zero value is the target's load.
type Options struct {
	Streams  int           // open streams; 0 = 256
	Interval time.Duration // between two tokens of a stream; 0 = 10 ms
	Duration time.Duration // of each part; 0 = 5 s
	Rate     float64       // arrivals per second of the open loop; 0 = 300
	Many     int           // streams of the memory test; 0 = 5000, negative = none
	// Progress is told which part begins. Nil = nobody is.
	Progress func(part string)
	// InProcess runs the stub in this process, for programs that do not call MaybeStub; both then share the CPU time
	// that is counted.
	InProcess bool
}

func (o Options) filled() Options {
	if o.Streams <= 0 {
		o.Streams = 256
	}
	if o.Interval <= 0 {
		o.Interval = 10 * time.Millisecond
	}
	if o.Duration <= 0 {
		o.Duration = 5 * time.Second
	}
	if o.Rate <= 0 {
		o.Rate = 300
	}
	if o.Many == 0 {
		o.Many = 5000
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// Result is what was measured. Times are in seconds.
type Result struct {
	Machine Machine  `json:"machine"`
	Spread  Measured `json:"spread"` // streams send at times of their own
	Step    Measured `json:"step"`   // all streams send at once; this is the floor that results carry
	// Levels are the loads of rising rate, in step mode, that looked for the limit; Sustained is the highest that was
	// kept up with.
	Levels      []Measured `json:"levels"`
	Sustained   float64    `json:"sustained_events_per_second"`
	Rate        float64    `json:"rate"` // arrivals per second of the open loop
	LatenessP50 float64    `json:"lateness_p50_seconds"`
	LatenessP99 float64    `json:"lateness_p99_seconds"`
	Many        int        `json:"many_streams"`     // 0 = not measured
	PerStream   int64      `json:"bytes_per_stream"` // resident memory, growth ÷ streams
	NotMeasured string     `json:"not_measured,omitempty"`
	InProcess   bool       `json:"in_process"` // the stub shared this process
}

// Run calibrates. It takes about three times Duration and twenty seconds.
func Run(ctx context.Context, o Options) (Result, error) {
	o = o.filled()
	srv, err := start(ctx, o.InProcess)
	if err != nil {
		return Result{}, fmt.Errorf("calibrate: start the stub: %w", err)
	}
	res, err := measure(ctx, o, srv.url)
	if err := errors.Join(err, srv.stop()); err != nil {
		return Result{}, fmt.Errorf("calibrate: %w", err)
	}
	return res, nil
}

func measure(ctx context.Context, o Options, url string) (Result, error) {
	res := Result{Rate: o.Rate, InProcess: o.InProcess}
	c := Client{URL: url, Streams: o.Streams, Interval: o.Interval, Tokens: tokens(o.Duration, o.Interval)}
	o.Progress("this machine itself")
	var err error
	if res.Machine, err = machine(ctx, o, url); err != nil {
		return res, err
	}
	for _, part := range []struct {
		mode stub.Mode
		to   *Measured
	}{{stub.Spread, &res.Spread}, {stub.Step, &res.Step}} {
		o.Progress(fmt.Sprintf("%d streams × %v, %s", o.Streams, o.Interval, part.mode))
		c.Mode = part.mode
		if *part.to, err = c.Measure(ctx); err != nil {
			return res, err
		}
	}
	if err := limit(ctx, o, c, &res); err != nil {
		return res, err
	}
	o.Progress(fmt.Sprintf("open loop, %g arrivals/s", o.Rate))
	if res.LatenessP50, res.LatenessP99, err = lateness(ctx, o, url); err != nil {
		return res, err
	}
	if o.Many > 0 {
		o.Progress(fmt.Sprintf("memory of %d streams", o.Many))
		return res, memory(ctx, o.Many, url, &res)
	}
	return res, nil
}

func tokens(d, interval time.Duration) int { return max(int(d/interval), 2) }

// levelTime is the length of one level of the search for the limit.
const levelTime = 2 * time.Second

// limit raises the rate of all streams, in step, until the client does not keep up. Both sides share the cores here, so
// the limit is lower than on a machine whose engine is elsewhere.
func limit(ctx context.Context, o Options, c Client, res *Result) error {
	c.Mode = stub.Step
	for rate := 10_000.0; rate < 2e6; rate *= 1.5 {
		c.Interval = time.Duration(float64(c.Streams) / rate * float64(time.Second))
		if c.Interval < 100*time.Microsecond {
			return nil
		}
		c.Tokens = tokens(min(levelTime, o.Duration), c.Interval)
		o.Progress(fmt.Sprintf("%.0f events/s", rate))
		m, err := c.Measure(ctx)
		if err != nil {
			return err
		}
		res.Levels = append(res.Levels, m)
		if !m.keepsUp() {
			return nil
		}
		res.Sustained = m.EventsPerSecond
	}
	return nil
}

// keepsUp is by the limits of the validity checks: most of what was offered came, the client was not busy all the
// time, and few events shared a read.
func (m Measured) keepsUp() bool { return m.Kept >= 0.97 && m.CPU <= 0.7 && m.EventsPerRead <= 1.05 }

// lateness sends streams of 64 tokens on a Poisson schedule.
func lateness(ctx context.Context, o Options, url string) (p50, p99 float64, err error) {
	sched := arrival.Schedule(arrival.Poisson, o.Rate, o.Duration, 1)
	if len(sched) == 0 {
		return 0, 0, fmt.Errorf("no arrivals at %g/s in %v", o.Rate, o.Duration)
	}
	body := stub.Body(64, stub.Pace{Mode: stub.Spread, First: 50 * time.Millisecond, Interval: 10 * time.Millisecond})
	run, err := load.Run(ctx, load.Options{URL: url, Path: "/v1/chat/completions", Schedule: sched, Body: func(int) []byte { return body }})
	if err != nil {
		return 0, 0, err
	}
	if err := failure(ctx, run); err != nil {
		return 0, 0, err
	}
	var late []int64
	for _, r := range run.Records {
		late = append(late, (r.Sent-r.Scheduled)*1000)
	}
	slices.Sort(late)
	return at(late, 0.5), at(late, 0.99), nil
}

// Floor is what later results carry: the error with all streams in step.
func (r Result) Floor(when time.Time) result.Floor {
	return result.Floor{
		Streams: r.Step.Streams, IntervalS: r.Step.IntervalS, ErrorP50: r.Step.ErrorP50, ErrorP99: r.Step.ErrorP99,
		CPUPerEvent: r.Step.CPUPerEvent, EventsPerSecond: r.Sustained, LatenessP99: r.LatenessP99, When: when,
	}
}

// Allowed refuses a load above half of what was calibrated, where the client's own delays begin to show. The plan is in
// events per second. A nil floor, or one that found no rate, refuses nothing: nothing is known then.
func Allowed(planned float64, f *result.Floor) error {
	if f == nil || f.EventsPerSecond <= 0 || planned <= f.EventsPerSecond/2 {
		return nil
	}
	return fmt.Errorf("%.0f events/s are planned, and this machine's load generator was calibrated to %.0f: at most half of that can be measured", planned, f.EventsPerSecond)
}

// What the load generator promises of its own work, on two shared cores at the load of Options' zero value: so much, or,
// on a machine that is slower itself, so much more than a bare read or a bare sleep costs there in the same minute.
const (
	ownCPU  = 5e-6   // seconds an event above a bare read
	ownLate = 0.5e-3 // seconds above a bare sleep under the same load
)

// Target is one promise of the load generator.
type Target struct {
	What     string
	Measured string
	Limit    string
	OK       bool
}

// Targets compares the result with what the load generator promises on two shared cores, at the load of Options'
// zero value.
func (r Result) Targets() []Target {
	cpu, late := max(10e-6, r.Machine.CPUPerRead+ownCPU), max(0.5e-3, r.Machine.SleepBusy99+ownLate)
	t := []Target{
		{"time stamp error p50, streams spread", ms(r.Spread.ErrorP50), "0.1 ms", r.Spread.ErrorP50 <= 0.0001},
		{"time stamp error p99, streams spread", ms(r.Spread.ErrorP99), "1 ms", r.Spread.ErrorP99 <= 0.001},
		{fmt.Sprintf("CPU an event, %.2f events a read", r.Spread.EventsPerRead), us(r.Spread.CPUPerEvent), us(cpu), r.Spread.CPUPerEvent <= cpu},
		{fmt.Sprintf("lateness p99, %g arrivals/s", r.Rate), ms(r.LatenessP99), ms(late), r.LatenessP99 <= late},
	}
	if r.Many > 0 {
		t = append(t, Target{fmt.Sprintf("memory a stream, %d streams", r.Many), fmt.Sprintf("%.1f KB", float64(r.PerStream)/1000), "45 KB", r.PerStream <= 45_000})
	}
	return t
}

func ms(s float64) string { return fmt.Sprintf("%.3f ms", s*1e3) }
func us(s float64) string { return fmt.Sprintf("%.1f µs", s*1e6) }

// Table is the result for people.
func (r Result) Table() string {
	var b strings.Builder
	line := func(what, measured, limit, ok string) {
		fmt.Fprintf(&b, "%-42s %12s %10s  %s\n", what, measured, limit, ok)
	}
	line("what", "measured", "target", "ok")
	for _, t := range r.Targets() {
		line(t.What, t.Measured, t.Limit, map[bool]string{true: "yes", false: "NO"}[t.OK])
	}
	line("time stamp error p50, streams in step", ms(r.Step.ErrorP50), "", "")
	line("time stamp error p99, streams in step", ms(r.Step.ErrorP99), "", "")
	line("CPU a token read from a bare connection", us(r.Machine.CPUPerRead), "", "")
	line("lateness of a bare 1 ms sleep, p50", ms(r.Machine.SleepLate50), "", "")
	line("lateness of a bare 1 ms sleep, p99", ms(r.Machine.SleepLate99), "", "")
	line("the same while the connections are read", ms(r.Machine.SleepBusy99), "", "")
	line("lateness p50", ms(r.LatenessP50), "", "")
	line("events/s that the client keeps up with", fmt.Sprintf("%.0f", r.Sustained), "", "")
	fmt.Fprintf(&b, "\n%d streams × %g ms. Half of the events/s is the most that a run may plan. The figures are the error of the\nload generator and its server together on this machine; they are stored with results and never subtracted.\nTargets: CPU 10 µs, or 5 above a bare read; lateness 0.5 ms, or 0.5 above a bare sleep at the same load.\n",
		r.Spread.Streams, r.Spread.IntervalS*1e3)
	if r.NotMeasured != "" {
		fmt.Fprintf(&b, "Not measured: %s.\n", r.NotMeasured)
	}
	if r.InProcess {
		b.WriteString("The server ran in this process: the CPU time is of both.\n")
	}
	return b.String()
}
