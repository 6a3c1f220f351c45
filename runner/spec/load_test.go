package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadFailure(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	f := func(path, message, hint string) {
		t.Helper()
		e, faults := Load(path)
		if e != nil || len(faults) != 1 {
			t.Fatalf("%s: %v, want one fault", path, faults)
		}
		got := faults[0]
		if got.Error() != path+message || got.Hint != hint {
			t.Errorf("got  %q, hint %q\nwant %q, hint %q", got.Error(), got.Hint, path+message, hint)
		}
	}
	f(filepath.Join(dir, "nothing.yaml"), ": no such file", "")
	write("quickstart.yaml", []byte(small))
	f(filepath.Join(dir, "quikstart.yaml"), ": no such file", "did you mean "+filepath.Join(dir, "quickstart.yaml")+"?")
	f(filepath.Join(dir, "quickstart"), ": no such file", "did you mean "+filepath.Join(dir, "quickstart.yaml")+"?")
	f(dir, ": is a directory", "name the files in it, such as "+filepath.Join(dir, "*.yaml"))
	f(os.DevNull, ": is not a regular file", "write the experiment to a file first")
	f(write("large.yaml", []byte(strings.Repeat("# x\n", 300_000))), ": the file has 1.1 MiB; an experiment has at most 1 MiB", "many prompts go into a JSON Lines file of their own: workload.prompt.file")
	f(write("bom.yaml", []byte("\xef\xbb\xbf"+small)), ":1:1: the file begins with a byte order mark", "save it as UTF-8 without BOM")
	f(write("cr.yaml", []byte(strings.ReplaceAll(small, "\n", "\r"))), `:1:21: control character '\r'`, `leave it out; in double quotes it can be written as an escape, such as \x07`)
}

// TestHugeFileIsNotRead: a sparse file of 50 GB has no bytes on the disk, and reading it would take minutes.
func TestHugeFileIsNotRead(t *testing.T) {
	p := filepath.Join(t.TempDir(), "huge.yaml")
	f, err := os.Create(p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(50 << 30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	if _, faults := Load(p); len(faults) != 1 || !strings.Contains(faults[0].Message, "51200.0 MiB") {
		t.Errorf("faults: %v", faults)
	}
}

// TestPromptFileStaysInside: an experiment of a stranger must not make us read, and quote, files of ours.
func TestPromptFileStaysInside(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("swordfish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link.jsonl")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"link.jsonl": "escapes", secret: "is not inside the folder", "../x": "is not inside the folder", "sub": "is a directory",
	} {
		_, faults := Parse(filepath.Join(dir, "x.yaml"), []byte(strings.Replace(small, "text: hello", "file: "+name, 1)))
		if got := render(faults); !strings.Contains(got, want) || strings.Contains(got, "swordfish") {
			t.Errorf("%s: %s; want %q", name, got, want)
		}
	}
}

func TestPromptFileTooLarge(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "p.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxPrompts + 1); err != nil {
		t.Fatal(err)
	}
	_, faults := Parse(filepath.Join(dir, "x.yaml"), []byte(strings.Replace(small, "text: hello", "file: p.jsonl", 1)))
	if got := render(faults); !strings.Contains(got, "p.jsonl: more than 32 MiB") {
		t.Errorf("faults: %s", got)
	}
}

// TestHostileFiles gives the parser what makes YAML parsers recurse, copy and expand. Each has to end in a fault.
func TestHostileFiles(t *testing.T) {
	const n = 1 << 18
	for name, text := range map[string]string{
		"brackets":      strings.Repeat("[", n),
		"braces":        strings.Repeat("{a: ", n/2),
		"dashes":        strings.Repeat("- ", n),
		"question":      strings.Repeat("? ", n),
		"colons":        strings.Repeat("a: ", n),
		"tags":          strings.Repeat("!a ", n),
		"anchors":       strings.Repeat("&a ", n),
		"aliases":       "a: &a [x]\nb: [" + strings.Repeat("*a, ", n/8) + "*a]",
		"lines":         strings.Repeat("a: b\n", n/2),
		"documents":     strings.Repeat("---\n", n),
		"long key":      strings.Repeat("k", n) + ": x",
		"deep blocks":   deep(1200),
		"deep sequence": strings.Repeat("-\n ", 3) + strings.Repeat("- - - - - - - - - - - - - ", 10),
		"directives":    strings.Repeat("%a\n", n),
		"open quote":    "a: \"" + strings.Repeat("x\n", n),
		"zeros":         strings.Repeat("\x00", n),
		"number":        "starts: " + strings.Repeat("9", n),
		"exponent":      "starts: 1e" + strings.Repeat("9", 1000),
		"unknown keys":  small + numbered(20_000),
	} {
		e, faults := Parse("x.yaml", []byte(text))
		if e != nil || len(faults) == 0 {
			t.Errorf("%s: accepted", name)
		}
		if len(faults) > maxFaults+1 {
			t.Errorf("%s: %d faults are more than a person reads", name, len(faults))
		}
		for _, f := range faults {
			if len(f.Error()) > 2000 {
				t.Errorf("%s: a message of %d bytes", name, len(f.Error()))
			}
		}
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()[:min(b.Len(), maxFile)]
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strings.Repeat("x", i%10) + string(rune('a'+i%26)) + ": 1\n")
	}
	return b.String()
}
