package spec

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on a file. They are far above any experiment, and keep the YAML parser, which recurses and copies paths, in
// bounds whatever it is given.
const (
	maxFile    = 1 << 20 // bytes
	maxTokens  = 50_000
	maxNesting = 24  // brackets inside brackets
	maxPerLine = 12  // dashes or colons of block style on one line
	maxKey     = 200 // characters
)

// tree reads the one document of a file to its syntax tree. The body is nil when there are faults.
func (r *reader) tree(data []byte) ast.Node {
	text, ok := r.text(data)
	if !ok {
		return nil
	}
	r.lines = strings.Split(text, "\n")
	if !r.indentation() {
		return nil
	}
	doc, err := r.parse(text)
	if err != nil {
		r.syntax(err)
		return nil
	}
	if doc == nil && len(r.faults) == 0 {
		r.add(Fault{Line: 1, Column: 1, Message: "the file is empty", Hint: "an experiment begins with apiVersion: " + APIVersion})
	}
	return doc
}

// text checks the encoding and turns CRLF into LF, which the lexer would count as two lines in places.
func (r *reader) text(data []byte) (string, bool) {
	switch {
	case len(data) > maxFile:
		r.add(tooLarge(int64(len(data))))
		return "", false
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		r.add(Fault{Line: 1, Column: 1, Message: "the file begins with a byte order mark", Hint: "save it as UTF-8 without BOM"})
		return "", false
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		r.add(Fault{Line: 1, Column: 1, Message: "the file is UTF-16", Hint: "save it as UTF-8 without BOM"})
		return "", false
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	line, column := 1, 1
	for i, c := range text {
		if c == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				r.add(Fault{Line: line, Column: column, Message: fmt.Sprintf("not UTF-8: byte 0x%02x", text[i]), Hint: "save the file as UTF-8"})
				return "", false
			}
		}
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			r.add(Fault{Line: line, Column: column, Message: fmt.Sprintf("control character %q", c), Hint: `leave it out; in double quotes it can be written as an escape, such as \x07`})
			return "", false
		}
		column++
		if c == '\n' {
			line, column = line+1, 1
		}
	}
	return text, true
}

func tooLarge(n int64) Fault {
	return Fault{
		Message: fmt.Sprintf("the file has %.1f MiB; an experiment has at most %d MiB", float64(n)/(1<<20), maxFile>>20),
		Hint:    "many prompts go into a JSON Lines file of their own: workload.prompt.file",
	}
}

// indentation finds tabs where YAML wants spaces; the parser's own message for them points elsewhere.
func (r *reader) indentation() bool {
	for i, l := range r.lines {
		if strings.HasPrefix(l, "\t") && strings.TrimSpace(l) != "" && !r.full() {
			r.add(Fault{Line: i + 1, Column: 1, Message: "a tab indents this line", Text: excerpt(l), Hint: "YAML is indented with spaces"})
		}
	}
	return len(r.faults) == 0
}

// parse returns the body of the one document, or nil when there is none or the tokens are at fault.
func (r *reader) parse(text string) (body ast.Node, err error) {
	defer func() { // a parser that panics on a file has read a broken file
		if p := recover(); p != nil {
			body, err = nil, fmt.Errorf("the YAML parser gave up: %v", p)
		}
	}()
	tokens := lexer.Tokenize(text)
	if !r.allowed(tokens) {
		return nil, nil
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	var found ast.Node
	for _, d := range f.Docs {
		if d.Body == nil {
			continue
		}
		if found != nil {
			p := r.place(d.Body)
			r.add(Fault{Line: p.Line, Column: p.Column, Message: "a second document begins here", Hint: "one experiment a file: move it to a file of its own"})
			return nil, nil
		}
		found = d.Body
	}
	return found, nil
}

// allowed refuses what an experiment has no use for (aliases, which can make a small file huge; tags; complex keys)
// and what is nested or repeated beyond reason, before the parser sees it.
func (r *reader) allowed(tokens token.Tokens) bool {
	s := shape{}
	for _, t := range tokens {
		if t.Type == token.InvalidType {
			return true // the parser reports it first
		}
		message, hint := s.refuse(t)
		if message != "" {
			r.add(Fault{Line: t.Position.Line, Column: t.Position.Column, Message: message, Text: excerpt(t.Origin), Hint: hint})
			return false
		}
	}
	return true
}

// shape counts what has been seen of a token stream.
type shape struct {
	tokens, depth    int
	documents        int
	line, onThisLine int
}

func (s *shape) refuse(t *token.Token) (message, hint string) {
	const spell = "write the value out where it is needed"
	if t.Type == token.CommentType {
		return "", ""
	}
	s.tokens++
	if s.tokens > maxTokens {
		return fmt.Sprintf("more than %d words and marks in one experiment", maxTokens), "split it into several experiments"
	}
	if t.Position.Line != s.line {
		s.line, s.onThisLine = t.Position.Line, 0
	}
	switch t.Type {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return "anchors, aliases and merge keys are not allowed", spell
	case token.TagType:
		return "YAML tags are not allowed", "leave it out; text that looks like a number goes in quotes"
	case token.DirectiveType:
		return "YAML directives are not allowed", "leave the line out"
	case token.MappingKeyType:
		return "a key that begins with ? is not allowed", "a key is one word"
	case token.DocumentHeaderType:
		if s.documents++; s.documents > 1 || s.tokens > 1 {
			return "a second document begins here", "one experiment a file: move it to a file of its own"
		}
	case token.MappingStartType, token.SequenceStartType:
		if s.depth++; s.depth > maxNesting {
			return fmt.Sprintf("brackets are nested more than %d deep", maxNesting), "an experiment has no use for that"
		}
	case token.MappingEndType, token.SequenceEndType:
		s.depth--
	case token.MappingValueType, token.SequenceEntryType:
		if t.Type == token.MappingValueType && t.Prev != nil && len(t.Prev.Value) > maxKey {
			return fmt.Sprintf("a key of more than %d characters", maxKey), "is a quote or a line break missing?"
		}
		if s.onThisLine++; s.depth <= 0 && s.onThisLine > maxPerLine {
			return "too many levels begin on one line", "begin a line for each"
		}
	}
	return "", ""
}

// syntax turns the parser's error into a fault.
func (r *reader) syntax(err error) {
	f := Fault{Line: 1, Column: 1, Message: "not YAML: " + err.Error()}
	var y yaml.Error
	if errors.As(err, &y) {
		f.Message, f.Hint = plainly(y.GetMessage())
		if t := y.GetToken(); t != nil && t.Position != nil {
			p := r.clamp(t.Position.Line, t.Position.Column)
			f.Line, f.Column, f.Text = p.Line, p.Column, excerpt(t.Value)
		}
	}
	r.add(f)
}

// plainly says in an author's words what the parser says in its own.
func plainly(message string) (string, string) {
	const align = "keys of one block begin in the same column; a colon inside text needs quotes around the text"
	switch {
	case strings.Contains(message, "non-map value is specified"), strings.Contains(message, "unexpected key name"):
		return "a key without a colon, or a line that is indented differently from its neighbours", align
	case strings.Contains(message, "mapping value is not allowed in this context"), strings.Contains(message, "map key-value is pre-defined"):
		return "a second colon on the line, or a line that is indented too far", align
	case strings.Contains(message, "value is not allowed in this context"):
		return "a value where none can be; is a line indented differently from its neighbours?", align
	case strings.Contains(message, "could not find end character of double-quoted"), strings.Contains(message, "could not find end character of single-quoted"):
		return "a quote is opened and never closed", "close it; a quote inside text is doubled in single quotes and has a backslash before it in double quotes"
	case strings.Contains(message, "must be specified"), strings.Contains(message, "end token"):
		return "a bracket is opened and never closed, or a comma is missing", "inside { } and [ ], entries are separated by commas"
	case strings.Contains(message, `'\t'`), strings.Contains(message, "\t"), strings.Contains(message, "tab character"):
		return "a tab where YAML wants spaces", "YAML is indented with spaces"
	}
	return "not YAML: " + message, ""
}
