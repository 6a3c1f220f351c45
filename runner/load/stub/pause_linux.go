package stub

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps in the kernel: Go's timers are late by up to a millisecond.
func pause(d time.Duration) {
	if d <= 0 {
		return
	}
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil) // a signal ends it early, which does no harm
}
