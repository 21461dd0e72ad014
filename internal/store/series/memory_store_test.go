package series

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/model"
)

// memoryStore is a simple Store with values in maps, for comparison with the real store in tests. It loses nothing at
// a kill, and never fails.
type memoryStore struct {
	options Options
	disk    *memoryStoreValues

	mu     sync.Mutex
	counts Counts
}

// memoryStoreValues has the values of a memoryStore, and outlives its Close like a disk. The next openMemoryStore
// finds them after a Close.
type memoryStoreValues struct {
	values      map[string]map[int64]float64 // by labels and ms
	labels      map[string]labels.Labels
	given, last map[string]int64 // the newest time in ms, as it came and as it was stored
	newest      int64
}

// openMemoryStore returns a memoryStore with the values of an earlier one, like a store reopened from its folder.
func openMemoryStore(disk *memoryStoreValues, o Options) *memoryStore {
	if disk.values == nil {
		*disk = memoryStoreValues{map[string]map[int64]float64{}, map[string]labels.Labels{}, map[string]int64{}, map[string]int64{}, 0}
	}
	return &memoryStore{options: o, disk: disk}
}

// WriteChunks does nothing, because the memory store writes no files.
func (m *memoryStore) WriteChunks(model.Partition) {}

// Encode appends no bytes, because memoryStoreValues keeps the values.
func (m *memoryStore) Encode(model.Partition, []byte) []byte { return nil }

// Decode reads nothing, because memoryStoreValues keeps the values.
func (m *memoryStore) Decode(model.Partition, Decoder) {}

// Run does nothing, because the memory store writes no blocks.
func (m *memoryStore) Run(context.Context) {}

// Trouble returns nil, because the memory store never fails.
func (m *memoryStore) Trouble() error { return nil }

// Close does nothing, because the memory store opens no files.
func (m *memoryStore) Close() error { return nil }

// Sync does nothing, because the memory store writes no files.
func (m *memoryStore) Sync(model.Partition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.options.Retention > 0 {
		for _, values := range m.disk.values {
			maps.DeleteFunc(values, func(ms int64, _ float64) bool {
				return ms < m.disk.newest-m.options.Retention.Milliseconds()
			})
		}
	}
	return nil
}

// Counts returns the counters of the memory store, such as refused values.
func (m *memoryStore) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// SeriesCount returns the number of series of values in a namespace.
func (m *memoryStore) SeriesCount(namespace string) (count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.disk.labels {
		if l.Get(LabelNamespace) == namespace && !isBound(l) {
			count += countOf(l)
		}
	}
	return count
}

// limitSeries returns the limit of Options.MaxSeries that is the same for all namespaces.
func limitSeries(most int) func(string) int { return func(string) int { return most } }

// Append appends a value to a series by the same rules as the real store.
func (m *memoryStore) Append(_ model.Partition, _ *Series, name func() labels.Labels, at int64, value float64) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ms := name(), at/1e6
	key := l.String()
	if m.find(key, l) != Stored {
		return 0, false
	}
	moved := false
	if ms >= m.disk.given[key] {
		m.disk.given[key] = ms
		if last := m.disk.last[key]; last != 0 && ms <= last {
			ms, moved = last+1, true
		}
		m.disk.last[key] = ms
	} else {
		for _, taken := m.disk.values[key][ms]; taken; _, taken = m.disk.values[key][ms] {
			ms, moved = ms+1, true
		}
		m.disk.last[key] = max(m.disk.last[key], ms)
	}
	if m.disk.newest != 0 && ms < m.disk.newest-m.options.LateWindow.Milliseconds() {
		m.counts.Late++
		return 0, false
	}
	if moved {
		m.counts.Moved++
	}
	m.disk.values[key][ms] = value
	m.disk.newest = max(m.disk.newest, ms)
	m.counts.Values++
	return ms, true
}

// find creates the missing series of given labels, unless a limit is reached. It then returns the reached limit. A
// bound takes what values leave.
func (m *memoryStore) find(key string, l labels.Labels) Outcome {
	values, bounds, numbers := 0, 0, 0
	for _, other := range m.disk.labels {
		switch {
		case other.Get(LabelNamespace) != l.Get(LabelNamespace):
		case isBound(other):
			bounds += countOf(other)
		default:
			values += countOf(other)
			if _, ok := PerformanceDataKind(other); ok && other.Get(LabelCheck) == l.Get(LabelCheck) && other.Get(LabelNode) == l.Get(LabelNode) {
				numbers++
			}
		}
	}
	missing, limit := m.disk.values[key] == nil, 0
	if m.options.MaxSeries != nil {
		limit = m.options.MaxSeries(l.Get(LabelNamespace))
	}
	_, number := PerformanceDataKind(l)
	number = number && !isBound(l)
	switch {
	case limit > 0 && isBound(l) && (values+bounds > limit || missing && values+bounds+countOf(l) > limit), limit > 0 && missing && values+countOf(l) > limit:
		m.counts.Unbounded++
		return NamespaceFull
	case m.options.MaxCheckSeries > 0 && missing && number && numbers >= m.options.MaxCheckSeries:
		m.counts.Crowded++
		return CheckFull
	case missing:
		m.disk.values[key], m.disk.labels[key] = map[int64]float64{}, l.Copy()
	}
	return Stored
}

// Insert adds a value to a series unless the series has a value at that time.
func (m *memoryStore) Insert(_ model.Partition, _ *Series, l labels.Labels, ms int64, value float64) Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := l.String()
	if full := m.find(key, l); full != Stored {
		return full
	}
	if m.disk.newest != 0 && ms < m.disk.newest-m.options.LateWindow.Milliseconds() {
		m.counts.Late++
		return Late
	}
	if _, taken := m.disk.values[key][ms]; taken {
		m.counts.Doubled++
		return Doubled
	}
	m.disk.values[key][ms] = value
	m.disk.newest = max(m.disk.newest, ms)
	m.counts.Values++
	return Stored
}

// Querier returns a querier over all values of the memory store. It ignores the time range.
func (m *memoryStore) Querier(int64, int64) (storage.Querier, error) {
	return &memoryQuerier{Querier: storage.NoopQuerier(), of: m}, nil
}

// memoryQuerier is the querier of a memory store.
type memoryQuerier struct {
	storage.Querier
	of *memoryStore
}

// Select returns the series of the memory store that all matchers select.
func (q *memoryQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	set := &memorySet{}
	for key, l := range q.of.disk.labels {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) || len(q.of.disk.values[key]) == 0 {
			continue
		}
		chunk := chunkenc.NewXORChunk()
		to, _ := chunk.Appender() // of an empty chunk, so it has no error
		for _, ms := range slices.Sorted(maps.Keys(q.of.disk.values[key])) {
			to.Append(0, ms, q.of.disk.values[key][ms])
		}
		set.rest = append(set.rest, &storage.SeriesEntry{Lset: l, SampleIteratorFn: chunk.Iterator})
	}
	return set
}

// memorySet is an iterator over a list of series in memory.
type memorySet struct {
	storage.SeriesSet
	rest    []storage.Series
	present storage.Series
}

// Next moves to the next series of the list.
func (s *memorySet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.present, s.rest = s.rest[0], s.rest[1:]
	return true
}

// At returns the current series.
func (s *memorySet) At() storage.Series { return s.present }

// Err returns nil, because a list in memory has no read errors.
func (s *memorySet) Err() error { return nil }
