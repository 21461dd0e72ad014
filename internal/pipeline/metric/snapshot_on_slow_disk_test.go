package metric

import (
	"os"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestSnapshotOnSlowDisk stalls the file writes of a snapshot, and expects commits of the partition to be applied.
// A kill follows. The start from that snapshot, of the live view or of a second one, finds each value once.
func TestSnapshotOnSlowDisk(t *testing.T) {
	for second := range 2 {
		fs, dir, killed := faultfs.New(disk.OS{}), t.TempDir(), t.TempDir()
		s, err := series.Open(dir, series.Options{FS: fs, LateWindow: time.Hour})
		testenv.NoError(t, err)
		v := newSeriesView(s, nil)
		saved := v
		if second == 1 {
			saved = newSeriesView(nil, v.View)
		}
		var commits []*testCommit
		var want []float64
		apply := func(to int) {
			for i := len(commits); i < to; i++ {
				c := &testCommit{uint64(i + 1), [][]byte{v.values(5, item.FromFloat(float64(i)))}}
				commits, want = append(commits, c), append(want, float64(i))
				testenv.NoError(t, v.shard.Apply(c))
			}
		}
		apply(200)
		if second == 1 {
			for _, c := range commits[:100] {
				testenv.NoError(t, saved.shard.Apply(c))
			}
		}
		stalled, applied := false, make(chan struct{})
		fs.OnOperation(func(op faultfs.Op) error {
			if op.Kind != faultfs.Write || stalled {
				return nil
			}
			stalled = true
			go func() {
				defer close(applied)
				apply(400)
			}()
			select {
			case <-applied:
			case <-time.After(20 * time.Second):
				t.Error("a commit waits for the disk")
			}
			return nil
		})
		body, at := saved.shard.Snapshot(3, nil)
		<-applied
		testenv.NoError(t, s.Sync(3))
		apply(500)
		wantStored(t, s, want...)
		testenv.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
		testenv.NoError(t, s.Close())

		s = openSeries(t, killed)
		v = newSeriesView(s, nil)
		testenv.NoError(t, v.shard.Restore(3, at, body))
		for _, c := range commits {
			testenv.NoError(t, v.shard.Apply(c))
		}
		if wantStored(t, s, want...); s.Counts().Values != 100 || !stalled {
			t.Errorf("stalled: %t, counts after the replay %+v", stalled, s.Counts())
		}
		testenv.NoError(t, s.Close())
	}
}
