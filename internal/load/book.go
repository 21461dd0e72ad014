package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// book is what the agents of one sender did: a tally for each measured part, and the
// present second for the samples.
type book struct {
	of *run

	mu      sync.Mutex
	parts   []*tally          // nil where nothing was measured yet
	resent  uint64            // signals sent again after a reconnect
	reasons map[string]uint64 // refusals by code
	wrong   uint64            // signals that had to be refused, and were acknowledged
	offered []uint32          // results by the second in which they were meant to be made
	second  second
}

// second is what happened since it was taken last.
type second struct {
	whole   *hdrhistogram.Histogram // of what was acknowledged …
	beyond  *hdrhistogram.Histogram // … since it was to leave, as agents usually do
	lag     *hdrhistogram.Histogram // of the generator
	refused uint64
}

func newBook(r *run) *book {
	return &book{of: r, reasons: map[string]uint64{}, second: newSecond()}
}

// newSecond has two digits of precision, enough for a plot, but for what stands in latency.hlog: of
// that others make percentiles, which must be those of the report.
func newSecond() second {
	whole, beyond, lag := observe.NewSecond()
	return second{whole: whole, beyond: beyond, lag: lag}
}

// tallyAt is that of what was due at an instant; nil: it is not measured. Caller holds the
// lock.
func (b *book) tallyAt(due int64) *tally {
	s := b.of.present()
	i := s.at(due)
	if i < 0 || !s[i].measured {
		return nil
	}
	for len(b.parts) <= i {
		b.parts = append(b.parts, nil)
	}
	if b.parts[i] == nil {
		b.parts[i] = newTally()
	}
	return b.parts[i]
}

// frame counts one that leaves the generator; its results belong to the parts in which
// they were meant to be made.
func (b *book) frame(f *frame, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	record(b.second.lag, now-f.due, 1)
	if t := b.tallyAt(f.each[0].intended); t != nil {
		t.frames++
		record(t.lag, now-f.due, 1)
		_ = t.batches.RecordValue(int64(len(f.each)))
	}
	for from, to := 0, 0; from < len(f.each); from = to {
		var t *tally
		if t, to = b.alike(f, from, len(f.each)); t != nil {
			t.results += uint64(to - from)
			t.of(f.class).Meant += uint64(to - from)
		}
	}
}

// alike is the tally of a frame's signals from one on, and the one behind the last that
// belongs to it: mostly it is all of them. Caller holds the lock.
func (b *book) alike(f *frame, from, to int) (*tally, int) {
	s := b.of.present()
	i := s.at(f.each[from].intended)
	if s.at(f.each[to-1].intended) != i {
		for to = from + 1; s.at(f.each[to].intended) == i; {
			to++
		}
	}
	return b.tallyAt(f.each[from].intended), to
}

// current counts results of a frame that were acknowledged so long beyond their linger to the
// parts in which that was: without the linger, so that a rate at which nothing piles up is
// that which is offered, also where it changes. Caller holds the lock.
func (b *book) current(f *frame, from, to int, beyond int64, kept uint64) {
	first, last := f.each[from].intended+beyond, f.each[to-1].intended+beyond
	if s := b.of.present(); kept < uint64(to-from) || s.at(first) == s.at(last) {
		if t := b.tallyAt(last); t != nil {
			t.current += kept
		}
		return
	}
	for _, sign := range f.each[from:to] {
		if t := b.tallyAt(sign.intended + beyond); t != nil {
			t.current++
		}
	}
}

// spoolFull counts a result that a full spool did not take.
func (b *book) spoolFull(intended int64, class int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tallyAt(intended); t != nil {
		t.dropped++
		t.of(class).Meant++
	}
}

// offer notes how many results were meant to be made in a second of the timetable.
func (b *book) offer(second int, results uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.offered) <= second {
		b.offered = append(b.offered, 0)
	}
	b.offered[second] += results
}

// addOffered adds what was offered to a sum by seconds.
func (b *book) addOffered(sum []uint32) []uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(sum) < len(b.offered) {
		sum = append(sum, 0)
	}
	for i, n := range b.offered {
		sum[i] += n
	}
	return sum
}

// answers sums up what servers said, beside acknowledgements. Sessions last until the report is
// made, and may hear more meanwhile.
func (r *run) answers() (resent, wrong uint64, reasons map[string]uint64) {
	reasons = map[string]uint64{}
	for _, s := range r.senders {
		s.book.mu.Lock()
		resent += s.book.resent
		wrong += s.book.wrong
		addTo(reasons, s.book.reasons)
		s.book.mu.Unlock()
	}
	return resent, wrong, reasons
}

// take hands over the second, and begins another one.
func (b *book) take() second {
	fresh := newSecond()
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh, b.second = b.second, fresh
	return fresh
}

// part merges one part's tallies of all loaders into sum.
func (r *run) part(sum *tally, i int) {
	r.ownPart(sum, i)
	for _, s := range r.stretches(i) {
		if s != nil {
			sum.merge(s.Tally)
		}
	}
}

// ownPart merges those of all books.
func (r *run) ownPart(sum *tally, i int) {
	for _, s := range r.senders {
		s.book.mu.Lock()
		if i < len(s.book.parts) {
			sum.merge(s.book.parts[i])
		}
		s.book.mu.Unlock()
	}
}

// secondOf is the second of an instant since the timetable's beginning; negative: before
// it, or nothing is timed by seconds.
func (r *run) secondOf(at int64) int {
	begin := r.begin.Load()
	if begin == 0 || at < begin {
		return -1
	}
	return int((at - begin) / int64(time.Second))
}

// offeredUntil is how many results were meant to be made up to the end of a second.
func (r *run) offeredUntil(second int) (n uint64) {
	for _, s := range r.senders {
		s.book.mu.Lock()
		for _, made := range s.book.offered[:min(second+1, len(s.book.offered))] {
			n += uint64(made)
		}
		s.book.mu.Unlock()
	}
	return n
}

// offeredIn is how many results were meant to be made in a second since the timetable's
// beginning.
func (r *run) offeredIn(second int) (n uint64) {
	for _, s := range r.senders {
		s.book.mu.Lock()
		if second >= 0 && second < len(s.book.offered) {
			n += uint64(s.book.offered[second])
		}
		s.book.mu.Unlock()
	}
	return n
}
