package follow

import (
	"time"

	"github.com/muster-fleet/muster/internal/journal"
)

// Settle is how long ago something must have been written to count as taken: what was written
// since comes again after a connection broke. TCP does not say what its peer has read.
const Settle = 15 * time.Second

// settling knows up to where everything was written Settle ago.
type settling struct {
	marks []mark // ascending; the first is settled
}

// mark says that everything up to at was written by then.
type mark struct {
	then time.Time
	at   journal.Position
}

// begin says that everything up to at was taken, and nothing behind it.
func (s *settling) begin(now time.Time, at journal.Position) {
	s.marks = append(s.marks[:0], mark{now, at})
}

// add says that everything up to at is written now.
func (s *settling) add(now time.Time, at journal.Position) {
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

// sooner lets the oldest settle before its time, because the journal cannot wait for it.
func (s *settling) sooner() bool {
	if len(s.marks) < 2 {
		return false
	}
	s.marks = append(s.marks[:0], s.marks[1:]...)
	return true
}

// at is up to where it has settled. While nothing can be written nothing settles: add is
// not called.
func (s *settling) at() journal.Position { return s.marks[0].at }
