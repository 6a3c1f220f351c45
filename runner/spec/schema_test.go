package spec

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	reflectschema "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../docs/reference/experiment.schema.json"

func compiled(t *testing.T, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON reads YAML as an editor's schema check sees it.
func asJSON(t *testing.T, data []byte) any {
	t.Helper()
	b, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaIsCommitted(t *testing.T) {
	s, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, schemaFile, string(s))
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, raw)
	for _, p := range goodFiles(t) {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(asJSON(t, data)); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		y, err := load(t, p).YAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(asJSON(t, y)); err != nil {
			t.Errorf("%s, resolved: %v", p, err)
		}
	}
}

// TestSchemaRefusesBadFiles names the bad files that an editor underlines; the others need more than a schema.
func TestSchemaRefusesBadFiles(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, raw)
	for _, name := range []string{
		"unknown-key", "wrong-type", "missing-keys", "durations", "durations-out-of-range", "numbers", "names", "compare", "version", "version-word",
		"prompt-kinds", "prompt-kind-unknown", "prompt-none", "load-both", "load-neither", "objective-bounds", "secrets", "sim", "flag-values", "placeholder",
		"wrong-version-of-the-format",
	} {
		data, err := os.ReadFile("testdata/bad/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(asJSON(t, data)) == nil {
			t.Errorf("%s.yaml passes the schema", name)
		}
	}
}

// TestSchemaRefusesOnlyWhatParseRefuses: an editor must not underline what runs.
func TestSchemaRefusesOnlyWhatParseRefuses(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, raw)
	for _, c := range [][2]string{
		{"requests: 32", "requests: 31"}, {"[4, 16]", "4"}, {"max: 1%", "max: 0.5%"}, {"max: 1%", "max: 0.01"}, {"max: 1%", "min: 0"},
		{"seed: 2", "max-model-len: 32k"}, {"seed: 2", "optimization-level: 2"}, {"seed: 2", "compilation-config: {mode: 3}"}, {"seed: 2", `compilation-config: '{"mode": 3}'`},
		{"seed: 2", "cudagraph-capture-sizes: 8"}, {"seed: 2", "cudagraph-capture-sizes: [1, 8]"}, {"seed: 2", "compilation-config.mode: 3"}, {"seed: 2", "max-model-len: 1e3"},
		{"text: hello", "random: {tokens: 5}"}, {"\nload: {", "\nload: {timeout: 1h30m, warmup: 0, "}, {"name: vllm", "name: sim, sim: {speed: 0.5, faults: [die-after=40]}"},
		{"version: 0.25.1", "version: 0.25.1.post1"}, {"version: 0.25.1", "version: 0.25.1, env: {A: 1, B: true, C: x}"},
	} {
		text := strings.Replace(small, c[0], c[1], 1)
		parse(t, text)
		if err := s.Validate(asJSON(t, []byte(text))); err != nil {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}

// TestExperimentsNameTheSchema: the first line is what makes editors complete the file.
func TestExperimentsNameTheSchema(t *testing.T) {
	for _, p := range files(t, "../../experiments/*.yaml") {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(string(data), "\n"); first != "# yaml-language-server: $schema=../docs/reference/experiment.schema.json" {
			t.Errorf("%s begins with %q", p, first)
		}
	}
}

// TestResultSchema: a schema made from Experiment, as the result document's is, describes what Experiment writes.
func TestResultSchema(t *testing.T) {
	r := reflectschema.Reflector{Anonymous: true, DoNotReference: true}
	raw, err := json.Marshal(r.Reflect(&Experiment{}))
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, raw)
	for _, p := range goodFiles(t) {
		b, err := json.Marshal(load(t, p))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if !slices.Contains(strings.Split(string(raw), `"`), "timeout_seconds") {
		t.Error("the schema does not name timeout_seconds")
	}
}
