package model

import "time"

// ClosedLoop runs the requests with that many of them in the engine at any time, each new one submitted the moment
// another ends, and returns what became of them, in the order of reqs. It ends when all have ended.
func ClosedLoop(e *Engine, concurrency int, reqs []Request) ([]*Seq, error) {
	out := make([]*Seq, 0, len(reqs))
	next := func(at time.Duration) error {
		s, err := e.Submit(at, reqs[len(out)])
		if err == nil {
			out = append(out, s)
		}
		return err
	}
	for range min(concurrency, len(reqs)) {
		if err := next(e.Now()); err != nil {
			return nil, err
		}
	}
	for {
		st, ok := e.Step()
		if !ok {
			return out, nil
		}
		for _, t := range st.Tokens {
			if t.Finish != Unfinished && len(out) < len(reqs) {
				if err := next(st.End); err != nil {
					return nil, err
				}
			}
		}
	}
}

// OpenLoop submits request i at time at[i] (ascending, from the engine's Now) whatever happens to the others, and
// returns what became of them. at and reqs have the same length.
func OpenLoop(e *Engine, at []time.Duration, reqs []Request) ([]*Seq, error) {
	out := make([]*Seq, 0, len(reqs))
	began := e.Now()
	for i, r := range reqs {
		s, err := e.Submit(began+at[i], r)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	for {
		if _, ok := e.Step(); !ok {
			return out, nil
		}
	}
}
