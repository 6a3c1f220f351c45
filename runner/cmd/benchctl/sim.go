package main

import (
	"os"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/sim"
)

// faultVar is not in the experiment file, because a fault that comes from outside must not change the run key.
const faultVar = "BENCHCTL_SIM_FAULT"

func (a *app) simCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "sim [--profile P] [--speed X] [--fault F] serve MODEL [vLLM flags]",
		Short: "Serve a SIMULATED engine on vLLM's wire",
		Long: `Serve a simulated engine: vLLM's endpoints, metrics, log lines, command line and failure modes, over a model of
step times with a known truth. It is for learning and for testing; it says nothing about a GPU.

` + faultVar + ` adds faults to every simulated engine that is started, also by ` + "`benchctl run`" + `: that is how to rehearse
what a run does when its engine dies.`,
		DisableFlagParsing: true, // the command line after "serve" is vLLM's
		RunE: func(c *cobra.Command, args []string) error {
			if f := os.Getenv(faultVar); f != "" {
				args = append([]string{"--fault", f}, args...)
			}
			if code := sim.Main(c.Context(), args, a.stdout, a.stderr); code != 0 {
				return &exitError{Code: code}
			}
			return nil
		},
	}
}
