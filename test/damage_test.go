//go:build linux

package test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// segments returns the paths and contents of a server's journal segments, oldest first.
func segments(t *testing.T, s *harness.Server) (paths []string, contents [][]byte) {
	t.Helper()
	paths, _ = filepath.Glob(filepath.Join(s.Data, "journal", "*.log"))
	slices.Sort(paths)
	require(t, len(paths) != 0, "no segment")
	for _, path := range paths {
		data := readFile(t, path)
		contents = append(contents, data)
	}
	return paths, contents
}

// nothingLost reports whether a load run lost, repeated or changed no result. It ignores results that were never made because
// spools were full while the server was down.
func nothingLost(rep *report.Report) bool { return rep.Valid && !rep.Lost() }

// killedAfterLoad runs a fleet against a server and kills the server, so that the journal alone holds the results since the
// last snapshots.
func killedAfterLoad(t *testing.T, fleet harness.Fleet, span time.Duration, change func(*load.Config), args ...string) (s *harness.Server, states map[harness.Place]load.Kept) {
	t.Helper()
	s = harness.StartFleet(t, fleet, args...)
	cfg := s.Load(fleet, span)
	if change != nil {
		change(&cfg)
	}
	rep, err := load.Run(t.Context(), cfg)
	require(t, err == nil && nothingLost(rep), "load run: %v %+v", err, rep)
	states = s.FleetStates()
	s.Kill()
	return s, states
}

// startRefused starts a server that must refuse to start, and returns its log.
func startRefused(t *testing.T, s *harness.Server) string {
	t.Helper()
	s.Launch()
	s.AwaitExit(harness.AnyFailure)
	return s.Log()
}

// runRepair runs the repair command that a refusal names, twice, and returns the first output.
func runRepair(t *testing.T, s *harness.Server, refusal string) string {
	t.Helper()
	command := regexp.MustCompile(`: muster (doctor repair --data .*)`).FindStringSubmatch(refusal)
	require(t, command != nil, "the refusal names no command:\n%s", refusal)
	said := s.CLI(strings.Fields(command[1])...)
	s.Try(strings.Fields(command[1])...).Expect(0, "nothing was changed")
	return said
}

// compareStates fails the test if event states differ from those before.
func compareStates(t *testing.T, before, after map[harness.Place]load.Kept) {
	t.Helper()
	assert(t, len(before) == len(after), "%d states, before %d", len(after), len(before))
	for place, was := range before {
		now := after[place]
		assert(t, now == was, "state %+v was %+v, is %+v", place, was, now)
	}
}

// countOlderStates counts the states that differ from those before, and fails the test if one is newer.
func countOlderStates(t *testing.T, before, after map[harness.Place]load.Kept) (n int) {
	t.Helper()
	for place, was := range before {
		now := after[place]
		if now != was {
			n++
		}
		assert(t, now.Results <= was.Results && now.Number <= was.Number,
			"state %+v was %+v, is ahead of that: %+v", place, was, now)
	}
	return n
}

// TestDamagedJournalStopsStart damages the middle of a journal: the start is refused with file, offset, loss and a repair
// command, which works. A torn end is cut and counted, and the server starts.
func TestDamagedJournalStopsStart(t *testing.T) {
	t.Parallel()
	s, before := killedAfterLoad(t, harness.Fleet{Agents: 5, Checks: 4, Interval: 200 * time.Millisecond}, 3*time.Second, nil)
	paths, contents := segments(t, s)
	last, whole := paths[len(paths)-1], contents[len(paths)-1]

	torn := append(bytes.Clone(whole), whole[len(whole)/2:len(whole)/2+20]...)
	writeFile(t, last, torn)
	s.Start()
	compareStates(t, before, s.FleetStates())
	if n := s.Metric("muster_journal_torn_commits_total"); n != 1 || !strings.Contains(s.Log(), "cut a torn commit at the journal's end") {
		t.Errorf("%v torn commits are counted; the log:\n%s", n, s.Log())
	}
	s.Kill()

	damaged := bytes.Clone(whole)
	damaged[len(whole)/2] ^= 0x10
	writeFile(t, last, damaged)
	refusal := startRefused(t, s)
	expectTexts(t, refusal, filepath.Base(last), "at offset", "lost: commit", "muster doctor repair --data "+s.Data)
	if said := runRepair(t, s, refusal); !strings.Contains(said, last+": commit") || !strings.Contains(said, "lost") {
		t.Errorf("repair does not say what is lost:\n%s", said)
	}
	s.Start()
	countOlderStates(t, before, s.FleetStates())
	s.Stop()
}

// TestRandomJournalDamageIsReported flips bits and cuts files anywhere in the journal. Either every state is there or the
// server reports a loss; no state is one that never existed, and the server accepts new results.
func TestRandomJournalDamageIsReported(t *testing.T) {
	t.Parallel()
	rounds := inShort(2, 6)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	fleet := harness.Fleet{Agents: 5, Checks: 4, Interval: 100 * time.Millisecond}
	whole, before := killedAfterLoad(t, fleet, 2*time.Second, nil, "--snapshot-cycle", "1s")
	for range rounds {
		s := whole.Clone()
		paths, contents := segments(t, s)
		var what []string
		for range 1 + random.IntN(3) {
			i := random.IntN(len(paths))
			data := contents[i]
			if len(data) == 0 {
				continue
			}
			at := random.IntN(len(data))
			if random.IntN(3) == 0 {
				contents[i] = data[:at]
				what = append(what, "cut")
			} else {
				data[at] ^= 1 << random.IntN(8)
				what = append(what, "flip")
			}
			t.Logf("%s at %d of %d in %s", what[len(what)-1], at, len(data), filepath.Base(paths[i]))
		}
		for i, path := range paths {
			writeFile(t, path, contents[i])
		}
		s.Launch()
		harness.Until(t, 40*time.Second, "the server is ready or has refused", func() (string, bool) {
			why, ready := s.Ready()
			return why, ready || s.Ended()
		})
		told := s.Log()
		if s.Ended() {
			expectTexts(t, told, "lost: commit", "at offset")
			said := runRepair(t, s, told)
			assert(t, strings.Contains(said, "lost"), "repair says: %s", said)
			s.Start()
		} else if n := countOlderStates(t, before, s.FleetStates()); n > 0 && !strings.Contains(told, "cut a torn commit at the journal's end") && !strings.Contains(told, "lost its end") {
			t.Errorf("%d states are older than before, and nothing says so:\n%s", n, told)
		}
		countOlderStates(t, before, s.FleetStates())
		rep, err := load.Run(t.Context(), s.Load(fleet, time.Second))
		assert(t, err == nil && rep.OK(), "load run after the repair: %v %+v", err, rep)
		s.Stop()
		for _, word := range []string{"panic", "BUG"} {
			log := told + s.Log()
			assert(t, !strings.Contains(log, word), "the log says %s:\n%s", word, log)
		}
		if t.Failed() {
			return
		}
	}
}

// snapshotFiles returns the paths of a server's snapshots, oldest first within a partition.
func snapshotFiles(t *testing.T, s *harness.Server) []string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Data, "snapshots", "*.snap"))
	slices.Sort(files)
	require(t, len(files) != 0, "no snapshots")
	return files
}

// newestSnapshots returns the newest snapshot of each partition.
func newestSnapshots(files []string) (list []string) {
	for i, f := range files {
		if i+1 == len(files) || filepath.Base(files[i+1])[:4] != filepath.Base(f)[:4] {
			list = append(list, f)
		}
	}
	return list
}

// TestUnusableSnapshotsAreReplaced damages, cuts or removes snapshots, or takes them from another server: an older snapshot or
// the journal replaces them, and the log reports it.
func TestUnusableSnapshotsAreReplaced(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 4, Interval: 200 * time.Millisecond}
	whole, before := killedAfterLoad(t, fleet, 4*time.Second, nil, "--snapshot-cycle", "1s")
	change := func(t *testing.T, path string, change func([]byte) []byte) {
		t.Helper()
		data := readFile(t, path)
		writeFile(t, path, change(data))
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	other := func(name string) string { // the name of the same snapshot in another incarnation
		i := strings.IndexByte(name, '-') + 1
		return name[:i] + "00000000000000aa" + name[i+16:]
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, s *harness.Server)
		says  string
		same  bool // all states equal those before
	}{
		{"newest flipped", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				change(t, f, flip)
			}
		}, "snapshot is unusable; using an older one or the journal", true},
		{"newest cut", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				change(t, f, cut)
			}
		}, "snapshot is unusable; using an older one or the journal", true},
		{"newest missing", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				os.Remove(f)
			}
		}, "event view is up to date", true},
		{"all flipped", func(t *testing.T, s *harness.Server) {
			for _, f := range snapshotFiles(t, s) {
				change(t, f, flip)
			}
		}, "snapshot is unusable; using an older one or the journal", true},
		{"all missing", func(t *testing.T, s *harness.Server) { os.RemoveAll(filepath.Join(s.Data, "snapshots")) }, "event view is up to date", true},
		{"all of another server", func(t *testing.T, s *harness.Server) {
			for _, f := range snapshotFiles(t, s) {
				testenv.NoError(t, os.Rename(f, filepath.Join(filepath.Dir(f), other(filepath.Base(f)))))
			}
		}, "or of another server", true},
		{"ahead of the journal", func(t *testing.T, s *harness.Server) {
			paths, contents := segments(t, s)
			last := len(paths) - 1
			writeFile(t, paths[last], contents[last][:len(contents[last])/2])
		}, "journal ends before positions that snapshots or history have", false},
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
				t.Error("no state is older: the test shows nothing")
			}
			expectTexts(t, s.Log(), c.says)
			rep, err := load.Run(t.Context(), s.Load(fleet, time.Second))
			assert(t, err == nil && rep.OK(), "load run after the repair: %v %+v", err, rep)
			after = s.FleetStates()
			s.Kill()
			s.Start()
			compareStates(t, after, s.FleetStates())
		})
	}
}

// TestLostSnapshotsStopStart removes snapshots whose journal was already cut: the start is refused, and repair lets the server
// start without the lost states.
func TestLostSnapshotsStopStart(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 5, Interval: 100 * time.Millisecond}
	s, before := killedAfterLoad(t, fleet, 6*time.Second, func(c *load.Config) { c.Output = 20_000 }, "--snapshot-cycle", "1s", "--journal-budget", "64MiB")
	paths, _ := segments(t, s)
	require(t, !strings.HasSuffix(paths[0], "/00000000000000000001.log"), "the journal was not cut: nothing is shown")
	for _, f := range snapshotFiles(t, s) {
		if strings.HasPrefix(filepath.Base(f), "p0") { // of partitions 0 to 99
			os.Remove(f)
		}
	}
	refusal := startRefused(t, s)
	expectTexts(t, refusal, "100 of 256 partitions ")
	said := runRepair(t, s, refusal)
	assert(t, strings.Contains(said, "the event states of 100 of 256 partitions before commit "), "repair says:\n%s", said)
	s.Start()
	countOlderStates(t, before, s.FleetStates())
	rep, err := load.Run(t.Context(), s.Load(fleet, 2*time.Second))
	assert(t, err == nil && rep.OK(), "load run after the repair: %v %+v", err, rep)
	after := s.FleetStates()
	assert(t, len(after) == len(before), "%d states came back of %d", len(after), len(before))
	s.Stop()
}
