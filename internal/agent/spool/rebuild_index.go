package spool

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Kinds of record in the spool's log; never reused.
const (
	recordSignal = 1 // epoch, lane, number, then the signal
	recordGone   = 2 // epoch, lane, number, reason, then kind, definition and signals lost of each consecutive number
	recordState  = 3 // epoch, stream, boot, boot id, first, next and unsent of both lanes
	// As recordSignal, with a position before the body.
	recordPositioned = 4
	recordPositions  = 5 // epoch, then positions
)

// spooledSignal is a message for the server, with the machine's boot number and the wall-clock time.
type spooledSignal struct {
	signal wire.Signal
	boot   uint64 // number of the boot whose clock AtMs is
	wallMs int64  // wall clock at AtMs
	// read position of the collector after these values; its change is 0 if there is none
	position storedPosition
}

// appendRecord encodes the header of a record in the spool's log, from the record's kind and several numbers.
func appendRecord(dst []byte, kind byte, numbers ...uint64) []byte {
	dst = append(dst, kind)
	for _, v := range numbers {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// appendSignalRecord encodes the log record of a message with its lane (live or backlog), sequence number and times
func appendSignalRecord(dst []byte, epoch uint64, l wire.Lane, number uint64, h *spooledSignal) []byte {
	kind := byte(recordSignal)
	if h.position.change != 0 {
		kind = recordPositioned
	}
	dst = appendRecord(dst, kind, epoch, uint64(l), number, h.boot, h.signal.AtMs, uint64(h.wallMs),
		uint64(h.signal.Kind), uint64(h.signal.Definition), uint64(h.signal.Node))
	if kind == recordPositioned {
		dst = h.position.append(dst)
	}
	return append(dst, h.signal.Body...)
}

// appendLossRecord encodes the log record about consecutive lost results, with the kind, check and size of each
// result.
func appendLossRecord(dst []byte, epoch uint64, l wire.Lane, number uint64, items []indexEntry) []byte {
	dst = appendRecord(dst, recordGone, epoch, uint64(l), number, uint64(items[0].lossReason))
	for i := range items {
		dst = binary.AppendUvarint(dst, uint64(items[i].kind))
		dst = binary.AppendUvarint(dst, uint64(items[i].definition))
		dst = binary.AppendUvarint(dst, uint64(items[i].size))
	}
	return dst
}

// streamState is the logged state of a stream (the spool's sequence of messages), with id and next numbers. A
// stream is a series of sequence numbers.
type streamState struct {
	epoch  uint64
	stream wire.StreamID
	boot   uint64
	bootID string
	first  [lanes]uint64
	next   [lanes]uint64
	// unsent is the first number that was not sent; zero: unknown, because there was a session since the
	// spool was opened.
	unsent [lanes]uint64
	// positions of collectors, in records of their own
	positions positionSet
}

// append appends the state of the spool's message sequence (stream), encoded as a log record, to dst.
func (st *streamState) append(dst []byte) []byte {
	dst = appendRecord(dst, recordState, st.epoch, uint64(st.stream), st.boot,
		st.first[0], st.next[0], st.first[1], st.next[1], st.unsent[0], st.unsent[1])
	return append(dst, st.bootID...)
}

// logRecord is one decoded record of the spool's log. Its kind decides which fields are set.
type logRecord struct {
	kind        byte
	epoch       uint64
	lane        wire.Lane
	number      uint64
	signal      spooledSignal // its Body aliases the entry
	reason      lossReason
	lostEntries []indexEntry // kind, definition and size
	state       streamState
	positions   []storedPosition
}

var errRecord = errors.New("spool record is malformed")

// decode decodes one record of the spool's log.
func (r *logRecord) decode(data []byte) error {
	*r = logRecord{}
	if len(data) == 0 {
		return errRecord
	}
	r.kind = data[0]
	rest, ok := data[1:], true
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return v
	}
	r.epoch = next()
	switch r.kind {
	case recordSignal, recordPositioned:
		lane := next()
		r.number, r.signal.boot = next(), next()
		s := &r.signal.signal
		s.AtMs, r.signal.wallMs = next(), int64(next())
		s.Kind, s.Definition, s.Node = wire.SignalKind(next()), model.DefinitionID(next()), model.NodeID(next())
		if r.kind == recordPositioned && ok {
			r.signal.position, rest, ok = decodePosition(rest)
			r.positions = append(r.positions, r.signal.position)
		}
		r.kind, s.Body = recordSignal, rest
		r.lane, ok = wire.Lane(lane), ok && lane < lanes
	case recordGone:
		lane := next()
		r.number, r.reason = next(), lossReason(next())
		for ok && len(rest) > 0 {
			r.lostEntries = append(r.lostEntries, indexEntry{kind: wire.SignalKind(next()), definition: model.DefinitionID(next()), size: uint32(next())})
		}
		r.lane, ok = wire.Lane(lane), ok && lane < lanes && r.reason > notLost && r.reason < reasons
	case recordPositions:
		for ok && len(rest) > 0 {
			var of storedPosition
			of, rest, ok = decodePosition(rest)
			r.positions = append(r.positions, of)
		}
	case recordState:
		st := &r.state
		st.epoch, st.stream, st.boot = r.epoch, wire.StreamID(next()), next()
		st.first[0], st.next[0] = next(), next()
		st.first[1], st.next[1] = next(), next()
		st.unsent[0], st.unsent[1] = next(), next()
		st.bootID = string(rest)
		ok = ok && st.first[0] <= st.next[0] && st.first[1] <= st.next[1] && st.first[0] > 0 && st.first[1] > 0
	default:
		ok = false
	}
	if !ok {
		return errRecord
	}
	return nil
}

// recoveredNumber is the sequence number of one message that Open found in the log, with the record's place.
type recoveredNumber struct {
	epoch, number uint64
	boot, atMs    uint64 // of a signal
	indexEntry
}

// recoverIndex rebuilds the in-memory index of results from the log when the spool is opened. Missing numbers in
// between are lost.
func (s *Spool) recoverIndex() error {
	var list [lanes][]recoveredNumber
	malformed, positions := 0, positionSet{}
	tail := s.log.Tail()
	tail.Number--
	err := s.log.Read(context.Background(), tail, func(c journal.Commit) error {
		return c.Entries(0, func(data []byte) error {
			var r logRecord
			if r.decode(data) != nil {
				malformed++ // of a newer version: its number becomes a gap
				return nil
			}
			for _, of := range r.positions {
				positions.add(of)
			}
			switch r.kind {
			case recordSignal:
				list[r.lane] = append(list[r.lane], recoveredNumber{r.epoch, r.number, r.signal.boot, r.signal.signal.AtMs, indexEntry{
					commit: c.Position().Number, at: wholeSeconds(r.signal.wallMs),
					definition: r.signal.signal.Definition, kind: r.signal.signal.Kind, size: uint32(len(data)), logged: true,
				}})
			case recordGone:
				for i, it := range r.lostEntries {
					list[r.lane] = append(list[r.lane], recoveredNumber{r.epoch, r.number + uint64(i), 0, 0, indexEntry{
						definition: it.definition, kind: it.kind, size: it.size, lossReason: r.reason, logged: true,
					}})
				}
			case recordState:
				if r.epoch >= s.streamState.epoch {
					s.streamState, s.stateAt = r.state, c.Position().Number
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	s.streamState.positions = positions
	if malformed > 0 {
		s.opts.Logger.Warn("the spool has records that this version cannot read", "records", malformed)
	}
	for l := range s.lanes {
		if s.streamState.bootID == s.opts.Clock.BootID() {
			for i := range list[l] { // the boot clock is more precise than the wall clock
				if f := &list[l][i]; f.boot == s.streamState.boot {
					f.at = wholeSeconds(s.wallOffset + int64(f.atMs))
				}
			}
		}
		s.rebuildLane(wire.Lane(l), list[l])
	}
	fresh := s.streamState.epoch == 0
	if fresh {
		s.streamState.epoch = 1
		if s.streamState.stream, err = newStreamID(s.opts.Rand); err != nil {
			return err
		}
	}
	if id := s.opts.Clock.BootID(); id != s.streamState.bootID || s.streamState.boot == 0 {
		s.streamState.boot, s.streamState.bootID = s.streamState.boot+1, id
	}
	if fresh && s.opts.HadSession {
		s.opts.Logger.Error("the former spool is missing: its results without an acknowledgement are lost", "folder", s.dir)
		s.lanes[wire.Live].addNumber(reportEntry(s.nowMs(), spoolMissing), nil)
		s.logLosses(true)
	}
	s.saveState()
	s.evictExcess()
	return nil
}

// rebuildLane builds the index of one numbered sequence (live results or backlog) from the log. Missing numbers count
// as lost results.
func (s *Spool) rebuildLane(l wire.Lane, list []recoveredNumber) {
	ln := &s.lanes[l]
	if s.streamState.epoch > 0 {
		ln.firstUnacknowledged, ln.first = s.streamState.first[l], s.streamState.first[l]
	}
	next := max(s.streamState.next[l], ln.first)
	// The newest record of a number comes last, and wins.
	slices.SortStableFunc(list, func(a, b recoveredNumber) int { return cmp.Compare(a.number, b.number) })
	for _, f := range list {
		if f.epoch == s.streamState.epoch {
			next = max(next, f.number+1)
		}
	}
	if next-ln.first > maxIndexEntries/lanes { // the index is full: the oldest signals are lost
		ln.frontReason = diskLost
		ln.first = next - maxIndexEntries/lanes
	}
	ln.entries = slices.Repeat([]indexEntry{{lossReason: diskLost, size: 1}}, int(next-ln.first))
	for _, f := range list {
		if f.epoch == s.streamState.epoch && f.number >= ln.first {
			*ln.entryOf(f.number) = f.indexEntry
		}
	}
	for i := range ln.entries {
		if it := &ln.entries[i]; it.lossReason == notLost {
			s.bytes += it.budgetBytes()
		}
	}
	ln.sent, ln.lastBeforeOpen = next-1, next-1 // some of them may have been …
	if unsent := s.streamState.unsent[l]; unsent > 0 {
		ln.sent = min(ln.sent, unsent-1) // … but none since an earlier start without a session
	}
	s.streamState.unsent[l] = ln.sent + 1
	ln.cursor = max(ln.first, ln.sent+1)
	for n := ln.cursor; n < ln.nextNumber(); n++ {
		if it := ln.entryOf(n); it.lossReason != notLost && it.size > 0 {
			ln.reportingNumbers[lossGroup{signalOrigin{it.kind, it.definition}, it.lossReason}] = n
		}
	}
}
