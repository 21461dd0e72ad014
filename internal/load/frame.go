package load

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// frame is a batch of consecutive signals, encoded once: each sending copies it behind a new header.
type frame struct {
	first   uint64 // number of the first signal
	due     int64  // when it should leave, ns since the beginning
	done    int    // signals acknowledged
	class   int    // of the agent
	signals []byte
	each    []sign
}

// sign holds the data of one signal that the ledger needs until it is acknowledged.
type sign struct {
	intended int64
	end      int32  // of its bytes in signals
	digest   uint32 // of a result
	check    int16  // index in the checkSet; -1 for a keepalive
	about    uint16 // of a result about a proxy node: its place among those, from 1
	late     uint16 // how much later than intended it was made, in hundredths of a second
	status   model.Status
}

// reset empties the frame for other signals.
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

// appendTo appends the frame to dst, without the signals that are acknowledged, and leaves room for the WebSocket
// header.
func (f *frame) appendTo(dst []byte, stream wire.StreamID, nowMs uint64) []byte {
	rest := f.signals
	if f.done > 0 {
		rest = rest[f.each[f.done-1].end:]
	}
	dst = wire.AppendBatchHeader(dst[:wsconn.Headroom], wire.StreamKey{Stream: stream}, f.first+uint64(f.done), nowMs, len(rest))
	return append(dst, rest...)
}
