package snapshot

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

const dir = "/snapshots"

// testPosition returns the journal position of a commit number.
func testPosition(number uint64) journal.Position { return journal.Position{Log: 7, Number: number} }

// open opens a test's snapshot store, for a journal that ends at commit number head.
func open(t *testing.T, fs disk.FS, head uint64) *Store {
	t.Helper()
	s, err := Open(Options{FS: fs, Dir: dir, Head: testPosition(head)})
	testenv.NoError(t, err)
	return s
}

// testBody returns a test body for a snapshot, which no other partition or commit number has.
func testBody(p model.Partition, number uint64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "partition %d at %d;", p, number), 10)
}

// saveSnapshot saves a test snapshot of a partition, as of a given commit number.
func saveSnapshot(s *Store, p model.Partition, number uint64) error {
	x, err := s.Write(p, testPosition(number), Append(nil, &Snapshot{Partition: p, At: testPosition(number), Revision: 3, Body: testBody(p, number)}))
	if err != nil {
		return err
	}
	return x.Commit()
}

// mustSave saves snapshots of a partition, and fails the test on an error. Their positions have the given commit
// numbers.
func mustSave(t *testing.T, s *Store, p model.Partition, numbers ...uint64) {
	t.Helper()
	for _, n := range numbers {
		testenv.NoError(t, saveSnapshot(s, p, n))
	}
}

// loadNumber returns the commit number of the snapshot that the store loads for a partition, or 0.
func loadNumber(t *testing.T, s *Store, p model.Partition) uint64 {
	t.Helper()
	snap, ok, _ := s.Load(p)
	if !ok {
		return 0
	}
	if snap.Partition != p || snap.Revision != 3 || !bytes.Equal(snap.Body, testBody(p, snap.At.Number)) {
		t.Fatalf("loaded %+v", snap)
	}
	return snap.At.Number
}

// fileNames returns the names of all files in the snapshot folder.
func fileNames(t *testing.T, fs disk.FS) string {
	t.Helper()
	list, err := fs.List(dir)
	testenv.NoError(t, err)
	return strings.Join(list, " ")
}

// The encoding of a snapshot equals the golden file.
func TestSnapshotGoldenBytes(t *testing.T) {
	got := hex.Dump(Append(nil, &Snapshot{
		Partition: 200, At: journal.Position{Log: 0x0102030405060708, Number: 99}, Revision: 5, Body: testBody(200, 99),
	}))
	const golden = "testdata/v1.hex"
	testenv.Golden(t, golden, got, "a new version of the format")
}

// After several saves, the folder keeps the last two snapshots of a partition. Load takes the newest.
func TestLastTwoSnapshotsAreKept(t *testing.T) {
	fs := memfs.New()
	s := open(t, fs, 100)
	mustSave(t, s, 4, 10, 20, 30)
	if got := len(strings.Fields(fileNames(t, fs))); got != Keep {
		t.Fatalf("%d files, want %d", got, Keep)
	}
	if s = open(t, fs, 100); loadNumber(t, s, 4) != 30 {
		t.Fatal("the newest was not loaded")
	}
	mustSave(t, s, 4, 30) // a second snapshot of the same position replaces the first
	if got := loadNumber(t, open(t, fs, 100), 4); got != 30 {
		t.Fatalf("loaded %d", got)
	}
}

// TestReplayStartIsOldestSnapshot saves snapshots, and expects ReplayStart to return the position of the oldest
// kept snapshot. The whole journal is kept until every partition has two snapshots.
func TestReplayStartIsOldestSnapshot(t *testing.T) {
	s := open(t, memfs.New(), 10_000)
	for p := range model.Partitions {
		mustSave(t, s, model.Partition(p), uint64(100+p))
	}
	if floor := s.ReplayStart(); floor.Number != 0 {
		t.Fatalf("floor %v although each has only one", floor)
	}
	for p := range model.Partitions {
		mustSave(t, s, model.Partition(p), uint64(1000+p))
	}
	if floor := s.ReplayStart(); floor != testPosition(100) {
		t.Fatalf("floor %v, want 100", floor)
	}
}

// TestLoadChoosesNewestUndamagedSnapshot expects Load to choose the newest undamaged snapshot. A snapshot ahead of the
// journal does not count.
func TestLoadChoosesNewestUndamagedSnapshot(t *testing.T) {
	damage := func(t *testing.T, fs disk.FS, number uint64, change func([]byte) []byte) {
		path := filepath.Join(dir, fileName(4, testPosition(number)))
		data, err := disk.ReadFile(fs, path)
		testenv.NoError(t, err)
		testenv.NoError(t, disk.WriteFile(fs, dir, fileName(4, testPosition(number)), change(data)))
	}
	flip := func(offset int) func([]byte) []byte {
		return func(b []byte) []byte { b[(offset+len(b))%len(b)] ^= 4; return b }
	}
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	for _, c := range []struct {
		name   string
		spoil  func(*testing.T, disk.FS)
		head   uint64
		want   uint64
		passed int
	}{
		{"all is well", func(*testing.T, disk.FS) {}, 100, 20, 0},
		{"a bit of the body flipped", func(t *testing.T, fs disk.FS) { damage(t, fs, 20, flip(-3)) }, 100, 10, 1},
		{"a bit of the position flipped", func(t *testing.T, fs disk.FS) { damage(t, fs, 20, flip(20)) }, 100, 10, 1},
		{"a bit of the checksum flipped", func(t *testing.T, fs disk.FS) { damage(t, fs, 20, flip(checksumOffset)) }, 100, 10, 1},
		{"truncated", func(t *testing.T, fs disk.FS) { damage(t, fs, 20, cut) }, 100, 10, 1},
		{"empty", func(t *testing.T, fs disk.FS) { damage(t, fs, 20, func([]byte) []byte { return nil }) }, 100, 10, 1},
		{"of another place", func(t *testing.T, fs disk.FS) {
			damage(t, fs, 20, func([]byte) []byte {
				return Append(nil, &Snapshot{Partition: 5, At: testPosition(20)})
			})
		}, 100, 10, 1},
		{"of another log", func(t *testing.T, fs disk.FS) {
			damage(t, fs, 20, func([]byte) []byte {
				return Append(nil, &Snapshot{Partition: 4, At: journal.Position{Log: 99, Number: 20}})
			})
		}, 100, 10, 1},
		{"both damaged", func(t *testing.T, fs disk.FS) { damage(t, fs, 10, cut); damage(t, fs, 20, flip(50)) }, 100, 0, 2},
		{"ahead of the log", func(*testing.T, disk.FS) {}, 19, 10, 0},
		{"both ahead of the log", func(*testing.T, disk.FS) {}, 9, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := memfs.New()
			mustSave(t, open(t, fs, 100), 4, 10, 20)
			c.spoil(t, fs)
			s := open(t, fs, c.head)
			snap, _, passed := s.Load(4)
			if snap.At.Number != c.want || len(passed) != c.passed {
				t.Fatalf("loaded %d, passed over %v; want %d and %d", snap.At.Number, passed, c.want, c.passed)
			}
			for _, err := range passed {
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) {
					t.Fatalf("the error does not say what and where: %v", err)
				}
			}
			// A snapshot that was ahead of the journal is never used again; Sweep removes it once there are two good ones.
			mustSave(t, s, 4, 200, 300)
			testenv.NoError(t, s.RemoveUnneeded())
			if got := len(strings.Fields(fileNames(t, fs))); got != Keep {
				t.Fatalf("%d files are left: %s", got, fileNames(t, fs))
			}
		})
	}
}

// TestKeepOldestKeepsReplayableSnapshots expects KeepOldest to keep each partition's oldest undamaged snapshot
// that the journal continues.
func TestKeepOldestKeepsReplayableSnapshots(t *testing.T) {
	fs := memfs.New()
	s := open(t, fs, 100)
	mustSave(t, s, 1, 50, 90)
	mustSave(t, s, 2, 40, 80) // the journal lacks the commits between 40 and 45
	mustSave(t, s, 3, 70)
	mustSave(t, s, 4, 60, 95)
	damaged := filepath.Join(dir, fileName(4, testPosition(60)))
	testenv.NoError(t, fs.Remove(damaged))
	testenv.NoError(t, disk.WriteNew(fs, damaged, []byte("damaged")))
	kept, newest, err := s.KeepOldest(testPosition(45))
	testenv.NoError(t, err)
	if !newest.Equal(time.Unix(0, 0)) {
		t.Errorf("the newest is of %s", newest)
	}
	for _, s := range []*Store{s, open(t, fs, 100)} {
		for p, want := range []uint64{0, 50, 80, 70, 95} {
			if at := loadNumber(t, s, model.Partition(p)); at != want || kept[p].Number != want {
				t.Errorf("partition %d: loads commit %d, keeps %d, want %d", p, at, kept[p].Number, want)
			}
		}
	}
}

// TestReadNames checks the positions that ReadNames returns for a snapshot folder.
func TestReadNames(t *testing.T) {
	fs := memfs.New()
	if n, err := ReadNames(fs, dir); n.Positions != nil || n.Oldest.Number != 0 || err != nil {
		t.Fatalf("no folder: %v, %v", n, err)
	}
	s := open(t, fs, 300)
	mustSave(t, s, 4, 10, 20)
	mustSave(t, s, 5, 15)
	if n, err := ReadNames(fs, dir); err != nil || !slices.Equal(n.Positions, []journal.Position{testPosition(20)}) || n.Oldest.Number != 0 {
		t.Fatalf("with partitions that have no snapshot: %v, %v", n, err)
	}
	for p := range model.Partitions {
		mustSave(t, s, model.Partition(p), 100+uint64(p%7), 200)
	}
	if n, err := ReadNames(fs, dir); err != nil || !slices.Equal(n.Positions, []journal.Position{testPosition(200)}) || n.Oldest != testPosition(100) {
		t.Fatalf("%v, %v", n, err)
	}
	if floor := s.ReplayStart(); floor != testPosition(100) {
		t.Fatalf("the log may be cut at %v", floor)
	}
}

// TestSnapshotsBeforeJournalRestore opens snapshots from before a journal restore, and expects only snapshots
// at still valid positions. Both journals share the commits up to a position.
func TestSnapshotsBeforeJournalRestore(t *testing.T) {
	fs := memfs.New()
	mustSave(t, open(t, fs, 100), 4, 10, 20)
	s, err := Open(Options{FS: fs, Dir: dir, Head: journal.Position{Log: 8, Number: 100}})
	testenv.NoError(t, err)
	if got := loadNumber(t, s, 4); got != 0 {
		t.Fatalf("used %d of another life", got)
	}
	// A restored copy of the journal has the same commits up to the backup.
	s, err = Open(Options{FS: fs, Dir: dir, Head: journal.Position{Log: 8, Number: 100}, Resolve: func(p journal.Position) (journal.Position, error) {
		if p.Number > 15 {
			return p, journal.ErrTrimmed
		}
		return journal.Position{Log: 8, Number: p.Number}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	snap, _, _ := s.Load(4)
	if snap.At != (journal.Position{Log: 8, Number: 10}) {
		t.Fatalf("loaded %v", snap.At)
	}
}

// After a power failure at any disk operation, Load finds the last committed snapshot or a newer one.
func TestCrashAtEveryOperation(t *testing.T) {
	stop := errors.New("power fails")
	for fail := 0; ; fail++ {
		mem := memfs.New()
		faults := faultfs.New(mem)
		ops := 0
		crashed := false
		faults.OnOperation(func(op faultfs.Op) error {
			if op.Kind.Changes() {
				if ops++; ops > fail {
					crashed = true
					return stop
				}
			}
			return nil
		})
		committed := uint64(0)
		if s, err := Open(Options{FS: faults, Dir: dir, Head: testPosition(1000)}); err == nil {
			for n := uint64(10); n <= 60; n += 10 {
				if saveSnapshot(s, 4, n) != nil {
					break
				}
				committed = n
			}
		}
		for _, keep := range []int{0, 50, 100} {
			after := mem.Crash(keep, uint64(fail))
			s, err := Open(Options{FS: after, Dir: dir, Head: testPosition(1000)})
			testenv.NoError(t, err)
			snap, ok, passed := s.Load(4)
			if got := snap.At.Number; got < committed || ok && !bytes.Equal(snap.Body, testBody(4, got)) || len(passed) > 0 {
				t.Fatalf("after operation %d, keeping %d%%: loaded %d, passed %v, committed %d", fail, keep, got, passed, committed)
			}
		}
		if !crashed {
			break
		}
	}
}

// fakeStateSource is a fake StateSource with a journal position that grows with each snapshot.
type fakeStateSource struct{ number uint64 }

// Snapshot returns a new body and a higher position at each call.
func (v *fakeStateSource) Snapshot(p model.Partition, dst []byte) ([]byte, journal.Position) {
	v.number++
	return append(dst, testBody(p, v.number)...), testPosition(v.number)
}

// Revision always returns revision 3.
func (v *fakeStateSource) Revision() int64 { return 3 }

// TestPeriodicSaverWaitsForEffects expects snapshots at even intervals, each after the reducers have stored
// their effects. Each gets its final name only after the effects of its journal entries are recorded.
func TestPeriodicSaverWaitsForEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := memfs.New()
		s := open(t, fs, 0)
		reacted := make(chan struct{})
		floors := make(chan uint64, 8)
		c := &PeriodicSaver{Store: s, View: &fakeStateSource{}, Period: time.Minute,
			Gates: []Gate{{Reducer: "events", Wait: func(ctx context.Context, _ model.Partition, p journal.Position) error {
				select {
				case <-reacted:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}, {Reducer: "metrics", Wait: func(context.Context, model.Partition, journal.Position) error { return nil }}},
			Saved: func() {
				if floor := s.ReplayStart(); floor.Number > 0 {
					floors <- floor.Number
				}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := strings.Fields(fileNames(t, fs)); len(got) != 42 || strings.Count(strings.Join(got, " "), unfinishedSuffix) != len(got) {
			t.Fatalf("before reactions have come: %q", got) // all written in their turn, none named
		}
		close(reacted)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if len(floors) != 0 {
			t.Fatal("a floor after one cycle")
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if floor := <-floors; floor != 1 || len(floors) != 0 {
			t.Fatalf("floor %d after two cycles, %d more", floor, len(floors))
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestCycleLengthFollowsReplayAndPressure expects a cycle of snapshots to last its whole period while a restart
// has little to replay. A busy server takes a minute, a server with a full journal a second. A shorter setting
// stays in force.
func TestCycleLengthFollowsReplayAndPressure(t *testing.T) {
	for _, c := range []struct {
		period   time.Duration
		replay   int64
		pressure float64
		want     time.Duration
	}{
		{0, 0, 0, 10 * time.Minute},
		{10 * time.Minute, maxQuietReplay / 3, 0.5, 7 * time.Minute},
		{10 * time.Minute, maxQuietReplay, 0, time.Minute},
		{10 * time.Minute, 100 * maxQuietReplay, 0, time.Minute},
		{10 * time.Minute, 0, 0.8, time.Second},
		{10 * time.Minute, maxQuietReplay, 0.625, 30500 * time.Millisecond},
		{2 * time.Second, 100 * maxQuietReplay, 0, 2 * time.Second},
		{100 * time.Millisecond, 100 * maxQuietReplay, 1, 100 * time.Millisecond},
	} {
		saver := &PeriodicSaver{Period: c.period, ReplaySize: func() int64 { return c.replay }, Pressure: func() float64 { return c.pressure }}
		if got := (saver.saveInterval() * model.Partitions).Round(time.Millisecond); got != c.want {
			t.Errorf("period %s, %d bytes to replay, journal %.0f %% full: a cycle takes %s, want %s", c.period, c.replay, 100*c.pressure, got, c.want)
		}
	}
}

// TestCycleShortensWhenServerBecomesBusy makes the server busy during a snapshot cycle, and expects shorter
// intervals between remaining snapshots.
func TestCycleShortensWhenServerBecomesBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := memfs.New()
		var replay atomic.Int64
		saver := &PeriodicSaver{Store: open(t, fs, 0), View: &fakeStateSource{}, Period: 10 * time.Minute, ReplaySize: replay.Load}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- saver.Run(ctx) }()
		saved := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			return len(strings.Fields(fileNames(t, fs)))
		}
		if got := saved(time.Minute); got != 25 {
			t.Errorf("a quiet server has saved %d partitions after a minute, want 25", got)
		}
		replay.Store(maxQuietReplay)
		if got := saved(time.Minute); got < 250 {
			t.Errorf("a busy server has saved %d partitions after another minute, want all but a few", got)
		}
		cancel()
		testenv.NoError(t, <-done)
	})
}

// FuzzParse parses random bytes as a snapshot, and expects an error or the same snapshot after encoding.
func FuzzParse(f *testing.F) {
	f.Add(Append(nil, &Snapshot{Partition: 3, At: testPosition(9), Body: testBody(3, 9)}))
	f.Add([]byte(magic))
	f.Add([]byte(fileName(255, testPosition(9))))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, at, ok := parseName(string(data)); ok && fileName(p, at) != string(data) {
			t.Fatalf("file %q is read as %q", data, fileName(p, at))
		}
		s, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(Append(nil, &s))
		if err != nil || !bytes.Equal(again.Body, s.Body) || again.At != s.At {
			t.Fatalf("%v: %+v", err, again)
		}
	})
}
