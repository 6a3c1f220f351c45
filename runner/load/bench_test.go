package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"h100-inference-control-plane/runner/load/stub"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/workload"
)

const stubEnv = "LOAD_TEST_STUB"

// TestMain makes the test program its own stub, so that a benchmark counts the client's CPU time only.
func TestMain(m *testing.M) {
	if os.Getenv(stubEnv) == "" {
		os.Exit(m.Run())
	}
	if err := serveStub(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveStub serves until its standard input ends.
func serveStub() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println("http://" + l.Addr().String())
	return stub.Serve(ctx, l)
}

func startStub(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stubEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// BenchmarkPaced is what one event costs at one event a read: 200 streams of a token every 5 ms. One iteration is one
// token of every stream; the time of an iteration is the pace, and says nothing.
func BenchmarkPaced(b *testing.B) {
	const streams, interval = 200, 5 * time.Millisecond
	url := startStub(b)
	for _, mode := range []stub.Mode{stub.Spread, stub.Step} {
		b.Run(string(mode), func(b *testing.B) {
			body := stub.Body(max(b.N, 200), stub.Pace{Mode: mode, First: 20 * time.Millisecond, Interval: interval})
			res := run(b, Options{URL: url, Path: "/", Concurrency: streams, Bodies: slices.Repeat([][]byte{body}, streams)})
			events := 0
			for _, r := range res.Records {
				if r.Err != record.OK {
					b.Fatalf("%+v", r)
				}
				events += int(r.Events)
			}
			b.ReportMetric(res.Health.CPUSeconds/float64(events)*1e6, "µs-CPU/event")
			b.ReportMetric(float64(events)/float64(res.Health.Reads), "events/read")
			b.ReportMetric(res.Health.CPU*100, "%CPU")
		})
	}
}

// BenchmarkRequests is what one request costs besides its tokens, and what 100,000 of them leave in memory: run it with
// -benchtime 100000x. The server, in the same process, answers from one buffer.
func BenchmarkRequests(b *testing.B) {
	answer := role + tok + last + usage + done
	url := serve(b, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", stream)
		io.WriteString(w, answer)
	})
	w := workload.Workload{API: workload.Chat, Random: &workload.Random{Tokens: 50}, Output: workload.Output{Tokens: 3}}
	reqs, err := workload.Generate(w, 1, b.N)
	if err != nil {
		b.Fatal(err)
	}
	o := Options{URL: url, Path: "/", Concurrency: 16, Requests: reqs, Body: func(i int) []byte { return []byte(reqs[i].Prompt) }}
	b.ReportAllocs()
	b.ResetTimer()
	res := run(b, o)
	b.StopTimer()
	if len(res.Records) != b.N || res.Records[b.N-1].Err != record.OK {
		b.Fatalf("%d records, %+v", len(res.Records), res.Records[b.N-1])
	}
	b.ReportMetric(float64(res.Health.PeakRSS)/1e6, "MB-peak")
}
