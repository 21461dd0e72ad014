package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"
	"github.com/prometheus/prometheus/util/annotations"
)

// Trends are aggregates of an hour in place of the values of a block that is deleted: its late values are in it, so they are computed
// once. They are in blocks of a store of their own, in the folder trends. Each series has one series per aggregate there, with the label
// LabelAggregate, which sorts before all others; a time is the start of the hour, or of the block if it begins within the hour.

// LabelAggregate is the label of hourly trends with the aggregate avg, count, max or min. A selector without it
// selects avg, and the label is hidden.
const LabelAggregate = "__aggregate__"

const trendsFolder = "trends"

// hourly are the aggregates of hourly trends, in the order of their series.
var hourly = [...]string{"avg", "count", "max", "min"}

// openTrends opens the store of hourly trends, or returns nil if none are kept.
func openTrends(dir string, o Options) (*db, error) {
	if o.TrendRetention == 0 {
		return nil, nil
	}
	s, err := Open(dir, Options{FS: o.FS, Range: o.Range, Retention: o.TrendRetention, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return s.(*db), nil
}

// writeTrends computes hourly aggregates of blocks that are about to be deleted, and writes a block of aggregates.
// Without space on the disk they are lost, because the blocks must make room.
func (s *db) writeTrends(old []*tsdb.Block, newest int64) error {
	t := s.trends
	if t == nil {
		return nil
	}
	t.maintaining.Lock()
	defer t.maintaining.Unlock()
	for _, b := range old {
		m := b.Meta()
		names, err := t.compactor.Write(t.dir, &trendReader{block: b}, m.MinTime, m.MaxTime, nil)
		if errors.Is(err, syscall.ENOSPC) {
			s.log().Error("series store has no space for hourly trends of a block, and deletes it without them", "block", b.Dir(), "err", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("write the hourly trends of block %q: %w", b.Dir(), err)
		}
		if err := t.replaceBlocks(nil, names); err != nil {
			return err
		}
	}
	if err := t.merge(); err != nil {
		return err
	}
	return t.enforceRetention(newest)
}

// overlaps reports whether the store has a block with values between two times. The store may be nil.
func (s *db) overlaps(from, to int64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.view.blocks, func(b *tsdb.Block) bool { return b.OverlapsClosedInterval(from, to) })
}

// trendReader reads the hourly trends of a block, as a tsdb.BlockReader for the compactor.
type trendReader struct{ block *tsdb.Block }

// Index returns the index of the trends.
func (r *trendReader) Index() (tsdb.IndexReader, error) {
	of, err := r.block.Index()
	if err != nil {
		return nil, err
	}
	values, err := r.block.Chunks()
	if err != nil {
		return nil, errors.Join(err, of.Close())
	}
	return &trendIndex{IndexReader: of, values: values, start: r.block.Meta().MinTime}, nil
}

// Chunks returns a reader of the chunks of trends.
func (r *trendReader) Chunks() (tsdb.ChunkReader, error) { return headChunks{}, nil }

// Tombstones returns no tombstones, because nobody deletes values of a block.
func (r *trendReader) Tombstones() (tombstones.Reader, error) {
	return tombstones.NewMemTombstones(), nil
}

// Meta returns the description of the block.
func (r *trendReader) Meta() tsdb.BlockMeta { return r.block.Meta() }

// Size returns 0, because the hourly values are not on disk yet.
func (r *trendReader) Size() int64 { return 0 }

// trendIndex is the index of the hourly series of a block, for Prometheus' compactor. A reference is the one of the
// series, times 4, plus the aggregate.
type trendIndex struct {
	tsdb.IndexReader // of the block
	values           tsdb.ChunkReader
	start            int64 // of the block, ms
	metas            []chunks.Meta
}

// Close closes the readers of the block.
func (x *trendIndex) Close() error { return errors.Join(x.IndexReader.Close(), x.values.Close()) }

// Symbols returns all names and values of labels, sorted.
func (x *trendIndex) Symbols() index.StringIter {
	own := append([]string{LabelAggregate}, hourly[:]...)
	slices.Sort(own)
	return tsdb.NewMergedStringIter(x.IndexReader.Symbols(), index.NewStringListIter(own))
}

// Postings returns references to the hourly series, sorted by kind of aggregate and labels. First come all averages,
// then all counts and so on, each sorted by the labels of the series. The compactor asks for all series.
func (x *trendIndex) Postings(ctx context.Context, name string, values ...string) (index.Postings, error) {
	p, err := x.IndexReader.Postings(ctx, name, values...)
	if err != nil {
		return nil, err
	}
	p = x.IndexReader.SortedPostings(p)
	var list []storage.SeriesRef
	for p.Next() {
		list = append(list, p.At()*storage.SeriesRef(len(hourly)))
	}
	all := make([]storage.SeriesRef, 0, len(list)*len(hourly))
	for of := range hourly {
		for _, ref := range list {
			all = append(all, ref+storage.SeriesRef(of))
		}
	}
	return index.NewListPostings(all), p.Err()
}

// SortedPostings returns a list of series unchanged, because trendIndex.Postings already sorts its lists.
func (x *trendIndex) SortedPostings(p index.Postings) index.Postings { return p }

// Series returns the labels of one hourly series, and its values as chunks.
func (x *trendIndex) Series(ref storage.SeriesRef, builder *labels.ScratchBuilder, metas *[]chunks.Meta) error {
	of := ref % storage.SeriesRef(len(hourly))
	if err := x.IndexReader.Series(ref/storage.SeriesRef(len(hourly)), builder, &x.metas); err != nil {
		return err
	}
	builder.Add(LabelAggregate, hourly[of])
	builder.Sort()
	hours, err := x.aggregate()
	if err != nil {
		return err
	}
	points := make([]point, len(hours))
	for i, h := range hours {
		points[i] = point{max(h.start, x.start), [...]float64{h.sum / h.count, h.count, h.max, h.min}[of]}
	}
	*metas, err = mergeLate((*metas)[:0], points)
	return err
}

// hourAggregate has the sum, count, maximum and minimum of one series over one hour.
type hourAggregate struct {
	start                int64 // ms
	sum, count, max, min float64
}

// aggregate computes sum, count, minimum and maximum of each hour from the chunks of one series. NaN is no value.
func (x *trendIndex) aggregate() (hours []hourAggregate, err error) {
	const hour = int64(time.Hour / time.Millisecond)
	var it chunkenc.Iterator
	for _, m := range x.metas {
		c, _, err := x.values.ChunkOrIterable(m)
		if err != nil {
			return nil, err
		}
		it = c.Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			if math.IsNaN(v) {
				continue
			}
			start := ms - (ms%hour+hour)%hour
			if n := len(hours); n == 0 || hours[n-1].start != start {
				hours = append(hours, hourAggregate{start, 0, 0, v, v})
			}
			h := &hours[len(hours)-1]
			h.sum, h.count, h.max, h.min = h.sum+v, h.count+1, max(h.max, v), min(h.min, v)
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
	}
	return hours, nil
}

// trendQuerier is a querier of hourly trends. It returns averages, unless a matcher selects another aggregate.
type trendQuerier struct{ storage.Querier }

// withAverage limits a query to hourly averages, unless the query itself names a kind of hourly value. It reports
// whether it added one.
func withAverage(matchers []*labels.Matcher) ([]*labels.Matcher, bool) {
	if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == LabelAggregate }) {
		return matchers, false
	}
	return append(slices.Clip(matchers), labels.MustNewMatcher(labels.MatchEqual, LabelAggregate, hourly[0])), true
}

// Select returns the series that the matchers select.
func (q trendQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	matchers, hidden := withAverage(matchers)
	set := q.Querier.Select(ctx, sorted, hints, matchers...)
	if hidden {
		return &averageSet{SeriesSet: set}
	}
	return set
}

// LabelNames returns the names of labels of the series that the matchers select.
func (q trendQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names, warnings, err := q.Querier.LabelNames(ctx, hints, matchers...)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == LabelAggregate }), warnings, err
}

// averageSet is the result of a query for hourly averages, without the label that says average.
type averageSet struct {
	storage.SeriesSet
	builder labels.Builder
}

// At returns the current series, without the label that names the kind of hourly value.
func (s *averageSet) At() storage.Series {
	of := s.SeriesSet.At()
	s.builder.Reset(of.Labels())
	return &averageSeries{of, s.builder.Del(LabelAggregate).Labels()}
}

// averageSeries is a series of hourly averages, without the label of the aggregate.
type averageSeries struct {
	storage.Series
	labels labels.Labels
}

// Labels returns the labels of the series, except the label that names the kind of hourly value.
func (s *averageSeries) Labels() labels.Labels { return s.labels }
