package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/flags"
)

// environment is what every vLLM is started with. The development mode adds the endpoints for settings and cache reset
// (bound to the launch's host only); the rest keeps it from calling home and from holding its log back.
var environment = [...][2]string{
	{"VLLM_SERVER_DEV_MODE", "1"},
	{"VLLM_NO_USAGE_STATS", "1"},
	{"DO_NOT_TRACK", "1"},
	{"PYTHONUNBUFFERED", "1"},
}

// Command is the binary with `serve MODEL --served-model-name NAME --host H --port P` and the flags, checked against
// the flag table of l.Version or the nearest one. With a path the model is loaded from there and its revision is not
// passed on, because a folder has none.
func (Engine) Command(l engine.Launch) (engine.Command, error) {
	if len(l.Binary) == 0 {
		return engine.Command{}, errors.New("make the command of vllm: no binary is given")
	}
	args, err := ServeArgs(l)
	if err != nil {
		return engine.Command{}, fmt.Errorf("make the command of vllm: %w", err)
	}
	env := map[string]string{}
	for _, e := range environment {
		env[e[0]] = e[1]
	}
	maps.Copy(env, l.Env)
	return engine.Command{Argv: slices.Concat(l.Binary, args), Env: env}, nil
}

// ServeArgs is everything after the binary: "serve", the model and the options.
func ServeArgs(l engine.Launch) ([]string, error) {
	table, _, err := flags.Nearest(l.Version)
	if err != nil {
		return nil, err
	}
	model := l.Model.Path
	if model == "" {
		model = l.Model.Name
	}
	if model == "" || model[0] == '-' || l.Model.Name == "" || l.Model.Name[0] == '-' {
		return nil, fmt.Errorf("%q is not the name of a model", l.Model.Name)
	}
	if l.Port < 1 || l.Port > 65535 {
		return nil, fmt.Errorf("port %d is not between 1 and 65535", l.Port)
	}
	args := []string{"serve", model, "--served-model-name", l.Model.Name}
	if l.Model.Path == "" && l.Model.Revision != "" {
		args = append(args, "--revision", l.Model.Revision)
	}
	args = append(args, "--host", l.Host, "--port", strconv.Itoa(l.Port))
	seen := map[string]bool{}
	for _, f := range l.Flags {
		if seen[f.Name] {
			return nil, fmt.Errorf("flag %s is given twice", f.Name)
		}
		seen[f.Name] = true
		a, err := flagArgs(table, f)
		if err != nil {
			return nil, fmt.Errorf("flag %s: %w", f.Name, err)
		}
		args = append(args, a...)
	}
	return args, nil
}

// reserved are options that are not a config's to set, each with the reason.
var reserved = map[string]string{
	"model":             "it is the spec's model.name",
	"served-model-name": "it is the spec's model.name",
	"revision":          "it is the spec's model.revision",
	"host":              "the address is chosen at the start",
	"port":              "the port is chosen at the start",
	"uds":               "the server must listen on a port",
	"grpc":              "the server must speak HTTP",
	"headless":          "the server must speak HTTP",
	"config":            "options in a file of vLLM's would not be seen; write them as flags",
	"help":              "it starts no server",
	"api-key":           "a secret must not be on a command line; set VLLM_API_KEY in the environment",
	"hf-token":          "a secret must not be on a command line; set HF_TOKEN in the environment",
}

// flagArgs writes one flag. vLLM's booleans take no value (--enforce-eager true is an error), most have a --no- form,
// and those without one are off unless they are there.
func flagArgs(table flags.Table, f engine.Flag) ([]string, error) {
	name, sub, dotted := strings.Cut(f.Name, ".")
	if why, ok := reserved[name]; ok {
		return nil, errors.New(why)
	}
	if !table.Has(name) {
		return nil, fmt.Errorf("vllm %s has no such option", table.Version())
	}
	if dotted { // --compilation-config.cudagraph_mode NONE sets one key of a JSON option
		if sub == "" || table.IsBool(name) {
			return nil, errors.New("only an option that takes JSON has parts")
		}
		return jsonPart(f)
	}
	on, isBool := f.Value.(bool)
	switch {
	case table.IsBool(name) && !isBool:
		return nil, fmt.Errorf("it is on or off, and takes no value such as %v", f.Value)
	case !isBool:
		return valueArgs(table, f)
	case !table.IsBool(name):
		return nil, fmt.Errorf("it takes a value, and is not just %v", on)
	case on:
		return []string{"--" + name}, nil
	case table.Negatable(name):
		return []string{"--no-" + name}, nil
	}
	return nil, nil
}

func valueArgs(table flags.Table, f engine.Flag) ([]string, error) {
	list, isList := f.Value.([]any)
	if !isList || !table.IsList(f.Name) {
		if _, isMap := f.Value.(map[string]any); (isList || isMap) && !takesJSON(table, f.Name) {
			return nil, errors.New("it takes one value, no list and no map")
		}
		s, err := word(f.Value)
		if err != nil {
			return nil, err
		}
		return option(f.Name, s), nil
	}
	if len(list) == 0 {
		return nil, errors.New("an empty list cannot be written on vllm's command line")
	}
	args := []string{"--" + f.Name}
	for _, v := range list {
		s, err := word(v)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(s, "-") {
			return nil, fmt.Errorf("the list's %q would be taken for an option", s)
		}
		args = append(args, s)
	}
	return args, nil
}

func takesJSON(table flags.Table, name string) bool {
	o, _ := table.Lookup(name)
	return o.Type == flags.JSON || o.Type == flags.JSONOrText || o.Type == flags.Any
}

// option is --name value, or --name=value where the value would be taken for an option.
func option(name, value string) []string {
	if strings.HasPrefix(value, "-") {
		return []string{"--" + name + "=" + value}
	}
	return []string{"--" + name, value}
}

func jsonPart(f engine.Flag) ([]string, error) {
	if b, ok := f.Value.(bool); ok {
		return []string{"--" + f.Name, strconv.FormatBool(b)}, nil
	}
	s, err := word(f.Value)
	if err != nil {
		return nil, err
	}
	return option(f.Name, s), nil
}

// word is one value as one argument: numbers in full, lists and maps as JSON.
func word(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return "", fmt.Errorf("%v is not a number that can be passed on", x)
		}
		return strconv.FormatFloat(x, 'f', -1, 64), nil
	case []any, map[string]any:
		b, err := json.Marshal(x)
		if err != nil {
			return "", fmt.Errorf("write it as JSON: %w", err)
		}
		return string(b), nil
	}
	return "", fmt.Errorf("a value of type %T cannot be written on a command line", v)
}
