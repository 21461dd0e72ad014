package series

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/testenv"
)

// countedFile counts the reads of a file.
type countedFile struct {
	disk.File
	reads, bytes int
}

// ReadAt reads from the file and counts the read.
func (f *countedFile) ReadAt(b []byte, at int64) (int, error) {
	f.reads, f.bytes = f.reads+1, f.bytes+len(b)
	return f.File.ReadAt(b, at)
}

// TestReadAheadCost reads the chunks of many series. In the order in which they lie in the file, it takes a read for many records, although the
// records of each series lie in several rows; in a random order it reads no more bytes than each record needs.
func TestReadAheadCost(t *testing.T) {
	const series, rows, size = 2000, 4, 300
	f := &rangeFile{fs: disk.OS{}, dir: t.TempDir(), end: 1}
	offsets := make([][rows]int64, series)
	content := func(row, of int) []byte { return bytes.Repeat([]byte{byte(row), byte(of), byte(of >> 8)}, size/3) }
	for row := range rows {
		testenv.NoError(t, f.write(func(at int64) (b []byte) {
			for of := range offsets {
				offsets[of][row] = at + int64(len(b))
				prev := int64(0)
				if row > 0 {
					prev = offsets[of][row-1]
				}
				b = appendRecord(b, chunkRecord{prev: prev, data: content(row, of)})
			}
			return b
		}))
	}
	counted := &countedFile{File: f.file}
	f.file = counted
	t.Cleanup(func() { testenv.NoError(t, f.close()) })
	read := func(order []int) string {
		*counted = countedFile{File: counted.File}
		var ahead readAhead
		for _, of := range order {
			at := offsets[of][rows-1]
			for row := rows - 1; row >= 0; row-- {
				r, err := ahead.read(f, at)
				testenv.NoError(t, err)
				if !bytes.Equal(r.data, content(row, of)) {
					t.Fatalf("record %d of series %d is another one", row, of)
				}
				at = r.prev
			}
		}
		return fmt.Sprint(counted.reads, " reads of ", counted.bytes, " bytes")
	}
	order := make([]int, series)
	for i := range order {
		order[i] = i
	}
	if got := read(order); counted.reads > series*rows/20 {
		t.Error("in the order of the file:", got)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(series, func(i, j int) { order[i], order[j] = order[j], order[i] })
	if got := read(order); counted.bytes > series*rows*firstRead*3/2 {
		t.Error("in a random order:", got)
	}
}
