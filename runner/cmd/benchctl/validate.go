package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/spec"
)

func (a *app) validateCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check experiment files and print every fault with its place",
		Args:  files,
		RunE: func(_ *cobra.Command, args []string) error {
			if asJSON {
				return a.validateJSON(args)
			}
			exps, err := a.load(args)
			if err != nil {
				return err
			}
			for _, e := range exps {
				loads := fmt.Sprintf("%d load points", len(e.Points()))
				if e.Load.Capacity != nil {
					loads = "a capacity search"
				}
				fmt.Fprintf(a.stdout, "%s: ok (%d configs%s, %s, %d starts each)\n", e.File, len(e.Own()), between(e), loads, e.Starts)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the faults as a JSON array")
	return c
}

func (a *app) validateJSON(paths []string) error {
	all := []spec.Fault{}
	for _, p := range paths {
		_, faults := spec.Load(p)
		all = append(all, faults...)
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(all); err != nil {
		return &exitError{exitMachinery, err}
	}
	if len(all) > 0 {
		return &exitError{Code: exitUsage}
	}
	return nil
}

// load reads experiment files. Faults go to stderr, one after the other, in the form editors jump to; the error is
// then silent.
func (a *app) load(paths []string) ([]*spec.Experiment, error) {
	var out []*spec.Experiment
	bad := false
	for _, p := range paths {
		e, faults := spec.Load(p)
		for _, f := range faults {
			bad = true
			fmt.Fprintln(a.stderr, f.Error())
			if f.Hint != "" {
				fmt.Fprintln(a.stderr, "  hint: "+f.Hint)
			}
		}
		out = append(out, e)
	}
	if bad {
		return nil, &exitError{Code: exitUsage}
	}
	return out, nil
}

// between says how many configs attribution adds.
func between(e *spec.Experiment) string {
	if n := len(e.Configs) - len(e.Own()); n > 0 {
		return fmt.Sprintf(" and %d in between", n)
	}
	return ""
}
