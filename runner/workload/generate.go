package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// maxTokens bounds every length a workload may ask for.
const maxTokens = 1_000_000

// Generate returns the n measured requests of a trial. It is a pure function: the same arguments give the same bytes
// on every machine, the first requests do not depend on n, and another seed gives other prompts (where the workload has
// any: a fixed text is the same for every request and seed). The error names the field that cannot be used.
func Generate(w Workload, seed uint64, n int) ([]Request, error) {
	return generate(w, seed, n, "measured")
}

// Warmup returns n requests of the same shapes as those of Generate, with prompts of their own, so that a warm-up
// does not put the measured prompts into the prefix cache. Three workloads share on purpose: shared_prefix keeps the
// shared parts (that the cache holds them is what `cache: warm` declares) with other own parts, a fixed text has
// nothing else to send, and so has a prompt of a word or two. A file's prompts are replaced by random words, as many
// as the line has; the first requests cover every class of the file before any class comes twice.
func Warmup(w Workload, seed uint64, n int) ([]Request, error) {
	if w.File == nil {
		return generate(w, seed, n, "warmup")
	}
	if err := Check(w); err != nil {
		return nil, err
	}
	lines, err := ParseFile(w.File.Content)
	if err != nil {
		return nil, err
	}
	lines = oneOfEachClassFirst(lines)
	g := newSource(seed, "warmup")
	out := make([]Request, max(n, 0))
	for i := range out {
		l := lines[i%len(lines)]
		out[i] = request(w, i, l.class())
		out[i].Prompt = g.text(max(len(strings.Fields(l.Prompt)), 1))
		out[i].MaxTokens = l.maxTokens(w)
	}
	return out, nil
}

// Check reports the first field of w that Generate cannot use, or nil. It reads a file's content.
func Check(w Workload) error {
	kinds := 0
	for _, set := range []bool{w.Text != "", w.Random != nil, w.SharedPrefix != nil, w.File != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("a workload has exactly one of text, random, shared_prefix and file; this one has %d", kinds)
	}
	if w.API != Chat && w.API != Completions {
		return fmt.Errorf("unknown api %q: chat or completions", w.API)
	}
	if err := within("output.tokens", w.Output.Tokens, 1, maxTokens); err != nil {
		return err
	}
	switch {
	case w.Random != nil:
		return errors.Join(within("random.tokens", w.Random.Tokens, 1, maxTokens), checkVocabulary(w, w.Random.Vocabulary))
	case w.SharedPrefix != nil:
		s := w.SharedPrefix
		return errors.Join(within("shared_prefix.shared", s.Shared, 0, maxTokens), within("shared_prefix.own", s.Own, 1, maxTokens),
			within("shared_prefix.groups", s.Groups, 1, maxTokens), checkVocabulary(w, s.Vocabulary))
	case w.File != nil:
		_, err := ParseFile(w.File.Content)
		return err
	}
	return nil
}

func within(name string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("%s is %d: it must be %d..%d", name, v, low, high)
	}
	return nil
}

// firstToken is the lowest token id that is sent; the ids below are special in most vocabularies.
const firstToken = 3

func checkVocabulary(w Workload, v int) error {
	switch {
	case v == 0:
		return nil
	case w.API != Completions:
		return errors.New("a vocabulary needs api: completions, because chat takes text only")
	case v <= firstToken || v > 1<<31-1:
		return fmt.Errorf("vocabulary is %d: it must be %d..%d", v, firstToken+1, 1<<31-1)
	}
	return nil
}

func generate(w Workload, seed uint64, n int, part string) ([]Request, error) {
	if err := Check(w); err != nil {
		return nil, err
	}
	out := make([]Request, max(n, 0))
	switch {
	case w.Random != nil:
		random(out, w, newSource(seed, part))
	case w.SharedPrefix != nil:
		sharedPrefix(out, w, newSource(seed, "prefix"), newSource(seed, part))
	case w.File != nil:
		if err := fromFile(out, w); err != nil {
			return nil, err
		}
	default:
		for i := range out {
			out[i] = request(w, i, "text")
			out[i].Prompt = w.Text
		}
	}
	return out, nil
}

func request(w Workload, i int, class string) Request {
	return Request{Index: i, MaxTokens: w.Output.Tokens, Exact: w.Output.Exact, Class: class}
}

func random(out []Request, w Workload, g *source) {
	class := strconv.Itoa(w.Random.Tokens)
	for i := range out {
		out[i] = request(w, i, class)
		if w.Random.Vocabulary > 0 {
			out[i].TokenIDs = g.ids(nil, w.Random.Tokens, w.Random.Vocabulary)
			out[i].PromptTokens = w.Random.Tokens
			continue
		}
		out[i].Prompt = g.text(w.Random.Tokens)
	}
}

func sharedPrefix(out []Request, w Workload, prefixes, own *source) {
	s := w.SharedPrefix
	class := strconv.Itoa(s.Shared + s.Own)
	ids := make([][]int32, s.Groups)
	texts := make([]string, s.Groups)
	for g := range min(s.Groups, len(out)) {
		if s.Vocabulary > 0 {
			ids[g] = prefixes.ids(nil, s.Shared, s.Vocabulary)
			continue
		}
		texts[g] = prefixes.text(s.Shared)
	}
	for i := range out {
		out[i] = request(w, i, class)
		g := i % s.Groups
		if s.Vocabulary > 0 {
			all := append(make([]int32, 0, s.Shared+s.Own), ids[g]...)
			out[i].TokenIDs = own.ids(all, s.Own, s.Vocabulary)
			out[i].PromptTokens = s.Shared + s.Own
			continue
		}
		out[i].Prompt = strings.TrimLeft(texts[g]+" "+own.text(s.Own), " ")
	}
}

func fromFile(out []Request, w Workload) error {
	lines, err := ParseFile(w.File.Content)
	if err != nil {
		return err
	}
	for i := range out {
		l := lines[i%len(lines)]
		out[i] = request(w, i, l.class())
		out[i].Prompt = l.Prompt
		out[i].MaxTokens = l.maxTokens(w)
	}
	return nil
}

// source draws words and token ids. Each part of a workload has its own, so that none depends on how many requests
// another part has.
type source struct {
	r     *rand.Rand
	words []string
}

func newSource(seed uint64, part string) *source {
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("workload/"+part+"/"), seed))
	return &source{r: rand.New(rand.NewChaCha8(key)), words: words()}
}

func (s *source) text(n int) string {
	var b strings.Builder
	b.Grow(n * 6)
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s.words[s.r.IntN(len(s.words))])
	}
	return b.String()
}

func (s *source) ids(to []int32, n, vocabulary int) []int32 {
	for range n {
		to = append(to, firstToken+s.r.Int32N(int32(vocabulary-firstToken)))
	}
	return to
}

// hashVersion is raised when the same workload and seed give other bytes than before.
const hashVersion = "bench/workload/v1"

// Hash is the SHA-256, in hex, over everything of the requests that reaches the server. Index and Class do not.
func Hash(w Workload, reqs []Request) string {
	h := sha256.New()
	e := json.NewEncoder(h)
	// Encoding these values cannot fail, and a hash never returns an error.
	_ = e.Encode(struct {
		Version     string
		API         API
		Seed        *int64
		Temperature *float64
	}{hashVersion, w.API, w.Seed, w.Temperature})
	var b []byte
	for i := range reqs {
		q := &reqs[i]
		b = binary.AppendUvarint(b[:0], uint64(len(q.Prompt)))
		b = append(b, q.Prompt...)
		b = binary.AppendUvarint(b, uint64(len(q.TokenIDs)))
		for _, id := range q.TokenIDs {
			b = binary.AppendVarint(b, int64(id))
		}
		b = binary.AppendVarint(b, int64(q.MaxTokens))
		b = strconv.AppendBool(b, q.Exact)
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Distinct counts the prompts that differ.
func Distinct(reqs []Request) int {
	seen := map[[sha256.Size]byte]struct{}{}
	var b []byte
	for i := range reqs {
		b = append(b[:0], reqs[i].Prompt...)
		for _, id := range reqs[i].TokenIDs {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
		seen[sha256.Sum256(b)] = struct{}{}
	}
	return len(seen)
}
