package series

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/journal"
)

// memory is a model of a Store: maps in memory, no engine. What it loses at a kill is nothing, and it never fails.
type memory struct {
	options Options
	disk    *memoryDisk

	mu     sync.Mutex
	counts Counts
}

// memoryDisk keeps what a model has stored beyond its Close.
type memoryDisk struct {
	values map[string]map[int64]float64 // by labels and ms
	labels map[string]labels.Labels
	taken  map[positionKey]uint64
	synced map[positionKey]uint64
	newest int64
}

// newMemory opens a model on a disk.
func newMemory(disk *memoryDisk, o Options) *memory {
	if disk.values == nil {
		*disk = memoryDisk{map[string]map[int64]float64{}, map[string]labels.Labels{}, map[positionKey]uint64{}, map[positionKey]uint64{}, 0}
	}
	maps.Copy(disk.synced, disk.taken)
	return &memory{options: o, disk: disk}
}

// position returns a position of a table.
func (m *memory) position(of map[positionKey]uint64, key positionKey) journal.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return position(key.log, of[key])
}

func (m *memory) Floor(worker, workers int, log uint64) journal.Position {
	return m.position(m.disk.synced, positionKey{worker, workers, log})
}

func (m *memory) Stored(partition int, common func(journal.Position) journal.Position) (number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, taken := range m.disk.taken {
		if partition%key.workers == key.worker {
			number = max(number, common(position(key.log, taken)).Number)
		}
	}
	return number
}

func (m *memory) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.disk.synced, m.disk.taken)
	if m.options.Retention > 0 {
		for _, values := range m.disk.values {
			maps.DeleteFunc(values, func(ms int64, _ float64) bool {
				return ms < m.disk.newest-m.options.Retention.Milliseconds()
			})
		}
	}
	return nil
}

func (m *memory) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

func (m *memory) Close() error { return nil }

func (m *memory) Appender(worker, workers int) Appender {
	return &memoryAppender{store: m, worker: worker, workers: workers, given: map[string]int64{}, last: map[string]int64{}}
}

// memoryAppender is an Appender of a model.
type memoryAppender struct {
	store           *memory
	worker, workers int
	given, last     map[string]int64 // by labels: the newest time in ms, as it came and as it was stored
	pending         []func()
}

func (a *memoryAppender) Append(_ *Series, name func() labels.Labels, at int64, value float64) error {
	m := a.store
	m.mu.Lock()
	defer m.mu.Unlock()
	l := name()
	key, ms := l.String(), at/1e6
	if m.disk.values[key] == nil {
		count := 0
		for _, other := range m.disk.labels {
			if other.Get(LabelNamespace) == l.Get(LabelNamespace) {
				count++
			}
		}
		if m.options.MaxSeries > 0 && count >= m.options.MaxSeries {
			m.counts.Unbounded++
			return nil
		}
		m.disk.values[key], m.disk.labels[key] = map[int64]float64{}, l
	}
	if ms >= a.given[key] {
		a.given[key] = ms
		if last := a.last[key]; last != 0 && ms <= last {
			ms = last + 1
			m.counts.Moved++
		}
		a.last[key] = ms
	}
	if m.disk.newest != 0 && ms < m.disk.newest-m.options.LateWindow.Milliseconds() {
		m.counts.Late++
		return nil
	}
	a.pending = append(a.pending, func() {
		m.disk.values[key][ms] = value
		m.disk.newest = max(m.disk.newest, ms)
		m.counts.Values++
	})
	return nil
}

func (a *memoryAppender) Commit(p journal.Position, ms int64) error {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	for _, store := range a.pending {
		store()
	}
	a.pending = nil
	a.store.disk.taken[positionKey{a.worker, a.workers, p.Log}] = p.Number
	a.store.disk.newest = max(a.store.disk.newest, ms)
	return nil
}

func (a *memoryAppender) Written(log uint64) journal.Position {
	return a.store.position(a.store.disk.taken, positionKey{a.worker, a.workers, log})
}

func (a *memoryAppender) Restart() {
	a.pending, a.given, a.last = nil, map[string]int64{}, map[string]int64{}
}

func (m *memory) Querier(int64, int64) (storage.Querier, error) {
	return &memoryQuerier{Querier: storage.NoopQuerier(), of: m}, nil
}

// memoryQuerier returns all values of the series that match.
type memoryQuerier struct {
	storage.Querier
	of *memory
}

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

// memorySet is a set of series in a list.
type memorySet struct {
	storage.SeriesSet
	rest    []storage.Series
	present storage.Series
}

func (s *memorySet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.present, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *memorySet) At() storage.Series { return s.present }
func (s *memorySet) Err() error         { return nil }
