package verify_test

import (
	"encoding/json"
	"os"
	"testing"

	"h100-inference-control-plane/runner/engine/catalog"
	"h100-inference-control-plane/runner/verify"
)

func TestReal(t *testing.T) {
	r, err := verify.Folder(os.DirFS("../../results/tiny-vllm-cpu/2026/8b7c8e0fe633"), verify.Options{Engine: catalog.Get})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.MarshalIndent(r, "", " ")
	t.Log(string(b))
}
