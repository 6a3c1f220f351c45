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

// requestSeries are all of them.
var requestSeries = [...]string{seriesTTFT, seriesTPOT, seriesLatency, seriesPrompt, seriesCompletion, seriesOK}

// requestStamps gives every request a Unix millisecond of its own inside (t0, t1], and the requests in that order.
// loadStart is when the records' clock was 0. The error says when there are more requests than milliseconds.
func requestStamps(recs []record.Record, loadStart, t0, t1 time.Time) (order []int, stamp []int64, err error) {
	order, stamp = make([]int, len(recs)), make([]int64, len(recs))
	for i, r := range recs {
		order[i] = i
		end := max(r.End, 0) // Never for what was not even begun
		stamp[i] = loadStart.Add(time.Duration(end) * time.Microsecond).UnixMilli()
	}
	sort.SliceStable(order, func(a, b int) bool { return stamp[order[a]] < stamp[order[b]] })
	return order, stamp, spread(stamp, order, t0.UnixMilli(), t1.UnixMilli())
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

// eachValue calls add with what is stored of one request, rounded to microseconds: VictoriaMetrics keeps about 12 digits,
// and a bound is compared with the rounded value.
func eachValue(r *record.Record, add func(series string, v float64)) {
	ok := 0.0
	if r.Err == record.OK {
		ok = 1
	}
	timed := func(series string, v float64, have bool) {
		switch {
		case ok == 0:
			add(series, math.Inf(1))
		case have:
			add(series, micro(v))
		}
	}
	v, have := r.TTFT()
	timed(seriesTTFT, v, have)
	v, have = r.TPOT()
	timed(seriesTPOT, v, have)
	v, have = r.E2E()
	timed(seriesLatency, v, have)
	add(seriesOK, ok)
	if r.PromptTokens >= 0 {
		add(seriesPrompt, float64(r.PromptTokens))
	}
	if r.OutputTokens >= 0 {
		add(seriesCompletion, float64(r.OutputTokens))
	}
}

func micro(v float64) float64 { return math.Round(v*1e6) / 1e6 }

func formatValue(b []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(b, "+Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
