package validity

import (
	"fmt"
	"strings"
)

// Reference is docs/reference/checks.md.
func Reference() []byte {
	var b strings.Builder
	b.WriteString("<!-- generated from runner/validity; BENCH_UPDATE=1 go test ./runner/validity rewrites it -->\n# Checks\n\n")
	b.WriteString("Every check that a result document may hold. [Validity](../explanation/validity.md) says how they are meant; [faults](faults.md) shows which fault trips which.\n")
	b.WriteString("\n## Of a trial\n")
	head(&b)
	for _, c := range trialChecks() {
		row(&b, c.name, c.title, c.limit, c.severity, c.consequence, c.fix)
	}
	b.WriteString("\n## Of a run\n")
	head(&b)
	for _, c := range runChecks() {
		row(&b, c.name, c.title, c.limit, c.severity, c.consequence, c.fix)
	}
	return []byte(b.String())
}

func head(b *strings.Builder) {
	b.WriteString("\n| name | fails when | limit | a failure | consequence | what helps |\n|---|---|---|---|---|---|\n")
}

func row(b *strings.Builder, name, title, limit string, s severity, consequence, fix string) {
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", name, title, limit,
		[...]string{invalid: "invalidates", warns: "warns", ofTheHost: "invalidates; warns of a simulated engine"}[s], consequence, fix)
}
