package load

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// coarse is how much of a wait is left to the kernel. Before it, Go's timer waits, because a sleep in the kernel cannot
// be cancelled; Go's timer alone is late by up to a millisecond.
const coarse = 4 * time.Millisecond

// newWaiter returns a function that waits for a time. The goroutine that calls it has a locked thread.
func newWaiter(spin time.Duration) func(ctx context.Context, until time.Time) error {
	slack := false
	return func(ctx context.Context, until time.Time) error {
		if !slack {
			// Without it the kernel may be 50 µs late to save wake-ups. A refusal costs those 50 µs.
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
			slack = true
		}
		if left := time.Until(until); left > coarse {
			t := time.NewTimer(left - coarse)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
			}
		}
		for ctx.Err() == nil {
			left := time.Until(until)
			if left <= 0 {
				return nil
			}
			if left > spin {
				ts := unix.NsecToTimespec(int64(left - spin))
				// A signal ends it early; the loop sleeps again.
				_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
			}
		}
		return ctx.Err()
	}
}
