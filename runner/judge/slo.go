// Package judge draws conclusions from what was measured: of an objective, a trial and a run. No data is INCONCLUSIVE and
// never a pass; a failed request counts against every objective. It asks no server and writes nothing; bounds are
// compared here, on values.
package judge

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strings"

	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// MaxErrorShare is the share of failed requests above which a trial says nothing about latency or throughput: what is
// left is another load than the one asked for.
const MaxErrorShare = 0.01

// Measured is what an objective's query gave for one trial.
type Measured struct {
	Query    string   // as sent, window and labels in place; "" = the objective's own
	Value    *float64 // nil = no data. +Inf is what a quantile gives that falls on a failed request
	Samples  *int64   // that the query could see; nil = not known
	Err      string   // why there is no value; "" = the query was answered
	Requests int      // of the trial
	Failed   int      // of those
}

// SLO judges one objective on one trial.
func SLO(s spec.SLO, m Measured) result.Judgement {
	j := result.Judgement{Name: s.Name, Query: cmp.Or(m.Query, s.Query), Samples: m.Samples, Unit: s.Unit, Gate: s.Gate}
	if s.Min != nil {
		j.Min = ptr(*s.Min)
	} else {
		j.Max = ptr(s.Max)
	}
	if m.Value != nil && !math.IsNaN(*m.Value) && !math.IsInf(*m.Value, 0) {
		j.Value = ptr(*m.Value)
	}
	about := read(s.Query)
	if why := unknown(about, m); why != "" {
		j.Verdict, j.Reason = result.Inconclusive, why
		return j
	}
	decide(&j, about, m)
	return j
}

// unknown says why nothing can be concluded, or "".
func unknown(q subject, m Measured) string {
	switch {
	case m.Err != "":
		return "the query failed: " + m.Err
	case m.Requests == 0:
		return "no request was sent"
	case m.Failed >= m.Requests:
		return fmt.Sprintf("all %d requests failed", m.Requests)
	case m.Value == nil || math.IsNaN(*m.Value):
		return "no data: the query has no value"
	case m.Samples != nil && *m.Samples == 0:
		return "no data: the query saw no sample"
	}
	if want := q.samples(m); m.Samples != nil && *m.Samples < want {
		return fmt.Sprintf("incomplete data: %d samples for %d requests", *m.Samples, want)
	}
	if share := float64(m.Failed) / float64(m.Requests); share > MaxErrorShare && !q.ok {
		return fmt.Sprintf("errors: %s, more than %s", failures(m), result.Bound(MaxErrorShare, "%"))
	}
	return ""
}

// decide compares with the bound. Failed requests are in the series of times as +Inf, so that a quantile or a share has
// them already; a share that provably has not gets them here.
func decide(j *result.Judgement, q subject, m Measured) {
	v := *m.Value
	if math.IsInf(v, 0) {
		if v > 0 && q.times && m.Failed > 0 && j.Max != nil {
			j.Infinite = true
			j.Verdict, j.Reason = result.Fail, "the value falls on a failed request: "+failures(m)
			return
		}
		j.Verdict, j.Reason = result.Inconclusive, "the value is infinite"
		return
	}
	var notes []string
	if w, ok := q.withFailures(v, m); ok {
		j.WithFailures = &w
		v = w
		notes = append(notes, "with failed requests as misses: "+result.Quantity(w, j.Unit))
	}
	if m.Failed > 0 {
		notes = append(notes, failures(m))
	}
	j.Verdict = result.Pass
	switch {
	case j.Max != nil && v > *j.Max:
		j.Verdict = result.Fail
		notes = append([]string{fmt.Sprintf("%s is over the maximum of %s", result.Quantity(v, j.Unit), result.Bound(*j.Max, j.Unit))}, notes...)
	case j.Min != nil && v < *j.Min:
		j.Verdict = result.Fail
		notes = append([]string{fmt.Sprintf("%s is under the minimum of %s", result.Quantity(v, j.Unit), result.Bound(*j.Min, j.Unit))}, notes...)
	}
	j.Reason = strings.Join(notes, "; ")
}

func failures(m Measured) string {
	return fmt.Sprintf("%d of %d requests failed", m.Failed, m.Requests)
}

// subject is what a query is about, as far as its text tells.
type subject struct {
	times bool   // a per-request series of latency, TTFT or TPOT
	ok    bool   // the series of successes: errors are what it measures
	only  string // the one per-request series that it names; "" = none, or several
	share string // "gt" or "le" when the whole query is that share of a series of times
}

func read(query string) subject {
	var s subject
	names := map[string]bool{}
	for _, n := range regexp.MustCompile(`bench_request_[a-z_]+`).FindAllString(query, -1) {
		names[n] = true
		s.only = n
		switch n {
		case "bench_request_latency_seconds", "bench_request_ttft_seconds", "bench_request_tpot_seconds":
			s.times = true
		case "bench_request_ok":
			s.ok = true
		}
	}
	if len(names) != 1 {
		s.only = ""
	}
	if m := regexp.MustCompile(`(?i)^\s*share_(gt|le)_over_time\(\s*bench_request_(?:latency|ttft|tpot)_seconds\b[^()]*\)\s*$`).FindStringSubmatch(query); m != nil {
		s.share = strings.ToLower(m[1])
	}
	return s
}

// samples is how many samples the query must see at least: 0 = any number. An answer of one token has no TPOT, so its
// series may have fewer than there are successes.
func (s subject) samples(m Measured) int64 {
	switch s.only {
	case "bench_request_ok":
		return int64(m.Requests)
	case "bench_request_latency_seconds", "bench_request_ttft_seconds":
		return int64(m.Requests - m.Failed)
	}
	return 0
}

// withFailures adds failed requests as misses to a share that leaves them out: its series has no more samples than there
// are successes, or fewer misses than there are failures.
func (s subject) withFailures(v float64, m Measured) (float64, bool) {
	if s.share == "" || m.Failed == 0 {
		return 0, false
	}
	misses := v
	if s.share == "le" {
		misses = 1 - v
	}
	requests, succeeded := float64(m.Requests), float64(m.Requests-m.Failed)
	left := misses < float64(m.Failed)/requests*(1-1e-9)
	if m.Samples != nil && s.only != "bench_request_tpot_seconds" {
		left = left || *m.Samples <= int64(m.Requests-m.Failed)
	}
	if !left {
		return 0, false
	}
	misses = (misses*succeeded + float64(m.Failed)) / requests
	if s.share == "le" {
		misses = 1 - misses
	}
	return misses, true
}

func ptr[T any](v T) *T { return &v }
