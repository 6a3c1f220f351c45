package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
)

var paths = engine.Endpoints{
	Health: "/health", Version: "/version", Models: "/v1/models", Metrics: "/metrics", ServerInfo: "/server_info?config_format=json",
	ResetPrefixCache: "/reset_prefix_cache", Chat: "/v1/chat/completions", Completions: "/v1/completions", Tokenize: "/tokenize",
}

// serve starts a server that answers every request with h, and a client of it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{BaseURL: s.URL + "/", Endpoints: paths, RetryWait: time.Nanosecond}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestModels(t *testing.T) {
	for version, want := range map[string]Model{
		"vllm-0.25.1": {ID: "m", MaxModelLen: 8192, Root: "/models/Qwen3.6-35B-A3B-FP8"},
		"vllm-0.32.0": {ID: "tiny", MaxModelLen: 2048, Root: "/models/tiny-qwen3"},
	} {
		c := serve(t, says(200, string(testdata(t, version+"/models.json"))))
		got, err := c.Models(t.Context())
		if err != nil || !reflect.DeepEqual(got, []Model{want}) {
			t.Errorf("%s: Models() = %+v, %v; want [%+v]", version, got, err, want)
		}
	}
	if got, err := serve(t, says(200, "[")).Models(t.Context()); err == nil {
		t.Errorf("a broken list gave %v without an error", got)
	}
}

func TestHealth(t *testing.T) {
	if err := serve(t, says(200, "")).Health(t.Context()); err != nil {
		t.Errorf("a healthy server: %v", err)
	}
	var api *APIError
	if err := serve(t, says(503, "")).Health(t.Context()); !errors.As(err, &api) || api.Status != 503 {
		t.Errorf("an unhealthy server: %v, want HTTP 503", err)
	}
}

func TestRequestsGoWhereTheyShould(t *testing.T) {
	var got atomic.Value
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.Store(r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + " " + string(body))
		w.Header().Set("Content-Type", "text/plain; version=1.0.0")
		io.WriteString(w, `{"version":"1","choices":[{}],"tokens":[3,9],"success":true}`)
	})
	calls := []struct {
		want string
		call func() error
	}{
		{"GET /health  ", func() error { return c.Health(t.Context()) }},
		{"GET /version  ", func() error { _, err := c.Version(t.Context()); return err }},
		{"GET /server_info?config_format=json  ", func() error { _, err := c.ServerInfo(t.Context()); return err }},
		{"GET /metrics  ", func() error {
			s, err := c.Scrape(t.Context())
			if s.ContentType != "text/plain; version=1.0.0" || s.Before.IsZero() || s.After.Before(s.Before) {
				t.Errorf("Scrape() = %+v", s)
			}
			return err
		}},
		{"POST /reset_prefix_cache  ", func() error { return c.ResetPrefixCache(t.Context()) }},
		{`POST /v1/completions application/json {"max_tokens":2,"model":"m","prompt":"Hello","temperature":0}`, func() error { return c.Complete(t.Context(), "m") }},
		{`POST /tokenize application/json {"model":"m","prompt":"a b"}`, func() error {
			ids, err := c.Tokenize(t.Context(), "m", "a b")
			if !reflect.DeepEqual(ids, []int32{3, 9}) {
				t.Errorf("Tokenize() = %v", ids)
			}
			return err
		}},
	}
	for _, x := range calls {
		if err := x.call(); err != nil {
			t.Errorf("%s: %v", x.want, err)
		}
		if got.Load() != x.want {
			t.Errorf("the server got %q, want %q", got.Load(), x.want)
		}
	}
}

func TestAbsent(t *testing.T) {
	for name, c := range map[string]*Client{
		"404":     serve(t, says(404, `{"detail":"Not Found"}`)),
		"405":     serve(t, says(405, `{"detail":"Method Not Allowed"}`)),
		"no path": {BaseURL: "http://127.0.0.1:1"},
	} {
		if _, err := c.ServerInfo(t.Context()); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: ServerInfo: %v, want ErrAbsent", name, err)
		}
		if err := c.ResetPrefixCache(t.Context()); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: ResetPrefixCache: %v, want ErrAbsent", name, err)
		}
		if _, err := c.Tokenize(t.Context(), "m", "x"); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: Tokenize: %v, want ErrAbsent", name, err)
		}
	}
	c := serve(t, says(404, string(testdata(t, "vllm-0.25.1/bad_model.json"))))
	if _, err := c.Tokenize(t.Context(), "nope", "x"); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("Tokenize with a wrong model: %v, want the server's error, not ErrAbsent", err)
	}
}

// TestResetPrefixCache: 0.25.1 answers with an empty body, later releases say whether they did it.
func TestResetPrefixCache(t *testing.T) {
	answers := func(bodies ...string) (*Client, *atomic.Int32) {
		var n atomic.Int32
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			i := int(n.Add(1)) - 1
			io.WriteString(w, bodies[min(i, len(bodies)-1)])
		}), &n
	}
	for _, x := range []struct {
		name   string
		bodies []string
		asked  int32
		err    error
	}{
		{"empty", []string{""}, 1, nil},
		{"done", []string{`{"success":true}`}, 1, nil},
		{"held for a while", []string{`{"success":false}`, `{"success":false}`, `{"success":true}`}, 3, nil},
		{"held for ever", []string{`{"success":false}`}, resetAttempts, ErrNotReset},
		{"something else", []string{`<html>`}, 1, ErrNotReset},
	} {
		c, n := answers(x.bodies...)
		if err := c.ResetPrefixCache(t.Context()); !errors.Is(err, x.err) || n.Load() != x.asked {
			t.Errorf("%s: %v after %d requests, want %v after %d", x.name, err, n.Load(), x.err, x.asked)
		}
	}
}

func TestResetPrefixCacheEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"success":false}`)
		cancel()
	})
	c.RetryWait = time.Hour
	if err := c.ResetPrefixCache(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ResetPrefixCache after its context ended: %v", err)
	}
}

func TestCompleteFailure(t *testing.T) {
	for body, want := range map[string]string{`{"choices":[]}`: "no choices", `data: {}`: "read the completion"} {
		if err := serve(t, says(200, body)).Complete(t.Context(), "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Complete with the answer %s: %v, want %q", body, err, want)
		}
	}
	c := serve(t, says(404, string(testdata(t, "vllm-0.32.0/bad_model.json"))))
	want := "completion: HTTP 404 NotFoundError: The model `nope` does not exist. Valid aliases: tiny."
	if err := c.Complete(t.Context(), "nope"); err == nil || err.Error() != want {
		t.Errorf("Complete of an unknown model: %v, want %s", err, want)
	}
}

// TestNoRedirectNoProxy: what answers must be the server that was named.
func TestNoRedirectNoProxy(t *testing.T) {
	var other atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer elsewhere.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	c.HTTP = &http.Client{}
	var api *APIError
	if err := c.Health(t.Context()); !errors.As(err, &api) || api.Status != http.StatusFound {
		t.Errorf("Health behind a redirect: %v, want HTTP 302", err)
	}
	if other.Load() != 0 {
		t.Error("the redirect was followed")
	}
	if tr, ok := c.http().Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Errorf("the transport %#v may use a proxy", c.http().Transport)
	}
}
