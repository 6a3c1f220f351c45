package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/engine/catalog"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/verify"
)

func (a *app) verifyCmd() *cobra.Command {
	var asJSON, verbose, refresh bool
	c := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Compute results folders again from their raw records and name every difference",
		Long: `Compute results folders again from their raw records: hashes, client summaries, engine counters, objectives,
checks, cells, verdicts and the bytes of every rendered file. It needs no network. DIR is a results folder or a
tree with some, such as results. What the folder does not hold is taken as it stands; --verbose names it.

Exit codes: 0 everything is equal · 1 something differs · 2 bad usage, or no results folder · 4 the machinery failed.`,
		Example: `  benchctl verify results
  benchctl verify results/tiny-vllm-cpu/2026/11efeff29422-2 --verbose`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("verify needs a results folder\nhint: benchctl verify results")
			}
			if refresh {
				return a.refresh(args)
			}
			return a.verify(args, asJSON, verbose)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print everything that was found as JSON, one entry per folder")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every difference, and what was not computed again and why")
	c.Flags().BoolVar(&refresh, "refresh", false, "make checks, verdicts and reports anew with this program's rules, where the evidence is sound")
	return c
}

// refresh makes what follows from the evidence anew.
func (a *app) refresh(args []string) error {
	dirs, err := resultFolders(args)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		n, err := refreshFolder(dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s: %d files written anew\n", dir, n)
	}
	return nil
}

func refreshFolder(dir string) (int, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, &exitError{exitMachinery, fmt.Errorf("open %s: %w", dir, err)}
	}
	defer root.Close()
	files, err := verify.Refresh(root.FS(), verify.Options{Engine: catalog.Get})
	switch {
	case errors.Is(err, verify.ErrEvidence):
		return 0, &exitError{exitFail, fmt.Errorf("%s: %w\nhint: benchctl verify %s names everything that differs", dir, err, dir)}
	case errors.Is(err, verify.ErrNoResult), errors.Is(err, result.ErrSchema):
		return 0, usage("%s: %w", dir, err)
	case err != nil:
		return 0, &exitError{exitMachinery, fmt.Errorf("refresh %s: %w", dir, err)}
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = result.WriteFile(path, f.Bytes)
		}
		if err != nil {
			return 0, &exitError{exitMachinery, fmt.Errorf("refresh %s: %w", dir, err)}
		}
	}
	return len(files), nil
}

// verified is what was found in one folder.
type verified struct {
	Dir string `json:"dir"`
	OK  bool   `json:"ok"`
	*verify.Report
}

func (a *app) verify(args []string, asJSON, verbose bool) error {
	dirs, err := resultFolders(args)
	if err != nil {
		return err
	}
	all := []verified{}
	differs := 0
	for _, dir := range dirs {
		r, err := verifyFolder(dir)
		if err != nil {
			return err
		}
		all = append(all, verified{dir, r.OK(), r})
		if !r.OK() {
			differs++
		}
		if !asJSON {
			a.printVerified(dir, r, verbose)
		}
	}
	if asJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(all); err != nil {
			return &exitError{exitMachinery, err}
		}
	}
	if differs > 0 {
		return &exitError{Code: exitFail}
	}
	return nil
}

// verifyFolder opens a folder such that nothing in it, links included, leads out of it.
func verifyFolder(dir string) (*verify.Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &exitError{exitMachinery, fmt.Errorf("open %s: %w", dir, err)}
	}
	defer root.Close()
	r, err := verify.Folder(root.FS(), verify.Options{Engine: catalog.Get})
	switch {
	case errors.Is(err, verify.ErrNoResult), errors.Is(err, result.ErrSchema):
		return nil, usage("%s: %w", dir, err)
	case err != nil:
		return nil, &exitError{exitMachinery, fmt.Errorf("verify %s: %w", dir, err)}
	}
	return r, nil
}

// resultFolders finds the results folders that the arguments are or hold, in the order of their names. Every argument
// must give at least one.
func resultFolders(args []string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, arg := range args {
		n := 0
		err := filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case !d.IsDir():
				return nil
			}
			if _, err := os.Lstat(filepath.Join(path, result.FileName)); err != nil {
				return nil
			}
			n++
			if path = filepath.Clean(path); !seen[path] {
				seen[path] = true
				out = append(out, path)
			}
			return fs.SkipDir
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, usage("%s: there is no such folder", arg)
		case err != nil:
			return nil, &exitError{exitMachinery, err}
		case n == 0:
			return nil, usage("%s holds no run.json\nhint: give the folder that `benchctl run` named, or a tree with such folders, as results", arg)
		}
	}
	return out, nil
}

// mostShown is how many differences of a folder are printed without --verbose.
const mostShown = 20

func (a *app) printVerified(dir string, r *verify.Report, verbose bool) {
	word := "OK"
	if !r.OK() {
		word = fmt.Sprintf("DIFFERS in %d", len(r.Differences))
	}
	fmt.Fprintf(a.stdout, "%s  %s%s  %s\n", word, dir, partialNote(r), recomputed(r))
	shown := r.Differences
	if !verbose {
		shown = shown[:min(len(shown), mostShown)]
	}
	for _, d := range shown {
		fmt.Fprintf(a.stdout, "  %s\n", differenceLine(d))
	}
	if left := len(r.Differences) - len(shown); left > 0 {
		fmt.Fprintf(a.stdout, "  and %d more: --verbose prints them\n", left)
	}
	if hint := versionHint(r); hint != "" {
		fmt.Fprintf(a.stdout, "  hint: %s\n", hint)
	}
	if verbose {
		for _, s := range r.NotRecomputed {
			fmt.Fprintf(a.stdout, "  not recomputed: %s (%d): %s\n", s.What, s.N, s.Why)
		}
	}
}

func partialNote(r *verify.Report) string {
	if r.Partial {
		return " (a partial run)"
	}
	return ""
}

func recomputed(r *verify.Report) string {
	var parts []string
	for _, c := range r.Recomputed {
		switch c.What { // --json has all of them
		case "files", "requests", "engine readings", "objectives", "checks", "verdicts", "rendered files":
			parts = append(parts, fmt.Sprintf("%d %s", c.N, c.What))
		}
	}
	out := strings.Join(parts, ", ")
	if n := len(r.NotRecomputed); n > 0 {
		out += fmt.Sprintf("; %d kinds of input taken as they stand", n)
	}
	return out
}

// differenceLine is one difference on one line: where, what is stored, what came out.
func differenceLine(d verify.Difference) string {
	var b strings.Builder
	b.WriteString(printable(d.File))
	if d.Path != "" {
		b.WriteString(" " + printable(d.Path))
	}
	if d.About != "" {
		b.WriteString(" (" + printable(d.About) + ")")
	}
	b.WriteString(":")
	if d.Stored != "" {
		b.WriteString(" stored " + printable(d.Stored))
	}
	if d.Again != "" {
		b.WriteString(", recomputed " + printable(d.Again))
	}
	if d.Note != "" {
		if d.Stored != "" || d.Again != "" {
			b.WriteString(";")
		}
		b.WriteString(" " + printable(d.Note))
	}
	return b.String()
}

// printable keeps what a folder holds from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, s)
}

// versionHint says that another program may be the reason why conclusions differ. It excuses nothing.
func versionHint(r *verify.Report) string {
	if r.WrittenBy == version {
		return ""
	}
	for _, d := range r.Differences {
		if d.Kind == verify.OfDerived || d.Kind == verify.OfRendered {
			return fmt.Sprintf("the folder was written by benchctl %s and this is %s; checks, verdicts and reports also differ where the rules changed in between: that benchctl tells, and --refresh makes them anew", printable(r.WrittenBy), version)
		}
	}
	return ""
}
