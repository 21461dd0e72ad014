package play

import (
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// frame is a batch of consecutive signals, encoded once: each sending copies it behind a new header.
type frame struct {
	first   uint64      // number of the first signal
	due     int64       // when it should leave, ns since the beginning
	done    int         // signals acknowledged
	class   int         // of the agent
	linger  int64       // of its signals
	unit    report.Unit // of values or runs of directives; empty: results and keepalives
	signals []byte
	each    []sign
}

// sign holds the data of one signal that the ledger needs until it is acknowledged.
type sign struct {
	intended int64
	end      int32  // of its bytes in signals
	digest   uint32 // of a result; of values or a run of a directive their weight
	check    int16  // index in the checkSet; -1 for a keepalive, see wrongCheck and signalCheck
	about    uint16 // of a result about a proxy node: its place among those, from 1
	late     uint16 // how much later than intended it was made, in hundredths of a second
	status   model.Status
}

// weight returns the number of values or components in a signal, or 1 for other signals.
func (s *sign) weight() int64 {
	if s.check == signalCheck {
		return int64(s.digest)
	}
	return 1
}

// weight returns the weight of some signals together.
func (f *frame) weight(from, to int) (n uint64) {
	for i := from; i < to; i++ {
		n += uint64(f.each[i].weight())
	}
	return n
}

func (f *frame) reset(first uint64, due int64) {
	*f = frame{first: first, due: due, signals: f.signals[:0], each: f.each[:0]}
}

// add appends a signal; r is its decoded result, empty for a keepalive.
func (f *frame) add(s *wire.Signal, r *wire.Result, intended int64, check int) {
	f.signals = wire.AppendSignal(f.signals, s)
	d := sign{intended: intended, end: int32(len(f.signals)), check: int16(check), status: r.Status}
	if check >= 0 {
		d.digest = digest(r.Status, r.Output)
	}
	f.each = append(f.each, d)
}

// last returns the number of the last signal.
func (f *frame) last() uint64 { return f.first + uint64(len(f.each)) - 1 }

// rest returns the signals that are not acknowledged.
func (f *frame) rest() []byte {
	if f.done > 0 {
		return f.signals[f.each[f.done-1].end:]
	}
	return f.signals
}

// appendBatch appends frames as one batch, without acknowledged signals, and leaves room for the WebSocket header.
func appendBatch(dst []byte, frames []*frame, stream wire.StreamID, nowMs uint64) []byte {
	size := 0
	for _, f := range frames {
		size += len(f.rest())
	}
	first := frames[0]
	dst = wire.AppendBatchHeader(dst[:wsconn.Headroom], wire.StreamKey{Stream: stream}, first.first+uint64(first.done), nowMs, size)
	for _, f := range frames {
		dst = append(dst, f.rest()...)
	}
	return dst
}
