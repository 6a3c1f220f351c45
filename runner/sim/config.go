package sim

import (
	"fmt"

	"h100-inference-control-plane/runner/sim/model"
)

// EngineConfig is what the server makes of vLLM's options: the step model's configuration for a profile, the flags of a
// start and a vLLM version. The error names the flag whose value has a wrong type, or the version.
func EngineConfig(p *model.Profile, flags map[string]any, version string) (model.Config, error) {
	v, err := parseRelease(version)
	if err != nil {
		return model.Config{}, fmt.Errorf("vLLM version %q: %w", version, err)
	}
	s, err := newSettings(p, flags, nil, v)
	return s.engine, err
}
