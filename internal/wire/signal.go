package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// SignalKind is the field number of a kind inside Signal: 10 to 31. A kind that this
// program has no name for decodes like any other, so that its receiver refuses it by its number.
type SignalKind uint8

// Kinds of signals. The type of Body is named beside each; docs/protocol/muster.proto has all.
const (
	SignalResult     SignalKind = 10 // Result
	SignalKeepalive  SignalKind = 11 // empty
	SignalValueBlock SignalKind = 12 // ValueBlock
	SignalReport     SignalKind = 13 // Report
	SignalInventory  SignalKind = 14 // Inventory

	firstSignalKind SignalKind = 10
	lastSignalKind  SignalKind = 31
)

func (k SignalKind) String() string {
	switch k {
	case SignalResult:
		return "result"
	case SignalKeepalive:
		return "keepalive"
	case SignalValueBlock:
		return "value block"
	case SignalReport:
		return "report"
	case SignalInventory:
		return "inventory"
	}
	return fmt.Sprintf("signal kind %d", uint8(k))
}

// Signal is the envelope of one message that an agent numbers and keeps until the server has
// it. The server's door reads the envelope alone; reducers decode Body by Kind. Decoded, Body
// aliases the input.
type Signal struct {
	Kind  SignalKind
	Chunk model.ChunkID // definition that the signal comes from; zero: the agent itself
	Node  model.NodeID  // proxy node that the signal is about; zero: the node that sends it
	AtMs  uint64        // end of the run, on the sender's clock (see Batch.NowMs)
	Body  []byte        // encoded message of Kind
}

// Ready tags of the hot path.
const (
	tagAt        = 1<<3 | typeVarint
	tagChunk     = 2<<3 | typeVarint
	tagNode      = 3<<3 | typeVarint
	tagFirstKind = byte(firstSignalKind)<<3 | typeBytes
)

// AppendSignal writes s as a field of a Batch.
func AppendSignal(dst []byte, s *Signal) []byte {
	size := sizeUint(s.AtMs) + sizeUint(uint64(s.Chunk)) + sizeUint(uint64(s.Node)) +
		sizeVarint(uint64(s.Kind)<<3) + sizeVarint(uint64(len(s.Body))) + len(s.Body)
	dst = binary.AppendUvarint(append(dst, tagSignal), uint64(size))
	return AppendSignalMessage(dst, s)
}

// AppendSignalMessage writes s as ProxyResult.Signal has it: without its tag and length in a batch.
func AppendSignalMessage(dst []byte, s *Signal) []byte {
	if s.AtMs != 0 {
		dst = binary.AppendUvarint(append(dst, tagAt), s.AtMs)
	}
	if s.Chunk != 0 {
		dst = binary.AppendUvarint(append(dst, tagChunk), uint64(s.Chunk))
	}
	if s.Node != 0 {
		dst = binary.AppendUvarint(append(dst, tagNode), uint64(s.Node))
	}
	return appendBytesItem(dst, uint32(s.Kind), s.Body)
}

// Decode reads one encoded signal, which Body aliases.
func (s *Signal) Decode(data []byte) error {
	*s = Signal{}
	if s.decodeOrdered(data) {
		return nil
	}
	return s.decodeFields(data)
}

func (s *Signal) decodeFields(data []byte) error {
	*s = Signal{}
	f := fields{message: "Signal", rest: data}
	for f.next() {
		switch {
		case f.num == 1:
			s.AtMs = f.uint64("at_ms")
		case f.num == 2:
			s.Chunk = model.ChunkID(f.uint32("chunk"))
		case f.num == 3:
			s.Node = model.NodeID(f.uint32("node"))
		case f.num >= uint64(firstSignalKind) && f.num <= uint64(lastSignalKind):
			if s.Kind != 0 {
				f.fail("kind", "more than one")
			}
			s.Kind, s.Body = SignalKind(f.num), f.raw("kind", MaxFrame)
		}
	}
	if f.err == nil && s.Kind == 0 {
		f.fail("kind", "none")
	}
	return f.err
}

// decodeOrdered reads a signal whose fields stand in ascending order and end with its kind, as
// AppendSignal writes it: the hot path. False sends everything else, also malformed bytes, to
// the general way, which names the fault.
func (s *Signal) decodeOrdered(data []byte) bool {
	i := 0
	if i < len(data) && data[i] == tagAt {
		if s.AtMs, i = uvarintLong(data, 1); i < 0 {
			return false
		}
	}
	if i < len(data) && data[i] == tagChunk {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.Chunk = model.ChunkID(v)
	}
	if i < len(data) && data[i] == tagNode {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.Node = model.NodeID(v)
	}
	if i+2 > len(data) || data[i] < tagFirstKind || data[i] >= 0x80 || data[i]&7 != typeBytes {
		return false
	}
	s.Kind = SignalKind(data[i] >> 3)
	i++
	size := uint64(data[i])
	i++
	if size >= 0x80 {
		if i < len(data) && data[i] < 0x80 { // most results
			size = size&0x7f | uint64(data[i])<<7
			i++
		} else if size, i = uvarintLong(data, i-1); i < 0 {
			return false
		}
	}
	if size != uint64(len(data)-i) {
		return false
	}
	if size > 0 {
		s.Body = data[i:len(data):len(data)]
	}
	return true
}
