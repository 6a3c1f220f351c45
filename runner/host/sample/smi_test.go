package sample

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A line of an H200 with driver 580.
const line = "2026/12/01 16:16:14.685, 0, GPU-d032a3d9-f72b-607f-bc2c-ed9645744904, 580.159.04, 1980, 3201, 598.39, 700.00, 57, 100, 2575, 0x0000000000000004, NVIDIA H200"

func TestParseRow(t *testing.T) {
	r, ok := parseRow(line, true)
	if !ok || r.index != 0 || r.name != "NVIDIA H200" || *r.sm != 1.98e9 || *r.power != 598.39 || *r.limit != 700 || *r.reasons != 4 || *r.memory != 2575<<20 {
		t.Errorf("%+v, %v", r, ok)
	}
	if want := time.Date(2026, 12, 1, 16, 16, 14, 685e6, time.UTC); !r.at.Equal(want) {
		t.Errorf("at %v", r.at)
	}
	without, ok := parseRow(strings.Replace(line, "0x0000000000000004, ", "", 1), false)
	if !ok || without.reasons != nil || without.name != "NVIDIA H200" {
		t.Errorf("without reasons: %+v, %v", without, ok)
	}
	absent, ok := parseRow("2026/12/01 16:16:14.685, 3, GPU-1, 470.1, [N/A], [Not Supported], [N/A], [Unknown Error], -1, NaN, 1e300, [N/A], Tesla, revised", true)
	if !ok || absent.index != 3 || absent.name != "Tesla, revised" {
		t.Errorf("%+v, %v", absent, ok)
	}
	for i, v := range []*float64{absent.sm, absent.mem, absent.power, absent.limit, absent.temperature, absent.utilization, absent.memory} {
		if v != nil {
			t.Errorf("number %d is %v, want absent", i, *v)
		}
	}
	if absent.reasons != nil {
		t.Errorf("reasons %v, want absent", *absent.reasons)
	}
}

func TestParseRowFailure(t *testing.T) {
	f := func(s string) {
		t.Helper()
		if r, ok := parseRow(s, true); ok {
			t.Errorf("%q became %+v", s, r)
		}
	}
	f("")
	f("Unable to determine the device handle for GPU0000:18:00.0: Unknown Error")
	f("timestamp, index, uuid, driver_version, a, b, c, d, e, f, g, h, name")
	f(strings.Replace(line, ", 0, GPU", ", -1, GPU", 1))
	f(strings.Replace(line, "2026/12/01", "01.12.2026", 1))
}

func FuzzParseRow(f *testing.F) {
	f.Add(line, true)
	f.Add(line, false)
	f.Add("2026/12/01 16:16:14.685, 0, GPU-1, 470.1, [N/A], , , , , , , , x", true)
	f.Fuzz(func(t *testing.T, s string, reasons bool) {
		r, ok := parseRow(s, reasons)
		if !ok {
			return
		}
		for _, v := range []*float64{r.sm, r.mem, r.power, r.limit, r.temperature, r.utilization, r.memory} {
			if v != nil && !(*v >= 0) {
				t.Errorf("%q: %v", s, *v)
			}
		}
	})
}

// Lines come in any pieces, and a clock of nvidia-smi that is not ours is not believed.
func TestRowReader(t *testing.T) {
	now := time.Date(2026, 12, 1, 16, 16, 14, 690e6, time.UTC)
	r := &rowReader{reasons: true, now: func() time.Time { return now }, first: make(chan struct{})}
	text := line + "\nlost\n" + strings.Replace(line, "16:16:14", "01:16:14", 1) + "\n" + line
	for i := range len(text) {
		if n, err := r.Write([]byte(text[i : i+1])); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	select {
	case <-r.first:
	default:
		t.Error("the first row was not announced")
	}
	rows := r.all()
	if len(rows) != 2 {
		t.Fatalf("%d rows, want two: the last line is not complete", len(rows))
	}
	if !rows[0].at.Equal(now.Add(-5*time.Millisecond)) || !rows[1].at.Equal(now) {
		t.Errorf("at %v and %v", rows[0].at, rows[1].at)
	}
}

func TestParseApps(t *testing.T) {
	got := parseApps("GPU-1, 479, 2566\nGPU-1, [N/A], [N/A]\nNo running processes found\n\n")
	if len(got) != 2 || got[0].pid != 479 || *got[0].memory != 2566<<20 || got[1].pid != 0 || got[1].memory != nil {
		t.Errorf("%+v", got)
	}
}

func FuzzParseApps(f *testing.F) {
	f.Add("GPU-d032a3d9-f72b-607f-bc2c-ed9645744904, 479, 2566\n")
	f.Add("GPU-1, [Not Found], [Insufficient Permissions]\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, a := range parseApps(s) {
			if a.pid < 0 || a.memory != nil && *a.memory < 0 {
				t.Errorf("%q: %+v", s, a)
			}
		}
	})
}

func TestReasonWords(t *testing.T) {
	f := func(mask uint64, want string) {
		t.Helper()
		if got := strings.Join(words(mask), " "); got != want {
			t.Errorf("%#x: %q, want %q", mask, got, want)
		}
	}
	f(0, "")
	f(1, "") // idling is no throttling
	f(0x4, "power-cap")
	f(0x1ff, "app-clocks power-cap hw-slowdown sync-boost thermal hw-thermal power-brake display-clock")
	f(0x1000|0x20, "thermal 0x1000")
	f(1<<63, fmt.Sprintf("%#x", uint64(1)<<63))
}
