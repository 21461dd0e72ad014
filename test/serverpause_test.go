//go:build linux

package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// The server does not listen for twice the time-out of keepalives, or its disk does
// not take anything for so long, or nothing at all is the matter with it
// (MUSTER_TEST_LONG=1: for minutes); meanwhile a third of the nodes die. None of the living
// is reported, and none of its checks; each of the dead is, once, and the server says
// first that many sessions were lost at once.
func TestKeepalivesAfterServerPause(t *testing.T) {
	t.Parallel()
	const living, dead, timeout = 20, 10, 4 * time.Second
	for _, c := range []struct {
		name      string
		long      time.Duration // that it lasts on a bad day
		away      func(s *harness.Server) (back func())
		sessions  bool // the server had those of the dead
		leftShort bool
	}{
		{"running", 2 * timeout, func(*harness.Server) func() { return func() {} }, true, true},
		{"stopped", 5 * time.Minute, func(s *harness.Server) func() { s.Pause(); return s.Resume }, true, false},
		{"killed", 10 * time.Minute, func(s *harness.Server) func() { s.Kill(); return s.Start }, false, true},
		{"disk stalls", time.Minute, func(s *harness.Server) func() {
			stalled := s.Trace("-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600s")
			return func() { stalled.Detach() }
		}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.leftShort {
				t.Skip("the other way of not listening stands for this one")
			}
			t.Parallel()
			s := harness.NewServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", timeout.String(), "--reconnect-grace", "5s")
			lasts := harness.Duration(t, 2*timeout, c.long)
			fleet := harness.Fleet{Agents: living + dead, Checks: 2, Interval: time.Second}
			s.Prepare(fleet)
			s.Start()
			api := s.Client()
			s.Apply(fmt.Sprintf("{apiVersion: muster/v1, kind: Check, metadata: {name: load-000, namespace: load}, spec: {targets: {groups: [agents]}, command: 'true', interval: 1s, ttl: %s}}", timeout))

			// The last of the fleet die with the process that plays them, without a goodbye.
			doomed := harness.Launch(t, s.Env(), "load", "run", "--uncompared", "--server", s.Plain, "--first", fmt.Sprint(living), "--agents", fmt.Sprint(dead),
				"--checks", "2", "--interval", "1s", "--duration", "1h", "--max-lag", "1h", "--status-changes", "-1")
			cfg := s.Load(harness.Fleet{Agents: living, Checks: 2, Interval: time.Second}, lasts+12*time.Second)
			cfg.Changes = -1
			end := make(chan loadResult, 1)
			go func() {
				rep, err := load.Run(t.Context(), cfg)
				end <- loadResult{rep, err}
			}()
			harness.Until(t, 30*time.Second, "all nodes have results", func() (string, bool) {
				n := len(s.FleetStates())
				return fmt.Sprint(n), n == 2*(living+dead)
			})

			back := c.away(s)
			doomed.Signal(syscall.SIGKILL)
			sleep(t.Context(), lasts)
			back()

			harness.Until(t, timeout+20*time.Second, "the dead are reported", func() (string, bool) {
				reported := keepaliveEvents(t, api)
				n := 0
				for _, e := range reported {
					if e.Status != model.OK {
						n++
					}
				}
				return fmt.Sprint(reported), n >= dead
			})
			e := <-end
			if e.err != nil || !e.rep.OK() {
				t.Errorf("the living: %v, %+v", e.err, e.rep)
			}
			harness.Until(t, 20*time.Second, "history has a problem of each of the dead, and no other", func() (string, bool) {
				opened, err := api.Problems.List(t.Context(), "load", "", "", false, 100, "")
				if err != nil || len(opened.Items) > dead {
					t.Fatalf("problems: %v, %+v", err, opened.Items)
				}
				return fmt.Sprintf("%d of %d", len(opened.Items), dead), len(opened.Items) == dead
			})
			for node, e := range keepaliveEvents(t, api) {
				var number int
				if _, err := fmt.Sscanf(node, "load-%d", &number); err != nil {
					continue
				}
				if number < living && (e.Status != model.OK || e.StateChanges > 0) {
					t.Errorf("the living %s was reported: %+v", node, e)
				}
				if number >= living && (e.Status == model.OK || e.StateChanges > 1) {
					t.Errorf("the dead %s: want one change, got %+v", node, e)
				}
			}
			var first time.Time // report of a dead
			for i := range living + dead {
				want := 0
				if i >= living {
					want = 1
				}
				entries := eventChanges(t, api, "load", simulated.NodeName(i), model.KeepaliveCheckName)
				if len(entries) != want {
					t.Errorf("history of %s's keepalive: %+v, want %d entries", simulated.NodeName(i), entries, want)
				}
				for _, e := range entries {
					if first.IsZero() || e.At.Before(first) {
						first = e.At
					}
				}
				for _, e := range eventChanges(t, api, "load", simulated.NodeName(i), "load-000") {
					if e.Expired { // of the living nothing is missing; of the dead their silence says it
						t.Errorf("a check of %s is reported: %+v", simulated.NodeName(i), e)
					}
				}
			}
			var said []v1.Entry
			for _, e := range eventChanges(t, api, model.DefaultNamespaceName, model.ServerNodeName, model.BuiltinCheckName(model.SessionsCheck)) {
				if e.Status == model.Critical {
					said = append(said, e)
				}
			}
			if c.sessions && (len(said) != 1 || !said[0].At.Before(first)) {
				t.Errorf("the server says %+v of itself, first of all; the first of the dead is reported at %s", said, first)
			}
		})
	}
}

// keepaliveEvents are the keepalive events of the simulated fleet by node.
func keepaliveEvents(t *testing.T, api *client.Client) map[string]v1.Event {
	t.Helper()
	list, err := api.Events.List(t.Context(), v1.EventFilter{Namespace: "load", Check: model.KeepaliveCheckName, Limit: 1000})
	if err != nil {
		t.Fatalf("list events: %v", err)
	}
	out := map[string]v1.Event{}
	for _, e := range list.Items {
		out[e.Node] = e
	}
	return out
}

// eventChanges are what happened to an event. One that there never was has none.
func eventChanges(t *testing.T, api *client.Client, namespace, node, check string) []v1.Entry {
	t.Helper()
	list, err := api.Events.History(t.Context(), namespace, node, check, 100)
	if model.ClassOf(err) == model.NotFound || err != nil && strings.Contains(err.Error(), "no event") {
		return nil
	}
	if err != nil {
		t.Fatalf("history of %s/%s: %v", node, check, err)
	}
	return list.Items
}
