package spec

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"

	"h100-inference-control-plane/runner/engine/flags"
)

// Schema is the JSON Schema of the experiment file, for editors: names, types, ranges and descriptions from the structs
// that the reader uses, and the flags of the newest release known. It says less than Parse does; what it refuses, Parse
// refuses.
func Schema() ([]byte, error) {
	table, err := flags.Newest()
	if err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, DoNotReference: true}
	s := r.Reflect(&fileExperiment{})
	s.Title = "Experiment"
	s.Description = "One question about LLM serving: a model, engine configs, a workload, load levels and objectives."
	if s.Definitions == nil {
		s.Definitions = jsonschema.Definitions{}
	}
	s.Definitions["flags"] = flagsSchema(table)
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	return append(b, '\n'), nil
}

func flagsSchema(t flags.Table) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:        "object",
		Description: "Flags of vllm serve without dashes; true and false for --x and --no-x. Completed from release " + t.Version() + "; checked against the file's.",
		Properties:  jsonschema.NewProperties(),
	}
	for _, name := range t.Names() {
		if _, reserved := flags.Reserved(name); reserved {
			continue
		}
		o, _ := t.Lookup(name)
		s.Properties.Set(name, flagSchema(o))
	}
	return s
}

// flagSchema is the form of one flag. Choices are an example and not an enum: another release has others.
func flagSchema(o flags.Option) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	switch o.Type {
	case flags.Bool:
		s.Type = "boolean"
	case flags.Int:
		s.Type = "integer"
	case flags.Float:
		s.Type = "number"
	case flags.Size, flags.SizeOrAuto:
		s.AnyOf = []*jsonschema.Schema{{Type: "number"}, {Type: "string"}}
	case flags.JSON, flags.JSONOrText:
		s.AnyOf = []*jsonschema.Schema{{Type: "object"}, {Type: "array"}, {Type: "string"}}
	case flags.Text:
		s.AnyOf = []*jsonschema.Schema{{Type: "string"}, {Type: "integer"}}
	case flags.Any:
		return s
	}
	if o.List {
		one := *s
		s = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{&one, {Type: "array", MinItems: size(1), Items: &one}}}
	}
	for _, c := range o.Choices {
		if o.Type != flags.Int {
			s.Examples = append(s.Examples, c)
		}
	}
	s.Default = o.Default
	return s
}

func size(n uint64) *uint64 { return &n }

// JSONSchema says that a duration is text with units.
func (duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+([.][0-9]+)?(ms|s|m|h))+$`, Examples: []any{"250ms", "60s", "10m"}}
}

// JSONSchema lists the three ways to write a bound.
func (bound) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		OneOf: []*jsonschema.Schema{
			{Type: "number", Minimum: "0"},
			{Type: "string", Pattern: `^(([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+|[0-9]+([.][0-9]+)? ?%)$`},
		},
		Examples: []any{"500ms", "1%"},
	}
}

// JSONSchema says that a share is a ratio or a percentage.
func (share) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		OneOf: []*jsonschema.Schema{
			{Type: "number", Minimum: "0", ExclusiveMaximum: "1"},
			{Type: "string", Pattern: `^[0-9]+([.][0-9]+)? ?%$`},
		},
		Default: "3%",
	}
}

// JSONSchema is that of a share with a least value.
func (step) JSONSchema() *jsonschema.Schema {
	s := share(0).JSONSchema()
	s.OneOf[0].Minimum, s.Default = "0.01", "5%"
	return s
}

func oneOrMany(one *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", Items: one, MinItems: size(1), MaxItems: size(50), UniqueItems: true}}}
}

// JSONSchema says that it is a number or a list of them.
func (wholes) JSONSchema() *jsonschema.Schema {
	return oneOrMany(&jsonschema.Schema{Type: "integer", Minimum: "1", Maximum: "10000"})
}

// JSONSchema says that it is a number or a list of them.
func (numbers) JSONSchema() *jsonschema.Schema {
	return oneOrMany(&jsonschema.Schema{Type: "number", ExclusiveMinimum: "0", Maximum: "100000"})
}

// JSONSchema says that configs are flags by name.
func (fileConfigs) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", MinProperties: size(1), MaxProperties: size(maxConfigs),
		PropertyNames:        &jsonschema.Schema{Pattern: configName.String()},
		AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/flags"},
	}
}

// JSONSchema refers to the flags of the newest release.
func (fileFlags) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/flags"} }

// JSONSchema says that variables are text; numbers and switches count as they are written.
func (fileEnv) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type:          "object",
		PropertyNames: &jsonschema.Schema{Pattern: envName.String()},
		AdditionalProperties: &jsonschema.Schema{
			OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}},
		},
	}
}

// JSONSchema says that a prompt file is a path, with its hash or without.
func (filePromptFile) JSONSchema() *jsonschema.Schema {
	long := jsonschema.NewProperties()
	long.Set("path", &jsonschema.Schema{Type: "string"})
	long.Set("sha256", &jsonschema.Schema{Type: "string", Pattern: sha256Hex.String()})
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "string"},
		{Type: "object", Properties: long, Required: []string{"path"}, AdditionalProperties: jsonschema.FalseSchema},
	}}
}

// JSONSchemaExtend adds what the structs cannot say: exactly one kind of prompt.
func (filePrompt) JSONSchemaExtend(s *jsonschema.Schema) {
	s.MinProperties, s.MaxProperties = size(1), size(1)
}

// JSONSchemaExtend adds what the structs cannot say: closed, open or a search.
func (fileLoad) JSONSchemaExtend(s *jsonschema.Schema) {
	s.OneOf = []*jsonschema.Schema{{Required: []string{"closed"}}, {Required: []string{"open"}}, {Required: []string{"capacity"}}}
}

// JSONSchemaExtend adds what the structs cannot say: concurrency with requests, or a rate with a duration.
func (fileCapacity) JSONSchemaExtend(s *jsonschema.Schema) {
	s.OneOf = []*jsonschema.Schema{{Required: []string{"concurrency", "requests"}}, {Required: []string{"rate", "duration"}}}
}

// JSONSchemaExtend adds what the structs cannot say: max or min.
func (fileSLO) JSONSchemaExtend(s *jsonschema.Schema) {
	s.OneOf = []*jsonschema.Schema{{Required: []string{"max"}}, {Required: []string{"min"}}}
}

// JSONSchemaExtend gives the result document's schema the names and units that MarshalJSON writes.
func (LoadLevels) JSONSchemaExtend(s *jsonschema.Schema) { inSeconds(s, "timeout") }

// JSONSchemaExtend gives the result document's schema the names and units that LoadLevels.MarshalJSON writes.
func (Open) JSONSchemaExtend(s *jsonschema.Schema) { inSeconds(s, "duration") }

// JSONSchemaExtend gives the result document's schema the names and units that LoadLevels.MarshalJSON writes.
func (Capacity) JSONSchemaExtend(s *jsonschema.Schema) { inSeconds(s, "duration") }

func inSeconds(s *jsonschema.Schema, name string) {
	if s.Properties == nil {
		return
	}
	s.Properties.Delete(name)
	s.Properties.Set(name+"_seconds", &jsonschema.Schema{Type: "number"})
	for i, r := range s.Required {
		if strings.EqualFold(r, name) {
			s.Required[i] = name + "_seconds"
		}
	}
}
