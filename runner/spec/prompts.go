package spec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"h100-inference-control-plane/runner/workload"
)

// maxPrompts is the size of the largest prompt file, in bytes.
const maxPrompts = 32 << 20

// maxPromptFaults is how many faults of one prompt file are reported.
const maxPromptFaults = 10

// promptFile reads and checks the prompt file that the workload names. It stays inside the experiment's folder, also
// through symbolic links: an experiment may come from a stranger, and faults quote the file.
func (r *reader) promptFile(p *filePromptFile, dir string) *workload.File {
	const key = "workload.prompt.file"
	shown := filepath.Join(dir, p.path)
	data, err := readPrompts(dir, p.path)
	if err != nil {
		r.on(key, fmt.Sprintf("%s: %s: %s", key, shown, cause(err)), "the path starts at the folder of this file")
		return nil
	}
	sum := sha256.Sum256(data)
	f := &workload.File{Path: p.path, SHA256: hex.EncodeToString(sum[:]), Content: data}
	if p.sha256 != "" && p.sha256 != f.SHA256 {
		r.on(key+".sha256", fmt.Sprintf("%s: %s has changed: its SHA-256 is %s", key, shown, f.SHA256), "write the new one, or leave sha256 out")
	}
	r.prompts(shown, data)
	return f
}

var errNotRegular = errors.New("is not a regular file")

func readPrompts(dir, path string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("is a directory")
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	}
	data, err := readAtMost(func() (fs.File, error) { return root.Open(path) }, maxPrompts)
	if err == nil && len(data) > maxPrompts {
		err = fmt.Errorf("more than %d MiB", maxPrompts>>20)
	}
	return data, err
}

// prompt is a line of a prompt file.
type prompt struct {
	Prompt    *string         `json:"prompt"`
	MaxTokens json.RawMessage `json:"max_tokens"`
}

func (r *reader) prompts(file string, data []byte) {
	if len(bytes.TrimSpace(data)) == 0 {
		r.add(Fault{File: file, Line: 1, Column: 1, Message: "no prompt in the file", Hint: `each line is like {"prompt": "Explain GPUs simply"}`})
		return
	}
	faults := 0
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	for i, l := range lines {
		column, message, hint := promptLine(l)
		if message == "" {
			continue
		}
		if faults++; faults > maxPromptFaults {
			r.add(Fault{File: file, Line: i + 1, Column: 1, Message: "and more lines like these"})
			return
		}
		r.add(Fault{File: file, Line: i + 1, Column: column, Message: message, Text: excerpt(strings.ToValidUTF8(string(l), "?")), Hint: hint})
	}
}

func promptLine(l []byte) (column int, message, hint string) {
	const example = `each line is like {"prompt": "Explain GPUs simply"}`
	switch {
	case bytes.HasPrefix(l, []byte("\xef\xbb\xbf")):
		return 1, "the line begins with a byte order mark", "save the file as UTF-8 without BOM"
	case !utf8.Valid(l):
		return 1, "not UTF-8", "save the file as UTF-8"
	case len(bytes.TrimSpace(l)) == 0:
		return 1, "an empty line", "leave it out"
	}
	d := json.NewDecoder(bytes.NewReader(l))
	d.DisallowUnknownFields()
	var p prompt
	if err := d.Decode(&p); err != nil {
		return jsonFault(l, err)
	}
	rest := bytes.TrimSpace(l[d.InputOffset():])
	switch {
	case len(rest) > 0:
		return characters(l, d.InputOffset()) + 1, "something follows the object", "one object a line"
	case p.Prompt == nil:
		return 1, "the line has no prompt", example
	case strings.TrimSpace(*p.Prompt) == "":
		return 1, "the prompt is empty", ""
	case p.MaxTokens != nil:
		if n, err := strconv.Atoi(string(p.MaxTokens)); err != nil || n < 1 || n > 1_000_000 {
			return 1, fmt.Sprintf("max_tokens is %s: want a whole number from 1 up to 1,000,000", excerpt(string(p.MaxTokens))), ""
		}
	}
	return 0, "", ""
}

// jsonFault places the decoder's error in the line.
func jsonFault(l []byte, err error) (int, string, string) {
	const example = `each line is like {"prompt": "Explain GPUs simply"}`
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return characters(l, int64(len(l))) + 1, "not JSON: the line ends too early", example
	case errors.As(err, &syntax):
		return characters(l, syntax.Offset-1) + 1, "not JSON: " + syntax.Error(), example
	case errors.As(err, &wrong) && wrong.Field == "":
		return 1, "want an object, got " + wrong.Value, example
	case errors.As(err, &wrong):
		return 1, fmt.Sprintf("%s: want text, got %s", wrong.Field, wrong.Value), example
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		return 1, "unknown key " + name, "known here: prompt, max_tokens"
	}
	return 1, "not JSON: " + text, example
}

// characters counts the characters before byte offset.
func characters(l []byte, offset int64) int {
	return utf8.RuneCount(l[:min(max(offset, 0), int64(len(l)))])
}
