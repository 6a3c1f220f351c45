package sim

import (
	"syscall"
	"time"
)

// nap sleeps in the kernel, which wakes within about 0.1 ms.
func nap(d time.Duration) {
	if d < 20*time.Microsecond {
		return // a sleep costs more than that
	}
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	// An interrupted nap is cut short; deadlines are absolute, so the next one makes up for it.
	_ = syscall.Nanosleep(&ts, nil)
}
