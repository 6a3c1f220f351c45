package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-release })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	defer close(release)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	f := func(path, want string) {
		t.Helper()
		err := Probe(context.Background(), Client(), srv.URL+path, 200*time.Millisecond)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	srv.Config.SetKeepAlivesEnabled(false)
	if err := Probe(context.Background(), Client(), srv.URL+"/ok", time.Minute); err != nil {
		t.Error(err)
	}
	f("/hang", "no answer within 200ms")
	for path, want := range map[string]string{"/moved": "GET /moved: 302 Found", "/absent": "GET /absent: 404 Not Found"} {
		if err := Probe(context.Background(), Client(), srv.URL+path, time.Minute); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Probe(ctx, Client(), srv.URL+"/ok", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestProbeRefused(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	err := Probe(context.Background(), Client(), srv.URL+"/health", time.Minute)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "http://") {
		t.Errorf("got %v", err)
	}
}
