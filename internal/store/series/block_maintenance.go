package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

const (
	defaultRange  = 2 * time.Hour
	levels        = 4               // of blocks: 2 h, 6 h, 18 h, 54 h
	levelStep     = 3               // ranges of a level in one of the next
	maxLates      = 1 << 20         // late values in memory that make Run write them at once
	maintainPause = 5 * time.Second // between two looks for work of Run
	headFolder    = "head"
)

// Ends of names of folders of blocks, which no block has.
const (
	damagedSuffix = ".damaged"          // the store could not read it
	deletedSuffix = ".tmp-for-deletion" // a crash may interrupt its removal
	createdSuffix = ".tmp-for-creation" // of the tsdb, which a crash interrupted
)

// blockName matches the folder of a block: a ULID.
var blockName = regexp.MustCompile(`^[0-9A-Z]{26}$`)

// db is a Store with recent values in memory and older values in blocks on disk. The part in memory is the head, the
// blocks are those of Prometheus' tsdb.
type db struct {
	dir        string
	options    Options
	partitions [model.Partitions]headPartition
	index      *seriesIndex
	refused    headSeries   // of handles whose series the namespace's limit refused; removed, so that the next value searches again
	sealed     atomic.Int64 // the head takes older values as late ones: blocks have their ranges

	filesMu sync.Mutex
	files   map[[2]int64]*rangeFile // by start and end
	missing map[[2]int64]bool       // reported

	headFault, blockFault atomic.Pointer[error]
	damageReported        atomic.Bool

	maintaining sync.Mutex
	compactor   *tsdb.LeveledCompactor
	end         context.CancelFunc // of the compactor
	trends      *db                // hourly aggregates of values that are deleted; nil: none

	mu   sync.Mutex
	view *queriedBlocks
}

// queriedBlocks is the set of blocks on disk that queries read, with a count of running queries. The blocks are in
// ascending order of time.
type queriedBlocks struct {
	blocks  []*tsdb.Block
	readers sync.WaitGroup
}

// Open opens the series store in a folder, and creates a missing folder. Decode fills the head before the first value
// is appended.
func Open(dir string, o Options) (Store, error) {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	o.Range, o.Logger = cmp.Or(o.Range, defaultRange), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &db{dir: dir, options: o, index: newIndex(), refused: headSeries{removed: true, refused: true}, files: map[[2]int64]*rangeFile{}, missing: map[[2]int64]bool{}}
	for i := range s.partitions {
		s.partitions[i].reset()
	}
	var err error
	if s.view, err = s.openBlocks(); err == nil {
		err = s.openFiles()
	}
	if err == nil && o.Registry != nil {
		err = register(s, o.Registry)
	}
	if err == nil {
		life, end := context.WithCancel(context.Background())
		s.end = end
		s.compactor, err = tsdb.NewLeveledCompactor(life, nil, o.Logger, o.mergeLevels(), nil, nil)
	}
	if err == nil {
		s.trends, err = openTrends(filepath.Join(dir, trendsFolder), o)
	}
	if err != nil {
		return nil, fmt.Errorf("open the series store in %q: %w", dir, errors.Join(err, s.closeFiles()))
	}
	return s, nil
}

// mergeLevels returns, for each merge level, the length in ms of a merged block's time range. A range is at
// most a tenth of the retention, so that old values are deleted in small steps.
func (o *Options) mergeLevels() []int64 {
	list := tsdb.ExponentialBlockRanges(o.Range.Milliseconds(), levels, levelStep)
	return slices.DeleteFunc(list, func(width int64) bool {
		return width > list[0] && o.Retention > 0 && width > o.Retention.Milliseconds()/10
	})
}

// log returns the logger of the store.
func (s *db) log() *slog.Logger { return s.options.Logger }

// headDir returns the folder of files with the full chunks of recent values.
func (s *db) headDir() string { return filepath.Join(s.dir, headFolder) }

// openBlocks opens the blocks on disk. It renames those that cannot be read, so that the rest is served, and deletes
// those that a merged one replaces. A block that the file system refuses to read is an error.
func (s *db) openBlocks() (*queriedBlocks, error) {
	v := &queriedBlocks{}
	s.sealed.Store(math.MinInt64)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return v, err
	}
	entries, err := os.ReadDir(s.dir)
	replaced := map[ulid.ULID]bool{}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if strings.HasSuffix(e.Name(), deletedSuffix) || strings.HasSuffix(e.Name(), createdSuffix) {
			err = errors.Join(err, os.RemoveAll(path))
		}
		if !blockName.MatchString(e.Name()) {
			continue
		}
		b, damage := tsdb.OpenBlock(s.log(), path, nil, nil)
		refused := new(fs.PathError)
		switch {
		case damage == nil:
			v.blocks = append(v.blocks, b)
			for _, parent := range b.Meta().Compaction.Parents {
				replaced[parent.ULID] = true
			}
		case errors.As(damage, &refused) && !errors.Is(damage, fs.ErrNotExist):
			err = errors.Join(err, damage)
		default:
			err = errors.Join(err, os.Rename(path, path+damagedSuffix))
			s.log().Error("series store has a damaged block: its values are missing in queries", "block", path+damagedSuffix, "err", damage)
		}
	}
	v.blocks = slices.DeleteFunc(v.blocks, func(b *tsdb.Block) bool {
		if replaced[b.Meta().ULID] {
			err = errors.Join(err, deleteBlock(b))
		}
		return replaced[b.Meta().ULID]
	})
	for _, b := range v.blocks {
		s.sealed.Store(max(s.sealed.Load(), b.Meta().MaxTime))
	}
	return v, err
}

// openFiles opens the files with full chunks of recent values. It deletes the files whose values are already in
// blocks.
func (s *db) openFiles() error {
	names, err := s.options.FS.List(s.headDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		f, damage := openRangeFile(s.options.FS, s.headDir(), name)
		if damage != nil {
			path := filepath.Join(s.headDir(), name)
			s.log().Error("series store has a damaged file: its values are missing in queries", "file", path+damagedSuffix, "err", damage)
			err = errors.Join(err, s.options.FS.Rename(path, path+damagedSuffix))
		} else if f != nil {
			s.files[[2]int64{f.start, f.end}] = f
		}
	}
	return errors.Join(err, s.removeFiles(s.sealed.Load()))
}

// removeFiles deletes the chunk files of time ranges before a time.
func (s *db) removeFiles(end int64) (err error) {
	var old []*rangeFile
	s.filesMu.Lock()
	for key, f := range s.files {
		if f.end <= end {
			old = append(old, f)
			delete(s.files, key)
		}
	}
	s.filesMu.Unlock()
	for _, f := range old { // without the mutex: the deletion of a large file takes long
		err = errors.Join(err, f.remove())
	}
	return err
}

// closeFiles closes all blocks and chunk files.
func (s *db) closeFiles() (err error) {
	for _, b := range s.view.blocks {
		err = errors.Join(err, b.Close())
	}
	for _, f := range s.files {
		err = errors.Join(err, f.close())
	}
	return err
}

// deleteBlock closes a block and deletes its folder. Its name changes first, so that a crash leaves no half of it.
func deleteBlock(b *tsdb.Block) error {
	away := b.Dir() + deletedSuffix
	if err := errors.Join(b.Close(), os.Rename(b.Dir(), away)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(away)
}

// reportDamage logs the first chunk that the store cannot read, because queries then lack values. Older values
// of its series are missing in queries.
func (s *db) reportDamage(f *rangeFile, offset int64, err error) {
	if !s.damageReported.Swap(true) {
		s.log().Error("series store cannot read a chunk: values of a series are missing in queries", "file", f.path(), "offset", offset, "err", err)
	}
}

// Run writes, merges and deletes blocks until ctx ends.
func (s *db) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { // a block that is being written is given up
		s.end()
		if s.trends != nil {
			s.trends.end()
		}
	})
	defer stop()
	for pause.For(ctx, maintainPause) == nil {
		err := s.maintain()
		if ctx.Err() != nil {
			return
		}
		if before := s.blockFault.Load(); err == nil {
			s.blockFault.Store(nil)
		} else if s.blockFault.Store(&err); before == nil {
			s.log().Error("series store cannot write its blocks; trying again", "err", err)
		}
	}
}

// Trouble returns the reason why the store cannot write its files, or nil without a problem.
func (s *db) Trouble() (err error) {
	for _, fault := range [...]*error{s.headFault.Load(), s.blockFault.Load()} {
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("the series store cannot write, so it keeps values in memory and tries again; free disk space or change the owner of the folder: %w", *fault))
		}
	}
	return err
}

// maintain writes finished time ranges to blocks, merges blocks, and deletes blocks beyond the retention.
func (s *db) maintain() error {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	if err := os.MkdirAll(s.dir, 0o700); err != nil { // it may have been deleted
		return err
	}
	s.index.publish() // so that a query need not
	oldest, newest, lates := s.valueTimes()
	wrote := false
	for oldest != math.MaxInt64 && s.rangeEnd(oldest)+s.options.Range.Milliseconds()/2 <= newest {
		start, end := s.rangeStart(oldest), s.rangeEnd(oldest)
		s.sealed.Store(max(s.sealed.Load(), end))
		if err := s.writeBlock(start, end); err != nil {
			return err
		}
		wrote = true
		oldest, _, _ = s.valueTimes()
	}
	if wrote || lates > maxLates {
		if err := s.writeLateValues(); err != nil {
			return err
		}
	}
	if err := s.merge(); err != nil {
		return err
	}
	return s.enforceRetention(newest)
}

// valueTimes returns the times of the oldest and the newest value in memory. It also returns the number of late values.
func (s *db) valueTimes() (oldest, newest int64, lates int) {
	oldest, newest = math.MaxInt64, math.MinInt64
	for i := range s.partitions {
		p := &s.partitions[i]
		p.mu.Lock()
		oldest, newest, lates = min(oldest, p.oldest), max(newest, p.newest), lates+p.lates
		p.mu.Unlock()
	}
	return oldest, newest, lates
}

// writeLateValues writes late values to blocks of their own if their time range is already on disk. The blocks are merged
// later.
func (s *db) writeLateValues() error {
	starts := map[int64]bool{}
	for i := range s.partitions {
		p := &s.partitions[i]
		p.mu.Lock()
		for _, list := range p.late {
			for _, v := range list {
				if v.ms < s.sealed.Load() {
					starts[s.rangeStart(v.ms)] = true
				}
			}
		}
		p.mu.Unlock()
	}
	for start := range starts {
		if err := s.writeBlock(start, min(s.rangeEnd(start), s.sealed.Load())); err != nil {
			return err
		}
	}
	return nil
}

// writeBlock writes a finished time range from memory to a block. Then it drops the values from memory, when no query
// reads them any more.
func (s *db) writeBlock(start, end int64) error {
	r := &headReader{db: s, from: start, to: end - 1, lateRead: map[*headSeries][]point{}}
	names, err := s.compactor.Write(s.dir, r, start, end, nil)
	if err != nil {
		return fmt.Errorf("write a block to %q: %w", s.dir, err)
	}
	if err := s.replaceBlocks(nil, names); err != nil {
		return err
	}
	for i := range s.partitions {
		s.dropValues(&s.partitions[i], end, r.lateRead)
	}
	return s.removeFiles(end)
}

// replaceBlocks opens new blocks for queries, and deletes old blocks after their last query.
func (s *db) replaceBlocks(old []*tsdb.Block, names []ulid.ULID) (err error) {
	blocks := slices.DeleteFunc(slices.Clone(s.view.blocks), func(b *tsdb.Block) bool { return slices.Contains(old, b) })
	for _, name := range names {
		b, err := tsdb.OpenBlock(s.log(), filepath.Join(s.dir, name.String()), nil, nil)
		if err != nil {
			return fmt.Errorf("open the newly written block: %w", err)
		}
		blocks = append(blocks, b)
	}
	slices.SortStableFunc(blocks, func(a, b *tsdb.Block) int { return cmp.Compare(a.Meta().MinTime, b.Meta().MinTime) })
	s.mu.Lock()
	before := s.view
	s.view = &queriedBlocks{blocks: blocks}
	s.mu.Unlock()
	before.readers.Wait()
	for _, b := range old {
		err = errors.Join(err, deleteBlock(b))
	}
	return err
}

// merge merges small and overlapping blocks on disk into larger blocks, level by level.
func (s *db) merge() error {
	for {
		dirs, err := s.compactor.Plan(s.dir)
		if err != nil || len(dirs) == 0 {
			return err
		}
		names, err := s.compactor.Compact(s.dir, dirs, s.view.blocks)
		if err != nil {
			return fmt.Errorf("merge blocks of %q: %w", s.dir, err)
		}
		var old []*tsdb.Block
		for _, b := range s.view.blocks {
			if slices.Contains(dirs, b.Dir()) {
				old = append(old, b)
			}
		}
		if err := s.replaceBlocks(old, names); err != nil {
			return err
		}
	}
}

// enforceRetention deletes blocks older than the retention, and the oldest blocks above the size limit.
func (s *db) enforceRetention(newest int64) error {
	size := int64(0)
	var old []*tsdb.Block
	blocks := slices.SortedFunc(slices.Values(s.view.blocks), func(a, b *tsdb.Block) int { return cmp.Compare(b.Meta().MaxTime, a.Meta().MaxTime) })
	for _, b := range blocks {
		size += b.Size()
		if s.options.Retention > 0 && b.Meta().MaxTime <= newest-s.options.Retention.Milliseconds() || s.options.MaxBytes > 0 && size > s.options.MaxBytes {
			old = append(old, b)
		}
	}
	if len(old) == 0 {
		return nil
	}
	if err := s.writeTrends(old, newest); err != nil {
		return err
	}
	return s.replaceBlocks(old, nil)
}

// SeriesCount returns the number of series in the head of a namespace. Series of bounds do not count.
func (s *db) SeriesCount(namespace string) int { return s.index.counts.valueSeries(namespace) }

// Counts returns the store's counters, such as refused values, since the opening of the store.
func (s *db) Counts() (sum Counts) {
	for i := range s.partitions {
		p := &s.partitions[i]
		p.mu.Lock()
		sum.Values, sum.Moved = sum.Values+p.counts.Values, sum.Moved+p.counts.Moved
		sum.Doubled, sum.Late, sum.Dense, sum.Unbounded, sum.Crowded = sum.Doubled+p.counts.Doubled, sum.Late+p.counts.Late, sum.Dense+p.counts.Dense, sum.Unbounded+p.counts.Unbounded, sum.Crowded+p.counts.Crowded
		sum.Unchecked += p.counts.Unchecked
		p.mu.Unlock()
	}
	return sum
}

// Close closes the store. The values of the head are in the journal and its snapshots.
func (s *db) Close() error {
	s.end()
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	s.view.readers.Wait()
	err := s.closeFiles()
	if s.trends != nil {
		err = errors.Join(err, s.trends.Close())
	}
	return err
}

// Querier returns a querier over all values between two times, in memory and in blocks.
func (s *db) Querier(from, to int64) (storage.Querier, error) {
	s.mu.Lock()
	v := s.view
	v.readers.Add(1)
	s.mu.Unlock()
	head, err := tsdb.NewBlockQuerier(&headReader{db: s}, from, to)
	list := []storage.Querier{&headQuerier{head, s, from, to}}
	for _, b := range v.blocks {
		if err == nil && b.OverlapsClosedInterval(from, to) {
			var q storage.Querier
			if q, err = tsdb.NewBlockQuerier(b, from, to); err == nil {
				list = append(list, q)
			}
		}
	}
	if err == nil && s.trends.overlaps(from, to) {
		var q storage.Querier
		if q, err = s.trends.Querier(from, to); err == nil {
			list = append(list, trendQuerier{q})
		}
	}
	if err != nil {
		for _, q := range list {
			err = errors.Join(err, q.Close())
		}
		v.readers.Done()
		return nil, err
	}
	return &protectedQuerier{Querier: storage.NewMergeQuerier(list, nil, storage.ChainedSeriesMerge), view: v}, nil
}

// protectedQuerier is a querier that prevents the deletion of its blocks and chunks until Close.
type protectedQuerier struct {
	storage.Querier
	view *queriedBlocks
	once sync.Once
}

// Close closes the querier, so that old blocks and chunks may be deleted.
func (q *protectedQuerier) Close() error {
	defer q.once.Do(q.view.readers.Done)
	return q.Querier.Close()
}
