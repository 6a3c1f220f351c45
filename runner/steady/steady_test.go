package steady_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/sim/model"
	"h100-inference-control-plane/runner/steady"
)

// answer is a successful request: sent when due, its first token after ttft, its last at the end.
func answer(i int, at, ttft, e2e int64, tokens int32) record.Record {
	return record.Record{Index: int32(i), Scheduled: at, Sent: at, FirstByte: at + ttft, FirstToken: at + ttft, FirstContent: at + ttft,
		LastToken: at + e2e, End: at + e2e, PromptTokens: 10, OutputTokens: tokens, CachedTokens: -1, Events: tokens, Status: 200, Finish: "length"}
}

// loop is a closed loop in which request i takes the time that e2e says, whatever else runs.
func loop(n, places int, e2e func(i int) (ttft, all int64, tokens int32)) []record.Record {
	free := make([]int64, places)
	recs := make([]record.Record, 0, n)
	for i := range n {
		first := 0
		for p := range free {
			if free[p] < free[first] {
				first = p
			}
		}
		ttft, all, tokens := e2e(i)
		recs = append(recs, answer(i, free[first], ttft, all, tokens))
		free[first] += all
	}
	return recs
}

func near(t *testing.T, what string, got *float64, want, tolerance float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is null, want %v", what, want)
		return
	}
	if math.IsNaN(*got) || math.Abs(*got/want-1) > tolerance {
		t.Errorf("%s is %v, want %v within %v %%", what, *got, want, tolerance*100)
	}
}

// TestTwoWaves is the seed's load: 100 requests at 64, all of one length. The truth is 64 places ÷ the time of one.
func TestTwoWaves(t *testing.T) {
	recs := loop(100, 64, func(i int) (int64, int64, int32) { return 200_000, 8_000_000 + int64(i), 512 })
	s := steady.Of(recs, steady.Options{Concurrency: 64, Precision: 0.03})
	near(t, "tokens", s.OutputPerS, 64*512/8.0, 1e-4)
	near(t, "requests", s.RequestsPerS, 64/8.0, 1e-4)
	near(t, "in flight", s.InFlight, 64, 1e-9)
	if wall := 51200 / 16.0; *s.OutputPerS < 1.2*wall {
		t.Errorf("the wall clock's %v tok/s are not far from %v", wall, *s.OutputPerS)
	}
	if s.FullWaves != 1 || s.Tail != 36 {
		t.Errorf("%d full waves and %d", s.FullWaves, s.Tail)
	}
	want := "100 requests at 64 at once are two waves, 64 and 36: 28 of 64 places have no work in the last one; over the whole wall time it is 3200 tok/s, with every place busy 4100 tok/s"
	if s.Wave != want {
		t.Errorf("it is explained as\n%s\nwant\n%s", s.Wave, want)
	}
	if s.NeedRequests != 192 || s.Waves > 1.01 {
		t.Errorf("one wave of %v is long enough: %d requests would do", s.Waves, s.NeedRequests)
	}
	if s.TTFTDrift != nil || s.TPOTDrift != nil {
		t.Error("a single wave has a drift")
	}
	if *s.EdgeShare > 1e-4 {
		t.Errorf("%v of the tokens are uncertain", *s.EdgeShare)
	}
}

// TestKnownLoops: requests of random lengths on places that do not slow one another down. The truth is places ÷ mean
// time (renewal), and the wall clock is off by the time in which the places drain.
func TestKnownLoops(t *testing.T) {
	f := func(n, places int, tolerance, off float64) {
		t.Helper()
		rng := rand.New(rand.NewPCG(uint64(n), uint64(places)))
		var time, tokens float64
		recs := loop(n, places, func(int) (int64, int64, int32) {
			k := 100 + rng.IntN(900)
			return 50_000, 50_000 + int64(k-1)*10_000, int32(k)
		})
		for _, r := range recs {
			time += float64(r.End-r.Sent) / 1e6
			tokens += float64(r.OutputTokens)
		}
		truth := float64(places) / (time / float64(n))
		s := steady.Of(recs, steady.Options{Concurrency: places})
		near(t, "requests", s.RequestsPerS, truth, 3*tolerance) // a request of any length counts as one, cut ones by time
		near(t, "tokens", s.OutputPerS, truth*tokens/float64(n), tolerance)
		c := result.Summarise(recs, result.SummaryOptions{})
		if wrong := 1 - *c.OutputPerS/(truth*tokens/float64(n)); wrong < off {
			t.Errorf("%d at %d: the wall clock is off by %v %% only", n, places, wrong*100)
		}
		if s.Wave == "" {
			t.Errorf("%d at %d: nothing explains the wall clock", n, places)
		}
	}
	f(200, 64, 0.02, 0.10)
	f(250, 64, 0.02, 0.10)
	f(128, 16, 0.02, 0.03)
	f(600, 128, 0.02, 0.05)
}

// TestModel: the simulated engine in virtual time, exact. The truth comes from a far longer run of the same engine.
func TestModel(t *testing.T) {
	for _, c := range []struct{ n, places, tokens int }{{100, 64, 256}, {80, 48, 128}, {40, 32, 64}} {
		long := simulate(t, c.places*12, c.places, c.tokens)
		truth := 0.0
		for _, r := range long {
			truth += float64(r.OutputTokens)
		}
		truth /= float64(long[len(long)-1].End) / 1e6
		recs := simulate(t, c.n, c.places, c.tokens)
		s := steady.Of(recs, steady.Options{Concurrency: c.places})
		near(t, "tokens", s.OutputPerS, truth, 0.02)
		near(t, "requests", s.RequestsPerS, truth/float64(c.tokens), 0.02)
		near(t, "in flight", s.InFlight, float64(c.places), 0.01)
		wall := *result.Summarise(recs, result.SummaryOptions{}).OutputPerS
		if wall > 0.9*truth {
			t.Errorf("%d at %d: the wall clock says %v tok/s, which is not far from the truth of %v", c.n, c.places, wall, truth)
		}
		t.Logf("%d requests at %d: truth %.0f tok/s, steady %.0f, wall clock %.0f", c.n, c.places, truth, *s.OutputPerS, wall)
	}
}

func simulate(t *testing.T, n, places, tokens int) []record.Record {
	t.Helper()
	p, err := model.LoadProfile("h200-qwen3.6-35b-a3b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	e, err := model.New(model.Config{Profile: p, ChunkedPrefill: true, MaxModelLen: 4096, Exact: true, Warm: true})
	if err != nil {
		t.Fatal(err)
	}
	reqs := make([]model.Request, n)
	for i := range reqs {
		prompt := make([]int32, 19)
		for k := range prompt {
			prompt[k] = int32(7*i + 11*k + 5)
		}
		reqs[i] = model.Request{Tokens: prompt, MaxTokens: tokens, IgnoreEOS: true}
	}
	seqs, err := model.ClosedLoop(e, places, reqs)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]record.Record, n)
	for i, s := range seqs {
		at := s.Arrival.Microseconds()
		out[i] = answer(i, at, (s.First - s.Arrival).Microseconds(), (s.Last - s.Arrival).Microseconds(), int32(s.Emitted))
	}
	return out
}

// TestTimeline: what is put evenly between stamps counts as the events themselves would. The timeline here is what
// the load generator keeps: events per 10 ms.
func TestTimeline(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const bin = 10_000
	timeline := map[int64]float64{}
	recs := loop(300, 32, func(i int) (int64, int64, int32) {
		n := 50 + rng.IntN(300)
		return 40_000, 40_000 + int64(n-1)*12_000, int32(n)
	})
	for _, r := range recs {
		for k := range int64(r.OutputTokens) { // at uneven moments between its stamps, the first and the last at them
			at := r.FirstToken + k*12_000
			if k > 0 && k < int64(r.OutputTokens)-1 {
				at += rng.Int64N(9_000) - 4_500
			}
			timeline[at/bin]++
		}
	}
	s := steady.Of(recs, steady.Options{Concurrency: 32})
	events := 0.0
	for b, n := range timeline {
		if at := (float64(b) + 0.5) * bin / 1e6; at > s.From && at <= s.To {
			events += n
		}
	}
	near(t, "tokens", s.OutputPerS, events/s.Seconds, 0.005)
}

// TestEdges: what is not a steady window, and what is counted at its edges.
func TestEdges(t *testing.T) {
	even := func(i int) (int64, int64, int32) { return 100_000, 1_000_000, 10 }
	for name, s := range map[string]*result.Steady{
		"no requests": steady.Of(nil, steady.Options{Concurrency: 4}),
		"open loop":   steady.Of(loop(8, 4, even), steady.Options{}),
		"no time":     steady.Of([]record.Record{answer(0, 5, 0, 0, 1)}, steady.Options{Concurrency: 1}),
	} {
		if s != nil {
			t.Errorf("%s has the steady window %+v", name, s)
		}
	}
	if s := steady.Of(loop(3, 3, even), steady.Options{Concurrency: 16}); s == nil || s.Seconds != 1 || *s.InFlight != 3 {
		t.Errorf("fewer requests than places: %+v", s)
	}
	// Every other answer failed half-way: its tokens were made, it is no request.
	recs := loop(40, 4, even)
	for i := range recs {
		if i%2 == 1 {
			recs[i].Err, recs[i].OutputTokens, recs[i].Events = record.ErrNoDone, -1, 5
		}
	}
	s := steady.Of(recs, steady.Options{Concurrency: 4})
	near(t, "requests of which half fail", s.RequestsPerS, 2, 1e-9)
	near(t, "tokens of which a quarter is missing", s.OutputPerS, 30, 1e-9)
	// Without usage tokens are not known, requests are.
	recs[0].OutputTokens = -1
	if s := steady.Of(recs, steady.Options{Concurrency: 4}); s.OutputPerS != nil || s.RequestsPerS == nil {
		t.Errorf("without usage: %v tok/s, %v req/s", s.OutputPerS, s.RequestsPerS)
	}
	// All failed before a token: places were busy, nothing was done.
	for i := range recs {
		recs[i].Err, recs[i].FirstToken, recs[i].LastToken, recs[i].OutputTokens = record.ErrStatus, record.Never, record.Never, -1
	}
	if s := steady.Of(recs, steady.Options{Concurrency: 4}); s.RequestsPerS != nil || s.OutputPerS != nil || s.Precision != nil {
		t.Errorf("nothing succeeded: %+v", s)
	}
	recs[3].Sent = record.Never
	if s := steady.Of(recs, steady.Options{Concurrency: 4}); s == nil || math.IsNaN(*s.InFlight) {
		t.Errorf("a request that was never sent: %+v", s)
	}
}

func TestDrift(t *testing.T) {
	f := func(name string, slow func(i int) float64, ttft, tpot float64) {
		t.Helper()
		rng := rand.New(rand.NewPCG(3, 4))
		recs := loop(200, 8, func(i int) (int64, int64, int32) {
			k := slow(i) * (1 + 0.02*rng.NormFloat64())
			return int64(100_000 * k), int64(100_000*k + 99*10_000*k), 100
		})
		s := steady.Of(recs, steady.Options{Concurrency: 8})
		for what, d := range map[string]struct {
			got  *result.Drift
			want float64
		}{"TTFT": {s.TTFTDrift, ttft}, "TPOT": {s.TPOTDrift, tpot}} {
			if d.got == nil || math.Abs(d.got.Change-d.want) > 0.03 {
				t.Errorf("%s: the drift of %s is %+v, want %v", name, what, d.got, d.want)
			} else if d.got.Noise <= 0 || d.got.Noise > 0.05 {
				t.Errorf("%s: the noise of %s is %v", name, what, d.got.Noise)
			}
		}
	}
	f("none", func(int) float64 { return 1 }, 0, 0)
	f("the burst at the beginning is none", func(i int) float64 { return map[bool]float64{true: 5, false: 1}[i < 8] }, 0, 0)
	f("half-way it halves its speed", func(i int) float64 { return map[bool]float64{true: 2, false: 1}[i >= 104] }, 1, 1)
	if d := steady.Drift(loop(15, 1, func(int) (int64, int64, int32) { return 1, 10, 5 }), 0, 1, record.Record.TTFT); d != nil {
		t.Errorf("15 requests have the drift %+v", d)
	}
}

// TestNeed: as many requests as it names are enough, for the loads of TestKnownLoops.
func TestNeed(t *testing.T) {
	for _, c := range []struct {
		n, places int
		precision float64
	}{{40, 16, 0.03}, {100, 64, 0.03}, {70, 64, 0.01}, {20, 4, 0.05}} {
		make := func(n int) *result.Steady {
			rng := rand.New(rand.NewPCG(9, uint64(c.places)))
			return steady.Of(loop(n, c.places, func(int) (int64, int64, int32) {
				k := int64(200 + rng.IntN(200))
				return 30_000, 30_000 + k*10_000, int32(k)
			}), steady.Options{Concurrency: c.places, Precision: c.precision})
		}
		short := make(c.n)
		if short.NeedRequests <= c.n {
			t.Errorf("%d at %d for %v: %d would do", c.n, c.places, c.precision, short.NeedRequests)
			continue
		}
		if long := make(short.NeedRequests); long.NeedRequests > short.NeedRequests*5/4 {
			t.Errorf("%d at %d for %v: %d were said to do, and are not enough: %+v", c.n, c.places, c.precision, short.NeedRequests, long)
		}
	}
}

func TestWaveWords(t *testing.T) {
	f := func(n, places int, want string) {
		t.Helper()
		recs := loop(n, places, func(i int) (int64, int64, int32) { return 1000, int64(time.Second / time.Microsecond), 100 })
		s := steady.Of(recs, steady.Options{Concurrency: places})
		if want == "" && s.Wave != "" || !strings.Contains(s.Wave, want) {
			t.Errorf("%d at %d: %q, want %q in it", n, places, s.Wave, want)
		}
	}
	f(100, 64, "are two waves, 64 and 36: 28 of 64")
	f(130, 64, "are three waves, 64, 64 and 2: 62 of 64")
	f(200, 64, "are 3 waves of 64 and a last one of 8: 56 of 64")
	f(128, 64, "")
	f(1927, 64, "")
}
