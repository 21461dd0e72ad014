package series

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/muster-fleet/muster/internal/journal"
)

// positionName is the name of the series of positions, which no query sees.
const positionName = "muster:position"

// Options are the settings of a store.
type Options struct {
	Retention  time.Duration // blocks that are older are deleted; zero: none is
	MaxBytes   int64         // the oldest blocks are deleted beyond this size; zero: none is
	LateWindow time.Duration // how much older than the newest value a late value may be
	MaxSeries  int           // in the head, per namespace; zero: no limit
	Logger     *slog.Logger
	Registry   prometheus.Registerer // nil: the metrics of the tsdb are not shown
}

// db is a Store on Prometheus' tsdb.
type db struct {
	*tsdb.DB
	dir    string
	counts counters
	limit  *namespaceLimit
	newest int64 // time in ms of the newest position when the store was opened

	mu      sync.Mutex
	written map[positionKey]uint64 // the last commit in the write-ahead log
	floor   map[positionKey]uint64 // the last one that is synced
	synced  string                 // the segment of the write-ahead log that Sync synced last
}

// positionKey names the positions of a worker in a log.
type positionKey struct {
	worker int
	log    uint64
}

// counters are Counts while they change.
type counters struct{ values, moved, late, duplicate, unbounded atomic.Uint64 }

// Open opens the store in a folder, and makes the folder if it is missing.
func Open(dir string, o Options) (Store, error) {
	s := &db{dir: dir, limit: &namespaceLimit{series: map[string]int{}}, floor: map[positionKey]uint64{}}
	t := tsdb.DefaultOptions()
	t.RetentionDuration, t.MaxBytes = o.Retention.Milliseconds(), o.MaxBytes
	t.OutOfOrderTimeWindow = o.LateWindow.Milliseconds()
	t.StripeSize = 1 << 18                  // 1,000,000 series find theirs without a queue
	t.BlockReloadInterval = 5 * time.Second // else full chunks wait for a minute in memory
	t.NoLockfile = true                     // the data folder is locked
	t.SeriesLifecycleCallback = s.limit
	var err error
	if s.DB, err = tsdb.Open(dir, o.Logger, o.Registry, t, nil); err != nil {
		return nil, fmt.Errorf("open series store %q: %w", dir, err)
	}
	if s.written, err = s.readPositions(); err == nil {
		s.limit.max.Store(int64(o.MaxSeries)) // not before: series that are there stay
		err = s.Sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open series store %q: %w", dir, err), s.DB.Close())
	}
	return s, nil
}

// readPositions returns the last commit of each worker and log, and sets newest.
func (s *db) readPositions() (map[positionKey]uint64, error) {
	q, err := s.DB.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	found := map[positionKey]uint64{}
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, positionName))
	var it chunkenc.Iterator
	for set.Next() {
		l := set.At().Labels()
		worker, err := strconv.Atoi(l.Get("worker"))
		log, err2 := strconv.ParseUint(l.Get("log"), 16, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("read position %s: %w", l, err)
		}
		it = set.At().Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			s.newest = max(s.newest, ms)
			key := positionKey{worker, log}
			found[key] = max(found[key], uint64(v))
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return found, set.Err()
}

// Floor implements Store.
func (s *db) Floor(worker int, log uint64) journal.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return position(log, s.floor[positionKey{worker, log}])
}

// position returns a position, the zero one for number 0.
func position(log, number uint64) journal.Position {
	if number == 0 {
		return journal.Position{}
	}
	return journal.Position{Log: log, Number: number}
}

// Sync implements Store. The tsdb syncs a segment of its write-ahead log only when it is full, and late values have a log of
// their own, so Sync syncs the files of both.
func (s *db) Sync() error {
	s.mu.Lock()
	written, from := maps.Clone(s.written), s.synced
	s.mu.Unlock()
	for _, log := range []string{"wal", "wbl"} {
		files, err := filepath.Glob(filepath.Join(s.dir, log, "[0-9]*"))
		if err != nil {
			return err
		}
		for _, name := range files { // in order, because the names have leading zeros
			if log == "wal" {
				if filepath.Base(name) < from {
					continue
				}
				s.mu.Lock()
				s.synced = filepath.Base(name)
				s.mu.Unlock()
			}
			if err := syncFile(name); err != nil && !errors.Is(err, os.ErrNotExist) { // a compaction deletes what blocks have
				return fmt.Errorf("sync series store: %w", err)
			}
		}
		if err := syncFile(filepath.Join(s.dir, log)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sync series store: %w", err)
		}
	}
	s.mu.Lock()
	s.floor = written
	s.mu.Unlock()
	return nil
}

// syncFile syncs a file or a folder.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Counts implements Store.
func (s *db) Counts() Counts {
	c := &s.counts
	return Counts{Values: c.values.Load(), Moved: c.moved.Load(), Late: c.late.Load(), Duplicate: c.duplicate.Load(), Unbounded: c.unbounded.Load()}
}

// Querier implements storage.Queryable.
func (s *db) Querier(from, to int64) (storage.Querier, error) {
	q, err := s.DB.Querier(from, to)
	if err != nil {
		return nil, err
	}
	return hidden{q}, nil
}

// Appender implements Store.
func (s *db) Appender(worker int) Appender {
	return &tsdbAppender{store: s, worker: worker, positions: map[uint64]storage.SeriesRef{}, lastMs: s.newest}
}

// tsdbAppender is an Appender on the tsdb.
type tsdbAppender struct {
	store     *db
	worker    int
	tx        storage.Appender // nil: no transaction is open
	values    uint64           // of tx
	behind    bool
	positions map[uint64]storage.SeriesRef // of the series of positions, by log
	lastMs    int64                        // of the last position
}

// begin opens a transaction.
func (a *tsdbAppender) begin() error {
	if a.behind {
		return ErrBehind
	}
	if a.tx == nil {
		a.tx, a.values = a.store.DB.Appender(context.Background()), 0
	}
	return nil
}

// Append implements Appender.
func (a *tsdbAppender) Append(s *Series, name func() labels.Labels, at int64, value float64) error {
	if err := a.begin(); err != nil {
		return err
	}
	ms, moved := s.place(at)
	err := a.append(s, name, ms, value)
	if errors.Is(err, storage.ErrDuplicateSampleForTimestamp) {
		moved = true
		if s.taken == ms {
			s.taken++
		}
		err = a.append(s, name, ms+1, value)
	}
	c := &a.store.counts
	switch {
	case err == nil:
		if a.values++; moved {
			c.moved.Add(1)
		}
	case errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		c.duplicate.Add(1)
	case errors.Is(err, storage.ErrTooOldSample), errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrOutOfBounds):
		c.late.Add(1)
	case errors.Is(err, errTooManySeries):
		c.unbounded.Add(1)
	default:
		return a.fail(fmt.Errorf("append to series store: %w", err))
	}
	return nil
}

// append adds a sample by the reference of its series, or by its labels if the tsdb does not know the reference any more.
func (a *tsdbAppender) append(s *Series, name func() labels.Labels, ms int64, value float64) (err error) {
	if s.ref != 0 {
		if _, err = a.tx.Append(s.ref, labels.EmptyLabels(), ms, value); !errors.Is(err, tsdb.ErrInvalidSample) {
			return err
		}
	}
	ref, err := a.tx.Append(0, name(), ms, value)
	if err == nil {
		s.ref = ref
	}
	return err
}

// Commit implements Appender.
func (a *tsdbAppender) Commit(p journal.Position, ms int64) error {
	if err := a.begin(); err != nil {
		return err
	}
	a.lastMs = max(a.lastMs+1, ms)
	ref, err := a.tx.Append(a.positions[p.Log], labels.FromStrings(labels.MetricName, positionName, "log", strconv.FormatUint(p.Log, 16),
		"worker", strconv.Itoa(a.worker)), a.lastMs, float64(p.Number))
	if err != nil {
		return a.fail(fmt.Errorf("append position to series store: %w", err))
	}
	a.positions[p.Log] = ref
	tx := a.tx
	a.tx = nil
	if err := tx.Commit(); err != nil { // the tsdb has rolled back
		a.behind = true
		return fmt.Errorf("commit to series store: %w", err)
	}
	a.store.counts.values.Add(a.values)
	a.store.mu.Lock()
	a.store.written[positionKey{a.worker, p.Log}] = p.Number
	a.store.mu.Unlock()
	return nil
}

// fail rolls the transaction back and leaves the appender behind.
func (a *tsdbAppender) fail(err error) error {
	tx := a.tx
	a.tx, a.behind = nil, true
	return errors.Join(err, tx.Rollback())
}

// Written implements Appender.
func (a *tsdbAppender) Written(log uint64) journal.Position {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	return position(log, a.store.written[positionKey{a.worker, log}])
}

// Restart implements Appender.
func (a *tsdbAppender) Restart() { a.behind = false }

// namespaceLimit bounds the series of each namespace in the head.
type namespaceLimit struct {
	max    atomic.Int64 // zero: no limit
	mu     sync.Mutex
	series map[string]int
}

// PreCreation implements tsdb.SeriesLifecycleCallback: it refuses a series beyond the limit.
func (n *namespaceLimit) PreCreation(l labels.Labels) error {
	limit, namespace := int(n.max.Load()), l.Get(LabelNamespace)
	if limit == 0 || namespace == "" { // a position has no namespace
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.series[namespace] >= limit {
		return errTooManySeries
	}
	return nil
}

// PostCreation implements tsdb.SeriesLifecycleCallback.
func (n *namespaceLimit) PostCreation(l labels.Labels) {
	n.mu.Lock()
	n.series[l.Get(LabelNamespace)]++
	n.mu.Unlock()
}

// PostDeletion implements tsdb.SeriesLifecycleCallback.
func (n *namespaceLimit) PostDeletion(deleted map[chunks.HeadSeriesRef]labels.Labels) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range deleted {
		namespace := l.Get(LabelNamespace)
		if n.series[namespace]--; n.series[namespace] <= 0 {
			delete(n.series, namespace)
		}
	}
}
