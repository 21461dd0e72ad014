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
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// The server does not listen for twice the time-out of keepalives; meanwhile some
// nodes die. None of the living is reported; each of the dead is, once.
func TestDeadAndLivingAfterTheServerDidNotListen(t *testing.T) {
	const living, dead, timeout = 10, 3, 4 * time.Second
	for _, c := range []struct {
		name      string
		away      func(s *harness.Server)
		back      func(s *harness.Server)
		leftShort bool
	}{
		{"stopped", (*harness.Server).Pause, (*harness.Server).Resume, false},
		{"killed", func(s *harness.Server) { s.Kill() }, (*harness.Server).Start, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.leftShort {
				t.Skip("the other way of not listening stands for this one")
			}
			t.Parallel()
			s := harness.NewServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", timeout.String(), "--reconnect-grace", "5s")
			fleet := harness.Fleet{Agents: living + dead, Checks: 2, Interval: time.Second}
			s.Prepare(fleet)
			s.Start()
			api := s.Client()

			// The last of the fleet die with the process that plays them, without a goodbye.
			doomed := harness.Launch(t, s.Env(), "load", "run", "--server", s.Plain, "--first", fmt.Sprint(living), "--agents", fmt.Sprint(dead),
				"--checks", "2", "--interval", "1s", "--duration", "10m", "--max-lag", "1h")
			cfg := s.Load(harness.Fleet{Agents: living, Checks: 2, Interval: time.Second}, 20*time.Second)
			end := make(chan ended, 1)
			go func() {
				rep, err := load.Run(t.Context(), cfg)
				end <- ended{rep, err}
			}()
			harness.Until(t, 30*time.Second, "all nodes have results", func() (string, bool) {
				n := len(s.FleetStates())
				return fmt.Sprint(n), n == 2*(living+dead)
			})

			c.away(s)
			doomed.Signal(syscall.SIGKILL)
			wait(t.Context(), 2*timeout)
			c.back(s)

			harness.Until(t, timeout+20*time.Second, "the dead are reported", func() (string, bool) {
				reported := keepalives(t, api)
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
			for node, e := range keepalives(t, api) {
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
			for i := range living + dead {
				want := 0
				if i >= living {
					want = 1
				}
				if entries := changes(t, api, load.NodeName(i), model.KeepaliveCheckName); len(entries) != want {
					t.Errorf("history of %s's keepalive: %+v, want %d entries", load.NodeName(i), entries, want)
				}
			}
		})
	}
}

// keepalives are the keepalive events of the simulated fleet by node.
func keepalives(t *testing.T, api *client.Client) map[string]v1.Event {
	t.Helper()
	list, err := api.Events(t.Context(), v1.EventFilter{Namespace: "load", Check: model.KeepaliveCheckName, Limit: 1000})
	if err != nil {
		t.Fatalf("list events: %v", err)
	}
	out := map[string]v1.Event{}
	for _, e := range list.Items {
		out[e.Node] = e
	}
	return out
}

// changes are what happened to an event. One that there never was has none.
func changes(t *testing.T, api *client.Client, node, check string) []v1.Entry {
	t.Helper()
	list, err := api.History(t.Context(), "load", node, check, 100)
	if model.ClassOf(err) == model.NotFound || err != nil && strings.Contains(err.Error(), "no event") {
		return nil
	}
	if err != nil {
		t.Fatalf("history of %s/%s: %v", node, check, err)
	}
	return list.Items
}
