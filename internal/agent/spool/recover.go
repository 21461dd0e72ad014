package spool

import (
	"context"
	"sort"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/wire"
)

// found is one number that the log knows.
type found struct {
	epoch, number uint64
	item
}

// recover builds the index from the log: the newest state, and of its epoch every
// signal above first. Numbers in between that are not there are gone.
func (s *Spool) recover() error {
	var list [lanes][]found
	tail := s.log.Tail()
	tail.Number--
	err := s.log.Read(context.Background(), tail, func(c journal.Commit) error {
		return c.Entries(0, func(data []byte) error {
			var r record
			if err := r.decode(data); err != nil {
				return err
			}
			switch r.kind {
			case recordSignal:
				list[r.lane] = append(list[r.lane], found{r.epoch, r.number, item{
					commit: c.Position().Number, at: seconds(r.held.wallMs),
					chunk: r.held.signal.Chunk, size: uint32(len(data)), queued: true,
				}})
			case recordGone:
				for i, chunk := range r.chunks {
					list[r.lane] = append(list[r.lane], found{r.epoch, r.number + uint64(i), item{
						chunk: chunk, gone: r.why, queued: true,
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
	for l := range s.lanes {
		s.rebuild(wire.Lane(l), list[l])
	}
	if s.st.epoch == 0 {
		s.st.epoch = 1
		if s.st.stream, err = s.newStreamID(); err != nil {
			return err
		}
	}
	if id := s.opts.Clock.BootID(); id != s.st.bootID || s.st.boot == 0 {
		s.st.boot, s.st.bootID = s.st.boot+1, id
	}
	s.saveState()
	s.makeRoom()
	return nil
}

func (s *Spool) rebuild(l wire.Lane, list []found) {
	ln := &s.lanes[l]
	if s.st.epoch > 0 {
		ln.front, ln.first, ln.cursor = s.st.first[l], s.st.first[l], s.st.first[l]
	}
	next := max(s.st.next[l], ln.first)
	// The newest record of a number comes last, and wins.
	sort.SliceStable(list, func(i, k int) bool { return list[i].number < list[k].number })
	for _, f := range list {
		if f.epoch == s.st.epoch {
			next = max(next, f.number+1)
		}
	}
	if next-ln.first > maxItems/lanes { // more than there can be: the oldest ones are gone
		ln.why = diskLost
		ln.first = next - maxItems/lanes
	}
	ln.items = make([]item, next-ln.first)
	for i := range ln.items {
		ln.items[i] = item{gone: diskLost, queued: true}
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
	s.loaded[l] = next
}
