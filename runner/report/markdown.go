package report

import (
	"bytes"
	"strings"

	"h100-inference-control-plane/runner/result"
)

// Markdown is the report for a pull request or a file: GitHub's Markdown, without links, images or HTML that comes from
// the document.
func Markdown(run *result.Run) []byte { return asMarkdown(content(run)) }

// AttributionMarkdown is the part of it that says which flag made the difference.
func AttributionMarkdown(run *result.Run) []byte { return asMarkdown(attributed(run)) }

func asMarkdown(blocks []block) []byte {
	var out bytes.Buffer
	for i, b := range blocks {
		if i > 0 {
			out.WriteByte('\n')
		}
		writeMarkdown(&out, b)
	}
	return out.Bytes()
}

func writeMarkdown(out *bytes.Buffer, b block) {
	switch b := b.(type) {
	case headline:
		out.WriteString("# " + markdown(b.verdict) + ": " + markdown(b.name) + "\n\n" + markdown(b.reason) + "\n")
	case banner:
		out.WriteString("> **" + markdown(b.text) + "**\n")
	case heading:
		out.WriteString("## " + markdown(b.text) + "\n")
	case para:
		out.WriteString(markdown(b.text) + "\n")
	case facts:
		for _, p := range b.pairs {
			out.WriteString("- **" + markdown(p[0]) + "**: " + markdown(p[1]) + "\n")
		}
	case list:
		for _, item := range b.items {
			out.WriteString("- " + markdown(item) + "\n")
		}
	case table:
		markdownTable(out, b)
	}
}

func markdownTable(out *bytes.Buffer, t table) {
	if t.folded != "" {
		out.WriteString("<details><summary>" + markdown(t.folded) + "</summary>\n\n")
	}
	row := func(cells []string, write func(string) string) {
		out.WriteByte('|')
		for _, c := range cells {
			out.WriteString(" " + write(c) + " |")
		}
		out.WriteByte('\n')
	}
	rows := dropEmpty(append([][]string{t.head}, t.rows...), t.key)
	row(rows[0], markdown)
	rule := make([]string, len(rows[0]))
	for i := range rule {
		rule[i] = "--:"
		if i < t.left || wordy(rows, i) {
			rule[i] = ":--"
		}
	}
	row(rule, func(s string) string { return s })
	for _, r := range rows[1:] {
		row(r, func(s string) string {
			if code := verdictColor(s); code != "" {
				end := strings.IndexFunc(s, func(c rune) bool { return c < 'A' || c > 'Z' })
				if end < 0 {
					end = len(s)
				}
				return "**" + s[:end] + "**" + strings.TrimRight(" "+markdown(s[end:]), " ")
			}
			return markdown(s)
		})
	}
	if t.folded != "" {
		out.WriteString("\n</details>\n")
	}
}
