package journal_test

import (
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
)

func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		journaltest.Run(t, func(*testing.T) journaltest.Factory { return factory(memfs.New(), "/data/journal") })
	})
	t.Run("disk", func(t *testing.T) {
		journaltest.Run(t, func(t *testing.T) journaltest.Factory { return factory(disk.OS{}, t.TempDir()) })
	})
}

func factory(fs disk.FS, dir string) journaltest.Factory {
	return func(t *testing.T, c journaltest.Config) journal.Journal {
		t.Helper()
		return open(t, dir, journal.Options{
			FS: fs, Tick: -1, Reserve: 1 << 16, Deliver: c.Deliver,
			QueueBytes: c.QueueBytes, SegmentSize: c.SegmentSize,
		})
	}
}

func open(t *testing.T, dir string, o journal.Options) *journal.Log {
	t.Helper()
	l, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
