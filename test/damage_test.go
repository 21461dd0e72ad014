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
	"github.com/muster-fleet/muster/test/harness"
)

// segments are the files of a server's journal, oldest first, and what is in them.
func segments(t *testing.T, s *harness.Server) (paths []string, contents [][]byte) {
	t.Helper()
	paths, _ = filepath.Glob(filepath.Join(s.Data, "journal", "*.log"))
	slices.Sort(paths)
	if len(paths) == 0 {
		t.Fatal("no segment")
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, data)
	}
	return paths, contents
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// nothingLost says that nothing was lost, twice or wrong. A fleet whose server is away for a while may fill its
// spools, and then makes fewer results: such a run is no success, but it is what these tests play.
func nothingLost(rep *report.Report) bool { return rep.Valid && !rep.Lost() }

// killedAfterLoad is a server that was killed after a fleet had sent: the journal alone holds
// what came since the last snapshots.
func killedAfterLoad(t *testing.T, fleet harness.Fleet, span time.Duration, change func(*load.Config), args ...string) (s *harness.Server, states map[harness.Place]load.Kept) {
	t.Helper()
	s = harness.NewServer(t, args...)
	s.Prepare(fleet)
	s.Start()
	cfg := s.Load(fleet, span)
	if change != nil {
		change(&cfg)
	}
	rep, err := load.Run(t.Context(), cfg)
	if err != nil || !nothingLost(rep) {
		t.Fatalf("load run: %v %+v", err, rep)
	}
	states = s.FleetStates()
	s.Kill()
	return s, states
}

// startRefused starts a server that must refuse, and returns what it said.
func startRefused(t *testing.T, s *harness.Server) string {
	t.Helper()
	s.Launch()
	if code := s.Wait(30 * time.Second); code == 0 {
		t.Fatal("the start was not refused")
	}
	return s.Log()
}

// runRepair types what the refusal says, and returns what that says.
func runRepair(t *testing.T, s *harness.Server, refusal string) string {
	t.Helper()
	command := regexp.MustCompile(`: muster (doctor repair --data .*)`).FindStringSubmatch(refusal)
	if command == nil {
		t.Fatalf("the refusal names no command:\n%s", refusal)
	}
	said := s.CLI(strings.Fields(command[1])...)
	if again := s.CLI(strings.Fields(command[1])...); !strings.Contains(again, "nothing was changed") {
		t.Errorf("repaired twice:\n%s\n%s", said, again)
	}
	return said
}

// compareStates compares event states with those before.
func compareStates(t *testing.T, before, after map[harness.Place]load.Kept) {
	t.Helper()
	if len(before) != len(after) {
		t.Errorf("%d states, before %d", len(after), len(before))
	}
	for place, was := range before {
		if now := after[place]; now != was {
			t.Errorf("state %+v was %+v, is %+v", place, was, now)
		}
	}
}

// countOlderStates says how many states are not what they were; none may be ahead of that.
func countOlderStates(t *testing.T, before, after map[harness.Place]load.Kept) (n int) {
	t.Helper()
	for place, was := range before {
		now := after[place]
		if now != was {
			n++
		}
		if now.Results > was.Results || now.Number > was.Number {
			t.Errorf("state %+v was %+v, is ahead of that: %+v", place, was, now)
		}
	}
	return n
}

// A journal damaged in its middle stops the start with file, offset, what is lost and
// what to type, and typing it goes on without that; a torn end is cut and counted, and
// the server starts with what was whole.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	s, before := killedAfterLoad(t, harness.Fleet{Agents: 5, Checks: 4, Interval: 200 * time.Millisecond}, 3*time.Second, nil)
	paths, contents := segments(t, s)
	last, whole := paths[len(paths)-1], contents[len(paths)-1]

	torn := append(bytes.Clone(whole), whole[len(whole)/2:len(whole)/2+20]...)
	writeFile(t, last, torn)
	s.Start()
	compareStates(t, before, s.FleetStates())
	if n := s.Metric("muster_journal_torn_commits_total"); n != 1 || !strings.Contains(s.Log(), "journal ended in a torn commit, which was cut") {
		t.Errorf("%v torn commits are counted; the log:\n%s", n, s.Log())
	}
	s.Kill()

	damaged := bytes.Clone(whole)
	damaged[len(whole)/2] ^= 0x10
	writeFile(t, last, damaged)
	refusal := startRefused(t, s)
	for _, want := range []string{filepath.Base(last), "at offset", "lost: commit", "muster doctor repair --data " + s.Data} {
		if !strings.Contains(refusal, want) {
			t.Errorf("the refusal does not name %q:\n%s", want, refusal)
		}
	}
	if said := runRepair(t, s, refusal); !strings.Contains(said, last+": commit") || !strings.Contains(said, "lost") {
		t.Errorf("repair does not say what is lost:\n%s", said)
	}
	s.Start()
	countOlderStates(t, before, s.FleetStates())
	s.Stop()
}

// Bits flip and files are cut anywhere in the journal, several at once. Either all is
// there, or the server says that something is lost; no state is one that never was, and
// it goes on.
func TestRandomJournalDamage(t *testing.T) {
	t.Parallel()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
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
			if !strings.Contains(told, "lost: commit") || !strings.Contains(told, "at offset") {
				t.Errorf("the refusal does not say what and where:\n%s", told)
			}
			if said := runRepair(t, s, told); !strings.Contains(said, "lost") {
				t.Errorf("repair says: %s", said)
			}
			s.Start()
		} else if n := countOlderStates(t, before, s.FleetStates()); n > 0 && !strings.Contains(told, "which was cut") && !strings.Contains(told, "lost its end") {
			t.Errorf("%d states are older than before, and nothing says so:\n%s", n, told)
		}
		countOlderStates(t, before, s.FleetStates())
		rep, err := load.Run(t.Context(), s.Load(fleet, time.Second))
		if err != nil || !rep.OK() {
			t.Errorf("afterwards: %v %+v", err, rep)
		}
		s.Stop()
		for _, word := range []string{"panic", "BUG"} {
			if log := told + s.Log(); strings.Contains(log, word) {
				t.Errorf("the log says %s:\n%s", word, log)
			}
		}
		if t.Failed() {
			return
		}
	}
}
