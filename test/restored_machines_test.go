//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// A server goes back to a copy: a machine whose certificate was renewed since is taken as
// it is, and what it ran meanwhile is applied. One that joined since is unknown: it hears
// what to type, and that makes it a node.
func TestMachinesOfARestoredServer(t *testing.T) {
	if testing.Short() {
		t.Skip("certificates run out")
	}
	t.Parallel()
	s := harness.StartServer(t, "--certificate-life", "12s")
	api := s.Client()
	known, runs := s.NewAgent("known"), s.Counter("count", "known")
	known.Start()
	runs.Ran(2)
	quiet(t, api, "known", "count", runs)
	copied := runs.Runs()
	backup := filepath.Join(t.TempDir(), "backup")
	s.Stop()
	if out, err := exec.Command("cp", "-a", s.Data, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Start()

	m := newMachine(t)
	m.joins(append(pasted(t, s)[1:], "--name", "since")...)
	since := m.launches()
	harness.Until(t, 30*time.Second, "the machine that joined since is connected", func() (string, bool) {
		return since.Log(), strings.Contains(since.Log(), "msg=connected")
	})
	harness.Until(t, 60*time.Second, "the certificate is renewed since", func() (string, bool) {
		return known.Log(), strings.Contains(known.Log(), "certificate renewed")
	})
	runs.Go()
	runs.Ran(2)
	quiet(t, api, "known", "count", runs)
	acknowledged := runs.Runs()

	s.Stop()
	runs.Go()
	runs.Ran(2) // results keep flowing
	runs.Hold()
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, s.Data); err != nil {
		t.Fatal(err)
	}
	if said := s.CLI("doctor", "restored", "--data", s.Data); !strings.Contains(said, "begins a life of its own") {
		t.Errorf("restored says:\n%s", said)
	}
	s.Start()
	harness.Until(t, 90*time.Second, "what the known machine holds is applied", func() (string, bool) {
		e := event(t, api, "known", "count")
		want := copied + runs.Runs() - acknowledged
		if e.Results > want {
			t.Fatalf("%d results, want %d", e.Results, want)
		}
		return fmt.Sprintf("%d results, want %d", e.Results, want), e.Results == want
	})

	const typed = "muster-agent reset-identity"
	harness.Until(t, 90*time.Second, "the machine that joined since hears what to type", func() (string, bool) {
		return since.Log(), strings.Contains(since.Log(), "(unknown)") && strings.Contains(since.Log(), typed) ||
			strings.Contains(since.Log(), "does not renew this machine's certificate") && strings.Contains(since.Log(), typed)
	})
	since.Stop()
	if r := m.types("reset-identity", "--yes"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	m.joins(append(pasted(t, s)[1:], "--name", "since")...)
	since = m.launches()
	harness.Until(t, 30*time.Second, "it is a node again", func() (string, bool) {
		e := event(t, api, "since", model.KeepaliveCheckName)
		return fmt.Sprintf("%+v", e), e.Node == "since" && e.Status == model.OK
	})
	since.Stop()
	known.Stop()
}
