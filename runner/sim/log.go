package sim

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// logger writes lines as vLLM's processes do. All of them are this one process, so they share its pid.
type logger struct {
	mu  sync.Mutex
	w   io.Writer
	pid int
}

const (
	apiServer  = "APIServer"
	engineCore = "EngineCore"
)

// line writes "(APIServer pid=1) INFO 12-01 09:12:17 [file.py:1] message".
func (l *logger) line(process, level, place, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "(%s pid=%d) %s %s [%s] %s\n", process, l.pid, level, time.Now().Format("01-02 15:04:05"), place, fmt.Sprintf(format, args...))
}

func (l *logger) api(place, format string, args ...any) {
	l.line(apiServer, "INFO", place, format, args...)
}

func (l *logger) core(place, format string, args ...any) {
	l.line(engineCore, "INFO", place, format, args...)
}

// uvicorn writes a line of the HTTP server's own.
func (l *logger) uvicorn(format string, args ...any) {
	l.bare("INFO:     "+format, args...)
}

// bare writes a line without level and time, as Python does for an exception that nobody caught.
func (l *logger) bare(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "(%s pid=%d) %s\n", apiServer, l.pid, fmt.Sprintf(format, args...))
}

// uncaught writes an exception that ends the API server.
func (l *logger) uncaught(where, exception string) {
	l.bare("Traceback (most recent call last):")
	l.bare("  File \"simulated\", line 1, in %s", where)
	l.bare("%s", exception)
}

// coreDies writes an exception of the engine core.
func (l *logger) coreDies(place, headline, where, exception string) {
	for _, s := range []string{
		headline,
		"Traceback (most recent call last):",
		fmt.Sprintf("  File \"simulated\", line 1, in %s", where),
		exception,
	} {
		l.line(engineCore, "ERROR", place, "%s", s)
	}
}
