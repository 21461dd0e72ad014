package journal_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
)

// followTestSection reads a log by Follow, and returns the entries of section (partition) 1
func followTestSection(ctx context.Context, fs *memfs.FS, more func() bool) (entries []string, err error) {
	err = journal.Follow(ctx, "/j", journal.Options{FS: fs}, more, func(c journal.Commit) error {
		return c.Entries(1, func(data []byte) error { entries = append(entries, string(data)); return nil })
	})
	return entries, err
}

// stopFollowing always returns false, so that Follow returns at the end of the log instead of waiting.
func stopFollowing() bool { return false }

// TestFollowReadsOpenLogCompletely follows the log of a running writer, and expects every entry. The log has several
// segments and restarts.
func TestFollowReadsOpenLogCompletely(t *testing.T) {
	fs := memfs.New()
	o := smallSegmentOptions
	o.FS = fs
	l := openTestLog(t, "/j", o)
	a := journaltest.NewAcks()
	var want []string
	rounds := 0
	got, err := followTestSection(t.Context(), fs, func() bool {
		if rounds++; rounds > 40 {
			return false
		}
		for range rounds % 3 { // sometimes there is nothing new
			data := numberedEntry(len(want))
			want = append(want, string(data))
			if err := l.Append(t.Context(), journal.Entry{Section: 1, Data: data, Waiter: a}); err != nil {
				t.Fatal(err)
			}
			a.Wait(len(want))
		}
		if rounds%10 == 0 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = openTestLog(t, "/j", o)
		}
		return true
	})
	if err != nil || len(want) < 30 || !slices.Equal(got, want) {
		t.Errorf("%v: heard %d of %d entries", err, len(got), len(want))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFollowReportsDamage follows a damaged log, and expects the same error as from Open. A torn end after a
// crash is no error.
func TestFollowReportsDamage(t *testing.T) {
	w := writeSmallLog(t)
	first, middle, last := w.names[0], w.names[1], w.names[len(w.names)-1]
	flip := func(name string) []byte {
		data := slices.Clone(w.files[name])
		data[len(data)/2] ^= 0x20
		return data
	}
	for _, c := range []struct {
		name string
		file string
		data []byte
		says string
		less int // entries at the end
	}{
		{name: "whole", file: "FORMAT", data: w.files["FORMAT"]},
		{name: "torn", file: last, data: w.files[last][:len(w.files[last])-5], less: 1},
		{name: "cut below", file: first},
		{name: "a hole", file: middle, says: "lost: commits"},
		{name: "a bit", file: middle, data: flip(middle), says: middle + " at offset"},
		{name: "a bit in the last", file: last, data: flip(last), says: last + " at offset"},
		{name: "short in the middle", file: middle, data: w.files[middle][:len(w.files[middle])-5], says: middle + " at offset"},
		{name: "no log", file: "FORMAT", says: "has no journal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := followTestSection(t.Context(), w.withChangedFile(t, c.file, c.data), stopFollowing)
			switch damage := (*journal.DamageError)(nil); {
			case c.says == "":
				i := 30 - len(got) - c.less
				for _, data := range got {
					if i < 0 || data != string(numberedEntry(i)) {
						t.Fatalf("entry %d of %d is another one", i, len(got))
					}
					i++
				}
				if err != nil || len(got) < 15 || c.file == "FORMAT" && len(got) != 30 {
					t.Errorf("%v: %d entries", err, len(got))
				}
			case err == nil || !strings.Contains(err.Error(), c.says):
				t.Errorf("%v, want %s", err, c.says)
			case model.ClassOf(err) != model.NotFound && !errors.As(err, &damage):
				t.Errorf("Follow returns an error of type %T", err)
			}
		})
	}
	if _, err := followTestSection(t.Context(), memfs.New(), stopFollowing); model.ClassOf(err) != model.NotFound {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := followTestSection(ctx, w.withChangedFile(t, filepath.Join("other"), []byte{1}), stopFollowing); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSlowFollowGetsErrTrimmed cuts a log before its reader has read all, and expects ErrTrimmed.
func TestSlowFollowGetsErrTrimmed(t *testing.T) {
	fs := memfs.New()
	o := smallSegmentOptions
	o.FS = fs
	l := openTestLog(t, "/j", o)
	defer l.Close()
	a := journaltest.NewAcks()
	_, err := followTestSection(t.Context(), fs, func() bool {
		for i := range 30 {
			if err := l.Append(t.Context(), journal.Entry{Section: 1, Data: numberedEntry(i), Waiter: a}); err != nil {
				t.Fatal(err)
			}
			a.Wait(i + 1)
		}
		if err := l.Cut(l.Head()); err != nil {
			t.Fatal(err)
		}
		return true
	})
	if !errors.Is(err, journal.ErrTrimmed) {
		t.Error(err)
	}
}

// openTestLog opens a log and ends the test on an error.
func openTestLog(t *testing.T, dir string, o journal.Options) *journal.Log {
	t.Helper()
	l, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
