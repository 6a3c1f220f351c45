package load

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// coarse is how much of a wait is left to the kernel. Before it, Go's timer waits, because a sleep in the kernel cannot
// be cancelled; Go's timer alone is late by up to a millisecond.
const coarse = 4 * time.Millisecond

// newWaiter returns a function that waits for a time, spinning at the end if it is told to.
func newWaiter(spin time.Duration) func(ctx context.Context, until time.Time) error {
	return func(ctx context.Context, until time.Time) error {
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
				sleep(left - spin)
			}
		}
		return ctx.Err()
	}
}

// sleep sleeps in the kernel, or less when a signal comes. The kernel may make a thread late by its timer slack, 50 µs,
// to save wake-ups; this one is not to be, and gets its slack back afterwards, because it is the runtime's.
func sleep(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // a refusal costs those 50 µs
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0 = the thread's default
}
