package series

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/model"
)

// HeadVersion is the first byte of a partition's recent values in a snapshot. docs/snapshot-format.md has the table of
// fields.
const HeadVersion = 1

// appendText appends the length of a text and the text.
func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Encode appends the recent values of a partition to a snapshot. It contains the full chunks that no file has.
func (s *db) Encode(id model.Partition, b []byte) []byte {
	p := &s.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	var files []*rangeFile
	note := func(f *rangeFile) {
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	for _, of := range p.series {
		for _, t := range of.saved {
			note(t.file)
		}
		for _, c := range of.full {
			note(c.file)
		}
	}
	slices.SortFunc(files, func(a, b *rangeFile) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	b = append(b, HeadVersion)
	b = binary.AppendVarint(b, s.options.Range.Milliseconds())
	b = binary.AppendVarint(b, p.newest)
	b = binary.AppendUvarint(b, uint64(len(files)))
	for _, f := range files {
		b = binary.AppendVarint(b, f.start)
		b = binary.AppendVarint(b, f.end)
	}
	b = binary.AppendUvarint(b, uint64(len(p.series)))
	for _, of := range p.series {
		b = of.encode(b, files, p.late[of])
	}
	return b
}

// encode appends the state of a series to a snapshot.
func (of *headSeries) encode(b []byte, files []*rangeFile, late []point) []byte {
	b = binary.AppendUvarint(b, uint64(of.labels.Len()))
	of.labels.Range(func(l labels.Label) { b = appendText(appendText(b, l.Name), l.Value) })
	b = binary.AppendVarint(b, of.newestStored)
	b = binary.AppendUvarint(b, uint64(of.moved))
	if b = of.open.encode(b); of.open.count > 0 {
		b = append(binary.AppendVarint(b, of.openMin), of.limit)
	}
	written := of.writtenChunks()
	for _, f := range files {
		b = binary.AppendUvarint(b, uint64(of.newestOffset(f, written)))
	}
	waiting := of.full[len(written):]
	b = binary.AppendUvarint(b, uint64(len(waiting)))
	for _, c := range waiting {
		b = appendText(b, c.data)
	}
	b = binary.AppendUvarint(b, uint64(len(late)))
	before := of.newestStored
	for _, v := range late {
		b = binary.AppendVarint(b, v.ms-before)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.value))
		before = v.ms
	}
	return b
}

// encode appends the open chunk and the state of its encoder to a snapshot.
func (c *openChunk) encode(b []byte) []byte {
	if c.count == 0 {
		return append(b, 0)
	}
	b = c.appendTo(binary.AppendUvarint(b, uint64(c.size())))
	b = binary.AppendVarint(b, c.last)
	b = binary.LittleEndian.AppendUint64(b, c.value)
	b = binary.AppendUvarint(b, uint64(c.delta))
	return append(b, -c.used%8, c.leading, c.trailing)
}

// decodeOpenChunk reads the open chunk of a series from a snapshot.
func decodeOpenChunk(d Decoder) (c openChunk) {
	data := d.Bytes()
	if len(data) == 0 {
		return c
	}
	last, value, delta, free, leading, trailing := d.Int(), d.Fixed64(), d.Uint(), d.Byte(), d.Byte(), d.Byte()
	if d.Err() != nil {
		return c
	}
	c = openChunk{last: last, value: value, delta: uint32(delta), leading: leading, trailing: trailing}
	if len(data) > chunkHeader && len(data) <= maxChunk && data[0] == 0 && delta <= maxDelta && free < 8 {
		c.count = data[1]
		c.setData(data, free)
	}
	if !c.isValid() {
		d.Fail("open chunk of a series")
		return openChunk{}
	}
	return c
}

// Decode reads the recent values of a partition from a snapshot. It leaves out the values that blocks have.
func (s *db) Decode(id model.Partition, d Decoder) {
	p := &s.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	s.index.remove(p.series)
	p.reset()
	if version := d.Byte(); version != HeadVersion {
		d.Fail("version of the head of the series store")
		return
	}
	same := d.Int() == s.options.Range.Milliseconds()
	newest := d.Int()
	var files []*rangeFile
	for range d.Count() {
		files = append(files, s.decodeFile(d.Int(), d.Int()))
	}
	in := &snapshotReader{Decoder: d, files: files, sameRanges: same, labels: labels.NewScratchBuilder(5)}
	for range d.Count() {
		if s.decodeSeries(p, in); d.Err() != nil {
			s.index.remove(p.series)
			p.reset()
			return
		}
	}
	p.newest = newest
}

// decodeFile returns the chunk file that a snapshot names, or nil for a file no longer needed. It is nil if the values
// are already in a block or the file is missing.
func (s *db) decodeFile(start, end int64) *rangeFile {
	if end <= s.sealed.Load() {
		return nil
	}
	s.filesMu.Lock()
	defer s.filesMu.Unlock()
	key := [2]int64{start, end}
	f := s.files[key]
	if f == nil && !s.missing[key] {
		s.missing[key] = true
		s.log().Error("series store lacks a file: its values are missing in queries", "file", (&rangeFile{dir: s.headDir(), start: start, end: end}).path())
	}
	return f
}

// snapshotReader reads the series of a partition from a snapshot.
type snapshotReader struct {
	Decoder
	files      []*rangeFile
	sameRanges bool // the store has the ranges of the snapshot
	labels     labels.ScratchBuilder
	last       []labels.Label // of the series before
}

// readLabels reads the labels of a series. Texts that it shares with the series before are not copied again.
func (r *snapshotReader) readLabels() (l labels.Labels) {
	r.labels.Reset()
	for i := range r.Count() {
		if i == len(r.last) {
			r.last = append(r.last, labels.Label{})
		}
		of := &r.last[i]
		for _, text := range [...]*string{&of.Name, &of.Value} {
			if b := r.Bytes(); *text != string(b) {
				*text = string(b)
			}
		}
		r.labels.Add(of.Name, of.Value)
	}
	r.labels.Sort()
	return r.labels.Labels()
}

// decodeSeries reads the state of a series from a snapshot.
func (s *db) decodeSeries(p *headPartition, d *snapshotReader) {
	l := d.readLabels()
	taken, moved := d.Int(), d.Uint()
	if moved > maxShift {
		d.Fail("a value was moved too far")
	}
	if d.Err() != nil {
		return
	}
	of, _ := s.index.find(p, l, seriesLimits{})
	count := len(p.series)
	if count == 0 || p.series[count-1] != of || !of.isEmpty() || of.newestStored != 0 {
		d.Fail("a series comes twice")
		return
	}
	of.newestStored, of.moved = taken, uint16(moved)
	open := decodeOpenChunk(d)
	if open.count > 0 {
		if of.openMin, of.limit = d.Int(), d.Byte(); of.limit == 0 || of.limit > maxSamples {
			d.Fail("limit of an open chunk")
		}
	}
	var older [][]byte
	for _, f := range d.files {
		if offset := int64(d.Uint()); f != nil && offset != 0 {
			if !d.sameRanges {
				older = s.appendSeriesChunks(older, f, offset)
			} else {
				of.saved = append(of.saved, syncedChunk{f, offset})
			}
		}
	}
	for range d.Count() {
		older = append(older, decodeChunk(d)...)
	}
	ms, late := taken, []point(nil)
	for range d.Count() {
		ms += d.Int()
		late = append(late, point{ms, math.Float64frombits(d.Fixed64())})
	}
	if d.Err() != nil {
		return
	}
	if open.count > 0 && (!d.sameRanges || len(older) > 0 || of.openMin < s.sealed.Load()) {
		older, open = append(older, open.bytes()), openChunk{}
	}
	of.open = open
	for _, chunk := range older {
		points, err := appendPoints(nil, chunk, math.MinInt64, math.MaxInt64)
		if err != nil || len(points) == 0 {
			d.Fail("chunk of a series")
			return
		}
		for _, v := range points {
			switch {
			case v.ms >= s.sealed.Load():
				s.add(p, of, v.ms, v.value)
			case !d.sameRanges:
				p.addLate(of, v.ms, v.value)
			}
		}
		if of.open.count > 0 && len(points) >= maxSamples {
			s.closeChunk(of)
		}
	}
	switch sorted := slices.IsSortedFunc(late, func(a, b point) int { return cmp.Compare(a.ms, b.ms) }); {
	case !sorted:
		d.Fail("late values of a series")
	case p.late[of] != nil: // of another range
		for _, v := range late {
			p.addLate(of, v.ms, v.value)
		}
	case len(late) > 0: // they have found their places before
		p.late[of] = late
		p.lates += len(late)
	}
	p.updateOldest(of)
}

// decodeChunk reads a chunk from a snapshot. A chunk of length 0 gives none.
func decodeChunk(d Decoder) [][]byte {
	data := d.Bytes()
	if d.Err() != nil || len(data) == 0 {
		return nil
	}
	if len(data) < 2 || len(data) > maxChunk {
		d.Fail("chunk of a series")
		return nil
	}
	return [][]byte{data}
}

// appendSeriesChunks reads all chunks of one series from a file, and appends the chunks to a list. The oldest
// come first. The file links them backwards.
func (s *db) appendSeriesChunks(list [][]byte, f *rangeFile, offset int64) [][]byte {
	from := len(list)
	for offset != 0 {
		r, _, err := f.read(offset, make([]byte, firstRead))
		if err != nil {
			s.reportDamage(f, offset, err)
			break
		}
		list, offset = append(list, r.data), r.prev
	}
	slices.Reverse(list[from:])
	return list
}
