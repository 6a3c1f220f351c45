package measure

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"h100-inference-control-plane/runner/record"
)

// The series of requests. A request that failed is worth +Inf in the three times: it met no objective, and must not
// vanish from the denominator of one.
const (
	seriesTTFT       = "bench_request_ttft_seconds"
	seriesTPOT       = "bench_request_tpot_seconds" // absent for answers of one token
	seriesLatency    = "bench_request_latency_seconds"
	seriesPrompt     = "bench_request_prompt_tokens"
	seriesCompletion = "bench_request_completion_tokens"
	seriesOK         = "bench_request_ok" // 1 or 0
)

// point is one stored value.
type point struct {
	name string
	ms   int64 // Unix milliseconds
	v    float64
}

// requestPoints gives every request a millisecond of its own inside (t0, t1] and lists its values, rounded to
// microseconds (VictoriaMetrics keeps about 12 digits, and a bound is compared with the rounded value). loadStart is
// when the records' clock was 0. The error says when there are more requests than milliseconds.
func requestPoints(recs []record.Record, loadStart, t0, t1 time.Time) ([]point, error) {
	order := make([]int, len(recs))
	stamp := make([]int64, len(recs))
	for i, r := range recs {
		order[i] = i
		stamp[i] = loadStart.Add(time.Duration(r.End) * time.Microsecond).UnixMilli()
	}
	sort.SliceStable(order, func(a, b int) bool { return stamp[order[a]] < stamp[order[b]] })
	if err := spread(stamp, order, t0.UnixMilli(), t1.UnixMilli()); err != nil {
		return nil, err
	}
	out := make([]point, 0, 6*len(recs))
	for _, i := range order {
		out = appendRequest(out, &recs[i], stamp[i])
	}
	return out, nil
}

// spread moves time stamps by as little as makes them distinct and keeps them in (t0, t1]: first to the right, then
// back from the end.
func spread(stamp []int64, order []int, t0, t1 int64) error {
	if n := int64(len(order)); n > t1-t0 {
		return fmt.Errorf("%d requests ended in a window of %d ms: a longer window is needed to tell them apart", n, t1-t0)
	}
	last := t0
	for _, i := range order {
		stamp[i] = max(stamp[i], last+1)
		last = stamp[i]
	}
	next := t1 + 1
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		stamp[i] = min(stamp[i], next-1)
		next = stamp[i]
	}
	return nil
}

func appendRequest(out []point, r *record.Record, ms int64) []point {
	ok := 0.0
	if r.Err == record.OK {
		ok = 1
	}
	add := func(name string, v float64, have bool) {
		switch {
		case ok == 0:
			v = math.Inf(1)
		case !have:
			return
		}
		out = append(out, point{name, ms, micro(v)})
	}
	v, have := r.TTFT()
	add(seriesTTFT, v, have)
	v, have = r.TPOT()
	add(seriesTPOT, v, have)
	v, have = r.E2E()
	add(seriesLatency, v, have)
	out = append(out, point{seriesOK, ms, ok})
	if r.PromptTokens >= 0 {
		out = append(out, point{seriesPrompt, ms, float64(r.PromptTokens)})
	}
	if r.OutputTokens >= 0 {
		out = append(out, point{seriesCompletion, ms, float64(r.OutputTokens)})
	}
	return out
}

func micro(v float64) float64 {
	if math.IsInf(v, 0) {
		return v
	}
	return math.Round(v*1e6) / 1e6
}

func formatValue(b []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(b, "+Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
