//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// A machine was cloned with its agent, and both are switched on: who comes second is sent
// away and told what to type, one event names both, and what the check says is the first
// machine's word alone.
func TestClonedIdentity(t *testing.T) {
	t.Parallel()
	const one, other = "3f2a91c0aaaaaaaaaaaaaaaaaaaaaaaa", "77ab12cdbbbbbbbbbbbbbbbbbbbbbbbb"
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	api := s.Client()
	first := s.NewAgent("image")
	first.OnMachine(one, "boot-1")
	s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: where}\nspec:\n  targets: {nodes: [image]}\n  interval: 1s\n" +
		"  command: cat /etc/machine-id; grep -q " + one + " /etc/machine-id || exit 2\n")
	first.Start()
	results := func(more uint64) {
		t.Helper()
		want := eventOf(t, api, "image", "where").Results + more
		harness.Until(t, 30*time.Second, "results are applied", func() (string, bool) {
			e := eventOf(t, api, "image", "where")
			return fmt.Sprintf("%+v", e), e.Results >= want
		})
	}
	results(1)
	first.Stop()
	second := first.Clone()
	second.OnMachine(other, "boot-2")
	first.Start()
	results(1)

	second.Start()
	harness.Until(t, 30*time.Second, "the clone hears why it is sent away", func() (string, bool) {
		return second.Log(), strings.Contains(second.Log(), "(clone)") && strings.Contains(second.Log(), "muster-agent reset-identity")
	})
	results(3)
	told := ""
	harness.Until(t, 20*time.Second, "the node's event tells", func() (string, bool) {
		r := harness.Run(t, s.Env(), "describe", "event", "image/"+model.BuiltinCheckName(model.IdentityCheck))
		told = r.Out
		return r.Out + r.Errors, r.Code == 0
	})
	for _, part := range []string{"127.0.0.1 (machine " + one[:8], "127.0.0.1 (machine " + other[:8], "reset-identity", "CRITICAL"} {
		if !strings.Contains(strings.ReplaceAll(told, "\n", " "), part) {
			t.Errorf("the event lacks %q:\n%s", part, told)
		}
	}
	if log := s.Log(); !strings.Contains(log, "two machines have one identity") || !strings.Contains(log, "node=image") {
		t.Errorf("the server's log does not tell:\n%s", log)
	}
	if got := statusChanges(t, api, "image", "where"); len(got) != 0 {
		t.Errorf("the clone's results count: %+v", got)
	}
	if e := eventOf(t, api, "image", "where"); e.Status != model.OK || !strings.Contains(e.Output, one) {
		t.Errorf("the check says %+v", e)
	}
	if strings.Contains(first.Log(), "duplicate") {
		t.Errorf("the first machine was displaced:\n%s", first.Log())
	}
	if n := len(problemsOf(t, api, "image")); n != 1 { // that of the event
		t.Errorf("%d problems", n)
	}
}

// Two agents on one machine, as in two containers of one kernel, look the same. The second
// takes over, as the same machine would that lost its network; the first is sent away when
// it comes again while the other lives. What either ran is applied once, and nobody is
// taken for dead.
func TestIndistinguishableAgents(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	api := s.Client()
	first, runs := s.NewAgent("image"), s.Counter("count", "image")
	first.Start()
	runs.AwaitRuns(2)
	awaitLastResult(t, api, "image", "count", runs)
	first.Kill()
	second := first.Clone()
	runs.Unblock()

	first.Start()
	runs.AwaitRuns(2)
	second.Start()
	said := func(a *harness.Agent, words ...string) {
		t.Helper()
		harness.Until(t, 30*time.Second, "who is sent away hears why", func() (string, bool) {
			log := a.Log()
			for _, word := range append(words, "muster-agent reset-identity") {
				if !strings.Contains(log, word) {
					return log, false
				}
			}
			return log, true
		})
	}
	said(first, "(duplicate)", "two agents have one identity")
	runs.AwaitRuns(2)
	again := func(a *harness.Agent) { // who comes again need not wait for its turn
		t.Helper()
		runs.Block()
		sleep(t.Context(), 2*time.Second) // what the spool lingers before it writes, and more
		a.Kill()
		a.Start()
	}
	again(first)
	said(first, "(clone)", "another machine has the identity of node image")
	harness.Until(t, 20*time.Second, "the node's event tells", func() (string, bool) {
		e := eventOf(t, api, "image", model.BuiltinCheckName(model.IdentityCheck))
		return fmt.Sprintf("%+v", e), e.Status == model.Critical
	})
	runs.Block()
	sleep(t.Context(), 2*time.Second) // until the second has sent what it ran
	second.Kill()
	again(first)
	harness.Until(t, 30*time.Second, "every run of either is applied", func() (string, bool) {
		e := eventOf(t, api, "image", "count")
		if e.Results > runs.Runs() {
			t.Fatalf("%d runs, %d results applied", runs.Runs(), e.Results)
		}
		return fmt.Sprintf("%d runs, %+v", runs.Runs(), e), e.Results == runs.Runs()
	})
	if e := eventOf(t, api, "image", "count"); e.Lost != 0 {
		t.Errorf("%d results were lost", e.Lost)
	}
	for _, code := range []string{"hole", "streams", "malformed"} {
		if n := s.Metric("muster_session_frames_total", fmt.Sprintf("outcome=%q", code)); n != 0 {
			t.Errorf("%g frames were a %s", n, code)
		}
	}
}
