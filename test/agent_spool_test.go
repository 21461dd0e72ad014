//go:build linux

package test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestReplacedSpoolAppliesRunsOnce replaces an agent's spool (buffer on disk), and expects the server to apply
// each result once. The buffer is the spool on disk; each result is applied once.
func TestReplacedSpoolAppliesRunsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.CountingCheck, quiet func())
		told string
		lost bool // some results are lost without a count
	}{
		{"deleted while it is stopped", func(t *testing.T, _ *harness.Server, a *harness.Agent, runs *harness.CountingCheck, quiet func()) {
			quiet()
			a.Kill()
			testenv.NoError(t, os.RemoveAll(filepath.Join(a.State, "spool")))
			runs.Unblock()
			a.Start()
		}, "the agent's spool was deleted", false},
		{"deleted while it runs", func(t *testing.T, _ *harness.Server, a *harness.Agent, runs *harness.CountingCheck, quiet func()) {
			folder := filepath.Join(a.State, "spool")
			testenv.NoError(t, os.RemoveAll(folder))
			harness.Until(t, 20*time.Second, "the agent creates the spool again", func() (string, bool) {
				list, err := os.ReadDir(folder)
				return fmt.Sprint(list, err), len(list) > 0
			})
			runs.AwaitRuns(2)
			quiet()
			a.Kill()
			runs.Unblock()
			a.Start()
		}, "deleted while the agent ran", false},
		{"brought back with results that were delivered since", func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.CountingCheck, quiet func()) {
			s.Pause()
			runs.AwaitRuns(2)
			runs.Block()
			sleep(t.Context(), 2*time.Second) // longer than the spool's linger before a write
			a.Kill()
			copied := a.CopyState() // the copy has at least two results that the server lacks
			runs.Unblock()
			s.Resume()
			a.Start()
			runs.AwaitRuns(3)
			quiet()
			a.Kill()
			a.RestoreState(copied)
			runs.Unblock()
			a.Start()
		}, "spool is older than the server's numbers", false},
		{"brought back, and more was made without the server than it knows", func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.CountingCheck, quiet func()) {
			a.Stop()
			copied := a.CopyState()
			a.Start()
			runs.AwaitRuns(2)
			quiet()
			a.Kill()
			a.RestoreState(copied)
			s.Kill()
			runs.Unblock()
			a.Start()
			runs.AwaitRuns(5)
			s.Start()
		}, "spool is older than the server's numbers", false},
		{"brought back, and started twice before it met the server", func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.CountingCheck, quiet func()) {
			a.Stop()
			copied := a.CopyState()
			a.Start()
			runs.AwaitRuns(5)
			quiet()
			a.Kill()
			a.RestoreState(copied)
			s.Kill()
			runs.Unblock()
			a.Start()
			runs.AwaitRuns(3) // these runs have the numbers of results that the server has
			a.Stop()
			a.Start()
			s.Start()
		}, "may be lost", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(c.name, "brought back") {
				t.Skip("a quarter of a minute")
			}
			t.Parallel()
			s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
			a, runs := s.NewAgent("disk"), s.NewCountingCheck("count", "disk")
			a.Start()
			runs.AwaitRuns(2)
			c.do(t, s, a, runs, func() { awaitLastResult(t, s.API, "disk", "count", runs) })
			runs.AwaitRuns(2)
			if c.lost {
				awaitNewestResult(t, s.API, "disk", "count", runs)
			} else {
				awaitAllResults(t, s.API, "disk", "count", runs)
			}

			s.AwaitOutput("describe event disk/"+model.KeepaliveCheckName, c.told)
			e := getEvent(t, s.API, "disk", "count")
			assert(t, e.Lost == 0, "%d results were lost", e.Lost)
			expectNoMalformedMessages(t, s)
			welcomes := s.Metric("muster_session_handshakes_total")
			runs.AwaitRuns(3)
			expectEqual(t, "sessions while nothing happens", s.Metric("muster_session_handshakes_total"), welcomes)
		})
	}
}

// awaitNewestResult waits until the server has applied the newest run of a check that counts its runs. One to six runs
// may be lost; none is applied twice.
func awaitNewestResult(t *testing.T, api *client.Client, node, check string, c *harness.CountingCheck) {
	t.Helper()
	c.Block()
	e := awaitEvent(t, api, node, check, "the newest run is applied", func(e v1.Event) bool { return e.Output == fmt.Sprint("run ", c.Runs()) })
	lost := c.Runs() - e.Results
	assert(t, lost >= 1 && lost <= 6, "of %d runs %d are applied", c.Runs(), e.Results)
	c.Unblock()
}

// TestRefusedResultBlocksNoLaterResult spools oversized results between good results, and expects the good
// results to arrive. The results over the limits are refused once; the buffer is the agent's spool.
func TestRefusedResultBlocksNoLaterResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		limit   []string
		output  int
		refused bool
	}{
		{"longer than the server's limit", []string{"--max-output", "4KiB"}, 20 << 10, true},
		{"longer than the server's frame", []string{"--max-frame", "64KiB"}, 100 << 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
			a := s.NewAgent("poison")
			small, big := s.NewCountingCheck("small", "poison"), s.NewCountingCheck("big", "poison", "  maxOutput: 1MiB")
			s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: agent}\nspec: {targets: {nodes: [poison]}, interval: 1s, probe: {name: agent}}\n")
			a.Start()
			small.AwaitRuns(1)
			big.AwaitRuns(1)
			awaitAllResults(t, s.API, "poison", "big", big)

			s.Kill()
			big.SetPrefix(strings.Repeat("x", c.output) + "\n")
			big.AwaitRuns(2)
			s.Args = append(s.Args, c.limit...)
			s.Start()
			awaitAllResults(t, s.API, "poison", "small", small)
			awaitEvent(t, s.API, "poison", "big", "a later result is kept", func(e v1.Event) bool { return strings.HasPrefix(e.Output, "xxx") })
			big.Block()
			var refused float64
			harness.Until(t, 30*time.Second, "every run is kept or refused", func() (string, bool) {
				e := getEvent(t, s.API, "poison", "big")
				refused = s.Metric("muster_session_signals_total", `outcome="output"`)
				return fmt.Sprintf("%d runs; %d kept, %g refused", big.Runs(), e.Results, refused), float64(e.Results)+refused == float64(big.Runs())
			})
			assert(t, c.refused == (refused >= 2), "%g results were refused", refused)
			harness.Until(t, 20*time.Second, "the logs of agent and server tell what happened", func() (string, bool) {
				agent, server := strings.Contains(a.Log(), "server refused results"), strings.Contains(s.Log(), "refused a signal")
				return fmt.Sprintf("agent %v, server %v", agent, server), agent == c.refused && server == c.refused
			})
			e := getEvent(t, s.API, "poison", "small")
			assert(t, e.Lost == 0, "%d small results were lost", e.Lost)
			if !c.refused {
				return
			}
			s.AwaitOutput("describe event poison/agent", "the server refused ")
		})
	}
}

// The results in a damaged part of an agent's spool are reported as lost, and later results arrive.
func TestDamagedSpoolReportsLostResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		size int    // bytes of a result; large results are on the disk alone
		runs uint64 // number of runs, most of them a commit each
		away bool
	}{
		{"while it is away", 0, 6, true},
		{"under it", 300 << 10, 7, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
			a, runs := s.NewAgent("bits"), s.NewCountingCheck("count", "bits", "  maxOutput: 1MiB")
			a.Start()
			runs.AwaitRuns(1)
			awaitLastResult(t, s.API, "bits", "count", runs)
			s.AwaitOutput("get inventory bits", "packages") // it is in the spool, too, and its loss would count
			sleep(t.Context(), 2*time.Second)               // longer than the spool's linger: an acknowledged result is not written later
			s.Kill()
			acked := oldestSegmentSize(t, a) // the server can acknowledge nothing that is written from now on
			runs.SetPrefix(incompressibleText(c.size))
			runs.Unblock()
			runs.AwaitRuns(c.runs)
			runs.Block()
			sleep(t.Context(), 2*time.Second) // longer than the spool's linger before a write
			if c.away {
				a.Kill()
			}
			damageSpool(t, a, acked)
			runs.SetPrefix("")
			runs.Unblock()
			if c.away {
				a.Start()
			}
			s.Start()
			runs.AwaitRuns(2)
			runs.Block()
			// An agent that has tried for ten seconds may wait for up to a minute.
			awaitEvent(t, s.API, "bits", "count", "what is behind the damage came through", func(e v1.Event) bool { return e.Output == fmt.Sprint("run ", runs.Runs()) })
			var e v1.Event
			var lost uint64
			harness.Until(t, 30*time.Second, "every run is applied or lost", func() (string, bool) {
				e = getEvent(t, s.API, "bits", "count")
				lost = e.Lost + getEvent(t, s.API, "bits", model.KeepaliveCheckName).Lost // a loss of an unknown check counts on the keepalive event
				return fmt.Sprintf("%d runs, %d results, %d lost", runs.Runs(), e.Results, lost), e.Results+lost >= runs.Runs()
			})
			assert(t, lost != 0 && lost < c.runs && e.Results+lost == runs.Runs(),
				"%d runs, %d results, %d reported as lost", runs.Runs(), e.Results, lost)
			check := model.KeepaliveCheckName
			if e.Lost > 0 {
				check = "count"
			}
			s.AwaitOutput("describe event bits/"+check, "lost on the agent's disk")
		})
	}
}

// oldestSegment returns the file that has the oldest results in an agent's buffer on disk.
func oldestSegment(t *testing.T, a *harness.Agent) (path string) {
	t.Helper()
	segments, _ := filepath.Glob(filepath.Join(a.State, "spool", "*.log"))
	require(t, len(segments) != 0, "the spool has no segment")
	return slices.Min(segments)
}

// oldestSegmentSize returns the size of the file with an agent's oldest buffered results.
func oldestSegmentSize(t *testing.T, a *harness.Agent) int64 {
	t.Helper()
	return testenv.Value(os.Stat(oldestSegment(t, a)))(t).Size()
}

// damageSpool flips a bit in an agent's oldest buffer file. The file is in the spool; the bit is in the middle of the
// results after the acked results.
func damageSpool(t *testing.T, a *harness.Agent, acked int64) {
	t.Helper()
	f := testenv.Value(os.OpenFile(oldestSegment(t, a), os.O_RDWR, 0))(t)
	defer f.Close()
	info := testenv.Value(f.Stat())(t)
	at, b := (acked+info.Size())/2, make([]byte, 1)
	testenv.Value(f.ReadAt(b, at))(t)
	b[0] ^= 0x10
	testenv.Value(f.WriteAt(b, at))(t)
}

// incompressibleText returns a random text of n bytes.
func incompressibleText(n int) string {
	random := rand.NewChaCha8([32]byte{})
	b := make([]byte, n/2)
	_, _ = random.Read(b)
	return hex.EncodeToString(b)
}

// TestSpoolOverflowDropsOldestResults fills an agent's spool, and expects a counted loss of the oldest large
// results.
func TestSpoolOverflowDropsOldestResults(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	a := s.NewAgent("full", "--spool-size", "1MiB")
	small, big := s.NewCountingCheck("small", "full"), s.NewCountingCheck("big", "full", "  maxOutput: 1MiB")
	s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: agent}\nspec: {targets: {nodes: [full]}, interval: 1s, probe: {name: agent}}\n")
	a.Start()
	small.AwaitRuns(1)
	big.AwaitRuns(1)
	awaitAllResults(t, s.API, "full", "big", big)
	awaitAllResults(t, s.API, "full", "small", small)

	s.Kill()
	big.SetPrefix(incompressibleText(100<<10) + "\n")
	big.AwaitRuns(9) // five results fill half of the spool
	big.Block()
	small.Block()
	sleep(t.Context(), time.Second) // until a present run has ended
	s.Start()
	e := awaitEvent(t, s.API, "full", "big", "every run of the one that prints is applied or gave way", func(e v1.Event) bool { return e.Results+e.Lost == big.Runs() })
	if e.Lost < 4 || e.Lost > 6 || !strings.HasSuffix(e.Output, fmt.Sprint("run ", big.Runs())) {
		t.Errorf("%d runs, %d lost, the last output ends in %q", big.Runs(), e.Lost, e.Output[max(0, len(e.Output)-20):])
	}
	awaitEvent(t, s.API, "full", "small", "every run of the other is applied", func(e v1.Event) bool { return e.Results == small.Runs() })
	var counted uint64
	var entries []v1.Entry
	harness.Until(t, 20*time.Second, "history lists every dropped result", func() (string, bool) {
		counted, entries = 0, nil
		for _, entry := range eventChanges(t, s.API, model.DefaultNamespaceName, "full", "big") {
			if entry.Kind == "lost" {
				entries, counted = append(entries, entry), counted+entry.Count
			}
		}
		return fmt.Sprintf("%+v", entries), counted >= e.Lost
	})
	assert(t, counted == e.Lost && len(entries) == 1 && entries[0].Output == "the spool was full",
		"%d gave way; history has %+v", e.Lost, entries)
	s.AwaitOutput("describe event full/agent", "signals: it was full, or they were too old or damaged")
}

// expectNoMalformedMessages fails the test if the server has counted a malformed message of an agent.
func expectNoMalformedMessages(t *testing.T, s *harness.Server) {
	t.Helper()
	for _, code := range []string{"numbers_missing", "streams", "malformed"} {
		expectEqual(t, "frames that were a "+code, s.Metric("muster_session_frames_total", fmt.Sprintf("outcome=%q", code)), 0)
	}
}
