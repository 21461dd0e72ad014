package play

import (
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Book counts results, values and components by the part of the timetable, and how long somebody waited, since the last line of
// the observation log. Each sender has one.
type Book struct {
	clock *clock.Clock
	unit  report.Unit // of its tallies; the tallies of other units are below them

	mu      sync.Mutex
	parts   map[int]*observe.Tally // by the part of the timetable in which results are due; -1: none
	offered map[int]uint64         // intended results, by second of the timetable
	counts  observe.Counts         // of its agents
}

// NewBook returns an empty book whose tallies are of a unit; results have none.
func NewBook(clock *clock.Clock, unit report.Unit) *Book {
	return &Book{clock: clock, unit: unit, counts: observe.NewCounts()}
}

// inTime limits how long beyond its linger a result may wait for its answer and still counts as in time.
const inTime = time.Second

// tally returns the tally of a part. Caller holds the lock.
func (b *Book) tally(part int) *observe.Tally {
	t := b.parts[part]
	if t == nil {
		if b.parts == nil {
			b.parts = map[int]*observe.Tally{}
		}
		t = &observe.Tally{}
		b.parts[part] = t
	}
	return t
}

// of returns the tally of values or components in a part of the timetable. Caller holds the lock.
func (b *Book) of(unit report.Unit, part int) *observe.Tally {
	t := b.tally(part)
	if unit != b.unit {
		return t.Unit(unit)
	}
	return t
}

// frame counts a frame that an agent has sent. Each result counts in the part of its intended time.
func (b *Book) frame(f *frame, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.of(f.unit, b.clock.Present().At(f.each[0].intended))
	first.Frames++
	first.Lag.Record(now-f.due, 1)
	first.Batches.Record(int64(len(f.each))*1000, 1)
	for from, to := 0, 0; from < len(f.each); from = to {
		var t *observe.Tally
		t, to = b.alike(f, from, len(f.each))
		t.Results += f.weight(from, to)
		t.Class(f.class).Meant += f.weight(from, to)
	}
}

// alike returns the tally of the signal at index from, and the end of the signals in the same part: usually the end of the
// frame. Caller holds the lock.
func (b *Book) alike(f *frame, from, to int) (*observe.Tally, int) {
	s := b.clock.Present()
	i := s.At(f.each[from].intended)
	if s.At(f.each[to-1].intended) != i {
		for to = from + 1; s.At(f.each[to].intended) == i; {
			to++
		}
	}
	return b.of(f.unit, i), to
}

// current counts acknowledged results in the parts of the timetable in which they were answered, less their linger: so
// the count equals the offered rate if no backlog grows, even where the rate changes. Caller holds the lock.
func (b *Book) current(f *frame, from, to int, beyond int64, kept uint64) {
	s := b.clock.Present()
	first, last := s.At(f.each[from].intended+beyond), s.At(f.each[to-1].intended+beyond)
	if kept < f.weight(from, to) || first == last {
		b.of(f.unit, last).Current += kept
		return
	}
	for _, sign := range f.each[from:to] {
		b.of(f.unit, s.At(sign.intended+beyond)).Current += uint64(sign.weight())
	}
}

// spoolFull counts results, values or components that a full spool did not take.
func (b *Book) spoolFull(intended int64, unit report.Unit, n uint64, class int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of(unit, b.clock.Present().At(intended))
	t.Dropped += n
	t.Class(class).Meant += n
}

// Offer counts the intended results of a second of the timetable.
func (b *Book) Offer(second int, results uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offered == nil {
		b.offered = map[int]uint64{}
	}
	b.offered[second] += uint64(results)
}

// Sent counts a result that left at once and needs no answer: when it was intended, when it was due, and when it left.
func (b *Book) Sent(intended, due, left int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tally(b.clock.Present().At(left))
	t.Results++
	t.Acked++
	t.InTime++
	t.Current++
	t.Frames++
	t.Whole.Record(left-intended, 1)
	t.Lag.Record(left-due, 1)
	t.Batches.Record(1000, 1) // one result is one frame
}

// Waited records how long somebody waited, from the time at on.
func (b *Book) Waited(figure string, at, took int64) {
	part := b.clock.Present().At(at)
	if part < 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally(part).Wait(figure, took, 1)
}

// TakeBooks returns the counts of some books, by part and by second of the timetable, and clears the books.
func TakeBooks(books []*Book) (parts map[int]*observe.Tally, offered map[int]uint64) {
	parts, offered = map[int]*observe.Tally{}, map[int]uint64{}
	for _, b := range books {
		b.mu.Lock()
		own, seconds := b.parts, b.offered
		b.parts, b.offered = nil, nil
		b.mu.Unlock()
		for i, t := range own {
			if parts[i] == nil {
				parts[i] = t
			} else {
				parts[i].Merge(t)
			}
		}
		for second, n := range seconds {
			offered[second] += n
		}
	}
	return parts, offered
}
