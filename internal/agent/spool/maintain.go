package spool

import (
	"context"
	"errors"
	"math"
	"sort"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// maintain keeps the log small: it cuts below the oldest needed record, and where few old records prevent
// a cut, it writes them again at the end.
func (s *Spool) maintain() {
	if boot := s.opts.Clock.BootMs(); age(boot, s.folderChecked) >= folderCheckEvery.Milliseconds() {
		s.folderChecked = boot
		if s.log.FolderDeleted() {
			s.reopen()
		}
	}
	if s.behind {
		s.store()
	}
	size := s.log.Stats().SizeBytes
	if size-s.cutSize < s.opts.MaxBytes/16 {
		return
	}
	s.cutSize = size
	s.cut()
	s.logGone(func(*item) bool { return true })
	s.saveState() // the next cut may go up to here
	if s.log.Stats().SizeBytes > s.opts.MaxBytes/2 {
		s.rewrite(s.opts.MaxBytes / 16)
	}
}

// folderCheckEvery is the period in which the spool checks that its folder exists.
const folderCheckEvery = 5 * time.Second

// reopen makes a deleted folder again: it writes the signals in memory, and marks the others as lost. It
// waits for the disk once.
func (s *Spool) reopen() {
	log, err := openLog(s.dir, &s.opts)
	if err != nil {
		s.opts.Logger.Error("the spool was deleted; cannot make a new one; trying again", "folder", s.dir, "err", err)
		return
	}
	s.opts.Logger.Error("the spool was deleted while the agent runs; making a new one from memory", "folder", s.dir)
	old := s.log
	s.closing.Go(func() { _ = old.Close() }) // it may still call logWaiter
	s.log, s.waiter, s.page, s.stateAt, s.cutSize = log, &logWaiter{s}, nil, 0, 0
	for l := range s.lanes {
		ln := &s.lanes[l]
		for n := ln.first; n < ln.next(); n++ {
			if it := ln.at(n); it.gone != kept {
				continue
			} else if ln.memory(n) == nil {
				s.evict(wire.Lane(l), n, diskLost)
			} else {
				it.commit, it.logged = 0, false
			}
		}
	}
	s.store()
	s.lanes[wire.Live].push(newsItem(s.nowMs(), folderDeleted), nil)
	s.logGone(func(*item) bool { return true })
	s.saveState()
}

// cut deletes segments below the oldest needed record.
func (s *Spool) cut() {
	needed := s.stateAt
	for l := range s.lanes {
		for i := range s.lanes[l].items {
			if it := &s.lanes[l].items[i]; it.commit != 0 {
				needed = min(needed, it.commit)
			}
		}
	}
	if needed <= 1 {
		return
	}
	err := s.log.Cut(journal.Position{Log: s.log.Incarnation().ID, Number: needed - 1})
	if err != nil && !errors.Is(err, journal.ErrClosed) {
		s.opts.Logger.Warn("cannot cut the spool", "err", err)
	}
	s.cutSize = s.log.Stats().SizeBytes
}

// rewrite appends the oldest records on disk again, up to the given bytes.
func (s *Spool) rewrite(bytes int64) {
	type place struct {
		commit uint64
		lane   wire.Lane
		number uint64
	}
	var all []place
	for l := range s.lanes {
		ln := &s.lanes[l]
		for i := range ln.items {
			if it := &ln.items[i]; it.commit != 0 && it.gone == kept {
				all = append(all, place{it.commit, wire.Lane(l), ln.first + uint64(i)})
			}
		}
	}
	sort.Slice(all, func(i, k int) bool { return all[i].commit < all[k].commit })
	for _, p := range all {
		data := s.load(p.lane, p.number)
		if data == nil {
			s.evict(p.lane, p.number, diskLost)
			continue
		}
		if bytes -= int64(len(data)); bytes < 0 || s.write(data, s.token(p.lane, p.number)) != nil {
			return
		}
	}
}

// pageBytes is the size of a read-ahead.
const pageBytes = 128 << 10

var errPageFull = errors.New("page is full")

// load returns the record of a number that is not lost; nil: the disk has lost it.
func (s *Spool) load(l wire.Lane, number uint64) []byte {
	ln := &s.lanes[l]
	if data := ln.memory(number); data != nil {
		return data
	}
	token := s.token(l, number)
	if data := s.page[token]; data != nil {
		return data
	}
	it := ln.at(number)
	if it.commit == 0 {
		return nil
	}
	s.page = map[uint64][]byte{}
	size := 0
	from := journal.Position{Log: s.log.Incarnation().ID, Number: it.commit - 1}
	err := s.log.ReadUndamaged(context.Background(), from, func(c journal.Commit) error {
		if size > pageBytes {
			return errPageFull
		}
		return c.Entries(0, func(data []byte) error {
			var r record
			if r.decode(data) != nil || r.kind != recordSignal || r.epoch != s.st.epoch {
				return nil
			}
			size += len(data)
			s.page[s.token(r.lane, r.number)] = append([]byte(nil), data...)
			return nil
		})
	})
	if err != nil && !errors.Is(err, errPageFull) {
		s.opts.Logger.Warn("cannot read the spool", "err", err)
	}
	return s.page[token]
}

// budget returns the bytes for signals: the other half of the disk lets the log be rewritten.
func (o *Options) budget() int64 { return o.MaxBytes / 2 }

// makeRoom evicts signals that are too old, exceed the budget, or exceed the memory while the disk
// refuses them.
func (s *Spool) makeRoom() {
	cut, hard := seconds(s.nowMs()-s.opts.MaxAge.Milliseconds()), memoryBytes/lanes
	if s.roomy {
		hard = math.MaxInt
	}
	for l := range s.lanes {
		ln := &s.lanes[l]
		for ln.aged = max(ln.aged, ln.first); ln.aged < ln.next() && ln.at(ln.aged).at < cut; ln.aged++ {
			s.evict(wire.Lane(l), ln.aged, tooOld)
		}
		for _, number := range ln.trim(memoryBytes/lanes/2, hard) {
			s.evict(wire.Lane(l), number, overFull)
		}
		if over := len(ln.items) - maxItems/lanes; over > 0 {
			over += maxItems / 64 // so that it happens rarely
			for i := range over {
				s.evict(wire.Lane(l), ln.first+uint64(i), overFull)
			}
			ln.collapse(over)
		}
	}
	if s.bytes > s.opts.budget() {
		s.level(s.opts.budget() / 8 * 7)
	}
	s.logEvictions()
}

// evict loses the signal of a number for a reason.
func (s *Spool) evict(l wire.Lane, number uint64, why reason) {
	it := s.lanes[l].at(number)
	if it.gone != kept {
		return
	}
	s.bytes -= int64(it.size) + itemOverhead
	s.stats.Evicted++
	s.lanes[l].markLost(number, why)
}

// level evicts down to target bytes. Every check keeps at most the same number of bytes; a check with more
// loses its oldest results.
func (s *Spool) level(target int64) {
	shares := map[model.ChunkID]int64{}
	cost := func(it *item) int64 { return int64(it.size) + itemOverhead }
	for l := range s.lanes {
		for i := range s.lanes[l].items {
			if it := &s.lanes[l].items[i]; it.gone == kept {
				shares[it.chunk] += cost(it)
			}
		}
	}
	fits := func(most int64) bool {
		total := int64(0)
		for _, bytes := range shares {
			total += min(most, bytes)
		}
		return total <= target
	}
	low, high := int64(0), target // bytes of a check, the most that fit
	for low < high {
		if mid := (low + high + 1) / 2; fits(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	a, b := &s.lanes[0], &s.lanes[1]
	for i, k := 0, 0; i < len(a.items) || k < len(b.items); {
		l, n := wire.Live, &i // the lane with the older signal
		if i == len(a.items) || k < len(b.items) && b.items[k].at < a.items[i].at {
			l, n = wire.Backlog, &k
		}
		it := &s.lanes[l].items[*n]
		if it.gone == kept && shares[it.chunk] > low {
			shares[it.chunk] -= cost(it)
			s.evict(l, s.lanes[l].first+uint64(*n), overFull)
		}
		*n++
	}
}

// maxGoneRun is the largest number of items in one record.
const maxGoneRun = 4096

// logEvictions writes records of new evictions, so that their counts survive a restart.
func (s *Spool) logEvictions() {
	if s.stats.Evicted == s.noted {
		return
	}
	s.noted = s.stats.Evicted
	s.logGone(func(it *item) bool { return !it.logged })
}

// logGone writes a record for every run of lost numbers that match.
func (s *Spool) logGone(match func(*item) bool) {
	for l := range s.lanes {
		ln := &s.lanes[l]
		for i := 0; i < len(ln.items); i++ {
			if ln.items[i].gone == kept || !match(&ln.items[i]) {
				continue
			}
			end := i + 1
			for end < len(ln.items) && end-i < maxGoneRun && ln.items[end].gone == ln.items[i].gone && match(&ln.items[end]) {
				end++
			}
			_ = s.write(appendGoneRecord(nil, s.st.epoch, wire.Lane(l), ln.first+uint64(i), ln.items[i:end]), 0)
			for k := i; k < end; k++ {
				ln.items[k].logged = true
			}
			i = end - 1
		}
	}
}
