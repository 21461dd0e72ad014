package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// The bytes of a log, little-endian: a segment file is a segment header and commits, one after the
// other. Written bytes never change. docs/journal-format.md describes the same format; testdata has
// golden bytes.

// version is the version of the format of segments and commits.
const version = 1

const (
	segmentHeaderSize = 64
	commitHeaderSize  = 64

	segmentMagic = uint64('M') | 'U'<<8 | 'S'<<16 | 'T'<<24 | 'E'<<32 | 'R'<<40 | 'J'<<48 | version<<56
	commitMagic  = uint32('M') | 'J'<<8 | 'C'<<16 | version<<24

	// maxBody bounds the memory that a header can make a reader allocate.
	maxBody = 2*MaxAppend + 64<<10
	maxRaw  = 2 * MaxAppend
)

// flags of a commit.
const (
	// flagLost marks a commit that Repair put in place of damaged ones. Its body has the number of the
	// first lost one and the chain value of the next commit.
	flagLost = 1 << 0
	// flagsKnown are the flags that this version understands.
	flagsKnown = flagLost
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkpoint has the number, CRC and times of the last journal commit, which the next commit's header
// continues.
type checkpoint struct {
	number    uint64
	chain     uint32 // CRC of that commit
	received  int64
	listening time.Duration
}

// segmentHeader is the header of a segment file. It has the number, CRC and times of the commit before the segment's
// first one.
//
//	 0 u64 magic with version
//	 8 u32 CRC32C of bytes 0 … 8 and 12 … 64
//	12 u32 chain: the CRC of the commit before
//	16 u64 incarnation at the file's creation
//	24 u64 epoch of it
//	32 u64 number of the first commit
//	40 i64 receive time of the commit before
//	48 i64 listening time of the commit before
//	56 u64 zero
type segmentHeader struct {
	incarnation Incarnation
	before      checkpoint
}

// append encodes the header of a segment.
func (h segmentHeader) append(dst []byte) []byte {
	at := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, segmentMagic)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, h.before.chain)
	dst = le.AppendUint64(dst, h.incarnation.ID)
	dst = le.AppendUint64(dst, h.incarnation.Epoch)
	dst = le.AppendUint64(dst, h.before.number+1)
	dst = le.AppendUint64(dst, uint64(h.before.received))
	dst = le.AppendUint64(dst, uint64(h.before.listening))
	dst = le.AppendUint64(dst, 0)
	le.PutUint32(dst[at+8:], segmentHeaderCRC(dst[at:]))
	return dst
}

// segmentHeaderCRC returns the CRC of a segment header. The header's own CRC field is left out.
func segmentHeaderCRC(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, b[12:segmentHeaderSize])
}

// commitHeaderCRC returns the CRC of a commit header. The header's two CRC fields are left out.
func commitHeaderCRC(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[12:commitHeaderSize])
}

// Reasons why the bytes of a segment are not a valid commit.
var (
	errTruncatedCommit  = errors.New("the file ends in the middle of the commit")
	errMissingCommits   = errors.New("commits are missing at the end of the segment")
	errDamagedHeader    = errors.New("the header is damaged")
	errWrongChecksum    = errors.New("the checksum does not match")
	errWrongPredecessor = errors.New("the commit does not continue its predecessor")
	errInvalidContent   = errors.New("the checksum matches but the content is invalid: a faulty version of Muster wrote the commit")
	errNewerVersion     = errors.New("written by a newer version of Muster")
)

// parseSegmentHeader decodes and verifies the header of a segment.
func parseSegmentHeader(b []byte) (h segmentHeader, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < segmentHeaderSize:
		return h, errTruncatedCommit
	case le.Uint64(b)&^(0xff<<56) != segmentMagic&^(0xff<<56):
		return h, errDamagedHeader
	case segmentHeaderCRC(b) != le.Uint32(b[8:]):
		return h, errDamagedHeader
	case b[7] > version:
		return h, errNewerVersion
	case b[7] != version || le.Uint64(b[24:]) > 1<<62 || le.Uint64(b[32:]) == 0:
		return h, errDamagedHeader
	}
	h.before.chain = le.Uint32(b[12:])
	h.incarnation.ID = le.Uint64(b[16:])
	h.incarnation.Epoch = le.Uint64(b[24:])
	h.before.number = le.Uint64(b[32:]) - 1
	h.before.received = int64(le.Uint64(b[40:]))
	h.before.listening = time.Duration(le.Uint64(b[48:]))
	return h, nil
}

// commitHeader is the fixed-length header of a commit.
//
//	 0 u32 magic with version
//	 4 u32 CRC32C of bytes 0 … 4, 12 … 64 and of the body; the next commit's chain
//	 8 u32 CRC32C of bytes 0 … 4 and 12 … 64, so that a length is believed before it is used
//	12 u32 chain: the CRC of the commit before
//	16 u64 incarnation
//	24 u64 number
//	32 i64 receive time, Unix nanoseconds
//	40 i64 listening time, nanoseconds
//	48 u32 length of the body: section table and compressed entries
//	52 u32 length of the entries before compression
//	56 u32 number of entries
//	60 u16 number of sections
//	62 u16 flags
type commitHeader struct {
	crc         uint32
	chain       uint32
	incarnation uint64
	number      uint64
	received    int64
	listening   time.Duration
	body        uint32
	raw         uint32
	entries     uint32
	sections    uint16
	flags       uint16
}

// encodeHeader encodes the commit's header, with lengths and checksums, at the start of b. b is a whole commit.
func (h *commitHeader) encodeHeader(b []byte) {
	le := binary.LittleEndian
	h.body = uint32(len(b) - commitHeaderSize)
	le.PutUint32(b, commitMagic)
	le.PutUint32(b[12:], h.chain)
	le.PutUint64(b[16:], h.incarnation)
	le.PutUint64(b[24:], h.number)
	le.PutUint64(b[32:], uint64(h.received))
	le.PutUint64(b[40:], uint64(h.listening))
	le.PutUint32(b[48:], h.body)
	le.PutUint32(b[52:], h.raw)
	le.PutUint32(b[56:], h.entries)
	le.PutUint16(b[60:], h.sections)
	le.PutUint16(b[62:], h.flags)
	own := commitHeaderCRC(b)
	h.crc = crc32.Update(own, castagnoli, b[commitHeaderSize:])
	le.PutUint32(b[8:], own)
	le.PutUint32(b[4:], h.crc)
}

// parseHeader decodes the header of a commit and verifies the header's own checksum.
func parseHeader(b []byte) (h commitHeader, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < commitHeaderSize:
		return h, errTruncatedCommit
	case le.Uint32(b)&^(0xff<<24) != commitMagic&^(0xff<<24):
		return h, errDamagedHeader
	case commitHeaderCRC(b) != le.Uint32(b[8:]):
		return h, errDamagedHeader
	}
	h = commitHeader{
		crc:         le.Uint32(b[4:]),
		chain:       le.Uint32(b[12:]),
		incarnation: le.Uint64(b[16:]),
		number:      le.Uint64(b[24:]),
		received:    int64(le.Uint64(b[32:])),
		listening:   time.Duration(le.Uint64(b[40:])),
		body:        le.Uint32(b[48:]),
		raw:         le.Uint32(b[52:]),
		entries:     le.Uint32(b[56:]),
		sections:    le.Uint16(b[60:]),
		flags:       le.Uint16(b[62:]),
	}
	switch {
	case b[3] > version || h.flags&^flagsKnown != 0:
		return h, errNewerVersion
	case b[3] != version:
		return h, errDamagedHeader
	case h.body > maxBody || h.raw > maxRaw || h.sections > uint16(All)+1:
		return h, errInvalidContent
	}
	return h, nil
}

// hasValidChecksum reports whether the commit's checksum is right for its header and content
func (h *commitHeader) hasValidChecksum(headerBytes, body []byte) bool {
	own := binary.LittleEndian.Uint32(headerBytes[8:])
	return crc32.Update(own, castagnoli, body) == h.crc
}

// replacedRange returns the first commit number that a repair commit replaces, and the CRC for the next commit.
// They differ from number and crc only in a commit that Repair wrote in place of lost commits.
func (h *commitHeader) replacedRange(body []byte) (firstNumberAndChain uint64, next uint32, err error) {
	if h.flags&flagLost == 0 {
		return h.number, h.crc, nil
	}
	if len(body) != lostBodySize || h.entries != 0 || h.sections != 0 || h.raw != 0 {
		return 0, 0, errInvalidContent
	}
	le := binary.LittleEndian
	return le.Uint64(body), le.Uint32(body[8:]), nil
}

const lostBodySize = 12

// sectionSpan is the byte range of one partition's entries in an uncompressed commit. A commit's section table
// has one such row per partition.
type sectionSpan struct {
	section    Section
	count      uint32
	start, end uint32 // in the raw entries
}

// appendSectionTable encodes the byte range of each partition's entries in a commit. A row has the section (as the
// difference to the section of the row before), the number of entries and their raw length.
func appendSectionTable(dst []byte, spans []sectionSpan) []byte {
	before := uint64(0)
	for _, s := range spans {
		dst = binary.AppendUvarint(dst, uint64(s.section)-before)
		dst = binary.AppendUvarint(dst, uint64(s.count))
		dst = binary.AppendUvarint(dst, uint64(s.end-s.start))
		before = uint64(s.section)
	}
	return dst
}

// parseSectionTable decodes the section table at the start of a commit's content. It also returns the bytes after the
// table.
func parseSectionTable(spans []sectionSpan, h *commitHeader, body []byte) ([]sectionSpan, []byte, error) {
	section, start, count := uint64(0), uint64(0), uint64(0)
	for i := range int(h.sections) {
		var row [3]uint64
		for k := range row {
			value, n := binary.Uvarint(body)
			if n <= 0 || value > maxRaw {
				return spans, nil, errInvalidContent
			}
			row[k], body = value, body[n:]
		}
		section += row[0]
		if section > uint64(All) || i > 0 && row[0] == 0 || row[1] == 0 {
			return spans, nil, errInvalidContent
		}
		count += row[1]
		end := start + row[2]
		if end > uint64(h.raw) || row[2] < row[1] {
			return spans, nil, errInvalidContent
		}
		spans = append(spans, sectionSpan{
			section: Section(section), count: uint32(row[1]),
			start: uint32(start), end: uint32(end),
		})
		start = end
	}
	if start != uint64(h.raw) || count != uint64(h.entries) {
		return spans, nil, errInvalidContent
	}
	return spans, body, nil
}

// forEachEntry calls fn for each entry in the bytes of one section (partition) of a commit. An entry is its length and
// as many bytes.
func forEachEntry(raw []byte, count uint32, fn func([]byte) error) error {
	for range count {
		size, n := binary.Uvarint(raw)
		if n <= 0 || size > uint64(len(raw)-n) {
			return errInvalidContent
		}
		if err := fn(raw[n : n+int(size) : n+int(size)]); err != nil {
			return err
		}
		raw = raw[n+int(size):]
	}
	if len(raw) != 0 {
		return errInvalidContent
	}
	return nil
}

// uvarintLen returns the number of bytes of n encoded as a varint
func uvarintLen(n int) int {
	size := 1
	for n >= 0x80 {
		n >>= 7
		size++
	}
	return size
}
