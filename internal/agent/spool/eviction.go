package spool

import (
	"math"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// budget returns the bytes for signals: the other half of the disk lets the log be rewritten.
func (o *Options) budget() int64 { return o.MaxBytes / 2 }

// makeRoom evicts signals that are too old, exceed the budget, or exceed the memory while the disk
// refuses them.
func (s *Spool) makeRoom() {
	cut, hard := s.maxAgeCut(), memoryBytes/lanes
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
