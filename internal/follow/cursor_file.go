package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
)

// The file of cursors holds the position of each follower. It is replaced as a whole, so that a crash leaves the old or
// the new one. Little-endian:
//
//	 0 8 bytes "MUSTCURS"
//	 8 u16 format version
//	10 u16 zero
//	12 u32 CRC-32C of everything from 16 on
//	16 for each cursor: namespace, name, address (each a varint length and bytes),
//	   u64 incarnation of the journal, u64 number of the commit, u64 results skipped
const (
	cursorMagic   = "MUSTCURS"
	cursorVersion = 1
	cursorHeader  = 16
	cursorFile    = "cursors"
)

// cursor is the saved journal position up to which one stream handler has received all check results.
type cursor struct {
	Namespace, Name string // of the handler
	Address         string // address of the handler; a handler with another address does not use this cursor
	At              journal.Position
	Skipped         uint64 // results that the handler never got, because it was too far behind
}

// errDamagedCursors reports that the file of cursors has other bytes than were written.
var errDamagedCursors = errors.New("file of cursors is damaged")

// loadCursors reads the file with the journal positions up to which handlers have received all results. A
// missing file is no error: there are no cursors then.
func loadCursors(fsys disk.FS, dir string) ([]cursor, error) {
	path := filepath.Join(dir, cursorFile)
	data, err := disk.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the file of journal positions (cursors) %q: %w", path, err)
	}
	list, err := parseCursors(data)
	if err != nil {
		return nil, fmt.Errorf("read the file of journal positions (cursors) %q: %w", path, err)
	}
	return list, nil
}

// saveCursors replaces the file of cursors (saved journal positions of the handlers) in a folder.
func saveCursors(fsys disk.FS, dir string, list []cursor) error {
	if err := disk.WriteFile(fsys, dir, cursorFile, appendCursors(nil, list)); err != nil {
		return fmt.Errorf("write the file of journal positions (cursors) in %q: %w", dir, err)
	}
	return nil
}

// appendCursors appends the encoded file of cursors (saved journal positions of the handlers) to dst.
func appendCursors(dst []byte, list []cursor) []byte {
	begin := len(dst)
	dst = append(dst, cursorMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, cursorVersion)
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	for _, c := range list {
		for _, text := range []string{c.Namespace, c.Name, c.Address} {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
		for _, n := range []uint64{c.At.Log, c.At.Number, c.Skipped} {
			dst = binary.LittleEndian.AppendUint64(dst, n)
		}
	}
	binary.LittleEndian.PutUint32(dst[begin+12:], cursorChecksum(dst[begin+cursorHeader:]))
	return dst
}

// parseCursors decodes the file of cursors (saved journal positions of the handlers).
func parseCursors(data []byte) (list []cursor, err error) {
	if len(data) < cursorHeader || string(data[:8]) != cursorMagic {
		return nil, errDamagedCursors
	}
	if v := binary.LittleEndian.Uint16(data[8:]); v != cursorVersion {
		return nil, fmt.Errorf("the file of cursors (saved journal positions) has version %d, this program reads version %d", v, cursorVersion)
	}
	rest := data[cursorHeader:]
	if binary.LittleEndian.Uint32(data[12:]) != cursorChecksum(rest) {
		return nil, errDamagedCursors
	}
	for len(rest) > 0 {
		var c cursor
		for _, text := range []*string{&c.Namespace, &c.Name, &c.Address} {
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				return nil, errDamagedCursors
			}
			*text, rest = string(rest[n:n+int(size)]), rest[n+int(size):]
		}
		if len(rest) < 24 {
			return nil, errDamagedCursors
		}
		c.At.Log, c.At.Number, c.Skipped = binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:]), binary.LittleEndian.Uint64(rest[16:])
		rest = rest[24:]
		list = append(list, c)
	}
	return list, nil
}

// cursorChecksum returns the CRC-32C checksum at the end of the file of saved journal positions.
func cursorChecksum(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
}
