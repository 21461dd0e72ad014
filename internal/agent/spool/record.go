package spool

import (
	"encoding/binary"
	"errors"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Kinds of record in the spool's log; never reused.
const (
	recordSignal = 1 // epoch, lane, number, then the signal
	recordGone   = 2 // epoch, lane, number, reason, then kind, chunk and signals lost of each consecutive number
	recordState  = 3 // epoch, stream, boot, boot id, first, next and unsent of both lanes
)

// spooledSignal is a signal with its times.
type spooledSignal struct {
	signal wire.Signal
	boot   uint64 // number of the boot whose clock AtMs is
	wallMs int64  // wall clock at AtMs
}

func appendSignalRecord(dst []byte, epoch uint64, l wire.Lane, number uint64, h *spooledSignal) []byte {
	dst = append(dst, recordSignal)
	for _, v := range [...]uint64{
		epoch, uint64(l), number, h.boot, h.signal.AtMs, uint64(h.wallMs), uint64(h.signal.Kind),
		uint64(h.signal.Chunk), uint64(h.signal.Node),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	return append(dst, h.signal.Body...)
}

// appendGoneRecord writes the loss of consecutive numbers from number on, one for each item.
func appendGoneRecord(dst []byte, epoch uint64, l wire.Lane, number uint64, items []item) []byte {
	dst = append(dst, recordGone)
	for _, v := range [...]uint64{epoch, uint64(l), number, uint64(items[0].gone)} {
		dst = binary.AppendUvarint(dst, v)
	}
	for i := range items {
		dst = binary.AppendUvarint(dst, uint64(items[i].kind))
		dst = binary.AppendUvarint(dst, uint64(items[i].chunk))
		dst = binary.AppendUvarint(dst, uint64(items[i].size))
	}
	return dst
}

// state is needed also when no signal is left.
type state struct {
	epoch  uint64
	stream wire.StreamID
	boot   uint64
	bootID string
	first  [lanes]uint64
	next   [lanes]uint64
	// unsent is the first number that was not sent; zero: unknown, because there was a session since the
	// spool was opened.
	unsent [lanes]uint64
}

func (st *state) append(dst []byte) []byte {
	dst = append(dst, recordState)
	for _, v := range [...]uint64{
		st.epoch, uint64(st.stream), st.boot, st.first[0], st.next[0], st.first[1], st.next[1], st.unsent[0], st.unsent[1],
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	return append(dst, st.bootID...)
}

// record is one decoded entry; kind decides which fields are set.
type record struct {
	kind   byte
	epoch  uint64
	lane   wire.Lane
	number uint64
	held   spooledSignal // its Body aliases the entry
	why    reason
	gone   []item // kind, chunk and size
	state  state
}

var errRecord = errors.New("spool record is malformed")

func (r *record) decode(data []byte) error {
	*r = record{}
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
	case recordSignal:
		lane := next()
		r.number, r.held.boot = next(), next()
		s := &r.held.signal
		s.AtMs, r.held.wallMs = next(), int64(next())
		s.Kind, s.Chunk, s.Node = wire.SignalKind(next()), model.ChunkID(next()), model.NodeID(next())
		s.Body = rest
		r.lane, ok = wire.Lane(lane), ok && lane < lanes
	case recordGone:
		lane := next()
		r.number, r.why = next(), reason(next())
		for ok && len(rest) > 0 {
			r.gone = append(r.gone, item{kind: wire.SignalKind(next()), chunk: model.ChunkID(next()), size: uint32(next())})
		}
		r.lane, ok = wire.Lane(lane), ok && lane < lanes && r.why > kept && r.why < reasons
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
