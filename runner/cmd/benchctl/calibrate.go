package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"h100-inference-control-plane/runner/host"
	"h100-inference-control-plane/runner/load/calibrate"
	"h100-inference-control-plane/runner/result"
)

func (a *app) calibrateCmd() *cobra.Command {
	var asJSON bool
	var o calibrate.Options
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure the load generator's own error on this machine",
		Long: `Measure the load generator's own error on this machine, against a built-in server that stamps each event as
it sends it. The result is kept in the user's cache and stored with every later run; it is never subtracted.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Streams < 1 || o.Streams > 10000 || o.Interval < time.Millisecond || o.Duration < time.Second {
				return usage("want 1 to 10000 streams, an interval of 1ms or more and a duration of 1s or more")
			}
			res, err := calibrate.Run(c.Context(), o)
			if err != nil {
				return &exitError{exitMachinery, err}
			}
			h := host.Read(c.Context())
			floor := res.Floor(time.Now().UTC().Truncate(time.Second))
			if err := saveFloor(h, floor); err != nil {
				return &exitError{exitMachinery, err}
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(res)
			}
			fmt.Fprint(a.stdout, res.Table())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	c.Flags().IntVar(&o.Streams, "streams", 256, "open streams")
	c.Flags().DurationVar(&o.Interval, "interval", 10*time.Millisecond, "time between two events of a stream")
	c.Flags().DurationVar(&o.Duration, "duration", 5*time.Second, "length of each part")
	return c
}

func saveFloor(h result.Host, f result.Floor) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cacheDir(), 0o755); err != nil {
		return fmt.Errorf("keep the calibration: %w", err)
	}
	return result.WriteFile(floorFile(h.Fingerprint), append(b, '\n'))
}
