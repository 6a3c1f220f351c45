package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"h100-inference-control-plane/runner/arrival"
	"h100-inference-control-plane/runner/engine"
)

// Merged returns the flags that a config's engine is started with: the shared ones, and the config's own in place of a
// shared one of the same name; sorted by name, each name once. An unknown config has none (nil).
func (e *Experiment) Merged(config string) []engine.Flag {
	at := slices.IndexFunc(e.Configs, func(c Config) bool { return c.Name == config })
	if at < 0 {
		return nil
	}
	own := e.Configs[at].Flags
	out := slices.Clone(own)
	for _, f := range e.Engine.Flags {
		if !slices.ContainsFunc(own, func(o engine.Flag) bool { return o.Name == f.Name }) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b engine.Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Points returns the load points in the order of the file. Those of a capacity search are not known before it: none.
func (e *Experiment) Points() []Point {
	var out []Point
	switch l := e.Load; {
	case l.Closed != nil:
		for _, n := range l.Closed.Concurrency {
			out = append(out, Point{Concurrency: n})
		}
	case l.Open != nil:
		for _, rate := range l.Open.Rates {
			out = append(out, Point{Rate: rate})
		}
	}
	return out
}

// Extremes are load points among which the highest load that may be offered is: all points of the file, or the ends of
// a capacity search.
func (e *Experiment) Extremes() []Point {
	if c := e.Load.Capacity; c != nil {
		return []Point{c.Point(c.Range().Min), c.Point(c.Range().Max)}
	}
	return e.Points()
}

// Arrivals is how requests come in an open loop, fixed or searched; nil in a closed loop. The rates of a search are not
// in it.
func (l LoadLevels) Arrivals() *Open {
	if c := l.Capacity; c != nil && c.Rate != nil {
		return &Open{Arrival: c.Arrival, Duration: c.Duration, MaxInFlight: c.MaxInFlight}
	}
	return l.Open
}

// Range is where the search looks, in concurrent requests or in requests per second.
func (c *Capacity) Range() Range {
	if c.Concurrency != nil {
		return *c.Concurrency
	}
	return *c.Rate
}

// Point is a load as a load point.
func (c *Capacity) Point(load float64) Point {
	if c.Concurrency != nil {
		return Point{Concurrency: int(load)}
	}
	return Point{Rate: load}
}

// Load is the inverse of Capacity.Point: whichever of the two numbers the point has.
func (p Point) Load() float64 {
	if p.Concurrency > 0 {
		return float64(p.Concurrency)
	}
	return p.Rate
}

// String is the short name of a load point: "c16" in closed loop, "r2.5" in open loop. It is unique within an
// experiment and fit for a file name.
func (p Point) String() string {
	if p.Concurrency > 0 {
		return "c" + strconv.Itoa(p.Concurrency)
	}
	return "r" + strconv.FormatFloat(p.Rate, 'f', -1, 64)
}

// CanonicalJSON is the experiment as keys cover it: equal for files that mean the same, whatever their names, comments
// and order of keys. Configs are in the order of their names, of a prompt file there is only the content's hash, and
// the unit in which a bound was written is left out.
func (e *Experiment) CanonicalJSON() ([]byte, error) {
	c := *e
	c.Configs = e.Own()
	slices.SortFunc(c.Configs, func(a, b Config) int { return strings.Compare(a.Name, b.Name) })
	c.SLO = slices.Clone(e.SLO)
	for i := range c.SLO {
		c.SLO[i].Unit = ""
	}
	if e.Workload.File != nil {
		f := *e.Workload.File
		f.Path = ""
		c.Workload.File = &f
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the experiment as JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("sort the experiment's JSON: %w", err)
	}
	if b, err = json.Marshal(tree); err != nil { // of a map: keys are sorted
		return nil, fmt.Errorf("write the experiment as JSON: %w", err)
	}
	return b, nil
}

// loadJSON and openJSON are the forms in JSON, where times are in seconds.
type loadJSON struct {
	Closed   *Closed       `json:"closed,omitempty"`
	Open     *openJSON     `json:"open,omitempty"`
	Capacity *capacityJSON `json:"capacity,omitempty"`
	Warmup   int           `json:"warmup"`
	Timeout  float64       `json:"timeout_seconds"`
}

type capacityJSON struct {
	Concurrency *Range          `json:"concurrency,omitempty"`
	Rate        *Range          `json:"rate,omitempty"`
	Requests    int             `json:"requests,omitempty"`
	Arrival     arrival.Process `json:"arrival,omitempty"`
	Duration    float64         `json:"duration_seconds,omitempty"`
	MaxInFlight int             `json:"max_in_flight,omitempty"`
	Resolution  float64         `json:"resolution"`
	AtLeast     *float64        `json:"at_least,omitempty"`
}

type openJSON struct {
	Rates       []float64       `json:"rates"`
	Arrival     arrival.Process `json:"arrival"`
	Duration    float64         `json:"duration_seconds"`
	MaxInFlight int             `json:"max_in_flight,omitempty"`
}

// MarshalJSON writes times in seconds.
func (l LoadLevels) MarshalJSON() ([]byte, error) {
	out := loadJSON{Closed: l.Closed, Warmup: l.Warmup, Timeout: l.Timeout.Seconds()}
	if o := l.Open; o != nil {
		out.Open = &openJSON{o.Rates, o.Arrival, o.Duration.Seconds(), o.MaxInFlight}
	}
	if c := l.Capacity; c != nil {
		out.Capacity = &capacityJSON{c.Concurrency, c.Rate, c.Requests, c.Arrival, c.Duration.Seconds(), c.MaxInFlight, c.Resolution, c.AtLeast}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *LoadLevels) UnmarshalJSON(b []byte) error {
	var in loadJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*l = LoadLevels{Closed: in.Closed, Warmup: in.Warmup, Timeout: seconds(in.Timeout)}
	if o := in.Open; o != nil {
		l.Open = &Open{o.Rates, o.Arrival, seconds(o.Duration), o.MaxInFlight}
	}
	if c := in.Capacity; c != nil {
		l.Capacity = &Capacity{c.Concurrency, c.Rate, c.Requests, c.Arrival, seconds(c.Duration), c.MaxInFlight, c.Resolution, c.AtLeast}
	}
	return nil
}

func seconds(f float64) time.Duration {
	whole := time.Duration(f)
	return whole*time.Second + time.Duration((f-float64(whole))*1e9+0.5)
}
