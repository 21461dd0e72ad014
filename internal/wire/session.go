package wire

import "github.com/muster-fleet/muster/internal/model"

// The messages that open a session, or do not: Hello, Welcome, Refuse. Field numbers
// are those of docs/protocol/muster.proto.

// AppendHello writes a whole frame.
func AppendHello(dst []byte, h *Hello) []byte {
	dst, start := begin(dst, uint32(KindHello))
	dst = appendUint(dst, 1, uint64(h.Protocol))
	dst = appendBytes(dst, 2, h.Node[:])
	dst = appendString(dst, 3, h.Name)
	dst = appendString(dst, 4, h.MachineID)
	dst = appendString(dst, 5, h.BootID)
	dst = appendFixed64(dst, 6, h.Session)
	dst = appendString(dst, 7, h.Version)
	dst = appendString(dst, 8, h.OS)
	dst = appendString(dst, 9, h.Arch)
	dst = appendGeneration(dst, 10, h.Generation)
	dst = appendHash(dst, 11, &h.Assignment)
	dst = appendFixed64(dst, 12, h.Incarnation)
	for i := range h.Streams {
		s := &h.Streams[i]
		var in int
		dst, in = begin(dst, 13)
		dst = appendKey(dst, s.StreamKey)
		dst = appendUint(dst, 3, s.First)
		dst = appendUint(dst, 4, s.Last)
		dst = appendUint(dst, 5, s.OldestAgeMs)
		dst = end(dst, in)
	}
	dst = appendMap(dst, 14, h.Labels)
	dst = appendMap(dst, 15, h.Facts)
	for _, g := range h.Groups {
		dst = appendItem(dst, 16, g)
	}
	dst = appendUint(dst, 17, uint64(h.ClockUnixMs))
	dst = appendUint(dst, 18, h.Backlog)
	for _, r := range h.Refuses {
		dst = appendItem(dst, 19, r)
	}
	return end(dst, start)
}

// Decode fills h from the body of a frame.
func (h *Hello) Decode(body []byte) error {
	clear(h.Labels)
	clear(h.Facts)
	*h = Hello{Streams: h.Streams[:0], Groups: h.Groups[:0], Refuses: h.Refuses[:0], Labels: h.Labels, Facts: h.Facts}
	f := fields{message: "Hello", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			h.Protocol = f.uint32("protocol")
		case 2:
			f.fixed("node", h.Node[:])
		case 3:
			h.Name = f.string("name", maxName)
		case 4:
			h.MachineID = f.string("machine_id", maxName)
		case 5:
			h.BootID = f.string("boot_id", maxName)
		case 6:
			h.Session = f.fixed64("session")
		case 7:
			h.Version = f.string("version", maxName)
		case 8:
			h.OS = f.string("os", maxName)
		case 9:
			h.Arch = f.string("arch", maxName)
		case 10:
			h.Generation = f.generation("generation")
		case 11:
			f.fixed("assignment", h.Assignment[:])
		case 12:
			h.Incarnation = f.fixed64("incarnation")
		case 13:
			if f.room("streams", len(h.Streams), maxStreams) {
				h.Streams = append(h.Streams, f.held())
			}
		case 14:
			f.entry("labels", &h.Labels, maxPairs)
		case 15:
			f.entry("facts", &h.Facts, maxPairs)
		case 16:
			if f.room("groups", len(h.Groups), maxGroups) {
				h.Groups = append(h.Groups, f.string("groups", maxName))
			}
		case 17:
			h.ClockUnixMs = f.int64("clock_unix_ms")
		case 18:
			h.Backlog = f.uint64("backlog")
		case 19:
			if f.room("refuses", len(h.Refuses), maxRefuses) {
				h.Refuses = append(h.Refuses, f.string("refuses", maxName))
			}
		}
	}
	return f.err
}

func (f *fields) held() (s StreamHeld) {
	in := f.nested("streams", "StreamHeld")
	for in.next() {
		switch in.num {
		case 1, 2:
			in.key(&s.StreamKey)
		case 3:
			s.First = in.uint("first", maxNumber)
		case 4:
			s.Last = in.uint("last", maxNumber)
		case 5:
			s.OldestAgeMs = in.uint64("oldest_age_ms")
		}
	}
	f.done(&in)
	return s
}

// appendKey writes fields 1 and 2, where every message that names a stream has them.
func appendKey(dst []byte, k StreamKey) []byte {
	dst = appendFixed64(dst, 1, uint64(k.Stream))
	return appendUint(dst, 2, uint64(k.Lane))
}

func (f *fields) key(k *StreamKey) {
	if f.num == 1 {
		k.Stream = StreamID(f.fixed64("stream"))
	} else {
		k.Lane = Lane(f.uint("lane", uint64(Backlog)))
	}
}

func appendGeneration(dst []byte, field uint32, g Generation) []byte {
	if g == (Generation{}) {
		return dst
	}
	dst, start := begin(dst, field)
	dst = appendUint(dst, 1, g.Epoch)
	dst = appendUint(dst, 2, g.Revision)
	return end(dst, start)
}

func (f *fields) generation(name string) (g Generation) {
	in := f.nested(name, "Generation")
	for in.next() {
		switch in.num {
		case 1:
			g.Epoch = in.uint64("epoch")
		case 2:
			g.Revision = in.uint64("revision")
		}
	}
	f.done(&in)
	return g
}

func appendLast(dst []byte, field uint32, list []StreamLast) []byte {
	for _, l := range list {
		var in int
		dst, in = begin(dst, field)
		dst = appendKey(dst, l.StreamKey)
		dst = appendUint(dst, 3, l.Last)
		dst = end(dst, in)
	}
	return dst
}

func (f *fields) last(list []StreamLast) []StreamLast {
	if !f.room("last", len(list), maxStreams) {
		return list
	}
	var l StreamLast
	in := f.nested("last", "StreamLast")
	for in.next() {
		switch in.num {
		case 1, 2:
			in.key(&l.StreamKey)
		case 3:
			l.Last = in.uint("last", maxNumber)
		}
	}
	f.done(&in)
	return append(list, l)
}

// AppendWelcome writes a whole frame.
func AppendWelcome(dst []byte, w *Welcome) []byte {
	dst, start := begin(dst, uint32(KindWelcome))
	dst = appendUint(dst, 1, uint64(w.Protocol))
	dst = appendString(dst, 2, w.Name)
	dst = appendUint(dst, 3, uint64(w.Node))
	dst = appendUint(dst, 4, uint64(w.ServerUnixMs))
	dst = appendFixed64(dst, 5, w.Incarnation)
	dst = appendLast(dst, 6, w.Last)
	dst = appendUint(dst, 7, uint64(w.KeepaliveMs))
	dst = appendUint(dst, 8, uint64(w.MaxFrame))
	dst = appendUint(dst, 9, uint64(w.MaxUnacked))
	dst = appendUint(dst, 10, uint64(w.MaxOutput))
	dst = appendUint(dst, 11, uint64(w.ResultsPerSec))
	for _, s := range w.Servers {
		dst = appendItem(dst, 12, s)
	}
	dst = appendString(dst, 13, w.VersionWanted)
	dst = appendUint(dst, 14, uint64(w.Features))
	return end(dst, start)
}

// Decode fills w from the body of a frame.
func (w *Welcome) Decode(body []byte) error {
	*w = Welcome{Last: w.Last[:0], Servers: w.Servers[:0]}
	f := fields{message: "Welcome", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			w.Protocol = f.uint32("protocol")
		case 2:
			w.Name = f.string("name", maxName)
		case 3:
			w.Node = model.NodeID(f.uint32("node"))
		case 4:
			w.ServerUnixMs = f.int64("server_unix_ms")
		case 5:
			w.Incarnation = f.fixed64("incarnation")
		case 6:
			w.Last = f.last(w.Last)
		case 7:
			w.KeepaliveMs = f.uint32("keepalive_ms")
		case 8:
			w.MaxFrame = f.uint32("max_frame")
		case 9:
			w.MaxUnacked = f.uint32("max_unacked")
		case 10:
			w.MaxOutput = f.uint32("max_output")
		case 11:
			w.ResultsPerSec = f.uint32("results_per_sec")
		case 12:
			if f.room("servers", len(w.Servers), maxServers) {
				w.Servers = append(w.Servers, f.string("servers", maxText))
			}
		case 13:
			w.VersionWanted = f.string("version_wanted", maxName)
		case 14:
			w.Features = f.uint32("features")
		}
	}
	return f.err
}

// AppendRefuse writes a whole frame.
func AppendRefuse(dst []byte, r *Refuse) []byte {
	dst, start := begin(dst, uint32(KindRefuse))
	dst = appendString(dst, 1, r.Code)
	dst = appendString(dst, 2, r.Sentence)
	dst = appendUint(dst, 3, uint64(r.RetryMs))
	dst = appendString(dst, 4, r.Type)
	return end(dst, start)
}

// Decode fills r from the body of a frame.
func (r *Refuse) Decode(body []byte) error {
	*r = Refuse{}
	f := fields{message: "Refuse", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			r.Code = f.string("code", maxName)
		case 2:
			r.Sentence = f.string("sentence", maxText)
		case 3:
			r.RetryMs = f.uint32("retry_ms")
		case 4:
			r.Type = f.string("type", maxText)
		}
	}
	return f.err
}
