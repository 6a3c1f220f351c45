package redact

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A unit is one character of an original text as it may stand in an escaped one: the bytes that it means, and how many
// bytes it takes.
type unit struct {
	value string
	size  int
}

// units returns the ways in which the text at i may be read, the literal one first. i is inside the text.
func units(text string, i int) []unit {
	c := text[i]
	out := []unit{{text[i : i+1], 1}}
	switch c {
	case '%':
		if b, ok := hexByte(text, i+1, 2); ok {
			out = append(out, unit{string([]byte{byte(b)}), 3})
		}
	case '+':
		out = append(out, unit{" ", 1})
	case '\\':
		out = append(out, backslash(text, i)...)
	case '&':
		if u, ok := entity(text, i); ok {
			out = append(out, u)
		}
	}
	return out
}

// maxBackslashes are what three rounds of escaping make of one. It bounds the work on a text full of them.
const maxBackslashes = 8

// backslash reads the escapes of JSON and of Python strings. Several backslashes before one character are a text that
// was escaped more than once.
func backslash(text string, i int) []unit {
	j := i
	for j < len(text) && j-i < maxBackslashes && text[j] == '\\' {
		j++
	}
	var out []unit
	for n := 2; n <= j-i; n++ {
		out = append(out, unit{`\`, n}) // any number of them may stand for one
	}
	if j == len(text) {
		return out
	}
	size := j - i + 1
	switch c := text[j]; c {
	case 'n':
		out = append(out, unit{"\n", size})
	case 't':
		out = append(out, unit{"\t", size})
	case 'r':
		out = append(out, unit{"\r", size})
	case 'u':
		if r, ok := hexByte(text, j+1, 4); ok {
			if low, ok := lowSurrogate(text, j+5, r); ok {
				out = append(out, unit{string(low.r), size + 4 + low.size})
			}
			out = append(out, unit{string(rune(r)), size + 4})
		}
	case 'x':
		if b, ok := hexByte(text, j+1, 2); ok {
			out = append(out, unit{string([]byte{byte(b)}), size + 2})
		}
	default:
		out = append(out, unit{string(c), size})
	}
	return out
}

type low struct {
	r    rune
	size int
}

// lowSurrogate reads the second half of a character beyond the 16-bit plane, \uD83D\uDE00.
func lowSurrogate(text string, i int, high uint64) (low, bool) {
	if !utf16.IsSurrogate(rune(high)) {
		return low{}, false
	}
	j := i
	for j < len(text) && j-i < maxBackslashes && text[j] == '\\' {
		j++
	}
	if j == i || j >= len(text) || text[j] != 'u' {
		return low{}, false
	}
	second, ok := hexByte(text, j+1, 4)
	if !ok {
		return low{}, false
	}
	r := utf16.DecodeRune(rune(high), rune(second))
	return low{r, j + 5 - i}, r != utf8.RuneError
}

func hexByte(text string, i, digits int) (uint64, bool) {
	if i+digits > len(text) {
		return 0, false
	}
	v, err := strconv.ParseUint(text[i:i+digits], 16, 32)
	return v, err == nil
}

// entity reads &amp; and the like, and numeric references.
func entity(text string, i int) (unit, bool) {
	end := strings.IndexByte(text[i:min(len(text), i+10)], ';')
	if end < 2 {
		return unit{}, false
	}
	name := text[i+1 : i+end]
	switch name {
	case "amp":
		return unit{"&", end + 1}, true
	case "lt":
		return unit{"<", end + 1}, true
	case "gt":
		return unit{">", end + 1}, true
	case "quot":
		return unit{`"`, end + 1}, true
	case "apos":
		return unit{"'", end + 1}, true
	}
	digits, numeric := strings.CutPrefix(name, "#")
	if !numeric {
		return unit{}, false
	}
	base := 10
	if x := strings.TrimLeft(digits, "xX"); x != digits {
		digits, base = x, 16
	}
	v, err := strconv.ParseUint(digits, base, 32)
	if err != nil || v == 0 || v > utf8.MaxRune {
		return unit{}, false
	}
	return unit{string(rune(v)), end + 1}, true
}

// matchValue returns where the value that begins at i ends, or -1. Each character may stand in its own way. Where a
// character can be read in two ways both are followed; what has been tried is remembered, so that the work is bounded
// by the product of the two lengths that are looked at.
func matchValue(text string, i int, value []byte) int {
	// Nearly every call ends here: the second byte differs.
	j, k := i, 0
	for k < len(value) && j < len(text) && text[j] == value[k] && !escapes(text[j]) {
		j, k = j+1, k+1
	}
	if k == len(value) {
		return j
	}
	if j >= len(text) || !escapes(text[j]) {
		return -1
	}
	return follow(text, j, string(value[k:]), map[[2]int]bool{})
}

func escapes(c byte) bool { return c == '%' || c == '\\' || c == '&' || c == '+' }

func follow(text string, i int, rest string, dead map[[2]int]bool) int {
	if rest == "" {
		return i
	}
	key := [2]int{i, len(rest)}
	if i >= len(text) || dead[key] {
		return -1
	}
	for _, u := range units(text, i) {
		if strings.HasPrefix(rest, u.value) {
			if end := follow(text, i+u.size, rest[len(u.value):], dead); end >= 0 {
				return end
			}
		}
	}
	dead[key] = true
	return -1
}
