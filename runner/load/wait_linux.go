package load

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer waits on a timerfd. Go's own timers are rounded up to a millisecond by the network poller. The kernel's timer,
// read through that poller, is exact, and the goroutine that waits for it keeps neither a thread nor a processor from
// the streams: sleeping in a system call does, and costs the new request another wake-up.
type timer struct {
	fd   int
	file *os.File
	spin time.Duration
}

func newTimer(spin time.Duration) (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &timer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), spin: spin}, nil
}

func (t *timer) close() { t.file.Close() }

// wait returns nil at until, or the context's error when that ends first.
func (t *timer) wait(ctx context.Context, until time.Time) error {
	stop := context.AfterFunc(ctx, func() { t.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var expirations [8]byte
	for ctx.Err() == nil {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if left <= t.spin {
			continue
		}
		set := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left - t.spin))}
		if err := unix.TimerfdSettime(t.fd, 0, &set, nil); err != nil {
			return fmt.Errorf("set a timer: %w", err)
		}
		if _, err := t.file.Read(expirations[:]); err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for a timer: %w", err)
		}
	}
	return ctx.Err()
}
