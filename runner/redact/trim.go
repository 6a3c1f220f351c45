package redact

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	headLines = 12
	tailLines = 25
	lineLimit = 1500 // bytes of one line; the engine prints its whole configuration in one
	context   = 2    // lines shown around a warning or an error
)

// TrimLog returns at most max bytes of an engine's log, in the log's order: its head (version and arguments), the lines
// that say what the engine decided and how long it took, errors and warnings with what stands around them, compilations
// while serving, and its tail. What is left out is counted where it stood; progress bars are one line each. Terminal
// sequences are removed. A log that fits is kept as it is; of one that does not, requests that were answered are left out
// first. The result depends on the arguments alone. Redact first: a cut may go through a secret.
func TrimLog(log []byte, max int) []byte {
	w := newWords()
	ls := w.collapse(stripANSI(log))
	if len(ls) == 0 || max <= 0 {
		return nil
	}
	order := w.rank(ls)
	if out := render(ls, order); len(out) <= max {
		return out
	}
	// What says nothing does not fill what room there is.
	if i := slices.IndexFunc(order, func(i int) bool { return ls[i].priority == pChatter }); i >= 0 {
		order = order[:i]
	}
	// The largest number of lines, in order of importance, that fits.
	n := sort.Search(len(order), func(n int) bool { return len(render(ls, order[:n+1])) > max })
	if n > 0 {
		return render(ls, order[:n])
	}
	return cutBytes(render(ls, nil), max)
}

func cutBytes(b []byte, max int) []byte {
	if len(b) <= max {
		return b
	}
	b = b[:max]
	for len(b) > 0 && !utf8.Valid(b) {
		b = b[:len(b)-1]
	}
	return b
}

// A line is one line of the log with how much it matters; 0 is the most.
type line struct {
	text     string
	priority int
	folded   int // progress updates that it stands for, besides itself
}

// collapse cuts a log into lines, each short enough and free of control characters, with every progress bar as one.
func (w words) collapse(log []byte) []line {
	var out []line
	last := "" // label of the progress bar that the last line belongs to
	for raw := range bytes.Lines(log) {
		segments := strings.FieldsFunc(string(bytes.TrimRight(raw, "\r\n")), func(c rune) bool { return c == '\r' })
		if len(segments) == 0 {
			segments = []string{""}
		}
		for _, s := range segments {
			s = tidy(s)
			label := ""
			if strings.Contains(s, "%|") {
				label = w.label(s)
			}
			switch {
			case label != "" && label == last:
				out[len(out)-1].text = s
				out[len(out)-1].folded++
			case strings.TrimSpace(withoutPrefix(s)) == "": // vLLM prints its prefix alone around bars
				continue
			default:
				out = append(out, line{text: s})
				last = label
			}
		}
	}
	return out
}

// label is what a progress bar says before its percentage, or "" when the line is none.
func (w words) label(s string) string {
	if m := w.progress.FindStringSubmatch(s); m != nil {
		return "bar:" + withoutPrefix(m[1])
	}
	return ""
}

// tidy makes a line valid UTF-8 without control characters and cuts it to the limit.
func tidy(s string) string {
	if !plain(s) {
		s = withoutControls(s)
	}
	if len(s) <= lineLimit {
		return s
	}
	head := cutBytes([]byte(s), lineLimit)
	return fmt.Sprintf("%s [... %d bytes left out]", head, len(s)-len(head))
}

// plain is true for printable ASCII, which most lines are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func withoutControls(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\t':
			return ' '
		case c < 0x20 || c >= 0x7f && c < 0xa0:
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Priorities.
const (
	pCause  = iota // the first error, with its surroundings
	pFact          // what the engine decided, and how long it took
	pError         // other errors; compilations while serving
	pEdge          // head and tail
	pWarn          // warnings
	pNear          // lines around errors and warnings
	pRest          // everything else
	pRepeat        // what was said before
	pChatter
)

// rank classifies the lines and returns their indices, the most important first, and within a class in the log's order.
func (w words) rank(ls []line) []int {
	w.classify(ls)
	order := make([]int, len(ls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return ls[a].priority - ls[b].priority })
	return order
}

func (w words) classify(ls []line) {
	seen := map[string]int{}
	near := map[int]bool{}
	cause := false
	for i := range ls {
		p := w.kind(ls[i].text)
		if p == pChatter {
			ls[i].priority = p
			continue
		}
		if p == pError && !cause && !containsAny(ls[i].text, w.jit) {
			p, cause = pCause, true
		}
		if p == pCause || p == pError || p == pWarn {
			for k := max(0, i-context); k <= min(len(ls)-1, i+context); k++ {
				near[k] = true
			}
		}
		// The same line with other numbers: the engine repeats stack traces for every request that it drops.
		key := shape(ls[i].text)
		seen[key]++
		if seen[key] > 2 && p > pCause && p < pRepeat {
			p = pRepeat
		}
		ls[i].priority = p
	}
	for i := range ls {
		p := &ls[i].priority
		if near[i] && *p == pRest {
			*p = pNear
		}
		if (i < headLines || i >= len(ls)-tailLines) && *p > pEdge && *p != pChatter {
			*p = pEdge
		}
	}
}

// kind is what a line says, as far as the line alone tells.
func (w words) kind(text string) int {
	// A line with a level of its own is what the level says: a warning may quote an error.
	isError := containsAny(text, w.errors) && !strings.Contains(text, " INFO ") && !strings.Contains(text, "WARNING ")
	switch {
	case !isError && containsAny(text, w.chatter):
		return pChatter
	case containsAny(text, w.jit):
		return pError
	case isError && isFrame(text):
		return pNear // a frame of a stack trace means little without the line below it
	case isError:
		return pError
	case containsAny(strings.ToLower(text), w.facts):
		return pFact
	case containsAny(text, w.warnings):
		return pWarn
	}
	return pRest
}

// isFrame recognises the frames of a Python stack trace, with or without a log prefix.
func isFrame(text string) bool {
	return strings.Contains(text, "Traceback (most recent") || strings.Contains(text, "]   ") || strings.HasPrefix(text, "  ") || strings.Contains(text, "^^^^")
}

func containsAny(text string, list []string) bool {
	for _, s := range list {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// words recognise the lines of an engine's log. Plain texts, not expressions: a log may have a million lines.
type words struct {
	progress                              *regexp.Regexp
	facts, errors, warnings, jit, chatter []string // facts are lower case
}

func newWords() words {
	return words{
		progress: regexp.MustCompile(`^(.*?)\s*\d+%\|[^|]*\|`),
		facts: []string{"non-default args", "  version ", "engine (v", "resolved architecture", "max model len", "chunked prefill is", "asynchronous scheduling is",
			"prefix caching", "backend out of potential", "attention backend", "loading took", "loading weights took", "attention block size", "torch.compile took",
			"compiling a graph", "compiled graph", "bytecode transform time", "warmup run took", "kv cache memory", "kv cache size", "maximum concurrency",
			"graph capturing finished", "init engine", "moe config", "cudagraph is", "gpu-memory-utilization=", "starting vllm server", "startup complete"},
		errors:   []string{"ERROR", "CRITICAL", "FATAL", "Error:", "Exception:", "out of memory", "Traceback (", "Segmentation fault", "core dumped", "Killed"},
		warnings: []string{"WARN", "Warning"},
		jit:      []string{"JIT compilation during inference"},
		chatter:  []string{`HTTP/1.1" 20`, `HTTP/1.1" 304`, "] Route: /", "Available routes are", "▀", "▄"},
	}
}

// shape is a line without its numbers: lines of the same shape say the same.
func shape(s string) string {
	out := []byte(withoutPrefix(s))
	kept := out[:0]
	for _, c := range out {
		if c >= '0' && c <= '9' {
			if len(kept) > 0 && kept[len(kept)-1] == '#' {
				continue
			}
			c = '#'
		}
		kept = append(kept, c)
	}
	return string(kept)
}

// withoutPrefix removes vLLM's "(EngineCore pid=123)".
func withoutPrefix(s string) string {
	if !strings.HasPrefix(s, "(APIServer") && !strings.HasPrefix(s, "(EngineCore") && !strings.HasPrefix(s, "(Worker") {
		return s
	}
	if _, rest, ok := strings.Cut(s, ")"); ok {
		return strings.TrimLeft(rest, " ")
	}
	return s
}

// render writes the chosen lines and, between them, how many were left out.
func render(ls []line, chosen []int) []byte {
	keep := make([]bool, len(ls))
	for _, i := range chosen {
		keep[i] = true
	}
	var out bytes.Buffer
	gap := 0
	flush := func() {
		if gap > 0 {
			fmt.Fprintf(&out, "[... %s left out]\n", count(gap, "line"))
		}
		gap = 0
	}
	for i, l := range ls {
		if !keep[i] {
			gap++
			continue
		}
		flush()
		out.WriteString(l.text)
		if l.folded > 0 {
			fmt.Fprintf(&out, " [+%s]", count(l.folded, "update"))
		}
		out.WriteByte('\n')
	}
	flush()
	return out.Bytes()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
