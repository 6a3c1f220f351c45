// Command benchctl measures LLM serving configurations: one experiment file in, one results folder out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/child"
	"h100-inference-control-plane/runner/load/calibrate"
)

// version is set by the build.
var version = "dev"

func main() {
	child.MaybeWatchdog()
	calibrate.MaybeStub()
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK           = 0
	exitFail         = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitMachinery    = 4
	exitInterrupted  = 130
)

// Main runs one command line and returns its exit code. The first SIGINT or SIGTERM ends the command in order; a
// second one ends the process at once.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.exit(ctx, root.ExecuteContext(ctx))
}

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "benchctl",
		Short: "Measure LLM serving configurations and say what made the difference",
		Long: `benchctl reads an experiment file, starts each engine configuration it names, loads it, judges
its SLOs in VictoriaMetrics and writes one results folder.

Exit codes: 0 every gate passed · 1 a gate failed · 2 bad usage or bad file · 3 inconclusive ·
4 the machinery failed · 130 interrupted.`,
		Example: `  benchctl run experiments/quickstart.yaml
  benchctl plan experiments/default-vs-optimized.yaml
  benchctl doctor`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exitError{exitUsage, fmt.Errorf("%w\nhint: %s --help lists the flags", err, c.CommandPath())}
	})
	root.AddCommand(a.validateCmd(), a.planCmd(), a.runCmd(), a.reportCmd(), a.attributeCmd(), a.verifyCmd(), a.compareCmd(), a.calibrateCmd(), a.simCmd(), a.doctorCmd())
	return root
}

// exitError carries an exit code. With a nil Err nothing more is printed.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// exit prints what is left to print and is the one place where an error becomes a code.
func (a *app) exit(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitUsage // cobra's own errors: unknown command, wrong number of arguments
	var e *exitError
	if errors.As(err, &e) {
		code = e.Code
		if e.Err == nil {
			return code
		}
	}
	if ctx.Err() != nil && code == exitMachinery {
		code = exitInterrupted
	}
	fmt.Fprintf(a.stderr, "benchctl: %v\n", err)
	return code
}

// files refuses a command line without files, in words.
func files(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s needs an experiment file\nhint: %s experiments/quickstart.yaml", c.Name(), c.CommandPath())
	}
	return nil
}
