package spec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"h100-inference-control-plane/runner/arrival"
)

const capacityPath = "load.capacity"

// capacity fills in the defaults of a search and checks that its parts fit together.
func (r *reader) capacity(f *fileCapacity) *Capacity {
	kinds := []string{"concurrency", "rate"}
	r.exactlyOne(capacityPath, kinds)
	c := &Capacity{Resolution: float64(or(f.Resolution, defaultResolution)), AtLeast: f.AtLeast}
	switch {
	case f.Concurrency != nil:
		c.Concurrency = &Range{Min: float64(or(f.Concurrency.Min, defaultSearchMin)), Max: float64(f.Concurrency.Max)}
		c.Requests = or(f.Requests, 0)
		r.goesWith("concurrency", []string{"requests"}, "requests: 200", []string{"arrival", "duration", "max_in_flight"})
		r.ordered("concurrency", *c.Concurrency)
	case f.Rate != nil:
		c.Rate = &Range{Min: or(f.Rate.Min, defaultSearchMin), Max: f.Rate.Max}
		c.Arrival, c.MaxInFlight = cmp.Or(arrival.Process(f.Arrival), arrival.Poisson), or(f.MaxInFlight, 0)
		c.Duration = time.Duration(or(f.Duration, 0))
		r.goesWith("rate", []string{"duration"}, "duration: 60s", []string{"requests"})
		r.ordered("rate", *c.Rate)
		r.someArrive(c)
	default:
		if !r.faulty(capacityPath) && !r.anyUnknown(capacityPath, []string{"concurrency", "rate", "requests", "arrival", "duration", "max_in_flight", "resolution", "at_least"}) {
			r.on(capacityPath, capacityPath+" has neither concurrency nor rate", "for example concurrency: {min: 1, max: 256}")
		}
		return nil
	}
	r.askable(c)
	return c
}

// goesWith checks what a search over one kind of load needs, and what says nothing about it.
func (r *reader) goesWith(kind string, needs []string, example string, others []string) {
	if !r.faulty(capacityPath) {
		for _, k := range needs {
			if _, ok := r.nodes[join(capacityPath, k)]; !ok {
				r.on(capacityPath, fmt.Sprintf("%s has %s and no %s", capacityPath, kind, k), "for example "+example)
			}
		}
	}
	for _, k := range others {
		path := join(capacityPath, k)
		if _, ok := r.nodes[path]; ok && !r.faulty(path) {
			r.on(path, fmt.Sprintf("%s says nothing about a search over %s", path, kind), "leave it out")
		}
	}
}

func (r *reader) ordered(kind string, x Range) {
	path := join(capacityPath, kind)
	if r.anyFaulty(path, join(path, "min"), join(path, "max")) || x.Max == 0 || x.Min < x.Max {
		return
	}
	at, hint := join(path, "min"), ""
	if _, given := r.nodes[at]; !given {
		at, hint = join(path, "max"), "without min, the search begins at 1"
	}
	r.on(at, fmt.Sprintf("%s: min is %s and max is %s; the search goes up from min to max", path, plain(x.Min), plain(x.Max)), hint)
}

func (r *reader) anyFaulty(paths ...string) bool { return slices.ContainsFunc(paths, r.faulty) }

// someArrive refuses a lowest rate at which nothing would be sent.
func (r *reader) someArrive(c *Capacity) {
	if c.Duration > 0 && c.Rate.Min > 0 && c.Rate.Min*c.Duration.Seconds() < 1 && !r.faulty(capacityPath+".rate.min") {
		r.on(capacityPath+".rate.min", fmt.Sprintf("%s requests per second for %s is less than one request", plain(c.Rate.Min), short(c.Duration)), "raise min or the duration")
	}
}

// askable checks that what is asked for lies where the search looks.
func (r *reader) askable(c *Capacity) {
	path, x := capacityPath+".at_least", c.Range()
	if c.AtLeast == nil || r.faulty(path) || x.Min >= x.Max {
		return
	}
	n := *c.AtLeast
	switch {
	case c.Concurrency != nil && n != math.Trunc(n):
		r.on(path, path+": want a whole number of requests", "")
	case n < x.Min || n > x.Max:
		r.on(path, fmt.Sprintf("%s: %s is not between %s and %s, where the search looks", path, plain(n), plain(x.Min), plain(x.Max)), "widen the search, or ask for less")
	}
}

// searchable checks what a search needs of the rest of the file.
func (r *reader) searchable(e *Experiment) {
	if e.Load.Capacity == nil {
		return
	}
	if !slices.ContainsFunc(e.SLO, func(s SLO) bool { return s.Gate }) && !r.anyFaulty("slo", capacityPath) {
		p := r.keys[capacityPath]
		r.add(Fault{Line: p.Line, Column: p.Column, Text: "capacity", Message: capacityPath + ": there is no objective that a load could hold or fail",
			Hint: "add one under slo, without gate: false"})
	}
	if e.Compare != nil && e.Compare.Attribute {
		r.on("compare.attribute", "compare.attribute: a change is split over flags at loads that all configs share, and a capacity search measures others for each",
			"leave it out here; a second experiment file with closed: can have it, and shares the engine starts")
	}
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
