package muster

import (
	"sync"
	"time"
)

// lostSessions detects a sudden loss of sessions: a dead switch must not look like a thousand dead machines.
type lostSessions struct {
	window time.Duration
	share  float64 // of all sessions
	least  int     // sessions
	report func(Shed)

	mu    sync.Mutex
	slots [16]struct {
		index int64
		n     int
	} // ring; each slot is a sixteenth of the window
	reported bool // in this episode
}

func (w *lostSessions) open(l *Limits, report func(Shed)) {
	w.window, w.share, w.least, w.report = l.ShedWindow, l.ShedShare, l.ShedLeast, report
}

// add counts a session that ended without Bye at now (ns); remaining is the number of the others.
func (w *lostSessions) add(now int64, remaining int) {
	w.mu.Lock()
	index := now / (int64(w.window) / int64(len(w.slots)))
	slot := &w.slots[index%int64(len(w.slots))]
	if slot.index != index {
		slot.index, slot.n = index, 0
	}
	slot.n++
	lost := 0
	for _, s := range w.slots {
		if index-s.index < int64(len(w.slots)) {
			lost += s.n
		}
	}
	before := lost + remaining
	sudden := lost >= w.least && float64(lost) > w.share*float64(before)
	report := sudden && !w.reported
	w.reported = sudden || w.reported && lost > w.least/2
	w.mu.Unlock()
	if report && w.report != nil {
		w.report(Shed{Lost: lost, Before: before, Window: w.window})
	}
}
