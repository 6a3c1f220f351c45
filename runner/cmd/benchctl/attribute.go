package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
)

func (a *app) attributeCmd() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "attribute DIR",
		Short: "Show which flag made the difference, from a results folder",
		Long: `Show which flag made the difference: the change between baseline and candidate split over the flags that
differ, each with an interval, from the run.json of a results folder whose experiment says attribute: true.
Exit code 3 when the run has no split that can be shown.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			run, err := result.Read(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return usage("%s holds no run.json\nhint: give the folder that `benchctl run` named, such as results/NAME/2026/0123456789ab", args[0])
			}
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if len(run.Attributions) == 0 {
				return usage("%s: nothing was attributed in this run\nhint: set compare.attribute: true in the experiment and run it; `benchctl plan` shows what that costs", args[0])
			}
			if err := a.renderAttribution(run, format); err != nil {
				return err
			}
			for _, x := range run.Attributions {
				if x.Result != nil {
					return nil
				}
			}
			return &exitError{Code: exitInconclusive}
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text, markdown or json")
	return c
}

func (a *app) renderAttribution(run *result.Run, format string) error {
	var out []byte
	switch format {
	case "text":
		width, color := a.terminal()
		out = report.AttributionText(run, width, color)
	case "markdown":
		out = report.AttributionMarkdown(run)
	case "json":
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(run.Attributions)
	default:
		return usage("unknown format %q\nhint: text, markdown or json", format)
	}
	if _, err := a.stdout.Write(out); err != nil {
		return &exitError{exitMachinery, fmt.Errorf("write the attribution: %w", err)}
	}
	return nil
}
