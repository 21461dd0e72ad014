//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// The disk fills while a fleet sends. readyz says why nothing is committed; when there
// is room again commits go on by themselves, and nothing was lost.
func TestDiskFullDuringCommit(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	s := harness.NewServer(t)
	mountSmallDisk(t, s, "48m")
	fleet := harness.Fleet{Agents: 10, Checks: 10, Interval: 100 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
	s.Client()
	end := startLoad(t, s, fleet, 8*time.Second)
	reserve := filepath.Join(s.Data, "journal", "RESERVE")
	if info, err := os.Stat(reserve); err != nil || info.Size() != 1<<20 {
		t.Errorf("the reserve: %v, %+v", err, info)
	}
	filler := filepath.Join(s.Data, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	harness.Until(t, 30*time.Second, "readyz says that the journal does not commit", func() (string, bool) {
		for {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		why, ready := s.Ready()
		return why, !ready
	})
	why, _ := s.Ready()
	if !strings.Contains(why, "the journal does not commit: ") || !strings.Contains(why, "no space left on device") && !strings.Contains(why, "disk is full: ") {
		t.Errorf("readyz says %q", why)
	}
	if _, err := os.Stat(reserve); err == nil {
		t.Error("the reserve was not let go: snapshots have no room")
	}
	if status := harness.Run(t, s.Env(), "status"); !strings.Contains(status.Out, "the journal does not commit") {
		t.Errorf("status says:\n%s%s", status.Out, status.Errors)
	}
	f.Close()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.WaitReady(30 * time.Second)
	e := <-end
	if e.err != nil || !e.rep.OK() {
		t.Errorf("load run: %v, %+v", e.err, e.rep)
	}
	if e.rep.Slowed == 0 {
		t.Error("no agent was told to send less")
	}
	if _, err := os.Stat(reserve); err != nil {
		t.Errorf("the reserve is not there again: %v", err)
	}
	s.Stop()
}

// mountSmallDisk puts the server's data folder on a disk of its own.
func mountSmallDisk(t *testing.T, s *harness.Server, size string) {
	t.Helper()
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", s.Data, "tmpfs", 0, "size="+size); err != nil {
		testenv.LeftOut(t, "tmpfs cannot be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
	}
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
		if err := syscall.Unmount(s.Data, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// A first start on a disk that is too small does not claim to watch anything: it says what
// it waits for, and greets when there is room.
func TestFirstStartOnSmallDisk(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	s, _ := startUp(t)
	mountSmallDisk(t, s, "24m")
	s.Launch()
	harness.Until(t, 30*time.Second, "it says what it waits for", func() (string, bool) {
		return s.Log(), strings.Contains(s.Log(), "Not ready yet: ") && strings.Contains(s.Log(), "disk is full") && strings.Contains(s.Log(), "--journal-reserve")
	})
	if strings.Contains(s.Log(), "watches this machine") {
		t.Errorf("it greets before it is ready:\n%s", s.Log())
	}
	if err := syscall.Mount("", s.Data, "", syscall.MS_REMOUNT, "size=600m"); err != nil {
		t.Fatalf("remount: %v", err)
	}
	harness.Until(t, 30*time.Second, "it greets", func() (string, bool) { return s.Log(), strings.Contains(s.Log(), "watches this machine") })
	s.Stop()
}

// The journal alone fills its disk, or its budget, faster than snapshots let its tail go.
// Agents are slowed down meanwhile; nothing is lost, and it goes on by itself.
func TestJournalFillsDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, disk string
		args       []string
		output     int // bytes of each result; 1,000 a second are due
		leftShort  bool
	}{
		// Full before each partition was snapshotted once: only positions that go on while
		// it is full let the tail go.
		{"disk", "56m", []string{"--journal-budget", "64MiB", "--journal-reserve", "16MiB", "--snapshot-cycle", "3s"}, 20_000, false},
		// The first tail goes after two cycles, which take more than a second each however full
		// it is: what is due meanwhile is more than the budget, also on a machine that keeps up
		// with a third of it.
		{"budget", "", []string{"--journal-budget", "64MiB", "--snapshot-cycle", "15s"}, 40_000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.leftShort {
				t.Skip("the disk stands for the budget")
			}
			t.Parallel()
			s := harness.NewServer(t, c.args...)
			if c.disk != "" {
				testenv.Root(t)
				mountSmallDisk(t, s, c.disk)
			}
			fleet := harness.Fleet{Agents: 20, Checks: 5, Interval: 100 * time.Millisecond}
			s.Prepare(fleet)
			s.Start()
			cfg := s.Load(fleet, 6*time.Second)
			cfg.Output = c.output
			rep, err := load.Run(t.Context(), cfg)
			// Nothing is lost; that spools are full meanwhile, and results not made, is what it takes.
			if err != nil || !nothingLost(rep) {
				t.Errorf("load run: %v, %+v", err, rep)
			}
			if !strings.Contains(s.Log(), "journal cannot commit") || rep.Slowed == 0 {
				t.Errorf("there was always room: nothing is shown; slowed %d times", rep.Slowed)
			}
			s.WaitReady(30 * time.Second)
			before := s.FleetStates()
			harness.Until(t, 60*time.Second, "agents may send as usual", func() (string, bool) {
				_, after, asked := strings.Cut(s.Log(), "slowing all agents")
				return s.Log(), asked && strings.Contains(after, "usual pace again")
			})
			s.Kill()
			s.Start()
			compareStates(t, before, s.FleetStates())
		})
	}
}
