package result

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// source is where the descriptions of the schema come from: the comments on the types themselves.
//
//go:embed result.go
var source []byte

// JSONSchema returns the JSON Schema (draft 2020-12) of the document, indented, with a newline at its end. (Schema is the
// name of the document's version.)
func JSONSchema() ([]byte, error) {
	comments, err := comments()
	if err != nil {
		return nil, fmt.Errorf("make the result schema: %w", err)
	}
	r := &jsonschema.Reflector{
		Anonymous: true, Namer: typeName, Mapper: mapType, CommentMap: comments,
		AllowAdditionalProperties: true, // as Decode does
	}
	s := r.Reflect(&Run{})
	s.Title = "h100-inference-control-plane: run.json"
	allowNull(s.Definitions, reflect.TypeFor[Run](), map[reflect.Type]bool{})
	if p, ok := s.Definitions["Run"].Properties.Get("schema"); ok {
		p.Const = Schema
	}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the result schema: %w", err)
	}
	return append(out, '\n'), nil
}

// typeName keeps types of the same name in two packages apart.
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	if pkg := path.Base(t.PkgPath()); pkg != "result" {
		return pkg + "." + t.Name()
	}
	return t.Name()
}

// mapType describes the types whose Go shape says too little.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Verdict]():
		return &jsonschema.Schema{Type: "string", Enum: []any{Pass, Fail, Inconclusive, Error, Superseded}}
	case reflect.TypeFor[Outcome]():
		return &jsonschema.Schema{Type: "string", Enum: []any{Measured, Broken, Missing}}
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: "nanoseconds"}
	case reflect.TypeFor[any]():
		return &jsonschema.Schema{}
	}
	return nil
}

// allowNull lets what may be nil and is not left out be null.
func allowNull(defs jsonschema.Definitions, t reflect.Type, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		allowNull(defs, t.Elem(), seen)
		return
	case reflect.Struct:
	default:
		return
	}
	def := defs[typeName(t)]
	if seen[t] || def == nil {
		return
	}
	seen[t] = true
	for f := range t.Fields() {
		allowNull(defs, f.Type, seen)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := def.Properties.Get(name)
		if !ok || strings.Contains(options, "omitempty") {
			continue
		}
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			inner := *p
			inner.Description = ""
			def.Properties.Set(name, &jsonschema.Schema{Description: p.Description, AnyOf: []*jsonschema.Schema{&inner, {Type: "null"}}})
		}
	}
}

// comments reads what stands beside the types and fields of this document.
func comments() (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "result.go", source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	pkg := reflect.TypeFor[Run]().PkgPath()
	out := map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t := s.(*ast.TypeSpec)
			out[pkg+"."+t.Name.Name] = oneLine(g.Doc.Text())
			st, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					out[pkg+"."+t.Name.Name+"."+n.Name] = oneLine(f.Doc.Text() + " " + f.Comment.Text())
				}
			}
		}
	}
	return out, nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
