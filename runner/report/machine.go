package report

import (
	"fmt"
	"slices"

	"h100-inference-control-plane/runner/metric"
	"h100-inference-control-plane/runner/result"
)

// gpuTable is what the GPUs did, where anything of it was sampled.
func gpuTable(run *result.Run) []block {
	title := func(name string) string {
		m, _ := metric.Find(name)
		return m.Title
	}
	t := table{head: []string{"config", "load", title("gpu.sm_clock_hertz"), title("gpu.power_watts"), title("gpu.temperature_celsius"), "tokens per joule"}, left: 2, key: 2}
	for _, c := range cells(run) {
		ms := []*result.Median{c.SMClock, c.PowerW, c.Temperature, c.OutputPerJ}
		if !slices.ContainsFunc(ms, func(m *result.Median) bool { return m != nil }) {
			continue
		}
		t.rows = append(t.rows, []string{c.Config, level(c.Point), told(c.SMClock, 1e-6, " MHz"), told(c.PowerW, 1, " W"), told(c.Temperature, 1, " °C"), number(c.OutputPerJ)})
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []block{heading{"GPU"}, para{"Medians over the starts, of the GPUs that the engine used; the power of several together. A power far below the limit under load says that the GPU waits for the host."}, t}
}

// told writes a whole number with its unit.
func told(m *result.Median, scale float64, unit string) string {
	if m == nil {
		return none
	}
	return fmt.Sprintf("%.0f%s", m.Value*scale, unit)
}

func number(m *result.Median) string {
	if m == nil {
		return none
	}
	return result.Number(m.Value)
}
