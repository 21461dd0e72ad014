package spool

import (
	"log/slog"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// The methods of link.Source, in the order of their use.

// streamKey returns the id of the spool's stream together with one of its lanes (live or backlog).
func (s *Spool) streamKey(l wire.Lane) wire.StreamKey {
	return wire.StreamKey{Stream: s.streamState.stream, Lane: l}
}

// Streams returns the range of sequence numbers in each lane (live results and backlog), for the message Hello
func (s *Spool) Streams() []wire.StreamRange {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := wholeSeconds(s.nowMs())
	var list []wire.StreamRange
	for l := range s.lanes {
		ln := &s.lanes[l]
		h := wire.StreamRange{StreamKey: s.streamKey(wire.Lane(l)), First: ln.firstUnacknowledged, Last: ln.nextNumber() - 1}
		if oldest := slices.IndexFunc(ln.entries, func(it indexEntry) bool { return it.lossReason == notLost }); oldest >= 0 {
			h.OldestAgeMs = uint64(max(0, int64(now)-int64(ln.entries[oldest].at))) * 1000
		}
		list = append(list, h)
	}
	return list
}

// Backlog returns the number of unacknowledged results from before the present session, for the message Hello.
func (s *Spool) Backlog() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lanes[wire.Backlog].unacknowledged()
}

// Resume starts a session and marks all results above the server's last sequence numbers to be sent again
func (s *Spool) Resume(last []wire.StreamLast) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at [lanes]uint64
	for _, sl := range last {
		if sl.Stream == s.streamState.stream && sl.Lane < lanes {
			at[sl.Lane] = max(at[sl.Lane], sl.Last)
		}
	}
	ahead := false
	for l := range s.lanes {
		ahead = ahead || at[l] > s.lanes[l].sent
	}
	first := s.streamState.unsent != [lanes]uint64{}
	s.streamState.unsent = [lanes]uint64{}
	if ahead {
		if err := s.renumber(at); err != nil {
			return err
		}
	} else {
		for l := range s.lanes {
			ln := &s.lanes[l]
			s.bytes -= ln.dropThrough(at[l])
			if at[l]+1 < ln.firstUnacknowledged { // the server was restored from an older copy, or is a new one
				ln.firstUnacknowledged, ln.frontReason, ln.counts = at[l]+1, lostByServer, nil
			}
			ln.rewindCursor()
		}
		if first {
			s.saveState()
		}
	}
	s.hasSession = true
	s.maintainLog()
	return nil
}

// renumber moves all results to a new stream (sequence of numbered messages), with new numbers. The reason is that the
// server already has higher numbers, such as after a restored disk. Sent signals that the server has are done; the
// others get numbers of the new stream. The new state is written last, so that a crash leaves one stream or the other.
// Doubtful numbers were assigned before the last start and not sent: after the rollback they may be assigned to other
// signals, or the original of this copy may have sent them. No signal is applied twice: doubtful numbers count as
// acknowledged, and a gap reports them.
func (s *Spool) renumber(at [lanes]uint64) error {
	stream, err := newStreamID(s.opts.Rand)
	if err != nil {
		return err
	}
	s.opts.Logger.Warn("the server has higher sequence numbers than the spool: the agent starts a new stream",
		"stream", s.streamState.stream, "new", stream)
	old := s.lanes
	epoch := s.streamState.epoch
	why := diskRolledBack
	for l := range old {
		if ln := &old[l]; ln.serverIsAhead(at[l]) {
			why, ln.sent = diskRolledBackTwice, ln.lastBeforeOpen
		}
	}
	var fresh [lanes]lane
	positions := &s.streamState.positions
	positions.unsynced = nil // its signals follow, under their new numbers
	for l := range old {
		ln := &old[l]
		s.bytes -= ln.dropThrough(min(at[l], ln.sent)) // above it the numbers mean other signals
		fresh[l] = newLane()
		if l == int(wire.Live) {
			fresh[l].addNumber(reportEntry(s.nowMs(), why), nil)
		}
		for n := ln.first; n < ln.nextNumber(); n++ {
			it := *ln.entryOf(n)
			it.logged, it.commit = false, 0
			var data []byte
			if it.lossReason == notLost {
				var r logRecord
				if old := s.loadRecord(laneNumber{wire.Lane(l), n}); old != nil && r.decode(old) == nil {
					number := fresh[l].nextNumber()
					if data = appendSignalRecord(nil, epoch+1, wire.Lane(l), number, &r.signal); r.signal.position.change != 0 {
						positions.setUnsynced(laneNumber{wire.Lane(l), number})
					}
				}
			}
			switch {
			case it.lossReason == notLost && data == nil:
				s.bytes -= it.budgetBytes()
				it.lossReason, it.size = diskLost, 1
			case it.lossReason == notLost:
				s.bytes += int64(len(data)) - int64(it.size)
				it.size = uint32(len(data))
			}
			fresh[l].addNumber(it, data)
		}
	}
	s.lanes, s.readAhead = fresh, nil
	s.streamState.epoch, s.streamState.stream, s.unlimitedMemory = epoch+1, stream, true
	s.storeEntries()
	s.logLosses(true)
	if positions.newEpoch = true; !s.saveState() {
		s.storeDelayed = true // the state follows the entries
	}
	s.evictExcess()
	return nil
}

// Notify returns the channel that receives a value when a message for the server is appended.
func (s *Spool) Notify() <-chan struct{} { return s.notify }

// Unsent returns the number of unsent messages, and whether an urgent message must be sent immediately.
func (s *Spool) Unsent() (signals int, urgent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.lanes {
		signals += int(s.lanes[l].nextNumber() - s.lanes[l].cursor)
		urgent = urgent || s.lanes[l].urgent > 0
	}
	return signals, urgent
}

// Next fills the batch b with the next unsent results, or with a report of lost results. It returns false if all is
// sent or no session is open. maxBytes bounds the outputs and a little for each signal; one signal is always given.
func (s *Spool) Next(b *wire.Batch, maxBytes, maxSignals int) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasSession {
		return false, nil
	}
	for l := range s.lanes {
		if ln := &s.lanes[l]; ln.cursor < ln.nextNumber() && !s.streamState.positions.awaitsDisk(laneNumber{wire.Lane(l), ln.cursor}, s.log) {
			s.fillBatch(b, wire.Lane(l), maxBytes, max(1, min(maxSignals, wire.MaxSignals)))
			return true, nil
		}
	}
	return false, nil
}

// fillBatch fills the batch b with the lane's next unsent results, or with a report about lost results. Next calls it.
func (s *Spool) fillBatch(b *wire.Batch, l wire.Lane, maxBytes, maxSignals int) {
	ln := &s.lanes[l]
	*b = wire.Batch{StreamKey: s.streamKey(l), First: ln.cursor, NowMs: s.opts.Clock.BootMs(), Signals: b.Signals[:0]}
	if ln.cursor < ln.first {
		b.Gap = ln.frontGap()
		ln.moveCursorAfter(ln.first - 1)
		return
	}
	oldest := uint64(0) // age of the oldest signal of an earlier boot
	size := 0
	number := ln.cursor
	for ; number < ln.nextNumber() && len(b.Signals) < maxSignals && ln.entryOf(number).lossReason == notLost; number++ {
		if s.streamState.positions.awaitsDisk(laneNumber{l, number}, s.log) {
			break
		}
		var r logRecord
		data := s.loadRecord(laneNumber{l, number})
		if data == nil || r.decode(data) != nil {
			s.evictSignal(laneNumber{l, number}, diskLost)
			break
		}
		if size += len(data); size > maxBytes && len(b.Signals) > 0 {
			break
		}
		sig := r.signal.signal
		sig.AtMs = s.ageOf(&r.signal, b.NowMs)
		oldest = max(oldest, sig.AtMs)
		b.Signals = append(b.Signals, sig)
	}
	if len(b.Signals) == 0 {
		b.Gap = ln.gapAt(number)
		ln.moveCursorAfter(b.Gap.Last)
		return
	}
	// The sender's clock is the boot clock, moved so that the age of a signal from
	// before a reboot is not below its zero.
	b.NowMs = max(b.NowMs, oldest)
	for i := range b.Signals {
		b.Signals[i].AtMs = b.NowMs - b.Signals[i].AtMs
	}
	ln.moveCursorAfter(number - 1)
}

// ageOf returns the age of a result in ms by the boot clock. If the machine has rebooted since, the wall clock counts.
func (s *Spool) ageOf(h *spooledSignal, nowMs uint64) uint64 {
	if h.boot == s.streamState.boot {
		return uint64(elapsedMs(nowMs, h.signal.AtMs))
	}
	return uint64(max(0, s.opts.Clock.WallMs()-h.wallMs))
}

// Acked removes the results that the server has acknowledged or permanently refused
func (s *Spool) Acked(ack *wire.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range ack.Refused {
		if r.Stream != s.streamState.stream || r.Lane >= lanes {
			continue
		}
		s.stats.Refused++
		s.refusals.report(s.opts.Logger, s.opts.Clock.BootMs(), &r)
		if ln := &s.lanes[r.Lane]; ln.containsNumber(r.Number) {
			s.evictSignal(laneNumber{r.Lane, r.Number}, refusedByServer) // should it be sent again, then as a gap
		}
	}
	for _, sl := range ack.Last {
		if sl.Stream == s.streamState.stream && sl.Lane < lanes && sl.Last < s.lanes[sl.Lane].cursor {
			s.bytes -= s.lanes[sl.Lane].dropThrough(sl.Last)
		}
	}
	s.logEvictions()
	s.maintainLog()
}

const (
	// refusalLogEvery is the least time between two log lines about one code of refusals, in ms.
	refusalLogEvery = uint64(time.Minute / time.Millisecond)
	// maxRefusalCodes bounds the codes that are counted: a server may send any.
	maxRefusalCodes = 32
)

// refusalLog logs refused results at most once per error code and minute, with their count. It has the last log line
// of each code.
type refusalLog map[string]loggedRefusals

// loggedRefusals has the time of the last log line about refused results, and the count since then. The time is in ms
// of the boot clock.
type loggedRefusals struct {
	at    uint64
	since int
}

// report counts a refused result, and logs the count at most once per error code and minute.
func (l refusalLog) report(log *slog.Logger, nowMs uint64, r *wire.RefusedSignal) {
	c, logged := l[r.Code]
	c.since++
	if !logged || nowMs-c.at >= refusalLogEvery {
		log.Warn("server refused results", "code", r.Code, "count", c.since, "number", r.Number, "reason", r.Reason,
			"hint", "these results are lost; see the limits: muster status, muster describe namespace NAME")
		c = loggedRefusals{at: nowMs}
	}
	if logged || len(l) < maxRefusalCodes {
		l[r.Code] = c
	}
}
