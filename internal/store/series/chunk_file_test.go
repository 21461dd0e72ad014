package series

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/testenv"
)

// countedFile is a file that counts its reads and the bytes read.
type countedFile struct {
	disk.File
	reads, bytes int
}

// ReadAt reads from the file and counts the read.
func (f *countedFile) ReadAt(b []byte, at int64) (int, error) {
	f.reads, f.bytes = f.reads+1, f.bytes+len(b)
	return f.File.ReadAt(b, at)
}

// TestChunkCacheCost reads chunks in file order and in random order, and expects bounded numbers of reads and
// bytes. In the order of the file one read gives many records, although the records of each series lie in
// several rows. In a random order no needless bytes are read.
func TestChunkCacheCost(t *testing.T) {
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
		var ahead chunkCache
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

// slowDisk is a disk whose writes and deletions wait until the test closes the channel release.
type slowDisk struct {
	disk.OS
	disk.File
	began   chan struct{}
	release chan struct{}
}

// WriteAt writes to the file, after a wait until the test closes the channel release.
func (d *slowDisk) WriteAt(b []byte, at int64) (int, error) {
	close(d.began)
	<-d.release
	return d.File.WriteAt(b, at)
}

// Remove deletes a file, after a wait until the test closes the channel release.
func (d *slowDisk) Remove(path string) error {
	close(d.began)
	<-d.release
	return d.OS.Remove(path)
}

// TestSlowDisk writes and deletes files on a slow disk, and expects queries and new values to work meanwhile.
func TestSlowDisk(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer s.Close()
	var ref Series
	points := appendValues(t, s, &ref, 0, 300)
	snapshot(t, s)
	file := s.chunkFileAt(start)
	on := file.file
	during := func(slow, fast func()) {
		d := &slowDisk{File: on, began: make(chan struct{}), release: make(chan struct{})}
		file.file, file.fs = d, d
		slowDone, fastDone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(slowDone)
			slow()
		}()
		<-d.began
		go func() {
			defer close(fastDone)
			fast()
		}()
		select {
		case <-fastDone:
		case <-time.After(20 * time.Second):
			t.Error("a query or an append waits for the disk")
		}
		close(d.release)
		<-slowDone
	}
	points = append(points, appendValues(t, s, &ref, 300, 600)...)
	during(func() { s.WriteChunks(0) }, func() {
		expectValues(t, s, points...)
		appendValues(t, s, &ref, 600, 900)
	})
	during(func() { testenv.NoError(t, s.removeFiles(file.end)) }, func() { appendValues(t, s, &ref, 900, 1200) })
}

// TestRemovedFileIsNotRecreated removes a file before its last chunks are written, and expects the file to stay
// removed. A block with the values removes the file in the same way.
func TestRemovedFileIsNotRecreated(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer s.Close()
	points := appendValues(t, s, new(Series), 0, 300)
	testenv.NoError(t, s.chunkFileAt(start).remove())
	snapshot(t, s)
	testenv.NoError(t, s.Trouble())
	if names, err := s.options.FS.List(s.headDir()); len(names) > 0 {
		t.Errorf("files %v, %v", names, err)
	}
	expectValues(t, s, points...)
}

// TestBlockReadWastesNoMemory reads many short series from a block, and expects little memory for each.
func TestBlockReadWastesNoMemory(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer s.Close()
	appendValues(t, s, new(Series), 0, 7000)
	for i := range 100 {
		add(t, s, new(Series), Labels(fmt.Sprint("short", i), "web-1", "default", "linux"), 0, 1)
	}
	snapshot(t, s)
	s.index.publish()
	x := headIndex{&headReader{db: s, from: start, to: math.MaxInt64}}
	var builder labels.ScratchBuilder
	longest, all := 0, 0
	for _, of := range s.partitions[0].series {
		testenv.NoError(t, x.Series(of.ref, &builder, new([]chunks.Meta)))
		longest, all = max(longest, cap(x.found.data)), all+cap(x.found.data)
	}
	if all > 3*longest {
		t.Errorf("%d bytes for one series of %d bytes and short ones", all, longest)
	}
}
