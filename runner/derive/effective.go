package derive

import (
	"encoding/json"
	"reflect"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/result"
)

// Differences lists the requested flags that the engine reports with another value. A flag that it does not report is
// not in the list, and neither is one for which "auto" was asked: whatever the engine chose is what was asked for.
func Differences(flags []engine.Flag, effective map[string]any) []result.Difference {
	var out []result.Difference
	for _, f := range flags {
		got, reported := effective[f.Name]
		if !reported || f.Value == any("auto") || sameValue(f.Value, got) {
			continue
		}
		out = append(out, result.Difference{Flag: f.Name, Requested: f.Value, Effective: got})
	}
	return out
}

// sameValue compares through JSON, where 8192 and 8192.0 are one number.
func sameValue(a, b any) bool {
	norm := func(v any) (out any) {
		raw, err := json.Marshal(v)
		if err != nil || json.Unmarshal(raw, &out) != nil {
			return v
		}
		return out
	}
	return reflect.DeepEqual(norm(a), norm(b))
}
