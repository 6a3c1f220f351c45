//go:build !linux

package stub

import "time"

func pause(d time.Duration) { time.Sleep(d) }
