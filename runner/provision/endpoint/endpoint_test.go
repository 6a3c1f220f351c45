package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/provision/provisiontest"
)

// quick asks often, so that tests need not wait. The timeout of a question stays generous: nothing here is slow.
var quick = pace{patience: time.Minute, between: time.Millisecond, every: time.Millisecond, timeout: time.Minute, misses: 3}

func connect(t *testing.T, h http.Handler) (*Provisioner, *httptest.Server) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	p, err := New(srv.URL + "/v1/")
	if err != nil {
		t.Fatal(err)
	}
	p.pace = quick
	return p, srv
}

func answers(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func TestConformance(t *testing.T) {
	var crash func()
	provisiontest.Run(t, provisiontest.Harness{
		New: func(t *testing.T, m provisiontest.Mode) provisiontest.Case {
			code := http.StatusOK
			if m == provisiontest.Unready {
				code = http.StatusServiceUnavailable
			}
			p, srv := connect(t, answers(code))
			crash = srv.Close
			return provisiontest.Case{Provisioner: p, Request: provision.Request{Engine: provisiontest.Engine{}}}
		},
		Crash: func(*testing.T, provision.Server, int) { crash() },
	})
}

func TestUnreachable(t *testing.T) {
	p, srv := connect(t, answers(http.StatusOK))
	srv.Close()
	p.pace.patience = 50 * time.Millisecond
	_, err := p.Start(t.Context(), provision.Request{Engine: provisiontest.Engine{}, ReadyTimeout: time.Hour})
	if !errors.Is(err, provision.ErrTimeout) || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "reach "+srv.URL+":") {
		t.Errorf("got %v", err)
	}
}

func TestWrongServer(t *testing.T) {
	p, _ := connect(t, http.NotFoundHandler())
	p.pace.patience = 50 * time.Millisecond
	if _, err := p.Start(t.Context(), provision.Request{Engine: provisiontest.Engine{}}); err == nil || !strings.Contains(err.Error(), "GET /health: 404 Not Found") {
		t.Errorf("got %v", err)
	}
}

// An engine that comes up within the patience is waited for; single silences after that mean nothing.
func TestSilences(t *testing.T) {
	var n atomic.Int64
	enough := make(chan struct{})
	p, _ := connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch k := n.Add(1); {
		case k%3 != 0: // two of three fail
			w.WriteHeader(http.StatusServiceUnavailable)
		case k == 30:
			close(enough)
		}
	}))
	s, err := p.Start(t.Context(), provision.Request{Engine: provisiontest.Engine{}})
	if err != nil {
		t.Fatal(err)
	}
	<-enough
	if err := s.Err(); err != nil {
		t.Errorf("two silences in a row: %v", err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if s.Err() != nil {
		t.Errorf("after Stop: %v", s.Err())
	}
}

func TestStopsAnswering(t *testing.T) {
	var sick atomic.Bool
	p, _ := connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	s, err := p.Start(t.Context(), provision.Request{Engine: provisiontest.Engine{}})
	if err != nil {
		t.Fatal(err)
	}
	sick.Store(true)
	<-s.Exited()
	want := "fake ended while it was in use: exit code not known: health endpoint stopped answering: GET /health: 503 Service Unavailable"
	if err := s.Err(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestNewSuccess(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:8000":         "http://127.0.0.1:8000",
		"http://127.0.0.1:8000/":        "http://127.0.0.1:8000",
		"http://127.0.0.1:8000/v1":      "http://127.0.0.1:8000",
		"http://127.0.0.1:8000/v1//":    "http://127.0.0.1:8000",
		" HTTP://GPU-Box.local/v1/v1/ ": "http://gpu-box.local",
		"https://h/engines/a/v1":        "https://h/engines/a",
		"http://h/v1beta":               "http://h/v1beta",
		"http://h/%76%31x/a%2Fb/":       "http://h/%76%31x/a%2Fb",
		"http://v1":                     "http://v1",
		"http://[::1]:8000/v1":          "http://[::1]:8000",
		"http://[fe80::1%25eth0]:80":    "http://[fe80::1%25eth0]:80",
	} {
		p, err := New(in)
		if err != nil || p.base != want {
			t.Errorf("%q: %+v, %v; want %q", in, p, err, want)
		}
	}
}

func TestNewFailure(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "must begin with http:// or https://",
		"localhost:8000":               "must begin with http://",
		"127.0.0.1:8000":               "",
		"ftp://h":                      "must begin with http://",
		"unix:///run/vllm.sock":        "must begin with http://",
		"http://":                      "no host",
		"http:///v1":                   "no host",
		"http://:8000":                 "no host",
		"http://h:":                    "the port",
		"http://h:0":                   "the port",
		"http://h:65536":               "the port",
		"http://h:port":                "invalid port",
		"http://u:hunter2secret@h":     "contains @",
		"http://hunter2secret@h:99999": "contains @",
		"ht tp://u:hunter2secret@h":    "contains @",
		"http://h/?key=hunter2secret":  "without ? or #",
		"h?key=hunter2secret":          "without ? or #",
		"http://h/#x":                  "without ? or #",
		"http://h/\x00":                "control character",
		"http://h/%zz":                 "invalid URL escape",
	} {
		p, err := New(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", in, p, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("%q: the error repeats a secret: %v", in, err)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:8000/v1/", "https://h/a%2Fb", "http://[::1]:1", "localhost:8000", "http://u:p@h", "http://h/v1/v1", "http://h//v1//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		base, err := normalise(s)
		if err != nil {
			return
		}
		if strings.HasSuffix(base, "/") || strings.ContainsAny(base, "@?#") {
			t.Errorf("%q became %q", s, base)
		}
		again, err := normalise(base)
		if err != nil || again != base {
			t.Errorf("%q became %q, and that %q, %v", s, base, again, err)
		}
		if u, err := url.Parse(base + "/health"); err != nil || u.Host == "" {
			t.Errorf("%q became %q, which has no host: %v", s, base, err)
		}
	})
}
