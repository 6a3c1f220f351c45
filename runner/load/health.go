package load

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/record"
)

// spareFiles is what the process needs besides one file a request.
const spareFiles = 200

// checkFiles refuses a load for which the process may not open enough files. (The Go runtime raises the soft limit to
// the hard one itself.)
func checkFiles(inFlight int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	return enoughFiles(uint64(l.Max), inFlight)
}

func enoughFiles(hard uint64, inFlight int) error {
	if need := uint64(inFlight) + spareFiles; hard < need {
		return fmt.Errorf("%d requests at once need %d open files, and the hard limit is %d: raise it (ulimit -Hn) or lower the concurrency", inFlight, need, hard)
	}
	return nil
}

// progressEvery is also how often the CPU is looked at.
const progressEvery = 100 * time.Millisecond

// monitor watches the load generator while it runs, and reports progress.
type monitor struct {
	r     *Runner
	began time.Time
	cpu   float64
	sched *metrics.Float64Histogram
	quit  chan struct{}
	ended sync.WaitGroup

	peak     float64
	mark     time.Time
	markCPU  float64
	reported int64
}

const schedMetric = "/sched/latencies:seconds"

func startMonitor(r *Runner) *monitor {
	now := time.Now()
	m := &monitor{r: r, began: now, cpu: cpuSeconds(), sched: schedLatencies(), quit: make(chan struct{}), mark: now, reported: -1}
	m.markCPU = m.cpu
	m.ended.Go(m.watch)
	return m
}

func (m *monitor) watch() {
	t := time.NewTicker(progressEvery)
	defer t.Stop()
	for {
		select {
		case <-m.quit:
			return
		case <-t.C:
			m.progress()
			if time.Since(m.mark) >= time.Second {
				m.second()
			}
		}
	}
}

// second closes a window of one second and keeps the worst.
func (m *monitor) second() {
	now, cpu := time.Now(), cpuSeconds()
	m.peak = max(m.peak, share(cpu-m.markCPU, now.Sub(m.mark)))
	m.mark, m.markCPU = now, cpu
}

func share(cpu float64, wall time.Duration) float64 {
	if wall <= 0 {
		return 0
	}
	return cpu / wall.Seconds() / float64(runtime.GOMAXPROCS(0))
}

func (m *monitor) progress() {
	done := m.r.done.Load()
	if m.r.o.Progress == nil || done == m.reported {
		return
	}
	m.reported = done
	m.r.o.Progress(int(done), int(m.r.failed.Load()), m.r.n)
}

// stop ends the watching and says how it went.
func (m *monitor) stop(res *Result) Health {
	close(m.quit)
	m.ended.Wait()
	m.progress()
	cpu := cpuSeconds() - m.cpu
	h := Health{
		CPU: share(cpu, time.Since(m.began)), CPUSeconds: cpu, SchedP99: quantileSince(m.sched, schedLatencies(), 0.99),
		NewConns: int(m.r.dialer.opened.Load()), Reads: m.r.reads.Load(), PeakRSS: peakRSS(),
	}
	h.CPUPeak = max(m.peak, h.CPU)
	if m.r.o.Schedule != nil {
		h.LatenessP99, h.Capped = m.lateness(res.Records)
	}
	return h
}

// lateness leaves out arrivals that the cap held back: they are late because they were asked to be.
func (m *monitor) lateness(recs []record.Record) (p99 *float64, capped int) {
	var late []float64
	for i := range recs {
		if m.r.capped[i] {
			capped++
			continue
		}
		if s, ok := recs[i].Lateness(); ok {
			late = append(late, s)
		}
	}
	if len(late) == 0 {
		return nil, capped
	}
	slices.Sort(late)
	v := late[int(0.99*float64(len(late)-1)+0.5)]
	return &v, capped
}

func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peakRSS is the greatest resident size the process ever had. Linux reports kilobytes, macOS bytes.
func peakRSS() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) * 1024
}

func schedLatencies() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: schedMetric}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	return s[0].Value.Float64Histogram()
}

// quantileSince is a quantile of what a histogram gained between two readings: the upper end of its bucket.
func quantileSince(from, to *metrics.Float64Histogram, q float64) *float64 {
	if from == nil || to == nil || len(from.Counts) != len(to.Counts) {
		return nil
	}
	total := uint64(0)
	for i := range to.Counts {
		total += to.Counts[i] - from.Counts[i]
	}
	if total < 100 {
		return nil
	}
	rank, seen := uint64(q*float64(total-1)+0.5), uint64(0)
	for i := range to.Counts {
		if seen += to.Counts[i] - from.Counts[i]; seen > rank {
			v := to.Buckets[min(i+1, len(to.Buckets)-2)]
			return &v
		}
	}
	return nil
}
