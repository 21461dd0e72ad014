package journal

import (
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// segment is one file of the log. Its content ends before the first number of the next segment: later
// bytes are the rest of a failed write or a crash. Log.mu guards it once the log is open.
type segment struct {
	path  string
	first uint64 // number of the first commit
	last  uint64 // of the last durable one; first-1: none
	end   int64  // offset after it; zero in a segment that was not verified
	disk  int64  // bytes of the file
	marks []mark // offsets of some commits, ascending
}

// mark is the offset of a commit.
type mark struct {
	number uint64
	offset int64
}

// markEvery is the least number of bytes between two marks.
const markEvery = 256 << 10

func (s *segment) mark(number uint64, offset int64) {
	if n := len(s.marks); n == 0 || offset-s.marks[n-1].offset >= markEvery {
		s.marks = append(s.marks, mark{number, offset})
	}
}

// seek returns the nearest known offset at or before the commit.
func (s *segment) seek(number uint64) (offset int64, known bool) {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].number > number })
	if i == 0 {
		return segmentHeaderSize, false
	}
	return s.marks[i-1].offset, true
}

const segmentSuffix = ".log"

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

func parseSegmentName(name string) (first uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// listSegments returns the segments of a folder, oldest first.
func listSegments(o *Options, dir string) ([]*segment, error) {
	names, err := o.FS.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list journal folder %q: %w", dir, err)
	}
	var list []*segment
	for _, name := range names {
		if first, ok := parseSegmentName(name); ok {
			list = append(list, &segment{path: filepath.Join(dir, name), first: first, last: first - 1})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].first < list[j].first })
	return list, nil
}
