package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
)

// load and start are the series and the time of the tests.
var load = Labels("system.cpu.load[all,avg1]", "web-1", "default", "linux")

const start = int64(1_800_000_000_000) // ms

// open opens a series store in a folder, for a test.
func open(t *testing.T, dir string, o Options) *db {
	t.Helper()
	s, err := Open(dir, o)
	testenv.NoError(t, err)
	return s.(*db)
}

// add appends a value to a series of partition 0. Its time is the start of the test plus ns.
func add(t *testing.T, s Store, ref *Series, l labels.Labels, ns int64, v float64) {
	t.Helper()
	s.Append(0, ref, func() labels.Labels { return l }, start*1e6+ns, v)
}

// snapshot returns a snapshot of partition 0, after a sync of the snapshot's files.
func snapshot(t *testing.T, s Store) []byte {
	t.Helper()
	s.WriteChunks(0)
	body := s.Encode(0, nil)
	testenv.NoError(t, s.Sync(0))
	return body
}

// restore restores partition 0 from a snapshot.
func restore(t *testing.T, s Store, body []byte) {
	t.Helper()
	if len(body) == 0 {
		return // of the model
	}
	d := shard.NewDecoder(body)
	s.Decode(0, d)
	testenv.NoError(t, d.Err())
	if len(d.Rest()) > 0 {
		t.Fatalf("%d bytes behind the end", len(d.Rest()))
	}
}

// restart saves a snapshot of partition 0, reopens the store and restores the partition.
func restart(t *testing.T, s Store, open func() Store) Store {
	t.Helper()
	body := snapshot(t, s)
	testenv.NoError(t, s.Close())
	s = open()
	restore(t, s, body)
	return s
}

// maintain makes the store write, merge and delete blocks once.
func maintain(t *testing.T, s Store) {
	t.Helper()
	if of, ok := s.(*db); ok {
		testenv.NoError(t, of.maintain())
	}
}

// read queries all values in the store, and returns the values of each series by its labels.
func read(t *testing.T, s storage.Queryable) map[string][]point {
	t.Helper()
	q, err := s.Querier(math.MinInt64, math.MaxInt64)
	testenv.NoError(t, err)
	defer q.Close()
	got := map[string][]point{}
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, LabelMetric, ".+"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			key := set.At().Labels().String()
			got[key] = append(got[key], point{ms - start, v})
		}
	}
	testenv.NoError(t, set.Err())
	return got
}

// expectValues fails the test unless a query returns exactly the wanted values of the series "load".
func expectValues(t *testing.T, s Store, points ...point) {
	t.Helper()
	if got := read(t, s)[load.String()]; !slices.Equal(got, points) {
		t.Errorf("%d values %v, want %d %v", len(got), got, len(points), points)
	}
}

// appendValues appends one value per second to the test series "load", and returns the values. The seconds are
// from first to last of a range.
func appendValues(t *testing.T, s Store, ref *Series, from, to int) (points []point) {
	t.Helper()
	for i := from; i < to; i++ {
		add(t, s, ref, load, int64(i)*1e9, float64(i))
		points = append(points, point{int64(i) * 1000, float64(i)})
	}
	return points
}

// TestMetricName converts item keys to metric names, and expects names that PromQL accepts.
func TestMetricName(t *testing.T) {
	for key, want := range map[string]string{"system.cpu.load[all,avg1]": "system_cpu_load", "9p": "_9p", "": "_", "é": "_", "a:b": "a:b"} {
		if got := MetricName(key); got != want {
			t.Errorf("MetricName(%q) = %q, want %q", key, got, want)
		}
	}
}

// TestReplayAfterKillStoresValuesOnce kills the store after a snapshot, and expects a replay to store each later value once.
// The kill comes before or after blocks were written.
func TestReplayAfterKillStoresValuesOnce(t *testing.T) {
	o := Options{Range: 5 * time.Minute, LateWindow: time.Hour}
	for _, block := range [...]int{-1, 700} { // the value behind which blocks are written
		for _, saved := range [...]int{1, 450, 900} { // the value behind which the snapshot is saved
			dir := t.TempDir()
			s := open(t, dir, o)
			var ref Series
			var body []byte
			for i := range 1200 {
				appendValues(t, s, &ref, i, i+1)
				if i == saved {
					body = snapshot(t, s)
				}
				if i == block {
					maintain(t, s)
				}
			}
			s.WriteChunks(0) // for the next snapshot, which the kill interrupts
			killed := t.TempDir()
			testenv.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
			testenv.NoError(t, s.Close())
			s = open(t, killed, o)
			restore(t, s, body)
			points := appendValues(t, s, new(Series), saved+1, 1200)
			points = append(filledValues(0, saved+1), points...)
			expectValues(t, s, points...)
			appendValues(t, s, new(Series), 1200, 1800)
			maintain(t, s)
			expectValues(t, s, filledValues(0, 1800)...)
			if files, _ := filepath.Glob(filepath.Join(killed, headFolder, "*")); len(files) > 2 {
				t.Errorf("files of the head stay: %v", files)
			}
			testenv.NoError(t, s.Close())
		}
	}
}

// filledValues returns the values that appendValues appends for the same seconds.
func filledValues(from, to int) (points []point) {
	for i := from; i < to; i++ {
		points = append(points, point{int64(i) * 1000, float64(i)})
	}
	return points
}

// TestFullDiskKeepsChunksInMemory fills the disk, and expects full chunks to stay in memory and in snapshots. They are written to their
// file when space is free again.
func TestFullDiskKeepsChunksInMemory(t *testing.T) {
	for _, kind := range [...]faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Mkdir} {
		fs := faultfs.New(disk.OS{})
		dir := t.TempDir()
		o := Options{FS: fs, LateWindow: time.Hour}
		s := open(t, dir, o)
		var ref Series
		fs.Fail(kind, syscall.ENOSPC)
		points := appendValues(t, s, &ref, 0, 500)
		body := snapshot(t, s)
		if err := s.Trouble(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: trouble %v", kind, err)
		}
		expectValues(t, s, points...)
		testenv.NoError(t, s.Close())
		s = open(t, dir, o) // from the snapshot alone
		restore(t, s, body)
		expectValues(t, s, points...)

		fs.Fail(kind, nil)
		points = append(points, appendValues(t, s, new(Series), 500, 600)...)
		body = snapshot(t, s)
		testenv.NoError(t, s.Trouble())
		if len(s.partitions[0].series[0].full) > 0 {
			t.Errorf("%s: full chunks stay in memory", kind)
		}
		testenv.NoError(t, s.Close())
		s = open(t, dir, o)
		restore(t, s, body)
		expectValues(t, s, points...)
		testenv.NoError(t, s.Close())
	}
}

// onePathFull is a simulated disk on which one file path cannot be created, for lack of space.
type onePathFull struct {
	disk.OS
	path string
}

// Create fails for the one path without space, and creates other files.
func (d *onePathFull) Create(path string) (disk.File, error) {
	if path == d.path {
		return nil, syscall.ENOSPC
	}
	return d.OS.Create(path)
}

// TestUnwrittenFileLosesNoValues makes the write of one chunk file fail, and expects queries to return all values in order.
// The failing file is the older one. Queries of all and of some values are right, also from the snapshot and when
// space is free again.
func TestUnwrittenFileLosesNoValues(t *testing.T) {
	fs := &onePathFull{}
	dir := t.TempDir()
	o := Options{FS: fs, LateWindow: time.Hour, Range: 5 * time.Minute}
	s := open(t, dir, o)
	defer func() { testenv.NoError(t, s.Close()) }()
	fs.path = s.chunkFileAt(start).path()
	var ref Series
	points := appendValues(t, s, &ref, 0, 700)
	expect := func(when string) {
		t.Helper()
		expectValues(t, s, points...)
		q, err := s.Querier(start+100_000, start+650_000)
		testenv.NoError(t, err)
		defer q.Close()
		set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, LabelMetric, load.Get(LabelMetric)))
		n := 0
		for set.Next() {
			for it := set.At().Iterator(nil); it.Next() == chunkenc.ValFloat; n++ {
			}
		}
		if n != 551 {
			t.Errorf("%s: %d values, want 551", when, n)
		}
	}
	for _, full := range []string{fs.path, ""} {
		fs.path = full
		body := snapshot(t, s)
		expect("full: " + full)
		testenv.NoError(t, s.Close())
		s = open(t, dir, o)
		restore(t, s, body)
		expect("restored, full: " + full)
	}
	if of := s.partitions[0].series[0]; len(of.full) > 0 || len(of.saved) < 2 {
		t.Errorf("%d full chunks in memory, %d files", len(of.full), len(of.saved))
	}
}

// TestUnwrittenChunksAreBounded makes all file writes fail, and expects an error once too many chunks wait in memory.
func TestUnwrittenChunksAreBounded(t *testing.T) {
	fs := faultfs.New(disk.OS{})
	s := open(t, t.TempDir(), Options{FS: fs, LateWindow: time.Hour})
	defer s.Close()
	fs.Fail(faultfs.Create, syscall.ENOSPC)
	appendValues(t, s, new(Series), 0, 500)
	snapshot(t, s)
	s.partitions[0].unwritten = maxUnwritten + 1
	if err := s.Sync(0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
}

// TestFailedSyncRewritesChunks fails a sync, and expects all possibly lost chunks to be written again. Chunks of other partitions
// are among them.
func TestFailedSyncRewritesChunks(t *testing.T) {
	fs := faultfs.New(disk.OS{})
	dir := t.TempDir()
	o := Options{FS: fs, LateWindow: time.Hour}
	s := open(t, dir, o)
	points := appendValues(t, s, new(Series), 0, 500)
	var other Series
	for i := range 200 {
		s.Append(1, &other, func() labels.Labels { return Labels("b", "web-2", "default", "linux") }, start*1e6+int64(i)*1e9, 1)
	}
	s.WriteChunks(0)
	s.WriteChunks(1)
	fs.Fail(faultfs.Sync, syscall.EIO)
	if err := s.Sync(0); !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v", err)
	}
	fs.Fail(faultfs.Sync, nil)
	if s.Sync(0) == nil || s.Sync(1) == nil {
		t.Error("a snapshot counts whose chunks may be lost")
	}
	// What the kernel dropped reads as zeros.
	name := s.chunkFileAt(start).path()
	info, err := os.Stat(name)
	testenv.NoError(t, err)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	testenv.NoError(t, err)
	_, err = file.WriteAt(make([]byte, info.Size()-rangeHeader), rangeHeader)
	testenv.NoError(t, err)
	testenv.NoError(t, file.Close())
	body := snapshot(t, s)
	s.WriteChunks(1)
	testenv.NoError(t, s.Sync(1))
	testenv.NoError(t, s.Close())
	s = open(t, dir, o)
	defer s.Close()
	restore(t, s, body)
	expectValues(t, s, points...)
}

// TestDeletedFolder deletes the folder of an open store, and expects new values to be stored without a restart. No
// value in memory is lost.
func TestDeletedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "series")
	o := Options{Range: 5 * time.Minute, LateWindow: time.Hour}
	s := open(t, dir, o)
	var ref Series
	points := appendValues(t, s, &ref, 0, 200)
	snapshot(t, s)
	testenv.NoError(t, os.RemoveAll(dir))
	points = append(points, appendValues(t, s, &ref, 200, 300)...)
	body := snapshot(t, s)
	expectValues(t, s, points...)
	testenv.NoError(t, s.Close())
	s = open(t, dir, o)
	defer func() { testenv.NoError(t, s.Close()) }()
	restore(t, s, body)
	expectValues(t, s, points...)

	testenv.NoError(t, os.RemoveAll(dir))
	points = append(points, appendValues(t, s, new(Series), 300, 1000)...)
	testenv.NoError(t, os.WriteFile(dir, nil, 0o600)) // no folder can be made
	first, second := s.maintain(), s.maintain()
	if first == nil || second == nil {
		t.Error("blocks are written to a file")
	}
	expectValues(t, s, points...)
	testenv.NoError(t, os.Remove(dir))
	maintain(t, s)
	expectValues(t, s, points...)
	if len(s.view.blocks) != 2 {
		t.Errorf("%d blocks", len(s.view.blocks))
	}
}

// TestMissingFile restores a snapshot whose chunk file is missing, and expects only the values inside the snapshot.
func TestMissingFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	points := appendValues(t, s, new(Series), 0, 500)
	inFile := int(firstChunkLimit(load))
	for inFile+maxSamples < len(points) {
		inFile += maxSamples
	}
	body := snapshot(t, s)
	testenv.NoError(t, s.Close())
	testenv.NoError(t, os.RemoveAll(filepath.Join(dir, headFolder)))
	s = open(t, dir, Options{})
	defer s.Close()
	restore(t, s, body)
	expectValues(t, s, points[inFile:]...)
}

// TestDamagedBlockIsSetAside opens a store with a damaged block, and expects a renamed block and all other values.
func TestDamagedBlockIsSetAside(t *testing.T) {
	dir := t.TempDir()
	o := Options{Range: 5 * time.Minute, LateWindow: time.Hour}
	s := open(t, dir, o)
	appendValues(t, s, new(Series), 0, 1200)
	maintain(t, s)
	body := snapshot(t, s)
	if len(s.view.blocks) < 2 {
		t.Fatalf("%d blocks", len(s.view.blocks))
	}
	path := s.view.blocks[0].Dir()
	testenv.NoError(t, s.Close())
	testenv.NoError(t, os.WriteFile(filepath.Join(path, "index"), []byte("no index"), 0o600))
	s = open(t, dir, o)
	defer s.Close()
	restore(t, s, body)
	got := read(t, s)[load.String()]
	if len(got) == 0 || len(got) == 1200 || got[len(got)-1].value != 1199 {
		t.Errorf("values %v", got)
	}
	if _, err := os.Stat(path + damagedSuffix); err != nil {
		t.Error(err)
	}
}

// TestLateValuesOfWrittenRanges appends late values to a time range already on disk, and expects an additional block.
// The blocks are merged.
func TestLateValuesOfWrittenRanges(t *testing.T) {
	dir := t.TempDir()
	o := Options{Range: 5 * time.Minute, LateWindow: time.Hour}
	s := open(t, dir, o)
	defer func() { testenv.NoError(t, s.Close()) }()
	var ref Series
	points := appendValues(t, s, &ref, 0, 1000)
	maintain(t, s)
	for _, i := range []int{100, 400, 400, 950} {
		add(t, s, &ref, load, int64(i)*1e9+500e6, 0.5)
	}
	points = append(points, point{100_500, 0.5}, point{400_500, 0.5}, point{400_501, 0.5}, point{950_500, 0.5})
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.ms, b.ms) })
	expectValues(t, s, points...)
	s = restart(t, s, func() Store { return open(t, dir, o) }).(*db)
	expectValues(t, s, points...)
	points = append(points, appendValues(t, s, new(Series), 1000, 1500)...)
	maintain(t, s)
	expectValues(t, s, points...)
	for _, of := range s.partitions[0].late {
		t.Errorf("late values stay in memory: %v", of)
	}
	for i, b := range s.view.blocks[1:] {
		if b.MinTime() < s.view.blocks[i].MaxTime() {
			t.Errorf("blocks overlap: %v and %v", s.view.blocks[i], b)
		}
	}
	if c := s.Counts(); c.Moved != 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestInactiveSeriesLeaveMemory expects a series without recent values to leave the memory, and to return with its next value.
// The reference stays the same.
func TestInactiveSeriesLeaveMemory(t *testing.T) {
	s := open(t, t.TempDir(), Options{Range: 5 * time.Minute, LateWindow: time.Hour, MaxSeries: limitSeries(2)})
	defer s.Close()
	var ref, other Series
	appendValues(t, s, &ref, 0, 10)
	for i := range 2000 {
		add(t, s, &other, Labels("b", "web-1", "default", "linux"), int64(i)*1e9, 1)
	}
	maintain(t, s)
	hashes := 0
	for i := range s.index.stripes {
		hashes += len(s.index.stripes[i].byHash)
	}
	if n := len(s.index.byRef); n != 1 || len(s.partitions[0].series) != 1 || hashes != 1 || *s.index.counts.namespaces["default"] != (seriesCount{values: 1}) {
		t.Errorf("%d series in the head", n)
	}
	expectValues(t, s, append(filledValues(0, 10), appendValues(t, s, &ref, 2000, 2010)...)...)
}

// TestQueriesDuringWrites queries during appends, snapshots and block writes, and expects every query to find
// all earlier values.
func TestQueriesDuringWrites(t *testing.T) {
	s := open(t, t.TempDir(), Options{Range: 5 * time.Minute, LateWindow: time.Hour})
	defer s.Close()
	var appended atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var ref Series
		for i := range 2500 {
			appendValues(t, s, &ref, i, i+1)
			if appended.Add(1); i%100 == 0 {
				if s.WriteChunks(0); s.Sync(0) != nil {
					t.Error("no sync")
				}
			}
			if i%700 == 0 {
				if err := s.maintain(); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		least := int(appended.Load())
		if got := read(t, s)[load.String()]; len(got) < least || !slices.Equal(got, filledValues(0, len(got))) {
			t.Fatalf("%d values %v, at least %d were appended", len(got), got, least)
		}
	}
}

// TestEqualSeriesOfPartitionsAreJoined gives two partitions a series with the same labels, and expects queries to return one joined series. That
// happens when a node is deleted and created again.
func TestEqualSeriesOfPartitionsAreJoined(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Range: 5 * time.Minute, LateWindow: time.Hour})
	defer s.Close()
	points := appendValues(t, s, new(Series), 0, 200)
	var twin Series
	for i := 200; i < 1000; i++ {
		s.Append(9, &twin, func() labels.Labels { return load }, start*1e6+int64(i)*1e9, float64(i))
		points = append(points, point{int64(i) * 1000, float64(i)})
	}
	expectValues(t, s, points...)
	maintain(t, s)
	expectValues(t, s, points...)
	if n := len(s.index.byRef); n != 1 || len(s.partitions[0].series) != 0 {
		t.Errorf("%d series in the index", n)
	}
}

// TestEqualSeriesOutliveEachOther removes one of two equal series before the other is published. It expects queries to find the
// other, and the namespace to have one series.
func TestEqualSeriesOutliveEachOther(t *testing.T) {
	s := open(t, t.TempDir(), Options{LateWindow: time.Hour})
	defer s.Close()
	appendValues(t, s, new(Series), 0, 10)
	s.index.publish()
	s.Append(9, new(Series), func() labels.Labels { return load }, start*1e6, 0)
	created := s.index.created.list
	s.index.created.list = nil // as if the series were created while the other is removed
	s.index.remove(s.partitions[0].series)
	s.partitions[0].reset()
	s.index.created.list = created
	expectValues(t, s, filledValues(0, 1)...)
	if n := s.SeriesCount("default"); n != 1 {
		t.Errorf("the namespace has %d series", n)
	}
}

// TestSeriesCreatedAtOnceAreFound creates the same series in several partitions at once, while queries read. It expects
// each series once, with the values of all partitions.
func TestSeriesCreatedAtOnceAreFound(t *testing.T) {
	const names, writers = 200, 4
	s := open(t, t.TempDir(), Options{LateWindow: time.Hour})
	defer s.Close()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range names {
				l := Labels(fmt.Sprint("item", i), "web-1", "default", "linux")
				s.Append(model.Partition(w), new(Series), func() labels.Labels { return l }, start*1e6+int64(w)*1e9, float64(w))
				if len(read(t, s)[l.String()]) == 0 {
					t.Error("a query does not find a series that was created before", l)
				}
			}
		})
	}
	all.Wait()
	found := read(t, s)
	for i := range names {
		if got := found[Labels(fmt.Sprint("item", i), "web-1", "default", "linux").String()]; !slices.Equal(got, filledValues(0, writers)) {
			t.Errorf("item%d has the values %v", i, got)
		}
	}
	if n := s.SeriesCount("default"); len(found) != names || n != names || len(s.index.byRef) != names {
		t.Errorf("queries find %d series, the namespace has %d", len(found), n)
	}
}

// TestChangedRangeLengthKeepsValues restores a snapshot after a change of the length of time ranges, and expects all values.
func TestChangedRangeLengthKeepsValues(t *testing.T) {
	dir := t.TempDir()
	o := Options{Range: 5 * time.Minute, LateWindow: time.Hour}
	s := open(t, dir, o)
	points := appendValues(t, s, new(Series), 0, 700)
	maintain(t, s)
	body := snapshot(t, s)
	testenv.NoError(t, s.Close())
	o.Range = 7 * time.Minute
	s = open(t, dir, o)
	defer s.Close()
	restore(t, s, body)
	expectValues(t, s, points...)
	points = append(points, appendValues(t, s, new(Series), 700, 2000)...)
	maintain(t, s)
	expectValues(t, s, points...)
}

// TestRangeFileGolden compares a chunk file with golden bytes.
func TestRangeFileGolden(t *testing.T) {
	b := appendRecord(appendRangeHeader(nil), chunkRecord{min: start, max: start + 1, prev: 16, data: []byte{0, 1, 2}})
	testenv.Golden(t, "testdata/range.golden", b)
}

// TestHeadGolden compares the recent values of a partition in a snapshot with golden bytes.
func TestHeadGolden(t *testing.T) {
	fs := faultfs.New(disk.OS{})
	s := open(t, t.TempDir(), Options{FS: fs, LateWindow: time.Hour})
	defer s.Close()
	var ref Series
	appendValues(t, s, &ref, 0, 300)
	snapshot(t, s)
	fs.Fail(faultfs.Write, syscall.ENOSPC)
	appendValues(t, s, &ref, 300, 400)
	add(t, s, &ref, load, 5e8, 1)
	s.WriteChunks(0)
	testenv.Golden(t, "testdata/head.golden", s.Encode(0, nil))
}

// FuzzDecodeHead decodes random bytes as the recent values of a partition, and expects an error or usable series.
func FuzzDecodeHead(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "head.golden"))
	testenv.NoError(f, err)
	f.Add(golden)
	f.Fuzz(func(t *testing.T, body []byte) {
		s := open(t, t.TempDir(), Options{})
		defer s.Close()
		d := shard.NewDecoder(body)
		if s.Decode(0, d); d.Err() == nil {
			again := s.Encode(0, nil)
			restore(t, s, again)
		} else if len(s.partitions[0].series) > 0 || len(s.index.byRef) > 0 {
			t.Error("series stay after an error")
		}
	})
}

// FuzzParseRecord decodes random bytes as a record of a chunk file, and expects an error or a record.
func FuzzParseRecord(f *testing.F) {
	f.Add(appendRecord(nil, chunkRecord{min: start, max: start + 1, prev: 16, data: []byte{0, 1, 2}}))
	f.Add(appendRangeHeader(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parseRangeHeader(b)
		r, need, err := parseRecord(b)
		if err == nil && need == 0 && string(appendRecord(nil, r)) != string(b[:recordHeader+len(r.data)]) {
			t.Errorf("record %v is written in another way", r)
		}
		if need > recordHeader+maxChunk {
			t.Errorf("needs %d bytes", need)
		}
	})
}

// TestDenseValuesAreRefused appends too many values with the time of one millisecond, and expects refusals of the
// excess. Values come in order and late. The store refuses the excess at once, and the next regular value keeps its
// time.
func TestDenseValuesAreRefused(t *testing.T) {
	s := open(t, t.TempDir(), Options{LateWindow: time.Hour})
	defer s.Close()
	var ref Series
	for i := range 100_000 {
		add(t, s, &ref, load, int64(i), float64(i%2))
	}
	if c := s.Counts(); c != (Counts{Values: maxShift + 1, Moved: maxShift, Dense: 100_000 - maxShift - 1}) {
		t.Errorf("in order: %+v", c)
	}
	add(t, s, &ref, load, 60e9, 5)
	before := s.Counts()
	for i := range 100_000 {
		add(t, s, &ref, load, 30e9+int64(i), float64(i%2))
	}
	if c := s.Counts(); c.Values-before.Values != maxShift+1 || c.Dense-before.Dense != 100_000-maxShift-1 {
		t.Errorf("late: %+v", c)
	}
	before = s.Counts()
	for i := range 100_000 {
		add(t, s, &ref, load, int64(29_000_000-i)*1e3, 1) // ns: one value per µs, backwards
	}
	for i := range 29_000 {
		add(t, s, &ref, load, int64(29_000-i)*1e6, 1)
	}
	if c := s.Counts(); c.Values-before.Values > 2*maxDisplaced {
		t.Errorf("backwards: %+v after %+v", c, before)
	}
	got := read(t, s)[load.String()]
	if last := got[len(got)-1]; last != (point{60_000, 5}) {
		t.Errorf("the regular value is %v", last)
	}
}

// TestSizeLimit fills a store beyond the size limit of its blocks, and expects old values to be deleted. The
// newest values stay.
func TestSizeLimit(t *testing.T) {
	s := open(t, t.TempDir(), Options{Range: 5 * time.Minute, LateWindow: time.Hour, MaxBytes: 20 << 10})
	defer s.Close()
	var ref Series
	points := appendValues(t, s, &ref, 0, 8*3600)
	testenv.NoError(t, s.Sync(0))
	maintain(t, s)
	maintain(t, s)
	got, size := read(t, s)[load.String()], int64(0)
	for _, b := range s.view.blocks {
		size += b.Size()
	}
	if size > 20<<10 || len(got) < 300 || len(got) == len(points) || !slices.Equal(got, points[len(points)-len(got):]) {
		t.Errorf("blocks have %d bytes, %d of %d values", size, len(got), len(points))
	}
}

// TestLateValuesAtUsedTimes stores a late value at the time of each stored value, and expects all values in order.
// Each late value is directly after the value with its time. The order is random, over two time ranges.
func TestLateValuesAtUsedTimes(t *testing.T) {
	const width, count = 300, 900 // s of a range; values
	dir := t.TempDir()
	o := Options{LateWindow: 24 * time.Hour, Range: width * time.Second}
	s := open(t, dir, o)
	defer func() { testenv.NoError(t, s.Close()) }()
	var ref Series
	points := appendValues(t, s, &ref, 0, count)
	s = restart(t, s, func() Store { return open(t, dir, o) }).(*db)
	ref = Series{}
	wanted := slices.Clone(points)
	for _, at := range rand.New(rand.NewPCG(1, 2)).Perm(count - 1) {
		add(t, s, &ref, load, int64(at)*1e9, -1)
		wanted = append(wanted, point{int64(at)*1000 + 1, -1})
	}
	slices.SortFunc(wanted, func(a, b point) int { return cmp.Compare(a.ms, b.ms) })
	expectValues(t, s, wanted...)
	s = restart(t, s, func() Store { return open(t, dir, o) }).(*db)
	expectValues(t, s, wanted...)
}

// TestLateValueAtTimeInFile stores a late value at the time of a value in a file, and expects two values. The
// store restarts.
func TestLateValueAtTimeInFile(t *testing.T) {
	dir := t.TempDir()
	o := Options{LateWindow: time.Hour}
	s := open(t, dir, o)
	defer func() { testenv.NoError(t, s.Close()) }()
	var ref Series
	points := appendValues(t, s, &ref, 0, int(firstChunkLimit(load))+10)
	s = restart(t, s, func() Store { return open(t, dir, o) }).(*db)
	ref = Series{}
	late := int64(firstChunkLimit(load)) - 5
	add(t, s, &ref, load, late*1e9, -1)
	wanted := slices.Insert(points, int(late)+1, point{late*1000 + 1, -1})
	expectValues(t, s, wanted...)
	s = restart(t, s, func() Store { return open(t, dir, o) }).(*db)
	expectValues(t, s, wanted...)
}
