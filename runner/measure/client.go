// Package measure puts what was scraped and recorded into VictoriaMetrics and asks it questions: exact windows, one
// flush, counts read back, MetricsQL. It decides nothing about the answers (judge), and it knows no engine but by the
// names it is given.
package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
)

// ErrDropped says that VictoriaMetrics accepted an import and did not store all of it.
var ErrDropped = errors.New("VictoriaMetrics did not store everything that it accepted")

// Client talks to one VictoriaMetrics. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
	api  v1.API
}

// NewClient returns a client of the server at url.
func NewClient(url string) (*Client, error) {
	c := &Client{url: strings.TrimRight(url, "/"), http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	a, err := api.NewClient(api.Config{Address: c.url, RoundTripper: noCache{c.http.Transport}})
	if err != nil {
		return nil, fmt.Errorf("address of VictoriaMetrics: %w", err)
	}
	c.api = v1.NewAPI(a)
	return c, nil
}

// noCache asks for an uncached answer with every query, so that a server with ordinary settings behaves.
type noCache struct{ next http.RoundTripper }

func (n noCache) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Set("nocache", "1")
	r.URL.RawQuery = q.Encode()
	return n.next.RoundTrip(r)
}

// A Trial is what one trial leaves for the store.
type Trial struct {
	Labels    []query.Label // put on every sample
	Scrapes   *Scrapes
	LoadStart time.Time // when the records' clock was 0
	Records   []record.Record
}

// Imported says what was stored.
type Imported struct {
	Samples int64 // read back
	Born    int   // series that got an explicit 0 at t0
}

// Import stores a trial: scrapes with the times they were made at, a 0 at t0 for what was born inside the window, and a
// sample per request. It flushes once and reads the counts back; ErrDropped when they are not what was sent.
func (c *Client) Import(ctx context.Context, t Trial) (Imported, error) {
	s := t.Scrapes
	reqs, err := requestPoints(t.Records, t.LoadStart, s.T0, s.T1)
	if err != nil {
		return Imported{}, err
	}
	var b body
	b.labels = renderLabels(t.Labels)
	b.pinned = t.Labels
	born := b.scrapes(s)
	for _, p := range reqs {
		b.point(p)
	}
	if err := c.post(ctx, "/api/v1/import/prometheus", b.buf.Bytes()); err != nil {
		return Imported{}, err
	}
	if err := c.flush(ctx); err != nil {
		return Imported{}, err
	}
	stored, err := c.count(ctx, t.Labels, s.T0, s.T1)
	if err != nil {
		return Imported{}, fmt.Errorf("read the import back: %w", err)
	}
	if stored != b.sent {
		return Imported{}, fmt.Errorf("%w: sent %d samples, found %d%s", ErrDropped, b.sent, stored, c.ignored(ctx))
	}
	return Imported{Samples: stored, Born: born}, nil
}

// body is an import request being written.
type body struct {
	buf    bytes.Buffer
	labels string // `a="b",c="d"`
	pinned []query.Label
	sent   int64
}

// scrapes writes every scrape, and returns how many series were born inside the window.
func (b *body) scrapes(s *Scrapes) int {
	t0 := map[string]bool{}
	born := map[string]bool{}
	for n, sc := range s.All {
		seen := map[string]bool{} // a server that repeats a series in one answer counts once
		for _, x := range sc.Samples {
			if math.IsNaN(x.Value) {
				continue
			}
			series := b.series(x)
			if seen[series] {
				continue
			}
			seen[series] = true
			switch {
			case n == 0:
				t0[series] = true
			case !t0[series] && !born[series] && sc.grows(x.Name):
				born[series] = true
				b.line(series, 0, s.T0.UnixMilli())
			}
			b.line(series, x.Value, sc.At.UnixMilli())
		}
	}
	return len(born)
}

// series renders a sample's identity with the trial's labels. A label of the engine that has the name of one of ours is
// kept as exported_NAME, as Prometheus does.
func (b *body) series(x Sample) string {
	var out strings.Builder
	out.WriteString(x.Name)
	out.WriteByte('{')
	out.WriteString(b.labels)
	for _, l := range x.Labels {
		name := l.Name
		for _, p := range b.pinned {
			if p.Name == name {
				name = "exported_" + name
			}
		}
		if l.Value == "" {
			continue
		}
		out.WriteString("," + name + "=" + quote(l.Value))
	}
	out.WriteByte('}')
	return out.String()
}

func (b *body) point(p point) { b.line(p.name+"{"+b.labels+"}", p.v, p.ms) }

func (b *body) line(series string, v float64, ms int64) {
	b.buf.WriteString(series)
	b.buf.WriteByte(' ')
	b.buf.Write(formatValue(b.buf.AvailableBuffer(), v))
	b.buf.WriteByte(' ')
	b.buf.Write(strconv.AppendInt(b.buf.AvailableBuffer(), ms, 10))
	b.buf.WriteByte('\n')
	b.sent++
}

func renderLabels(ls []query.Label) string {
	parts := make([]string, len(ls))
	for i, l := range ls {
		parts[i] = l.Name + "=" + quote(l.Value)
	}
	return strings.Join(parts, ",")
}

var labelEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func quote(s string) string { return `"` + labelEscape.Replace(s) + `"` }

func (c *Client) post(ctx context.Context, path string, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("ask VictoriaMetrics: %w", err)
	}
	return c.send(req)
}

func (c *Client) send(req *http.Request) error {
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("VictoriaMetrics does not answer: %w", err)
	}
	defer res.Body.Close()
	msg, _ := io.ReadAll(io.LimitReader(res.Body, 400)) // only words for the error below
	io.Copy(io.Discard, res.Body)
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("VictoriaMetrics answers %s to %s: %s", res.Status, req.URL.Path, strings.TrimSpace(string(msg)))
	}
	return nil
}

// flush makes what was imported visible to queries. It returns when it is.
func (c *Client) flush(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/internal/force_flush", nil)
	if err != nil {
		return fmt.Errorf("ask VictoriaMetrics: %w", err)
	}
	return c.send(req)
}

// count is the number of samples with the labels in [t0, t1]. The window is a millisecond longer, because it is open
// on the left.
func (c *Client) count(ctx context.Context, labels []query.Label, t0, t1 time.Time) (int64, error) {
	q := fmt.Sprintf("sum(count_over_time({%s}[%dms]))", renderLabels(labels), t1.Sub(t0).Milliseconds()+1)
	v, err := c.Query(ctx, q, t1)
	if err != nil || v == nil {
		return 0, err
	}
	return int64(math.Round(*v)), nil
}

// ignored says what the server's own counters say about dropped rows.
func (c *Client) ignored(ctx context.Context) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/metrics", nil)
	if err != nil {
		return ""
	}
	res, err := c.http.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxExposition))
	if err != nil {
		return ""
	}
	s, err := ParseExposition(time.Now(), raw)
	if err != nil {
		return ""
	}
	var out []string
	for _, x := range s.Samples {
		if x.Value > 0 && (x.Name == "vm_rows_ignored_total" || x.Name == "vm_rows_invalid_total") {
			for _, l := range x.Labels {
				if l.Name == "reason" || l.Name == "type" {
					out = append(out, fmt.Sprintf("%s %.0f", l.Value, x.Value))
				}
			}
		}
	}
	sort.Strings(out)
	if len(out) == 0 {
		return ""
	}
	return " (dropped since it started: " + strings.Join(out, ", ") + ")"
}

// ErrManySeries says that a query has more than one value.
var ErrManySeries = errors.New("the query gives more than one series")

// Query evaluates a MetricsQL expression at a time and returns its one value; nil when there is no data or it is NaN.
func (c *Client) Query(ctx context.Context, expr string, at time.Time) (*float64, error) {
	val, _, _, err := c.api.Query(ctx, expr, at)
	if err != nil {
		return nil, fmt.Errorf("query VictoriaMetrics: %w", err)
	}
	var v float64
	switch x := val.(type) {
	case *model.Scalar:
		v = float64(x.Value)
	case model.Vector:
		if len(x) == 0 {
			return nil, nil
		}
		if len(x) > 1 {
			return nil, fmt.Errorf("%w (%d, such as %s and %s); aggregate them, for example with sum(...)", ErrManySeries, len(x), x[0].Metric, x[1].Metric)
		}
		v = float64(x[0].Value)
	default:
		return nil, fmt.Errorf("the query gives a %s, not one value", val.Type())
	}
	if math.IsNaN(v) {
		return nil, nil
	}
	return &v, nil
}

// Readings is what an engine counted over a window. A quantity that it does not report is absent.
type Readings struct {
	Names     map[engine.Quantity]string   // the name under which it was found
	Increase  map[engine.Quantity]*float64 // counters
	Mean      map[engine.Quantity]*float64 // histograms: increase of _sum over increase of _count; nil when nothing was observed
	Average   map[engine.Quantity]*float64 // gauges, over the scrapes
	Max       map[engine.Quantity]*float64 // gauges
	Restarted *bool                        // nil = the engine does not say when it started
}

// Engine reads the engine's quantities over (t0, t1] back from the store. Labels are the trial's.
func (c *Client) Engine(ctx context.Context, series []engine.Series, labels []query.Label, s *Scrapes) (*Readings, error) {
	r := &Readings{Names: map[engine.Quantity]string{}, Increase: map[engine.Quantity]*float64{}, Mean: map[engine.Quantity]*float64{},
		Average: map[engine.Quantity]*float64{}, Max: map[engine.Quantity]*float64{}}
	ask := reader{c, ctx, labels, s, nil}
	last := s.All[len(s.All)-1]
	for _, q := range series {
		name := nameOf(series, q.Quantity, last)
		if name == "" {
			continue
		}
		r.Names[q.Quantity] = name
		switch q.Kind {
		case engine.Counter:
			r.Increase[q.Quantity] = ask.one("sum(increase(%s[%s]))", name)
		case engine.Histogram:
			sum, count := ask.one("sum(increase(%s[%s]))", name+"_sum"), ask.one("sum(increase(%s[%s]))", name+"_count")
			if sum != nil && count != nil && *count > 0 {
				mean := *sum / *count
				r.Mean[q.Quantity] = &mean
			}
		case engine.Gauge:
			r.Average[q.Quantity] = ask.one("sum(avg_over_time(%s[%s]))", name)
			r.Max[q.Quantity] = ask.one("max(max_over_time(%s[%s]))", name)
		}
	}
	r.Restarted = restarted(series, s)
	return r, ask.err
}

// reader asks several questions about one window and remembers the first error.
type reader struct {
	c      *Client
	ctx    context.Context
	labels []query.Label
	s      *Scrapes
	err    error
}

func (r *reader) one(format, name string) *float64 {
	if r.err != nil {
		return nil
	}
	w := fmt.Sprintf("%dms", r.s.T1.Sub(r.s.T0).Milliseconds())
	v, err := r.c.Query(r.ctx, fmt.Sprintf(format, query.Select(name, r.labels), w), r.s.T1)
	r.err = err
	return v
}

// restarted compares the process's start time over all scrapes. A restart voids a window: counters lose what they
// counted before it, and a small drop cannot even be seen.
func restarted(series []engine.Series, s *Scrapes) *bool {
	var first float64
	have, moved := false, false
	for _, sc := range s.All {
		v, ok := sc.Sum(nameOf(series, engine.QProcessStart, sc))
		switch {
		case !ok:
		case !have:
			first, have = v, true
		case v != first:
			moved = true
		}
	}
	if !have {
		return nil
	}
	return &moved
}
