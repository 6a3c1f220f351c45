// Package health asks an engine's health endpoint once. When to ask, and what a silence means, is the caller's.
package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Client returns a client that asks the address that it is given and no other: no proxy, no redirects, and a fresh
// connection each time, so that an answer is from whoever listens now.
func Client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Probe is nil when u answers 200 within the timeout. The error says what happened instead, without repeating u.
func Probe(ctx context.Context, c *http.Client, u string, timeout time.Duration) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(within, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil:
		return fmt.Errorf("no answer within %v", timeout)
	default:
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			return wrapped.Err
		}
		return err
	}
	defer res.Body.Close()
	io.CopyN(io.Discard, res.Body, 1<<10)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", req.URL.Path, res.Status)
	}
	return nil
}
