package model

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"
)

// exact is an engine without noise and without compilation.
func exact(t testing.TB, profile string, change func(*Config)) *Engine {
	t.Helper()
	p, err := LoadProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Profile: p, ChunkedPrefill: true, MaxModelLen: 8192, Exact: true, Warm: true}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// prompt returns n tokens that no other seed shares.
func prompt(seed, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(mix(uint64(seed)<<32|uint64(i)) % 30000)
	}
	return out
}

func prompts(n, tokens, out int) []Request {
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i] = Request{Tokens: prompt(i, tokens), MaxTokens: out, IgnoreEOS: true}
	}
	return reqs
}

func closed(t testing.TB, e *Engine, c int, reqs []Request) []*Seq {
	t.Helper()
	out, err := ClosedLoop(e, c, reqs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got/want-1) > tolerance {
		t.Errorf("%s: got %.6g, want %.6g within %.3g %%", what, got, want, tolerance*100)
	}
}

func mean(seqs []*Seq, f func(*Seq) time.Duration) float64 {
	var sum time.Duration
	for _, s := range seqs {
		sum += f(s)
	}
	return sum.Seconds() / float64(len(seqs))
}

const h200 = "h200-qwen3.6-35b-a3b-fp8"

// TestFit compares the H200 profile with what was measured on the machine it is fitted to.
func TestFit(t *testing.T) {
	decode := []struct {
		n        int
		measured float64
	}{{1, .0043}, {2, .0050}, {4, .0059}, {8, .0067}, {16, .0087}, {32, .0111}, {64, .0143}, {128, .0183}, {256, .0295}}
	for _, c := range decode {
		// Short prompts, so that one step takes the whole wave in.
		got := mean(closed(t, exact(t, h200, nil), c.n, prompts(c.n, 19, 64)), (*Seq).TPOT)
		t.Logf("graphs, %3d at once: TPOT %6.2f ms, measured %6.2f", c.n, got*1e3, c.measured*1e3)
		near(t, "TPOT", got, c.measured, .02)
	}
	eager := []struct {
		n        int
		measured float64
	}{{1, .114}, {16, .128}, {16, .1117}, {16, .1061}, {64, .129}, {64, .1224}, {64, .1177}}
	for _, c := range eager {
		e := exact(t, h200, func(c *Config) { c.Eager = true })
		got := mean(closed(t, e, c.n, prompts(c.n, 19, 64)), (*Seq).TPOT)
		t.Logf("eager,  %3d at once: TPOT %6.2f ms, measured %6.2f", c.n, got*1e3, c.measured*1e3)
		near(t, "eager TPOT", got, c.measured, .14)
	}
	alone := []struct {
		tokens   int
		measured float64
	}{{19, .073}, {131, .083}, {515, .122}, {1027, .172}, {2051, .336}, {4099, .341}}
	for _, c := range alone {
		got := mean(closed(t, exact(t, h200, nil), 1, prompts(1, c.tokens, 1)), (*Seq).TTFT)
		t.Logf("%4d tokens alone: TTFT %5.0f ms, measured %5.0f", c.tokens, got*1e3, c.measured*1e3)
		near(t, "TTFT alone", got, c.measured, .02)
	}
}

// TestFitWorkloads compares whole workloads, where the profile is only as good as its notes say.
func TestFitWorkloads(t *testing.T) {
	rate := func(seqs []*Seq) float64 { return float64(len(seqs)) / last(seqs).Seconds() }
	same := make([]Request, 100)
	for i := range same {
		same[i] = Request{Tokens: prompt(1, 15), MaxTokens: 512, IgnoreEOS: true}
	}
	graphs := exact(t, h200, func(c *Config) { c.PrefixCaching = true; c.Utilization = .9 })
	near(t, "100 identical requests at 64, graphs: requests/s", rate(closed(t, graphs, 64, same)), 7.09, .08)
	if hits := graphs.Counters().PrefixHits; hits != 0 {
		t.Errorf("15-token prompts hit %d tokens of a cache with 1056-token blocks", hits)
	}
	eager := exact(t, h200, func(c *Config) { c.Eager = true; c.ChunkedPrefill = false; c.Utilization = .85 })
	near(t, "the same, eager: requests/s", rate(closed(t, eager, 64, same)), .788, .05)
	for _, c := range []struct {
		n         int
		want, tol float64
	}{{16, 1560, .12}, {64, 3456, .20}} {
		got := 128 * rate(closed(t, exact(t, h200, nil), c.n, prompts(4*c.n, 326, 128)))
		t.Logf("326 in, 128 out, %d at once: %.0f tok/s, measured %.0f", c.n, got, c.want)
		near(t, "tokens/s", got, c.want, c.tol)
	}
	shared := prompts(64, 6911, 32)
	for i := range shared {
		copy(shared[i].Tokens, prompt(1<<20, 6880))
	}
	e := exact(t, h200, func(c *Config) { c.PrefixCaching = true; c.Utilization = .9 })
	seqs := closed(t, e, 16, shared)
	if got := e.Counters(); got.PrefixQueries != 442304 || got.PrefixHits < 380000 {
		t.Errorf("shared prefix: %d of %d tokens hit, measured 399168 of 442320", got.PrefixHits, got.PrefixQueries)
	}
	t.Logf("shared prefix: %.1f req/s, measured 17.0", rate(seqs))
}

func last(seqs []*Seq) (end time.Duration) {
	for _, s := range seqs {
		end = max(end, s.Last)
	}
	return end
}

// TestCapacity repeats what the logs of real servers say about their cache.
func TestCapacity(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		gib    float64
		blocks int
		conc   float64
		tokens int
	}{
		{"optimized", func(c *Config) { c.Utilization, c.PrefixCaching = .90, true }, 87.44, 4341, 310.07, 2540105},
		{"eager with prefix cache", func(c *Config) { c.Utilization, c.PrefixCaching, c.Eager = .85, true, true }, 81.21, 4032, 288.00, 2359296},
		{"graphs only", func(c *Config) { c.Utilization = .85 }, 80.45, 3994, 363.09, 2974440},
	} {
		got := exact(t, h200, c.change).Capacity()
		near(t, c.name+": GiB", float64(got.Bytes)/gib, c.gib, .001)
		near(t, c.name+": blocks", float64(got.Blocks), float64(c.blocks), .001)
		near(t, c.name+": concurrency", got.MaxConcurrency, c.conc, .001)
		near(t, c.name+": tokens", float64(got.Tokens), float64(c.tokens), .001)
	}
}

// TestTPOTIsTheTable pins the truth that statistics are tested against.
func TestTPOTIsTheTable(t *testing.T) {
	for _, n := range []int{1, 3, 8, 40, 64} {
		e := exact(t, "laptop", nil)
		for _, s := range closed(t, e, n, prompts(n, 16, 50)) {
			if want := seconds(e.prof.Step.Decode.At(float64(n))); s.TPOT() != want {
				t.Fatalf("%d at once: TPOT %v, want %v", n, s.TPOT(), want)
			}
			if want := seconds(e.prof.Step.Frontend) + seconds(e.StepTime(0, 16*n)); s.TTFT() != want {
				t.Fatalf("%d at once: TTFT %v, want %v", n, s.TTFT(), want)
			}
		}
	}
}

func TestPrefixHitsWholeBlocks(t *testing.T) {
	for _, c := range []struct {
		name                  string
		profile               string
		first, second, shared int
		want                  int
	}{
		{"15 tokens, block 1056", h200, 15, 15, 15, 0},
		{"one block and one token", h200, 1057, 1057, 1057, 1056},
		{"exactly one block: the last token is always computed", h200, 1056, 1056, 1056, 0},
		{"exactly two blocks", h200, 2112, 2112, 2112, 1056},
		{"longer second prompt", "laptop", 100, 200, 100, 96},
		{"common part ends inside a block", "laptop", 100, 100, 47, 32},
		{"nothing in common", "laptop", 100, 100, 0, 0},
	} {
		e := exact(t, c.profile, func(c *Config) { c.PrefixCaching = true })
		a, b := prompt(1, c.first), prompt(2, c.second)
		copy(b, a[:c.shared])
		closed(t, e, 1, []Request{{Tokens: a, MaxTokens: 2}})
		before := e.Counters()
		s := closed(t, e, 1, []Request{{Tokens: b, MaxTokens: 2}})[0]
		after := e.Counters()
		if hits := int(after.PrefixHits - before.PrefixHits); hits != c.want || s.Cached != c.want {
			t.Errorf("%s: hits %d, cached %d, want %d", c.name, hits, s.Cached, c.want)
		}
		if q := int(after.PrefixQueries - before.PrefixQueries); q != c.second {
			t.Errorf("%s: queried %d tokens, want %d", c.name, q, c.second)
		}
		if computed := int(after.ComputedPrompt - before.ComputedPrompt); computed != c.second-c.want {
			t.Errorf("%s: computed %d prompt tokens, want %d", c.name, computed, c.second-c.want)
		}
	}
}

func TestPrefixCacheOffSaltReset(t *testing.T) {
	p := prompt(1, 100)
	off := exact(t, "laptop", nil)
	closed(t, off, 1, []Request{{Tokens: p, MaxTokens: 1}, {Tokens: p, MaxTokens: 1}})
	if c := off.Counters(); c.PrefixQueries != 0 || c.PrefixHits != 0 {
		t.Errorf("prefix caching off counts %d queries, %d hits", c.PrefixQueries, c.PrefixHits)
	}
	on := exact(t, "laptop", func(c *Config) { c.PrefixCaching = true })
	salted := closed(t, on, 1, []Request{{Tokens: p, MaxTokens: 1}, {Tokens: p, MaxTokens: 1, Salt: 7}, {Tokens: p, MaxTokens: 1, Salt: 7}})
	if got := []int{salted[0].Cached, salted[1].Cached, salted[2].Cached}; !reflect.DeepEqual(got, []int{0, 0, 96}) {
		t.Errorf("cached with salts 0, 7, 7: %v", got)
	}
	if !on.ResetPrefixCache() {
		t.Fatal("reset of an idle engine failed")
	}
	if s := closed(t, on, 1, []Request{{Tokens: p, MaxTokens: 1}}); s[0].Cached != 0 {
		t.Errorf("%d tokens cached after a reset", s[0].Cached)
	}
	if _, err := on.Submit(on.Now(), Request{Tokens: p, MaxTokens: 5}); err != nil {
		t.Fatal(err)
	}
	on.Step()
	if on.ResetPrefixCache() {
		t.Error("reset while a request holds blocks succeeded")
	}
}

func TestLRUEviction(t *testing.T) {
	e := exact(t, "laptop", func(c *Config) { c.PrefixCaching, c.Blocks, c.MaxModelLen = true, 10, 64 })
	a, b, c := prompt(1, 49), prompt(2, 49), prompt(3, 49) // three full blocks and one more each
	run := func(tokens []int32) int {
		return closed(t, e, 1, []Request{{Tokens: tokens, MaxTokens: 1}})[0].Cached
	}
	run(a)
	run(b)
	if got := run(a); got != 48 {
		t.Fatalf("a: %d tokens cached, want 48: ten blocks hold both", got)
	}
	run(c) // takes the unused blocks, then the oldest ones: those of b, its tail first
	if got := run(a); got != 48 {
		t.Errorf("a, used last: %d tokens cached, want 48", got)
	}
	if got := run(b); got != 16 {
		t.Errorf("b, used longest ago: %d tokens cached, want 16: the end of a prompt goes before its beginning", got)
	}
}

func TestChunkedPrefill(t *testing.T) {
	long, short := prompt(1, 2000), prompt(2, 16)
	gap := func(chunked bool) (worst time.Duration, steps int64) {
		e := exact(t, "laptop", func(c *Config) {
			c.ChunkedPrefill, c.BatchedTokens, c.MaxModelLen = chunked, 256, 4096
			if !chunked {
				c.BatchedTokens = 4096
			}
		})
		s, err := e.Submit(0, Request{Tokens: short, MaxTokens: 60})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			e.Step()
		}
		before := e.Counters().Steps
		l, err := e.Submit(e.Now(), Request{Tokens: long, MaxTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		for l.Emitted == 0 {
			st, ok := e.Step()
			if !ok {
				t.Fatal("the engine went idle before the long prompt was answered")
			}
			for _, tok := range st.Tokens {
				if tok.Seq == s {
					worst = max(worst, tok.Gap)
				}
			}
		}
		return worst, e.Counters().Steps - before
	}
	onGap, onSteps := gap(true)
	offGap, offSteps := gap(false)
	if onSteps != 9 { // one decode step until the request is through the front end, then 2000 tokens at 255 a step
		t.Errorf("2000 tokens at 255 a step took %d steps, want 9", onSteps)
	}
	if offSteps != 2 {
		t.Errorf("without chunks the prompt took %d steps, want 2", offSteps)
	}
	if onGap*3 > offGap {
		t.Errorf("the running request waited %v with chunks and %v without", onGap, offGap)
	}
}

func TestPreemption(t *testing.T) {
	e := exact(t, "laptop", func(c *Config) { c.Blocks, c.MaxModelLen = 40, 512 })
	reqs := prompts(8, 64, 100) // 4 blocks each at the start, 11 at the end; 40 blocks
	seqs := closed(t, e, 8, reqs)
	c := e.Counters()
	if c.Preemptions == 0 {
		t.Fatal("no preemption although the requests cannot all fit")
	}
	for _, s := range seqs {
		if s.Emitted != 100 || s.Finish != Length {
			t.Errorf("request %d: %d tokens, %q", s.ID, s.Emitted, s.Finish)
		}
	}
	if e.KVUsage() != 0 {
		t.Errorf("%.3f of the cache is in use after the end", e.KVUsage())
	}
	if c.Generated != 800 || c.PromptTokens != 512 {
		t.Errorf("counted %d generated and %d prompt tokens, want 800 and 512", c.Generated, c.PromptTokens)
	}
}

// TestConservation counts every token on both sides, under every limit at once.
func TestConservation(t *testing.T) {
	p, err := LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Profile: p, PrefixCaching: true, ChunkedPrefill: true, BatchedTokens: 64, Seqs: 5, Blocks: 60, MaxModelLen: 512, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]int{}
	var promptTokens int64
	for i := range 60 {
		r := Request{Tokens: prompt(i%7, 10+i*5), MaxTokens: 1 + i%40}
		s, err := e.Submit(time.Duration(i)*20*time.Millisecond, r)
		if err != nil {
			t.Fatal(err)
		}
		want[s.ID] = r.MaxTokens
		promptTokens += int64(len(r.Tokens))
	}
	got := map[int]int{}
	var generated int64
	var prev time.Duration
	for {
		st, ok := e.Step()
		if !ok {
			break
		}
		if st.Start < prev || st.End <= st.Start {
			t.Fatalf("step from %v to %v after one that ended at %v", st.Start, st.End, prev)
		}
		prev = st.End
		if st.Decode+st.Prefill > 64 {
			t.Fatalf("a step of %d tokens, the limit is 64", st.Decode+st.Prefill)
		}
		if e.Running() > 5 {
			t.Fatalf("%d running, the limit is 5", e.Running())
		}
		for _, tok := range st.Tokens {
			got[tok.Seq.ID]++
			if tok.N != got[tok.Seq.ID] {
				t.Fatalf("request %d: token %d is called %d", tok.Seq.ID, got[tok.Seq.ID], tok.N)
			}
			generated++
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tokens by request: got %v, want %v", got, want)
	}
	c := e.Counters()
	if c.Generated != generated || c.PromptTokens != promptTokens || c.Finished != 60 || e.KVUsage() != 0 {
		t.Errorf("counters %+v, want %d generated, %d prompt tokens; cache use %v", c, generated, promptTokens, e.KVUsage())
	}
}

func TestCompileOnce(t *testing.T) {
	p, err := LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Profile: p, ChunkedPrefill: true, Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range []int{100, 100, 500, 500, 90} {
		if _, err := e.Submit(e.Now(), Request{Tokens: prompt(n, n), MaxTokens: 2}); err != nil {
			t.Fatal(err)
		}
		for {
			st, ok := e.Step()
			if !ok {
				break
			}
			for _, c := range st.Compiled {
				got = append(got, c.Kernels...)
				if st.End-st.Start < c.Cost {
					t.Errorf("a step of %v contains a compilation of %v", st.End-st.Start, c.Cost)
				}
			}
		}
	}
	if want := []string{"_simulated_sampler_kernel", "_simulated_prefill_512_kernel"}; !reflect.DeepEqual(got, want) {
		t.Errorf("compiled %v, want %v", got, want)
	}
}

func TestNoise(t *testing.T) {
	p, err := LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	tpot := func(seed uint64) float64 {
		e, err := New(Config{Profile: p, ChunkedPrefill: true, Warm: true, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return mean(closed(t, e, 4, prompts(8, 16, 200)), (*Seq).TPOT)
	}
	if a, b := tpot(1), tpot(1); a != b {
		t.Errorf("the same seed gave %v and %v", a, b)
	}
	var sum, sq float64
	const n = 400
	for seed := range uint64(n) {
		x := math.Log(tpot(seed + 10))
		sum += x
		sq += x * x
	}
	m := sum / n
	sd := math.Sqrt(sq/n - m*m)
	near(t, "median TPOT over starts", math.Exp(m), .0036, .01)
	near(t, "spread over starts", sd, p.Noise.Start, .15)
}

func TestEarlyEnds(t *testing.T) {
	p, err := LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	p.EOSMeanTokens = 20
	e, err := New(Config{Profile: p, ChunkedPrefill: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	reqs := prompts(2000, 8, 1000)
	for i := range reqs {
		reqs[i].IgnoreEOS = i%2 == 1
		reqs[i].MinTokens = 3
		if i%2 == 1 {
			reqs[i].MaxTokens = 5
		}
	}
	var sum, n float64
	for i, s := range closed(t, e, 100, reqs) {
		if i%2 == 1 {
			if s.Emitted != 5 || s.Finish != Length {
				t.Fatalf("ignore_eos gave %d tokens, %q", s.Emitted, s.Finish)
			}
			continue
		}
		if s.Finish != Stop || s.Emitted < 3 {
			t.Fatalf("%d tokens, %q", s.Emitted, s.Finish)
		}
		sum, n = sum+float64(s.Emitted), n+1
	}
	near(t, "mean length", sum/n, 20, .1)
}

func TestAbort(t *testing.T) {
	e := exact(t, "laptop", func(c *Config) { c.Seqs = 1 })
	var seqs []*Seq
	for i := range 3 {
		s, err := e.Submit(time.Duration(i), Request{Tokens: prompt(i, 20), MaxTokens: 5})
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, s)
	}
	e.Step()
	e.Abort(seqs[0]) // running
	e.Abort(seqs[1]) // waiting or arriving
	for {
		if _, ok := e.Step(); !ok {
			break
		}
	}
	if seqs[0].Finish != Aborted || seqs[1].Finish != Aborted || seqs[2].Finish != Length || e.KVUsage() != 0 {
		t.Errorf("%q %q %q, cache use %v", seqs[0].Finish, seqs[1].Finish, seqs[2].Finish, e.KVUsage())
	}
	e.Abort(seqs[2])
	if seqs[2].Finish != Length {
		t.Error("aborting a finished request changed it")
	}
}

func TestSlowStallOpenLoop(t *testing.T) {
	e := exact(t, "laptop", nil)
	e.Slow(2)
	at := []time.Duration{0, time.Second, 2 * time.Second}
	seqs, err := OpenLoop(e, at, prompts(3, 16, 11))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range seqs {
		if s.Arrival != at[i] || s.TPOT() != 2*seconds(.003) {
			t.Errorf("request %d: arrival %v, TPOT %v", i, s.Arrival, s.TPOT())
		}
	}
	e.Slow(1)
	e.Stall("k", time.Second)
	if s := closed(t, e, 1, prompts(1, 16, 1))[0]; s.TTFT() != time.Second+seconds(.007) {
		t.Errorf("TTFT with a stall of 1 s: %v", s.TTFT())
	}
}

func TestNewFailure(t *testing.T) {
	p, err := LoadProfile("laptop")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want error
	}{
		{"no memory at all", Config{Profile: p, ChunkedPrefill: true, Utilization: .2}, ErrNoMemory},
		{"not enough for one request", Config{Profile: p, ChunkedPrefill: true, Blocks: 10}, ErrNoMemory},
		{"batch below length", Config{Profile: p, BatchedTokens: 100}, ErrBatch},
		{"utilization", Config{Profile: p, ChunkedPrefill: true, Utilization: 2}, nil},
		{"no profile", Config{}, nil},
	} {
		_, err := New(c.cfg)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSubmitFailure(t *testing.T) {
	e := exact(t, "laptop", func(c *Config) { c.MaxModelLen = 100 })
	for _, c := range []struct {
		name string
		req  Request
		want error
	}{
		{"too long", Request{Tokens: prompt(1, 90), MaxTokens: 11}, ErrTooLong},
		{"empty", Request{MaxTokens: 1}, nil},
		{"no tokens asked for", Request{Tokens: prompt(1, 5)}, nil},
	} {
		if _, err := e.Submit(0, c.req); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestProfiles(t *testing.T) {
	names := Profiles()
	if !reflect.DeepEqual(names, []string{h200, "laptop"}) {
		t.Errorf("profiles %v", names)
	}
	if p, err := LoadProfile(""); err != nil || p.Name != DefaultProfile {
		t.Errorf("default profile: %v, %v", p, err)
	}
	if _, err := LoadProfile("nope"); err == nil {
		t.Error("an unknown profile was loaded")
	}
	p, err := LoadProfile(h200)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "warm start", p.Start.Graphs.Total(), 85, .01)
	near(t, "cold start", p.Start.Cold.Total(), 285, .01)
	near(t, "eager start", p.Start.Eager.Total(), 57, .01)
	near(t, "cold init", p.Start.Cold.Init(), 213.28, .01)
}

func TestTokenize(t *testing.T) {
	p, err := LoadProfile(h200)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.ChatTokens([]Message{{"user", "Explain GPUs simply"}}); len(got) != 15 {
		t.Errorf("%d tokens, the real template gives 15", len(got))
	}
	a, b := p.Tokenize(" one two\n\tone"), p.Tokenize("one two one ")
	if len(a) != 3 || a[0] != a[2] || a[0] == a[1] || !reflect.DeepEqual(a, b) {
		t.Errorf("tokens %v and %v", a, b)
	}
	if got := p.Tokenize("   "); len(got) != 0 {
		t.Errorf("white space is %v", got)
	}
}

func FuzzParseProfile(f *testing.F) {
	for _, n := range Profiles() {
		raw, err := profileFiles.ReadFile("profiles/" + n + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"name":"x","sources":["y"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseProfile(raw)
		if err != nil {
			return
		}
		if v := p.Step.Decode.At(3); !(v > 0) {
			t.Errorf("a checked profile has a step of %v s", v)
		}
	})
}

func BenchmarkTrial(b *testing.B) {
	p, err := LoadProfile("laptop")
	if err != nil {
		b.Fatal(err)
	}
	reqs := prompts(100, 64, 64)
	b.ReportAllocs()
	for i := range b.N {
		e, err := New(Config{Profile: p, ChunkedPrefill: true, Warm: true, Seed: uint64(i)})
		if err != nil {
			b.Fatal(err)
		}
		closed(b, e, 16, reqs)
	}
}
