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
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/query"
)

// ErrDropped says that VictoriaMetrics accepted an import and did not store all of it.
var ErrDropped = errors.New("VictoriaMetrics did not store everything that it accepted")

// Client talks to one VictoriaMetrics. It is safe for concurrent use.
type Client struct {
	url       string
	http      *http.Client
	api       v1.API
	maxLabels int // that the server takes per series, its name included; 0 = more than any engine has
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

// ErrManySeries says that a query has more than one value.
var ErrManySeries = errors.New("the query gives more than one series")

// Query evaluates a MetricsQL expression at a time and returns its one value; nil when there is no data or it is NaN.
// A sample quantile that is NaN only because its rank is next to a failed request's +Inf has its value nevertheless.
func (c *Client) Query(ctx context.Context, expr string, at time.Time) (*float64, error) {
	v, err := c.value(ctx, expr, at)
	if err != nil || v != nil {
		return v, err
	}
	left, ok := query.LeftOfQuantiles(expr)
	if !ok {
		return nil, nil
	}
	return c.value(ctx, left, at)
}

// value is the answer as it is; nil when there is none. VictoriaMetrics leaves NaN out of most answers by itself.
func (c *Client) value(ctx context.Context, expr string, at time.Time) (*float64, error) {
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
