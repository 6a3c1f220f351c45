package host

import (
	"testing"

	"h100-inference-control-plane/runner/result"
)

func TestCPUQuota(t *testing.T) {
	f := func(in string, want float64, ok bool) {
		t.Helper()
		got := cpuQuota(in)
		if (got != nil) != ok {
			t.Fatalf("%q: %v, want present=%v", in, got, ok)
		}
		if ok && *got != want {
			t.Fatalf("%q: %v, want %v", in, *got, want)
		}
	}
	f("200000 100000\n", 2, true)
	f("50000 100000", 0.5, true)
	f("max 100000", 0, false)
	f("", 0, false)
	f("1 0", 0, false)
}

func TestGPUs(t *testing.T) {
	got := parseGPUs("NVIDIA H200, 580.159.03, 143771, 700.00\nNVIDIA H200, 580.159.03, [N/A], [N/A]\n")
	if len(got) != 2 {
		t.Fatalf("%d GPUs, want 2", len(got))
	}
	if got[0].Name != "NVIDIA H200" || *got[0].MemoryBytes != 143771<<20 || *got[0].PowerLimitW != 700 {
		t.Errorf("first GPU: %+v", got[0])
	}
	if got[1].MemoryBytes != nil || got[1].PowerLimitW != nil {
		t.Errorf("what nvidia-smi does not know must be null: %+v", got[1])
	}
}

func TestFingerprint(t *testing.T) {
	mem := int64(24 << 30)
	a := result.Host{OS: "linux", Arch: "amd64", CPU: "x", Cores: 2, MemoryBytes: &mem, Kernel: "6.1"}
	b := a
	b.Kernel = "6.2"
	if Fingerprint(a) != Fingerprint(b) {
		t.Error("the kernel must not change the fingerprint")
	}
	b.GPUs = []result.GPU{{Name: "NVIDIA H200", Driver: "580"}}
	if Fingerprint(a) == Fingerprint(b) {
		t.Error("a GPU must change the fingerprint")
	}
	c := b
	c.GPUs = []result.GPU{{Name: "NVIDIA H200", Driver: "590"}}
	if Fingerprint(b) == Fingerprint(c) {
		t.Error("the driver must change the fingerprint")
	}
}

func TestMemTotal(t *testing.T) {
	if got := memTotal("MemTotal:       24000000 kB\nMemFree: 1 kB\n"); got == nil || *got != 24000000<<10 {
		t.Errorf("got %v", got)
	}
	if memTotal("nothing") != nil {
		t.Error("absent must be nil")
	}
}
