package result_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/spec"
)

// answer is a request scheduled and sent at begin (µs), whose n tokens come every 10 ms after 100 ms.
func answer(index int32, begin int64, n int32) record.Record {
	return record.Record{
		Index: index, Scheduled: begin, Sent: begin + 1000, FirstByte: begin + 90_000, FirstToken: begin + 100_000, FirstContent: begin + 100_000,
		LastToken: begin + 100_000 + int64(n-1)*10_000, End: begin + 101_000 + int64(n-1)*10_000,
		PromptTokens: 15, OutputTokens: n, CachedTokens: -1, Events: n, Status: 200, Finish: "length",
	}
}

func failed(index int32, end int64, class record.ErrClass, detail string) record.Record {
	return record.Record{Index: index, Scheduled: 0, Sent: 0, FirstByte: record.Never, FirstToken: record.Never, FirstContent: record.Never, LastToken: record.Never,
		End: end, PromptTokens: -1, OutputTokens: -1, CachedTokens: -1, Err: class, Detail: detail}
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-9*max(1, math.Abs(want)) {
		if got == nil {
			t.Errorf("%s is null, want %v", what, want)
			return
		}
		t.Errorf("%s = %v, want %v", what, *got, want)
	}
}

func TestSummarise(t *testing.T) {
	recs := []record.Record{answer(0, 0, 11), answer(1, 0, 21), answer(2, 500_000, 1), failed(3, 200_000, record.ErrTimeout, "second"), failed(4, 100_000, record.ErrStatus, "first")}
	recs[1].Coalesced = 1
	recs[1].CachedTokens = 8
	gaps := &result.Dist{N: 5}
	c := result.Summarise(recs, result.SummaryOptions{InterChunk: gaps, Exact: func(i int32) int { return map[int32]int{0: 11, 1: 20}[i] }})
	if c.Requests != 5 || c.Succeeded != 3 || c.Failed != 2 || c.NoUsage != 0 || c.WrongLength != 1 {
		t.Errorf("counts: %+v", c)
	}
	if !reflect.DeepEqual(c.Errors, map[string]int{"timeout": 1, "http_status": 1}) || c.ErrorDetail != "first" {
		t.Errorf("errors: %v, %q", c.Errors, c.ErrorDetail)
	}
	near(t, "wall", c.WallSeconds, 0.601)
	near(t, "req/s", c.RequestsPerS, 3/0.601)
	near(t, "tok/s", c.OutputPerS, 33/0.601)
	near(t, "in flight", c.MeanInFlight, (0.200+0.300+0.100+0.2+0.1)/0.601)
	near(t, "TTFT", &c.TTFT.P50, 0.1)
	near(t, "TTFT from sent", c.TTFTSent, 0.099)
	near(t, "TPOT", &c.TPOT.P50, 0.01)
	near(t, "E2E", &c.E2E.Max, 0.301)
	near(t, "coalesced", c.Coalesced, 1.0/33)
	if c.TPOT.N != 2 || c.TTFT.N != 3 || c.TTFT.P99 != nil || c.InterChunk != gaps || c.OutputLength.Max != 21 || c.PromptLength.Mean != 15 {
		t.Errorf("distributions: %+v %+v %+v", c.TTFT, c.TPOT, c.InterChunk)
	}
	if *c.PromptTokens != 45 || *c.OutputTokens != 33 || *c.CachedTokens != 8 {
		t.Errorf("tokens: %d %d %d", *c.PromptTokens, *c.OutputTokens, *c.CachedTokens)
	}
}

func TestSummariseAbsent(t *testing.T) {
	c := result.Summarise(nil, result.SummaryOptions{})
	if !reflect.DeepEqual(c, &result.Client{}) {
		t.Errorf("no requests: %+v", c)
	}
	c = result.Summarise([]record.Record{failed(0, 1000, record.ErrConnect, "")}, result.SummaryOptions{Seconds: 2})
	if c.RequestsPerS != nil || c.OutputPerS != nil || c.TTFT != nil || c.OutputTokens != nil || c.Coalesced != nil {
		t.Errorf("nothing succeeded: %+v", c)
	}
	near(t, "wall", c.WallSeconds, 2)
	noUsage := answer(0, 0, 5)
	noUsage.OutputTokens, noUsage.PromptTokens = -1, -1
	c = result.Summarise([]record.Record{noUsage, answer(1, 0, 5)}, result.SummaryOptions{})
	if c.NoUsage != 1 || c.OutputTokens != nil || c.PromptTokens != nil || c.OutputPerS != nil || c.RequestsPerS == nil || c.TPOT.N != 1 {
		t.Errorf("one without usage: %+v", c)
	}
	coalesced := answer(0, 0, 100)
	coalesced.Coalesced = 6
	if c = result.Summarise([]record.Record{coalesced}, result.SummaryOptions{InterChunk: &result.Dist{N: 1}}); c.InterChunk != nil {
		t.Errorf("6 %% coalesced and gaps shown: %+v", c.InterChunk)
	}
}

// TestP99From100 guards the rule that a p99 of fewer than 100 values, which is nearly the largest, is not shown.
func TestP99From100(t *testing.T) {
	recs := make([]record.Record, 100)
	for i := range recs {
		recs[i] = answer(int32(i), int64(i)*1000, 5)
	}
	if c := result.Summarise(recs, result.SummaryOptions{}); c.E2E.P99 == nil {
		t.Error("100 requests have no p99")
	}
	if c := result.Summarise(recs[:99], result.SummaryOptions{}); c.E2E.P99 != nil {
		t.Errorf("99 requests have the p99 %v", *c.E2E.P99)
	}
	if _, err := result.NewDist([]float64{1, math.NaN()}); err == nil {
		t.Error("a NaN is described")
	}
}

// TestSummariseOrder: the order in which records come does not matter.
func TestSummariseOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	recs := make([]record.Record, 200)
	for i := range recs {
		recs[i] = answer(int32(i), rng.Int64N(1e6), 1+rng.Int32N(50))
		if i%17 == 0 {
			recs[i] = failed(int32(i), rng.Int64N(1000), record.ErrTransport, "x")
		}
	}
	want := result.Summarise(recs, result.SummaryOptions{})
	for range 20 {
		rng.Shuffle(len(recs), func(i, j int) { recs[i], recs[j] = recs[j], recs[i] })
		if got := result.Summarise(recs, result.SummaryOptions{}); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\n%+v", got, want)
		}
	}
}

func trial(config string, concurrency, repeat int, reqs float64) result.Trial {
	c := &result.Client{Requests: 10, Succeeded: 10, RequestsPerS: &reqs, TTFT: &result.Dist{N: 10, P50: reqs / 10}}
	return result.Trial{ID: config + "-" + spec.Point{Concurrency: concurrency}.String() + "-" + string(rune('0'+repeat)), Config: config,
		Point: spec.Point{Concurrency: concurrency}, Repeat: repeat, Outcome: result.Measured, Client: c}
}

func TestCells(t *testing.T) {
	broken := trial("b", 16, 3, 0)
	broken.Outcome, broken.Client = result.Broken, nil
	noTTFT := trial("b", 16, 1, 7)
	noTTFT.Client.TTFT, noTTFT.Client.Failed = nil, 2
	cells := result.Cells([]result.Trial{trial("b", 64, 1, 1), trial("b", 16, 2, 5), noTTFT, broken, trial("a", 16, 1, 3), {ID: "a-c64-1", Config: "a", Point: spec.Point{Concurrency: 64}, Outcome: result.Missing}})
	var order []string
	for _, c := range cells {
		order = append(order, c.Config+" "+c.Point.String())
	}
	if want := []string{"b c16", "b c64", "a c16", "a c64"}; !reflect.DeepEqual(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	c := cells[0]
	if !reflect.DeepEqual(c.Trials, []string{"b-c16-1", "b-c16-2"}) || c.Planned != 3 {
		t.Errorf("trials %v of %d", c.Trials, c.Planned)
	}
	if c.RequestsPerS.Value != 6 || *c.RequestsPerS.Starts[0] != 7 || *c.RequestsPerS.Starts[1] != 5 {
		t.Errorf("req/s %+v", c.RequestsPerS)
	}
	if c.TTFTP50.Value != 0.5 || c.TTFTP50.Starts[0] != nil || *c.TTFTP50.Starts[1] != 0.5 {
		t.Errorf("TTFT %+v", c.TTFTP50)
	}
	if c.TPOTP50 != nil || c.E2EP99 != nil {
		t.Errorf("what no start has: %+v %+v", c.TPOTP50, c.E2EP99)
	}
	near(t, "error share", &c.ErrorShare.Value, 0.1)
	if empty := cells[3]; len(empty.Trials) != 0 || empty.Trials == nil || empty.Planned != 1 || empty.RequestsPerS != nil {
		t.Errorf("a cell without a measured trial: %+v", empty)
	}
	if got := result.Cells(nil); got != nil {
		t.Errorf("no trials: %v", got)
	}
}
