// Package endpoint uses an engine that already runs somewhere: it waits until the health endpoint answers, and goes
// on asking while the engine is in use. It starts nothing and stops nothing.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/provision"
	"h100-inference-control-plane/runner/provision/internal/health"
)

// Provisioner gives out one running engine.
type Provisioner struct {
	base string
	pace pace
}

// pace is how often and how patiently an engine is asked.
type pace struct {
	patience time.Duration // for the first 200: it is said to run already, so a wrong address is told soon
	between  time.Duration // two questions before the first 200
	every    time.Duration // two questions after it
	timeout  time.Duration // of one question; an engine under full load answers late
	misses   int           // silences in a row that mean that it is gone
}

// New returns a provisioner for the engine at an address such as http://127.0.0.1:8000. A trailing slash or /v1 is
// ignored. The error says what is wrong with the address, without repeating a password in it.
func New(address string) (*Provisioner, error) {
	base, err := normalise(address)
	if err != nil {
		return nil, err
	}
	p := pace{patience: 15 * time.Second, between: 250 * time.Millisecond, every: time.Second, timeout: 5 * time.Second, misses: 3}
	return &Provisioner{base: base, pace: p}, nil
}

// normalise turns what people copy from documentation into a base address. What may hold a secret is refused before
// an error could repeat it.
func normalise(address string) (string, error) {
	address = strings.TrimSpace(address)
	switch {
	case strings.Contains(address, "@"):
		return "", errors.New("the address of the endpoint contains @: a name and password in it would end up in logs and results")
	case strings.ContainsAny(address, "?#"):
		return "", errors.New("the address of the endpoint must end with its path, without ? or #")
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("read the address of the endpoint: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the address of the endpoint must begin with http:// or https://, and %q does not", address)
	case u.Hostname() == "":
		return "", fmt.Errorf("the address of the endpoint has no host: %q", address)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", fmt.Errorf("the address of the endpoint has the port %q, and ports are 1 to 65535", port)
		}
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for strings.HasSuffix(path, "/v1") {
		path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	}
	base := &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}
	return base.String() + path, nil
}

// Name is "endpoint".
func (*Provisioner) Name() string { return "endpoint" }

// Start implements provision.Provisioner. Launch and LogPath are not used. It waits for ReadyTimeout, but for no more
// than 15 s.
func (p *Provisioner) Start(ctx context.Context, r provision.Request) (provision.Server, error) {
	patience := p.pace.patience
	if r.ReadyTimeout > 0 {
		patience = min(patience, r.ReadyTimeout)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &server{base: p.base, engine: r.Engine, pace: p.pace, client: health.Client(), exited: make(chan struct{})}
	var last error
	for {
		err := s.probe(within)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			s.readyAt = time.Now()
			s.begin(ctx)
			return s, nil
		case within.Err() == nil:
			last = err
		}
		if !sleep(within, p.pace.between) && ctx.Err() == nil {
			return nil, &provision.StartError{Doing: "reach " + p.base, Reason: reason(last), Err: provision.ErrTimeout}
		}
	}
}

func reason(err error) string {
	if err == nil {
		return "no answer"
	}
	return err.Error()
}

// sleep reports whether it could.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// server is an engine that somebody else runs. err is set before exited is closed.
type server struct {
	base    string
	engine  engine.Engine
	pace    pace
	client  *http.Client
	readyAt time.Time
	cancel  context.CancelFunc
	watch   sync.WaitGroup
	exited  chan struct{}
	err     error
}

func (s *server) URL() string { return s.base }

// PID is 0: the process is not ours.
func (s *server) PID() int { return 0 }

// StartedAt is the zero time: nobody told us.
func (s *server) StartedAt() time.Time { return time.Time{} }

func (s *server) ReadyAt() time.Time { return s.readyAt }

// Exited is closed when the engine has stopped answering, and at Stop: for us it is over then.
func (s *server) Exited() <-chan struct{} { return s.exited }

func (s *server) Err() error {
	select {
	case <-s.exited:
		return s.err
	default:
		return nil
	}
}

// Stop ends the asking. The engine runs on.
func (s *server) Stop(context.Context) error {
	s.cancel()
	s.watch.Wait()
	return nil
}

func (s *server) probe(ctx context.Context) error {
	return health.Probe(ctx, s.client, s.base+s.engine.Endpoints().Health, s.pace.timeout)
}

func (s *server) begin(ctx context.Context) {
	// Until Stop, and not until the end of a context that was only meant for the start.
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.watch.Go(func() {
		defer close(s.exited)
		s.err = s.ask(ctx)
	})
}

// ask returns nil when ctx is over, and a CrashError when the engine is silent too often in a row.
func (s *server) ask(ctx context.Context) error {
	for missed := 0; sleep(ctx, s.pace.every); {
		err := s.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			missed = 0
			continue
		}
		if missed++; missed == s.pace.misses {
			return &provision.CrashError{Engine: s.engine.Name(), ExitCode: -1, Reason: "health endpoint stopped answering: " + err.Error()}
		}
	}
	return nil
}
