package follow

import (
	"time"

	"github.com/muster-fleet/muster/internal/journal"
)

// Settle is the time after which written lines count as taken; lines written since then are sent again when a
// connection breaks. TCP does not report how much its peer has read.
const Settle = 15 * time.Second

// settlement keeps the position up to which all lines were written Settle ago.
type settlement struct {
	marks []mark // ascending; the first is settled
}

// mark means that all lines up to at were written by then.
type mark struct {
	then time.Time
	at   journal.Position
}

// reset means that all lines up to at were taken, and none behind it.
func (s *settlement) reset(now time.Time, at journal.Position) {
	s.marks = append(s.marks[:0], mark{now, at})
}

// add means that all lines up to at are written now.
func (s *settlement) add(now time.Time, at journal.Position) {
	if now.Sub(s.marks[len(s.marks)-1].then) < time.Second {
		return
	}
	s.marks = append(s.marks, mark{now, at})
	old := 0
	for old+1 < len(s.marks) && now.Sub(s.marks[old+1].then) >= Settle {
		old++
	}
	s.marks = append(s.marks[:0], s.marks[old:]...)
}

// settleOldest settles the oldest mark before its time, because the journal cannot wait. False: there is none.
func (s *settlement) settleOldest() bool {
	if len(s.marks) < 2 {
		return false
	}
	s.marks = append(s.marks[:0], s.marks[1:]...)
	return true
}

// at returns the settled position. It stands while nothing can be written, because add is not called.
func (s *settlement) at() journal.Position { return s.marks[0].at }
