package calibrate

import (
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/load"
	"h100-inference-control-plane/runner/load/stub"
)

// memory opens many streams and reads how much the process grew while all were open.
func memory(ctx context.Context, streams int, url string, res *Result) error {
	if why := cannotHold(streams); why != "" {
		res.NotMeasured = why
		return nil
	}
	debug.FreeOSMemory()
	before, ok := resident()
	if !ok {
		res.NotMeasured = "memory a stream, because this system does not show resident memory"
		return nil
	}
	var open, most atomic.Int64
	pace := 200*time.Millisecond + time.Duration(streams)*300*time.Microsecond // so that all are open before the first ends
	body := stub.Body(3, stub.Pace{Mode: stub.Spread, First: pace, Interval: pace})
	seen := make([]atomic.Bool, streams)
	r, err := load.Prepare(ctx, load.Options{
		URL: url, Path: "/v1/chat/completions", Concurrency: streams, Bodies: slices.Repeat([][]byte{body}, streams),
		OnToken: func(i int, _ []byte, _ time.Duration) {
			if seen[i].CompareAndSwap(false, true) && open.Add(1) == int64(streams) {
				now, _ := resident()
				most.Store(now)
			}
		},
	})
	if err != nil {
		return err
	}
	defer r.Close()
	run, err := r.Run(ctx)
	if err != nil {
		return err
	}
	if err := failure(ctx, run); err != nil {
		return err
	}
	res.Many, res.PerStream = streams, (most.Load()-before)/int64(streams)
	return nil
}

// cannotHold says why so many streams cannot be open here, or nothing. Each side needs a file a stream.
func cannotHold(streams int) string {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return "memory a stream: " + err.Error()
	}
	if need := uint64(streams) + 300; uint64(l.Max) < need {
		return "memory a stream, because " + strconv.Itoa(streams) + " streams need " + strconv.FormatUint(need, 10) + " open files (ulimit -Hn)"
	}
	return ""
}

// resident is the resident memory of this process in bytes.
func resident() (int64, bool) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
