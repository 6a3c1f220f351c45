//go:build !linux

package sim

import "time"

func nap(d time.Duration) { time.Sleep(d) }
