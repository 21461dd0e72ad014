package load

import (
	"maps"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// book counts the results of one sender's agents since the last line of the observation log.
type book struct {
	run *run

	mu      sync.Mutex
	parts   map[int]*observe.Tally // by the part of the score in which results are due; -1: none
	offered map[int]uint64         // intended results, by second of the timetable
	resent  uint64                 // signals sent again after a reconnect
	reasons map[string]uint64      // refusals by code
	wrong   uint64                 // signals that had to be refused, and were acknowledged
}

// newBook returns an empty book.
func newBook(r *run) *book {
	return &book{run: r, reasons: map[string]uint64{}}
}

// inTime limits how long beyond its linger a result may wait for its answer and still counts as in time.
const inTime = time.Second

// tally returns the tally of a part. Caller holds the lock.
func (b *book) tally(part int) *observe.Tally {
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
func (b *book) of(unit report.Unit, part int) *observe.Tally {
	t := b.tally(part)
	if unit != b.run.unit {
		return t.Unit(unit)
	}
	return t
}

// frame counts a frame that an agent has sent. Each result counts in the part of its intended time.
func (b *book) frame(f *frame, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.of(f.unit, b.run.present().at(f.each[0].intended))
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
func (b *book) alike(f *frame, from, to int) (*observe.Tally, int) {
	s := b.run.present()
	i := s.at(f.each[from].intended)
	if s.at(f.each[to-1].intended) != i {
		for to = from + 1; s.at(f.each[to].intended) == i; {
			to++
		}
	}
	return b.of(f.unit, i), to
}

// current counts acknowledged results in the parts of the timetable in which they were answered, less their linger: so
// the count equals the offered rate if no backlog grows, even where the rate changes. Caller holds the lock.
func (b *book) current(f *frame, from, to int, beyond int64, kept uint64) {
	s := b.run.present()
	first, last := s.at(f.each[from].intended+beyond), s.at(f.each[to-1].intended+beyond)
	if kept < f.weight(from, to) || first == last {
		b.of(f.unit, last).Current += kept
		return
	}
	for _, sign := range f.each[from:to] {
		b.of(f.unit, s.at(sign.intended+beyond)).Current += uint64(sign.weight())
	}
}

// spoolFull counts results, values or components that a full spool did not take.
func (b *book) spoolFull(intended int64, unit report.Unit, n uint64, class int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of(unit, b.run.present().at(intended))
	t.Dropped += n
	t.Class(class).Meant += n
}

// offer counts the intended results of a second of the timetable.
func (b *book) offer(second int, results uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offered == nil {
		b.offered = map[int]uint64{}
	}
	b.offered[second] += uint64(results)
}

// waited records how long people or agents waited, times times, from the time at on.
func (r *run) waited(figure string, at, took, times int64) {
	part := r.present().at(at)
	if part < 0 || times == 0 {
		return
	}
	r.beside.mu.Lock()
	defer r.beside.mu.Unlock()
	r.beside.tally(part).Wait(figure, took, times)
}

// takeBooks returns the counts of all books, and clears the books.
func (r *run) takeBooks() (parts map[int]*observe.Tally, offered map[int]uint64) {
	parts, offered = map[int]*observe.Tally{}, map[int]uint64{}
	take := func(b *book) {
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
	for _, s := range r.senders {
		take(s.book)
	}
	take(&r.beside)
	return parts, offered
}

// logSecond appends the tallies since the last line to the log. sample is nil for a part of a second and behind the timetable.
func (r *run) logSecond(number int, sample *report.Sample) {
	parts, offered := r.takeBooks()
	used := r.usage()
	r.log.Append(observe.Line{At: r.sinceStart(), Check: &observe.CheckSecond{Number: number, Sample: sample, Parts: parts, Offered: offered, Used: &used, Counts: r.counts()}})
}

// counts returns the totals of the run so far. Sessions stay open until the report, so later totals may be larger.
func (r *run) counts() *observe.Counts {
	c := &observe.Counts{Wrong: r.wrong.Load(), Slowed: r.slowed.Load(), Late: time.Duration(r.late.Load()), Refusals: map[string]uint64{}}
	for _, s := range r.senders {
		s.book.mu.Lock()
		c.Resent += s.book.resent
		c.WrongTaken += s.book.wrong
		for code, n := range s.book.reasons {
			c.Refusals[code] += n
		}
		s.book.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Failures, c.Losses = maps.Clone(r.failures), maps.Clone(r.losses)
	return c
}

// secondOf returns the second of the timetable that contains a time, or -1 before its start or without a timetable.
func (r *run) secondOf(at int64) int {
	begin := r.begin.Load()
	if begin == 0 || at < begin {
		return -1
	}
	return int((at - begin) / int64(time.Second))
}
