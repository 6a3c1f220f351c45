package catalog

import (
	"slices"
	"testing"
)

func TestCatalog(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"vllm", "sim"}) {
		t.Errorf("Names() = %q", got)
	}
	for _, name := range Names() {
		e, ok := Get(name)
		if !ok || e.Name() != name || e.Simulated() != (name == "sim") {
			t.Errorf("Get(%q) = %v, %v", name, e, ok)
		}
	}
	if e, ok := Get("tensorrt"); ok || e != nil {
		t.Errorf("Get of an unknown engine = %v, %v", e, ok)
	}
}
