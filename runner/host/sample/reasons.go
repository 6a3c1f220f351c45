package sample

import (
	"fmt"
	"math/bits"
)

// idle is the bit of a GPU that has nothing to do, which is no throttling.
const idle = 1

// reasonBits are the others, nvmlClocksEventReason* of nvml.h.
var reasonBits = []struct {
	bit  uint64
	word string
}{
	{0x2, "app-clocks"},
	{0x4, "power-cap"},
	{0x8, "hw-slowdown"},
	{0x10, "sync-boost"},
	{0x20, "thermal"},
	{0x40, "hw-thermal"},
	{0x80, "power-brake"},
	{0x100, "display-clock"},
}

// words names the reasons of a mask, in the order of the bits. A bit that has no name yet is its number.
func words(mask uint64) (out []string) {
	mask &^= idle
	for _, r := range reasonBits {
		if mask&r.bit != 0 {
			out = append(out, r.word)
			mask &^= r.bit
		}
	}
	for ; mask != 0; mask &= mask - 1 {
		out = append(out, fmt.Sprintf("0x%x", uint64(1)<<bits.TrailingZeros64(mask)))
	}
	return out
}

// reasons are the shares of the rows in which each was active; nil when none tells, empty when nothing was.
func reasons(rows []row) map[string]float64 {
	n, count := 0, map[string]float64{}
	for _, r := range rows {
		if r.reasons == nil {
			continue
		}
		n++
		for _, w := range words(*r.reasons) {
			count[w]++
		}
	}
	if n == 0 {
		return nil
	}
	for w := range count {
		count[w] = micro(count[w] / float64(n))
	}
	return count
}
