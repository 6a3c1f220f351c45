package measure

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
)

// A Trial is what one trial leaves for the store.
type Trial struct {
	Labels    []query.Label // put on every sample
	Scrapes   *Scrapes
	LoadStart time.Time // when the records' clock was 0
	Records   []record.Record
	Gauges    []Gauge // further series, inside the window
}

// A Gauge is one sample of a series that is neither the engine's nor a request's. Two of one series must not fall on one
// millisecond: one of them would be lost.
type Gauge struct {
	Name   string
	Labels []Label   // besides the trial's
	At     time.Time // whole milliseconds, inside [t0, t1]
	Value  float64
}

// Imported says what was stored.
type Imported struct {
	Samples int64 // read back
	Born    int   // series that got an explicit 0 at t0
	LeftOut int   // samples not sent: of series with more labels than a user's own server takes, such as vllm:cache_config_info
}

// Import stores a trial: scrapes with the times they were made at, a 0 at t0 for what was born inside the window, and a
// sample per request. It flushes once and reads the counts back, name by name; ErrDropped when they are not what was
// sent. Importing the same again changes nothing.
func (c *Client) Import(ctx context.Context, t Trial) (Imported, error) {
	s := t.Scrapes
	order, stamp, err := requestStamps(t.Records, t.LoadStart, s.T0, s.T1)
	if err != nil {
		return Imported{}, err
	}
	im := newImporter(t.Labels, c.maxLabels, func(b []byte) error { return c.post(ctx, "/api/v1/import/prometheus", b) })
	im.scrapes(s)
	im.requests(t.Records, order, stamp)
	im.gauges(t.Gauges)
	im.send()
	if im.err != nil {
		return Imported{}, im.err
	}
	if err := c.flush(ctx); err != nil {
		return Imported{}, err
	}
	stored, err := c.counts(ctx, t.Labels, s.T0, s.T1)
	if err != nil {
		return Imported{}, fmt.Errorf("read the import back: %w", err)
	}
	total, lost := im.compare(stored)
	if lost != "" {
		return Imported{}, fmt.Errorf("%w: sent %d samples, found %d; of %s%s", ErrDropped, im.total(), total, lost, c.ignored(ctx))
	}
	return Imported{Samples: total, Born: im.born, LeftOut: im.leftOut}, nil
}

// chunk is how much text is collected before it is sent. A trial of 100,000 requests is 100 MB of it in all.
const chunk = 1 << 20

// importer writes samples as text, and sends it in pieces.
type importer struct {
	post    func([]byte) error
	buf     bytes.Buffer
	labels  string // `a="b",c="d"`
	pinned  []query.Label
	max     int                // labels per series; 0 = no limit
	read    map[string]*stored // by the engine's text
	written map[string]*stored // by ours
	sent    map[string]*int64  // samples by name
	born    int
	leftOut int
	err     error // the first
}

// stored is how one series is written, and where its samples are counted.
type stored struct {
	text    string
	sent    *int64
	tooWide bool
	last    int  // the scrape that it was seen in last, counted from 1
	birth   bool // it got its 0, or was there at t0
}

func newImporter(labels []query.Label, maxLabels int, post func([]byte) error) *importer {
	return &importer{post: post, labels: renderLabels(labels), pinned: labels, max: maxLabels,
		read: map[string]*stored{}, written: map[string]*stored{}, sent: map[string]*int64{}}
}

func (im *importer) scrapes(s *Scrapes) {
	for n, sc := range s.All {
		for _, x := range sc.Samples {
			if math.IsNaN(x.Value) {
				continue
			}
			series := im.series(x)
			if series.last == n+1 { // a server that repeats a series in one answer counts once
				continue
			}
			series.last = n + 1
			if series.tooWide {
				im.leftOut++
				continue
			}
			if n == 0 {
				series.birth = true
			}
			if !series.birth && sc.grows(x.Name) {
				series.birth = true
				im.born++
				im.line(series, 0, s.T0.UnixMilli())
			}
			im.line(series, x.Value, sc.At.UnixMilli())
		}
	}
}

func (im *importer) requests(recs []record.Record, order []int, stamp []int64) {
	byName := map[string]*stored{}
	for _, name := range requestSeries {
		byName[name] = im.series(Sample{Name: name})
	}
	for _, i := range order {
		eachValue(&recs[i], func(series string, v float64) { im.line(byName[series], v, stamp[i]) })
	}
}

func (im *importer) gauges(gs []Gauge) {
	for _, g := range gs {
		im.line(im.series(Sample{Name: g.Name, Labels: g.Labels}), g.Value, g.At.UnixMilli())
	}
}

// series is how a sample's series is written: with the trial's labels. A label of the engine that has the name of one
// of ours is kept as exported_NAME, as Prometheus does.
func (im *importer) series(x Sample) *stored {
	if s := im.read[x.text]; s != nil {
		return s
	}
	var out strings.Builder
	out.WriteString(x.Name + "{" + im.labels)
	width := 1 + len(im.pinned)
	for _, l := range x.Labels {
		if l.Value == "" {
			continue
		}
		width++
		name := l.Name
		for _, p := range im.pinned {
			if p.Name == name {
				name = "exported_" + name
			}
		}
		out.WriteString("," + name + "=" + quote(l.Value))
	}
	out.WriteByte('}')
	s := im.written[out.String()]
	if s == nil {
		s = &stored{text: out.String(), sent: im.counter(x.Name), tooWide: im.max > 0 && width > im.max}
		im.written[s.text] = s
	}
	if x.text != "" {
		im.read[x.text] = s
	}
	return s
}

func (im *importer) counter(name string) *int64 {
	if im.sent[name] == nil {
		im.sent[name] = new(int64)
	}
	return im.sent[name]
}

func (im *importer) line(s *stored, v float64, ms int64) {
	im.buf.WriteString(s.text)
	im.buf.WriteByte(' ')
	im.buf.Write(formatValue(im.buf.AvailableBuffer(), v))
	im.buf.WriteByte(' ')
	im.buf.Write(strconv.AppendInt(im.buf.AvailableBuffer(), ms, 10))
	im.buf.WriteByte('\n')
	*s.sent++
	if im.buf.Len() >= chunk {
		im.send()
	}
}

// send posts what was collected. After an error nothing more is sent.
func (im *importer) send() {
	if im.err == nil && im.buf.Len() > 0 {
		im.err = im.post(im.buf.Bytes())
	}
	im.buf.Reset()
}

func (im *importer) total() (n int64) {
	for _, v := range im.sent {
		n += *v
	}
	return n
}

// compare returns how many samples are stored, and names the series that lack some, or have too many; "" when none.
func (im *importer) compare(found map[string]int64) (total int64, lost string) {
	var names []string
	for name, n := range found {
		total += n
		if im.sent[name] == nil {
			names = append(names, fmt.Sprintf("%s %d instead of none", name, n))
		}
	}
	for name, n := range im.sent {
		if found[name] != *n {
			names = append(names, fmt.Sprintf("%s %d instead of %d", name, found[name], *n))
		}
	}
	sort.Strings(names)
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	return total, strings.Join(names, ", ")
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

// counts are the numbers of samples with the labels in [t0, t1] by name. The window is a millisecond longer, because it
// is open on the left.
func (c *Client) counts(ctx context.Context, labels []query.Label, t0, t1 time.Time) (map[string]int64, error) {
	q := fmt.Sprintf("sum(count_over_time({%s}[%dms]) keep_metric_names) by (__name__)", renderLabels(labels), t1.Sub(t0).Milliseconds()+1)
	val, _, _, err := c.api.Query(ctx, q, t1)
	if err != nil {
		return nil, fmt.Errorf("query VictoriaMetrics: %w", err)
	}
	vector, ok := val.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("counts are a %s, not a vector", val.Type())
	}
	out := map[string]int64{}
	for _, x := range vector {
		out[string(x.Metric[model.MetricNameLabel])] = int64(math.Round(float64(x.Value)))
	}
	return out, nil
}

// remedies are the settings behind the reasons for which VictoriaMetrics drops a sample.
var remedies = map[string]string{
	"too_many_labels":      "start it with -maxLabelsPerTimeseries=200",
	"too_long_label_name":  "start it with -maxLabelNameLen=1024",
	"too_long_label_value": "start it with -maxLabelValueLen=16384",
	"small_timestamp":      "start it with a longer -retentionPeriod, and compare its clock with this one's",
	"big_timestamp":        "compare its clock with this one's",
}

// ignored says what the server's own counters say about dropped rows. It is best effort: words for an error.
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
	return reasons(s)
}

func reasons(s *Scrape) string {
	var out, hints []string
	for _, x := range s.Samples {
		if x.Value <= 0 || x.Name != "vm_rows_ignored_total" && x.Name != "vm_rows_invalid_total" {
			continue
		}
		for _, l := range x.Labels {
			if l.Name == "reason" || l.Name == "type" {
				out = append(out, fmt.Sprintf("%s %.0f", l.Value, x.Value))
				if h := remedies[l.Value]; h != "" {
					hints = append(hints, h)
				}
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	sort.Strings(out)
	sort.Strings(hints)
	text := " (dropped since it started: " + strings.Join(out, ", ") + ")"
	if len(hints) > 0 {
		text += "\nhint: " + strings.Join(hints, "; ")
	}
	return text
}
