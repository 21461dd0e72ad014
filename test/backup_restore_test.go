//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestRestoredServerAppliesResultsOnce restores an old backup by the suggested command, and expects each result
// exactly once. After the command it applies each result once. Then agents take its assignments and their
// results are applied once. Page tokens, ETags and ids of the abandoned data are refused or never reused, and
// no node is reported as down.
func TestRestoredServerAppliesResultsOnce(t *testing.T) {
	skipIfShort(t, "an agent waits long between attempts while its server is away")
	t.Parallel()
	s := harness.StartServer(t)
	check := kind.Check().KindInfo
	before := s.NewCountingCheck("before", "web01")
	agent := s.StartAgent("web01")
	before.AwaitRuns(2)
	awaitLastResult(t, s.API, "web01", "before", before)
	kept := before.Runs() // results in the copy

	backup := filepath.Join(t.TempDir(), "backup")
	s.Pause() // the copy equals a snapshot of the disk
	harness.CopyFolder(t, s.Data, backup)
	s.Resume()

	before.Unblock()
	since := s.NewCountingCheck("since", "web01") // a check that the copy lacks
	before.AwaitRuns(3)
	awaitAllResults(t, s.API, "web01", "since", since)
	awaitLastResult(t, s.API, "web01", "before", before)
	acknowledged := before.Runs()
	_, tag, err := s.API.Resources.Get(t.Context(), check, model.DefaultNamespaceName, "before")
	testenv.NoError(t, err)
	events, err := s.API.Events.List(t.Context(), v1.EventFilter{Limit: 1})
	require(t, err == nil && events.Next != "", "%+v %v", events, err)
	checks, err := s.API.Resources.List(t.Context(), check, "", v1.ResourceFilter{}, false, 1, "")
	require(t, err == nil && checks.Next != "", "%+v %v", checks, err)
	changed, err := s.API.Resources.Changes(t.Context(), "", "", "", 1, "")
	require(t, err == nil && changed.Next != "", "%+v %v", changed, err)

	s.Kill()
	before.Unblock()
	before.AwaitRuns(4)
	before.Block()
	held := before.Runs() - acknowledged // results that no server has acknowledged
	testenv.NoError(t, os.RemoveAll(s.Data))
	testenv.NoError(t, os.Rename(backup, s.Data))

	// Started on the old copy: no result of an agent is lost, and the server names the command.
	s.Start()
	awaitEvent(t, s.API, "web01", "before", "what the agent holds is applied", func(e v1.Event) bool { return e.Results >= kept+held })
	if e := getEvent(t, s.API, "web01", "before"); e.Results != kept+held || e.Output != fmt.Sprint("run ", before.Runs()) {
		t.Errorf("%d runs were kept, %d held; %d results are applied, the last: %q", kept, held, e.Results, e.Output)
	}
	journal := model.BuiltinCheckName(model.JournalCheck)
	told := awaitEvent(t, s.API, model.ServerNodeName, journal, "it is CRITICAL", func(e v1.Event) bool { return e.Status == model.Critical }).Output
	s.Try("status").Expect(0, "web01) have acknowledgements for signals that the server does not have")
	command := regexp.MustCompile(`muster (doctor restored .*)$`).FindStringSubmatch(told)
	require(t, command != nil, "no command in %q", told)
	s.Stop()
	s.Try(strings.Fields(command[1])...).Expect(0, "has the new incarnation")

	// After the command, the data is a new incarnation.
	s.Start()
	before.Unblock()
	before.AwaitRuns(2)
	agent.AwaitLog(`msg="applied the assignment" checks=1 `)
	after := s.NewCountingCheck("after", "web01")
	after.AwaitRuns(1)
	awaitAllResults(t, s.API, "web01", "after", after)
	if runs := since.Runs(); runs != 0 {
		since.Block()
		now := since.Runs()
		assert(t, now <= runs+1, "the check that is gone still runs: %d times, then %d", runs, now)
	}
	before.Block()
	harness.Until(t, 30*time.Second, "every run since the restore is applied", func() (string, bool) {
		e := getEvent(t, s.API, "web01", "before")
		want := kept + before.Runs() - acknowledged
		return fmt.Sprintf("%d results, want %d; %q", e.Results, want, e.Output), e.Results == want && e.Output == fmt.Sprint("run ", before.Runs())
	})
	for what, err := range map[string]error{
		"ETag": func() error {
			body, _, err := s.API.Resources.Get(t.Context(), check, model.DefaultNamespaceName, "before")
			if err != nil {
				return nil // reported as missing
			}
			_, err = s.API.Resources.Put(t.Context(), check, model.DefaultNamespaceName, "before", body, tag, v1.ChangeOptions{Yes: true})
			return err
		}(),
		"token of events": func() error {
			_, err := s.API.Events.List(t.Context(), v1.EventFilter{Limit: 1, After: events.Next})
			return err
		}(),
		"token of checks": func() error {
			_, err := s.API.Resources.List(t.Context(), check, "", v1.ResourceFilter{}, false, 1, checks.Next)
			return err
		}(),
		"token of changes": func() error {
			_, err := s.API.Resources.Changes(t.Context(), "", "", "", 1, changed.Next)
			return err
		}(),
	} {
		want := "the page token is from before" // the restore
		if what == "ETag" {
			want = "has changed: its ETag is" // an ETag contains the incarnation: an equal revision differs
		}
		assert(t, err != nil && strings.Contains(err.Error(), want), "%s of the abandoned life: %v", what, err)
	}
	var made struct{ Status struct{ ID uint32 } }
	body, _, err := s.API.Resources.Get(t.Context(), check, model.DefaultNamespaceName, "after")
	testenv.NoError(t, err)
	decodeJSON(t, body, &made)
	assert(t, made.Status.ID >= intent.IDGap, "the new check has id %d, which the abandoned life may have given", made.Status.ID)
	awaitEvent(t, s.API, model.ServerNodeName, model.BuiltinCheckName(model.JournalCheck), "the journal event is OK again", func(e v1.Event) bool { return e.Status == model.OK })
	got := statusChanges(t, s.API, "web01", model.KeepaliveCheckName)
	assert(t, len(got) == 0, "the living node was reported: %+v", got)
	expectNoTexts(t, s.Log()+agent.Log(), "panic", "BUG")
	agent.Stop()
	s.Stop()
}

// TestMachinesReturnAfterRestore restores the server from a backup, and expects machines with newer
// certificates to reconnect. So can machines that joined after the backup. One that joined since asks to
// return, and keeps its node and results once approved. One that was retired since is not offered.
func TestMachinesReturnAfterRestore(t *testing.T) {
	skipIfShort(t, "certificates run out")
	t.Parallel()
	s := harness.StartServer(t, "--certificate-life", "12s")
	known, runs := s.NewAgent("known"), s.NewCountingCheck("count", "known")
	later := s.NewCountingCheck("later", "since")
	known.Start()
	runs.AwaitRuns(2)
	awaitLastResult(t, s.API, "known", "count", runs)
	copied := runs.Runs()
	backup := filepath.Join(t.TempDir(), "backup")
	s.Stop()
	harness.CopyFolder(t, s.Data, backup)
	s.Start()

	since, scrapped := newJoiningMachine(t), newJoiningMachine(t)
	sinceAgent := joinAndStart(t, s, since, "since")
	was := since.identity().Node
	scrappedAgent := joinAndStart(t, s, scrapped, "scrapped")
	scrappedAgent.Stop()
	s.CLI("node", "retire", "scrapped", "-m", "sold")
	later.AwaitRuns(2)
	awaitLastResult(t, s.API, "since", "later", later)
	kept := later.Runs()
	known.AwaitLog("certificate renewed")
	runs.Unblock()
	runs.AwaitRuns(2)
	awaitLastResult(t, s.API, "known", "count", runs)
	acknowledged := runs.Runs()

	s.Stop()
	runs.Unblock()
	later.Unblock()
	runs.AwaitRuns(2) // results keep flowing
	later.AwaitRuns(2)
	runs.Block()
	later.Block()
	testenv.NoError(t, os.RemoveAll(s.Data))
	testenv.NoError(t, os.Rename(backup, s.Data))
	s.Try("doctor", "restored", "--data", s.Data).Expect(0, "has the new incarnation", "muster node accept --all-returning")
	s.Start()
	harness.Until(t, 90*time.Second, "what the known machine holds is applied", func() (string, bool) {
		e := getEvent(t, s.API, "known", "count")
		want := copied + runs.Runs() - acknowledged
		require(t, e.Results <= want, "%d results, want %d", e.Results, want)
		return fmt.Sprintf("%d results, want %d", e.Results, want), e.Results == want
	})

	scrappedAgent = scrapped.launchAgent()
	pending := func(name string) {
		s.AwaitOutput("node list --pending", name+"  from 127.0.0.1")
	}
	pending("since")
	pending("scrapped")
	s.Try("node", "list", "--pending").Expect(0, "node/since, node "+was.String(), "muster node accept --all-returning").ExpectNot("same key")
	expectTexts(t, sinceAgent.Log(), "muster node accept since")
	s.CLI("node", "refuse", "scrapped", "-m", "sold last week")
	out := s.CLI("node", "accept", "--all-returning")
	assert(t, strings.Contains(out, "node/since ") && strings.Count(out, "\n") == 1, "accept says\n%s", out)
	harness.Until(t, 90*time.Second, "what the machine that joined since holds is applied", func() (string, bool) {
		e := getEvent(t, s.API, "since", "later")
		want := later.Runs() - kept
		require(t, e.Results <= want, "%d results, want %d", e.Results, want)
		return fmt.Sprintf("%d results, want %d\n%s", e.Results, want, sinceAgent.Log()), e.Results == want
	})
	is := since.identity().Node
	assert(t, is == was, "it is node %s, and was %s", is, was)
	scrappedAgent.AwaitLog("sold last week")
	s.Try("get", "nodes").Expect(0).ExpectNot("scrapped")
	later.Unblock()
	later.AwaitRuns(1) // the agent continues
	for _, p := range []*harness.Process{sinceAgent, scrappedAgent, known.Process} {
		p.Stop()
	}
}

// joinAndStart joins a machine with a new token and starts its agent.
func joinAndStart(t *testing.T, s *harness.Server, m *joiningMachine, name string) *harness.Process {
	t.Helper()
	m.mustJoin(append(newJoinArguments(t, s)[1:], "--name", name)...)
	p := m.launchAgent()
	p.AwaitLog("msg=connected")
	return p
}
