package spool

import (
	"context"
	"sort"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/wire"
)

// recovered is one number in the log.
type recovered struct {
	epoch, number uint64
	boot, atMs    uint64 // of a signal
	item
}

// recover builds the index from the log: the newest state, and every signal of its epoch above first.
// Missing numbers in between are lost.
func (s *Spool) recover() error {
	var list [lanes][]recovered
	malformed := 0
	tail := s.log.Tail()
	tail.Number--
	err := s.log.Read(context.Background(), tail, func(c journal.Commit) error {
		return c.Entries(0, func(data []byte) error {
			var r record
			if r.decode(data) != nil {
				malformed++ // of a newer version: its number becomes a gap
				return nil
			}
			switch r.kind {
			case recordSignal:
				list[r.lane] = append(list[r.lane], recovered{r.epoch, r.number, r.held.boot, r.held.signal.AtMs, item{
					commit: c.Position().Number, at: seconds(r.held.wallMs),
					chunk: r.held.signal.Chunk, kind: r.held.signal.Kind, size: uint32(len(data)), logged: true,
				}})
			case recordGone:
				for i, it := range r.gone {
					list[r.lane] = append(list[r.lane], recovered{r.epoch, r.number + uint64(i), 0, 0, item{
						chunk: it.chunk, kind: it.kind, size: it.size, gone: r.why, logged: true,
					}})
				}
			case recordState:
				if r.epoch >= s.st.epoch {
					s.st, s.stateAt = r.state, c.Position().Number
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	if malformed > 0 {
		s.opts.Logger.Warn("spool holds records that this version cannot read", "records", malformed)
	}
	for l := range s.lanes {
		if s.st.bootID == s.opts.Clock.BootID() {
			for i := range list[l] { // the boot clock is more precise than the wall clock
				if f := &list[l][i]; f.boot == s.st.boot {
					f.at = seconds(s.base + int64(f.atMs))
				}
			}
		}
		s.rebuild(wire.Lane(l), list[l])
	}
	fresh := s.st.epoch == 0
	if fresh {
		s.st.epoch = 1
		if s.st.stream, err = newStreamID(s.opts.Rand); err != nil {
			return err
		}
	}
	if id := s.opts.Clock.BootID(); id != s.st.bootID || s.st.boot == 0 {
		s.st.boot, s.st.bootID = s.st.boot+1, id
	}
	if fresh && s.opts.Known {
		s.opts.Logger.Error("the spool is new, though this agent has had one: what that held and no server acknowledged is lost", "folder", s.dir)
		s.lanes[wire.Live].push(newsItem(s.nowMs(), newSpool), nil)
		s.logGone(func(*item) bool { return true })
	}
	s.saveState()
	s.makeRoom()
	return nil
}

func (s *Spool) rebuild(l wire.Lane, list []recovered) {
	ln := &s.lanes[l]
	if s.st.epoch > 0 {
		ln.front, ln.first = s.st.first[l], s.st.first[l]
	}
	next := max(s.st.next[l], ln.first)
	// The newest record of a number comes last, and wins.
	sort.SliceStable(list, func(i, k int) bool { return list[i].number < list[k].number })
	for _, f := range list {
		if f.epoch == s.st.epoch {
			next = max(next, f.number+1)
		}
	}
	if next-ln.first > maxItems/lanes { // more than maxItems: the oldest ones are lost
		ln.why = diskLost
		ln.first = next - maxItems/lanes
	}
	ln.items = make([]item, next-ln.first)
	for i := range ln.items {
		ln.items[i] = item{gone: diskLost, size: 1}
	}
	for _, f := range list {
		if f.epoch != s.st.epoch || f.number < ln.first {
			continue
		}
		*ln.at(f.number) = f.item
	}
	for i := range ln.items {
		if it := &ln.items[i]; it.gone == kept {
			s.bytes += int64(it.size) + itemOverhead
		}
	}
	ln.sent, ln.old = next-1, next-1 // some of them may have been …
	if unsent := s.st.unsent[l]; unsent > 0 {
		ln.sent = min(ln.sent, unsent-1) // … but none since an earlier start without a session
	}
	s.st.unsent[l] = ln.sent + 1
	ln.cursor = max(ln.first, ln.sent+1)
	for n := ln.cursor; n < ln.next(); n++ {
		if it := ln.at(n); it.gone != kept && it.size > 0 {
			ln.reported[loss{origin{it.kind, it.chunk}, it.gone}] = n
		}
	}
}
