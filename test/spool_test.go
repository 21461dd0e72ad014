//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// The agent's disk is another one than it was: deleted while it runs or while it is
// stopped, brought back from a copy. Results flow again, each run is applied once, no
// session is begun in vain, and the node's own event says what happened.
func TestAgentWithAnotherSpool(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.Counter, quiet func())
		told string
	}{
		{"deleted while it is stopped", func(t *testing.T, _ *harness.Server, a *harness.Agent, runs *harness.Counter, quiet func()) {
			quiet()
			a.Kill()
			if err := os.RemoveAll(filepath.Join(a.State, "spool")); err != nil {
				t.Fatal(err)
			}
			runs.Go()
			a.Start()
		}, "the agent's spool was deleted"},
		{"deleted while it runs", func(t *testing.T, _ *harness.Server, a *harness.Agent, runs *harness.Counter, quiet func()) {
			folder := filepath.Join(a.State, "spool")
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			harness.Until(t, 20*time.Second, "the spool is made anew", func() (string, bool) {
				list, err := os.ReadDir(folder)
				return fmt.Sprint(list, err), len(list) > 0
			})
			runs.Ran(2)
			quiet()
			a.Kill()
			runs.Go()
			a.Start()
		}, "deleted while it ran"},
		{"brought back with results that were delivered since", func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.Counter, quiet func()) {
			s.Pause()
			runs.Ran(2)
			runs.Hold()
			wait(t.Context(), 2*time.Second) // what the spool lingers before it writes, and more
			a.Kill()
			copied := a.Keep() // with two results or more that the server does not have
			runs.Go()
			s.Resume()
			a.Start()
			runs.Ran(3)
			quiet()
			a.Kill()
			a.Restore(copied)
			runs.Go()
			a.Start()
		}, "older than what the server has"},
		{"brought back, and more was made without the server than it knows", func(t *testing.T, s *harness.Server, a *harness.Agent, runs *harness.Counter, quiet func()) {
			a.Stop()
			copied := a.Keep()
			a.Start()
			runs.Ran(2)
			quiet()
			a.Kill()
			a.Restore(copied)
			s.Kill()
			runs.Go()
			a.Start()
			runs.Ran(5)
			s.Start()
		}, "older than what the server has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
			api := s.Client()
			a, runs := s.NewAgent("disk"), s.Counter("count", "disk")
			a.Start()
			runs.Ran(2)
			c.do(t, s, a, runs, func() { quiet(t, api, "disk", "count", runs) })
			runs.Ran(2)
			settled(t, api, "disk", "count", runs)

			harness.Until(t, 20*time.Second, "the node's event tells "+c.told, func() (string, bool) {
				text := s.CLI("describe", "event", "disk/"+model.KeepaliveCheckName)
				return text, strings.Contains(text, c.told)
			})
			if e := event(t, api, "disk", "count"); e.Lost != 0 {
				t.Errorf("%d results were lost", e.Lost)
			}
			for _, code := range []string{"hole", "streams", "malformed"} {
				if n := s.Metric("muster_session_frames_total", fmt.Sprintf("outcome=%q", code)); n != 0 {
					t.Errorf("%g frames were a %s", n, code)
				}
			}
			welcomes := s.Metric("muster_session_handshakes_total")
			runs.Ran(3)
			if now := s.Metric("muster_session_handshakes_total"); now != welcomes {
				t.Errorf("sessions begin again and again: %g in a few seconds", now-welcomes)
			}
		})
	}
}

// Results that the server refuses stand in the middle of the spool: they are refused
// once, counted and reported, and what stands behind them goes through.
func TestPoisonInTheSpool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limit  []string
		output int
		lost   bool // the agent itself gives them up
		said   string
	}{
		{"longer than the server's limit", []string{"--max-output", "4KiB"}, 20 << 10, false, "server refused a signal"},
		{"longer than the server's frame", []string{"--max-output", "4KiB", "--max-frame", "64KiB"}, 100 << 10, true, "longer than a frame"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
			api := s.Client()
			a := s.NewAgent("poison")
			small, big := s.Counter("small", "poison"), s.Counter("big", "poison", "  maxOutput: 1MiB")
			a.Start()
			small.Ran(1)
			big.Ran(1)
			settled(t, api, "poison", "big", big)

			s.Kill()
			big.Print(strings.Repeat("x", c.output) + "\n")
			big.Ran(2)
			before := big.Runs()
			s.Args = append(s.Args, c.limit...)
			s.Start()
			settled(t, api, "poison", "small", small)

			// What the server takes is asked when a session begins: from then on the agent cuts.
			harness.Until(t, 30*time.Second, "a later result is cut, and kept", func() (string, bool) {
				e := event(t, api, "poison", "big")
				return fmt.Sprintf("%d results, %.30s", e.Results, e.Output), strings.Contains(e.Output, "[cut ")
			})
			big.Hold()
			var refused, lost float64
			harness.Until(t, 30*time.Second, "every run is kept, refused or lost", func() (string, bool) {
				e := event(t, api, "poison", "big")
				refused, lost = s.Metric("muster_session_signals_total", `outcome="output"`), float64(e.Lost)
				return fmt.Sprintf("%d runs, %d of them before; %d kept, %g refused, %g lost", big.Runs(), before, e.Results, refused, lost),
					float64(e.Results)+refused+lost == float64(big.Runs())
			})
			if c.lost && lost < 2 || !c.lost && refused < 2 || !strings.Contains(a.Log(), c.said) {
				t.Errorf("%g refused, %g lost; the agent says nothing of %q", refused, lost, c.said)
			}
			if !c.lost && !strings.Contains(s.Log(), "refused for good") {
				t.Error("the server's log does not tell of a refusal")
			}
			if e := event(t, api, "poison", "small"); e.Lost != 0 {
				t.Errorf("%d small results were lost", e.Lost)
			}
		})
	}
}

// A byte of the spool changes on the disk while the agent is away: what was in it is
// reported as lost, what stands behind it goes through.
func TestDamagedSpool(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	api := s.Client()
	a, runs := s.NewAgent("bits"), s.Counter("count", "bits")
	a.Start()
	runs.Ran(1)
	settled(t, api, "bits", "count", runs)
	s.Kill()
	runs.Ran(6) // each a commit of its own, or nearly
	runs.Hold()
	wait(t.Context(), 2*time.Second)
	a.Kill()
	spoil(t, filepath.Join(a.State, "spool"))
	runs.Go()
	a.Start()
	s.Start()
	runs.Ran(2)
	runs.Hold()
	harness.Until(t, 30*time.Second, "what is behind the damage came through", func() (string, bool) {
		e := event(t, api, "bits", "count")
		return fmt.Sprintf("%d runs, %+v", runs.Runs(), e), e.Output == fmt.Sprint("run ", runs.Runs())
	})
	lost := lostOf(t, api, "bits", "count") + lostOf(t, api, "bits", model.KeepaliveCheckName)
	e := event(t, api, "bits", "count")
	if lost == 0 || lost > 3 || e.Results+lost != runs.Runs() {
		t.Errorf("%d runs, %d results, %d reported as lost", runs.Runs(), e.Results, lost)
	}
	if text := s.CLI("describe", "event", "bits/"+model.KeepaliveCheckName); !strings.Contains(text, "lost on the agent's disk") {
		t.Errorf("the node's event does not tell what happened:\n%s", text)
	}
}

// lostOf are the results that history says were given up.
func lostOf(t *testing.T, api *client.Client, node, check string) (n uint64) {
	t.Helper()
	return event(t, api, node, check).Lost
}

// spoil changes a byte in the middle of what the newest segment holds.
func spoil(t *testing.T, folder string) {
	t.Helper()
	segments, _ := filepath.Glob(filepath.Join(folder, "*.log"))
	if len(segments) == 0 {
		t.Fatal("the spool has no segment")
	}
	slices.Sort(segments)
	last := segments[len(segments)-1]
	data, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x10
	if err := os.WriteFile(last, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
