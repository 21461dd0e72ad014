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

// maintainLog limits the size of the spool's log on disk. It deletes old segments (files) and moves the few records in
// them that are still needed. Where few old records prevent a cut, it appends them again.
func (s *Spool) maintainLog() {
	if boot := s.opts.Clock.BootMs(); elapsedMs(boot, s.folderChecked) >= folderCheckEvery.Milliseconds() {
		s.folderChecked = boot
		if s.log.FolderDeleted() {
			s.recreateFolder()
		}
	}
	if s.storeDelayed {
		s.storeEntries()
	}
	size := s.log.Stats().SizeBytes
	if size-s.cutSize < s.opts.MaxBytes/16 {
		return
	}
	s.cutSize = size
	s.deleteOldSegments()
	s.logLosses(true)
	s.saveState() // the next cut may delete the records before this one
	if s.log.Stats().SizeBytes > s.opts.MaxBytes/2 {
		s.copyOldestRecords(s.opts.MaxBytes / 16)
	}
}

// folderCheckEvery is the period in which the spool checks that its folder exists.
const folderCheckEvery = 5 * time.Second

// recreateFolder creates a deleted spool folder again and stores the results that are in memory. It writes the signals in
// memory, marks the others as lost, and waits for the disk once.
func (s *Spool) recreateFolder() {
	log, err := openLog(s.dir, &s.opts)
	if err != nil {
		s.opts.Logger.Error("the spool was deleted, and the agent cannot create a new one; the agent retries", "folder", s.dir, "err", err)
		return
	}
	s.opts.Logger.Error("the spool was deleted while the agent runs; the agent creates a new spool from memory", "folder", s.dir)
	old := s.log
	s.closing.Go(func() { _ = old.Close() }) // the old log may still call logWaiter.Committed
	s.log, s.logWaiter, s.readAhead, s.stateAt, s.cutSize = log, &logWaiter{s}, nil, 0, 0
	for p, it := range s.indexEntries() {
		switch {
		case it.lossReason != notLost:
		case s.lanes[p.lane].recentRecord(p.number) == nil:
			s.evictSignal(p, diskLost)
		default:
			it.commit, it.logged = 0, false
		}
	}
	s.storeEntries()
	s.lanes[wire.Live].addNumber(reportEntry(s.nowMs(), folderDeleted), nil)
	s.logLosses(true)
	s.saveState()
}

// deleteOldSegments deletes segments (files) of the log without any needed record.
func (s *Spool) deleteOldSegments() {
	needed := s.stateAt
	for _, it := range s.indexEntries() {
		if it.commit != 0 {
			needed = min(needed, it.commit)
		}
	}
	if needed <= 1 {
		return
	}
	err := s.log.Cut(journal.Position{Log: s.log.Incarnation().ID, Number: needed - 1})
	if err != nil && !errors.Is(err, journal.ErrClosed) {
		s.opts.Logger.Warn("cannot delete acknowledged signals from the spool", "err", err)
	}
	s.cutSize = s.log.Stats().SizeBytes
}

// copyOldestRecords copies the oldest needed records to the end of the log, to make old segments (files)
// deletable. The old segments (files) can then be deleted.
func (s *Spool) copyOldestRecords(bytes int64) {
	var durable []laneNumber
	for p, it := range s.indexEntries() {
		if it.commit != 0 && it.lossReason == notLost {
			durable = append(durable, p)
		}
	}
	commit := func(p laneNumber) uint64 { return s.lanes[p.lane].entryOf(p.number).commit }
	slices.SortFunc(durable, func(a, b laneNumber) int { return cmp.Compare(commit(a), commit(b)) })
	for _, p := range durable {
		data := s.loadRecord(p)
		if data == nil {
			s.evictSignal(p, diskLost)
			continue
		}
		if bytes -= int64(len(data)); bytes < 0 || s.writeRecord(data, s.commitToken(p)) != nil {
			return
		}
	}
}

// pageBytes is the size of a read-ahead.
const pageBytes = 128 << 10

var errPageFull = errors.New("page is full")

// loadRecord reads the log record of a message, or returns nil if the record is missing or damaged.
func (s *Spool) loadRecord(p laneNumber) []byte {
	ln := &s.lanes[p.lane]
	if data := ln.recentRecord(p.number); data != nil {
		return data
	}
	token := s.commitToken(p)
	if data := s.readAhead[token]; data != nil {
		return data
	}
	it := ln.entryOf(p.number)
	if it.commit == 0 {
		return nil
	}
	s.readAhead = map[uint64][]byte{}
	size := 0
	from := journal.Position{Log: s.log.Incarnation().ID, Number: it.commit - 1}
	err := s.log.ReadUndamaged(context.Background(), from, func(c journal.Commit) error {
		if size > pageBytes {
			return errPageFull
		}
		return c.Entries(0, func(data []byte) error {
			var r logRecord
			if r.decode(data) != nil || r.kind != recordSignal || r.epoch != s.streamState.epoch {
				return nil
			}
			size += len(data)
			s.readAhead[s.commitToken(laneNumber{r.lane, r.number})] = slices.Clone(data)
			return nil
		})
	})
	if err != nil && !errors.Is(err, errPageFull) {
		s.opts.Logger.Warn("cannot read the spool", "err", err)
	}
	return s.readAhead[token]
}

// budget returns how many bytes of disk the queued messages may use, half of MaxBytes. A rewrite of the log needs the
// other half.
func (o *Options) budget() int64 { return o.MaxBytes / 2 }

// evictExcess deletes results that are too old or exceed the limits of disk or memory
func (s *Spool) evictExcess() {
	cut, hard := wholeSeconds(s.nowMs()-s.opts.MaxAge.Milliseconds()), memoryBytes/lanes
	if s.unlimitedMemory {
		hard = math.MaxInt
	}
	for l := range s.lanes {
		ln := &s.lanes[l]
		for ln.ageCheckedBelow = max(ln.ageCheckedBelow, ln.first); ln.ageCheckedBelow < ln.nextNumber() && ln.entryOf(ln.ageCheckedBelow).at < cut; ln.ageCheckedBelow++ {
			s.evictSignal(laneNumber{wire.Lane(l), ln.ageCheckedBelow}, tooOld)
		}
		for _, number := range ln.dropRecentRecords(memoryBytes/lanes/2, hard) {
			s.evictSignal(laneNumber{wire.Lane(l), number}, spoolFull)
		}
		if over := len(ln.entries) - maxIndexEntries/lanes; over > 0 {
			over += maxIndexEntries / 64 // so that it happens rarely
			for i := range over {
				s.evictSignal(laneNumber{wire.Lane(l), ln.first + uint64(i)}, spoolFull)
			}
			ln.replaceOldestByCounts(over)
		}
	}
	if s.bytes > s.opts.budget() {
		s.evictFairly(s.opts.budget() / 8 * 7)
	}
	s.logEvictions()
}

// evictSignal deletes one unsent message from the spool, and records the reason for the loss.
func (s *Spool) evictSignal(p laneNumber, why lossReason) {
	if it := s.lanes[p.lane].entryOf(p.number); it.lossReason == notLost {
		s.bytes -= it.budgetBytes()
		s.stats.Evicted++
		delete(s.streamState.positions.unsynced, p)
		if it.kind == wire.SignalInventory {
			s.stats.EvictedInventories++
		}
		s.lanes[p.lane].markLost(p.number, why)
	}
}

// evictFairly deletes the oldest results of the checks with the most data, until `target` bytes remain. Every check
// keeps at most the same number of bytes; a check with more loses its oldest results.
func (s *Spool) evictFairly(target int64) {
	shares := map[model.DefinitionID]int64{}
	for _, it := range s.indexEntries() {
		if it.lossReason == notLost {
			shares[it.definition] += it.budgetBytes()
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
	for i, k := 0, 0; i < len(a.entries) || k < len(b.entries); {
		l, n := wire.Live, &i // the lane with the older signal
		if i == len(a.entries) || k < len(b.entries) && b.entries[k].at < a.entries[i].at {
			l, n = wire.Backlog, &k
		}
		it := &s.lanes[l].entries[*n]
		if it.lossReason == notLost && shares[it.definition] > share {
			shares[it.definition] -= it.budgetBytes()
			s.evictSignal(laneNumber{l, s.lanes[l].first + uint64(*n)}, spoolFull)
		}
		*n++
	}
}

// maxGoneEntries is the largest number of items in one record.
const maxGoneEntries = 4096

// logEvictions records the deleted results in the log, so that their counts survive a restart.
func (s *Spool) logEvictions() {
	if s.stats.Evicted == s.evictionsLogged {
		return
	}
	s.evictionsLogged = s.stats.Evicted
	s.logLosses(false)
}

// logLosses appends to the spool's log one record for each range of lost sequence numbers. With all false, it
// skips numbers that the log already has.
func (s *Spool) logLosses(all bool) {
	match := func(it *indexEntry) bool { return it.lossReason != notLost && (all || !it.logged) }
	for l := range s.lanes {
		ln := &s.lanes[l]
		for i := 0; i < len(ln.entries); i++ {
			if !match(&ln.entries[i]) {
				continue
			}
			end := i + 1
			for end < len(ln.entries) && end-i < maxGoneEntries && ln.entries[end].lossReason == ln.entries[i].lossReason && match(&ln.entries[end]) {
				end++
			}
			_ = s.writeRecord(appendLossRecord(nil, s.streamState.epoch, wire.Lane(l), ln.first+uint64(i), ln.entries[i:end]), 0)
			for k := i; k < end; k++ {
				ln.entries[k].logged = true
			}
			i = end - 1
		}
	}
}
