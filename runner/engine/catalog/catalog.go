// Package catalog is the list of engines. Adding one is a line here.
package catalog

import (
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/sim"
	"h100-inference-control-plane/runner/engine/vllm"
)

// all returns the engines in the order in which people read them.
func all() []engine.Engine { return []engine.Engine{vllm.Engine{}, sim.Engine{}} }

// Get returns the engine that a spec file calls name.
func Get(name string) (engine.Engine, bool) {
	for _, e := range all() {
		if e.Name() == name {
			return e, true
		}
	}
	return nil, false
}

// Names returns the names of all engines.
func Names() []string {
	var names []string
	for _, e := range all() {
		names = append(names, e.Name())
	}
	return names
}
