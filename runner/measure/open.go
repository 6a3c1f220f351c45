package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/query"
)

// Version is the VictoriaMetrics that is built when none is given, the one that tools/go.mod pins.
const Version = "v1.151.0"

const storePackage = "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics"

// OpenOptions say which VictoriaMetrics to use: the server at URL, else the program Bin, else the one in the cache,
// which is built first when it is not there.
type OpenOptions struct {
	URL, Bin string
	CacheDir string       // where the built program is kept
	StateDir string       // registry of child processes, and temporary data
	Progress func(string) // told what takes long or is left out; may be nil

	flags []string // further ones of the program, for tests
}

// A Store is a VictoriaMetrics in use. Client answers until Close.
type Store struct {
	Client *Client
	// Started is how long the server took to answer; 0 for one that already ran.
	Started time.Duration
	proc    *child.Proc
	data    string
	log     *portFinder
}

// Open gets a VictoriaMetrics ready. One that the user gave by URL is probed before it is trusted.
func Open(ctx context.Context, o OpenOptions) (*Store, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.URL != "" {
		c, err := NewClient(o.URL)
		if err != nil {
			return nil, err
		}
		if err := c.probe(ctx); err != nil {
			return nil, fmt.Errorf("--vm-url %s: %w", o.URL, err)
		}
		if c.maxLabels > 0 {
			o.Progress(fmt.Sprintf("%s takes at most %d labels per series: wider ones, such as vllm:cache_config_info, are left out (-maxLabelsPerTimeseries=200 would take them)", o.URL, c.maxLabels))
		}
		return &Store{Client: c}, nil
	}
	bin, err := Find(o)
	if errors.Is(err, errNotBuilt) {
		bin, err = build(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return launch(ctx, bin, o)
}

var errNotBuilt = errors.New("VictoriaMetrics is not built yet")

// Find returns the VictoriaMetrics program that Open would start, without building one.
func Find(o OpenOptions) (string, error) {
	if o.Bin != "" {
		path, err := exec.LookPath(o.Bin)
		if err != nil {
			return "", fmt.Errorf("--vm-bin %s: %w", o.Bin, errors.Unwrap(err))
		}
		return path, nil
	}
	path := cached(o.CacheDir)
	if _, err := os.Stat(path); err != nil {
		return "", errNotBuilt
	}
	return path, nil
}

func cached(dir string) string { return filepath.Join(dir, "victoria-metrics-"+Version) }

// build compiles the pinned release into the cache. Two builds at once wait for each other.
func build(ctx context.Context, o OpenOptions) (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("VictoriaMetrics is needed and Go is not here to build it\nhint: install Go 1.26.6 or newer, or pass --vm-bin PATH or --vm-url URL")
	}
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("build VictoriaMetrics: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(o.CacheDir, "build.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("build VictoriaMetrics: %w", err)
	}
	defer lock.Close()
	if err := o.waitFor(ctx, lock); err != nil {
		return "", fmt.Errorf("build VictoriaMetrics: %w", err)
	}
	path := cached(o.CacheDir)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	o.Progress(fmt.Sprintf("building VictoriaMetrics %s into %s (once; about a minute)", Version, o.CacheDir))
	tmp, err := os.MkdirTemp(o.CacheDir, "build-")
	if err != nil {
		return "", fmt.Errorf("build VictoriaMetrics: %w", err)
	}
	defer os.RemoveAll(tmp)
	began := time.Now()
	if err := compile(ctx, tmp); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(tmp, "victoria-metrics"), path); err != nil {
		return "", fmt.Errorf("build VictoriaMetrics: %w", err)
	}
	o.Progress(fmt.Sprintf("built VictoriaMetrics in %.0f s", time.Since(began).Seconds()))
	return path, nil
}

// waitFor locks the file. It asks again and again, because a wait inside the system could not be interrupted.
func (o OpenOptions) waitFor(ctx context.Context, lock *os.File) error {
	for told := false; ; told = true {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		if !told {
			o.Progress("waiting for another build of VictoriaMetrics")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// compile builds from the tools module of the repository where that is at hand, so that its go.sum decides, and
// otherwise from the module proxy, where the checksum database does.
func compile(ctx context.Context, dir string) error {
	flags := []string{"-trimpath", "-ldflags", "-s -w -X github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version=victoria-metrics-" + Version}
	args := append(append([]string{"install"}, flags...), storePackage+"@"+Version)
	if tools := toolsModule(); tools != "" {
		args = append(append([]string{"build", "-C", tools, "-o", filepath.Join(dir, "victoria-metrics")}, flags...), storePackage)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+dir, "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("build VictoriaMetrics: %w\n%s\nhint: pass --vm-bin PATH or --vm-url URL to use one that you have", err, tail(string(out), 8))
	}
	return nil
}

// toolsModule is the absolute path of the repository's tools folder, looked for from the working directory upwards, or
// "". It must pin exactly Version.
func toolsModule() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "tools", "go.mod"))
		if err == nil && strings.Contains(string(mod), "github.com/VictoriaMetrics/VictoriaMetrics "+Version) {
			return filepath.Join(dir, "tools")
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// launch starts the program on a free port with the settings that make windows exact and imports visible at once.
func launch(ctx context.Context, bin string, o OpenOptions) (*Store, error) {
	if err := os.MkdirAll(o.StateDir, 0o755); err != nil {
		return nil, fmt.Errorf("start VictoriaMetrics: %w", err)
	}
	sweep(o.StateDir)
	data, err := os.MkdirTemp(o.StateDir, fmt.Sprintf("vm-%d-", os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("start VictoriaMetrics: %w", err)
	}
	log := newPortFinder()
	began := time.Now()
	proc, err := child.Start(child.Options{
		Argv: append([]string{bin, "-storageDataPath=" + data, "-retentionPeriod=100y", "-httpListenAddr=127.0.0.1:0",
			"-search.latencyOffset=0s", "-search.disableCache", "-dedup.minScrapeInterval=1ms", "-memory.allowedBytes=256MiB",
			// The defaults are 40 labels and 4 KiB: vLLM 0.32's cache_config_info alone has 37 besides ours.
			"-maxLabelsPerTimeseries=200", "-maxLabelValueLen=16384"}, o.flags...),
		Stderr: log, Stdout: log, StateDir: o.StateDir, Label: "victoria-metrics",
	})
	if err != nil {
		os.RemoveAll(data)
		return nil, err
	}
	s := &Store{proc: proc, data: data, log: log}
	if err := s.await(ctx, log); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	s.Started = time.Since(began)
	return s, nil
}

// URL is where the server answers.
func (s *Store) URL() string { return s.Client.url }

const launchTimeout = 30 * time.Second

func (s *Store) await(ctx context.Context, log *portFinder) error {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	select {
	case url := <-log.found:
		c, err := NewClient(url)
		if err != nil {
			return err
		}
		s.Client = c
	case <-s.proc.Done():
		return fmt.Errorf("start VictoriaMetrics: the program ended at once: %s", log.last())
	case <-ctx.Done():
		return fmt.Errorf("start VictoriaMetrics: no answer within %v: %s", launchTimeout, log.last())
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Client.url+"/health", nil)
		if err != nil {
			return fmt.Errorf("start VictoriaMetrics: %w", err)
		}
		if err = s.Client.send(req); err == nil {
			return nil
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("start VictoriaMetrics: it ended: %s", log.last())
		case <-ctx.Done():
			return fmt.Errorf("start VictoriaMetrics: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close stops the server if it is ours and removes its data.
func (s *Store) Close(ctx context.Context) error {
	if s.proc == nil {
		return nil
	}
	err := s.proc.Stop(ctx, 5*time.Second)
	s.log.w.Close() // ends the goroutine that reads it
	return errors.Join(err, os.RemoveAll(s.data))
}

// sweep removes the data of servers whose owner is gone. It is best effort: leftovers cost only disk.
func sweep(stateDir string) {
	old, err := filepath.Glob(filepath.Join(stateDir, "vm-*"))
	if err != nil {
		return
	}
	for _, d := range old {
		part := strings.Split(filepath.Base(d), "-")
		if len(part) != 3 {
			continue
		}
		if pid, err := strconv.Atoi(part[1]); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			os.RemoveAll(d)
		}
	}
}

// portFinder reads the server's log for the address it listens on and keeps its last lines.
type portFinder struct {
	found chan string
	w     *io.PipeWriter

	mu    sync.Mutex
	lines []string
}

var listening = regexp.MustCompile(`started server at (http://[0-9.:]+)/`)

func newPortFinder() *portFinder {
	r, w := io.Pipe()
	p := &portFinder{found: make(chan string, 1), w: w}
	go p.read(r)
	return p
}

func (p *portFinder) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if m := listening.FindStringSubmatch(sc.Text()); m != nil {
			select {
			case p.found <- m[1]:
			default:
			}
		}
		p.mu.Lock()
		if p.lines = append(p.lines, sc.Text()); len(p.lines) > 20 {
			p.lines = p.lines[1:]
		}
		p.mu.Unlock()
	}
	io.Copy(io.Discard, r) // a line over the limit must not block the server
}

// Write implements io.Writer.
func (p *portFinder) Write(b []byte) (int, error) { return p.w.Write(b) }

// last is the last line of the log, which is where VictoriaMetrics says why it cannot go on.
func (p *portFinder) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.lines) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(p.lines[i]); s != "" {
			return s
		}
	}
	return "it said nothing"
}

// widths are numbers of labels per series that servers are asked about. 30 and 40 are VictoriaMetrics' old and new
// defaults; no engine has more than the last.
var widths = []int{20, 30, 40, 64, 100}

// probe finds out whether a server that somebody else runs can hold exact windows, and how many labels it takes. It
// writes a few samples of bench_probe.
func (c *Client) probe(ctx context.Context) error {
	p := prober{c: c, id: strconv.FormatInt(time.Now().UnixNano(), 36), now: time.Now().Truncate(time.Second), ctx: ctx}
	p.hourAgo = p.now.Add(-time.Hour - time.Minute) // clear of a limit of an hour, which the server rounds
	if err := c.post(ctx, "/api/v1/import/prometheus", p.body()); err != nil {
		return err
	}
	if err := c.flush(ctx); err != nil {
		return fmt.Errorf("its /internal/force_flush must be open: %w", err)
	}
	fresh, old := p.ask("count_over_time", "fresh", p.now), p.ask("count_over_time", "old", p.hourAgo)
	widest := p.ask("max_over_time", "wide", p.now)
	switch {
	case p.err != nil:
		return p.err
	case fresh == 0:
		return errors.New("a sample that was just stored is not found\nhint: start it with -search.latencyOffset=0s -search.disableCache")
	case fresh == 1:
		return errors.New("of two samples next to each other it keeps one, so that a window's edge and requests can vanish\nhint: start it with -dedup.minScrapeInterval=1ms")
	case old == 0:
		return errors.New("a sample of one hour ago is dropped\nhint: start it with a longer -maxBackfillAge and -retentionPeriod")
	case widest == 0:
		return fmt.Errorf("a series of %d labels is dropped\nhint: start it with -maxLabelsPerTimeseries=200", widths[0])
	}
	if widest < float64(widths[len(widths)-1]) {
		c.maxLabels = int(widest)
	}
	return nil
}

// prober asks one server about the samples that it was sent.
type prober struct {
	c            *Client
	ctx          context.Context
	id           string
	now, hourAgo time.Time
	err          error // the first
}

// body is two samples a millisecond apart, which the usual longer intervals take for one, an old one, and wide ones.
func (p *prober) body() []byte {
	var b bytes.Buffer
	line := func(part, more string, v int, ms int64) {
		fmt.Fprintf(&b, "bench_probe{run=%q,part=%q%s} %d %d\n", p.id, part, more, v, ms)
	}
	line("fresh", "", 1, p.now.UnixMilli()-501)
	line("fresh", "", 2, p.now.UnixMilli()-500)
	line("old", "", 1, p.hourAgo.UnixMilli())
	for _, w := range widths {
		var more strings.Builder
		for i := 3; i < w; i++ { // the name, run and part are labels too
			fmt.Fprintf(&more, ",l%d=\"x\"", i)
		}
		line("wide", more.String(), w, p.now.UnixMilli())
	}
	return b.Bytes()
}

// ask is the largest value over the series of a part; 0 when there is none.
func (p *prober) ask(f, part string, at time.Time) float64 {
	if p.err != nil {
		return 0
	}
	v, err := p.c.Query(p.ctx, "max("+f+"("+query.Select("bench_probe", []query.Label{{Name: "run", Value: p.id}, {Name: "part", Value: part}})+"[2s]))", at)
	if p.err = err; err != nil || v == nil {
		return 0
	}
	return *v
}
