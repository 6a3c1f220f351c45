// Package openai speaks an OpenAI-compatible server's slow path: health, version, models, settings, metrics, the cache
// reset and one plain completion; and it builds the bodies of streaming requests. It does not read streams and does not
// time anything that is measured: that is package load.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"h100-inference-control-plane/runner/engine"
)

// ErrAbsent says that the server has no such endpoint: the engine lists none, or it answered 404 or 405.
var ErrAbsent = errors.New("the server has no such endpoint")

const (
	bodyLimit  = 64 << 20 // of an answer: /metrics of a server with many labels stays far below
	errorLimit = 64 << 10 // of the body of an error
)

// A Client asks one server. The zero values of its optional fields are ready; it must not be copied after use and is
// safe for concurrent use. Every call ends with its context and has no other deadline. Redirects are not followed and
// the environment's proxies are not used: what answers must be the server that was named. Connections are not kept,
// because the server closes idle ones after a few seconds and a POST must not be sent twice.
type Client struct {
	BaseURL   string // "http://127.0.0.1:8000"; a slash at the end does not matter
	Endpoints engine.Endpoints
	HTTP      *http.Client  // optional; a Transport in it is used as it is, with its proxies and connections
	RetryWait time.Duration // between attempts to reset the cache; 0 = 200 ms

	once   sync.Once
	client *http.Client
}

// Model is one entry of the list of models.
type Model struct {
	ID          string `json:"id"`
	MaxModelLen int    `json:"max_model_len"` // in tokens; 0 = not told
	Root        string `json:"root"`          // what was loaded under this name; "" = not told
}

// Scrape is one answer of the metrics endpoint, with the moments around it. The values are of some moment in between.
type Scrape struct {
	Body          []byte
	ContentType   string
	Before, After time.Time
}

// Health is nil when the server says that it is well (200). The error of an unhealthy one is an *APIError.
func (c *Client) Health(ctx context.Context) error {
	_, _, err := c.do(ctx, "health", http.MethodGet, c.Endpoints.Health, nil)
	return err
}

// Version returns the body of the version endpoint; the engine reads it.
func (c *Client) Version(ctx context.Context) ([]byte, error) {
	body, _, err := c.do(ctx, "version", http.MethodGet, c.Endpoints.Version, nil)
	return body, err
}

// Models returns what the server serves, in its order.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	body, _, err := c.do(ctx, "models", http.MethodGet, c.Endpoints.Models, nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []Model `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the list of models: %w", err)
	}
	return list.Data, nil
}

// ServerInfo returns the server's settings as it reports them, or ErrAbsent. They may hold secrets from its
// environment: redact them before they are stored.
func (c *Client) ServerInfo(ctx context.Context) ([]byte, error) {
	body, _, err := c.do(ctx, "settings", http.MethodGet, c.Endpoints.ServerInfo, nil)
	return body, absent(err)
}

// Metrics returns one scrape and its content type, which says how to read it.
func (c *Client) Metrics(ctx context.Context) (body []byte, contentType string, err error) {
	s, err := c.Scrape(ctx)
	return s.Body, s.ContentType, err
}

// Scrape is Metrics with the times around it.
func (c *Client) Scrape(ctx context.Context) (Scrape, error) {
	s := Scrape{Before: time.Now()}
	body, head, err := c.do(ctx, "metrics", http.MethodGet, c.Endpoints.Metrics, nil)
	s.After = time.Now()
	if err != nil {
		return s, err
	}
	s.Body, s.ContentType = body, head.Get("Content-Type")
	return s, nil
}

// resetAttempts bounds how often a reset is tried while the server says that blocks are still held.
const resetAttempts = 10

// ErrNotReset says that the server would not empty its prefix cache.
var ErrNotReset = errors.New("the server did not empty its prefix cache")

// ResetPrefixCache empties the prefix cache. A server that answers {"success":false} still holds blocks and is asked
// again a few times, then the error is ErrNotReset. vLLM before 0.28 answers 200 with an empty body whatever happened,
// so a caller that depends on the reset verifies it by the hit counter.
func (c *Client) ResetPrefixCache(ctx context.Context) error {
	wait := c.RetryWait
	if wait == 0 {
		wait = 200 * time.Millisecond
	}
	for i := range resetAttempts {
		if i > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return fmt.Errorf("%w: %w", ErrNotReset, context.Cause(ctx))
			}
		}
		body, _, err := c.do(ctx, "reset of the prefix cache", http.MethodPost, c.Endpoints.ResetPrefixCache, nil)
		if err != nil {
			return absent(err)
		}
		done, err := resetDone(body)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: blocks were still held at each of %d attempts", ErrNotReset, resetAttempts)
}

func resetDone(body []byte) (bool, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return true, nil
	}
	var answer struct {
		Success *bool `json:"success"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Success == nil {
		return false, fmt.Errorf("%w: its answer was %q", ErrNotReset, oneLine(string(body)))
	}
	return *answer.Success, nil
}

// Tokenize returns the token ids of text as the model's tokenizer makes them, special tokens included.
func (c *Client) Tokenize(ctx context.Context, model, text string) ([]int32, error) {
	in, err := json.Marshal(map[string]any{"model": model, "prompt": text})
	if err != nil {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	body, _, err := c.do(ctx, "tokenize", http.MethodPost, c.Endpoints.Tokenize, in)
	if err != nil {
		return nil, absentUnlessModel(err)
	}
	var answer struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read the answer of tokenize: %w", err)
	}
	return answer.Tokens, nil
}

// Complete asks for one small completion without streaming. It is the proof that the server serves the model: /health
// answers before the first request has gone through the engine.
func (c *Client) Complete(ctx context.Context, model string) error {
	in, err := json.Marshal(map[string]any{"model": model, "prompt": "Hello", "max_tokens": 2, "temperature": 0})
	if err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	body, _, err := c.do(ctx, "completion", http.MethodPost, c.Endpoints.Completions, in)
	if err != nil {
		return err
	}
	var answer struct {
		Choices []json.RawMessage `json:"choices"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("read the completion: %w", err)
	}
	if len(answer.Choices) == 0 {
		return fmt.Errorf("the completion has no choices: %s", oneLine(string(body)))
	}
	return nil
}

// do makes one request. An answer other than 200 is an *APIError.
func (c *Client) do(ctx context.Context, what, method, path string, in []byte) ([]byte, http.Header, error) {
	if path == "" {
		return nil, nil, fmt.Errorf("%s: %w", what, ErrAbsent)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.BaseURL, "/")+path, bytes.NewReader(in))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http().Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, resp.Header, fmt.Errorf("%s: %w", what, readError(resp))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit+1))
	if err != nil {
		return nil, resp.Header, fmt.Errorf("%s: read the answer: %w", what, err)
	}
	if len(body) > bodyLimit {
		return nil, resp.Header, fmt.Errorf("%s: the answer is larger than %d MiB", what, bodyLimit>>20)
	}
	return body, resp.Header, nil
}

func (c *Client) http() *http.Client {
	c.once.Do(func() {
		h := http.Client{}
		if c.HTTP != nil {
			h = *c.HTTP
		}
		if h.Transport == nil {
			dial := net.Dialer{Timeout: 10 * time.Second}
			h.Transport = &http.Transport{DialContext: dial.DialContext, DisableKeepAlives: true, DisableCompression: true}
		}
		h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.client = &h
	})
	return c.client
}

// absent turns "no such route" into ErrAbsent, and keeps the server's words.
func absent(err error) error {
	var api *APIError
	if errors.As(err, &api) && (api.Status == http.StatusNotFound || api.Status == http.StatusMethodNotAllowed) {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}

// absentUnlessModel is absent for endpoints that also answer 404 for a model that they do not serve.
func absentUnlessModel(err error) error {
	var api *APIError
	if errors.As(err, &api) && api.Type != "" {
		return err
	}
	return absent(err)
}
