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

// A machine was cloned with its agent: two of them have one identity. They take turns;
// who is displaced says so in its log, in the server's, and in the history of the node's
// keepalive. What either ran is applied once, and nobody is taken for dead.
func TestTwoMachinesWithOneIdentity(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	api := s.Client()
	first, runs := s.NewAgent("image"), s.Counter("count", "image")
	first.Start()
	runs.Ran(2)
	quiet(t, api, "image", "count", runs)
	first.Kill()
	second := first.Clone()
	runs.Go()

	first.Start()
	runs.Ran(2)
	second.Start()
	displaced := func(a *harness.Agent) {
		t.Helper()
		harness.Until(t, 30*time.Second, "who is displaced hears why", func() (string, bool) {
			return a.Log(), strings.Contains(a.Log(), "duplicate") && strings.Contains(a.Log(), "two machines have one identity") && strings.Contains(a.Log(), "muster node token")
		})
	}
	displaced(first)
	runs.Ran(2)
	again := func(a *harness.Agent) { // who comes again need not wait for its turn
		t.Helper()
		runs.Hold()
		wait(t.Context(), 2*time.Second) // what the spool lingers before it writes, and more
		a.Kill()
		a.Start()
	}
	again(first)
	displaced(second)
	const told = "two machines have this node's identity"
	harness.Until(t, 20*time.Second, "the node's event tells", func() (string, bool) {
		text := s.CLI("describe", "event", "image/"+model.KeepaliveCheckName)
		return text, strings.Contains(text, told) && strings.Contains(text, "muster node token")
	})
	if log := s.Log(); !strings.Contains(log, "node=image") || !strings.Contains(log, told) {
		t.Errorf("the server's log does not tell:\n%s", log)
	}
	again(second)
	harness.Until(t, 30*time.Second, "every run of either is applied", func() (string, bool) {
		e := event(t, api, "image", "count")
		if e.Results > runs.Runs() {
			t.Fatalf("%d runs, %d results applied", runs.Runs(), e.Results)
		}
		return fmt.Sprintf("%d runs, %+v", runs.Runs(), e), e.Results == runs.Runs()
	})
	if e := event(t, api, "image", "count"); e.Lost != 0 {
		t.Errorf("%d results were lost", e.Lost)
	}
	for _, code := range []string{"hole", "streams", "malformed"} {
		if n := s.Metric("muster_session_frames_total", fmt.Sprintf("outcome=%q", code)); n != 0 {
			t.Errorf("%g frames were a %s", n, code)
		}
	}
	if got := problems(t, api, "image"); len(got) != 0 {
		t.Errorf("problems: %+v", got)
	}
}
