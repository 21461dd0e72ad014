package series

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/util/annotations"
)

// headQuerier is a querier (as PromQL uses) that reads only the recent values in memory. The tsdb answers it
// for names and values of labels; values are decoded series by series, when the engine iterates over them.
type headQuerier struct {
	storage.Querier
	db       *db
	from, to int64 // ms, both included
}

// Select returns the series that the matchers select, with values in a time range.
func (q *headQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	r := &headReader{db: q.db, from: q.from, to: q.to}
	x := headIndex{r}
	p, err := tsdb.PostingsForMatchers(ctx, x, matchers...)
	if err == nil && hints != nil {
		r.from, r.to = hints.Start, hints.End
		// PromQL evaluates an instant vector without steps once, at the end of the range.
		r.newest = hints.Step == 0 && hints.Range == 0
		if hints.ShardCount > 0 {
			p = x.ShardedPostings(p, hints.ShardIndex, hints.ShardCount)
		}
	}
	var refs []storage.SeriesRef
	if err == nil {
		refs, err = index.ExpandPostings(p)
	}
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	set := &headSet{headReader: r, at: -1, exact: hints == nil || hints.Func == "series"}
	set.list = q.db.index.list(refs, r)
	if sorted {
		slices.SortFunc(set.list, func(a, b selectedSeries) int { return labels.Compare(a.Labels(), b.Labels()) })
	}
	return set
}

// headSet is the list of series in memory that a query has found. It implements storage.SeriesSet.
type headSet struct {
	*headReader
	list  []selectedSeries
	at    int
	exact bool // leave out series without chunks in the time range, which the engine of PromQL does itself
}

// Next moves to the next series.
func (s *headSet) Next() bool {
	for s.at++; s.at < len(s.list); s.at++ {
		if !s.exact || s.hasValues(&s.list[s.at]) {
			return true
		}
	}
	return false
}

// hasValues reports whether a series in memory has values in the time range of the query.
func (s *headSet) hasValues(series *selectedSeries) bool {
	return slices.ContainsFunc(series.twins, func(of *headSeries) bool {
		s.read(of, &s.found)
		return len(s.found.chunks)+len(s.found.late) > 0
	})
}

// At returns the present series.
func (s *headSet) At() storage.Series { return &s.list[s.at] }

// Err returns nil, because iterators return the errors of values.
func (s *headSet) Err() error { return nil }

// Warnings returns nil, because reads of values in memory give no warnings.
func (s *headSet) Warnings() annotations.Annotations { return nil }

// selectedSeries is a series in the result of a query. It implements storage.Series.
type selectedSeries struct {
	reader *headReader
	twins  []*headSeries // at least one; all have the labels of the series
}

// Labels returns the labels of the series.
func (s *selectedSeries) Labels() labels.Labels { return s.twins[0].labels }

// Iterator returns an iterator over the values of the series. It takes the memory of an iterator that is no longer needed.
func (s *selectedSeries) Iterator(used chunkenc.Iterator) chunkenc.Iterator {
	it, ok := used.(*valueIterator)
	if !ok {
		it = new(valueIterator)
	}
	it.points, it.at, it.err = it.points[:0], -1, nil
	it.read(s)
	return it
}

// valueIterator iterates over the decoded values of a series. It implements chunkenc.Iterator.
type valueIterator struct {
	points []point
	at     int // of points; -1: before the first Next
	err    error

	found foundValues
	late  []point
}

// read decodes the values of a series in the time range of its reader.
func (it *valueIterator) read(s *selectedSeries) {
	r := s.reader
	if r.newest && len(s.twins) == 1 {
		if v, ok := s.twins[0].newestWithoutLate(); ok && v.ms <= r.to {
			if v.ms >= r.from {
				it.points = append(it.points, v)
			}
			return
		}
	}
	it.late = it.late[:0]
	for _, of := range s.twins {
		r.read(of, &it.found)
		for _, c := range slices.Backward(it.found.chunks) {
			if it.points, it.err = appendPoints(it.points, c.data, r.from, r.to); it.err != nil {
				it.points = it.points[:0]
				return
			}
		}
		it.late = append(it.late, it.found.late...)
	}
	if it.points = append(it.points, it.late...); len(it.late) > 0 || len(s.twins) > 1 {
		it.points = sortPoints(it.points)
	}
	if n := len(it.points); r.newest && n > 1 {
		it.points = append(it.points[:0], it.points[n-1])
	}
}

// Next moves to the next value.
func (it *valueIterator) Next() chunkenc.ValueType {
	if it.at+1 >= len(it.points) {
		return chunkenc.ValNone
	}
	it.at++
	return chunkenc.ValFloat
}

// unixMs is a Unix time in milliseconds. go vet takes a Seek of int64 for the one of io.Seeker.
type unixMs = int64

// Seek moves to the first value at or after a time. It stays if the present value is already there.
func (it *valueIterator) Seek(ms unixMs) chunkenc.ValueType {
	from := max(it.at, 0)
	n, _ := slices.BinarySearchFunc(it.points[from:], ms, func(v point, ms int64) int { return cmp.Compare(v.ms, ms) })
	if it.at = from + n; it.at == len(it.points) {
		it.at--
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At returns the time and value of the present value.
func (it *valueIterator) At() (int64, float64) { return it.points[it.at].ms, it.points[it.at].value }

// AtT returns the time of the present value.
func (it *valueIterator) AtT() int64 { return it.points[it.at].ms }

// AtST returns 0, because values have no start times.
func (it *valueIterator) AtST() int64 { return 0 }

// AtHistogram panics, because no series has histograms.
func (it *valueIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	panic("BUG: a histogram of a series of numbers")
}

// AtFloatHistogram panics, because no series has histograms.
func (it *valueIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	panic("BUG: a histogram of a series of numbers")
}

// Err returns the error of a damaged chunk.
func (it *valueIterator) Err() error { return it.err }
