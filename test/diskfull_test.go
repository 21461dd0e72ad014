//go:build linux

package test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// The disk fills while a fleet sends. readyz says why nothing is committed; when there
// is room again commits go on by themselves, and nothing was lost.
func TestDiskFullWhileCommitting(t *testing.T) {
	testenv.Root(t)
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
	end := make(chan ended, 1)
	playing := make(chan struct{})
	cfg := s.Load(fleet, 12*time.Second)
	cfg.Progress = func(now load.Sample) {
		if now.Second == 0 {
			close(playing)
		}
	}
	go func() {
		rep, err := load.Run(t.Context(), cfg)
		end <- ended{rep, err}
	}()
	select {
	case <-playing:
	case e := <-end:
		t.Fatalf("load run ended early: %v", e.err)
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
	t.Logf("readyz: %s", why)
	f.Close()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.WaitReady(30 * time.Second)
	e := <-end
	if e.err != nil || !e.rep.OK() {
		t.Errorf("load run: %v, %+v", e.err, e.rep)
	}
	s.Stop()
}
