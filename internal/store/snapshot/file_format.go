package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// FormatVersion is the version of the file format. The body inside has its own version.
const FormatVersion = 1

// The file, little-endian:
//
//	 0 8 bytes "MUSTSNAP"
//	 8 u16 format version
//	10 u16 partition
//	12 u64 incarnation of the journal
//	20 u64 number of the commit it reflects
//	28 u64 intent revision
//	36 i64 receive time of the journal, Unix nanoseconds
//	44 i64 listening time of the journal, nanoseconds
//	52 u32 CRC-32C of bytes 0…52 and of everything from 56 on
//	56 the body, one s2 block
const (
	magic          = "MUSTSNAP"
	checksumOffset = 52
	headerSize     = 56
)

// MaxBody limits the size of a decompressed body in bytes. A damaged length must not exhaust the memory.
const MaxBody = 4 << 30

// Snapshot is the saved state of one partition (a share of the nodes), as of a journal position. Only the event view
// reads Body.
type Snapshot struct {
	Partition model.Partition
	At        journal.Position
	Revision  int64 // revision of the intent at that position, for people
	// Times are the journal's times when the snapshot was made, at that position or a little later: a journal whose
	// end is lost continues from them.
	Times journal.Times
	Body  []byte
}

// ErrDamaged reports that a snapshot file does not have the bytes that were written.
var ErrDamaged = errors.New("snapshot is damaged")

// checksum returns the CRC-32C of a snapshot file, except the bytes of the checksum.
func checksum(data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, table, data[:checksumOffset]), table, data[headerSize:])
}

// Append encodes a snapshot as the content of a snapshot file, and appends the bytes to dst.
func Append(dst []byte, s *Snapshot) []byte {
	need := headerSize + s2.MaxEncodedLen(len(s.Body))
	if cap(dst) < need {
		dst = make([]byte, need)
	}
	dst = dst[:need]
	copy(dst, magic)
	le := binary.LittleEndian
	le.PutUint16(dst[8:], FormatVersion)
	le.PutUint16(dst[10:], uint16(s.Partition))
	le.PutUint64(dst[12:], s.At.Log)
	le.PutUint64(dst[20:], s.At.Number)
	le.PutUint64(dst[28:], uint64(s.Revision))
	le.PutUint64(dst[36:], uint64(s.Times.Received))
	le.PutUint64(dst[44:], uint64(s.Times.Listening))
	dst = dst[:headerSize+len(s2.Encode(dst[headerSize:], s.Body))]
	le.PutUint32(dst[checksumOffset:], checksum(dst))
	return dst
}

// Parse decodes the content of a snapshot file. The body is a copy.
func Parse(data []byte) (s Snapshot, err error) {
	le := binary.LittleEndian
	switch {
	case len(data) < headerSize:
		return s, fmt.Errorf("%w: the file's %d bytes are fewer than a snapshot header has", ErrDamaged, len(data))
	case string(data[:8]) != magic:
		return s, fmt.Errorf("%w: the file does not begin with %s", ErrDamaged, magic)
	}
	if v := le.Uint16(data[8:]); v > FormatVersion {
		return s, fmt.Errorf("snapshot has format version %d, this program reads %d", v, FormatVersion)
	}
	if want, have := le.Uint32(data[checksumOffset:]), checksum(data); want != have {
		return s, fmt.Errorf("%w: the checksum is %08x, expected %08x", ErrDamaged, have, want)
	}
	if p := le.Uint16(data[10:]); p < model.Partitions {
		s.Partition = model.Partition(p)
	} else {
		return s, fmt.Errorf("%w: the header has the invalid partition number %d", ErrDamaged, p)
	}
	s.At = journal.Position{Log: le.Uint64(data[12:]), Number: le.Uint64(data[20:])}
	s.Revision = int64(le.Uint64(data[28:]))
	s.Times = journal.Times{Received: int64(le.Uint64(data[36:])), Listening: time.Duration(le.Uint64(data[44:]))}
	size, err := s2.DecodedLen(data[headerSize:])
	if err != nil || int64(size) > MaxBody {
		return s, fmt.Errorf("%w: the length of the compressed body is invalid", ErrDamaged)
	}
	if s.Body, err = s2.Decode(nil, data[headerSize:]); err != nil {
		return s, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return s, nil
}

const (
	snapshotSuffix   = ".snap"
	unfinishedSuffix = ".new"
	aheadSuffix      = ".ahead"
)

// fileName returns the name of a snapshot file, made of partition and journal position.
func fileName(p model.Partition, at journal.Position) string {
	return fmt.Sprintf("p%03d-%016x-%020d%s", p, at.Log, at.Number, snapshotSuffix)
}

// parseName reads the partition and the journal position from the name of a snapshot file.
func parseName(name string) (p model.Partition, at journal.Position, ok bool) {
	n, err := fmt.Sscanf(name, "p%03d-%016x-%020d"+snapshotSuffix, &p, &at.Log, &at.Number)
	return p, at, n == 3 && err == nil && name == fileName(p, at)
}

// NewestTimes returns the latest clock times in a folder's undamaged snapshots. A journal with a lost end continues
// from these times.
func NewestTimes(fsys disk.FS, dir string) (newest journal.Times, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return newest, nil
	}
	for _, name := range names {
		if _, _, ok := parseName(name); !ok {
			continue
		}
		data, err := disk.ReadFile(fsys, filepath.Join(dir, name))
		if err != nil {
			return newest, fmt.Errorf("read the clock times in a snapshot: %w", err)
		}
		if s, err := Parse(data); err == nil {
			newest = journal.Times{Received: max(newest.Received, s.Times.Received), Listening: max(newest.Listening, s.Times.Listening)}
		}
	}
	return newest, err
}

// FolderSummary has the journal positions of all snapshots in a folder, read from the file names. They are read before
// the journal is opened. It reads no file content, because that needs the journal.
type FolderSummary struct {
	// Positions has the highest position of each incarnation of the journal.
	Positions []journal.Position
	// Oldest is the lowest position of all, once every partition has Keep snapshots, else
	// zero. Commits before it are needed only where snapshots turn out damaged.
	Oldest journal.Position
}

// ReadNames reads the snapshot positions from the file names of a folder. A missing folder counts as empty.
func ReadNames(fsys disk.FS, dir string) (n FolderSummary, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("list snapshots: %w", err)
	}
	furthest := map[uint64]uint64{}
	var files [model.Partitions]int
	for _, name := range names {
		p, at, ok := parseName(name)
		if !ok {
			continue
		}
		furthest[at.Log] = max(furthest[at.Log], at.Number)
		files[p]++
		if n.Oldest.Number == 0 || at.Number < n.Oldest.Number {
			n.Oldest = at
		}
	}
	for log, number := range furthest {
		n.Positions = append(n.Positions, journal.Position{Log: log, Number: number})
	}
	for _, count := range files {
		if count < Keep {
			n.Oldest = journal.Position{}
		}
	}
	return n, nil
}
