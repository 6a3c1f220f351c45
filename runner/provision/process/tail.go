package process

import (
	"bytes"
	"os"
	"time"
)

const (
	// tailEvery bounds how late a line is seen, and so the error of its time stamp. Polling, because inotify reports
	// each single write of a chatty engine, has limits that other programs use up, and fails on network file systems.
	tailEvery = 50 * time.Millisecond
	// maxLine is where a line is cut; the rest of it is dropped.
	maxLine = 1 << 20
)

// tail reads a file that others write. A nil *tail is one that nobody wanted.
type tail struct {
	stop chan struct{}
	done chan struct{}
}

// openTail calls on with each line of the file, from one goroutine, until finish.
func openTail(path string, on func(time.Time, string)) (*tail, error) {
	if on == nil {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &tail{stop: make(chan struct{}), done: make(chan struct{})}
	go t.follow(f, on)
	return t, nil
}

// finish reads what is there, gives out the last line even without its end, and waits. Nobody may write any more.
func (t *tail) finish() {
	if t == nil {
		return
	}
	close(t.stop)
	<-t.done
}

func (t *tail) follow(f *os.File, on func(time.Time, string)) {
	defer close(t.done)
	defer f.Close()
	every := time.NewTicker(tailEvery)
	defer every.Stop()
	var lines splitter
	buf := make([]byte, 64<<10)
	for stopped := false; ; {
		n, _ := f.Read(buf) // io.EOF is not the end, and no other error would go away by saying it here
		if n > 0 {
			now := time.Now()
			lines.write(buf[:n], func(line string) { on(now, line) })
			continue
		}
		if stopped {
			now := time.Now()
			lines.flush(func(line string) { on(now, line) })
			return
		}
		select {
		case <-t.stop:
			stopped = true // one more look: what was written before is there now
		case <-every.C:
		}
	}
}

// splitter cuts bytes into lines, whatever pieces they come in. A carriage return ends a line as a newline does, so
// that a progress bar that rewrites its line is seen while it moves; together they end one.
type splitter struct {
	buf     []byte
	afterCR bool
}

func (s *splitter) write(b []byte, emit func(string)) {
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			s.add(b)
			return
		}
		s.add(b[:i])
		newline := b[i] == '\n'
		if len(s.buf) > 0 || newline && !s.afterCR {
			emit(string(s.buf))
		}
		s.buf = s.buf[:0]
		s.afterCR = !newline
		b = b[i+1:]
	}
}

func (s *splitter) add(b []byte) {
	if len(b) == 0 {
		return
	}
	s.afterCR = false
	s.buf = append(s.buf, b[:min(len(b), maxLine-len(s.buf))]...)
}

func (s *splitter) flush(emit func(string)) {
	if len(s.buf) > 0 {
		emit(string(s.buf))
	}
	s.buf = nil
}
