//go:build !linux

package load

import (
	"context"
	"time"
)

// timer waits with Go's timers, which may be late by a millisecond.
type timer struct{}

func newTimer(time.Duration) (*timer, error) { return &timer{}, nil }

func (*timer) close() {}

// wait returns nil at until, or the context's error when that ends first.
func (*timer) wait(ctx context.Context, until time.Time) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
