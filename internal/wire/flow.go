package wire

import "github.com/muster-fleet/muster/internal/model"

// The messages that acknowledge, steer, pace and end a session: Ack, Run, Slow, Bye.
// Field numbers are those of docs/protocol/muster.proto.

// AppendAck writes a whole frame.
func AppendAck(dst []byte, a *Ack) []byte {
	dst, start := begin(dst, uint32(KindAck))
	dst = appendLast(dst, 1, a.Last)
	for i := range a.Refused {
		r := &a.Refused[i]
		var in int
		dst, in = begin(dst, 2)
		dst = appendKey(dst, r.StreamKey)
		dst = appendUint(dst, 3, r.Number)
		dst = appendString(dst, 4, r.Code)
		dst = appendString(dst, 5, r.Reason)
		dst = end(dst, in)
	}
	return end(dst, start)
}

// Decode fills a from the body of a frame.
func (a *Ack) Decode(body []byte) error {
	*a = Ack{Last: a.Last[:0], Refused: a.Refused[:0]}
	f := fields{message: "Ack", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			a.Last = f.last(a.Last)
		case 2:
			if f.room("refused", len(a.Refused), MaxSignals) {
				a.Refused = append(a.Refused, f.refused())
			}
		}
	}
	return f.err
}

func (f *fields) refused() (r Refused) {
	in := f.nested("refused", "Refused")
	for in.next() {
		switch in.num {
		case 1, 2:
			in.key(&r.StreamKey)
		case 3:
			r.Number = in.uint("number", maxNumber)
		case 4:
			r.Code = in.string("code", maxName)
		case 5:
			r.Reason = in.string("reason", maxText)
		}
	}
	f.done(&in)
	return r
}

// AppendRun writes a whole frame.
func AppendRun(dst []byte, r *Run) []byte {
	dst, start := begin(dst, uint32(KindRun))
	dst = appendUint(dst, 1, uint64(r.Chunk))
	dst = appendFixed64(dst, 2, r.ID)
	dst = appendCommand(dst, 3, r.Command)
	dst = appendUint(dst, 4, uint64(r.TimeoutMs))
	dst = appendUint(dst, 5, uint64(r.MaxOutput))
	dst = appendBool(dst, 6, r.Cancel)
	return end(dst, start)
}

// Decode fills r from the body of a frame.
func (r *Run) Decode(body []byte) error {
	*r = Run{}
	f := fields{message: "Run", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			r.Chunk = model.ChunkID(f.uint32("chunk"))
		case 2:
			r.ID = f.fixed64("id")
		case 3:
			r.Command = f.command()
		case 4:
			r.TimeoutMs = f.uint32("timeout_ms")
		case 5:
			r.MaxOutput = f.uint32("max_output")
		case 6:
			r.Cancel = f.bool("cancel")
		}
	}
	return f.err
}

// AppendSlow writes a whole frame.
func AppendSlow(dst []byte, s *Slow) []byte {
	dst, start := begin(dst, uint32(KindSlow))
	dst = appendUint(dst, 1, uint64(s.LingerMs))
	dst = appendString(dst, 2, s.Reason)
	dst = appendUint(dst, 3, uint64(s.LastsMs))
	return end(dst, start)
}

// Decode fills s from the body of a frame.
func (s *Slow) Decode(body []byte) error {
	*s = Slow{}
	f := fields{message: "Slow", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			s.LingerMs = f.uint32("linger_ms")
		case 2:
			s.Reason = f.string("reason", maxText)
		case 3:
			s.LastsMs = f.uint32("lasts_ms")
		}
	}
	return f.err
}

// AppendBye writes a whole frame.
func AppendBye(dst []byte, b *Bye) []byte {
	dst, start := begin(dst, uint32(KindBye))
	dst = appendString(dst, 1, b.Reason)
	dst = appendUint(dst, 2, uint64(b.RetryMs))
	return end(dst, start)
}

// Decode fills b from the body of a frame.
func (b *Bye) Decode(body []byte) error {
	*b = Bye{}
	f := fields{message: "Bye", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			b.Reason = f.string("reason", maxText)
		case 2:
			b.RetryMs = f.uint32("retry_ms")
		}
	}
	return f.err
}
