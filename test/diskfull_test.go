//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// The disk fills while a fleet sends. readyz says why nothing is committed; when there
// is room again commits go on by themselves, and nothing was lost.
func TestDiskFullWhileCommitting(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	s := harness.NewServer(t)
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", s.Data, "tmpfs", 0, "size=48m"); err != nil {
		testenv.LeftOut(t, "tmpfs cannot be mounted here: "+err.Error(), "sudo make check")
	}
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
		if err := syscall.Unmount(s.Data, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	fleet := harness.Fleet{Agents: 10, Checks: 10, Interval: 100 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
	s.Client()
	end := play(t, s, fleet, 8*time.Second)
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
