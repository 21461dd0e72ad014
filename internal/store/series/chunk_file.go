package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// A range file has the full chunks of all series in one range of time, little-endian:
//
//	 0 8 bytes "MUSTHEAD"
//	 8 u16 format version
//	10 6 bytes zero
//	16 the records
//
// A record:
//
//	 0 u32 length of the chunk
//	 4 u32 CRC-32C of the record from 8 on
//	 8 i64 time of the first value, ms
//	16 i64 time of the last value, ms
//	24 u64 offset of the record before it of the same series; 0: none
//	32 the chunk, XOR-encoded
//
// Snapshots name records by their offsets. Nothing reads a record that none names, such as one that a crash cut short.
const (
	rangeMagic   = "MUSTHEAD"
	RangeVersion = 1 // of the format of range files
	rangeHeader  = 16
	recordHeader = 32
	maxChunk     = 1 << 16 // bound of a chunk in bytes: a damaged length must not exhaust the memory
	firstRead    = 512     // bytes read at first: most records have fewer
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// chunkRecord is one chunk (encoded values of a series) in a file, with its first and last time. It also has the
// offset of the previous chunk of the series.
type chunkRecord struct {
	min, max int64
	prev     int64
	data     []byte
}

// appendRecord encodes a record of a chunk file.
func appendRecord(b []byte, r chunkRecord) []byte {
	from, le := len(b), binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(r.data)))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, uint64(r.min))
	b = le.AppendUint64(b, uint64(r.max))
	b = le.AppendUint64(b, uint64(r.prev))
	b = append(b, r.data...)
	le.PutUint32(b[from+4:], crc32.Checksum(b[from+8:], crcTable))
	return b
}

// errDamagedRecord reports that a record of a range file does not have the bytes that were written.
var errDamagedRecord = errors.New("record of a full chunk is damaged")

// parseRecord decodes the record at the start of a buffer. need is the length of the record if the buffer is too short
// for it.
func parseRecord(b []byte) (r chunkRecord, need int, err error) {
	le := binary.LittleEndian
	if len(b) < recordHeader {
		return r, recordHeader, nil
	}
	size := le.Uint32(b)
	if size < 2 || size > maxChunk {
		return r, 0, errDamagedRecord
	}
	if need = recordHeader + int(size); len(b) < need {
		return r, need, nil
	}
	if crc32.Checksum(b[8:need], crcTable) != le.Uint32(b[4:]) {
		return r, 0, errDamagedRecord
	}
	r = chunkRecord{min: int64(le.Uint64(b[8:])), max: int64(le.Uint64(b[16:])), prev: int64(le.Uint64(b[24:])), data: b[recordHeader:need]}
	return r, 0, nil
}

// rangeFile is the file with the full chunks of all series in one time range.
type rangeFile struct {
	fs         disk.FS
	dir        string
	start, end int64 // ms; end is behind the range

	writing sync.Mutex // held while records are written or the file is made; mu is taken behind it

	mu      sync.RWMutex
	file    disk.File // nil: not made yet, or removed
	size    int64     // where the next record goes
	failed  int64     // a sync failed: records before this that no sync had covered may be lost
	removed bool      // blocks have its values
}

// errRemoved reports a write to a chunk file that was removed.
var errRemoved = errors.New("range file was removed")

// name returns the file name, made of the start and end of the time range.
func (f *rangeFile) name() string { return fmt.Sprintf("%d-%d", f.start, f.end) }

// path returns the path of the file.
func (f *rangeFile) path() string { return filepath.Join(f.dir, f.name()) }

// openRangeFile opens the chunk file of a time range by its name. It returns nil if no such file can have the name.
func openRangeFile(on disk.FS, dir, name string) (*rangeFile, error) {
	f := &rangeFile{fs: on, dir: dir}
	if n, err := fmt.Sscanf(name, "%d-%d", &f.start, &f.end); n != 2 || err != nil || f.name() != name || f.end <= f.start {
		return nil, nil
	}
	var err error
	if f.file, err = on.OpenWrite(f.path()); err != nil {
		return nil, err
	}
	header := make([]byte, rangeHeader)
	_, err = f.file.ReadAt(header, 0)
	if err == nil || errors.Is(err, io.EOF) {
		if err = parseRangeHeader(header); err == nil {
			f.size, err = f.file.Size()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read chunk file %q: %w", f.path(), err), f.file.Close())
	}
	return f, nil
}

// appendRangeHeader appends the header of a chunk file for one time range.
func appendRangeHeader(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(append(b, rangeMagic...), RangeVersion)
	return append(b, 0, 0, 0, 0, 0, 0)
}

// parseRangeHeader verifies the header of a chunk file.
func parseRangeHeader(b []byte) error {
	if len(b) < rangeHeader || string(b[:len(rangeMagic)]) != rangeMagic {
		return errors.New("the file does not begin with " + rangeMagic)
	}
	if v := binary.LittleEndian.Uint16(b[len(rangeMagic):]); v != RangeVersion {
		return fmt.Errorf("the file has format version %d, this program reads %d", v, RangeVersion)
	}
	return nil
}

// read reads the record at a file offset, and bytes after the record, into a buffer. It uses a larger buffer if the
// record is longer. It returns what it has read; the chunk is a part of it.
func (f *rangeFile) read(offset int64, data []byte) (r chunkRecord, _ []byte, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.file == nil || offset < rangeHeader {
		return r, nil, errDamagedRecord
	}
	for {
		n, err := f.file.ReadAt(data, offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return r, nil, err
		}
		r, need, err := parseRecord(data[:n])
		if err == nil && need > n && n < len(data) {
			err = errDamagedRecord // the file ends
		}
		if err != nil || need == 0 {
			return r, data[:n], err
		}
		data = make([]byte, need)
	}
}

// chunkCache reads chunks from files, and caches the file parts around the chunks. The chunks of one series are
// scattered over a file. It caches what it has read in a few windows, because the chunks of one series are as
// many rows of records as there were snapshots between them. It reads on behind a window when series are read
// in the order of their records, and only one record when they are read in another order.
type chunkCache struct {
	windows [8]cachedPart
	oldest  int // of windows
}

// cachedPart is a part of a chunk file in the memory of a chunkCache.
type cachedPart struct {
	file   *rangeFile
	offset int64
	data   []byte
}

// readAheadSize is the size of about 40 records in bytes.
const readAheadSize = 16 << 10

// read returns a record of a chunk file, from the cache if possible. Its chunk is valid until the next call.
func (a *chunkCache) read(f *rangeFile, offset int64) (r chunkRecord, err error) {
	size := firstRead
	to := &a.windows[a.oldest]
	for i := range a.windows {
		w := &a.windows[i]
		at := offset - w.offset
		if w.file != f || at < 0 || at > int64(len(w.data))+firstRead {
			continue
		}
		if at < int64(len(w.data)) {
			if r, need, err := parseRecord(w.data[at:]); err == nil && need == 0 {
				return r, nil
			}
		}
		size, to = readAheadSize, w
		break
	}
	if to == &a.windows[a.oldest] {
		a.oldest = (a.oldest + 1) % len(a.windows)
	}
	to.file, to.offset = f, offset
	r, to.data, err = f.read(offset, slices.Grow(to.data[:0], size)[:size])
	return r, err
}

// write appends records to the file, which a later call of sync makes durable. The function build encodes them for
// their offset. Records are read while it works.
func (f *rangeFile) write(build func(offset int64) []byte) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	file, at, err := f.openForWriting()
	if err != nil {
		return err
	}
	records := build(at)
	if _, err := file.WriteAt(records, at); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size = at + int64(len(records))
	return nil
}

// openForWriting returns the open file and its size, and creates a missing file. It creates none after a removal. The
// caller holds writing.
func (f *rangeFile) openForWriting() (disk.File, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.removed {
		return nil, 0, errRemoved
	}
	if f.file == nil {
		if err := f.create(nil); err != nil {
			return nil, 0, err
		}
	}
	return f.file, f.size, nil
}

// create creates the chunk file, and copies the content of the deleted file if one is still open. The caller holds
// both mutexes.
func (f *rangeFile) create(deleted disk.File) (err error) {
	if err = f.fs.MkdirAll(f.dir); err != nil {
		return err
	}
	file, err := f.fs.Create(f.path())
	if err != nil {
		return err
	}
	if deleted == nil {
		_, err = file.WriteAt(appendRangeHeader(nil), 0)
		f.size = rangeHeader
	} else {
		b := make([]byte, 1<<20)
		for at := int64(0); at < f.size && err == nil; at += int64(len(b)) {
			b = b[:min(int64(len(b)), f.size-at)]
			if _, err = deleted.ReadAt(b, at); err == nil {
				_, err = file.WriteAt(b, at)
			}
		}
	}
	if err == nil {
		err = f.fs.SyncDir(f.dir)
	}
	if err == nil {
		err = f.fs.SyncDir(filepath.Dir(f.dir))
	}
	if err != nil {
		return errors.Join(err, file.Close(), f.fs.Remove(f.path()))
	}
	f.file = file
	return nil
}

// sync syncs the file to disk, and returns up to which offset the records are durable. A file that was deleted
// meanwhile is made again from the open one. Records are read and written while it works.
func (f *rangeFile) sync() (covered int64, err error) {
	file, covered, err := f.reopen()
	if file == nil || err != nil {
		return 0, err
	}
	if err := file.SyncData(); err != nil {
		f.writing.Lock()
		defer f.writing.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed = f.size // the kernel may have dropped them, and a second sync would not say so
		return 0, err
	}
	return covered, nil
}

// reopen returns the open file and its size, and restores a file that somebody has deleted.
func (f *rangeFile) reopen() (disk.File, int64, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil && !f.exists() {
		deleted := f.file
		if err := f.create(deleted); err != nil {
			return nil, 0, err
		}
		_ = deleted.Close() // its content is copied
	}
	return f.file, f.size, nil
}

// mayHaveLost reports whether a failed sync may have lost the record at an offset.
func (f *rangeFile) mayHaveLost(offset int64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return offset < f.failed
}

// exists reports whether the file is still in its folder, not deleted or moved by somebody.
func (f *rangeFile) exists() bool {
	file, err := f.fs.Open(f.path())
	if err != nil {
		return false
	}
	defer file.Close()
	size, err := file.Size()
	return err == nil && size >= f.size
}

// remove deletes the file.
func (f *rangeFile) remove() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	file := f.file
	f.file, f.removed = nil, true
	f.mu.Unlock()
	if file == nil {
		return nil
	}
	err := file.Close()
	if gone := f.fs.Remove(f.path()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// close closes the file.
func (f *rangeFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
