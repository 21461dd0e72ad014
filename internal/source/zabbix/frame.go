package zabbix

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zlib"

	"github.com/muster-fleet/muster/internal/model"
)

// Flags of a frame's header.
const (
	flagZabbix     = 1 // always set
	flagCompressed = 2 // the payload is compressed by zlib
	flagLarge      = 4 // both lengths have 8 bytes, not 4
)

// frameHeader is the header of a Zabbix message, with flags and lengths. It has "ZBXD", flags, and two lengths,
// little-endian.
type frameHeader struct {
	flags byte
	size  uint64 // bytes of the payload in the frame
	plain uint64 // bytes of a compressed payload after its decompression
}

// shortHeader and largeHeader are the numbers of bytes of a header.
const (
	shortHeader = 13
	largeHeader = 21
)

// parseHeader parses a frame header from its first bytes, and returns the header's full size, short or large.
// size is the number of bytes that the header has: the caller reads as many and parses again.
func parseHeader(b []byte) (h frameHeader, size int, err error) {
	if len(b) < shortHeader || string(b[:4]) != "ZBXD" {
		return h, 0, model.Errorf(model.Invalid, "the message does not begin with ZBXD: this address is for zabbix_sender and agents of Zabbix")
	}
	h.flags = b[4]
	if h.flags&flagZabbix == 0 || h.flags&^(flagZabbix|flagCompressed|flagLarge) != 0 {
		return h, 0, model.Errorf(model.Invalid, "the message has the unknown flags %#x", h.flags)
	}
	if h.flags&flagLarge == 0 {
		h.size, h.plain = uint64(binary.LittleEndian.Uint32(b[5:])), uint64(binary.LittleEndian.Uint32(b[9:]))
		return h, shortHeader, nil
	}
	if len(b) >= largeHeader {
		h.size, h.plain = binary.LittleEndian.Uint64(b[5:]), binary.LittleEndian.Uint64(b[13:])
	}
	return h, largeHeader, nil
}

// readHeader reads a frame's header, and refuses a payload longer than the limit `most`.
func readHeader(r io.Reader, most int) (h frameHeader, err error) {
	var b [largeHeader]byte
	if _, err = io.ReadFull(r, b[:shortHeader]); err != nil {
		return h, err
	}
	h, size, err := parseHeader(b[:shortHeader])
	if err != nil {
		return h, err
	}
	if size > shortHeader {
		if _, err = io.ReadFull(r, b[shortHeader:size]); err != nil {
			return h, err
		}
		h, _, err = parseHeader(b[:size])
	}
	if h.flags&flagCompressed == 0 {
		h.plain = 0 // reserved: nothing is decompressed
	}
	if err == nil && (max(h.size, h.plain) > uint64(most)) {
		err = model.Errorf(model.TooLarge, "the message has %d bytes, the limit is %d", max(h.size, h.plain), most)
	}
	return h, err
}

// readPayload reads and decompresses the payload after a header. The header has the length. It calls hold before it
// keeps more bytes.
func readPayload(r io.Reader, h frameHeader, hold func(n int) error) ([]byte, error) {
	var payload bytes.Buffer // it grows with the bytes that arrive, not by the claim of the header
	if _, err := io.CopyN(&payload, limitedReader{r, hold}, int64(h.size)); err != nil {
		return nil, err
	}
	if h.flags&flagCompressed == 0 {
		return payload.Bytes(), nil
	}
	if err := hold(int(h.plain)); err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(&payload)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "cannot decompress the message: %w", err)
	}
	var plain bytes.Buffer
	n, err := io.Copy(&plain, io.LimitReader(z, int64(h.plain)+1))
	if err != nil {
		return nil, model.Errorf(model.Invalid, "cannot decompress the message: %w", err)
	}
	if uint64(n) != h.plain {
		return nil, model.Errorf(model.Invalid, "the decompressed message does not have the %d bytes that its header states", h.plain)
	}
	return plain.Bytes(), nil
}

// appendFrame appends a frame with a payload to dst. The frame has the flags of its request.
func appendFrame(dst []byte, flags byte, payload []byte) []byte {
	plain := 0
	if flags&flagCompressed != 0 {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		_, _ = z.Write(payload) // a buffer takes all
		_ = z.Close()
		plain, payload = len(payload), b.Bytes()
	}
	dst = append(append(dst, "ZBXD"...), flags)
	if flags&flagLarge != 0 {
		dst = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(len(payload))), uint64(plain))
	} else {
		dst = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(dst, uint32(len(payload))), uint32(plain))
	}
	return append(dst, payload...)
}
