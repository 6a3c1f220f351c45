package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Line is one prompt of a file.
type Line struct {
	Prompt    string
	MaxTokens int // 0 = the workload's output.tokens
}

// ParseFile reads JSON Lines. Each line that is not blank is an object with "prompt" (a string, not empty) and
// optionally "max_tokens" (1..1,000,000); other keys are ignored, so that published data sets work as they are. A file
// without a prompt is an error; each error says its line, counted from 1.
func ParseFile(content []byte) ([]Line, error) {
	var out []Line
	for n := 1; len(content) > 0; n++ {
		var raw []byte
		raw, content, _ = bytes.Cut(content, []byte("\n"))
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		l, err := parseLine(raw)
		if err != nil {
			return nil, fmt.Errorf("line %d of the prompt file: %w", n, err)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, errors.New("the prompt file has no prompt")
	}
	return out, nil
}

func parseLine(raw []byte) (Line, error) {
	var in struct {
		Prompt    *string `json:"prompt"`
		MaxTokens *int    `json:"max_tokens"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Line{}, err
	}
	if in.Prompt == nil || *in.Prompt == "" {
		return Line{}, errors.New(`it has no "prompt"`)
	}
	l := Line{Prompt: *in.Prompt}
	if in.MaxTokens != nil {
		if err := within("max_tokens", *in.MaxTokens, 1, maxTokens); err != nil {
			return Line{}, err
		}
		l.MaxTokens = *in.MaxTokens
	}
	return l, nil
}

func (l Line) maxTokens(w Workload) int {
	if l.MaxTokens > 0 {
		return l.MaxTokens
	}
	return w.Output.Tokens
}

// class groups prompts by their number of words, rounded up to a power of two: an engine compiles per shape, and files
// rarely repeat a length exactly.
func (l Line) class() string {
	n := len(strings.Fields(l.Prompt))
	return strconv.Itoa(1 << bits.Len(uint(max(n, 1)-1)))
}

func oneOfEachClassFirst(lines []Line) []Line {
	seen := map[string]bool{}
	var first, rest []Line
	for _, l := range lines {
		if c := l.class(); !seen[c] {
			seen[c] = true
			first = append(first, l)
			continue
		}
		rest = append(rest, l)
	}
	return append(first, rest...)
}
