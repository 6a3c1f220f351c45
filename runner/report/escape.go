package report

import (
	"fmt"
	"regexp"
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
// them.
func markdown(s string) string {
	s = clean(s)
	s = strings.NewReplacer(
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "~", `\~`, "[", `\[`, "]", `\]`, "|", `\|`, "!", `\!`, "$", `\$`,
		"<", "&lt;", ">", "&gt;", "&", "&amp;",
		"@", "@"+zeroWidth, "#", "#"+zeroWidth, "://", ":"+zeroWidth+"//", "www.", "www"+zeroWidth+".", "WWW.", "WWW"+zeroWidth+".",
	).Replace(s)
	s = regexp.MustCompile(`(?i)\bGH-(\d)`).ReplaceAllString(s, "GH-"+zeroWidth+"$1")
	// What would begin a list, a heading's underline or a numbered list at the start of a line.
	if s != "" && strings.ContainsRune("-+=", rune(s[0])) {
		return `\` + s
	}
	return regexp.MustCompile(`^(\d+)([.)]( |$))`).ReplaceAllString(s, `$1\$2`)
}

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
