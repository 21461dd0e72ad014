// Package cursor stores, in one small file, the position of each follower of the journal (package
// follow).
//
// In goes a list of cursors, all of them each time; the file is replaced as a whole, so that a
// crash leaves the old or the new one. No goroutines, no locks: one caller.
package cursor

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

// FormatVersion is the version of the file.
const FormatVersion = 1

// The file, little-endian:
//
//	 0 8 bytes "MUSTCURS"
//	 8 u16 format version
//	10 u16 zero
//	12 u32 CRC-32C of everything from 16 on
//	16 for each cursor: namespace, name, address (each a varint length and bytes),
//	   u64 incarnation of the journal, u64 number of the commit, u64 results skipped
const (
	magic      = "MUSTCURS"
	headerSize = 16
	fileName   = "cursors"
)

// Cursor is the position up to which a handler got the results of the journal.
type Cursor struct {
	Namespace, Name string // of the handler
	Address         string // of the handler: another address begins anew
	At              journal.Position
	Skipped         uint64 // results that it never got, because it was too far behind
}

// ErrDamaged reports that the file of cursors has other bytes than were written.
var ErrDamaged = errors.New("file of cursors is damaged")

// Load reads the file of a folder; no file is no cursors.
func Load(fsys disk.FS, dir string) ([]Cursor, error) {
	path := filepath.Join(dir, fileName)
	data, err := disk.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cursors %q: %w", path, err)
	}
	list, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read cursors %q: %w", path, err)
	}
	return list, nil
}

// Save replaces the file of a folder.
func Save(fsys disk.FS, dir string, list []Cursor) error {
	if err := disk.WriteFile(fsys, dir, fileName, Append(nil, list)); err != nil {
		return fmt.Errorf("write cursors in %q: %w", dir, err)
	}
	return nil
}

// Append writes the file to dst.
func Append(dst []byte, list []Cursor) []byte {
	begin := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, FormatVersion)
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	for _, c := range list {
		for _, text := range []string{c.Namespace, c.Name, c.Address} {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
		for _, n := range []uint64{c.At.Log, c.At.Number, c.Skipped} {
			dst = binary.LittleEndian.AppendUint64(dst, n)
		}
	}
	binary.LittleEndian.PutUint32(dst[begin+12:], sum(dst[begin+headerSize:]))
	return dst
}

// Parse reads the bytes of Append.
func Parse(data []byte) (list []Cursor, err error) {
	if len(data) < headerSize || string(data[:8]) != magic {
		return nil, ErrDamaged
	}
	if v := binary.LittleEndian.Uint16(data[8:]); v != FormatVersion {
		return nil, fmt.Errorf("version %d, this program reads version %d", v, FormatVersion)
	}
	rest := data[headerSize:]
	if binary.LittleEndian.Uint32(data[12:]) != sum(rest) {
		return nil, ErrDamaged
	}
	for len(rest) > 0 {
		var c Cursor
		for _, text := range []*string{&c.Namespace, &c.Name, &c.Address} {
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				return nil, ErrDamaged
			}
			*text, rest = string(rest[n:n+int(size)]), rest[n+int(size):]
		}
		if len(rest) < 24 {
			return nil, ErrDamaged
		}
		c.At.Log, c.At.Number, c.Skipped = binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:]), binary.LittleEndian.Uint64(rest[16:])
		rest = rest[24:]
		list = append(list, c)
	}
	return list, nil
}

func sum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
