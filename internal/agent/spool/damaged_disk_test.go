package spool

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// openOnDisk opens a spool in a folder of the real file system, for tests that delete open files.
func openOnDisk(t *testing.T, dir string, clock Clock, known bool) *Spool {
	t.Helper()
	s, err := Open(dir, Options{FS: disk.OS{}, Clock: clock, MaxBytes: 16 << 20, Linger: -1, HadSession: known})
	testenv.NoError(t, err)
	return s
}

// TestDeletedFolderIsMadeAgainFromMemory deletes the folder of an open spool and expects that no result in memory is
// lost
func TestDeletedFolderIsMadeAgainFromMemory(t *testing.T) {
	dir, clock, v := filepath.Join(t.TempDir(), "spool"), newManualClock(), newRecordingServer()
	s := openOnDisk(t, dir, clock, false)
	stream := s.Stats().Stream
	appendResults(s, clock, 10, 0, "before")
	testenv.NoError(t, os.RemoveAll(dir))
	appendResults(s, clock, 10, 1000, "after")
	testenv.NoError(t, s.Close())
	s = openOnDisk(t, dir, clock, true) // what was in memory is on the new disk
	defer s.Close()
	if s.Stats().Stream != stream {
		t.Error("the reopened spool has another stream id")
	}
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, 20)
	if v.gaps[folderDeleted.String()] != 1 || v.lost[keepaliveDefinition] != 0 {
		t.Errorf("gaps %v, lost %v", v.gaps, v.lost)
	}
}

// TestDeletedSpoolIsReported deletes the spool of a stopped agent, and expects the agent to report the loss. The spool
// is the log of unsent results.
func TestDeletedSpoolIsReported(t *testing.T) {
	for _, known := range []bool{false, true} {
		clock, v := newManualClock(), newRecordingServer()
		s := openOnDisk(t, t.TempDir(), clock, known)
		s.Append(resultSignal(clock, 1, "first"), false)
		v.resumeSpool(t, s)
		v.drainSpool(t, s)
		v.expectSignals(t, 1)
		if reported := v.gaps[spoolMissing.String()] == 1; reported != known {
			t.Errorf("known %v: gaps %v", known, v.gaps)
		}
		s.Close()
	}
}

// TestRestoredMachineStartsANewStream restores a virtual machine from an old snapshot, and expects a new stream of
// sequence numbers. The server already has higher numbers of the old stream.
func TestRestoredMachineStartsANewStream(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	defer s.Close()
	stream := s.Stats().Stream
	v.resumeSpool(t, s)
	s.Append(resultSignal(clock, 1, "shared"), false)
	v.drainSpool(t, s)
	v.last[wire.StreamKey{Stream: stream, Lane: wire.Live}] = 20 // the original of the copy sent numbers up to this one
	s.EndSession()
	appendResults(s, clock, 30, 0, "this life")
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, 31)
	if s.Stats().Stream == stream || v.gaps[diskRolledBack.String()] != 1 {
		t.Errorf("gaps %v", v.gaps)
	}
}

// TestRestoredSpoolAppliesNoSignalTwice restores the disk from a copy, and expects no result twice at the server. The
// agent restarts several times in between. A gap reports doubtful numbers, and all other signals arrive once.
func TestRestoredSpoolAppliesNoSignalTwice(t *testing.T) {
	for _, c := range []struct {
		name      string
		made      []int // by each start of the second life, before the next
		delivered int   // of them
		gap       lossReason
	}{
		{"one start", []int{30}, 30, diskRolledBack},
		{"two starts", []int{30, 0}, 10, diskRolledBackTwice},
		{"two starts, fewer than the server knows", []int{12, 0}, 0, diskRolledBackTwice},
		{"two starts, the second makes more", []int{12, 30}, 30, diskRolledBackTwice},
		{"three starts", []int{12, 6, 10}, 10, diskRolledBackTwice},
		{"nothing made before the last start", []int{0, 0, 30}, 30, diskRolledBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
			s := openSpool(t, fs, clock, 0)
			v.resumeSpool(t, s)
			appendResults(s, clock, 5, 0, "shared")
			s.Close()
			copied := fs.Crash(0, 1)
			s = openSpool(t, fs, clock, 0)
			v.resumeSpool(t, s)
			appendResults(s, clock, 20, 0, "first life")
			v.drainSpool(t, s)
			s.Close()
			for start, n := range c.made {
				s = openSpool(t, copied, clock, 0)
				for i := range n {
					s.Append(resultSignal(clock, 1, fmt.Sprint("second life", start, i)), false)
				}
				if start+1 < len(c.made) {
					s.Close()
				}
			}
			defer s.Close()
			v.resumeSpool(t, s)
			v.drainSpool(t, s)
			v.expectSignals(t, 25+c.delivered)
			if v.gaps[c.gap.String()] != 1 || len(v.gaps) != 1 {
				t.Errorf("gaps %v, want %q", v.gaps, c.gap)
			}
		})
	}
}

// TestRestartsWithoutServerLoseNothing restarts the agent several times without a server, and expects all results
// later. Nothing may be reported as lost.
func TestRestartsWithoutServerLoseNothing(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	made := 0
	for round := range 6 {
		s := openSpool(t, fs, clock, 0)
		for range 7 {
			s.Append(resultSignal(clock, 1, fmt.Sprint("out", made)), false)
			made++
		}
		if round%3 == 2 { // two starts without, one with
			v.resumeSpool(t, s)
			v.receiveBatch(t, s, 9, round == 2)
			s.EndSession()
			s.Append(resultSignal(clock, 1, fmt.Sprint("out", made)), false)
			made++
		}
		s.Close()
	}
	s := openSpool(t, fs, clock, 0)
	defer s.Close()
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, made)
	if len(v.gaps) != 0 {
		t.Errorf("gaps %v", v.gaps)
	}
}

// TestDamageOfTheLogLosesOneCommit damages the middle of the log, and expects only the results of one write to
// be lost. The log is open, or the agent restarts.
func TestDamageOfTheLogLosesOneCommit(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			dir, clock, v := t.TempDir(), newManualClock(), newRecordingServer()
			s := openOnDisk(t, dir, clock, false)
			noise := strings.Repeat("n", 20<<10)
			const n = 200 // far more than memory keeps
			for i := range n {
				s.Append(resultSignal(clock, i%2+1, fmt.Sprint(i, noise, i*i*7919)), false)
				awaitDurable(t, s)
			}
			segments, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			slices.Sort(segments)
			damageFile(t, segments[0])
			if restart {
				testenv.NoError(t, s.Close())
				s = openOnDisk(t, dir, clock, false)
			}
			defer s.Close()
			v.resumeSpool(t, s)
			v.drainSpool(t, s)
			lost := 0
			for _, count := range v.lost {
				lost += int(count)
			}
			if v.unexplainedGaps != 0 || len(v.deliveries) != n-1 || lost != 1 || v.gaps["lost on the agent's disk"] != 1 {
				t.Errorf("%d of %d arrived, lost %v, gaps %v", len(v.deliveries), n, v.lost, maps.Collect(maps.All(v.gaps)))
			}
		})
	}
}

// damageFile changes one byte of a log file, inside a large write, so that the checksum is wrong.
func damageFile(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	testenv.NoError(t, err)
	const commit = "MJC\x01"
	at, longest := len(data)/2, 0
	for begin, some := len(data)/2, 0; some < 4; some++ {
		begin += strings.Index(string(data[begin:]), commit) + len(commit)
		length := strings.Index(string(data[begin:]), commit)
		if length > longest {
			at, longest = begin+length/2, length
		}
	}
	data[at] ^= 0x10
	testenv.NoError(t, os.WriteFile(path, data, 0o600))
}
