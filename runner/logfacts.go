package runner

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/redact"
)

// logFacts collects what an engine's log says while it is written. Times are ours, of the moment a line was read: the
// engine's own stamps have no zone and whole seconds.
type logFacts struct {
	eng engine.Engine

	mu   sync.Mutex
	seen []timedFact
}

type timedFact struct {
	engine.LogFact
	at time.Time
}

func newLogFacts(e engine.Engine) *logFacts { return &logFacts{eng: e} }

func (l *logFacts) line(at time.Time, line string) {
	f, ok := l.eng.LogLine(line)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, timedFact{f, at})
}

// factLimit bounds what of a chatty log goes into a result.
const factLimit = 64

// all returns the facts for the result, redacted, without those that are counted elsewhere or only chatter.
func (l *logFacts) all(redact *redact.Redactor) []engine.LogFact {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []engine.LogFact
	for _, f := range l.seen {
		if f.Kind != engine.FactJIT && f.Kind != engine.FactWarning && len(out) < factLimit {
			f.Text = redact.String(f.Text)
			out = append(out, f.LogFact)
		}
	}
	return out
}

// jit returns the kernels compiled in (t0, t1], in order, with repeats.
func (l *logFacts) jit(t0, t1 time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for _, f := range l.seen {
		if f.Kind == engine.FactJIT && f.at.After(t0) && !f.at.After(t1) {
			out = append(out, f.Text)
		}
	}
	return out
}

const logReadLimit = 32 << 20

// readLog returns the engine's log, or nil when there is none. Of a log over the limit it returns both ends.
func readLog(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() <= logReadLimit {
		return io.ReadAll(f)
	}
	head, err := io.ReadAll(io.LimitReader(f, logReadLimit/2))
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(-logReadLimit/2, io.SeekEnd); err != nil {
		return nil, err
	}
	tail, err := io.ReadAll(f)
	return bytes.Join([][]byte{head, tail}, []byte("\n")), err
}
