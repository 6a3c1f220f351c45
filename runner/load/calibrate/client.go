package calibrate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"h100-inference-control-plane/runner/load"
	"h100-inference-control-plane/runner/load/stub"
	"h100-inference-control-plane/runner/record"
)

// Client is one load against a stub: Streams at once, each of Tokens tokens, an Interval apart.
type Client struct {
	URL      string
	Mode     stub.Mode
	Streams  int
	Tokens   int
	Interval time.Duration
}

// Measured is how well the client kept up. Times are in seconds.
type Measured struct {
	Mode            string  `json:"mode"`
	Streams         int     `json:"streams"`
	IntervalS       float64 `json:"interval_seconds"`
	Events          int     `json:"events"`
	ErrorP50        float64 `json:"error_p50_seconds"` // stamp of the socket read - time of sending
	ErrorP99        float64 `json:"error_p99_seconds"`
	CPUPerEvent     float64 `json:"cpu_seconds_per_event"`
	EventsPerRead   float64 `json:"events_per_read"`
	EventsPerSecond float64 `json:"events_per_second"` // offered while all streams were open
	Kept            float64 `json:"kept"`              // share of the offered events per second that came
	CPU             float64 `json:"cpu"`               // share of the cores that the client may use
	GOMAXPROCS      int     `json:"gomaxprocs"`
}

// Measure runs one load and compares each token's stamp with the time at which the stub sent it, both CLOCK_REALTIME of
// this machine. A request that fails is an error.
func (c Client) Measure(ctx context.Context) (Measured, error) {
	errs := make([]int64, c.Streams*c.Tokens)
	var n atomic.Int64
	var first, last atomic.Int64
	first.Store(1 << 62)
	o := load.Options{
		URL: c.URL, Path: "/v1/chat/completions", Concurrency: c.Streams, Bodies: c.bodies(),
		OnToken: func(_ int, data []byte, at time.Duration) {
			sent, ok := stub.Stamp(data)
			if i := n.Add(1) - 1; ok && int(i) < len(errs) {
				errs[i] = int64(at) - sent
			}
			lower(&first, sent)
			raise(&last, sent)
		},
	}
	res, err := load.Run(ctx, o)
	if err != nil {
		return Measured{}, err
	}
	if err := failure(ctx, res); err != nil {
		return Measured{}, err
	}
	t0 := res.T0.UnixNano()
	errs = errs[:min(int(n.Load()), len(errs))]
	for i := range errs {
		errs[i] += t0
	}
	slices.Sort(errs)
	return c.summary(res, errs, last.Load()-first.Load()), nil
}

func (c Client) bodies() [][]byte {
	b := stub.Body(c.Tokens, stub.Pace{Mode: c.Mode, First: 50 * time.Millisecond, Interval: c.Interval})
	out := make([][]byte, c.Streams)
	for i := range out {
		out[i] = b
	}
	return out
}

func (c Client) summary(res *load.Result, errs []int64, span int64) Measured {
	events := float64(len(errs))
	offered := float64(c.Streams) / c.Interval.Seconds()
	m := Measured{
		Mode: string(c.Mode), Streams: c.Streams, IntervalS: c.Interval.Seconds(), Events: len(errs),
		ErrorP50: at(errs, 0.5), ErrorP99: at(errs, 0.99), EventsPerSecond: offered, CPU: res.Health.CPU, GOMAXPROCS: runtime.GOMAXPROCS(0),
	}
	if events > 0 {
		m.CPUPerEvent = res.Health.CPUSeconds / events
	}
	if res.Health.Reads > 0 {
		m.EventsPerRead = events / float64(res.Health.Reads)
	}
	// The streams of a spread begin within one interval, so the first and the last event are that much further apart.
	if span > 0 {
		m.Kept = min(float64(c.Tokens)*c.Interval.Seconds()/(float64(span)/1e9), 1)
	}
	return m
}

// at is a quantile of sorted nanoseconds, in seconds.
func at(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1)+0.5)]) / 1e9
}

func failure(ctx context.Context, res *load.Result) error {
	if res.Aborted {
		return context.Cause(ctx)
	}
	for _, r := range res.Records {
		if r.Err != record.OK {
			return fmt.Errorf("request %d to the stub failed: %s: %s", r.Index, r.Err, r.Detail)
		}
	}
	if len(res.Records) == 0 {
		return errors.New("no request was sent")
	}
	return nil
}

func lower(v *atomic.Int64, x int64) {
	for old := v.Load(); x < old && !v.CompareAndSwap(old, x); old = v.Load() {
	}
}

func raise(v *atomic.Int64, x int64) {
	for old := v.Load(); x > old && !v.CompareAndSwap(old, x); old = v.Load() {
	}
}
