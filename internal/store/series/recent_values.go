package series

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/model"
)

// maxSamples is the most values of a chunk.
const maxSamples = 120

// headPartition has the series of one partition (a share of all series), with recent values in memory.
type headPartition struct {
	mu        sync.Mutex
	series    []*headSeries           // in the order in which they came
	late      map[*headSeries][]point // late values, by time
	newest    int64                   // time of the newest value, ms
	oldest    int64                   // no chunk has an older value, ms
	lates     int                     // values in late
	reads     int                     // of files for late values, less one for each value since: at most maxReads
	counts    Counts                  // since the store was opened
	unwritten int                     // bytes of full chunks that the last write could not write
	fault     error                   // why
}

// point is one value of a series, with its time.
type point struct {
	ms    int64
	value float64
}

// headSeries is one series in memory, with its recent values. It has an open chunk, full chunks and late values.
type headSeries struct {
	// Append needs these fields up to open.data, which fit a cache line of 64 bytes.
	newestStored int64  // time of the newest value as it was stored, ms
	moved        uint16 // how much later that is than the time with which it came, ms: at most maxShift
	limit        uint8  // values at which open is full
	removed      bool   // it has left the head
	bound        bool   // of a number in results of a check: see isBound
	refused      bool   // only of db.refused
	open         openChunk

	openMin    int64         // time of the first value of open
	full       []fullChunk   // that no sync has covered, by time
	saved      []syncedChunk // by file
	labels     labels.Labels
	partition  *headPartition
	ref        storage.SeriesRef
	next, twin *headSeries // see seriesIndex
}

// fullChunk is a chunk to which no more values are appended.
type fullChunk struct {
	min, max int64
	data     []byte
	file     *rangeFile
	offset   int64 // where it is written; 0: nowhere yet
}

// syncedChunk is the newest synced chunk of a series in a file, with its offset.
type syncedChunk struct {
	file   *rangeFile
	offset int64
}

// reset removes all recent values of the partition from memory. The caller holds the mutex.
func (p *headPartition) reset() {
	p.series, p.late, p.lates, p.unwritten, p.fault = nil, map[*headSeries][]point{}, 0, 0, nil
	p.newest, p.oldest = math.MinInt64, math.MaxInt64
}

// maxShift limits how far a value is moved from its time, in ms.
const maxShift = 1000

// maxDisplaced limits the late values of a series that a further late value moves in memory.
const maxDisplaced = 8192

// chooseTime chooses the millisecond at which a new value is stored. A value in the millisecond of the one before it is
// moved; ok is false if it would be moved too far.
func (s *headSeries) chooseTime(at int64) (ms int64, moved, late, ok bool) {
	given := at / 1e6
	if given < s.arrivalTime() {
		return given, false, true, true
	}
	ms = given
	if s.newestStored != 0 && ms <= s.newestStored {
		ms, moved = s.newestStored+1, true
	}
	if ms-given > maxShift {
		return given, false, false, false
	}
	s.newestStored, s.moved = ms, uint16(ms-given)
	return ms, moved, false, true
}

// arrivalTime returns the original time of the newest value, before a move to a free millisecond. The method
// place may have moved the value.
func (s *headSeries) arrivalTime() int64 { return s.newestStored - int64(s.moved) }

// Append appends a value to a series.
func (s *db) Append(id model.Partition, ref *Series, name func() labels.Labels, at int64, value float64) (ms int64, ok bool) {
	p := &s.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	of := ref.of
	if of == nil || of.removed {
		if of, _ = s.findSeries(p, ref, name()); of == nil {
			return 0, false
		}
	}
	ms, moved, late, ok := of.chooseTime(at)
	if !ok {
		p.counts.Dense++
		return 0, false
	}
	if !s.isRecentEnough(p, ms) {
		return 0, false
	}
	if late || ms < s.sealed.Load() {
		free, ok := p.addLate(of, ms, value)
		if !ok {
			p.counts.Dense++
			return 0, false
		}
		moved, ms = moved || free != ms, free
		if ms > of.newestStored { // it was moved behind the newest value: the next one gets a later time
			of.newestStored, of.moved = ms, uint16(ms-of.arrivalTime())
		}
	} else {
		s.add(p, of, ms, value)
	}
	p.newest = max(p.newest, ms)
	p.counts.Values++
	p.reads = max(0, p.reads-1)
	if moved {
		p.counts.Moved++
	}
	return ms, true
}

// Insert adds a value unless the series already has a value at that time.
func (s *db) Insert(id model.Partition, ref *Series, l labels.Labels, ms int64, value float64) Outcome {
	p := &s.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	of := ref.of
	if of == nil || of.removed {
		var refused Outcome
		if of, refused = s.findSeries(p, ref, l); of == nil {
			return refused
		}
	}
	late := of.newestStored != 0 && ms <= of.newestStored
	switch {
	case !s.isRecentEnough(p, ms):
		return Late
	case ms == of.newestStored && late:
		p.counts.Doubled++
		return Doubled
	case late || ms < s.sealed.Load():
		if _, taken := p.lateIndex(of, ms); taken || (&punctualValues{partition: p, of: of}).has(ms) {
			p.counts.Doubled++
			return Doubled
		}
		if _, ok := p.addLate(of, ms, value); !ok {
			p.counts.Dense++
			return Dense
		}
	default:
		of.newestStored, of.moved = ms, 0
		s.add(p, of, ms, value)
	}
	p.newest = max(p.newest, ms)
	p.counts.Values++
	p.reads = max(0, p.reads-1)
	return Stored
}

// findSeries returns the series of a Series handle, and creates a missing series. It returns nil if the
// namespace or the check has too many series. After a refusal by the namespace's limit, the handle refers to
// db.refused. Call it with the partition's mutex.
func (s *db) findSeries(p *headPartition, ref *Series, l labels.Labels) (*headSeries, Outcome) {
	of, outcome := s.index.find(p, l, seriesLimits{s.options.MaxSeries, s.options.MaxCheckSeries})
	ref.of = of
	switch outcome {
	case NamespaceFull:
		p.counts.Unbounded++
		ref.of = &s.refused
	case CheckFull:
		p.counts.Crowded++
	}
	return of, outcome
}

// isRecentEnough reports whether a partition still accepts a value of a given time, and counts refused values.
func (s *db) isRecentEnough(p *headPartition, ms int64) bool {
	timely := p.newest == math.MinInt64 || ms >= p.newest-s.options.LateWindow.Milliseconds()
	if !timely {
		p.counts.Late++
	}
	return timely
}

// add appends a value to the open chunk of a series, or to a new chunk. The series has no newer value, and the
// caller holds the mutex of the partition.
func (s *db) add(p *headPartition, of *headSeries, ms int64, value float64) {
	inRange := of.open.count > 0 && ms < min(s.rangeEnd(of.open.last), of.open.last+maxDelta)
	if of.open.count > 0 && (of.open.count >= of.limit || !inRange) {
		s.closeChunk(of)
	}
	if of.open.count == 0 {
		of.openMin, p.oldest, of.limit = ms, min(p.oldest, ms), maxSamples
		if !inRange {
			of.limit = firstChunkLimit(of.labels)
		}
	}
	of.open.append(ms, value)
}

// firstChunkLimit returns how many values the first chunk of a series holds. It differs, so that series with equal
// intervals do not fill their chunks at the same time: memory would grow and shrink with them.
func firstChunkLimit(l labels.Labels) uint8 { return uint8(maxSamples/4 + l.Hash()%(maxSamples*3/4+1)) }

// closeChunk ends the open chunk of a series, so that the next value begins a new chunk. The caller holds the
// mutex of the partition.
func (s *db) closeChunk(of *headSeries) {
	of.full = append(of.full, fullChunk{min: of.openMin, max: of.open.last, data: of.open.bytes(), file: s.chunkFileAt(of.openMin)})
	of.open = openChunk{}
}

// addLate inserts a late value, which is older than the newest value of its series. Where its series has a late value
// at that time, it takes the next free millisecond, which it returns. ok is false if that is too far away, or if too
// many later values would make room: late values come in order of time, but for a few.
func (p *headPartition) addLate(of *headSeries, ms int64, value float64) (free int64, ok bool) {
	list := p.late[of]
	at, taken := p.lateIndex(of, ms)
	values := punctualValues{partition: p, of: of}
	for shift := 0; taken || values.has(ms); shift++ {
		if shift == maxShift || ms >= of.arrivalTime()+maxShift {
			return 0, false
		}
		if taken {
			at++
		}
		ms++
		taken = at < len(list) && list[at].ms == ms
	}
	if len(list)-at > maxDisplaced {
		return 0, false
	}
	p.late[of] = slices.Insert(list, at, point{ms, value})
	p.lates++
	return ms, true
}

// punctualValues finds values of a series by time, except the values that arrived late. A late value must not
// get the time of one, because queries return one value per time.
type punctualValues struct {
	partition *headPartition
	of        *headSeries
	file      *rangeFile    // that records are of; nil: none was read
	records   []chunkRecord // of the series, newest first
	next      int64         // offset of the record before them; 0: there is none
}

// maxReads limits the reads of files for late values in a partition at once. Each value allows one more. So late
// values cost about one read each at most, whatever a node sends. Beyond it a time counts as free, a query may return
// one of two values, and the value is counted.
const maxReads = 4096

// has reports whether the series has a value at a time, other than a late value.
func (x *punctualValues) has(ms int64) bool {
	of := x.of
	if of.open.count > 0 && ms >= of.openMin {
		return ms <= of.open.last && chunkHas(of.open.bytes(), ms)
	}
	for _, c := range slices.Backward(of.full) {
		if ms >= c.min {
			return ms <= c.max && chunkHas(c.data, ms)
		}
	}
	for _, t := range slices.Backward(of.saved) {
		if ms >= t.file.start {
			return ms < t.file.end && x.inFile(t, ms)
		}
	}
	return false
}

// inFile reports whether a file has a value of the series at a time.
func (x *punctualValues) inFile(t syncedChunk, ms int64) bool {
	if x.file != t.file {
		x.file, x.records, x.next = t.file, nil, t.offset
	}
	for n := len(x.records); x.next != 0 && (n == 0 || x.records[n-1].min > ms); n++ {
		if x.partition.reads >= maxReads {
			x.partition.counts.Unchecked++
			break
		}
		x.partition.reads++
		r, _, err := t.file.read(x.next, make([]byte, firstRead))
		if err != nil {
			x.next = 0 // a query reports the damage
			break
		}
		x.records, x.next = append(x.records, r), r.prev
	}
	for _, r := range x.records {
		if ms >= r.min {
			return ms <= r.max && chunkHas(r.data, ms)
		}
	}
	return false
}

// chunkHas reports whether a chunk has a value at a time.
func chunkHas(data []byte, ms int64) bool {
	found, _ := appendPoints(nil, data, ms, ms) // a query reports the damage
	return len(found) > 0
}

// lateIndex finds by binary search where a time belongs among the late values of a series. taken is true if a late
// value has the time already.
func (p *headPartition) lateIndex(of *headSeries, ms int64) (at int, taken bool) {
	return slices.BinarySearchFunc(p.late[of], ms, func(x point, ms int64) int { return cmp.Compare(x.ms, ms) })
}

// rangeStart returns the start of the store's fixed-length time range that contains a time.
func (s *db) rangeStart(ms int64) int64 {
	width := s.options.Range.Milliseconds()
	start := ms - ms%width
	if ms%width < 0 {
		start -= width
	}
	return start
}

// rangeEnd returns the end of the time range that contains a time, as the first later time.
func (s *db) rangeEnd(ms int64) int64 { return s.rangeStart(ms) + s.options.Range.Milliseconds() }

// chunkFileAt returns the chunk file whose time range contains a given time.
func (s *db) chunkFileAt(ms int64) *rangeFile {
	start := s.rangeStart(ms)
	return s.chunkFile(start, s.rangeEnd(start))
}

// chunkFile returns the chunk file for the time range from start to end.
func (s *db) chunkFile(start, end int64) *rangeFile {
	s.filesMu.Lock()
	defer s.filesMu.Unlock()
	key := [2]int64{start, end}
	if s.files[key] == nil {
		s.files[key] = &rangeFile{fs: s.options.FS, dir: s.headDir(), start: start, end: end}
	}
	return s.files[key]
}

// writtenChunks returns the full chunks of a series before the first chunk that is not on disk. The files of
// snapshots have no others, so that the chunks of a series stay in the order of time.
func (of *headSeries) writtenChunks() []fullChunk {
	if n := slices.IndexFunc(of.full, func(c fullChunk) bool { return c.offset == 0 }); n >= 0 {
		return of.full[:n]
	}
	return of.full
}

// newestOffset returns the offset of a series' newest chunk in a chunk file, or 0 for none. The chunk is among
// those that are synced and some full chunks.
func (of *headSeries) newestOffset(file *rangeFile, full []fullChunk) (offset int64) {
	for _, t := range of.saved {
		if t.file == file {
			offset = t.offset
		}
	}
	for _, c := range full {
		if c.file == file && c.offset != 0 {
			offset = c.offset
		}
	}
	return offset
}

// maxUnwritten limits the unwritten full chunks of a partition in snapshots, in bytes. Their file could not be
// written.
const maxUnwritten = 4 << 20

// WriteChunks writes the full chunks of a partition that are not on disk yet to chunk files. It takes the partition's mutex
// for moments only. Chunks that it cannot write stay in memory.
func (s *db) WriteChunks(id model.Partition) {
	p := &s.partitions[id]
	var fault error
	for _, file := range p.unwrittenFiles() {
		first := int64(math.MaxInt64)
		if err := file.write(func(at int64) (b []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			first = at
			for _, of := range p.series {
				for i := range of.full {
					if c := &of.full[i]; c.file == file && c.offset == 0 {
						prev := of.newestOffset(file, of.full)
						c.offset = at + int64(len(b))
						b = appendRecord(b, chunkRecord{c.min, c.max, prev, c.data})
					}
				}
			}
			return b
		}); err != nil && !errors.Is(err, errRemoved) {
			fault = fmt.Errorf("write chunk file %q: %w", file.path(), err)
			p.markUnwritten(file, first)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unwritten, p.fault = 0, fault
	if fault != nil {
		for _, of := range p.series {
			for _, c := range of.full[len(of.writtenChunks()):] {
				p.unwritten += len(c.data)
			}
		}
	}
}

// unwrittenFiles returns the chunk files to which full chunks must still be written.
func (p *headPartition) unwrittenFiles() (files []*rangeFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.series {
		for i := range of.full {
			c := &of.full[i]
			if c.offset != 0 && c.file.mayHaveLost(c.offset) {
				c.offset = 0
			}
			if c.offset == 0 && !slices.Contains(files, c.file) {
				files = append(files, c.file)
			}
		}
	}
	return files
}

// markUnwritten marks chunks from a file offset on as unwritten, so that the store writes the chunks again.
func (p *headPartition) markUnwritten(file *rangeFile, from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.series {
		for i := range of.full {
			if c := &of.full[i]; c.file == file && c.offset >= from {
				c.offset = 0
			}
		}
	}
}

// Sync syncs the chunk files that the last snapshot of a partition refers to. It takes the partition's mutex for
// moments only.
func (s *db) Sync(id model.Partition) error {
	p := &s.partitions[id]
	p.mu.Lock()
	covered := map[*rangeFile]int64{}
	for _, of := range p.series {
		for _, c := range of.full {
			if c.offset != 0 {
				covered[c.file] = 0
			}
		}
	}
	fault := p.fault
	tolerable := fault == nil || p.unwritten <= maxUnwritten // the snapshot has them
	p.mu.Unlock()
	for file := range covered {
		end, err := file.sync()
		if err != nil {
			err = fmt.Errorf("sync chunk file %q: %w", file.path(), err)
			s.headFault.Store(&err)
			return err
		}
		covered[file] = end
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.series {
		kept := of.full[:0]
		for _, c := range of.full {
			switch {
			case c.offset != 0 && c.file.mayHaveLost(c.offset):
				fault, tolerable = fmt.Errorf("an earlier sync of %q failed", c.file.path()), false
				kept = append(kept, c)
			case len(kept) > 0 || c.offset == 0 || c.offset >= covered[c.file]:
				kept = append(kept, c)
			default:
				of.setSyncedOffset(c.file, c.offset)
			}
		}
		clear(of.full[len(kept):])
		if of.full = kept; len(kept) == 0 {
			of.full = nil
		}
	}
	if s.headFault.Store(nil); fault != nil {
		s.headFault.Store(&fault)
	}
	if tolerable {
		return nil
	}
	return fault
}

// setSyncedOffset records the file offset of a series' newest synced chunk. Call it in the order of time.
func (of *headSeries) setSyncedOffset(file *rangeFile, offset int64) {
	for i := range of.saved {
		if of.saved[i].file == file {
			of.saved[i].offset = offset
			return
		}
	}
	of.saved = append(of.saved, syncedChunk{file, offset})
}

// dropValues removes values before a time from memory, because blocks on disk now have the values. Series without values
// leave the head.
func (s *db) dropValues(p *headPartition, end int64, read map[*headSeries][]point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oldest = math.MaxInt64
	var gone []*headSeries
	for _, of := range p.series {
		if of.open.last < end {
			of.open = openChunk{}
		}
		of.full = slices.DeleteFunc(of.full, func(c fullChunk) bool { return c.max < end })
		of.saved = slices.DeleteFunc(of.saved, func(t syncedChunk) bool { return t.file.end <= end })
		if stored := read[of]; len(stored) > 0 {
			p.removeLate(of, stored)
		}
		if p.updateOldest(of); of.isEmpty() && p.late[of] == nil && of.newestStored < end {
			gone = append(gone, of)
		}
	}
	if len(gone) > 0 {
		s.index.remove(gone)
		p.series = slices.DeleteFunc(p.series, func(of *headSeries) bool { return of.removed })
	}
}

// updateOldest lowers the time of the partition's oldest value, if a series has an older value.
func (p *headPartition) updateOldest(of *headSeries) {
	if of.open.count > 0 {
		p.oldest = min(p.oldest, of.openMin)
	}
	for _, c := range of.full {
		p.oldest = min(p.oldest, c.min)
	}
	for _, t := range of.saved {
		p.oldest = min(p.oldest, t.file.start)
	}
}

// newestWithoutLate returns the newest value of a series, if the series has no late values. ok is false for other series,
// and for series without an open chunk.
func (of *headSeries) newestWithoutLate() (v point, ok bool) {
	of.partition.mu.Lock()
	defer of.partition.mu.Unlock()
	return point{of.open.last, math.Float64frombits(of.open.value)}, of.open.count > 0 && len(of.partition.late[of]) == 0
}

// isEmpty reports whether a series has no chunks.
func (of *headSeries) isEmpty() bool {
	return of.open.count == 0 && len(of.full) == 0 && len(of.saved) == 0
}

// removeLate removes late values that are in a block now.
func (p *headPartition) removeLate(of *headSeries, stored []point) {
	list := p.late[of]
	p.lates -= len(list)
	list = slices.DeleteFunc(list, func(x point) bool {
		at, ok := slices.BinarySearchFunc(stored, x.ms, func(x point, ms int64) int { return cmp.Compare(x.ms, ms) })
		return ok && math.Float64bits(stored[at].value) == math.Float64bits(x.value)
	})
	if p.lates += len(list); len(list) > 0 {
		p.late[of] = list
	} else {
		delete(p.late, of)
	}
}
