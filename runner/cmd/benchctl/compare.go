package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/compare"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
)

type compareFlags struct {
	across         []string
	common, asJSON bool
	format         string
}

func (a *app) compareCmd() *cobra.Command {
	f := &compareFlags{}
	c := &cobra.Command{
		Use:   "compare RUN_A RUN_B",
		Short: "Compare two runs where that is allowed, and name what forbids it where it is not",
		Long: `Compare two results folders (or their run.json): for each config and load point both medians, the ratio B ÷ A with
a 95 % interval from engine starts, and better, worse or no clear change. Runs that differ in something else than
their flags are refused, with every key that differs; --across KEY allows one on purpose, and the first line says so.

Keys: ` + strings.Join(compare.Keys(), ", ") + `.

Exit codes: 0 something can be said · 2 bad usage, or not comparable · 3 nothing can be said · 4 the machinery failed.`,
		Example: `  benchctl compare results/a/2026/0123456789ab results/a/2026/ba9876543210
  benchctl compare --across engine.version OLD NEW`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("compare needs two runs, and got %d\nhint: benchctl compare RUN_A RUN_B, each a results folder", len(args))
			}
			return a.compare(args[0], args[1], f)
		},
	}
	c.Flags().StringSliceVar(&f.across, "across", nil, "keys that differ on purpose, such as engine.version")
	c.Flags().BoolVar(&f.common, "common", false, "compare the configs and load points that both runs have")
	c.Flags().StringVar(&f.format, "format", "text", "text or markdown")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the comparison as JSON")
	if err := c.RegisterFlagCompletionFunc("across", cobra.FixedCompletions(compare.Keys(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

func (a *app) compare(pathA, pathB string, f *compareFlags) error {
	if f.format != "text" && f.format != "markdown" {
		return usage("unknown format %q\nhint: text or markdown", f.format)
	}
	runA, err := readRun(pathA)
	if err != nil {
		return err
	}
	runB, err := readRun(pathB)
	if err != nil {
		return err
	}
	c, err := compare.Runs(runA, runB, compare.Options{Across: f.across, Common: f.common})
	var refused *compare.Refused
	switch {
	case errors.As(err, &refused):
		return &exitError{exitUsage, fmt.Errorf("%s%s", printableLines(err.Error()), acrossHint(refused))}
	case err != nil:
		return usage("--across: %w", err)
	}
	if err := a.printComparison(c, f); err != nil {
		return &exitError{exitMachinery, fmt.Errorf("write the comparison: %w", err)}
	}
	if !c.Conclusive() {
		return &exitError{Code: exitInconclusive}
	}
	return nil
}

func (a *app) printComparison(c *compare.Comparison, f *compareFlags) error {
	var out []byte
	switch {
	case f.asJSON:
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(c)
	case f.format == "markdown":
		out = report.CompareMarkdown(c)
	default:
		width, color := a.terminal()
		out = report.CompareText(c, width, color)
	}
	_, err := a.stdout.Write(out)
	return err
}

// readRun reads a results folder, or the run.json in one.
func readRun(path string) (*result.Run, error) {
	dir := path
	if filepath.Base(path) == result.FileName {
		dir = filepath.Dir(path)
	}
	run, err := result.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("%s holds no run.json\nhint: give the folder that `benchctl run` named, such as results/NAME/2026/0123456789ab", path)
	}
	if err != nil {
		return nil, usage("%s: %w", path, err)
	}
	return run, nil
}

// acrossHint is the flag that would allow what was refused, where a flag can.
func acrossHint(r *compare.Refused) string {
	var keys []string
	common := false
	for _, d := range r.Differs {
		if d.Key == "configs" || d.Key == "load.points" {
			common = true
			continue
		}
		keys = append(keys, d.Key)
	}
	var out []string
	if len(keys) > 0 {
		out = append(out, "--across "+strings.Join(keys, ","))
	}
	if common {
		out = append(out, "--common")
	}
	return "\nhint: " + strings.Join(out, " ") + " compares all the same; the numbers are then of that difference too"
}

// printableLines is printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
