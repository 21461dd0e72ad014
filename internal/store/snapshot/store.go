package snapshot

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Keep is the number of snapshots that the store keeps of each partition.
const Keep = 2

// Options has the settings of a Store, such as its folder.
type Options struct {
	FS  disk.FS // default disk.OS{}
	Dir string
	// Head is the last commit of the journal: a snapshot ahead of Head is never used.
	Head journal.Position
	// Resolve translates a position of an earlier incarnation of the journal (see
	// journal.Log.Resolve); nil: only positions of Head's incarnation are used.
	Resolve func(journal.Position) (journal.Position, error)

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Store keeps snapshot files in a folder, with an index in memory.
type Store struct {
	opts    Options
	metrics *metrics

	mu   sync.Mutex
	kept [model.Partitions][]snapshotFile // ascending by number
}

// snapshotFile describes one snapshot file in the index, by name and journal position.
type snapshotFile struct {
	name string
	at   journal.Position // position in the journal's present incarnation
	log  uint64           // incarnation of the journal that wrote the file, as in the file name
}

// Open opens the folder of snapshots, and renames snapshots that are newer than the end of the journal. Such snapshots
// are never loaded. Load reads the files.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Resolve == nil {
		log := o.Head.Log
		o.Resolve = func(p journal.Position) (journal.Position, error) {
			if p.Log != log && p.Number != 0 {
				return p, journal.ErrTrimmed
			}
			return journal.Position{Log: log, Number: p.Number}, nil
		}
	}
	s := &Store{opts: o, metrics: newMetrics(o.Registerer)}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("create the snapshot folder: %w", err)
	}
	if err := o.FS.SyncDir(filepath.Dir(o.Dir)); err != nil {
		return nil, fmt.Errorf("sync the parent directory of the snapshot folder: %w", err)
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	foreign := 0
	for _, name := range names {
		mine, err := s.indexFile(name)
		if err != nil {
			return nil, err
		}
		if !mine {
			foreign++
		}
	}
	if foreign > 0 {
		s.metrics.unusable.Add(float64(foreign))
		o.Logger.Warn("ignored snapshots of another incarnation of the data or of another server", "folder", o.Dir, "files", foreign)
	}
	for p := range s.kept {
		slices.SortFunc(s.kept[p], func(a, b snapshotFile) int { order, _ := a.at.Compare(b.at); return order })
	}
	return s, nil
}

// indexFile adds a snapshot file to the in-memory index of its partition. mine is false for a file of another
// journal.
func (s *Store) indexFile(name string) (mine bool, err error) {
	path := filepath.Join(s.opts.Dir, name)
	if strings.HasSuffix(name, unfinishedSuffix) {
		return true, s.opts.FS.Remove(path) // a crash interrupted the write of this file
	}
	p, at, ok := parseName(name)
	if !ok {
		return true, nil
	}
	now, err := s.opts.Resolve(at)
	if err != nil {
		return false, nil // the caller logs it, once for all files
	}
	if order, _ := now.Compare(s.opts.Head); order > 0 {
		// The journal would grow past this position with other commits: the snapshot must never be used again.
		s.opts.Logger.Error("the snapshot is newer than the journal; the server renames its file",
			"file", path, "snapshot", now.Number, "journal", s.opts.Head.Number)
		s.metrics.unusable.Inc()
		if err := s.opts.FS.Rename(path, path+aheadSuffix); err != nil {
			return true, fmt.Errorf("rename snapshot %q, which is newer than the journal: %w", path, err)
		}
		return true, s.opts.FS.SyncDir(s.opts.Dir)
	}
	s.kept[p] = append(s.kept[p], snapshotFile{name, now, at.Log})
	return true, nil
}

// Load returns the newest undamaged snapshot of a partition. ok is false for none. It logs skipped files and returns
// their errors, which explain a longer replay. Several goroutines may load partitions at the same time.
func (s *Store) Load(p model.Partition) (snap Snapshot, ok bool, passed []error) {
	s.mu.Lock()
	files := slices.Clone(s.kept[p])
	s.mu.Unlock()
	slices.Reverse(files)
	for _, f := range files {
		snap, err := s.readFile(p, f)
		if err != nil {
			err = fmt.Errorf("read snapshot %q: %w", filepath.Join(s.opts.Dir, f.name), err)
			s.opts.Logger.Error("the snapshot is unusable; the server uses an older snapshot or the journal",
				"file", filepath.Join(s.opts.Dir, f.name), "error", err)
			s.metrics.unusable.Inc()
			s.removeFromIndex(p, f)
			passed = append(passed, err)
			continue
		}
		return snap, true, passed
	}
	return Snapshot{}, false, passed
}

// Restore passes each partition's newest undamaged snapshot to fn, and returns where the journal replay must begin.
// The caller replays the journal from there. If a partition has no snapshot, that is the journal's beginning.
func (s *Store) Restore(parallel int, fn func(p model.Partition, at journal.Position, body []byte) error) (from journal.Position, restored int, err error) {
	var positions [model.Partitions]journal.Position
	var g errgroup.Group
	g.SetLimit(parallel)
	for p := range positions {
		g.Go(func() error {
			snap, ok, _ := s.Load(model.Partition(p)) // Load logs skipped files
			if !ok {
				return nil
			}
			positions[p] = snap.At
			return fn(snap.Partition, snap.At, snap.Body)
		})
	}
	if err := g.Wait(); err != nil {
		return journal.Position{}, 0, err
	}
	from = positions[0]
	for _, at := range positions {
		if at.Number > 0 {
			restored++
		}
		if at.Number < from.Number {
			from = at
		}
	}
	return from, restored, nil
}

// newestPosition returns the journal position at which a partition's newest snapshot was made, or zero.
func (s *Store) newestPosition(p model.Partition) journal.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.kept[p]); n > 0 {
		return s.kept[p][n-1].at
	}
	return journal.Position{}
}

// readFile reads and decodes one snapshot file.
func (s *Store) readFile(p model.Partition, f snapshotFile) (Snapshot, error) {
	data, err := disk.ReadFile(s.opts.FS, filepath.Join(s.opts.Dir, f.name))
	if err != nil {
		return Snapshot{}, err
	}
	snap, err := Parse(data)
	if err != nil {
		return Snapshot{}, err
	}
	if snap.Partition != p || snap.At.Number != f.at.Number || snap.At.Log != f.log {
		return Snapshot{}, fmt.Errorf("%w: partition %d and position %d in the header differ from the file name", ErrDamaged, snap.Partition, snap.At.Number)
	}
	snap.At = f.at
	return snap, nil
}

// removeFromIndex removes a file from the index in memory. A later cleanup deletes it.
func (s *Store) removeFromIndex(p model.Partition, f snapshotFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[p] = slices.DeleteFunc(s.kept[p], func(o snapshotFile) bool { return o == f })
}

// Pending is a complete snapshot file on disk that still has its temporary name.
type Pending struct {
	store     *Store
	partition model.Partition
	at        journal.Position
	path      string
}

// Write writes and syncs the encoded snapshot to a file with a temporary name.
func (s *Store) Write(p model.Partition, at journal.Position, data []byte) (*Pending, error) {
	path := filepath.Join(s.opts.Dir, fileName(p, at)) + unfinishedSuffix
	if err := disk.WriteNew(s.opts.FS, path, data); err != nil {
		return nil, fmt.Errorf("write snapshot %q: %w", path, err)
	}
	return &Pending{s, p, at, path}, nil
}

// Commit gives a snapshot its final name, and keeps only the last two snapshots of its partition. The last two stay.
// It discards the snapshot if a newer one has its name already.
func (x *Pending) Commit() error {
	s := x.store
	if x.at.Number < s.newestPosition(x.partition).Number {
		x.Discard()
		return nil
	}
	name := fileName(x.partition, x.at)
	path := filepath.Join(s.opts.Dir, name)
	if err := s.opts.FS.Rename(x.path, path); err != nil {
		x.Discard()
		return fmt.Errorf("rename snapshot %q: %w", path, err)
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return fmt.Errorf("sync snapshot folder: %w", err)
	}
	s.mu.Lock()
	files := slices.DeleteFunc(s.kept[x.partition], func(f snapshotFile) bool { return f.name == name })
	files = append(files, snapshotFile{name, x.at, x.at.Log})
	var old []snapshotFile
	if n := len(files) - Keep; n > 0 {
		old, files = slices.Clone(files[:n]), files[n:]
	}
	s.kept[x.partition] = files
	s.mu.Unlock()
	for _, f := range old {
		if err := s.opts.FS.Remove(filepath.Join(s.opts.Dir, f.name)); err != nil {
			return fmt.Errorf("remove old snapshot %q: %w", f.name, err)
		}
	}
	return nil
}

// Discard deletes the unfinished snapshot's file.
func (x *Pending) Discard() { _ = x.store.opts.FS.Remove(x.path) }

// ReplayStart returns the journal position from which a start of the server may have to replay. It is zero until every
// partition has two snapshots. The journal keeps all commits behind the floor.
func (s *Store) ReplayStart() journal.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	var floor journal.Position
	for p := range s.kept {
		if len(s.kept[p]) < Keep {
			return journal.Position{}
		}
		if at := s.kept[p][0].at; p == 0 || at.Number < floor.Number {
			floor = at
		}
	}
	return floor
}

// Consumers returns the snapshots as a journal consumer, so that the journal keeps commits for a restart's
// replay. The journal then keeps the commits that a restart has to replay.
func (s *Store) Consumers() []journal.Consumer {
	return []journal.Consumer{{Name: "snapshots", At: s.ReplayStart()}}
}

// KeepOldest deletes all snapshots but the oldest undamaged one of each partition. The next start then replays as much
// of a journal as it can. It returns their positions and the time of the newest one. Snapshots from before a position,
// the last commit before the journal's first, do not count.
func (s *Store) KeepOldest(before journal.Position) (kept [model.Partitions]journal.Position, newest time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.kept {
		files, oldest := s.kept[p], 0
		for ; oldest < len(files); oldest++ {
			if files[oldest].at.Number < before.Number {
				continue
			}
			snap, err := s.readFile(model.Partition(p), files[oldest])
			if err != nil {
				continue // Load logs it
			}
			if at := time.Unix(0, snap.Times.Received); at.After(newest) {
				newest = at
			}
			kept[p] = snap.At
			break
		}
		for _, f := range files[min(oldest+1, len(files)):] {
			if err := s.opts.FS.Remove(filepath.Join(s.opts.Dir, f.name)); err != nil {
				return kept, newest, fmt.Errorf("remove snapshot %q: %w", f.name, err)
			}
		}
		s.kept[p] = files[:min(oldest+1, len(files))]
	}
	return kept, newest, s.opts.FS.SyncDir(s.opts.Dir)
}

// Clear removes all snapshots, so that the next start replays the whole journal.
func (s *Store) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.kept {
		for _, f := range s.kept[p] {
			if err := s.opts.FS.Remove(filepath.Join(s.opts.Dir, f.name)); err != nil {
				return fmt.Errorf("remove snapshot %q: %w", f.name, err)
			}
		}
		s.kept[p] = nil
	}
	return s.opts.FS.SyncDir(s.opts.Dir)
}

// RemoveUnneeded deletes the snapshot files that no start of the server can need. If a partition has two good
// snapshots, these are its damaged files, its snapshots that were ahead of the journal, and its snapshots of other
// incarnations.
func (s *Store) RemoveUnneeded() error {
	names, err := s.opts.FS.List(s.opts.Dir)
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		p, _, ok := parseName(strings.TrimSuffix(name, aheadSuffix))
		if !ok || len(s.kept[p]) < Keep || slices.ContainsFunc(s.kept[p], func(f snapshotFile) bool { return f.name == name }) {
			continue
		}
		if err := s.opts.FS.Remove(filepath.Join(s.opts.Dir, name)); err != nil {
			return fmt.Errorf("remove old snapshot %q: %w", name, err)
		}
	}
	return nil
}
