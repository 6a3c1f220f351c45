package stub

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func serve(t *testing.T) (url string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), stop
}

func post(t *testing.T, url string, body []byte) (*http.Response, string) {
	t.Helper()
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func TestAnswer(t *testing.T) {
	url, _ := serve(t)
	for _, mode := range []Mode{Spread, Step} {
		before := time.Now()
		res, body := post(t, url, Body(5, Pace{Mode: mode, First: time.Millisecond, Interval: time.Millisecond}))
		after := time.Now()
		events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || len(events) != 8 {
			t.Fatalf("%s: %s, %d events: %s", mode, res.Status, len(events), body)
		}
		prev := before.UnixNano()
		for i, e := range events {
			ns, ok := Stamp([]byte(e))
			if ok != (i >= 1 && i <= 5) {
				t.Errorf("event %d has a stamp: %v: %s", i, ok, e)
			}
			if ok && (ns < prev || ns > after.UnixNano()) {
				t.Errorf("token %d was sent at %d, not after %d", i, ns, prev)
			}
			if ok {
				prev = ns
			}
		}
		if got := time.Duration(prev - before.UnixNano()); got < 5*time.Millisecond {
			t.Errorf("%s: five tokens of 1 ms each took %v", mode, got)
		}
		for i, want := range map[int]string{0: `"role":"assistant"`, 4: `"finish_reason":null`, 5: `"finish_reason":"length"`, 6: `"completion_tokens":5`, 7: "data: [DONE]"} {
			if !strings.Contains(events[i], want) {
				t.Errorf("event %d has no %s: %s", i, want, events[i])
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	url, _ := serve(t)
	for _, body := range []string{"", "{", `{"max_tokens":0}`, `{"max_tokens":1,"stub":{"mode":"odd","interval_ns":1000}}`, `{"max_tokens":1,"stub":{"mode":"step","interval_ns":0}}`} {
		if res, got := post(t, url, []byte(body)); res.StatusCode != 400 || !strings.Contains(got, `"error"`) {
			t.Errorf("%s: %s %s", body, res.Status, got)
		}
	}
}

// TestStop ends the server while an answer is under way, and one has not begun.
func TestStop(t *testing.T) {
	url, stop := serve(t)
	res, err := http.Post(url, "application/json", bytes.NewReader(Body(1_000_000, Pace{Mode: Spread, Interval: time.Millisecond})))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	later := make(chan error, 1)
	go func() {
		_, err := http.Post(url, "application/json", bytes.NewReader(Body(1, Pace{Mode: Spread, First: time.Hour, Interval: time.Millisecond})))
		later <- err
	}()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the answer came to its end")
	}
	if <-later == nil {
		t.Error("an answer of an hour came at once")
	}
}

func TestNextStep(t *testing.T) {
	for _, c := range [][4]int64{{0, 10, 0, 0}, {1, 10, 0, 10}, {10, 10, 0, 10}, {11, 10, 3, 13}, {13, 10, 3, 13}, {14, 10, 3, 23}} {
		if got := nextStep(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("nextStep(%d, %d, %d) = %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
	seen := map[int64]bool{}
	for i := range 100 {
		o := offset(Pace{Mode: Spread, Interval: 1000}, i)
		if o < 0 || o >= 1000 {
			t.Errorf("offset %d", o)
		}
		seen[o/100] = true
		if offset(Pace{Mode: Step, Interval: 1000}, i) != 0 {
			t.Error("a step is not at the start of its interval")
		}
	}
	if len(seen) != 10 {
		t.Errorf("a hundred streams fill %d tenths of the interval", len(seen))
	}
}
