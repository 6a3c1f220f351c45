// Package host reads what machine this is: processor, memory, limits and GPUs. What cannot be read is null, never 0.
// It samples nothing over time.
package host

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"h100-inference-control-plane/runner/result"
)

// Read describes this machine. It never fails: a part that cannot be read is absent.
func Read(ctx context.Context) result.Host {
	h := result.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	h.Kernel = strings.TrimSpace(readFile("/proc/sys/kernel/osrelease"))
	h.CPU = cpuModel(readFile("/proc/cpuinfo"))
	h.MemoryBytes = memTotal(readFile("/proc/meminfo"))
	h.CPUQuota = cpuQuota(readFile("/sys/fs/cgroup/cpu.max"))
	h.GPUs = gpus(ctx)
	h.Fingerprint = Fingerprint(h)
	return h
}

// Fingerprint covers what of a machine may change a number: processor, cores, memory (in GiB) and GPUs with their
// driver and power limit. Kernel and host name are not in it.
func Fingerprint(h result.Host) string {
	var gib int64
	if h.MemoryBytes != nil {
		gib = *h.MemoryBytes >> 30
	}
	b, err := json.Marshal(struct {
		OS, Arch, CPU string
		Cores         int
		Quota         *float64
		GiB           int64
		GPUs          []result.GPU
	}{h.OS, h.Arch, h.CPU, h.Cores, h.CPUQuota, gib, h.GPUs})
	if err != nil {
		panic(fmt.Sprintf("host: plain values do not marshal: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func readFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func memTotal(meminfo string) *int64 {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "MemTotal:" {
			if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				b := kb << 10
				return &b
			}
		}
	}
	return nil
}

// cpuQuota reads cgroup v2's cpu.max: "max 100000" or "200000 100000".
func cpuQuota(s string) *float64 {
	f := strings.Fields(s)
	if len(f) != 2 {
		return nil
	}
	quota, err1 := strconv.ParseFloat(f[0], 64)
	period, err2 := strconv.ParseFloat(f[1], 64)
	if err1 != nil || err2 != nil || period <= 0 {
		return nil
	}
	q := quota / period
	return &q
}

// gpus asks nvidia-smi: nil when the program is absent, empty when it sees no device.
func gpus(ctx context.Context) []result.GPU {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi",
		"--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader,nounits").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return []result.GPU{}
	}
	return parseGPUs(string(out))
}

func parseGPUs(text string) []result.GPU {
	out := []result.GPU{}
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		return out
	}
	for _, row := range rows {
		if len(row) < 4 {
			continue
		}
		g := result.GPU{Name: row[0], Driver: row[1]}
		if mib, err := strconv.ParseInt(row[2], 10, 64); err == nil {
			b := mib << 20
			g.MemoryBytes = &b
		}
		if w, err := strconv.ParseFloat(row[3], 64); err == nil {
			g.PowerLimitW = &w
		}
		out = append(out, g)
	}
	return out
}
