// Package derive makes everything of a result that follows from what was recorded: checks, cells, gates, verdicts, and
// the files that are rendered. `run` and `verify` both call it, so that a folder is verified by the code that wrote it.
// It measures nothing, reads no folder and writes none.
package derive

import (
	"fmt"
	"time"

	"h100-inference-control-plane/runner/judge"
	"h100-inference-control-plane/runner/query"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/report"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/validity"
)

// Records returns the requests of a measured trial.
type Records func(trial string) ([]record.Record, error)

// Conclude sets what follows from the trials of a run: Steady and Checks of each, the run's Checks, Cells, Gates and
// all verdicts with their reasons. What was there before is replaced: concluding twice is concluding once. The error is
// that of read, with the trial.
func Conclude(run *result.Run, read Records) error {
	if err := validity.Fill(run, read); err != nil {
		return err
	}
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Outcome != result.Measured || len(t.SLO) == 0 || run.Experiment == nil {
			continue
		}
		recs, err := read(t.ID)
		if err != nil {
			return fmt.Errorf("objectives of %s: %w", t.ID, err)
		}
		judge.Precision(run.Experiment, t, recs)
	}
	run.Cells = result.Cells(run.Trials)
	judge.Run(run)
	return nil
}

// File is a rendered file: its path in the results folder, with slashes, and its bytes.
type File struct {
	Path  string
	Bytes []byte
}

// Files renders every file of a results folder that is made from the document, but the document itself. Files of the
// document is not read. The error names the file.
func Files(run *result.Run, read Records) ([]File, error) {
	spec, err := run.Experiment.YAML()
	if err != nil {
		return nil, fmt.Errorf("write spec.yaml: %w", err)
	}
	out := []File{{"spec.yaml", spec}}
	for _, c := range run.Cells {
		out = append(out, File{fmt.Sprintf("results_%s_%s.txt", c.Config, c.Point), report.Results(run, c.Config, c.Point)})
	}
	for _, t := range run.Trials {
		if t.Outcome != result.Measured {
			continue
		}
		f, err := bench(run, t, read)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return append(out, File{"report.md", report.Markdown(run)}), nil
}

// bench is a trial in the format of `vllm bench serve --save-result`.
func bench(run *result.Run, t result.Trial, read Records) (File, error) {
	path := "vllm-bench/" + t.ID + ".json"
	recs, err := read(t.ID)
	if err != nil {
		return File{}, fmt.Errorf("write %s: %w", path, err)
	}
	b, err := report.VLLMBench(run, t, recs)
	if err != nil {
		return File{}, fmt.Errorf("write %s: %w", path, err)
	}
	return File{path, b}, nil
}

// keyDigits is how much of the run key stands in names and labels.
const keyDigits = 12

// RunLabel is the value of the label run: the run key's first digits and when the run began, so that a repeated run in a
// VictoriaMetrics that is kept does not meet its own past.
func RunLabel(runKey string, began time.Time) string {
	return runKey[:min(keyDigits, len(runKey))] + "-" + began.UTC().Format("20060102T150405")
}

// Labels are those of every sample of a trial.
func Labels(runLabel, experiment string, t *result.Trial) []query.Label {
	return []query.Label{
		{Name: "run", Value: runLabel}, {Name: "experiment", Value: experiment}, {Name: "config", Value: t.Config},
		{Name: "cell", Value: t.Config + "-" + t.Point.String()}, {Name: "trial", Value: t.ID}, {Name: "start", Value: t.Start},
	}
}
