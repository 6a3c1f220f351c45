package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// messageLimit bounds the message of an APIError, in bytes.
const messageLimit = 300

// APIError is an answer with a status other than 200.
type APIError struct {
	Status  int    // HTTP status
	Message string // the server's own words on one line, at most 300 bytes; "" when it sent none
	Type    string // such as "NotFoundError"; "" when the body was not an OpenAI error
}

func (e *APIError) Error() string {
	s := fmt.Sprintf("HTTP %d", e.Status)
	if e.Type != "" {
		s += " " + e.Type
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// ParseError reads the body of an answer with a status other than 200. It knows OpenAI's {"error":{"message":...}},
// the flat form of older vLLM releases, FastAPI's {"detail":...}, and takes anything else as text.
func ParseError(status int, body []byte) *APIError {
	var doc struct {
		Error   json.RawMessage `json:"error"`
		Object  string          `json:"object"`
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Detail  json.RawMessage `json:"detail"`
	}
	e := &APIError{Status: status}
	if json.Unmarshal(body, &doc) != nil {
		e.Message = oneLine(string(body))
		return e
	}
	var inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	switch {
	case doc.Error != nil && json.Unmarshal(doc.Error, &inner) == nil && inner.Message != "":
		e.Message, e.Type = inner.Message, inner.Type
	case doc.Error != nil:
		e.Message = text(doc.Error)
	case doc.Message != "":
		e.Message, e.Type = doc.Message, doc.Type
	case doc.Detail != nil:
		e.Message = text(doc.Detail)
	default:
		e.Message = string(body)
	}
	e.Message, e.Type = oneLine(e.Message), oneLine(e.Type)
	return e
}

// text is a JSON string's value, or the JSON itself.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func readError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, errorLimit))
	e := ParseError(resp.StatusCode, body)
	if err != nil && e.Message == "" {
		e.Message = oneLine(err.Error())
	}
	return e
}

// oneLine joins the lines of s and bounds it without cutting a character in two.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) <= messageLimit {
		return s
	}
	n := messageLimit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
