package load

import (
	"sync/atomic"
	"time"
)

const (
	pageBins = 4096 // about 41 s
	maxPages = 4096 // about 46 h; what comes later is not counted
)

// timeline counts events in bins of TimelineBin. Its length is not known beforehand, so it grows by pages.
type timeline struct {
	pages [maxPages]atomic.Pointer[[pageBins]atomic.Uint32]
}

func (t *timeline) add(at time.Duration) {
	i := int(at / TimelineBin)
	if at < 0 || i >= maxPages*pageBins {
		return
	}
	p := &t.pages[i/pageBins]
	page := p.Load()
	if page == nil {
		p.CompareAndSwap(nil, new([pageBins]atomic.Uint32))
		page = p.Load()
	}
	page[i%pageBins].Add(1)
}

// counts is every bin up to the last event.
func (t *timeline) counts() []uint32 {
	var out []uint32
	end := 0
	for p := range t.pages {
		page := t.pages[p].Load()
		if page == nil {
			continue
		}
		out = append(out, make([]uint32, (p+1)*pageBins-len(out))...)
		for i := range page {
			if n := page[i].Load(); n > 0 {
				out[p*pageBins+i] = n
				end = p*pageBins + i + 1
			}
		}
	}
	return out[:end]
}
