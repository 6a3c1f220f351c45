package vllm

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"h100-inference-control-plane/runner/engine"
)

// textLimit bounds the text of a fact, in bytes.
const textLimit = 300

// record is one line of vLLM's log, taken apart:
//
//	(EngineCore pid=873) INFO 12-01 09:12:17 [gpu_worker.py:771] message
//
// Every part but the message may be missing: uvicorn writes "INFO:     message", torch and Python write bare lines.
type record struct {
	process string // "APIServer", "EngineCore", "Worker_TP0", ...
	level   string // "INFO", "WARNING", "ERROR", ...; "" when the line carries none
	time    time.Time
	msg     string // with its indentation
}

// splitLine takes a line apart. Of a line that a progress bar rewrote with carriage returns, the last rewriting counts.
func splitLine(line string) record {
	line = strings.TrimRight(line, "\r\n")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	line = stripColor(line)
	var r record
	r.process, line = cutProcess(line)
	r.level, line = cutLevel(line)
	if r.level != "" {
		r.time, line = cutTime(line)
	}
	r.msg = strings.TrimRight(line, " \t")
	return r
}

// cutProcess cuts "(EngineCore_DP0 pid=873) " off a line.
func cutProcess(s string) (name, rest string) {
	if !strings.HasPrefix(s, "(") {
		return "", s
	}
	head, rest, ok := strings.Cut(s[1:], ")")
	if !ok {
		return "", s
	}
	name, pid, ok := strings.Cut(head, " pid=")
	if !ok || name == "" || strings.ContainsAny(name, " ()") {
		return "", s
	}
	if _, err := strconv.ParseUint(pid, 10, 32); err != nil {
		return "", s
	}
	return name, strings.TrimPrefix(rest, " ")
}

func cutLevel(s string) (level, rest string) {
	for _, l := range [...]string{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"} {
		rest, ok := strings.CutPrefix(s, l)
		if !ok {
			continue
		}
		if after, uvicorn := strings.CutPrefix(rest, ":"); uvicorn {
			return l, strings.TrimLeft(after, " ")
		}
		if strings.HasPrefix(rest, " ") {
			return l, strings.TrimLeft(rest, " ")
		}
	}
	return "", s
}

// cutTime cuts "12-01 09:12:17 [gpu_worker.py:771] " off a line. The year is not in it: time has year 0 and UTC.
func cutTime(s string) (time.Time, string) {
	const layout = "01-02 15:04:05"
	if len(s) < len(layout) {
		return time.Time{}, s
	}
	t, err := time.Parse(layout, s[:len(layout)])
	if err != nil {
		return time.Time{}, s
	}
	s = strings.TrimPrefix(s[len(layout):], " ")
	if place, rest, ok := strings.Cut(s, "]"); ok && strings.HasPrefix(place, "[") && strings.Contains(place, ":") {
		s = strings.TrimPrefix(rest, " ")
	}
	return t, s
}

// stripColor removes ANSI colour sequences, which vLLM writes when it believes in a terminal.
func stripColor(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return s
	}
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		s = strings.TrimLeft(after, "0123456789;")
		s = strings.TrimPrefix(s, "m")
	}
}

// LogLine reads one line of vLLM's log. 0.32.0 puts the KV size and the maximum concurrency into one line; the fact is
// the size and its Text the rest.
func (Engine) LogLine(line string) (engine.LogFact, bool) {
	r := splitLine(line)
	f, ok := fact(r)
	if !ok {
		return engine.LogFact{}, false
	}
	f.Time = r.time
	f.Text = clip(f.Text)
	return f, true
}

func fact(r record) (engine.LogFact, bool) {
	if f, ok := jitFact(r.msg); ok {
		return f, true
	}
	switch r.level {
	case "WARNING":
		return engine.LogFact{Kind: engine.FactWarning, Text: r.msg}, r.msg != ""
	case "ERROR", "CRITICAL":
		return engine.LogFact{Kind: engine.FactError, Text: r.msg}, isMessage(r.msg)
	}
	for _, read := range [...]func(string) (engine.LogFact, bool){versionFact, archFact, durationFact, cacheFact} {
		if f, ok := read(r.msg); ok {
			return f, true
		}
	}
	if r.msg == "Application startup complete." {
		return engine.LogFact{Kind: engine.FactReady}, true
	}
	return engine.LogFact{}, false
}

// jitFact reads "Triton kernel JIT compilation during inference: NAME (detail). This causes ...".
func jitFact(msg string) (engine.LogFact, bool) {
	what, rest, ok := strings.Cut(msg, " during inference: ")
	if !ok || !strings.Contains(what, "JIT") {
		return engine.LogFact{}, false
	}
	name, _, _ := strings.Cut(rest, ". ")
	name, _, _ = strings.Cut(name, " (")
	name = strings.TrimSuffix(strings.TrimSpace(name), ".")
	return engine.LogFact{Kind: engine.FactJIT, Text: name}, name != ""
}

// versionFact reads the banner ("█ version 0.25.1") and the engine's own line ("... V1 LLM engine (v0.25.1) with
// config: ...").
func versionFact(msg string) (engine.LogFact, bool) {
	v, ok := "", false
	switch {
	case strings.HasPrefix(msg, "Initializing a V1 LLM engine (v"):
		v, _, ok = strings.Cut(msg[len("Initializing a V1 LLM engine (v"):], ")")
	case strings.HasPrefix(msg, "vLLM API server version "):
		v, ok = msg[len("vLLM API server version "):], true
	default:
		if logo, after, found := strings.Cut(msg, " version "); found && strings.Contains(logo, "█") {
			v, ok = after, true
		}
	}
	v = strings.TrimSpace(v)
	if !ok || v == "" || v[0] < '0' || v[0] > '9' || strings.ContainsRune(v, ' ') {
		return engine.LogFact{}, false
	}
	return engine.LogFact{Kind: engine.FactVersion, Text: v}, true
}

func archFact(msg string) (engine.LogFact, bool) {
	a, ok := strings.CutPrefix(msg, "Resolved architecture: ")
	return engine.LogFact{Kind: engine.FactArch, Text: a}, ok && a != ""
}

// durationFact reads the lines that say how long a phase of the start took. "took 33.38 GiB and 2.5 seconds" is the
// wording of the V2 model runner.
func durationFact(msg string) (engine.LogFact, bool) {
	var k engine.FactKind
	var num, text string
	switch {
	case strings.HasPrefix(msg, "Model loading took "):
		mem, sec, ok := strings.Cut(msg[len("Model loading took "):], " and ")
		if !ok {
			return engine.LogFact{}, false
		}
		k, num, text = engine.FactModelLoad, sec, strings.TrimSuffix(mem, " memory")
	case strings.HasPrefix(msg, "torch.compile took "), strings.HasPrefix(msg, "torch.compile takes "):
		if !strings.HasSuffix(msg, " s in total") {
			return engine.LogFact{}, false // other lines of that beginning include the profiling run
		}
		_, num, _ = strings.Cut(msg[len("torch.compile "):], " ")
		k = engine.FactCompile
	case strings.HasPrefix(msg, "Graph capturing finished in "):
		num, text, _ = strings.Cut(msg[len("Graph capturing finished in "):], ", took ")
		k = engine.FactGraphCapture
	case strings.HasPrefix(msg, "init engine (") && strings.Contains(msg, ") took "):
		_, num, _ = strings.Cut(msg, ") took ")
		k = engine.FactInit
		if _, c, ok := strings.Cut(num, "(compilation: "); ok {
			text = "compilation: " + strings.TrimSuffix(c, ")")
		}
	default:
		return engine.LogFact{}, false
	}
	v, ok := leadingNumber(num)
	return engine.LogFact{Kind: k, Value: v, Text: text}, ok
}

// cacheFact reads the lines about the KV cache.
func cacheFact(msg string) (engine.LogFact, bool) {
	var k engine.FactKind
	var num, text string
	if _, after, ok := strings.Cut(msg, " KV cache size: "); ok { // "GPU" or, from 0.32 on, "CPU"
		k = engine.FactKVTokens
		num, text, _ = strings.Cut(after, " tokens")
		text = strings.TrimPrefix(text, ", ")
	} else if strings.HasPrefix(msg, "Maximum concurrency for ") {
		k = engine.FactMaxConc
		text, num, _ = strings.Cut(msg[len("Maximum concurrency for "):], ": ")
	} else if _, after, ok := strings.Cut(msg, "Setting attention block size to "); ok {
		k, num = engine.FactBlockSize, after
	} else if _, after, ok := strings.Cut(msg, "Setting kv cache block size to "); ok {
		k, num = engine.FactBlockSize, after
	} else {
		return engine.LogFact{}, false
	}
	v, ok := leadingNumber(num)
	return engine.LogFact{Kind: k, Value: v, Text: text}, ok
}

// leadingNumber reads the number at the start of s, with comma groups: "2,540,105 tokens" is 2540105.
func leadingNumber(s string) (float64, bool) {
	end := strings.IndexFunc(s, func(c rune) bool { return (c < '0' || c > '9') && c != '.' && c != ',' })
	if end < 0 {
		end = len(s)
	}
	v, err := strconv.ParseFloat(strings.TrimRight(strings.ReplaceAll(s[:end], ",", ""), "."), 64)
	return v, err == nil
}

// isMessage is false for the inner lines of a traceback, which vLLM logs line by line at level ERROR.
func isMessage(msg string) bool {
	return msg != "" && msg[0] != ' ' && msg[0] != '\t' && !isTracebackJoint(msg)
}

func isTracebackJoint(msg string) bool {
	return msg == tracebackHead || msg == causedBy || msg == whileHandling
}

// clip bounds a text without cutting a character in two, and makes it valid UTF-8.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= textLimit {
		return s
	}
	n := textLimit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
