package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// The bytes of a file, little-endian: the version as a line of text, blocks of signals, one
// block that is the head, and a trailer that says where the head is. A block is a header and
// its content, one s2 block.
//
//	 0 u32 length of the content, compressed
//	 4 u32 length of the content
//	 8 u32 number of signals; zero: it is the head
//	12 u32 CRC32C of bytes 0 … 12 and of the compressed content
const blockHeaderSize = 16

// The trailer: u64 offset of the head's block, u32 CRC32C of those eight bytes, "END\n".
const trailerSize = 16

const (
	magic    = Version + "\n"
	trailing = "END\n"

	blockSignals = 4096
	maxSignal    = 4*5 + 1  // bytes of one
	maxHead      = 64 << 20 // bytes of a head: a million checks have twenty
	maxCount     = 1<<31 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of a block.
func sumOf(header, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(header[:12], castagnoli), castagnoli, content)
}

// appendSignal appends a signal; at is the time of the signal before.
func appendSignal(dst []byte, at uint32, s *Signal) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.At-at))
	dst = binary.AppendUvarint(dst, uint64(s.Node))
	dst = binary.AppendUvarint(dst, uint64(s.Check))
	said := uint64(s.Output)<<3 | uint64(s.Status)&3
	if s.Late {
		said |= 4
	}
	return binary.AppendUvarint(dst, said)
}

var errMalformed = errors.New("its checksum is right but its content is not: written by a faulty version")

// decodeSignal decodes a signal after one at a time.
func decodeSignal(data []byte, at uint32, s *Signal) ([]byte, error) {
	var v [4]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(data); n <= 0 {
			return nil, errMalformed
		}
		data = data[n:]
	}
	if v[0] > uint64(^uint32(0)-at) || v[1] > maxCount || v[2] > maxCount || v[3]>>3 > model.MaxOutputBytes {
		return nil, errMalformed
	}
	*s = Signal{At: at + uint32(v[0]), Node: uint32(v[1]), Check: uint32(v[2]), Output: uint32(v[3] >> 3), Status: model.Status(v[3] & 3), Late: v[3]&4 != 0}
	return data, nil
}

// appendHead appends the head, as uvarints.
func appendHead(dst []byte, h *Head) []byte {
	for _, v := range []uint64{uint64(max(0, h.Began.Unix())), uint64(h.Length.Milliseconds()), uint64(h.Nodes), uint64(h.States), uint64(h.Most),
		uint64(h.Longest), h.Bytes, h.Signals, h.Late, uint64(len(h.Checks))} {
		dst = binary.AppendUvarint(dst, v)
	}
	for i := range h.Checks {
		c := &h.Checks[i]
		for _, v := range [...]uint64{uint64(c.Interval.Milliseconds()), uint64(c.Nodes), c.Signals} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

// decodeHead decodes the head.
func decodeHead(data []byte) (*Head, error) {
	next := func(most uint64) (v uint64, err error) {
		v, n := binary.Uvarint(data)
		if n <= 0 || v > most {
			return 0, errMalformed
		}
		data = data[n:]
		return v, nil
	}
	const millis = uint64(MaxLength / time.Millisecond)
	var v [10]uint64
	for i, most := range [10]uint64{1 << 40, millis, maxCount, maxCount, maxCount, model.MaxOutputBytes, 1 << 62, 1 << 48, 1 << 48, maxCount} {
		var err error
		if v[i], err = next(most); err != nil {
			return nil, err
		}
	}
	h := &Head{Began: time.Unix(int64(v[0]), 0).UTC(), Length: time.Duration(v[1]) * time.Millisecond, Nodes: int(v[2]), States: int(v[3]), Most: int(v[4]),
		Longest: int(v[5]), Bytes: v[6], Signals: v[7], Late: v[8]}
	if v[9] > uint64(len(data)) {
		return nil, errMalformed
	}
	h.Checks = make([]Check, v[9])
	for i := range h.Checks {
		interval, err := next(millis)
		nodes, err2 := next(v[2])
		signals, err3 := next(v[7])
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, errMalformed
		}
		h.Checks[i] = Check{Interval: time.Duration(interval) * time.Millisecond, Nodes: int(nodes), Signals: signals}
	}
	if len(data) > 0 || h.Signals == 0 || h.Length == 0 || h.Nodes == 0 || len(h.Checks) == 0 || h.Most == 0 || h.Most > len(h.Checks) || h.States < max(h.Nodes, len(h.Checks)) {
		return nil, errMalformed
	}
	return h, nil
}

// damaged returns an Invalid error about the byte at an offset.
func damaged(offset int64, why error) error {
	return model.Errorf(model.Invalid, "the stream is damaged at offset %d: %w", offset, why).WithHint("copy it again, or record it again: muster load record --help")
}

var (
	errShort    = errors.New("the file ends inside it")
	errChecksum = errors.New("its checksum does not match")
	errOrder    = errors.New("the signals are not those that its head counts")
)

// notStream returns the error of a file that does not begin as a stream.
func notStream(first []byte) error {
	var version int
	if n, _ := fmt.Sscanf(string(first), "muster.stream/%d", &version); n == 1 && version > 1 {
		return model.Errorf(model.Invalid, "written as muster.stream/%d, this version of Muster reads %s", version, Version).WithHint("record it again with this version, or use the later one")
	}
	return model.Errorf(model.Invalid, "this is no recorded stream: it does not begin with %s", Version).WithHint("muster load record -o FILE makes one")
}
