package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"h100-inference-control-plane/runner/engine/flags"
	"h100-inference-control-plane/runner/sim/model"
)

// command is a command line, read.
type command struct {
	cfg  Config
	host string
	port int
	help bool
}

// shorthand are the short options of vLLM that are in use.
var shorthand = map[string]string{
	"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size", "-q": "quantization",
	"-cc": "compilation-config", "-O": "optimization-level",
}

// parseArgs reads [--profile P] [--speed X] [--fault F]... [--version V] [--noise-seed N] serve MODEL [vLLM options].
// The noise seed is seed unless one is given.
func parseArgs(args []string, seed uint64) (command, error) {
	c := command{cfg: Config{Seed: seed, Version: DefaultVersion}, host: "0.0.0.0", port: 8000}
	args, err := c.ownOptions(args)
	if err != nil || c.help {
		return c, err
	}
	if len(args) == 0 || args[0] != "serve" {
		return c, errors.New(`the command "serve" and a model must follow the options of the simulation`)
	}
	table, _, err := flags.Nearest(c.cfg.Version)
	if err != nil {
		return c, err
	}
	p := argv{table: table, rest: args[1:], flags: map[string]any{}}
	if err := p.run(); err != nil {
		return c, err
	}
	if p.help {
		c.help = true
		return c, nil
	}
	if p.model == "" {
		p.model = "simulated"
	}
	c.cfg.Model, c.cfg.Flags = p.model, p.flags
	return c, c.address()
}

// ownOptions takes the options before "serve" off.
func (c *command) ownOptions(args []string) (rest []string, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, has := strings.Cut(args[0], "=")
		args = args[1:]
		if name == "--help" || name == "-h" {
			c.help = true
			return nil, nil
		}
		if !slices.Contains([]string{"--profile", "--speed", "--fault", "--version", "--noise-seed"}, name) {
			return nil, fmt.Errorf("unrecognized arguments: %s", name)
		}
		if !has {
			if len(args) == 0 {
				return nil, fmt.Errorf("argument %s: expected one argument", name)
			}
			value, args = args[0], args[1:]
		}
		if err := c.own(name, value); err != nil {
			return nil, fmt.Errorf("argument %s: %w", name, err)
		}
	}
	return args, nil
}

func (c *command) own(name, value string) (err error) {
	switch name {
	case "--profile":
		c.cfg.Profile = value
		_, err = model.LoadProfile(value)
	case "--speed":
		c.cfg.Speed, err = factor(value)
	case "--fault":
		c.cfg.Faults = append(c.cfg.Faults, value)
		_, err = parseFaults([]string{value})
	case "--version":
		c.cfg.Version = value
		_, err = parseRelease(value)
	case "--noise-seed":
		c.cfg.Seed, err = strconv.ParseUint(value, 10, 64)
	}
	return err
}

// address takes host and port out of the options.
func (c *command) address() error {
	r := reader{flags: c.cfg.Flags}
	c.port = r.integer("port", c.port)
	if h, ok := c.cfg.Flags["host"].(string); ok {
		c.host = h
	}
	if r.err == nil && (c.port < 0 || c.port > 65535) {
		r.fail("port", c.port)
	}
	return r.err
}

// argv is vLLM's part of a command line, read as argparse does: --x, --no-x, --x v, --x=v, underscores for dashes,
// dotted names for the parts of a JSON option, several words for a list.
type argv struct {
	table flags.Table
	rest  []string
	model string
	flags map[string]any
	help  bool
}

func (p *argv) run() error {
	for len(p.rest) > 0 {
		word := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case word == "--help" || word == "-h":
			p.help = true
			return nil
		case len(word) > 1 && word[0] == '-':
			if err := p.option(word); err != nil {
				return err
			}
		case p.model == "":
			p.model = word
		default:
			return fmt.Errorf("unrecognized arguments: %s", word)
		}
	}
	return nil
}

func (p *argv) option(word string) error {
	name, value, has := strings.Cut(word, "=")
	switch long, isLong := strings.CutPrefix(name, "--"); {
	case isLong:
		name = long
	case len(name) == 3 && strings.HasPrefix(name, "-O") && !has: // -O2
		name, value, has = "optimization-level", name[2:], true
	default:
		head, part, dotted := strings.Cut(name, ".")
		if shorthand[head] == "" {
			return fmt.Errorf("unrecognized arguments: %s", word)
		}
		name = shorthand[head]
		if dotted {
			name += "." + part
		}
	}
	head, part, dotted := strings.Cut(name, ".")
	head = strings.ReplaceAll(head, "_", "-")
	if off, ok := strings.CutPrefix(head, "no-"); ok && !dotted && !p.table.Has(head) && p.table.Negatable(off) {
		return p.boolean(off, false, has)
	}
	if !p.table.Has(head) {
		return fmt.Errorf("unrecognized arguments: %s", word)
	}
	if p.table.IsBool(head) && !dotted {
		return p.boolean(head, true, has)
	}
	return p.value(head, part, value, has)
}

func (p *argv) boolean(name string, on, hasValue bool) error {
	if hasValue {
		return fmt.Errorf("argument --%s: ignored explicit argument", name)
	}
	p.flags[name] = on
	return nil
}

func (p *argv) value(name, part, value string, has bool) error {
	o, _ := p.table.Lookup(name)
	var words []string
	if has {
		words = []string{value}
	}
	for !has && len(p.rest) > 0 && (len(words) == 0 || o.List) && !isOption(p.rest[0]) {
		words = append(words, p.rest[0])
		p.rest = p.rest[1:]
	}
	switch {
	case len(words) == 0:
		return fmt.Errorf("argument --%s: expected one argument", name)
	case part != "":
		p.flags[name+"."+part] = typed(words[0])
		return nil
	}
	values := make([]any, len(words))
	for i, w := range words {
		v, err := convert(o, w)
		if err != nil {
			return fmt.Errorf("argument --%s: %w", name, err)
		}
		values[i] = v
	}
	p.flags[name] = values[0]
	if o.List {
		p.flags[name] = values
	}
	if name == "model" {
		p.model = words[0]
	}
	return nil
}

// convert reads one word as argparse would for the option.
func convert(o flags.Option, word string) (any, error) {
	if len(o.Choices) > 0 && !slices.Contains(o.Choices, word) {
		return nil, fmt.Errorf("invalid choice: '%s' (choose from %s)", word, strings.Join(o.Choices, ", "))
	}
	switch o.Type {
	case flags.Int:
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid int value: '%s'", word)
		}
		return n, nil
	case flags.Float:
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid float value: '%s'", word)
		}
		return x, nil
	case flags.Text:
		return word, nil
	case flags.JSON:
		switch v := typed(word).(type) {
		case map[string]any, []any:
			return v, nil
		}
		return nil, fmt.Errorf("invalid JSON value: '%s'", word)
	}
	return typed(word), nil
}

// isOption is argparse's rule: a dash, unless a negative number.
func isOption(s string) bool {
	if len(s) < 2 || s[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}
