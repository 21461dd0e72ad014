package spool

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// maintain keeps the log small: it cuts below the oldest needed record. Where few old records prevent a
// cut, it appends them again.
func (s *Spool) maintain() {
	if boot := s.opts.Clock.BootMs(); elapsedMs(boot, s.folderChecked) >= folderCheckEvery.Milliseconds() {
		s.folderChecked = boot
		if s.log.FolderDeleted() {
			s.reopen()
		}
	}
	if s.storeDelayed {
		s.store()
	}
	size := s.log.Stats().SizeBytes
	if size-s.cutSize < s.opts.MaxBytes/16 {
		return
	}
	s.cutSize = size
	s.cut()
	s.logLosses(true)
	s.saveState() // the next cut may go up to here
	if s.log.Stats().SizeBytes > s.opts.MaxBytes/2 {
		s.rewrite(s.opts.MaxBytes / 16)
	}
}

// folderCheckEvery is the period in which the spool checks that its folder exists.
const folderCheckEvery = 5 * time.Second

// reopen makes a deleted folder again. It writes the signals in memory, marks the others as lost, and waits
// for the disk once.
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
	for p, it := range s.items() {
		switch {
		case it.lost != notLost:
		case s.lanes[p.lane].recentRecord(p.number) == nil:
			s.evict(p, diskLost)
		default:
			it.commit, it.logged = 0, false
		}
	}
	s.store()
	s.lanes[wire.Live].push(reportItem(s.nowMs(), folderDeleted), nil)
	s.logLosses(true)
	s.saveState()
}

// cut deletes segments below the oldest needed record.
func (s *Spool) cut() {
	needed := s.stateAt
	for _, it := range s.items() {
		if it.commit != 0 {
			needed = min(needed, it.commit)
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
	var durable []place
	for p, it := range s.items() {
		if it.commit != 0 && it.lost == notLost {
			durable = append(durable, p)
		}
	}
	commit := func(p place) uint64 { return s.lanes[p.lane].item(p.number).commit }
	slices.SortFunc(durable, func(a, b place) int { return cmp.Compare(commit(a), commit(b)) })
	for _, p := range durable {
		data := s.loadRecord(p)
		if data == nil {
			s.evict(p, diskLost)
			continue
		}
		if bytes -= int64(len(data)); bytes < 0 || s.write(data, s.token(p)) != nil {
			return
		}
	}
}

// pageBytes is the size of a read-ahead.
const pageBytes = 128 << 10

var errPageFull = errors.New("page is full")

// loadRecord returns the record of a number that is not lost; nil: the disk has lost it.
func (s *Spool) loadRecord(p place) []byte {
	ln := &s.lanes[p.lane]
	if data := ln.recentRecord(p.number); data != nil {
		return data
	}
	token := s.token(p)
	if data := s.page[token]; data != nil {
		return data
	}
	it := ln.item(p.number)
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
			s.page[s.token(place{r.lane, r.number})] = slices.Clone(data)
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
	if s.unlimitedMemory {
		hard = math.MaxInt
	}
	for l := range s.lanes {
		ln := &s.lanes[l]
		for ln.aged = max(ln.aged, ln.first); ln.aged < ln.nextNumber() && ln.item(ln.aged).at < cut; ln.aged++ {
			s.evict(place{wire.Lane(l), ln.aged}, tooOld)
		}
		for _, number := range ln.trimRecent(memoryBytes/lanes/2, hard) {
			s.evict(place{wire.Lane(l), number}, spoolFull)
		}
		if over := len(ln.items) - maxItems/lanes; over > 0 {
			over += maxItems / 64 // so that it happens rarely
			for i := range over {
				s.evict(place{wire.Lane(l), ln.first + uint64(i)}, spoolFull)
			}
			ln.collapseOldest(over)
		}
	}
	if s.bytes > s.opts.budget() {
		s.evictFairly(s.opts.budget() / 8 * 7)
	}
	s.logEvictions()
}

// evict drops the signal of a number for a reason, unless it is lost already.
func (s *Spool) evict(p place, why reason) {
	if it := s.lanes[p.lane].item(p.number); it.lost == notLost {
		s.bytes -= it.cost()
		s.stats.Evicted++
		s.lanes[p.lane].markLost(p.number, why)
	}
}

// evictFairly evicts down to target bytes. Every check keeps at most the same number of bytes; a check with more
// loses its oldest results.
func (s *Spool) evictFairly(target int64) {
	shares := map[model.ChunkID]int64{}
	for _, it := range s.items() {
		if it.lost == notLost {
			shares[it.chunk] += it.cost()
		}
	}
	// share is the largest number of bytes of a check with which all checks fit.
	share := int64(sort.Search(int(target), func(most int) bool {
		total := int64(0)
		for _, bytes := range shares {
			total += min(int64(most)+1, bytes)
		}
		return total > target
	}))
	a, b := &s.lanes[0], &s.lanes[1]
	for i, k := 0, 0; i < len(a.items) || k < len(b.items); {
		l, n := wire.Live, &i // the lane with the older signal
		if i == len(a.items) || k < len(b.items) && b.items[k].at < a.items[i].at {
			l, n = wire.Backlog, &k
		}
		it := &s.lanes[l].items[*n]
		if it.lost == notLost && shares[it.chunk] > share {
			shares[it.chunk] -= it.cost()
			s.evict(place{l, s.lanes[l].first + uint64(*n)}, spoolFull)
		}
		*n++
	}
}

// maxGoneRun is the largest number of items in one record.
const maxGoneRun = 4096

// logEvictions writes records of new evictions, so that their counts survive a restart.
func (s *Spool) logEvictions() {
	if s.stats.Evicted == s.evictionsLogged {
		return
	}
	s.evictionsLogged = s.stats.Evicted
	s.logLosses(false)
}

// logLosses writes a record for every run of lost numbers, and without all only for those that the log
// does not have.
func (s *Spool) logLosses(all bool) {
	match := func(it *item) bool { return it.lost != notLost && (all || !it.logged) }
	for l := range s.lanes {
		ln := &s.lanes[l]
		for i := 0; i < len(ln.items); i++ {
			if !match(&ln.items[i]) {
				continue
			}
			end := i + 1
			for end < len(ln.items) && end-i < maxGoneRun && ln.items[end].lost == ln.items[i].lost && match(&ln.items[end]) {
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
