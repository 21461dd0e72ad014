package series

import (
	"cmp"
	"context"
	"maps"
	"math"
	"runtime"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"
)

// headReader reads the values in memory between two times. It implements tsdb.BlockReader with its readers of index
// and chunks. One goroutine at a time may call it.
type headReader struct {
	db       *db
	from, to int64                   // ms, both included
	lateRead map[*headSeries][]point // late values that Series returned; nil: not kept
	newest   bool                    // only the newest value of each series is wanted
	found    foundValues             // of Series
	ahead    chunkCache
}

// Index returns the index over the series in memory, with all that have been created.
func (r *headReader) Index() (tsdb.IndexReader, error) {
	r.db.index.publish()
	return headIndex{r}, nil
}

// Chunks returns a reader of the chunks in memory.
func (r *headReader) Chunks() (tsdb.ChunkReader, error) { return headChunks{}, nil }

// Tombstones returns no tombstones (deletion marks), because the values in memory have none.
func (r *headReader) Tombstones() (tombstones.Reader, error) {
	return tombstones.NewMemTombstones(), nil
}

// Meta returns the time range of the reader.
func (r *headReader) Meta() tsdb.BlockMeta { return tsdb.BlockMeta{MinTime: r.from, MaxTime: r.to + 1} }

// Size returns 0, because the values in memory are no block on disk.
func (r *headReader) Size() int64 { return 0 }

// headChunks is the tsdb.ChunkReader for the values in memory. The index has already copied the chunks.
type headChunks struct{}

// ChunkOrIterable returns the chunk that the metadata m already contains.
func (headChunks) ChunkOrIterable(m chunks.Meta) (chunkenc.Chunk, chunkenc.Iterable, error) {
	return m.Chunk, nil, nil
}

// Close does nothing, because the reader holds no files.
func (headChunks) Close() error { return nil }

// headIndex is the tsdb.IndexReader for the series in memory.
type headIndex struct{ *headReader }

// Close does nothing, because the index holds no files.
func (x headIndex) Close() error { return nil }

// Symbols returns all names and values of labels, sorted.
func (x headIndex) Symbols() index.StringIter { return x.db.index.postings.Symbols() }

// Postings returns the series with a label that has one of the given values.
func (x headIndex) Postings(ctx context.Context, name string, values ...string) (index.Postings, error) {
	return x.db.index.postings.Postings(ctx, name, values...), nil
}

// PostingsForLabelMatching returns the series whose value of a given label the function match accepts.
func (x headIndex) PostingsForLabelMatching(ctx context.Context, name string, match func(string) bool) index.Postings {
	return x.db.index.postings.PostingsForLabelMatching(ctx, name, match)
}

// PostingsForAllLabelValues returns the series with a label, whatever its value.
func (x headIndex) PostingsForAllLabelValues(ctx context.Context, name string) index.Postings {
	return x.db.index.postings.PostingsForAllLabelValues(ctx, name)
}

// visit calls fn once for each series in a list of references (postings).
func (x headIndex) visit(p index.Postings, fn func(*headSeries)) error {
	var space [2]*headSeries
	for p.Next() {
		if twins := x.db.index.get(p.At(), space[:0]); len(twins) > 0 {
			fn(twins[0])
		}
	}
	return p.Err()
}

// SortedPostings returns references to series in the order of the series' labels.
func (x headIndex) SortedPostings(p index.Postings) index.Postings {
	var list []*headSeries
	if err := x.visit(p, func(of *headSeries) { list = append(list, of) }); err != nil {
		return index.ErrPostings(err)
	}
	slices.SortFunc(list, func(a, b *headSeries) int { return labels.Compare(a.labels, b.labels) })
	refs := make([]storage.SeriesRef, len(list))
	for i, of := range list {
		refs[i] = of.ref
	}
	return index.NewListPostings(refs)
}

// ShardedPostings returns the series that belong to one shard of several, by a hash of their labels.
func (x headIndex) ShardedPostings(p index.Postings, shard, shards uint64) index.Postings {
	var refs []storage.SeriesRef
	if err := x.visit(p, func(of *headSeries) {
		if labels.StableHash(of.labels)%shards == shard {
			refs = append(refs, of.ref)
		}
	}); err != nil {
		return index.ErrPostings(err)
	}
	return index.NewListPostings(refs)
}

// SortedLabelValues returns the sorted values of a label.
func (x headIndex) SortedLabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, error) {
	values, err := x.LabelValues(ctx, name, hints, matchers...)
	slices.Sort(values)
	return values, err
}

// LabelValues returns the values of a label.
func (x headIndex) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, error) {
	if len(matchers) == 0 {
		return x.db.index.postings.LabelValues(ctx, name, hints), nil
	}
	p, err := tsdb.PostingsForMatchers(ctx, x, matchers...)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	err = x.visit(p, func(of *headSeries) {
		if value := of.labels.Get(name); value != "" {
			found[value] = true
		}
	})
	values, _ := hints.ApplyLimit(slices.Sorted(maps.Keys(found)))
	return values, err
}

// LabelNames returns the sorted names of labels.
func (x headIndex) LabelNames(ctx context.Context, matchers ...*labels.Matcher) ([]string, error) {
	if len(matchers) == 0 {
		return x.db.index.postings.LabelNames(), nil
	}
	p, err := tsdb.PostingsForMatchers(ctx, x, matchers...)
	if err != nil {
		return nil, err
	}
	return x.LabelNamesFor(ctx, p)
}

// LabelNamesFor returns the sorted label names of the given series.
func (x headIndex) LabelNamesFor(_ context.Context, p index.Postings) ([]string, error) {
	found := map[string]bool{}
	err := x.visit(p, func(of *headSeries) { of.labels.Range(func(l labels.Label) { found[l.Name] = true }) })
	return slices.Sorted(maps.Keys(found)), err
}

// Series returns the labels and chunks of a series. Late values are merged into the chunks.
func (x headIndex) Series(ref storage.SeriesRef, builder *labels.ScratchBuilder, metas *[]chunks.Meta) error {
	var space [2]*headSeries
	twins := x.db.index.get(ref, space[:0])
	if len(twins) == 0 {
		return storage.ErrNotFound
	}
	builder.Assign(twins[0].labels)
	if metas == nil {
		return nil
	}
	runtime.Gosched() // a block takes a core for half a minute: values and queries go first
	*metas = (*metas)[:0]
	var late []point
	for _, of := range twins {
		x.found.data = make([]byte, 0, min(cap(x.found.data), 2*len(x.found.data))) // the compactor keeps the chunks; neighbours are about as long
		x.read(of, &x.found)
		for _, c := range slices.Backward(x.found.chunks) {
			*metas = append(*metas, chunks.Meta{MinTime: c.min, MaxTime: c.max, Chunk: readChunk(c.data)})
		}
		if x.lateRead != nil && len(x.found.late) > 0 {
			x.lateRead[of] = slices.Clone(x.found.late)
		}
		late = append(late, x.found.late...)
	}
	if len(late) > 0 || len(twins) > 1 {
		merged, err := mergeLate(*metas, late)
		if err != nil {
			return err
		}
		*metas = append((*metas)[:0], merged...)
	}
	return nil
}

// foundValues has the values of one series that a query has found, as chunks and late values. The next read uses its
// memory again.
type foundValues struct {
	chunks []chunkRecord // the newest first
	late   []point
	data   []byte // of chunks; full chunks in memory have their own, because they do not change

	full  []fullChunk
	saved []syncedChunk
}

// read collects the chunks and late values of one series that lie in the reader's time range.
func (r *headReader) read(of *headSeries, found *foundValues) {
	found.chunks, found.late, found.data, found.full, found.saved = found.chunks[:0], found.late[:0], found.data[:0], found.full[:0], found.saved[:0]
	oldest := int64(math.MaxInt64)
	contains := func(from, to int64) bool {
		oldest = from
		in := to >= r.from && from <= r.to
		if in && r.newest {
			oldest = math.MinInt64
		}
		return in
	}
	p := of.partition
	p.mu.Lock()
	if of.open.count > 0 && contains(of.openMin, of.open.last) {
		found.data = of.open.appendTo(found.data)
		found.chunks = append(found.chunks, chunkRecord{min: of.openMin, max: of.open.last, data: found.data[:len(found.data):len(found.data)]})
	}
	if oldest > r.from {
		found.full, found.saved = append(found.full, of.full...), append(found.saved, of.saved...)
	}
	for _, v := range p.late[of] {
		if v.ms >= r.from && v.ms <= r.to {
			found.late = append(found.late, v)
		}
	}
	p.mu.Unlock()
	for i := len(found.full) - 1; i >= 0 && oldest > r.from; i-- {
		if c := &found.full[i]; contains(c.min, c.max) {
			found.chunks = append(found.chunks, chunkRecord{min: c.min, max: c.max, data: c.data})
		}
	}
	for _, t := range slices.Backward(found.saved) {
		for at := t.offset; at != 0 && oldest > r.from; {
			c, err := r.ahead.read(t.file, at)
			if err != nil {
				r.db.reportDamage(t.file, at, err)
				break
			}
			if contains(c.min, c.max) {
				from := len(found.data)
				found.data = append(found.data, c.data...)
				found.chunks = append(found.chunks, chunkRecord{min: c.min, max: c.max, data: found.data[from:len(found.data):len(found.data)]})
			}
			at = c.prev
		}
	}
}

// mergeLate merges late values into chunks by time, and returns new chunks. Of values at one time it keeps the
// first.
func mergeLate(metas []chunks.Meta, late []point) (out []chunks.Meta, err error) {
	var list []point
	for _, m := range metas {
		if list, err = appendPoints(list, m.Chunk.Bytes(), math.MinInt64, math.MaxInt64); err != nil {
			return nil, err
		}
	}
	for part := range slices.Chunk(sortPoints(append(list, late...)), maxSamples) {
		c := chunkenc.NewXORChunk()
		to, err := c.Appender()
		if err != nil {
			return nil, err
		}
		for _, v := range part {
			to.Append(0, v.ms, v.value)
		}
		out = append(out, chunks.Meta{MinTime: part[0].ms, MaxTime: part[len(part)-1].ms, Chunk: c})
	}
	return out, nil
}

// sortPoints sorts values by time, and keeps only the first value of each time.
func sortPoints(list []point) []point {
	slices.SortStableFunc(list, func(a, b point) int { return cmp.Compare(a.ms, b.ms) })
	return slices.CompactFunc(list, func(a, b point) bool { return a.ms == b.ms })
}

// readChunk makes a chunk from encoded data, without spare memory for more values. NewXORChunk would allocate spare
// memory.
func readChunk(data []byte) chunkenc.Chunk {
	c, err := chunkenc.FromData(chunkenc.EncXOR, data)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return c
}
