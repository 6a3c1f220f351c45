package runner

import (
	"testing"

	"h100-inference-control-plane/runner/result"
)

func TestBlocksAgree(t *testing.T) {
	f := func(name string, before, now block, want bool) {
		t.Helper()
		doc := &result.Warmup{}
		now.compare(before, doc)
		if doc.Stable == nil || *doc.Stable != want {
			t.Errorf("%s: stable is %v", name, doc.Stable)
		}
	}
	f("equal", block{0.2, 0.010, 3}, block{0.2, 0.010, 0}, true)
	f("TTFT 14 % lower", block{0.2, 0.010, 0}, block{0.172, 0.010, 0}, true)
	f("TTFT 16 % lower", block{0.2, 0.010, 0}, block{0.168, 0.010, 0}, false)
	f("TTFT twice as long, by 4 ms", block{0.004, 0.010, 0}, block{0.008, 0.010, 0}, true)
	f("TPOT 5 % higher", block{0.2, 0.010, 0}, block{0.2, 0.0105, 0}, false)
	f("TPOT 5 % higher, by 0.1 ms", block{0.2, 0.002, 0}, block{0.2, 0.0021, 0}, true)
	f("a kernel in the last block", block{0.2, 0.010, 0}, block{0.2, 0.010, 1}, false)
	f("one token an answer", block{0.2, 0, 0}, block{0.2, 0, 0}, true)
	f("every request failed", block{}, block{}, true) // the window will say so
}
