package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
)

func (a *app) reportCmd() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Print the report of a results folder again",
		Long:  "Print the report of a results folder again, from its run.json alone. The exit code is the run's.",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			run, err := result.Read(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return usage("%s holds no run.json\nhint: give the folder that `benchctl run` named, such as results/NAME/2026/0123456789ab", args[0])
			}
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if err := a.render(run, format); err != nil {
				return err
			}
			return verdictError(run.Verdict)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text, markdown or json")
	return c
}

func (a *app) render(run *result.Run, format string) error {
	var out []byte
	switch format {
	case "text":
		width, color := a.terminal()
		out = report.Text(run, width, color)
	case "markdown":
		out = report.Markdown(run)
	case "json":
		var err error
		if out, err = report.JSON(run); err != nil {
			return &exitError{exitMachinery, err}
		}
	default:
		return usage("unknown format %q\nhint: text, markdown or json", format)
	}
	_, err := a.stdout.Write(out)
	if err != nil {
		return &exitError{exitMachinery, fmt.Errorf("write the report: %w", err)}
	}
	return nil
}

// terminal gives the width of standard output and whether it takes colour. NO_COLOR and a pipe mean plain.
func (a *app) terminal() (width int, color bool) {
	f, ok := a.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 100, false
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil || w < 40 {
		w = 100
	}
	return w, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// verdictError is nil for a verdict that means success, otherwise a silent error with its code.
func verdictError(v result.Verdict) error {
	if code := judge.ExitCode(v); code != 0 {
		return &exitError{Code: code}
	}
	return nil
}
