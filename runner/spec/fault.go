package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Fault is one thing that is wrong with a file. Line and Column count characters from 1; both are 0 when the whole
// file is at fault.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Text    string `json:"text,omitempty"` // the offending text, at most 80 characters
	Hint    string `json:"hint,omitempty"` // what to write instead; "" = nothing better is known
}

// Error is FILE:LINE:COL: message, the form that editors jump to. The hint belongs on a line of its own.
func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// sortFaults puts the faults of the experiment file before those of files it names, each in the order of reading.
func sortFaults(file string, faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(btoi(a.File != file), btoi(b.File != file)),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
		)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxText is the length of the longest excerpt, in characters.
const maxText = 80

// excerpt is s on one line and not too long.
func excerpt(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= maxText {
		return s
	}
	return string([]rune(s)[:maxText-3]) + "..."
}

// closest returns the candidate that s is likely a slip of, or "".
func closest(s string, candidates []string) string {
	best, at := "", min(max(1, len(s)/3), 4)+1
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(strings.ToLower(s), strings.ToLower(c)); d < at {
			best, at = c, d
		}
	}
	return best
}

// oneOf says what could have been meant: the nearest candidate, or all of them.
func oneOf(s string, candidates []string) string {
	if len(s) <= 64 {
		if best := closest(s, candidates); best != "" {
			return "did you mean " + best + "?"
		}
	}
	return "known here: " + strings.Join(candidates, ", ")
}
