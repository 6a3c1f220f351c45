package calibrate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/load/stub"
)

// Machine is what this machine costs without any load generator, measured in the same minute: on a busy or a virtual
// machine a read of a socket can cost three times as much as on a quiet one, and a sleep can end late.
type Machine struct {
	CPUPerRead  float64 `json:"cpu_seconds_per_read"`       // one token read from a bare TCP connection, at the load of Spread
	SleepLate50 float64 `json:"sleep_lateness_p50_seconds"` // a thread that sleeps 1 ms in the kernel, with nothing else to do
	SleepLate99 float64 `json:"sleep_lateness_p99_seconds"` //
	// SleepBusy99 is the same while the connections of CPUPerRead are read: what the kernel's timer is late by at this load.
	SleepBusy99 float64 `json:"sleep_lateness_busy_p99_seconds"`
}

// machineTime is the length of each of the three parts.
const machineTime = 1500 * time.Millisecond

func machine(ctx context.Context, o Options, url string) (Machine, error) {
	var m Machine
	m.SleepLate50, m.SleepLate99 = sleepLateness(min(machineTime, o.Duration))
	c := Client{URL: url, Mode: stub.Spread, Streams: o.Streams, Interval: o.Interval, Tokens: tokens(min(machineTime, o.Duration), o.Interval)}
	var err error
	if m.CPUPerRead, err = c.bare(ctx); err != nil {
		return m, err
	}
	late := make(chan float64)
	go func() {
		_, p99 := sleepLateness(min(machineTime, o.Duration) * 8 / 10) // ends before the streams do
		late <- p99
	}()
	_, err = c.bare(ctx)
	m.SleepBusy99 = <-late
	return m, err
}

func sleepLateness(d time.Duration) (p50, p99 float64) {
	const nap = time.Millisecond
	late := make(chan []int64)
	go func() {
		runtime.LockOSThread() // ends with the goroutine
		var out []int64
		for begin := time.Now(); time.Since(begin) < d; {
			before := time.Now()
			kernelSleep(nap)
			out = append(out, int64(time.Since(before)-nap))
		}
		late <- out
	}()
	all := <-late
	slices.Sort(all)
	return at(all, 0.5), at(all, 0.99)
}

// bare reads the same load from TCP connections without looking at it, but for its end, and returns the CPU time of a
// token.
func (c Client) bare(ctx context.Context) (float64, error) {
	body := stub.Body(c.Tokens, stub.Pace{Mode: c.Mode, First: 50 * time.Millisecond, Interval: c.Interval})
	request := fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: stub\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conns := make([]net.Conn, c.Streams)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	for i := range conns {
		var err error
		if conns[i], err = (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(c.URL, "http://")); err != nil {
			return 0, err
		}
	}
	defer context.AfterFunc(ctx, func() {
		for _, conn := range conns {
			conn.Close()
		}
	})()
	before := cpuSeconds()
	var streams sync.WaitGroup
	for _, conn := range conns {
		streams.Go(func() {
			if err := readBare(conn, request); err != nil {
				cancel(fmt.Errorf("read a bare connection: %w", err))
			}
		})
	}
	streams.Wait()
	cpu := cpuSeconds() - before
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return cpu / float64(c.Streams*c.Tokens), nil
}

func readBare(conn net.Conn, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if bytes.Contains(buf[:n], []byte("[DONE]")) {
			return nil
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
