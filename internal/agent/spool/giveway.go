package spool

import (
	"math"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// budget is what may be kept: the other half of the disk lets the log be rewritten.
func (s *Spool) budget() int64 { return s.opts.MaxBytes / 2 }

// makeRoom lets go of what is too old, of what does not fit, and of what memory
// cannot hold.
func (s *Spool) makeRoom() {
	cut, hard := s.maxAgeCut(), memoryBytes/lanes
	if s.roomy {
		hard = math.MaxInt
	}
	for l := range s.lanes {
		ln := &s.lanes[l]
		for ln.aged = max(ln.aged, ln.first); ln.aged < ln.next() && ln.at(ln.aged).at < cut; ln.aged++ {
			s.giveWay(wire.Lane(l), ln.aged, tooOld)
		}
		for _, number := range ln.trim(memoryBytes/lanes/2, hard) {
			s.giveWay(wire.Lane(l), number, overFull)
		}
		if over := len(ln.items) - maxItems/lanes; over > 0 {
			over += maxItems / 64 // so that this is rare
			for i := range over {
				s.giveWay(wire.Lane(l), ln.first+uint64(i), overFull)
			}
			ln.collapse(over)
		}
	}
	if s.bytes > s.budget() {
		s.level(s.budget() / 8 * 7)
	}
	s.noteGone()
}

// giveWay marks a number as gone.
func (s *Spool) giveWay(l wire.Lane, number uint64, why reason) {
	it := s.lanes[l].at(number)
	if it.gone != kept {
		return
	}
	s.bytes -= int64(it.size) + itemOverhead
	s.stats.Evicted++
	s.lanes[l].lose(number, why)
}

// level is the budget's way: every check may keep as many bytes as there is room for when
// all keep the same; who has more loses the oldest of its results.
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
	low, high := int64(0), target // the most that fits
	for low < high {
		if mid := (low + high + 1) / 2; fits(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	a, b := &s.lanes[0], &s.lanes[1]
	for i, k := 0, 0; i < len(a.items) || k < len(b.items); {
		l, n := wire.Live, &i // the older one of both lanes
		if i == len(a.items) || k < len(b.items) && b.items[k].at < a.items[i].at {
			l, n = wire.Backlog, &k
		}
		it := &s.lanes[l].items[*n]
		if it.gone == kept && shares[it.chunk] > low {
			shares[it.chunk] -= cost(it)
			s.giveWay(l, s.lanes[l].first+uint64(*n), overFull)
		}
		*n++
	}
}

// maxGoneRun bounds one record.
const maxGoneRun = 4096

// noteGone writes down what gave way since the last time, so that a restart knows
// the counts.
func (s *Spool) noteGone() {
	if s.stats.Evicted == s.noted {
		return
	}
	s.noted = s.stats.Evicted
	s.eachGone(func(it *item) bool { return !it.logged })
}

// eachGone writes a record for every run of gone items that match.
func (s *Spool) eachGone(match func(*item) bool) {
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
