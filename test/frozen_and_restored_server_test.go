//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestFrozenServerKeepsTimesOfResults suspends the server's process, and expects results of the meantime with
// their original times.
func TestFrozenServerKeepsTimesOfResults(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Apply(`{kind: Check, metadata: {name: clock}, spec: {command: "t=$(date +%s); echo $t; exit $((t / 2 % 2 * 2))", interval: 1s, alert: {failAfter: 1, recoverAfter: 1}, targets: {nodes: [web01]}}}`)
	agent := s.StartAgent("web01")
	awaitEvent(t, s.API, "web01", "clock", "it runs", func(e v1.Event) bool { return e.Results >= 3 })
	s.Pause()
	sleep(t.Context(), 12*time.Second)
	s.Resume()
	agent.AwaitLog("the server was paused")
	n := getEvent(t, s.API, "web01", "clock").Results
	awaitEvent(t, s.API, "web01", "clock", "what waited is applied", func(e v1.Event) bool { return e.Results >= n+14 })
	awaitHistory(t, s.API)
	list, err := s.API.Events.History(t.Context(), model.DefaultNamespaceName, "web01", "clock", 100)
	require(t, err == nil && len(list.Items) > 5, "%d entries, %v", len(list.Items), err)
	for _, e := range list.Items {
		ran, err := strconv.ParseInt(strings.TrimSpace(e.Output), 10, 64)
		if err != nil {
			continue // the server's own text
		}
		if off := e.Executed.Sub(time.Unix(ran, 0)); off < -2*time.Second || off > 3*time.Second {
			t.Errorf("a run at %s is dated %s, %s off", time.Unix(ran, 0).UTC(), e.Executed.UTC(), off)
		}
	}
	s.Stop()
}

// A running server reports moved or replaced files of its data folder.
func TestReplacedFilesAreNoticed(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	event := model.BuiltinCheckName(model.FilesCheck)
	for i, file := range []string{"intent.db", "history.db", "pki/ca.key"} {
		path := filepath.Join(s.Data, file)
		testenv.NoError(t, os.Rename(path, path+".away"))
		if i == 1 {
			writeFile(t, path, "")
		}
		why, ready := s.Ready()
		assert(t, !ready && strings.Contains(why, path+" was "), "readyz says: %s", why)
		s.AwaitOutput("status", path+" was ")
		awaitEvent(t, s.API, model.ServerNodeName, event, file+" is reported", func(e v1.Event) bool {
			return e.Status == model.Critical && strings.Contains(e.Output, path)
		})
		testenv.NoError(t, os.Rename(path+".away", path))
		s.WaitReady(10 * time.Second)
		awaitEvent(t, s.API, model.ServerNodeName, event, "all is well again", func(e v1.Event) bool { return e.Status == model.OK })
	}
	s.Stop()
}

// TestCopyRestoredTwiceIsReported restores a backup twice, and expects the server to report outdated data. The
// agents already have newer data from the first time.
func TestCopyRestoredTwiceIsReported(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	counter := s.NewCountingCheck("count", "web01")
	s.StartAgent("web01")
	counter.AwaitRuns(2)
	awaitLastResult(t, s.API, "web01", "count", counter)
	s.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	harness.CopyFolder(t, s.Data, backup)
	restore := func() {
		testenv.NoError(t, os.RemoveAll(s.Data))
		harness.CopyFolder(t, backup, s.Data)
	}
	restore()
	s.CLI("doctor", "restored", "--data", s.Data)
	s.Start()
	s.API = s.Client()
	counter.Unblock()
	since := s.NewCountingCheck("since", "web01")
	since.AwaitRuns(1) // the agent has an assignment of the new incarnation
	awaitAllResults(t, s.API, "web01", "since", since)
	s.Stop()
	restore()
	s.Start()
	s.API = s.Client()
	told := awaitEvent(t, s.API, model.ServerNodeName, model.BuiltinCheckName(model.JournalCheck), "it is CRITICAL", func(e v1.Event) bool { return e.Status == model.Critical }).Output
	expectTexts(t, told, "data is an older copy", fmt.Sprintf("muster doctor restored --data %s", s.Data))
	s.Stop()
}
