package redact

import (
	"regexp"
	"strings"
)

// A pattern is a shape of something private.
type pattern struct {
	hints []string // lower case; a line without any of them is not looked at, which makes long logs cheap
	re    *regexp.Regexp
	to    string
	// harmless, when not nil, says of a match's groups that it may stay after all. The search then goes on after the
	// first group, so that what stands inside the match is looked at too.
	harmless func(groups []string) bool
}

func (p pattern) concerns(lower string) bool {
	for _, h := range p.hints {
		if strings.Contains(lower, h) {
			return true
		}
	}
	return false
}

func (p pattern) apply(text string) string {
	if p.harmless == nil {
		return p.re.ReplaceAllString(text, p.to)
	}
	var out strings.Builder
	done, from := 0, 0
	for from <= len(text) {
		m := p.re.FindStringSubmatchIndex(text[from:])
		if m == nil {
			break
		}
		groups := make([]string, len(m)/2)
		for g := range groups {
			if m[2*g] >= 0 {
				groups[g] = text[from+m[2*g] : from+m[2*g+1]]
			}
		}
		if p.harmless(groups) {
			from += m[3]
			continue
		}
		out.WriteString(text[done : from+m[0]])
		out.Write(p.re.ExpandString(nil, p.to, text[from:], m))
		from += m[1]
		done = from
	}
	out.WriteString(text[done:])
	return out.String()
}

// patterns are applied to each line, in order.
func patterns() []pattern {
	re := regexp.MustCompile
	return []pattern{
		// Headers, in any of the ways in which they are printed.
		{hints: []string{"authorization"}, to: "${1}" + Marker, harmless: isMarker,
			re: re(`(?i)((?:proxy-)?authorization["']?\s*[:=,]\s*(?:b?["'])?(?:(?:bearer|basic|digest|token|negotiate)[ \t]+)?)([^\s"',;)\]}]+)`)},
		{hints: []string{"api-key", "auth-token", "security-token", "cookie"}, to: "${1}" + Marker, harmless: isMarker,
			re: re(`(?i)((?:x-api-key|api-key|x-auth-token|x-amz-security-token|set-cookie|cookie)["']?\s*[:=,]\s*(?:b?["'])?)([^\s"',)\]}][^\r\n"')\]}]*)`)},
		{hints: []string{"bearer"}, to: "${1}" + Marker, re: re(`(?i)\b(bearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}`)},
		// Tokens that say what they are.
		{hints: []string{"hf_"}, to: Marker, re: re(`\bhf_[A-Za-z0-9]{12,}`)},
		{hints: []string{"sk-"}, to: Marker, re: re(`\bsk-[A-Za-z0-9_-]{12,}`)},
		{hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, to: Marker, re: re(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`)},
		{hints: []string{"glpat-", "nvapi-", "xox", "aiza", "akia", "asia"}, to: Marker,
			re: re(`\b(?:glpat-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16})`)},
		{hints: []string{"eyj"}, to: Marker, re: re(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`)},
		// URLs.
		{hints: []string{"@"}, to: "${1}" + Marker + "@", re: re(`([A-Za-z][A-Za-z0-9+.-]*:\\?/\\?/)[^\s/"'<>@]*(?:@[^\s/"'<>@]*)*@`)},
		{hints: []string{"?", "&"}, to: "${1}" + Marker,
			re: re(`(?i)([?&](?:[a-z0-9_-]*(?:token|secret|password|passwd|signature|credential|api_?key|access_?key)[a-z0-9_-]*|sig|key|auth)=)[^&\s"'<>\\]+`)},
		// --api-key value, ['--api-key', 'value']
		{hints: []string{"--"}, to: "${1}" + Marker, re: re(`(--([A-Za-z][A-Za-z0-9-]*)["']?[=, ]+)("[^"\r\n]*"|'[^'\r\n]*'|[^\s"',\]]+)`), harmless: func(g []string) bool {
			return !SecretName(g[2]) || strings.HasPrefix(strings.Trim(g[3], `"'`), "-") || harmlessValue(g[3])
		}},
		// Where things lie on this machine, and whose it is.
		{hints: []string{"/site-packages", "/dist-packages"}, to: "<site-packages>", re: re(`(?:/[A-Za-z0-9._@+~-]+)+/(?:site-packages|dist-packages)\b`)},
		{hints: []string{"/cache", "/.cache"}, to: "<cache>", re: re(`(?:/[A-Za-z0-9._@+~-]+)*/\.?cache\b(?:/(?:huggingface|vllm)\b)?`)},
		{hints: []string{"/home/", "/users/", "/root", `\users\`}, to: "~", re: re(`(?:/(?:home|Users|export/home|var/home)/[A-Za-z0-9._@+-]+|/root\b|[A-Za-z]:\\+Users\\+[A-Za-z0-9._@+-]+)`)},
	}
}

// isMarker says that the second group was replaced before.
func isMarker(groups []string) bool {
	return strings.HasPrefix(groups[2], strings.TrimSuffix(Marker, "]"))
}

// nameBefore returns the name that stands before the = or : at i: NAME=, "name": and \"name\":.
func nameBefore(line string, i int) string {
	j := i
	for j > 0 && (line[j-1] == ' ' || line[j-1] == '\t') {
		j--
	}
	if j > 0 && (line[j-1] == '"' || line[j-1] == '\'') {
		j--
		for j > 0 && line[j-1] == '\\' {
			j--
		}
	}
	end := j
	for j > 0 && isName(line[j-1]) {
		j--
	}
	return line[j:end]
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// valueAfter returns where the value that follows the = or : at i begins and ends: a string in quotes (with its quotes),
// a bracketed list, or a run without separators. begin == end means that there is none.
func valueAfter(line string, i int) (begin, end int) {
	j := i + 1
	for j < len(line) && (line[j] == ' ' || line[j] == '\t') {
		j++
	}
	begin = j
	if j+1 < len(line) && (line[j] == 'b' || line[j] == 'u') && (line[j+1] == '\'' || line[j+1] == '"') {
		j++
	}
	slashes := 0
	for j < len(line) && line[j] == '\\' {
		j, slashes = j+1, slashes+1
	}
	if j == len(line) {
		return begin, j
	}
	switch c := line[j]; c {
	case '"', '\'':
		return begin, closingQuote(line, j+1, c, slashes)
	case '[', '{', '(':
		closing := strings.IndexByte(line[j:], map[byte]byte{'[': ']', '{': '}', '(': ')'}[c])
		if closing < 0 {
			return begin, len(line)
		}
		return begin, j + closing + 1
	}
	if n := strings.IndexAny(line[j:], " \t\r\n\"',;&)]}"); n >= 0 {
		return begin, j + n
	}
	return begin, len(line)
}

// closingQuote returns the place after the quote that ends a string which began with the given number of backslashes
// before its quote. Without one the string reaches to the end of the line.
func closingQuote(line string, i int, quote byte, slashes int) int {
	run := 0
	for ; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			run++
			continue
		case line[i] == quote && run <= slashes:
			return i + 1
		}
		run = 0
	}
	return i
}

// dropPairs replaces the value of every NAME=value and "name": "value" whose name is a secret's.
func dropPairs(line string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(line); i++ {
		if line[i] != '=' && line[i] != ':' {
			continue
		}
		name := nameBefore(line, i)
		if !mayBeSecret(name) || !SecretName(name) {
			continue
		}
		begin, end := valueAfter(line, i)
		if begin == end || harmlessValue(line[begin:end]) {
			continue
		}
		out.WriteString(line[done:begin])
		out.WriteString(Marker)
		done, i = end, end-1
	}
	if done == 0 {
		return line
	}
	out.WriteString(line[done:])
	return out.String()
}

// mayBeSecret is a quick necessary condition of SecretName.
func mayBeSecret(name string) bool {
	if len(name) < 3 {
		return false
	}
	name = strings.ToLower(name)
	for _, w := range []string{"secret", "pass", "pwd", "cred", "key", "token", "auth", "cookie", "pat", "bearer", "dsn"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// harmlessValue are values that a secret never has: numbers, booleans, nothing. They are common under names such as
// max_token.
func harmlessValue(v string) bool {
	v = strings.Trim(v, `\"'`)
	switch strings.ToLower(strings.TrimRight(v, ".,")) {
	case "", "none", "null", "true", "false", "nan",
		"bearer", "basic", "digest", "negotiate", // what follows them is found as a header
		strings.TrimSuffix(Marker, "]"), Marker:
		return true
	}
	// Short numbers, and lists of them. An opening bracket alone is judged by what follows.
	return len(v) <= 6 && strings.Trim(v, "0123456789.") == "" ||
		strings.ContainsAny(v[:1], "[({") && strings.Trim(v, "[](){} ,.0123456789") == "" ||
		strings.HasPrefix(v, Marker)
}

// SecretName says whether a thing of this name (an environment variable, a JSON key, a flag) usually holds a secret.
// It errs on the side of yes, except for the vocabulary of LLM serving, where a token is a piece of text.
func SecretName(name string) bool {
	words := splitName(name)
	for i, w := range words {
		if strings.HasSuffix(w, "password") || strings.HasSuffix(w, "passwd") { // PGPASSWORD
			return true
		}
		switch w {
		case "secret", "secrets", "passphrase", "credential", "credentials", "apikey", "authorization", "cookie",
			"apitoken", "authtoken", "accesstoken", "accesskey", "privatekey", "secretkey", "pat", "bearer", "dsn":
			return true
		case "pwd": // PWD is where a shell stands
			if len(words) > 1 {
				return true
			}
		case "auth":
			if i == len(words)-1 {
				return true
			}
		case "key", "keys":
			if i > 0 || len(words) == 1 && name == strings.ToUpper(name) {
				return keyIsSecret(words, i)
			}
		case "token":
			if !textToken(words, i) {
				return true
			}
		case "tokens": // HF_TOKENS may be; num_tokens is not
			if name == strings.ToUpper(name) && len(words) == 2 && (words[0] == "hf" || words[0] == "api" || words[0] == "auth" || words[0] == "access") {
				return true
			}
		}
	}
	return false
}

// keyIsSecret tells access keys from cache keys and the like.
func keyIsSecret(words []string, i int) bool {
	switch words[max(i-1, 0)] {
	case "cache", "sort", "primary", "foreign", "hash", "map", "object", "config", "metric", "run", "cell", "compare", "label", "public", "group", "num", "kv", "routing":
		return false
	}
	return true
}

// textToken recognises a token that is a piece of text: token_threshold, max_token, num_token_ids.
func textToken(words []string, i int) bool {
	around := []string{}
	if i > 0 {
		around = append(around, words[i-1])
	}
	if i+1 < len(words) {
		around = append(around, words[i+1])
	}
	for _, w := range around {
		switch w {
		case "threshold", "budget", "budgets", "num", "number", "count", "limit", "limits", "size", "sizes", "ids", "id", "len", "length",
			"max", "min", "per", "time", "latency", "throughput", "eos", "bos", "pad", "stop", "unk", "mask", "prompt", "output", "image",
			"video", "audio", "first", "last", "next", "draft", "spec", "embedding", "embeddings", "type", "types", "index", "pool", "pooling",
			"decode", "prefill", "special", "added", "a2a", "dispatch", "parallel", "shift", "positions", "position":
			return true
		}
	}
	return false
}

// splitName cuts a name into lower-case words at separators and at the humps of camel case.
func splitName(name string) []string {
	var words []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	lower := false
	for _, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter {
			flush()
			lower = false
			continue
		}
		if c >= 'A' && c <= 'Z' && lower {
			flush()
		}
		lower = c >= 'a' && c <= 'z'
		word.WriteRune(c)
	}
	flush()
	return words
}

// stripANSI removes terminal escape sequences. An unfinished one at the end goes as well.
func stripANSI(b []byte) []byte {
	for hasEscape(b) { // more than once only when what was removed had split another one
		b = stripOnce(b)
	}
	return b
}

func stripOnce(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		n := ansiLen(b[i:])
		if n == 0 {
			out = append(out, b[i])
			i++
			continue
		}
		i += n
	}
	return out
}

func hasEscape(b []byte) bool {
	for i, c := range b {
		if c == 0x1b || c == 0x9b && (i == 0 || b[i-1] == 0xc2) {
			return true
		}
	}
	return false
}

// ansiLen returns the length of the escape sequence that b begins with, or 0.
func ansiLen(b []byte) int {
	switch {
	case len(b) >= 2 && b[0] == 0xc2 && b[1] == 0x9b: // the one-byte form of ESC [, in UTF-8
		return csiLen(b, 2)
	case len(b) == 0 || b[0] != 0x1b:
		return 0
	case len(b) == 1:
		return 1
	case b[1] == '[':
		return csiLen(b, 2)
	case b[1] == ']' || b[1] == 'P' || b[1] == '_' || b[1] == '^' || b[1] == 'X':
		return stringLen(b)
	case b[1] >= 0x20 && b[1] <= 0x2f: // intermediate bytes, then a final one
		i := 1
		for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
			i++
		}
		return min(i+1, len(b))
	case b[1] == 0x1b || b[1] == '\n' || b[1] == '\r' || b[1] >= 0x80:
		return 1
	}
	return 2
}

// csiLen: parameters and intermediate bytes up to a final byte. Anything else ends the sequence before it.
func csiLen(b []byte, i int) int {
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x3f {
		i++
	}
	if i < len(b) && b[i] >= 0x40 && b[i] <= 0x7e {
		i++
	}
	return i
}

// stringLen: an operating system command or the like ends at BEL or ESC \; one that does not end on its line is only its
// first two bytes.
func stringLen(b []byte) int {
	for i := 2; i < len(b) && b[i] != '\n'; i++ {
		if b[i] == 0x07 {
			return i + 1
		}
		if b[i] == 0x1b {
			if i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
			break
		}
	}
	return 2
}
