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

	"github.com/muster-fleet/muster/test/harness"
)

// A server goes back to a copy: a machine whose certificate was renewed since is taken as
// it is, and what it ran meanwhile is applied. One that joined since asks by itself to be
// let in again; then it is the node that it was, and nothing that it held is lost. One that
// was retired since is not among them where it was refused.
func TestMachinesAfterRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("certificates run out")
	}
	t.Parallel()
	s := harness.StartServer(t, "--certificate-life", "12s")
	api := s.Client()
	known, runs := s.NewAgent("known"), s.Counter("count", "known")
	later := s.Counter("later", "since")
	known.Start()
	runs.AwaitRuns(2)
	awaitLastResult(t, api, "known", "count", runs)
	copied := runs.Runs()
	backup := filepath.Join(t.TempDir(), "backup")
	s.Stop()
	if out, err := exec.Command("cp", "-a", s.Data, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Start()

	since, scrapped := newJoiner(t), newJoiner(t)
	sinceAgent := joinAndStart(t, s, since, "since")
	was := since.identity().Node
	scrappedAgent := joinAndStart(t, s, scrapped, "scrapped")
	scrappedAgent.Stop()
	s.CLI("node", "retire", "scrapped", "-m", "sold")
	later.AwaitRuns(2)
	awaitLastResult(t, api, "since", "later", later)
	kept := later.Runs()
	harness.Until(t, 60*time.Second, "the certificate is renewed since", func() (string, bool) {
		return known.Log(), strings.Contains(known.Log(), "certificate renewed")
	})
	runs.Unblock()
	runs.AwaitRuns(2)
	awaitLastResult(t, api, "known", "count", runs)
	acknowledged := runs.Runs()

	s.Stop()
	runs.Unblock()
	later.Unblock()
	runs.AwaitRuns(2) // results keep flowing
	later.AwaitRuns(2)
	runs.Block()
	later.Block()
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, s.Data); err != nil {
		t.Fatal(err)
	}
	if said := s.CLI("doctor", "restored", "--data", s.Data); !strings.Contains(said, "begins a life of its own") || !strings.Contains(said, "muster node accept --all-returning") {
		t.Errorf("restored says:\n%s", said)
	}
	s.Start()
	harness.Until(t, 90*time.Second, "what the known machine holds is applied", func() (string, bool) {
		e := eventOf(t, api, "known", "count")
		want := copied + runs.Runs() - acknowledged
		if e.Results > want {
			t.Fatalf("%d results, want %d", e.Results, want)
		}
		return fmt.Sprintf("%d results, want %d", e.Results, want), e.Results == want
	})

	scrappedAgent = scrapped.launchAgent()
	pending := func(name string) {
		harness.Until(t, 90*time.Second, name+" asks to be let in again", func() (string, bool) {
			out := s.CLI("node", "list", "--pending")
			return out, strings.Contains(out, name+"  from 127.0.0.1")
		})
	}
	pending("since")
	pending("scrapped")
	if out := s.CLI("node", "list", "--pending"); !strings.Contains(out, "node/since, node "+was.String()) || !strings.Contains(out, "muster node accept --all-returning") || strings.Contains(out, "same key") {
		t.Errorf("pending:\n%s", out)
	}
	if !strings.Contains(sinceAgent.Log(), "muster node accept since") {
		t.Errorf("its log does not say what to type:\n%s", sinceAgent.Log())
	}
	s.CLI("node", "refuse", "scrapped", "-m", "sold last week")
	if out := s.CLI("node", "accept", "--all-returning"); !strings.Contains(out, "node/since ") || strings.Count(out, "\n") != 1 {
		t.Errorf("accept says\n%s", out)
	}
	harness.Until(t, 90*time.Second, "what the machine that joined since holds is applied", func() (string, bool) {
		e := eventOf(t, api, "since", "later")
		want := later.Runs() - kept
		if e.Results > want {
			t.Fatalf("%d results, want %d", e.Results, want)
		}
		return fmt.Sprintf("%d results, want %d\n%s", e.Results, want, sinceAgent.Log()), e.Results == want
	})
	if is := since.identity().Node; is != was {
		t.Errorf("it is node %s, and was %s", is, was)
	}
	harness.Until(t, 90*time.Second, "the machine that was refused hears why", func() (string, bool) {
		return scrappedAgent.Log(), strings.Contains(scrappedAgent.Log(), "sold last week")
	})
	if out := s.CLI("get", "nodes"); strings.Contains(out, "scrapped") {
		t.Errorf("nodes:\n%s", out)
	}
	later.Unblock()
	later.AwaitRuns(1) // it goes on
	for _, p := range []*harness.Process{sinceAgent, scrappedAgent, known.Process} {
		p.Stop()
	}
}

// joinAndStart makes a machine a node with a new token, and starts its agent.
func joinAndStart(t *testing.T, s *harness.Server, m *joiner, name string) *harness.Process {
	t.Helper()
	m.mustJoin(append(joinWords(t, s)[1:], "--name", name)...)
	p := m.launchAgent()
	harness.Until(t, 30*time.Second, name+" is connected", func() (string, bool) {
		return p.Log(), strings.Contains(p.Log(), "msg=connected")
	})
	return p
}
