package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	stripes    int                   // of the table of series; zero: enough for 1,000,000 series without a queue
}

// db is a Store on Prometheus' tsdb.
type db struct {
	tsdb       *tsdb.DB // not embedded: its own queriers show the series of positions
	dir        string
	counts     counters
	limit      *namespaceLimit
	shown      *prometheus.Registry    // the metrics of the tsdb
	lostWrites func() (float64, error) // writes to the logs of the tsdb that failed

	mu       sync.Mutex
	progress map[positionKey]*progress
	lastMs   int64 // of the last position

	syncing sync.Mutex // held by Sync; it guards the fields below
	synced  string     // the segment of the write-ahead log that Sync synced last
	failed  error      // a sync failed, so that the kernel may have dropped unwritten pages
}

// positionKey names the positions of one of several workers in a log.
type positionKey struct {
	worker, workers int
	log             uint64
}

// progress says how far the values of a worker have come, by numbers of commits.
type progress struct {
	taken uint64 // all values up to this commit are in the tsdb
	held  uint64 // the last commit that may have late values; until Sync no position is written. Zero: none
	floor uint64 // all values up to this commit are on the disk
}

// counters are Counts while they change.
type counters struct{ values, moved, late, duplicate, unbounded atomic.Uint64 }

// register shows the counters on a registry.
func (c *counters) register(r prometheus.Registerer) (err error) {
	for _, m := range [...]struct {
		name, reason, help string
		value              *atomic.Uint64
	}{
		{"values_total", "", "Values appended to the series store.", &c.values},
		{"moved_total", "", "Values stored 1 ms later, because their series already has a value at their time.", &c.moved},
		{"refused_total", "late", "Values that the series store refused.", &c.late},
		{"refused_total", "duplicate", "Values that the series store refused.", &c.duplicate},
		{"refused_total", "series", "Values that the series store refused.", &c.unbounded},
	} {
		o := prometheus.CounterOpts{Namespace: "muster", Subsystem: "series", Name: m.name, Help: m.help}
		if m.reason != "" {
			o.ConstLabels = prometheus.Labels{"reason": m.reason}
		}
		err = errors.Join(err, r.Register(prometheus.NewCounterFunc(o, func() float64 { return float64(m.value.Load()) })))
	}
	return err
}

// Open opens the store in a folder, and makes the folder if it is missing.
func Open(dir string, o Options) (Store, error) {
	s := &db{dir: dir, limit: &namespaceLimit{series: map[string]int{}}, progress: map[positionKey]*progress{}}
	s.shown = prometheus.NewRegistry()
	s.lostWrites = func() (float64, error) { return failedWrites(s.shown) }
	t := tsdb.DefaultOptions()
	t.RetentionDuration, t.MaxBytes = o.Retention.Milliseconds(), o.MaxBytes
	t.OutOfOrderTimeWindow = o.LateWindow.Milliseconds()
	t.StripeSize = cmp.Or(o.stripes, 1<<18)
	t.BlockReloadInterval = 5 * time.Second // else full chunks wait for a minute in memory
	t.NoLockfile = true                     // the data folder is locked
	t.SeriesLifecycleCallback = s.limit
	if err := moveDamagedBlocks(dir, o.Logger); err != nil {
		return nil, fmt.Errorf("open series store %q: %w", dir, err)
	}
	var err error
	if s.tsdb, err = tsdb.Open(dir, o.Logger, s.shown, t, nil); err != nil {
		return nil, fmt.Errorf("open series store %q: %w", dir, err)
	}
	if err = s.readPositions(); err == nil {
		s.limit.max.Store(int64(o.MaxSeries)) // not before: series that are there stay
		err = s.Sync()
	}
	if err == nil && o.Registry != nil {
		err = errors.Join(o.Registry.Register(s.shown), s.counts.register(o.Registry))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open series store %q: %w", dir, err), s.tsdb.Close())
	}
	return s, nil
}

// failedWrites returns the writes to both logs that failed. The tsdb reports a failed write of late values in no other way.
func failedWrites(g prometheus.Gatherer) (n float64, err error) {
	families, err := g.Gather()
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "_writes_failed_total") {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n, err
}

// Close implements Store.
func (s *db) Close() error { return s.tsdb.Close() }

// recentPositions is how far before the newest sample the store looks for positions when it opens.
const recentPositions = 24 * time.Hour

// readPositions reads the last commit of each worker and log. It decodes one day of positions: a worker without newer ones
// had no values since, and the positions of a log only rise.
func (s *db) readPositions() error {
	newest := s.tsdb.Head().MaxTime()
	for _, b := range s.tsdb.Blocks() {
		newest = max(newest, b.MaxTime())
	}
	q, err := s.tsdb.Querier(max(newest, math.MinInt64+recentPositions.Milliseconds())-recentPositions.Milliseconds(), math.MaxInt64)
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, LabelMetric, positionName))
	var it chunkenc.Iterator
	for set.Next() {
		l := set.At().Labels()
		worker, err := strconv.Atoi(l.Get("worker"))
		workers, err2 := strconv.Atoi(l.Get("workers"))
		log, err3 := strconv.ParseUint(l.Get("log"), 16, 64)
		if err := errors.Join(err, err2, err3); err != nil {
			return fmt.Errorf("read position %s: %w", l, err)
		}
		p := s.progressOf(positionKey{worker, workers, log})
		it = set.At().Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			s.lastMs, p.taken = max(s.lastMs, ms), max(p.taken, uint64(v))
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return set.Err()
}

// progressOf returns the progress of a worker in a log; call it with mu.
func (s *db) progressOf(key positionKey) *progress {
	p := s.progress[key]
	if p == nil {
		p = &progress{}
		s.progress[key] = p
	}
	return p
}

// Floor implements Store.
func (s *db) Floor(worker, workers int, log uint64) journal.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return position(log, s.progressOf(positionKey{worker, workers, log}).floor)
}

// Stored implements Store.
func (s *db) Stored(partition int, common func(journal.Position) journal.Position) (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.progress {
		if p.taken > 0 && partition%key.workers == key.worker {
			number = max(number, common(position(key.log, p.taken)).Number)
		}
	}
	return number
}

// position returns a position, the zero one for number 0.
func position(log, number uint64) journal.Position {
	if number == 0 {
		return journal.Position{}
	}
	return journal.Position{Log: log, Number: number}
}

// Sync implements Store. The tsdb syncs a segment of its write-ahead log only when it is full, and late values have a log of
// their own, which it writes later and without an error. So positions of commits that may have late values are written here:
// when that log is synced and no write to it failed.
func (s *db) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.failed == nil {
		s.failed = s.sync()
	}
	return s.failed
}

// sync syncs both logs and raises the floors.
func (s *db) sync() error {
	s.mu.Lock()
	reached := make(map[positionKey]progress, len(s.progress))
	for key, p := range s.progress {
		reached[key] = *p
	}
	s.mu.Unlock()
	if err := s.syncLog("wbl", ""); err != nil {
		return err
	}
	if lost, err := s.lostWrites(); err != nil || lost > 0 {
		return errors.Join(errors.New("sync series store: cannot write values to its logs; the journal keeps the values: free disk space, then restart the server"), err)
	}
	if err := s.writeHeldPositions(reached); err != nil {
		return err
	}
	if err := s.syncLog("wal", s.synced); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range reached {
		p := s.progress[key]
		if p.floor = r.taken; p.held <= r.taken {
			p.held = 0
		}
	}
	return nil
}

// syncLog syncs the segments of a log of the tsdb, from one on. Their names have leading zeros, so they come in order.
func (s *db) syncLog(log, from string) error {
	files, err := filepath.Glob(filepath.Join(s.dir, log, "[0-9]*"))
	if log == "wal" && len(files) == 0 {
		return fmt.Errorf("sync series store: %q was deleted while the server runs; the journal keeps the values: restart the server", filepath.Join(s.dir, log))
	}
	for _, name := range append(files, filepath.Join(s.dir, log)) {
		if base := filepath.Base(name); base < from && base != log {
			continue
		}
		if err := syncFile(name); err != nil && !errors.Is(err, os.ErrNotExist) { // a compaction deletes segments whose samples blocks have
			return fmt.Errorf("sync series store: %w", err)
		}
	}
	if log == "wal" && len(files) > 0 {
		s.synced = filepath.Base(files[len(files)-1])
	}
	return err
}

// writeHeldPositions writes the positions of the workers that have held them back.
func (s *db) writeHeldPositions(reached map[positionKey]progress) error {
	tx := s.tsdb.Appender(context.Background())
	for key, r := range reached {
		if r.held == 0 {
			continue
		}
		if err := s.appendPosition(tx, key, r.taken, 0); err != nil {
			return errors.Join(fmt.Errorf("append position to series store: %w", err), tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit positions to series store: %w", err)
	}
	return nil
}

// appendPosition adds a position to a transaction, at a time in ms or later: never as a late value, which would be written
// to the other log.
func (s *db) appendPosition(tx storage.Appender, key positionKey, number uint64, ms int64) error {
	s.mu.Lock()
	s.lastMs = max(s.lastMs+1, ms, s.tsdb.Head().MaxTime())
	ms = s.lastMs
	s.mu.Unlock()
	_, err := tx.Append(0, labels.FromStrings(LabelMetric, positionName, "log", strconv.FormatUint(key.log, 16),
		"worker", strconv.Itoa(key.worker), "workers", strconv.Itoa(key.workers)), ms, float64(number))
	return err
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
	q, err := s.tsdb.Querier(from, to)
	if err != nil {
		return nil, err
	}
	return valueQuerier{q}, nil
}

// Appender implements Store.
func (s *db) Appender(worker, workers int) Appender {
	return &tsdbAppender{store: s, worker: worker, workers: workers, life: 1}
}

// tsdbAppender is an Appender on the tsdb.
type tsdbAppender struct {
	store           *db
	worker, workers int
	life            uint32           // counts restarts, from 1
	tx              storage.Appender // nil: no transaction is open
	values          uint64           // of tx
	inOrder         int64            // time in ms from which on tx takes values that are not late
	late            bool             // tx may have late values
	behind          bool
}

// openTransaction opens a transaction if none is open.
func (a *tsdbAppender) openTransaction() error {
	if a.behind {
		return ErrBehind
	}
	if a.tx == nil {
		from, ok := a.store.tsdb.Head().AppendableMinValidTime()
		if !ok {
			from = math.MinInt64
		}
		a.tx, a.values, a.late, a.inOrder = a.store.tsdb.Appender(context.Background()), 0, false, from+lateMargin.Milliseconds()
	}
	return nil
}

// lateMargin is how much earlier than the tsdb the store calls a value late: the head may move meanwhile.
const lateMargin = time.Minute

// Append implements Appender.
func (a *tsdbAppender) Append(s *Series, name func() labels.Labels, at int64, value float64) error {
	if err := a.openTransaction(); err != nil {
		return err
	}
	if s.life != a.life { // the times may belong to values that were rolled back
		s.life, s.given, s.taken = a.life, 0, 0
	}
	before := s.taken
	ms, moved := s.place(at)
	a.late = a.late || before == 0 || ms <= before || ms < a.inOrder
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
	if err := a.openTransaction(); err != nil {
		return err
	}
	key := positionKey{a.worker, a.workers, p.Log}
	a.store.mu.Lock()
	of := a.store.progressOf(key)
	if a.late {
		of.held = p.Number
	}
	held := of.held != 0
	a.store.mu.Unlock()
	if a.values > 0 && !held {
		if err := a.store.appendPosition(a.tx, key, p.Number, ms); err != nil {
			return a.fail(fmt.Errorf("append position to series store: %w", err))
		}
	}
	tx := a.tx
	a.tx = nil
	if err := tx.Commit(); err != nil { // the tsdb has rolled back
		a.behind = true
		return fmt.Errorf("commit to series store: %w", err)
	}
	a.store.counts.values.Add(a.values)
	a.store.mu.Lock()
	of.taken = p.Number
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
	return position(log, a.store.progressOf(positionKey{a.worker, a.workers, log}).taken)
}

// Restart implements Appender.
func (a *tsdbAppender) Restart() {
	a.behind = false
	a.life++
}

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
