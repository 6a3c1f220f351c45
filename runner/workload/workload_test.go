package workload

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func base() Workload { return Workload{API: Chat, Output: Output{Tokens: 8}, Cache: Warm} }

func with(change func(*Workload)) Workload {
	w := base()
	change(&w)
	return w
}

// kinds are one workload of each kind and wire.
func kinds() map[string]Workload {
	return map[string]Workload{
		"text":         with(func(w *Workload) { w.Text = "Explain GPUs simply" }),
		"random words": with(func(w *Workload) { w.Random = &Random{Tokens: 40} }),
		"random ids":   with(func(w *Workload) { w.API, w.Random = Completions, &Random{Tokens: 40, Vocabulary: 1000} }),
		"shared words": with(func(w *Workload) { w.SharedPrefix = &SharedPrefix{Shared: 30, Own: 10, Groups: 3} }),
		"shared ids": with(func(w *Workload) {
			w.API, w.SharedPrefix = Completions, &SharedPrefix{Shared: 30, Own: 10, Groups: 3, Vocabulary: 500}
		}),
		"nothing in it": with(func(w *Workload) { w.SharedPrefix = &SharedPrefix{Shared: 0, Own: 10, Groups: 1} }),
		"file":          with(func(w *Workload) { w.File = &File{Content: []byte(promptFile)} }),
	}
}

const promptFile = `{"prompt":"one two three"}

{"prompt":"a b c d e f g h i","max_tokens":99,"id":"ignored"}
{"prompt":"four five six seven"}
`

func must(t *testing.T, f func(Workload, uint64, int) ([]Request, error), w Workload, seed uint64, n int) []Request {
	t.Helper()
	reqs, err := f(w, seed, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(reqs) != n {
		t.Fatalf("%d requests, want %d", len(reqs), n)
	}
	return reqs
}

func TestGenerate(t *testing.T) {
	for name, w := range kinds() {
		a := must(t, Generate, w, 1, 20)
		if !reflect.DeepEqual(a, must(t, Generate, w, 1, 20)) {
			t.Errorf("%s: the same seed gave other requests", name)
		}
		if !reflect.DeepEqual(a[:5], must(t, Generate, w, 1, 5)) {
			t.Errorf("%s: the first requests depend on how many there are", name)
		}
		fresh := w.Text == "" && w.File == nil
		if same := reflect.DeepEqual(a, must(t, Generate, w, 2, 20)); same == fresh {
			t.Errorf("%s: another seed gave the same requests: %v", name, same)
		}
		for i, q := range a {
			if q.Index != i || q.MaxTokens < 1 || q.Class == "" || (q.Prompt == "") == (q.TokenIDs == nil) {
				t.Errorf("%s: request %d is %+v", name, i, q)
			}
		}
	}
}

func TestShapes(t *testing.T) {
	k := kinds()
	for _, q := range must(t, Generate, k["random words"], 3, 10) {
		if n := len(strings.Fields(q.Prompt)); n != 40 || q.Class != "40" || q.PromptTokens != 0 {
			t.Errorf("random words: %d words, %+v", n, q)
		}
	}
	for _, q := range must(t, Generate, k["random ids"], 3, 10) {
		if len(q.TokenIDs) != 40 || q.PromptTokens != 40 || slices.Min(q.TokenIDs) < 3 || slices.Max(q.TokenIDs) >= 1000 {
			t.Errorf("random ids: %v", q.TokenIDs)
		}
	}
	shared := must(t, Generate, k["shared ids"], 3, 12)
	for i, q := range shared {
		if len(q.TokenIDs) != 40 || q.Class != "40" {
			t.Errorf("shared ids: %+v", q)
		}
		if same := slices.Equal(q.TokenIDs[:30], shared[0].TokenIDs[:30]); same != (i%3 == 0) {
			t.Errorf("request %d shares the prefix of request 0: %v", i, same)
		}
		if i > 0 && slices.Equal(q.TokenIDs[30:], shared[0].TokenIDs[30:]) {
			t.Errorf("request %d has the own part of request 0", i)
		}
	}
	file := must(t, Generate, k["file"], 3, 4)
	if file[3].Prompt != "one two three" || file[0].MaxTokens != 8 || file[1].MaxTokens != 99 || file[1].Class != "16" || file[2].Class != "4" {
		t.Errorf("file: %+v", file)
	}
}

func TestWarmup(t *testing.T) {
	for name, w := range kinds() {
		measured, warm := must(t, Generate, w, 5, 50), must(t, Warmup, w, 5, 50)
		seen := map[string]bool{}
		for _, q := range measured {
			seen[fmt.Sprint(q.Prompt, q.TokenIDs)] = true
		}
		for i, q := range warm {
			if again := seen[fmt.Sprint(q.Prompt, q.TokenIDs)]; again != (w.Text != "") {
				t.Errorf("%s: warm-up request %d is a measured one: %v", name, i, again)
			}
			if w.File == nil && (q.Class != measured[i].Class || q.MaxTokens != measured[i].MaxTokens) {
				t.Errorf("%s: warm-up request %d has another shape: %+v", name, i, q)
			}
		}
	}
	m, w := must(t, Generate, kinds()["shared words"], 5, 3), must(t, Warmup, kinds()["shared words"], 5, 3)
	for i := range m {
		if a, b := strings.Fields(m[i].Prompt), strings.Fields(w[i].Prompt); !slices.Equal(a[:30], b[:30]) {
			t.Errorf("group %d is warmed with another prefix", i)
		}
	}
	first := must(t, Warmup, kinds()["file"], 5, 2)
	if first[0].Class != "4" || first[1].Class != "16" || len(strings.Fields(first[1].Prompt)) != 9 || first[1].MaxTokens != 99 {
		t.Errorf("the first two warm-up requests do not cover both classes: %+v", first)
	}
}

func TestHash(t *testing.T) {
	w := kinds()["random words"]
	reqs := must(t, Generate, w, 1, 3)
	// The bytes of a workload are part of keys: this value only changes together with hashVersion.
	const want = "0f16494dc24abce8cabae78f70fd70c488f85dc2432181f460019f257a24202c"
	if got := Hash(w, reqs); got != want {
		t.Errorf("Hash = %s, want %s", got, want)
	}
	seed, temperature := int64(1), 0.0
	changed := map[string]string{
		"prompt":      Hash(w, edit(reqs, func(q *Request) { q.Prompt += "." })),
		"ids":         Hash(w, edit(reqs, func(q *Request) { q.TokenIDs = []int32{4} })),
		"max tokens":  Hash(w, edit(reqs, func(q *Request) { q.MaxTokens++ })),
		"exact":       Hash(w, edit(reqs, func(q *Request) { q.Exact = true })),
		"fewer":       Hash(w, reqs[:2]),
		"api":         Hash(with(func(w *Workload) { w.API = Completions }), reqs),
		"seed":        Hash(with(func(w *Workload) { w.Seed = &seed }), reqs),
		"temperature": Hash(with(func(w *Workload) { w.Temperature = &temperature }), reqs),
		"same":        want,
	}
	for name, h := range changed {
		for other, g := range changed {
			if name != other && h == g {
				t.Errorf("%s and %s have the same hash", name, other)
			}
		}
	}
	if Hash(w, edit(reqs, func(q *Request) { q.Index, q.Class = 9, "other" })) != want {
		t.Error("what the server never sees changed the hash")
	}
}

func edit(reqs []Request, change func(*Request)) []Request {
	out := slices.Clone(reqs)
	change(&out[1])
	return out
}

func TestCheckFailure(t *testing.T) {
	for want, w := range map[string]Workload{
		"this one has 0":             base(),
		"this one has 2":             with(func(w *Workload) { w.Text, w.Random = "x", &Random{Tokens: 1} }),
		"unknown api":                with(func(w *Workload) { w.Text, w.API = "x", "" }),
		"output.tokens is 0":         with(func(w *Workload) { w.Text, w.Output.Tokens = "x", 0 }),
		"random.tokens is 1000001":   with(func(w *Workload) { w.Random = &Random{Tokens: 1000001} }),
		"needs api: completions":     with(func(w *Workload) { w.Random = &Random{Tokens: 1, Vocabulary: 10} }),
		"vocabulary is 3":            with(func(w *Workload) { w.API, w.Random = Completions, &Random{Tokens: 1, Vocabulary: 3} }),
		"shared_prefix.shared is -1": with(func(w *Workload) { w.SharedPrefix = &SharedPrefix{Shared: -1, Own: 1, Groups: 1} }),
		"shared_prefix.own is 0":     with(func(w *Workload) { w.SharedPrefix = &SharedPrefix{Groups: 1} }),
		"shared_prefix.groups is 0":  with(func(w *Workload) { w.SharedPrefix = &SharedPrefix{Own: 1} }),
		"the prompt file has no":     with(func(w *Workload) { w.File = &File{Content: []byte("\n \n")} }),
		"line 2 of the prompt file":  with(func(w *Workload) { w.File = &File{Content: []byte("{\"prompt\":\"a\"}\n{")} }),
		`it has no "prompt"`:         with(func(w *Workload) { w.File = &File{Content: []byte(`{"text":"a"}`)} }),
		"max_tokens is 0":            with(func(w *Workload) { w.File = &File{Content: []byte(`{"prompt":"a","max_tokens":0}`)} }),
		"cannot unmarshal number":    with(func(w *Workload) { w.File = &File{Content: []byte(`{"prompt":5}`)} }),
	} {
		for _, f := range []func(Workload, uint64, int) ([]Request, error){Generate, Warmup} {
			if _, err := f(w, 1, 1); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, got %v", want, err)
			}
		}
	}
}

func TestWords(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range words() {
		if seen[w] || len(w) < 2 || len(w) > 6 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is twice in the list, or no short word", w)
		}
		seen[w] = true
	}
	if len(seen) < 512 {
		t.Errorf("%d words", len(seen))
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(promptFile))
	f.Add([]byte("{\"prompt\":\"\\u00e9\",\"max_tokens\":1}\r\n"))
	f.Add([]byte(`{"prompt":"a"} trailing`))
	f.Fuzz(func(t *testing.T, in []byte) {
		lines, err := ParseFile(in)
		if err != nil {
			return
		}
		if len(lines) == 0 || len(lines) > len(in) {
			t.Fatalf("%d lines from %d bytes", len(lines), len(in))
		}
		w := base()
		w.File = &File{Content: in}
		for _, f := range []func(Workload, uint64, int) ([]Request, error){Generate, Warmup} {
			reqs, err := f(w, 1, len(lines)+1)
			if err != nil || len(reqs) != len(lines)+1 {
				t.Fatalf("%d requests, %v", len(reqs), err)
			}
			for _, q := range reqs {
				if q.Prompt == "" || q.MaxTokens < 1 {
					t.Fatalf("%+v", q)
				}
			}
		}
	})
}

func TestDistinct(t *testing.T) {
	f := func(want int, reqs ...Request) {
		t.Helper()
		if got := Distinct(reqs); got != want {
			t.Errorf("%d different prompts, want %d", got, want)
		}
	}
	f(0)
	f(1, Request{Prompt: "a"}, Request{Prompt: "a", Index: 1, MaxTokens: 3})
	f(2, Request{Prompt: "a"}, Request{Prompt: "b"}, Request{Prompt: "a"})
	f(2, Request{TokenIDs: []int32{1, 2}}, Request{TokenIDs: []int32{2, 1}}, Request{TokenIDs: []int32{1, 2}})
}
