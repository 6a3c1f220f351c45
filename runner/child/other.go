//go:build !linux

package child

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Proc is one started child. There is none on this system.
type Proc struct{}

// Start returns errors.ErrUnsupported: without Pdeathsig and /proc what is started could not be ended for sure.
func Start(Options) (*Proc, error) {
	return nil, fmt.Errorf("programs are only started on Linux: %w", errors.ErrUnsupported)
}

// PID is 0.
func (*Proc) PID() int { return 0 }

// StartedAt is the zero time.
func (*Proc) StartedAt() time.Time { return time.Time{} }

// Done is nil.
func (*Proc) Done() <-chan struct{} { return nil }

// Exit is the zero value.
func (*Proc) Exit() Exit { return Exit{} }

// Members is empty.
func (*Proc) Members() ([]int, error) { return nil, nil }

// Remember does nothing.
func (*Proc) Remember() error { return nil }

// Stop does nothing.
func (*Proc) Stop(context.Context, time.Duration) error { return nil }

// Reap finds nothing.
func Reap(string) ([]Reaped, error) { return nil, nil }

// MaybeWatchdog returns: nothing is started that needs one.
func MaybeWatchdog() {}
