//go:build !linux

package calibrate

import "time"

func kernelSleep(d time.Duration) { time.Sleep(d) }
