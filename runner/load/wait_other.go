//go:build !linux

package load

import (
	"context"
	"time"
)

// newWaiter waits with Go's timer, which may be late by a millisecond.
func newWaiter(time.Duration) func(ctx context.Context, until time.Time) error { return timerWait }

func timerWait(ctx context.Context, until time.Time) error {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
