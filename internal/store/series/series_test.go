package series

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/journal"
)

// point is a stored value.
type point struct {
	ms    int64
	value float64
}

// load and start are the series and the time of the tests.
var load = Labels("system.cpu.load[all,avg1]", "web-1", "default", "linux")

const start = int64(1_800_000_000_000) // ms

// open opens a store in a folder.
func open(t *testing.T, dir string) Store {
	t.Helper()
	s, err := Open(dir, Options{LateWindow: time.Hour, MaxSeries: 2, stripes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add appends a value to a series at a time in ns behind start.
func add(t *testing.T, a Appender, s *Series, l labels.Labels, ns int64, v float64) {
	t.Helper()
	if err := a.Append(s, func() labels.Labels { return l }, start*1e6+ns, v); err != nil {
		t.Fatal(err)
	}
}

// commit commits a number of log 7.
func commit(t *testing.T, a Appender, number uint64) {
	t.Helper()
	if err := a.Commit(journal.Position{Log: 7, Number: number}, start); err != nil {
		t.Fatal(err)
	}
}

// read returns the values of all series that queries see, by labels.
func read(t *testing.T, s storage.Queryable) map[string][]point {
	t.Helper()
	q, err := s.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := map[string][]point{}
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, LabelMetric, ".+"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			key := set.At().Labels().String()
			got[key] = append(got[key], point{ms - start, v})
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return got
}

// want compares the values of the series load.
func want(t *testing.T, s Store, points ...point) {
	t.Helper()
	if got := read(t, s)[load.String()]; !slices.Equal(got, points) {
		t.Errorf("values %v, want %v", got, points)
	}
}

// TestKillKeepsValuesWithPosition copies the folder of an open store, as a kill leaves it, with a commit torn in the middle.
func TestKillKeepsValuesWithPosition(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	a := s.Appender(0, 4)
	var ref Series
	add(t, a, &ref, load, 0, 1)
	commit(t, a, 1)
	if err := s.Sync(); err != nil { // the first value of a series may be late for all that the appender knows
		t.Fatal(err)
	}
	first := filepath.Join(dir, "wal", "00000000")
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	add(t, a, &ref, load, 5e6, 2)
	commit(t, a, 2)
	whole, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for cut := before.Size(); ; cut = min(cut+5, int64(len(whole))) {
		killed := t.TempDir()
		if err := os.Mkdir(filepath.Join(killed, "wal"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(killed, "wal", "00000000"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		k := open(t, killed)
		if got, p := len(read(t, k)[load.String()]), k.Floor(0, 4, 7).Number; uint64(got) != p {
			t.Errorf("cut at %d: %d values, floor %d", cut, got, p)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if cut == int64(len(whole)) {
			break
		}
	}
}

// TestFailedCommitLeavesBehind fails a commit, and replays it behind the floor after a restart.
func TestFailedCommitLeavesBehind(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a := s.Appender(0, 4)
	var ref Series
	add(t, a, &ref, load, 0, 1)
	commit(t, a, 1)
	add(t, a, &ref, load, 5e6, 2)
	if err := errors.Join(s.Sync(), s.Close()); err != nil { // so that the write-ahead log refuses
		t.Fatal(err)
	}
	if err := a.Commit(journal.Position{Log: 7, Number: 2}, start); err == nil {
		t.Fatal("the commit succeeded")
	}
	if err := a.Append(&ref, nil, start*1e6+6e6, 3); !errors.Is(err, ErrBehind) {
		t.Errorf("append behind a failed commit: %v", err)
	}
	if err := a.Commit(journal.Position{Log: 7, Number: 3}, start); !errors.Is(err, ErrBehind) || a.Written(7).Number != 1 {
		t.Errorf("commit behind a failed commit: %v, written %v", err, a.Written(7))
	}
	s = open(t, dir)
	defer s.Close()
	if p := s.Floor(0, 4, 7).Number; p != 1 {
		t.Fatalf("floor %d", p)
	}
	a, ref = s.Appender(0, 4), Series{}
	add(t, a, &ref, load, 5e6, 2)
	commit(t, a, 2)
	add(t, a, &ref, load, 6e6, 3)
	commit(t, a, 3)
	want(t, s, point{0, 1}, point{5, 2}, point{6, 3})
}

// TestMetricName makes names that PromQL takes.
func TestMetricName(t *testing.T) {
	for key, want := range map[string]string{"system.cpu.load[all,avg1]": "system_cpu_load", "9p": "_9p", "": "_", "é": "_", "a:b": "a:b"} {
		if got := MetricName(key); got != want {
			t.Errorf("MetricName(%q) = %q, want %q", key, got, want)
		}
	}
}

// copyLog copies a log of a store's folder to another folder.
func copyLog(t *testing.T, from, to, log string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(to, log), os.DirFS(filepath.Join(from, log))); err != nil {
		t.Fatal(err)
	}
}

// TestKillKeepsLateValuesWithPosition kills the store between its write-ahead log and the log of late values. The replay of
// the journal behind the position then stores every value once.
func TestKillKeepsLateValuesWithPosition(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	a := s.Appender(0, 4)
	var ref Series
	add(t, a, &ref, load, 5e6, 1)
	commit(t, a, 1)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	add(t, a, &ref, load, 6e6, 2)
	add(t, a, &ref, load, 3e6, 3) // late
	commit(t, a, 2)
	add(t, a, &ref, load, 7e6, 4) // in order, but its position would cover the late one
	commit(t, a, 3)
	killed := t.TempDir()
	copyLog(t, dir, killed, "wal")
	k := open(t, killed)
	defer k.Close()
	if p := k.Floor(0, 4, 7).Number; p != 1 {
		t.Fatalf("floor %d without the late value", p)
	}
	a, ref = k.Appender(0, 4), Series{}
	add(t, a, &ref, load, 6e6, 2)
	add(t, a, &ref, load, 3e6, 3)
	commit(t, a, 2)
	add(t, a, &ref, load, 7e6, 4)
	commit(t, a, 3)
	want(t, k, point{3, 3}, point{5, 1}, point{6, 2}, point{7, 4})

	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	killed = t.TempDir()
	copyLog(t, dir, killed, "wal")
	copyLog(t, dir, killed, "wbl")
	k2 := open(t, killed)
	defer k2.Close()
	want(t, k2, point{3, 3}, point{5, 1}, point{6, 2}, point{7, 4})
	if p := k2.Floor(0, 4, 7).Number; p != 3 {
		t.Errorf("floor %d after Sync", p)
	}
}

// TestLostLateValuesHoldFloor keeps the floor, also on the disk, when the tsdb could not write its log of late values.
func TestLostLateValuesHoldFloor(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a := s.Appender(0, 4)
	var ref Series
	add(t, a, &ref, load, 5e6, 1)
	commit(t, a, 1)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	add(t, a, &ref, load, 3e6, 2)
	commit(t, a, 2)
	s.(*db).lostWrites = func() (float64, error) { return 1, nil }
	if err := s.Sync(); err == nil {
		t.Fatal("the sync succeeded")
	}
	s.(*db).lostWrites = func() (float64, error) { return 0, nil }
	if err := s.Sync(); err == nil {
		t.Fatal("the sync behind a failed one succeeded")
	}
	if p := s.Floor(0, 4, 7).Number; p != 1 {
		t.Errorf("floor %d", p)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer s.Close()
	if p := s.Floor(0, 4, 7).Number; p != 1 {
		t.Errorf("floor %d after a restart", p)
	}
}

// TestFailedWritesIsCounted reads the counter of failed writes that the tsdb shows for both logs.
func TestFailedWritesIsCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	s := open(t, t.TempDir())
	defer s.Close()
	if n, err := s.(*db).lostWrites(); n != 0 || err != nil {
		t.Errorf("%v, %v", n, err)
	}
	for _, name := range [...]string{"prometheus_tsdb_wal_writes_failed_total", "prometheus_tsdb_out_of_order_wbl_writes_failed_total"} {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name})
		if err := s.(*db).shown.Register(c); err == nil {
			t.Errorf("the tsdb has no counter %s", name)
		}
		r.MustRegister(c)
		c.Inc()
	}
	if n, err := failedWrites(r); n != 2 || err != nil {
		t.Errorf("%v, %v", n, err)
	}
}

// TestRestartForgetsTimes replays a rolled-back commit in one process: its values keep their times.
func TestRestartForgetsTimes(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	a := s.Appender(0, 4)
	var ref Series
	add(t, a, &ref, load, 0, 1)
	commit(t, a, 1)
	add(t, a, &ref, load, 5e6, 2)
	if err := a.(*tsdbAppender).fail(errors.New("disk full")); err == nil {
		t.Fatal("no error")
	}
	a.Restart()
	add(t, a, &ref, load, 5e6, 2)
	commit(t, a, 2)
	want(t, s, point{0, 1}, point{5, 2})
	if c := s.Counts(); c.Moved != 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestSyncIsSerial syncs from several goroutines while commits go on.
func TestSyncIsSerial(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	a := s.Appender(0, 4)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	var ref Series
	for i := range 20 {
		add(t, a, &ref, load, int64(i)*5e6, 1)
		commit(t, a, uint64(i+1))
	}
	running.Wait()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if p := s.Floor(0, 4, 7).Number; p != 20 {
		t.Errorf("floor %d", p)
	}
}

// TestDamagedBlockIsSetAside opens a store with a damaged block: the other values are there, and the block has another name.
func TestDamagedBlockIsSetAside(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a := s.Appender(0, 1)
	var ref Series
	for hour := range 8 {
		add(t, a, &ref, load, int64(hour)*int64(time.Hour), float64(hour))
		if err := a.Commit(journal.Position{Log: 7, Number: uint64(hour + 1)}, start+int64(hour)*3_600_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Sync(), s.(*db).tsdb.Compact(t.Context())); err != nil {
		t.Fatal(err)
	}
	blocks := s.(*db).tsdb.Blocks()
	if len(blocks) < 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	path := blocks[0].Dir()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "index"), []byte("no index"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer s.Close()
	got := read(t, s)[load.String()]
	if len(got) == 0 || len(got) == 8 || got[len(got)-1].value != 7 {
		t.Errorf("values %v", got)
	}
	if _, err := os.Stat(path + damagedSuffix); err != nil {
		t.Error(err)
	}
}

// TestDeletedFolderFailsSync deletes the folder of an open store: no floor moves, and the error names the folder. Opening makes it
// anew.
func TestDeletedFolderFailsSync(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "series")
	s := open(t, dir)
	a := s.Appender(0, 1)
	var ref Series
	add(t, a, &ref, load, 0, 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	commit(t, a, 1)
	if err := s.Sync(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("sync: %v", err)
	}
	if p := s.Floor(0, 1, 7); p.Number != 0 {
		t.Errorf("floor %v", p)
	}
	_ = s.Close() // its files are gone
	s = open(t, dir)
	defer s.Close()
	a, ref = s.Appender(0, 1), Series{}
	add(t, a, &ref, load, 0, 1)
	commit(t, a, 1)
	want(t, s, point{0, 1})
}
