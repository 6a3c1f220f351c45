package report

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// clean makes any text one line that a terminal and a log can show as it is: white space becomes single spaces, control
// and format characters (escape sequences, marks that turn the direction of writing) become visible, and what a CI system
// would take for a command is broken up. Everything that a spec, an engine or a server can say goes through it.
func clean(s string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD") {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) && c != '\u200d' || c == '\u2028' || c == '\u2029' {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	words := strings.Split(b.String(), " ")
	for i, w := range words {
		if strings.HasPrefix(w, "::") { // ::error::, ::set-output::
			w = ": " + w[1:]
		}
		words[i] = strings.ReplaceAll(w, "##[", "## [")
	}
	return strings.Join(words, " ")
}

// short is clean with at most n characters as people count them.
func short(s string, n int) string {
	s = clean(s)
	if uniseg.GraphemeClusterCount(s) <= n {
		return s
	}
	var b strings.Builder
	for g := uniseg.NewGraphemes(s); g.Next() && n > 1; n-- {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}

const zeroWidth = "\u200b"

// markdown escapes a text for GitHub's Markdown, in a paragraph, a list or a table cell: no markup, no HTML, no cell
// borders, no links, mentions or references to issues. No code spans are used for foreign text: a backtick inside ends
// them. What GitHub looks for after rendering (@name, #1, GH-1, addresses) is broken by a space of no width.
func markdown(s string) string {
	s = clean(s)
	var b strings.Builder
	for i, c := range s {
		switch c {
		case '\\', '`', '*', '_', '~', '[', ']', '|', '!', '$':
			b.WriteByte('\\')
			b.WriteRune(c)
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		case '@', '#':
			b.WriteRune(c)
			b.WriteString(zeroWidth)
		case '-', '+', '=': // a list or the underline of a heading
			if i == 0 {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
			if folded(s, i-2, "gh-") {
				b.WriteString(zeroWidth)
			}
		case '.', ')': // a numbered list
			if i > 0 && digits(s[:i]) && (i+1 == len(s) || s[i+1] == ' ') {
				b.WriteByte('\\')
			}
			if folded(s, i-3, "www.") {
				b.WriteString(zeroWidth)
			}
			b.WriteRune(c)
		case ':':
			b.WriteRune(c)
			if folded(s, i, "://") {
				b.WriteString(zeroWidth)
			}
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// folded says whether s has word (lower case) at i, in any case of letters.
func folded(s string, i int, word string) bool {
	return i >= 0 && i+len(word) <= len(s) && strings.EqualFold(s[i:i+len(word)], word)
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// width is how many columns of a terminal a text takes.
func width(s string) int { return uniseg.StringWidth(s) }

// wrap breaks a cleaned text into lines of at most n columns; a longer word has a line of its own. n <= 0 = no limit.
func wrap(s string, n int) []string {
	if n <= 0 {
		return []string{s}
	}
	var lines []string
	line := ""
	for _, w := range strings.Split(s, " ") {
		switch {
		case line == "":
			line = w
		case width(line)+1+width(w) <= n:
			line += " " + w
		default:
			lines = append(lines, line)
			line = w
		}
	}
	return append(lines, line)
}
