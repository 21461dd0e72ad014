package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
)

// appendTestEntry appends the n-th test entry to a log.
func appendTestEntry(t *testing.T, l *journal.Log, a *journaltest.Acks, n int) {
	t.Helper()
	err := l.Append(context.Background(), journal.Entry{Section: 1, Data: numberedEntry(n), Waiter: a, Token: uint64(n)})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskBlocksCommits fills the disk, and expects commits to wait until space is free. The log deletes its
// reserve file, and Append waits once the queue is full.
func TestFullDiskBlocksCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New(memfs.New())
		l := openTestLog(t, "/j", journal.Options{FS: fs, Tick: -1, Reserve: 1 << 20, QueueBytes: 5000})
		a := journaltest.NewAcks()
		appendTestEntry(t, l, a, 0)
		a.Wait(1)
		has := func(name string) bool { f, err := fs.Open("/j/" + name); return err == nil && f.Close() == nil }
		if !has("RESERVE") {
			t.Fatal("the open log has no reserve file")
		}
		fs.SetFree(0)
		for i := 1; i < 10; i++ {
			appendTestEntry(t, l, a, i)
		}
		synctest.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(a.Results()); n != 1 {
			t.Fatalf("%d acknowledged on a full disk", n)
		}
		if err := l.Stats().Blocked; err == nil || !strings.Contains(err.Error(), "disk is full") {
			t.Fatalf("blocked: %v", err)
		}
		if has("RESERVE") {
			t.Fatal("the reserve was not released")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = l.Append(ctx, journal.Entry{Section: 1, Data: make([]byte, 1000)})
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("append to a full queue: %v", err)
		}
		fs.SetFree(2 << 19) // room for entries, not for the reserve
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(a.Results()); n != 1 {
			t.Fatal("commits used the room that snapshots need")
		}
		fs.SetFree(8 << 20)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(a.Results()); n != 10 || l.Stats().Blocked != nil || !has("RESERVE") {
			t.Fatalf("%d acknowledged, blocked %v", n, l.Stats().Blocked)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// After a failed sync or write, the log writes the commit again, to a new segment. Readers get the commit once.
func TestFailedSyncRepeatsCommitInNewSegment(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Sync, faultfs.Write} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memfs.New()
				fs := faultfs.New(inner)
				o := journal.Options{FS: fs, Tick: -1, Reserve: -1}
				l := openTestLog(t, "/j", o)
				a := journaltest.NewAcks()
				for i := range 5 {
					appendTestEntry(t, l, a, i)
					a.Wait(i + 1)
				}
				fails := 0
				fs.OnOperation(func(op faultfs.Op) error {
					if op.Kind == kind && strings.HasSuffix(op.Name, ".log") && fails < 3 {
						fails++
						return syscall.EIO
					}
					return nil
				})
				fs.Record()
				appendTestEntry(t, l, a, 5)
				a.Wait(6)
				synced := map[string]bool{}
				for _, op := range fs.Trace() {
					if op.Kind == faultfs.Sync && strings.HasSuffix(op.Name, ".log") {
						if synced[op.Name] && fails < 3 {
							t.Fatalf("%s was synced again after a failure", op.Name)
						}
						synced[op.Name] = true
					}
				}
				appendTestEntry(t, l, a, 6)
				a.Wait(7)
				want := journaltest.ReadEntryTexts(t, l, journal.Position{})
				if len(want) != 7 {
					t.Fatalf("the log has the entries %q, want 7", want)
				}
				crashed := inner.Crash(0, 1)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				o.FS = crashed
				l = openTestLog(t, "/j", o)
				defer l.Close()
				if got := journaltest.ReadEntryTexts(t, l, journal.Position{}); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("the log has the entries %q after the failed sync", got)
				}
			})
		})
	}
}

// If a failed sync loses acknowledged bytes, the log reports the loss and refuses further commits.
func TestLostAcknowledgedCommitsStopLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memfs.New()
		fs := faultfs.New(inner)
		l := openTestLog(t, "/j", journal.Options{FS: fs, Tick: -1, Reserve: -1})
		a := journaltest.NewAcks()
		appendTestEntry(t, l, a, 0)
		a.Wait(1)
		fs.OnOperation(func(op faultfs.Op) error {
			if op.Kind != faultfs.Sync {
				return nil
			}
			f, err := inner.OpenWrite("/j/00000000000000000001.log")
			if err != nil {
				return err
			}
			defer f.Close()
			_, _ = f.WriteAt([]byte("gone"), 100)
			return syscall.EIO
		})
		appendTestEntry(t, l, a, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		var damage *journal.DamageError
		if err := l.Stats().Blocked; !errors.As(err, &damage) {
			t.Fatalf("blocked: %v", err)
		}
		_ = l.Close()
		if heard := a.Results(); len(heard) != 2 || !errors.Is(heard[1].Err, journal.ErrClosed) {
			t.Fatalf("waiters got the outcomes %+v", heard)
		}
	})
}

// TestBudgetBlocksCommitsUntilCut fills a log to its size limit, and expects commits to wait until old segments are
// deleted. The cut deletes old segments.
func TestBudgetBlocksCommitsUntilCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openTestLog(t, "/j", journal.Options{FS: memfs.New(), Tick: -1, Reserve: -1, Budget: 20_000, QueueBytes: 1 << 20})
		defer l.Close()
		a := journaltest.NewAcks()
		for i := range 300 {
			appendTestEntry(t, l, a, i)
			synctest.Wait()
		}
		if err := l.Stats().Blocked; !errors.Is(err, journal.ErrBudget) {
			t.Fatalf("blocked: %v", err)
		}
		if s := l.Stats(); s.SizeBytes > s.BudgetBytes {
			t.Fatalf("%d bytes over a budget of %d", s.SizeBytes, s.BudgetBytes)
		}
		if s := l.Stats(); s.FillRatio() != 1 {
			t.Fatalf("pressure %v", s.FillRatio())
		}
		began := time.Now()
		for range 100 {
			if len(a.Results()) == 300 {
				if took := time.Since(began); took > 0 {
					t.Errorf("commits went on %v after there was room", took)
				}
				return
			}
			if err := l.Cut(l.Head()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		t.Fatalf("%d of 300 committed though all was cut", len(a.Results()))
	})
}

// TestSizeAfterCountsUnreadBytes compares SizeAfter at every position with the number of bytes written behind
// the position.
func TestSizeAfterCountsUnreadBytes(t *testing.T) {
	l := openTestLog(t, "/j", journal.Options{FS: memfs.New(), Tick: -1, Reserve: -1, SegmentSize: 1 << 20})
	defer l.Close()
	a := journaltest.NewAcks()
	data, random := make([]byte, 200<<10), rand.NewChaCha8([32]byte{})
	for i := range 40 {
		_, _ = random.Read(data)
		if err := l.Append(t.Context(), journal.Entry{Section: 1, Data: data, Waiter: a}); err != nil {
			t.Fatal(err)
		}
		a.Wait(i + 1)
	}
	whole := l.Stats().SizeBytes
	for number := range l.Head().Number + 1 {
		at := journal.Position{Log: l.Head().Log, Number: number}
		want := whole - whole*int64(number)/int64(l.Head().Number)
		if got := l.SizeAfter(at); got < want-(512<<10) || got > want+(512<<10) {
			t.Errorf("%d bytes behind commit %d of %d, want about %d", got, number, l.Head().Number, want)
		}
	}
}

// TestReleaseReserveNeedsFullDisk expects ReleaseReserve to delete the journal's reserve file on a full disk
// only.
func TestReleaseReserveNeedsFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New(memfs.New())
		o := journal.Options{FS: fs, Tick: -1, Reserve: 1 << 20}
		l := openTestLog(t, "/j", o)
		a := journaltest.NewAcks()
		appendTestEntry(t, l, a, 0)
		a.Wait(1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if journal.ReleaseReserve(fs, "/j") {
			t.Error("released on a disk with room")
		}
		fs.SetFree(0)
		if !journal.ReleaseReserve(fs, "/j") || journal.ReleaseReserve(fs, "/j") {
			t.Error("want one release on a full disk")
		}
		l = openTestLog(t, "/j", o)
		defer l.Close()
		appendTestEntry(t, l, a, 1)
		time.Sleep(5 * time.Second)
		if n := len(a.Results()); n != 1 || !disk.IsFull(l.Stats().Blocked) {
			t.Errorf("%d acknowledged without the reserve; blocked: %v", n, l.Stats().Blocked)
		}
		fs.SetFree(1 << 30)
		a.Wait(2)
	})
}

// manualClock is a Clock that the test sets.
type manualClock struct{ wall, mono atomic.Int64 }

// Wall returns the wall clock that the test has set.
func (h *manualClock) Wall() int64 { return h.wall.Load() }

// Mono returns the monotonic time that the test has set.
func (h *manualClock) Mono() time.Duration { return time.Duration(h.mono.Load()) }

// TestListeningTimeStopsWhileServerIsDown stops the process, disk or clock, and expects listening time (time
// able to receive) to stop. Listening time is the time in which the server could receive results. Receive time
// follows the wall clock but never goes back.
func TestListeningTimeStopsWhileServerIsDown(t *testing.T) {
	clock := &manualClock{}
	clock.wall.Store(1_700_000_000e9)
	fs := memfs.New()
	var last journal.Commit
	o := journal.Options{FS: fs, Tick: -1, Reserve: -1, Clock: clock, Deliver: func(c journal.Commit) { last = c }}
	l := openTestLog(t, "/j", o)
	n := 0
	step := func(wall, mono time.Duration) (received int64, listening time.Duration) {
		t.Helper()
		clock.wall.Add(int64(wall))
		clock.mono.Add(int64(mono))
		a := journaltest.NewAcks()
		appendTestEntry(t, l, a, n)
		n++
		a.Wait(1)
		return last.Received(), last.Listening()
	}
	start, before := step(0, 0)
	for _, c := range []struct {
		name              string
		wall, mono        time.Duration
		received, advance time.Duration
	}{
		{"a second", time.Second, time.Second, time.Second, time.Second},
		{"stopped for five minutes", 5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 2 * time.Second},
		{"clock set ahead", time.Hour, time.Second, time.Hour, time.Second},
		{"clock set back", -time.Hour, time.Second, time.Second / 2, time.Second},
		{"still behind", time.Second, time.Second, time.Second / 2, time.Second},
	} {
		received, listening := step(c.wall, c.mono)
		if got := time.Duration(received - start); got != c.received {
			t.Errorf("%s: received moved by %v, want %v", c.name, got, c.received)
		}
		if got, want := l.Stats().ClockAhead, max(0, time.Duration(start-clock.Wall())); got != want {
			t.Errorf("%s: ahead of the clock by %v, want %v", c.name, got, want)
		}
		if got := listening - before; got != c.advance {
			t.Errorf("%s: listened %v, want %v", c.name, got, c.advance)
		}
		start, before = received, listening
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	clock.wall.Add(int64(10 * time.Hour))
	clock.mono.Add(int64(10 * time.Hour))
	l = openTestLog(t, "/j", o)
	defer l.Close()
	if _, listening := step(0, time.Second); listening-before != time.Second {
		t.Errorf("down for ten hours: listened %v", listening-before)
	}
}

// TestIdleLogMakesEmptyCommits appends nothing and expects an empty commit each second.
func TestIdleLogMakesEmptyCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commits atomic.Int32
		l := openTestLog(t, "/j", journal.Options{FS: memfs.New(), Reserve: -1, Deliver: func(c journal.Commit) {
			if len(c.Sections()) == 0 {
				commits.Add(1)
			}
		}})
		time.Sleep(10*time.Second + time.Millisecond)
		if n := commits.Load(); n != 10 {
			t.Errorf("%d ticks in 10 s", n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSecondOpenOfFolderIsRefused opens a folder twice, and expects an error of class Conflict. After Close, the
// folder opens again.
func TestSecondOpenOfFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	o := journal.Options{Tick: -1, Reserve: -1}
	l := openTestLog(t, dir, o)
	_, err := journal.Open(dir, o)
	if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "in use by process") {
		t.Fatalf("second open: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_ = openTestLog(t, dir, o).Close()
}

// TestNewIncarnationKeepsOldPositions restores a copy of a log, and expects positions recorded before the copy to stay
// valid. Positions recorded later are refused.
func TestNewIncarnationKeepsOldPositions(t *testing.T) {
	fs := memfs.New()
	o := journal.Options{FS: fs, Tick: -1, Reserve: -1}
	l := openTestLog(t, "/j", o)
	a := journaltest.NewAcks()
	appendTestEntry(t, l, a, 0)
	old := a.Wait(1)[0].At
	_ = l.Close()
	born, err := journal.NewIncarnation("/j", o)
	if err != nil {
		t.Fatal(err)
	}
	if born.ID == old.Log {
		t.Fatal("NewIncarnation keeps the former incarnation")
	}
	o.VerifyFrom = old
	l = openTestLog(t, "/j", o)
	defer l.Close()
	appendTestEntry(t, l, a, 1)
	a.Wait(2)
	if got := journaltest.ReadEntryTexts(t, l, journal.Position{}); len(got) != 2 {
		t.Fatalf("the restored log has the entries %q", got)
	}
	if p, err := l.Resolve(old); err != nil || p != (journal.Position{Log: born.ID, Number: old.Number}) {
		t.Fatalf("Resolve returns position %+v and error %v", p, err)
	}
	if _, err := l.Resolve(journal.Position{Log: old.Log, Number: old.Number + 5}); !errors.Is(err, journal.ErrTrimmed) {
		t.Fatalf("a position of the other life: %v", err)
	}
	_ = l.Close()
	// Repair rebuilds the incarnations from the headers of the segments.
	if err := fs.Remove("/j/FORMAT"); err != nil {
		t.Fatal(err)
	}
	if losses, err := journal.Repair("/j", o); err != nil || len(losses) != 1 {
		t.Fatalf("Repair returns losses %v and error %v", losses, err)
	}
	l = openTestLog(t, "/j", o)
	if p, err := l.Resolve(old); err != nil || l.Incarnation() != born || len(journaltest.ReadEntryTexts(t, l, journal.Position{})) != 2 {
		t.Fatalf("%+v %v, incarnation %+v", p, err, l.Incarnation())
	}
}

// TestBlockedLogWritesEmptyCommits fills a log or disk, and expects empty commits whose listening time does not
// increase. Their position advances. Listening time stands still.
func TestBlockedLogWritesEmptyCommits(t *testing.T) {
	for _, c := range []struct {
		name    string
		options journal.Options
		free    int64 // bytes on disk; negative: plenty
		why     string
	}{
		{"budget", journal.Options{Reserve: -1, Budget: 20_000}, -1, "size budget"},
		{"disk", journal.Options{Reserve: 10_000, MaxCommit: 2000, SegmentSize: 2000}, 20_000, "disk is full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var listening atomic.Int64
				fs := faultfs.New(memfs.New())
				fs.SetFree(c.free)
				taken := false
				fs.OnOperation(func(op faultfs.Op) error {
					switch {
					case op.Kind == faultfs.Allocate:
						taken = true
					case op.Kind == faultfs.Remove && strings.HasSuffix(op.Name, "RESERVE") && taken:
						taken = false
						fs.SetFree(c.options.Reserve) // what letting it go gives back
					}
					return nil
				})
				o := c.options
				o.FS, o.QueueBytes = fs, 1<<20
				o.Deliver = func(c journal.Commit) { listening.Store(int64(c.Listening())) }
				l := openTestLog(t, "/j", o)
				defer l.Close()
				a := journaltest.NewAcks()
				for i := range 300 {
					appendTestEntry(t, l, a, i)
					synctest.Wait()
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				at, before, heard := l.Head().Number, listening.Load(), len(a.Results())
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if moved := l.Head().Number - at; moved < 9 || moved > 11 || listening.Load() != before {
					t.Fatalf("%d commits and %v of listening in 10 s without room", moved, time.Duration(listening.Load()-before))
				}
				if err := l.Stats().Blocked; err == nil || !strings.Contains(err.Error(), c.why) || len(a.Results()) != heard || heard == 300 {
					t.Fatalf("blocked: %v; %d, then %d acknowledged", err, heard, len(a.Results()))
				}
				older := l.Head()
				for range 200 {
					if len(a.Results()) == 300 {
						if err := l.Stats().Blocked; err != nil {
							t.Fatal(err)
						}
						return
					}
					if err := l.Cut(older); err != nil { // never the head: that is where a snapshot of now stands
						t.Fatal(err)
					}
					if c.free >= 0 {
						fs.SetFree(100_000) // what a cut gives back
					}
					older = l.Head()
					time.Sleep(2 * time.Second)
					synctest.Wait()
				}
				t.Fatalf("%d of 300 committed though all was cut", len(a.Results()))
			})
		})
	}
}

// TestNewerStoreVersionIsRefused opens a folder with data of a newer program version, and expects an error. The data
// is a store in a newer format, such as snapshots.
func TestNewerStoreVersionIsRefused(t *testing.T) {
	fs := memfs.New()
	o := journal.Options{FS: fs, Tick: -1, Reserve: -1, Stores: map[string]int{"snapshots": 2}}
	_ = openTestLog(t, "/j", o).Close()
	o.Stores = map[string]int{"snapshots": 1}
	if _, err := journal.Open("/j", o); model.ClassOf(err) != model.Conflict {
		t.Fatalf("older program: %v", err)
	}
	o.Stores = map[string]int{"snapshots": 3}
	_ = openTestLog(t, "/j", o).Close()
	text, err := disk.ReadFile(fs, "/j/FORMAT")
	if err != nil || !strings.Contains(string(text), "store snapshots 3\n") {
		t.Fatalf("file FORMAT has content %s, read error %v", text, err)
	}
}

// TestStalledSyncStopsListeningTime delays a disk sync by a minute, and expects no acknowledgement or listening
// time meanwhile. Listening time (time in which the server could receive results) excludes the minute.
func TestStalledSyncStopsListeningTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New(memfs.New())
		var listening []time.Duration
		l := openTestLog(t, "/j", journal.Options{FS: fs, Tick: -1, Reserve: -1, Deliver: func(c journal.Commit) {
			listening = append(listening, c.Listening())
		}})
		a := journaltest.NewAcks()
		appendTestEntry(t, l, a, 0)
		a.Wait(1)
		fs.OnOperation(func(op faultfs.Op) error {
			if op.Kind == faultfs.Sync {
				time.Sleep(time.Minute)
			}
			return nil
		})
		appendTestEntry(t, l, a, 1)
		synctest.Wait()
		appendTestEntry(t, l, a, 2)
		time.Sleep(59 * time.Second)
		if n := len(a.Results()); n != 1 {
			t.Fatalf("%d acknowledged while the disk stalls", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		fs.OnOperation(nil)
		a.Wait(3)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if step := listening[2] - listening[1]; step != 2*time.Second {
			t.Errorf("listened %v during a stall of a minute", step)
		}
	})
}

// TestStallRejectsStaleEntries stalls the disk for a minute, and expects the log to reject entries with
// relative times. Other entries are committed. A stall right behind another refuses nothing, so that a slow
// disk accepts something.
func TestStallRejectsStaleEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New(memfs.New())
		l := openTestLog(t, "/j", journal.Options{FS: fs, Reserve: -1})
		defer l.Close()
		var seen *time.Time // the stall that the source has seen
		appendAged := func(n int) *journaltest.Acks {
			a := journaltest.NewAcks()
			if err := l.Append(t.Context(), journal.Entry{Section: 1, Data: numberedEntry(n), Waiter: a, Token: uint64(n), Aged: true, Stall: seen, Signals: 3}); err != nil {
				t.Fatal(err)
			}
			return a
		}
		if err := appendAged(0).Wait(1)[0].Err; err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Second + 100*time.Millisecond) // ticks: nothing stalls, and none is due now
		if l.LastStallEnd() != nil {
			t.Fatal("a stall without one")
		}
		fs.OnOperation(func(op faultfs.Op) error {
			if op.Kind == faultfs.Sync {
				time.Sleep(time.Minute)
			}
			return nil
		})
		writing := appendAged(1)
		time.Sleep(time.Second)
		waiting, plain := appendAged(2), journaltest.NewAcks()
		appendTestEntry(t, l, plain, 3)
		if err := writing.Wait(1)[0].Err; err != nil {
			t.Errorf("what was written when the disk stalled: %v", err)
		}
		if err := waiting.Wait(1)[0].Err; !errors.Is(err, journal.ErrStalled) || l.LastStallEnd() == nil {
			t.Errorf("what waited during the stall: %v", err)
		}
		if err := plain.Wait(1)[0].Err; err != nil {
			t.Errorf("an entry without an age: %v", err)
		}
		for n := range 3 { // they were read before the stall, and waited for space in the queue
			if err := appendAged(4 + n).Wait(1)[0].Err; !errors.Is(err, journal.ErrStalled) {
				t.Errorf("what came %d batches behind the stall: %v", n+1, err)
			}
		}
		seen = l.LastStallEnd()
		if err := appendAged(7).Wait(1)[0].Err; err != nil {
			t.Errorf("a disk that stalls for each commit accepts nothing: %v", err)
		}
		fs.OnOperation(nil)
	})
}

// TestLostLogEndIsRefusedUntilRepair removes the last commits of a log, and expects Open to fail until Repair.
// The same holds for an older copy of the log. Repair puts an empty commit in place of the lost end, so that
// snapshots ahead of the log stay usable, and starts a new incarnation.
func TestLostLogEndIsRefusedUntilRepair(t *testing.T) {
	fs := memfs.New()
	o := journal.Options{FS: fs, Tick: -1, Reserve: -1, RepairCommand: "mend it"}
	l := openTestLog(t, "/j", o)
	a := journaltest.NewAcks()
	appendTestEntry(t, l, a, 0)
	at := a.Wait(1)[0].At
	_ = l.Close()

	o.KnownPositions = []journal.Position{at, {Log: 77, Number: 500}}
	l = openTestLog(t, "/j", o)
	if id := l.Incarnation().ID; id != at.Log {
		t.Fatal("the log starts a new incarnation although no commit is missing")
	}
	head := l.Head()
	_ = l.Close()

	ahead := journal.Position{Log: at.Log, Number: head.Number + 5}
	o.KnownPositions = []journal.Position{at, ahead}
	o.KnownTimes = journal.Times{Listening: 24 * time.Hour}
	_, err := journal.Open("/j", o)
	if err == nil || !strings.HasSuffix(err.Error(), "mend it") || !strings.Contains(err.Error(), fmt.Sprintf("lost: commits %d to %d", head.Number+1, ahead.Number)) {
		t.Fatalf("Open of a log without its end: %v", err)
	}
	for round, want := range []int{1, 0} {
		if lost, err := journal.Repair("/j", o); err != nil || len(lost) != want {
			t.Fatalf("repair %d returns losses %v and error %v", round, lost, err)
		}
	}
	l = openTestLog(t, "/j", o)
	defer l.Close()
	born := l.Incarnation().ID
	if born == at.Log {
		t.Fatal("the log keeps its incarnation although its end is missing")
	}
	if l.Times().Listening < 24*time.Hour {
		t.Errorf("the log continues with a listening time of %v", l.Times().Listening)
	}
	if p, err := l.Resolve(ahead); err != nil || p != (journal.Position{Log: born, Number: ahead.Number}) {
		t.Fatalf("the position of a snapshot ahead of the log: %+v, %v", p, err)
	}
	if p := l.CommonPosition(journal.Position{Log: 77, Number: 500}); p != (journal.Position{}) {
		t.Errorf("shared with another log: %+v", p)
	}
	appendTestEntry(t, l, a, 1)
	if got := a.Wait(2)[1].At; got.Log != born || got.Number <= ahead.Number {
		t.Fatalf("continues at %+v", got)
	}
}

// TestLogWithMissingCommitsIsRefusedUntilRepair opens a log that lacks commits mentioned in another store, and
// expects an error until Repair.
func TestLogWithMissingCommitsIsRefusedUntilRepair(t *testing.T) {
	o := journal.Options{FS: memfs.New(), Tick: -1, Reserve: -1, RepairCommand: "mend it"}
	l := openTestLog(t, "/j", o)
	a := journaltest.NewAcks()
	appendTestEntry(t, l, a, 0)
	_ = l.Close()
	o.KnownPositions = []journal.Position{{Log: 77, Number: 500}, {Log: 78, Number: 1}}
	if _, err := journal.Open("/j", o); err == nil || !strings.HasSuffix(err.Error(), "mend it") {
		t.Fatalf("Open of another log: %v", err)
	}
	for round, want := range []int{1, 0} {
		if lost, err := journal.Repair("/j", o); err != nil || len(lost) != want {
			t.Fatalf("repair %d returns losses %v and error %v", round, lost, err)
		}
	}
	l = openTestLog(t, "/j", o)
	if _, err := l.Resolve(o.KnownPositions[0]); !errors.Is(err, journal.ErrTrimmed) {
		t.Errorf("a position of the other log: %v", err)
	}
	_ = l.Close()
}

// If the folder of a known log is empty, Open fails until Repair creates a new log.
func TestMissingLogIsRefusedUntilRepair(t *testing.T) {
	o := journal.Options{FS: memfs.New(), Tick: -1, Reserve: -1, KnownPositions: []journal.Position{{Log: 77, Number: 500}}, RepairCommand: "mend it"}
	_, err := journal.Open("/j", o)
	if model.ClassOf(err) != model.Unavailable || !strings.HasSuffix(err.Error(), o.RepairCommand) {
		t.Fatal(err)
	}
	lost, err := journal.Repair("/j", o)
	if err != nil || !slices.Equal(lost, []journal.Loss{{File: "/j", First: 1, Last: 500}}) {
		t.Fatalf("Repair returns losses %v and error %v", lost, err)
	}
	l := openTestLog(t, "/j", o)
	defer l.Close()
	if _, err := l.Resolve(o.KnownPositions[0]); err != nil {
		t.Errorf("the position of a snapshot: %v", err)
	}
	a := journaltest.NewAcks()
	appendTestEntry(t, l, a, 0)
	if at := a.Wait(1)[0].At; at.Number <= 500 {
		t.Fatalf("the repaired log is at position %+v", at)
	}
}
