package collect

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// logPosition is a read position in a log, as a file and an offset in that file. The offset is the end of the last
// line that was read. The bytes before Offset identify the file, also after a rename; a copy of the file has them too.
type logPosition struct {
	Inode  uint64 `json:"inode,omitempty"`
	Offset int64  `json:"offset"`
	Tail   int64  `json:"tail,omitempty"` // number of bytes before Offset with the hash Sum
	Sum    uint64 `json:"sum,omitempty"`
	MtimeN int64  `json:"mtime"` // of the file when it was read, Unix ns
}

// maxTail is the most bytes before a position that identify the file.
const maxTail = 256

// decodeLogPosition decodes a log's read position from the spool. ok is false if the bytes are no valid position.
func decodeLogPosition(data []byte) (p logPosition, ok bool) {
	if len(data) == 0 || json.Unmarshal(data, &p) != nil || p.Offset < 0 || p.Tail < 0 || p.Tail > min(p.Offset, maxTail) {
		return logPosition{}, false
	}
	return p, true
}

// encode encodes the read position of a log for the spool.
func (p *logPosition) encode() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return data
}

// logFile is one file of a log, either the present file or an earlier file after a rotation.
type logFile struct {
	path  string
	inode uint64 // zero: the system has none
	size  int64
	mtime int64 // Unix ns
}

// isRotated reports whether a file's name is that of an earlier log file after a rotation. For app.log, such names are
// app.log.1 and app.log-20261129. Compressed files do not count.
func isRotated(name, base string) bool {
	rest, ok := strings.CutPrefix(name, base)
	return ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "-")) && !slices.Contains([]string{".gz", ".xz", ".bz2", ".zst", ".swp"}, filepath.Ext(rest))
}

// files returns all files of a log, the oldest first. The file of log itself is the last one.
func (l *logItem) files() (list []logFile, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if l.names != nil && !l.names.MatchString(name) || l.names == nil && name != l.base && !isRotated(name, l.base) {
			continue
		}
		info, err := os.Stat(filepath.Join(l.dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // renamed meanwhile
			continue
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			continue
		}
		id, _ := fileBlocks(info)
		list = append(list, logFile{filepath.Join(l.dir, name), id.inode, info.Size(), info.ModTime().UnixNano()})
	}
	slices.SortFunc(list, func(a, b logFile) int {
		if l.names != nil {
			return cmp.Or(cmp.Compare(a.mtime, b.mtime), cmp.Compare(a.path, b.path))
		}
		aIs, bIs := filepath.Base(a.path) == l.base, filepath.Base(b.path) == l.base
		switch {
		case aIs != bIs && bIs:
			return -1
		case aIs != bIs:
			return 1
		}
		return cmp.Or(cmp.Compare(a.mtime, b.mtime), cmp.Compare(len(b.path), len(a.path)), cmp.Compare(b.path, a.path)) // app.log.2 before app.log.1
	})
	if l.names == nil && (len(list) == 0) {
		return nil, fmt.Errorf("open %s: %w", filepath.Join(l.dir, l.base), fs.ErrNotExist)
	}
	return list, nil
}

// isIn reports whether a stored read position belongs to a log file, even after the file was renamed. It
// compares the bytes before the position's offset.
func (p *logPosition) isIn(f *logFile) bool {
	if f.size < p.Offset || p.Tail == 0 {
		return f.size >= p.Offset && p.Offset == 0 && p.Inode != 0 && f.inode == p.Inode
	}
	file, err := os.Open(f.path)
	if err != nil {
		return false
	}
	defer file.Close()
	tail, sum, err := hashBeforeOffset(file, p.Offset, p.Tail)
	return err == nil && tail == p.Tail && sum == p.Sum
}

// hashBeforeOffset hashes the bytes just before an offset of a log file, to recognise the file later. It
// returns the number of hashed bytes, at most `most`, and the hash.
func hashBeforeOffset(file io.ReaderAt, offset, most int64) (tail int64, sum uint64, err error) {
	b := make([]byte, min(offset, most))
	if _, err := file.ReadAt(b, offset-int64(len(b))); err != nil {
		return 0, 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(b)
	return int64(len(b)), h.Sum64(), nil
}

// findInFiles returns the file and the offset at which reading continues after a stored position. A file that was cut short
// and has no copy begins anew; of one that is gone the next newer file follows.
func (p *logPosition) findInFiles(list []logFile) (index int, offset int64) {
	same := slices.IndexFunc(list, func(f logFile) bool { return p.Inode != 0 && f.inode == p.Inode })
	if same >= 0 && p.isIn(&list[same]) {
		if p.Offset == 0 { // it may have been copied and cut short since
			for i := range same {
				if list[i].mtime > p.MtimeN {
					return i, 0
				}
			}
		}
		return same, p.Offset
	}
	for i := len(list) - 1; i >= 0; i-- {
		if i != same && p.isIn(&list[i]) {
			return i, p.Offset
		}
	}
	if same >= 0 && same == len(list)-1 { // an earlier file with this inode is another one
		return same, 0
	}
	for i := range list {
		if list[i].mtime > p.MtimeN {
			return i, 0
		}
	}
	return len(list), 0
}

// startPosition returns the first file and offset for the first collection of a log item.
func (l *logItem) startPosition(list []logFile) (index int, offset int64, err error) {
	switch {
	case l.skip && len(list) > 0:
		last := &list[len(list)-1]
		offset, err = lastLineEnd(last)
		return len(list) - 1, offset, err
	case l.names == nil:
		return len(list) - 1, 0, nil
	}
	return 0, 0, nil
}

// lastLineEnd returns the offset after the last complete line of a file.
func lastLineEnd(f *logFile) (int64, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	b := make([]byte, min(f.size, maxText))
	if _, err := file.ReadAt(b, f.size-int64(len(b))); err != nil {
		return 0, err
	}
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		return f.size - int64(len(b)-i-1), nil
	}
	return f.size - int64(len(b)), nil
}

// switchAfter is the idle time of a rotated file before its reader moves to the next file: a writer may still hold it open.
const switchAfter = 2 * time.Second

// logReader reads the lines of a log from a position on, across its files.
type logReader struct {
	list   []logFile
	index  int // of the open file
	offset int64
	file   *os.File // nil: none is open
	lines  *bufio.Reader
	now    time.Time
}

// open opens the log file that the reader has to read next. ok is false if the file was replaced or shortened
// after the list was made.
func (r *logReader) open() (ok bool, err error) {
	f := &r.list[r.index]
	if r.file, err = os.Open(f.path); err != nil {
		return false, err
	}
	info, err := r.file.Stat()
	if err != nil {
		r.close()
		return false, err
	}
	if id, _ := fileBlocks(info); id.inode != f.inode || info.Size() < r.offset {
		r.close()
		return false, nil
	}
	f.size = info.Size()
	r.lines = bufio.NewReaderSize(io.NewSectionReader(r.file, r.offset, f.size-r.offset), maxText)
	return true, nil
}

// close closes the open file of the log.
func (r *logReader) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// maxLine bounds a line in bytes: a file without ends of lines has lines, too.
const maxLine = 1 << 20

// next returns the next complete line of the log, or nil at the end. Of a line beyond maxText it returns the begin.
func (r *logReader) next() (line []byte, err error) {
	for r.index < len(r.list) {
		if r.file == nil {
			if ok, err := r.open(); !ok {
				return nil, err
			}
		}
		line, err = r.lines.ReadSlice('\n')
		n := len(line)
		for errors.Is(err, bufio.ErrBufferFull) && n < maxLine { // the rest of a long line
			if n == len(line) {
				line = bytes.Clone(line)
			}
			var more []byte
			more, err = r.lines.ReadSlice('\n')
			n += len(more)
		}
		left := r.isAbandoned()
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull), err == io.EOF && n > 0 && left: // the last line of a rotated file may have no end
			r.offset += int64(n)
			return line, nil
		case err != io.EOF:
			return nil, err
		case !left:
			return nil, nil
		}
		r.close()
		r.index, r.offset = r.index+1, 0
	}
	return nil, nil
}

// isAbandoned reports whether programs no longer write to the open log file. A later file of the log then already has
// lines.
func (r *logReader) isAbandoned() bool {
	written := func(f logFile) bool { return f.size > 0 }
	return r.now.UnixNano()-r.list[r.index].mtime >= int64(switchAfter) && slices.ContainsFunc(r.list[r.index+1:], written)
}

// position returns the position after the last line that was read.
func (r *logReader) position() (p logPosition, err error) {
	f := &r.list[r.index]
	p = logPosition{Inode: f.inode, Offset: r.offset, MtimeN: f.mtime}
	if r.file == nil {
		var ok bool
		if ok, err = r.open(); !ok {
			return p, cmp.Or(err, errRotated)
		}
	}
	p.Tail, p.Sum, err = hashBeforeOffset(r.file, r.offset, maxTail)
	return p, err
}

// errRotated reports that a file got another name while it was read; the next collection finds it.
var errRotated = errors.New("the log was rotated meanwhile")

// unreadBytes returns the number of bytes of the log that are not read yet.
func (r *logReader) unreadBytes() (bytes int64) {
	for i := r.index; i < len(r.list); i++ {
		bytes += r.list[i].size
	}
	return bytes - r.offset
}

// skipTo skips lines of the open file until only `most` bytes of the log are unread. It returns how many bytes it left
// out.
func (r *logReader) skipTo(most int64) (skipped int64, err error) {
	skip := r.unreadBytes() - most
	if skip <= 0 || r.index == len(r.list) {
		return 0, nil
	}
	r.close()
	from := r.offset
	r.offset = min(from+skip, r.list[r.index].size)
	if ok, err := r.open(); !ok {
		return 0, err
	}
	_, err = r.next() // skips the line that the new offset cuts
	return max(r.offset-from, 0), err
}
