package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/plan"
)

func (a *app) planCmd() *cobra.Command {
	var asJSON bool
	var seed uint64
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Show what a run would do: starts and trials in order, minutes, and what cannot act",
		Long: `Show what a run would do, without doing it: every engine start and trial in order with its seed, the
estimated engine minutes, and warnings about factors that cannot act on the workload. Several files in one
command share engine starts where their configurations are the same.`,
		Args: files,
		RunE: func(_ *cobra.Command, args []string) error {
			exps, err := a.load(args)
			if err != nil {
				return err
			}
			p, err := plan.New(exps, plan.Options{Seed: seed})
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(p)
			}
			writePlan(a.stdout, p)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	c.Flags().Uint64Var(&seed, "seed", 0, "seed of the order and of the prompts; 0 derives it from the experiments")
	return c
}

func writePlan(w io.Writer, p *plan.Plan) {
	for _, e := range p.Experiments {
		fmt.Fprintf(w, "%s (%s)\n", e.Name, e.File)
	}
	fmt.Fprintf(w, "seed %d\n\n", p.Seed)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "start\tblock\tconfig\ttrial\trequests\twarm-up\tseed\tabout")
	for _, s := range p.Starts {
		fmt.Fprintf(tw, "%s\t%d\t%s\t\t\t\t\t%s\n", s.ID, s.Block, strings.Join(s.Labels, " + "), clock(s.EstimateS))
		for _, t := range s.Trials {
			if t.Search != nil {
				fmt.Fprintf(tw, "\t\t\t%s\t≤ %d\t≤ %d\t%d\t≤ %s\n", searchText(t), t.Requests, t.Warmup, t.Seed, clock(t.EstimateS))
				continue
			}
			fmt.Fprintf(tw, "\t\t\t%s\t%d\t%d\t%d\t%s\n", t.ID, t.Requests, t.Warmup, t.Seed, clock(t.EstimateS))
		}
	}
	tw.Flush()
	e := p.Estimate
	about := "about"
	if e.AtMost {
		about = "at most"
	}
	fmt.Fprintf(w, "\n%d starts, %d trials, %d requests: %s %s of engine time, of which %s is starting engines\n",
		e.Starts, e.Trials, e.Requests, about, clock(e.EngineMinutes*60), clock(e.StartMinutes*60))
	if e.AtMost {
		fmt.Fprintln(w, "what a capacity search measures follows from what it finds; these are upper limits, with every search at its highest load")
	}
	if at := e.Attribution; at != nil {
		fmt.Fprintf(w, "of these, %d starts of %d configs in between (%s) are for splitting the change over the flags; without attribute: true they are not made\n",
			at.Starts, at.Configs, clock(at.EngineMinutes*60))
	}
	if !e.AtMost {
		fmt.Fprintf(w, "a gate that fails is measured once more before it counts: one more start for each config that failed\n")
	}
	fmt.Fprintf(w, "basis: %s\n", e.Basis)
	writeWarnings(w, p)
}

// searchText names a search, whose trials are not known ahead.
func searchText(t plan.Trial) string {
	return fmt.Sprintf("%s: at most %d trials, usually %d or fewer", t.ID, t.Search.Trials, t.Search.Usual)
}

func writeWarnings(w io.Writer, p *plan.Plan) {
	files := map[string]string{}
	for _, e := range p.Experiments {
		files[e.Name] = e.File
	}
	for _, x := range p.Warnings {
		place := files[x.Experiment]
		if x.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", place, x.Line, x.Column)
		}
		fmt.Fprintf(w, "%s: warning: %s [%s]\n", place, x.Message, x.Code)
	}
}

// clock renders seconds for people: 45 s, 12 min.
func clock(s float64) string {
	switch {
	case s < 90:
		return fmt.Sprintf("%.0f s", s)
	case s < 600:
		return fmt.Sprintf("%.1f min", s/60)
	default:
		return fmt.Sprintf("%.0f min", s/60)
	}
}
