package load

import (
	"context"
	"sync"
	"time"

	"h100-inference-control-plane/runner/record"
)

// closed keeps Concurrency requests in flight until there are none left. A request is scheduled at the moment its
// place became free: at t0, or when the answer before it ended, so that what the client does in between counts.
func (r *Runner) closed(ctx context.Context) error {
	var workers sync.WaitGroup
	for range min(r.o.Concurrency, r.n) {
		workers.Go(func() {
			s := &slot{}
			free := r.t0
			for ctx.Err() == nil {
				i := int(r.next.Add(1)) - 1
				if i >= r.n {
					return
				}
				free = r.do(ctx, i, free, s)
			}
		})
	}
	workers.Wait()
	return nil
}

// open sends each request when the schedule says, whatever became of those before. An error is the timer's.
func (r *Runner) open(ctx context.Context) error {
	var places chan struct{}
	if r.o.MaxInFlight > 0 {
		places = make(chan struct{}, r.o.MaxInFlight)
	}
	var requests sync.WaitGroup
	defer requests.Wait()
	t0 := r.clock.base.Add(time.Duration(r.t0))
	for i, at := range r.o.Schedule {
		if err := r.wait(ctx, t0.Add(at)); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		r.next.Add(1)
		requests.Go(func() { r.arrive(ctx, i, r.t0+int64(at), places) })
	}
	return nil
}

// arrive waits for a place in flight, if those are limited, and sends. The scheduled time stays the intended one.
func (r *Runner) arrive(ctx context.Context, i int, scheduled int64, places chan struct{}) {
	if places != nil {
		select {
		case places <- struct{}{}:
		default:
			r.capped[i] = true
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				r.file(i, scheduled, failed(record.ErrAborted, "the run ended while this request waited for a place"))
				return
			}
		}
		defer func() { <-places }()
	}
	s := r.takeSlot()
	defer r.giveSlot(s)
	r.do(ctx, i, scheduled, s)
}
