package judge

import "h100-inference-control-plane/runner/result"

// Doubt says why a trial's numbers cannot be believed, whatever they are: it was not measured, a check failed that
// invalidates them, or too many requests failed. "" = nothing speaks against them.
func Doubt(t *result.Trial) string {
	if t.Outcome != result.Measured || t.Client == nil {
		return orElse(t.Error, "not measured")
	}
	return believe(t)
}
