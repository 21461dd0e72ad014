package spool

import (
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// What a session asks for, in the order it asks.

func (s *Spool) key(l wire.Lane) wire.StreamKey {
	return wire.StreamKey{Stream: s.st.stream, Lane: l}
}

// Streams says for Hello what is held of each lane.
func (s *Spool) Streams() []wire.StreamRange {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := seconds(s.nowMs())
	var list []wire.StreamRange
	for l := range s.lanes {
		ln := &s.lanes[l]
		h := wire.StreamRange{StreamKey: s.key(wire.Lane(l)), First: ln.front, Last: ln.next() - 1}
		for i := range ln.items {
			if it := &ln.items[i]; it.gone == kept {
				h.OldestAgeMs = uint64(max(0, int64(now)-int64(it.at))) * 1000
				break
			}
		}
		list = append(list, h)
	}
	return list
}

// Backlog is how many signals wait in the backlog lane, for Hello: the server's
// other deadlines for this node wait until they are in.
func (s *Spool) Backlog() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lanes[wire.Backlog]
	return l.next() - l.front
}

// Resume begins a session with what the server says it keeps of the streams that
// Hello named: everything above is to be sent, again.
func (s *Spool) Resume(last []wire.StreamLast) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at [lanes]uint64
	for _, sl := range last {
		if sl.Stream == s.st.stream && sl.Lane < lanes {
			at[sl.Lane] = max(at[sl.Lane], sl.Last)
		}
	}
	ahead := false
	for l := range s.lanes {
		ahead = ahead || at[l] > s.lanes[l].sent
	}
	first := s.st.unsent != [lanes]uint64{}
	s.st.unsent = [lanes]uint64{}
	if ahead {
		if err := s.renumber(at); err != nil {
			return err
		}
	} else {
		for l := range s.lanes {
			s.resumeLane(&s.lanes[l], at[l])
		}
		if first {
			s.saveState()
		}
	}
	s.online = true
	s.maintain()
	return nil
}

func (s *Spool) resumeLane(ln *lane, last uint64) {
	s.bytes -= ln.drop(last)
	if last+1 < ln.front {
		// The server was restored from an older copy, or is a new one.
		ln.front, ln.why, ln.counts = last+1, unkept, nil
	}
	ln.rewind(ln.front)
}

// renumber begins a new stream, because the server knows numbers that were never sent
// from here: the disk was rolled back, or lost its last seconds. What was sent and the
// server keeps is done; the rest gets numbers of the new stream. The new state is
// written last, so that a crash leaves one stream or the other.
//
// Numbers that an earlier life of this spool gave, and never sent, may be either: given
// again to other signals after the disk was brought back, or sent by the other life,
// from the copy of which this one began. No signal is applied twice, so they count as
// what the server has, and the operator hears of it.
func (s *Spool) renumber(at [lanes]uint64) error {
	stream, err := s.newStreamID()
	if err != nil {
		return err
	}
	s.opts.Logger.Warn("server knows more of this agent's numbers than its spool: beginning a new stream",
		"stream", s.st.stream, "new", stream)
	old := s.lanes
	epoch := s.st.epoch
	why := olderDisk
	for l := range old {
		if ln := &old[l]; ln.doubtful(at[l]) {
			why, ln.sent = olderTwice, ln.found
		}
	}
	var fresh [lanes]lane
	for l := range old {
		ln := &old[l]
		s.bytes -= ln.drop(min(at[l], ln.sent)) // above it the numbers mean other signals
		fresh[l] = newLane()
		if l == int(wire.Live) {
			fresh[l].push(s.news(why), nil)
		}
		for n := ln.first; n < ln.next(); n++ {
			it := *ln.at(n)
			it.logged, it.commit = false, 0
			var data []byte
			if it.gone == kept {
				data = s.renumbered(wire.Lane(l), n, epoch+1, fresh[l].next())
			}
			if it.gone == kept && data == nil {
				s.bytes -= int64(it.size) + itemOverhead
				it.gone, it.size = diskLost, 1
			}
			if it.gone == kept {
				s.bytes += int64(len(data)) - int64(it.size)
				it.size = uint32(len(data))
			}
			fresh[l].push(it, data)
		}
	}
	s.lanes, s.page = fresh, nil
	s.st.epoch, s.st.stream, s.roomy = epoch+1, stream, true
	s.store()
	s.eachGone(func(*item) bool { return true })
	s.saveState()
	s.makeRoom()
	return nil
}

// renumbered is a record with another epoch and number.
func (s *Spool) renumbered(l wire.Lane, number, epoch, newNumber uint64) []byte {
	var r record
	if data := s.load(l, number); data == nil || r.decode(data) != nil {
		return nil
	}
	return appendSignalRecord(nil, epoch, l, newNumber, &r.held)
}

// Notify has a value after something was added.
func (s *Spool) Notify() <-chan struct{} { return s.notify }

// Waiting is how many numbers Next would give, and whether one of them is urgent.
func (s *Spool) Waiting() (signals int, urgent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.lanes {
		signals += int(s.lanes[l].next() - s.lanes[l].cursor)
		urgent = urgent || s.lanes[l].urgent > 0
	}
	return signals, urgent
}

// Next fills b with the next consecutive signals of one lane, live first, or with a
// gap; false: nothing to send, or no session. maxBytes bounds the outputs and a little for each
// signal; one signal is always given.
func (s *Spool) Next(b *wire.Batch, maxBytes, maxSignals int) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.online {
		return false, nil
	}
	for l := range s.lanes {
		if ln := &s.lanes[l]; ln.cursor < ln.next() {
			s.fill(b, wire.Lane(l), maxBytes, max(1, min(maxSignals, wire.MaxSignals)))
			return true, nil
		}
	}
	return false, nil
}

func (s *Spool) fill(b *wire.Batch, l wire.Lane, maxBytes, maxSignals int) {
	ln := &s.lanes[l]
	*b = wire.Batch{StreamKey: s.key(l), First: ln.cursor, NowMs: s.opts.Clock.BootMs(), Signals: b.Signals[:0]}
	if ln.cursor < ln.first {
		b.Gap = ln.frontGap()
		ln.advance(ln.first - 1)
		return
	}
	oldest := uint64(0) // age of the oldest signal of an earlier boot
	size := 0
	number := ln.cursor
	for ; number < ln.next() && len(b.Signals) < maxSignals && ln.at(number).gone == kept; number++ {
		var r record
		data := s.load(l, number)
		if data == nil || r.decode(data) != nil {
			s.giveWay(l, number, diskLost)
			break
		}
		if size += len(data); size > maxBytes && len(b.Signals) > 0 {
			break
		}
		sig := r.held.signal
		sig.AtMs = s.ageOf(&r.held, b.NowMs)
		oldest = max(oldest, sig.AtMs)
		b.Signals = append(b.Signals, sig)
	}
	if len(b.Signals) == 0 {
		b.Gap = ln.gapAt(number)
		ln.advance(b.Gap.Last)
		return
	}
	// The sender's clock is the boot clock, moved so that the age of a signal from
	// before a reboot is not below its zero.
	b.NowMs = max(b.NowMs, oldest)
	for i := range b.Signals {
		b.Signals[i].AtMs = b.NowMs - b.Signals[i].AtMs
	}
	ln.advance(number - 1)
}

// ageOf is a signal's age in ms: by the boot clock, across a reboot by the wall clock.
func (s *Spool) ageOf(h *held, nowMs uint64) uint64 {
	if h.boot == s.st.boot {
		return uint64(age(nowMs, h.signal.AtMs))
	}
	return uint64(max(0, s.opts.Clock.WallMs()-h.wallMs))
}

// Acked drops what the server keeps, and what it refused for good.
func (s *Spool) Acked(ack *wire.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range ack.Refused {
		if r.Stream != s.st.stream || r.Lane >= lanes {
			continue
		}
		s.stats.Refused++
		s.complain(&r)
		if ln := &s.lanes[r.Lane]; ln.holds(r.Number) {
			s.giveWay(r.Lane, r.Number, refused) // should it be sent again, then as a gap
		}
	}
	for _, sl := range ack.Last {
		if sl.Stream == s.st.stream && sl.Lane < lanes && sl.Last < s.lanes[sl.Lane].cursor {
			s.bytes -= s.lanes[sl.Lane].drop(sl.Last)
		}
	}
	s.noteGone()
	s.maintain()
}

// complainEvery is the least time between two lines of the log about one kind of refusal.
const complainEvery = uint64(time.Minute / time.Millisecond)

// complaint is a kind of refusal: when the log told of it, and how many came since.
type complaint struct {
	at    uint64 // boot clock
	since int
}

// complain tells the log of a refusal: once per code and minute, and how many they were.
func (s *Spool) complain(r *wire.RefusedSignal) {
	now := s.opts.Clock.BootMs()
	c, told := s.complaints[r.Code]
	c.since++
	if !told || now-c.at >= complainEvery {
		s.opts.Logger.Warn("server refused results", "code", r.Code, "count", c.since, "number", r.Number, "reason", r.Reason,
			"hint", "they are not kept; what limits there are, and what raises them: muster status, muster describe namespace NAME")
		c = complaint{at: now}
	}
	if s.complaints == nil {
		s.complaints = map[string]complaint{}
	}
	if told || len(s.complaints) < maxComplaints {
		s.complaints[r.Code] = c
	}
}

// maxComplaints bounds the kinds that a server may name.
const maxComplaints = 32
