package flags

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// sources reads what each release's own parser said, by version.
func sources(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no sources in testdata (%v)", err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".json.gz")] = b
	}
	return out
}

func TestTablesAreRebuiltFromSources(t *testing.T) {
	src := sources(t)
	versions := Releases()
	if len(versions) != len(src) {
		t.Fatalf("releases %v, but %d sources", versions, len(src))
	}
	for seed := range uint64(3) { // in whatever order they are added
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
		var table []byte
		var err error
		for _, v := range versions {
			if table, err = Add(table, v, src[v]); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(table, embedded) {
			t.Fatalf("table.jsonl is not what its sources give, added in the order %v", versions)
		}
	}
	again, err := Add(embedded, versions[0], src[versions[0]])
	if err != nil || !bytes.Equal(again, embedded) {
		t.Errorf("adding %s twice changes the tables (%v)", versions[0], err)
	}
}

func TestEveryFlagOfEveryRelease(t *testing.T) {
	for version, raw := range sources(t) {
		var src source
		if err := json.Unmarshal(raw, &src); err != nil {
			t.Fatal(err)
		}
		table, note, err := Nearest(version)
		if err != nil || note != "" || table.Version() != version {
			t.Fatalf("Nearest(%s) = %s, %q, %v", version, table.Version(), note, err)
		}
		if got := len(table.Names()); got != len(src.Flags) {
			t.Errorf("%s: %d flags, the parser has %d", version, got, len(src.Flags))
		}
		for name, s := range src.Flags {
			o, ok := table.Lookup(name)
			isBool := s.Type == "bool"
			switch {
			case !ok:
				t.Errorf("%s: %s is missing", version, name)
			case table.IsBool(name) != isBool, table.Negatable(name) != (isBool && s.Negatable):
				t.Errorf("%s: %s: bool %t, negatable %t; the parser says %+v", version, name, table.IsBool(name), table.Negatable(name), s)
			case table.IsList(name) != (s.Nargs == "+"):
				t.Errorf("%s: %s: list %t, the parser's nargs is %v", version, name, table.IsList(name), s.Nargs)
			case !slices.Equal(o.Choices, s.Choices) || !slices.Equal(o.Aliases, s.Aliases):
				t.Errorf("%s: %s: choices %v, aliases %v; the parser says %+v", version, name, o.Choices, o.Aliases, s)
			case o.Default != nil && !reflect.DeepEqual(o.Default, s.Default):
				t.Errorf("%s: %s: default %v, the parser's is %v", version, name, o.Default, s.Default)
			}
		}
	}
}

// TestDefaultsPassTheirOwnCheck finds a type or a limit that is too narrow: what the parser has as a default is allowed.
func TestDefaultsPassTheirOwnCheck(t *testing.T) {
	checked := 0
	for _, version := range Releases() {
		table, _, _ := Nearest(version)
		for _, name := range table.Names() {
			o, _ := table.Lookup(name)
			if _, isReserved := Reserved(name); isReserved || o.Default == nil || reflect.DeepEqual(o.Default, []any{}) {
				continue
			}
			checked++
			v := o.Default
			if f, ok := v.(float64); ok && o.Type != Float {
				v = int64(f)
			}
			if _, p := table.Check(name, v); p != nil {
				t.Errorf("%s: the default of %s fails: %s", version, name, p.Message)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d defaults were checked", checked)
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct{ ask, get, note string }{
		{"0.25.1", "0.25.1", ""},
		{"0.25.2", "0.25.1", "those of 0.25.1, the nearest release below"},
		{"0.25.1.post1", "0.25.1", "nearest release below"},
		{"0.26.0", "0.25.1", "nearest release below"},
		{"0.11.10", "0.11.2", "nearest release below"},
		{"0.33.0", "0.33.0", ""},
		{"1.0.0", "0.33.0", "the newest known"},
	} {
		table, note, err := Nearest(c.ask)
		if err != nil || table.Version() != c.get || (c.note == "") != (note == "") || !strings.Contains(note, c.note) {
			t.Errorf("Nearest(%q) = %s, %q, %v; want %s, %q", c.ask, table.Version(), note, err, c.get, c.note)
		}
	}
	for _, bad := range []string{"", "0.25", "latest", "v0.25.1", "0.25.1rc1", "0.025.1", "0.11.1", "0.6.3", "0.25.-1", "0.25.99999", "0.25.1.0"} {
		if table, _, err := Nearest(bad); err == nil {
			t.Errorf("Nearest(%q) = %s, want an error", bad, table.Version())
		}
	}
}

func TestCheckSuccess(t *testing.T) {
	table, _, err := Nearest("0.25.1")
	if err != nil {
		t.Fatal(err)
	}
	f := func(name string, v, want any) {
		t.Helper()
		got, p := table.Check(name, v)
		if p != nil {
			t.Errorf("%s: %v: %s", name, v, p.Message)
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v became %#v, want %#v", name, v, got, want)
		}
	}
	f("enable-prefix-caching", false, false)
	f("disable-log-stats", false, false)
	f("max-num-seqs", int64(16), int64(16))
	f("gpu-memory-utilization", 0.9, 0.9)
	f("gpu-memory-utilization", int64(1), 1.0)
	f("max-model-len", int64(8192), int64(8192))
	f("max-model-len", "32k", int64(32000))
	f("max-model-len", "32K", int64(32768))
	f("max-model-len", "25.6k", int64(25600))
	f("max-model-len", "8192", int64(8192))
	f("max-model-len", 1e6, int64(1_000_000))
	f("max-model-len", "auto", "auto")
	f("max-model-len", "AUTO", "auto")
	f("max-model-len", int64(-1), "auto")
	f("max-num-batched-tokens", "2k", int64(2000))
	f("kv-cache-memory-bytes", "8G", int64(8<<30))
	f("dtype", "bfloat16", "bfloat16")
	f("optimization-level", int64(2), "2")
	f("max-lora-rank", int64(64), int64(64))
	f("seed", int64(-3), int64(-3))
	f("compilation-config", map[string]any{"cudagraph_mode": "NONE"}, map[string]any{"cudagraph_mode": "NONE"})
	f("compilation-config", `{"mode": 3, "x": [1.5]}`, map[string]any{"mode": int64(3), "x": []any{1.5}})
	f("compilation-config.cudagraph_mode", "NONE", "NONE")
	f("hf-overrides", `{"a": 1}`, map[string]any{"a": int64(1)})
	f("pt-load-map-location", "cpu", "cpu")
	f("allowed-origins", []any{"*"}, []any{"*"})
	f("cudagraph-capture-sizes", []any{int64(1), int64(2)}, []any{int64(1), int64(2)})
	f("cudagraph-capture-sizes", int64(8), []any{int64(8)})
	f("lora-modules", []any{map[string]any{"name": "a"}}, []any{map[string]any{"name": "a"}})
	f("max-log-len", int64(100), "100")
}

func TestCheckFailure(t *testing.T) {
	f := func(version, name string, v any, message, hint string) {
		t.Helper()
		table, _, err := Nearest(version)
		if err != nil {
			t.Fatal(err)
		}
		got, p := table.Check(name, v)
		if p == nil {
			t.Errorf("%s: %v became %v, want a problem", name, v, got)
			return
		}
		if p.Message != message || p.Hint != hint {
			t.Errorf("%s: %v:\n message %q\n want    %q\n hint    %q\n want    %q", name, v, p.Message, message, p.Hint, hint)
		}
	}
	// names
	f("0.25.1", "enable-prefix-cachin", true, `vLLM 0.25.1 has no flag "enable-prefix-cachin"`, "did you mean enable-prefix-caching?")
	f("0.25.1", "enable_prefix_caching", true, `vLLM 0.25.1 has no flag "enable_prefix_caching"`, "write enable-prefix-caching: lower case, dashes between words, none before")
	f("0.25.1", "--enforce-eager", true, `vLLM 0.25.1 has no flag "--enforce-eager"`, "write enforce-eager: lower case, dashes between words, none before")
	f("0.25.1", "no-enable-prefix-caching", true, `vLLM 0.25.1 has no flag "no-enable-prefix-caching"`, "write enable-prefix-caching: false; the runner turns it into the engine's spelling")
	f("0.25.1", "no_enforce_eager", false, `vLLM 0.25.1 has no flag "no_enforce_eager"`, "write enforce-eager: true; the runner turns it into the engine's spelling")
	f("0.25.1", "disable-chunked-prefill", true, `vLLM 0.25.1 has no flag "disable-chunked-prefill"`, "write enable-chunked-prefill: false; the runner turns it into the engine's spelling")
	f("0.25.1", "no-enforce-eager", "yes", `vLLM 0.25.1 has no flag "no-enforce-eager"`, "write enforce-eager: true or false; the runner turns it into the engine's spelling")
	f("0.25.1", "tp", int64(2), `vLLM 0.25.1 has no flag "tp"`, "write tensor-parallel-size")
	f("0.25.1", "prefix-caching", true, `vLLM 0.25.1 has no flag "prefix-caching"`, "did you mean enable-prefix-caching?")
	f("0.33.0", "device-memory-utilization", 0.9, `vLLM 0.33.0 has no flag "device-memory-utilization"`, "write gpu-memory-utilization")
	f("0.25.1", "quux", true, `vLLM 0.25.1 has no flag "quux"`, "")
	// names of other releases
	f("0.25.1", "swap-space", int64(4), `vLLM 0.25.1 has no flag "swap-space"`, "it was removed by 0.20.2; 0.17.1 still had it")
	f("0.17.1", "disable-log-requests", true, `vLLM 0.17.1 has no flag "disable-log-requests"`, "write enable-log-requests: false; the runner turns it into the engine's spelling")
	f("0.23.0", "guided-decoding-backend", "auto", `vLLM 0.23.0 has no flag "guided-decoding-backend"`, "it was removed by 0.15.1; 0.11.2 still had it; it is a part of structured-outputs-config now")
	f("0.23.0", "watermark", 0.1, `vLLM 0.23.0 has no flag "watermark"`, "it was added by 0.25.1; 0.23.0 does not have it yet")
	f("0.26.0", "prefix-match-unit", int64(1), `vLLM 0.25.1 has no flag "prefix-match-unit"`, "0.27.1 has it, 0.25.1 does not; the flags of 0.26.0 itself are not known (make flags adds a release)")
	// flags of the runner's own
	f("0.25.1", "port", int64(8000), "port is not a config's to set", "the runner chooses where the engine listens, and speaks HTTP to it")
	f("0.25.1", "api-key", "x", "api-key is not a config's to set", "a secret must not be in a file or on a command line; set VLLM_API_KEY in the environment")
	// switches
	f("0.25.1", "enable-prefix-caching", "false", `enable-prefix-caching is on or off: want true or false, got "false"`, "write false, without quotes")
	f("0.25.1", "enforce-eager", "on", `enforce-eager is on or off: want true or false, got "on"`, "write true, without quotes")
	f("0.25.1", "enforce-eager", int64(1), "enforce-eager is on or off: want true or false, got 1", "write true, without quotes")
	f("0.25.1", "async-scheduling", "auto", `async-scheduling is on or off: want true or false, got "auto"`, "leave the flag out to get the engine's own default")
	f("0.25.1", "enforce-eager", nil, "enforce-eager has no value", "leave the flag out to get the engine's own default")
	f("0.25.1", "quantization", true, "quantization wants a value, got true", "this flag is not a switch")
	// numbers
	f("0.25.1", "max-num-seqs", "eight", `max-num-seqs wants a whole number, got "eight"`, "")
	f("0.25.1", "max-num-seqs", "8", `max-num-seqs wants a whole number, got "8"`, "write 8, without quotes")
	f("0.25.1", "max-num-seqs", 1e3, "max-num-seqs wants a whole number, got 1000", "write 1000")
	f("0.25.1", "max-num-seqs", int64(0), "max-num-seqs is 0; want a number from 1 up to 1000000", "it is a number of requests")
	f("0.25.1", "max-num-seqs", true, "max-num-seqs wants a whole number, got true", "")
	f("0.25.1", "max-model-len", "8k ", `max-model-len wants a whole number, such as 8192 or 8k, or auto, got "8k "`, "write 8000")
	f("0.25.1", "max-model-len", "1.5K", `max-model-len wants a whole number, such as 8192 or 8k, or auto, got "1.5K"`, "K counts in 1024s and takes no fraction; 1.5k counts in thousands")
	f("0.25.1", "max-num-batched-tokens", "auto", `max-num-batched-tokens wants a whole number, such as 8192 or 8k, got "auto"`, "")
	f("0.25.1", "max-model-len", int64(-5), "max-model-len is -5; want a number from 1 up to 100000000", "it is a number of tokens")
	f("0.25.1", "gpu-memory-utilization", int64(90), "gpu-memory-utilization is 90; want a number above 0 up to 1", "it is the share of the GPU's memory that the engine takes, such as 0.90")
	f("0.25.1", "gpu-memory-utilization", int64(0), "gpu-memory-utilization is 0; want a number above 0 up to 1", "it is the share of the GPU's memory that the engine takes, such as 0.90")
	f("0.25.1", "gpu-memory-utilization", "90%", `gpu-memory-utilization wants a number, got "90%"`, "write 0.9")
	f("0.25.1", "gpu-memory-utilization", "0.9", `gpu-memory-utilization wants a number, got "0.9"`, "write 0.9, without quotes")
	// words
	f("0.25.1", "dtype", "bfloat6", `dtype cannot be "bfloat6"`, "did you mean bfloat16? One of auto, bfloat16, float, float16, float32, half")
	f("0.25.1", "mamba-cache-mode", "zzzzzz", `mamba-cache-mode cannot be "zzzzzz"`, "one of align, all, none")
	f("0.25.1", "max-lora-rank", int64(7), "max-lora-rank cannot be 7", "one of 1, 8, 16, 32, 64, 128, 256, 320, 512")
	f("0.25.1", "show-hidden-metrics-for-version", 0.10, "show-hidden-metrics-for-version wants text, got 0.1", "put the value in quotes")
	f("0.25.1", "tokenizer", []any{"a"}, "tokenizer wants one value, got a list", "")
	f("0.25.1", "tokenizer", "a\x00b", "tokenizer contains a NUL character, which no command line can carry", "")
	// maps and lists
	f("0.25.1", "compilation-config", "3", `compilation-config wants a map, got "3"`, "for example compilation-config: {key: value}")
	f("0.25.1", "compilation-config", `{"a": 1} x`, `compilation-config wants a map, got "{\"a\": 1} x"`, "for example compilation-config: {key: value}")
	f("0.25.1", "enforce-eager.x", true, `enforce-eager has no parts such as "x"`, "only a flag that takes a map has them")
	f("0.25.1", "compilation-config.", true, `compilation-config has no parts such as ""`, "only a flag that takes a map has them")
	f("0.25.1", "compilation-config.pass_config", map[string]any{}, "compilation-config.pass_config wants one value, got a map", "give the whole flag as a map instead")
	f("0.25.1", "cudagraph-capture-sizes", []any{int64(1), "2"}, `cudagraph-capture-sizes wants a whole number, got "2"`, "write 2, without quotes")
	f("0.25.1", "cudagraph-capture-sizes", []any{}, "cudagraph-capture-sizes is an empty list", "leave the flag out to get the engine's own default")
	f("0.25.1", "ignore-patterns", []any{"-x"}, `ignore-patterns: the engine would take "-x" for a flag`, "")
}

func TestAddFailure(t *testing.T) {
	f := func(table, version, dump, want string) {
		t.Helper()
		if _, err := Add([]byte(table), version, []byte(dump)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Add(%q, %q, %q): %v, want %q", table, version, dump, err, want)
		}
	}
	f("", "0.34", `{"flags": {"a": {}}}`, "is not a release")
	f("", "0.34.0", `nonsense`, "read the options of vLLM 0.34.0")
	f("", "0.34.0", `{"version": "0.35.0", "flags": {"a": {}}}`, "the file has the options of vLLM 0.35.0")
	f("", "0.34.0", `{"version": "0.34.0"}`, "has no options")
	f("", "0.34.0", `{"flags": {"a": {"type": "parse_duration"}}}`, `option a of vLLM 0.34.0: the parser's type "parse_duration" is new`)
	f("nonsense", "0.34.0", `{"flags": {"a": {}}}`, "read the option tables: line 1")
	f(`{"releases":["0.1.0"]}`+"\n"+`{"flag":"a","in":"0.2.0"}`, "0.34.0", `{"flags": {"a": {}}}`, "line 2")
	f(`{"releases":[]}`, "0.34.0", `{"flags": {"a": {}}}`, "no release")
}

// FuzzCheck looks for values that are accepted and then change their meaning when they are read again, as they are from
// a results folder.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"max-model-len", "max-num-seqs", "dtype", "compilation-config", "hf-overrides", "enforce-eager", "tp", "swap-space", "compilation-config.mode", "cudagraph-capture-sizes"} {
		for _, text := range []string{"32k", "8192", `"auto"`, `{"a": [1, 2.5, null]}`, "0.9", "true", "1.5K", "", "[1]", "1e400", "-1"} {
			f.Add(name, text)
		}
	}
	table, err := Newest()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		v, err := decodeJSON(text)
		if err != nil {
			v = text
		}
		typed, p := table.Check(name, v)
		if p != nil {
			if p.Message == "" {
				t.Fatal("a problem without a message")
			}
			return
		}
		again, p := table.Check(name, typed)
		if p != nil || !reflect.DeepEqual(typed, again) {
			t.Fatalf("%s: %v became %#v, then %#v (%v)", name, v, typed, again, p)
		}
	})
}
