//go:build linux

package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/test/harness"
)

// snapshotFiles are the files of a server's snapshots, oldest first within a partition.
func snapshotFiles(t *testing.T, s *harness.Server) []string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Data, "snapshots", "*.snap"))
	slices.Sort(files)
	if len(files) == 0 {
		t.Fatal("no snapshots")
	}
	return files
}

// newestSnapshots are the last snapshots of each partition.
func newestSnapshots(files []string) (list []string) {
	for i, f := range files {
		if i+1 == len(files) || filepath.Base(files[i+1])[:4] != filepath.Base(f)[:4] {
			list = append(list, f)
		}
	}
	return list
}

// Snapshots that are damaged, cut, missing, of another server or ahead of the journal:
// an older one or the journal takes their place, and the log says so.
func TestUnusableSnapshots(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 4, Interval: 200 * time.Millisecond}
	whole, before := killedAfterLoad(t, fleet, 4*time.Second, nil, "--snapshot-cycle", "1s")
	change := func(t *testing.T, path string, change func([]byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, change(data))
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	other := func(name string) string { // the same of another incarnation
		i := strings.IndexByte(name, '-') + 1
		return name[:i] + "00000000000000aa" + name[i+16:]
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, s *harness.Server)
		says  string
		same  bool // all states are what they were
	}{
		{"newest flipped", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				change(t, f, flip)
			}
		}, "snapshot cannot be used; an older one or the journal takes its place", true},
		{"newest cut", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				change(t, f, cut)
			}
		}, "snapshot cannot be used; an older one or the journal takes its place", true},
		{"newest missing", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				os.Remove(f)
			}
		}, "event view is up to date", true},
		{"all flipped", func(t *testing.T, s *harness.Server) {
			for _, f := range snapshotFiles(t, s) {
				change(t, f, flip)
			}
		}, "snapshot cannot be used; an older one or the journal takes its place", true},
		{"all missing", func(t *testing.T, s *harness.Server) { os.RemoveAll(filepath.Join(s.Data, "snapshots")) }, "event view is up to date", true},
		{"all of another server", func(t *testing.T, s *harness.Server) {
			for _, f := range snapshotFiles(t, s) {
				if err := os.Rename(f, filepath.Join(filepath.Dir(f), other(filepath.Base(f)))); err != nil {
					t.Fatal(err)
				}
			}
		}, "or of another server", true},
		{"ahead of the journal", func(t *testing.T, s *harness.Server) {
			paths, contents := segments(t, s)
			last := len(paths) - 1
			writeFile(t, paths[last], contents[last][:len(contents[last])/2])
		}, "it lost its end, or is an older copy; it goes on as a new incarnation", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := whole.Clone()
			c.spoil(t, s)
			s.Start()
			after := s.FleetStates()
			if c.same {
				compareStates(t, before, after)
			} else if countOlderStates(t, before, after) == 0 {
				t.Error("nothing is lost")
			}
			if !strings.Contains(s.Log(), c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, s.Log())
			}
			rep, err := load.Run(t.Context(), s.Load(fleet, time.Second))
			if err != nil || !rep.OK() {
				t.Errorf("afterwards: %v %+v", err, rep)
			}
			after = s.FleetStates()
			s.Kill()
			s.Start()
			compareStates(t, after, s.FleetStates())
		})
	}
}

// Without its snapshots a partition is made again from the journal, unless that was
// cut: then the start is refused, and repair goes on without what is lost.
func TestSnapshotsLostAfterJournalCut(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 5, Interval: 100 * time.Millisecond}
	s, before := killedAfterLoad(t, fleet, 6*time.Second, func(c *load.Config) { c.Output = 20_000 }, "--snapshot-cycle", "1s", "--journal-budget", "64MiB")
	paths, _ := segments(t, s)
	if strings.HasSuffix(paths[0], "/00000000000000000001.log") {
		t.Fatal("the journal was not cut: nothing is shown")
	}
	for _, f := range snapshotFiles(t, s) {
		if strings.HasPrefix(filepath.Base(f), "p0") { // of partitions 0 to 99
			os.Remove(f)
		}
	}
	refusal := startRefused(t, s)
	if !strings.Contains(refusal, "100 of 256 partitions ") {
		t.Errorf("the refusal says:\n%s", refusal)
	}
	if said := runRepair(t, s, refusal); !strings.Contains(said, "the event states of 100 of 256 partitions before commit ") {
		t.Errorf("repair says:\n%s", said)
	}
	s.Start()
	countOlderStates(t, before, s.FleetStates())
	rep, err := load.Run(t.Context(), s.Load(fleet, 2*time.Second))
	if err != nil || !rep.OK() {
		t.Errorf("afterwards: %v %+v", err, rep)
	}
	if after := s.FleetStates(); len(after) != len(before) {
		t.Errorf("%d states came back of %d", len(after), len(before))
	}
	s.Stop()
}
