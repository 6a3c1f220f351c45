package model

import (
	"slices"
	"time"
)

// Step runs one step: it picks work, moves the clock to the step's end and gives out one token to each request whose
// known tokens are all computed. An idle engine first moves its clock to the next request. ok is false when there is
// nothing to do.
func (e *Engine) Step() (st *Step, ok bool) {
	if !e.Busy() {
		return nil, false
	}
	e.admitArrivals()
	if len(e.running)+len(e.waiting) == 0 {
		e.now = e.arriving[0].Queued
		e.admitArrivals()
	}
	e.step = Step{Start: e.now, Tokens: e.step.Tokens[:0], Compiled: e.step.Compiled[:0]}
	st = &e.step
	budget := e.cfg.BatchedTokens
	budget = e.planRunning(budget)
	if st.Preempted == 0 {
		e.planWaiting(budget)
	}
	e.now += e.cost(st)
	st.End = e.now
	e.commit(st)
	e.count.Steps++
	return st, true
}

func (e *Engine) admitArrivals() {
	n := 0
	for n < len(e.arriving) && e.arriving[n].Queued <= e.now {
		n++
	}
	e.waiting = append(e.waiting, e.arriving[:n]...)
	e.arriving = slices.Delete(e.arriving, 0, n)
}

// planRunning gives work to the requests that run already, oldest first. When memory runs out the youngest is
// preempted: its cache is dropped and it starts again at the front of the queue.
func (e *Engine) planRunning(budget int) int {
	for i := 0; i < len(e.running); i++ {
		s := e.running[i]
		s.planned = 0
		n := min(len(s.Tokens)+s.Emitted-s.computed, budget)
		if n == 0 {
			continue
		}
		for !e.grow(s, s.computed+n) {
			last := e.running[len(e.running)-1]
			budget += e.preempt(last)
			if last == s {
				return budget
			}
		}
		budget -= e.plan(s, n)
	}
	return budget
}

// preempt drops the last running request and returns the tokens that were planned for it.
func (e *Engine) preempt(s *Seq) (planned int) {
	e.running = e.running[:len(e.running)-1]
	planned = s.planned
	e.unplan(s)
	e.freeBlocks(s)
	s.computed, s.resumed = 0, true
	s.Preemptions++
	e.count.Preemptions++
	e.step.Preempted++
	e.waiting = slices.Insert(e.waiting, 0, s)
	return planned
}

// grow gives s the blocks for that many tokens; false when there are not enough.
func (e *Engine) grow(s *Seq, tokens int) bool {
	need := e.blocksFor(tokens) - len(s.blocks)
	if need > e.pool.free {
		return false
	}
	for ; need > 0; need-- {
		s.blocks = append(s.blocks, e.pool.take())
	}
	return true
}

// planWaiting starts requests from the queue in order while tokens, places and memory last.
func (e *Engine) planWaiting(budget int) {
	for budget > 0 && len(e.waiting) > 0 && len(e.running) < e.cfg.Seqs {
		s := e.waiting[0]
		hit := e.lookup(s)
		need := len(s.Tokens) + s.Emitted - hit
		if need > budget && !e.cfg.ChunkedPrefill || !e.place(s) {
			e.freeBlocks(s)
			return
		}
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.running = append(e.running, s)
		s.computed, s.published = hit, hit/e.cfg.BlockTokens
		n := min(need, budget)
		e.compileFor(s, n, hit)
		if !s.resumed {
			s.Scheduled, s.Cached = e.step.Start, hit
		}
		budget -= e.plan(s, n)
	}
}

// lookup finds the prompt's cached blocks and holds them. The last prompt token is always computed, because its
// output is the first token; so a prompt of whole blocks misses its last one.
func (e *Engine) lookup(s *Seq) (hit int) {
	if !e.cfg.PrefixCaching {
		return 0
	}
	most := min(len(s.hashes), (len(s.Tokens)-1)/e.cfg.BlockTokens)
	for _, h := range s.hashes[:most] {
		b, ok := e.pool.find(h)
		if !ok {
			break
		}
		s.blocks = append(s.blocks, b)
	}
	hit = len(s.blocks) * e.cfg.BlockTokens
	if !s.resumed && (!s.queried || e.cfg.CountRetries) {
		e.count.PrefixQueries += int64(len(s.Tokens))
		e.count.PrefixHits += int64(hit)
	}
	s.queried = true
	return hit
}

// place reserves memory for everything that is known of s, so that a prompt that was started can be finished. A
// prompt's blocks are all taken here, also when it is computed in several steps.
func (e *Engine) place(s *Seq) bool {
	known := len(s.Tokens) + s.Emitted
	state := e.prof.Memory.StateBlocks
	if e.blocksFor(known)-len(s.blocks)+state > e.pool.free {
		return false
	}
	for range state {
		s.state = append(s.state, e.pool.take())
	}
	return e.grow(s, known)
}

// plan puts n tokens of s into the step and returns n.
func (e *Engine) plan(s *Seq, n int) int {
	s.planned = n
	if e.decoding(s) {
		e.step.Decode++
	} else {
		e.step.Prefill += n
	}
	return n
}

func (e *Engine) unplan(s *Seq) {
	switch {
	case s.planned == 0:
	case e.decoding(s):
		e.step.Decode--
	default:
		e.step.Prefill -= s.planned
	}
	s.planned = 0
}

// decoding reports whether s computes only its newest token.
func (e *Engine) decoding(s *Seq) bool {
	return s.Emitted > 0 && s.computed == len(s.Tokens)+s.Emitted-1
}

// compileFor charges the step for shapes that this engine has not seen.
func (e *Engine) compileFor(s *Seq, n, hit int) {
	classes := e.prof.Compile.Prompts
	if len(classes) > 0 {
		i := 0
		for i < len(classes)-1 && n > classes[i].UpTo {
			i++
		}
		if !e.compiled[i] {
			e.compiled[i] = true
			e.charge(classes[i])
		}
	}
	if f := e.prof.Compile.FirstHit; hit > 0 && !e.hitCompiled {
		e.hitCompiled = true
		if f != nil {
			e.charge(*f)
		}
	}
}

func (e *Engine) charge(c ShapeClass) {
	if c.Cost > 0 {
		e.step.Compiled = append(e.step.Compiled, Compiled{Kernels: c.Kernels, Cost: seconds(c.Cost)})
	}
}

// StepTime is the truth without noise: seconds for a step that gives a further token to decode requests and computes
// prefill prompt tokens.
func (e *Engine) StepTime(decode, prefill int) float64 {
	return e.stepTime(decode, prefill, 1, 1)
}

func (e *Engine) stepTime(decode, prefill int, decodeFactor, prefillFactor float64) float64 {
	c := e.prof.Step
	var t float64
	switch {
	case prefill > 0 && decode > 0:
		// The prompt's step reads the weights anyway; what decoding adds is its growth over a batch of one.
		t = prefillFactor*c.Prefill.At(float64(prefill)) + decodeFactor*(c.Decode.At(float64(decode))-c.Decode.At(1))
	case prefill > 0:
		t = prefillFactor * c.Prefill.At(float64(prefill))
	default:
		t = decodeFactor * c.Decode.At(float64(decode))
	}
	if e.cfg.Eager {
		t = max(t, decodeFactor*c.EagerFloor)
	}
	return t
}

func (e *Engine) cost(st *Step) time.Duration {
	t := e.stepTime(st.Decode, st.Prefill, e.decodeFactor, e.prefillFactor)
	d := seconds(t * e.lognormal(e.prof.Noise.Step) * e.slow)
	st.Compiled = append(st.Compiled, e.stalls...)
	e.stalls = e.stalls[:0]
	for _, c := range st.Compiled {
		d += c.Cost
	}
	return max(d, 1)
}

// commit stores what the step computed and gives out its tokens.
func (e *Engine) commit(st *Step) {
	kept := e.running[:0]
	for _, s := range e.running {
		if s.planned > 0 {
			e.advance(s, st)
		}
		if s.Finish == Unfinished {
			kept = append(kept, s)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
}

func (e *Engine) advance(s *Seq, st *Step) {
	if !e.decoding(s) {
		e.count.ComputedPrompt += int64(s.planned)
	}
	s.computed += s.planned
	s.planned = 0
	for s.published < len(s.hashes) && (s.published+1)*e.cfg.BlockTokens <= s.computed {
		e.pool.publish(s.blocks[s.published], s.hashes[s.published])
		s.published++
	}
	if s.computed < len(s.Tokens)+s.Emitted {
		return
	}
	s.Emitted++
	e.count.Generated++
	t := Token{Seq: s, N: s.Emitted}
	if s.Emitted == 1 {
		s.First = st.End
		e.count.PromptTokens += int64(len(s.Tokens))
		e.count.CachedTokens += int64(s.Cached)
	} else {
		t.Gap = st.End - s.Last
	}
	s.Last = st.End
	if s.Emitted >= s.end {
		s.Finish = Length
		if s.early {
			s.Finish = Stop
		}
		t.Finish = s.Finish
		e.count.Finished++
		e.freeBlocks(s)
	}
	st.Tokens = append(st.Tokens, t)
}
