package muster

import (
	"sync"
	"time"
)

// shedWatch notices a sudden loss of sessions: a switch that died must not look like
// a thousand dead machines.
type shedWatch struct {
	window time.Duration
	share  float64
	least  int
	tell   func(Shed)

	mu   sync.Mutex
	lost [16]struct {
		slot int64
		n    int
	} // ring of slots of a sixteenth of the window
	told bool // in this episode
}

func (w *shedWatch) init(l Limits, tell func(Shed)) {
	w.window, w.share, w.least, w.tell = l.ShedWindow, l.ShedShare, l.ShedLeast, tell
}

// add counts one session that ended without Bye, left being those still there.
func (w *shedWatch) add(now int64, left int) {
	w.mu.Lock()
	slot := now / (int64(w.window) / int64(len(w.lost)))
	at := &w.lost[slot%int64(len(w.lost))]
	if at.slot != slot {
		at.slot, at.n = slot, 0
	}
	at.n++
	sum := 0
	for _, l := range w.lost {
		if slot-l.slot < int64(len(w.lost)) {
			sum += l.n
		}
	}
	before := sum + left
	over := sum >= w.least && float64(sum) > w.share*float64(before)
	tell := over && !w.told
	w.told = over || w.told && sum > w.least/2
	w.mu.Unlock()
	if tell && w.tell != nil {
		w.tell(Shed{Lost: sum, Before: before, Window: w.window})
	}
}
