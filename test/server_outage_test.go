//go:build linux

package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestSmokeKillUnderLoad kills the server at random times under load, and expects each acknowledged result
// applied once. It compares event states, API and history.
func TestSmokeKillUnderLoad(t *testing.T) {
	t.Parallel()
	kills := selectIfShort(5, 20)
	enough := time.Now().Add(4 * time.Minute) // a slow machine makes fewer kills
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	fleet := harness.Fleet{Agents: 20, Checks: 10, Interval: 200 * time.Millisecond, Changes: 0.1}
	s := harness.StartFleet(t, fleet, "--snapshot-cycle", "2s")
	network := harness.NewProxy(t, s.Listen)

	for kills > 0 {
		// The run lasts as long as the remaining kills need.
		span := min(30*time.Second, 4*time.Second+time.Duration(kills)*2*time.Second)
		cfg := s.LoadConfigTLS(fleet, span)
		cfg.Server = network.Address
		end := startLoadWith(t, cfg)
		began := time.Now()
		for kills > 0 && time.Since(began) < span-3*time.Second {
			if random.IntN(4) == 0 {
				sleep(t.Context(), time.Duration(random.Int64N(int64(400*time.Millisecond)))) // the server may not be ready yet
			} else {
				s.WaitReady(40 * time.Second)
				sleep(t.Context(), time.Duration(random.Int64N(int64(1500*time.Millisecond))))
				if random.IntN(2) == 0 {
					network.DropAnswers()
					sleep(t.Context(), time.Duration(random.Int64N(int64(400*time.Millisecond))))
				}
			}
			s.Kill()
			s.Launch()
			kills--
			if time.Now().After(enough) && kills > 0 && kills <= 15 {
				testenv.Shortened(t, fmt.Sprintf("%d of 20 kills, for this machine is slow", 20-kills), "go test ./test -run SmokeKilled, while nothing else runs")
				kills = 0
			}
		}
		s.WaitReady(40 * time.Second)
		e := <-end
		require(t, e.err == nil, "load run: %v", e.err)
		for _, verdict := range e.rep.Verdict {
			t.Error(verdict)
		}
		assert(t, e.rep.OK() && e.rep.Balance.Compared == fleet.Agents*fleet.Checks,
			"%d kills to come; %d outages, %d resent, balance %+v", kills, len(e.rep.Outages), e.rep.Resent, e.rep.Balance)
		assert(t, e.rep.Resent != 0, "nothing was ever resent: the kills hit nothing")
	}
	before := s.FleetStates()
	s.Kill()
	s.Start()
	after := s.FleetStates()
	compareStates(t, before, after)
	compareAPIWithStates(t, s.API, after, false)
	compareChangesWithHistory(t, s.API, 100)
}

// loadResult is the outcome of a load run, either a report or an error.
type loadResult struct {
	rep *report.Report
	err error
}

// startLoad starts a load run, and waits until the run begins to measure. The channel delivers its outcome.
func startLoad(t *testing.T, s *harness.Server, fleet harness.Fleet, span time.Duration) <-chan loadResult {
	t.Helper()
	return startLoadWith(t, s.LoadConfig(fleet, span))
}

// startLoadWith starts a load run with a given configuration, and waits until the run begins to measure. The channel
// delivers its outcome.
func startLoadWith(t *testing.T, cfg load.Config) <-chan loadResult {
	t.Helper()
	measures := measurementStart(&cfg)
	end, _ := runLoadInBackground(t, cfg)
	select {
	case <-measures:
	case e := <-end:
		t.Fatalf("load run ended early: %v", e.err)
	}
	return end
}

// runLoadInBackground runs the load tester in the background of a test. A call of stop ends the run early.
func runLoadInBackground(t *testing.T, cfg load.Config) (end chan loadResult, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	end, done := make(chan loadResult, 1), make(chan struct{})
	go func() {
		defer close(done)
		rep, err := load.Run(ctx, cfg)
		end <- loadResult{rep, err}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return end, stop
}

// measurementStart returns a channel that is closed when the load run begins to measure. The load run measures results
// from then on. On a busy machine the first reported second may come before.
func measurementStart(cfg *load.Config) <-chan struct{} {
	measures := make(chan struct{})
	begins := sync.OnceFunc(func() { close(measures) })
	cfg.Progress = func(now report.Sample) {
		if now.Second >= 0 {
			begins()
		}
	}
	return measures
}

// sleep waits for a duration, or until the context ends. Tests never use it to wait for a condition.
// house: sleeps because a kill has to come at any instant.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// No result is lost while the server is down for a long time. Agents spool and deliver all results, one agent after a
// kill of its own. Late results are history and do not change the present state; no node is reported as down.
func TestOutageLosesNoResult(t *testing.T) {
	skipIfShort(t, "half a minute")
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "4s", "--reconnect-grace", "60s")
	stays, restarts := s.NewAgent("stays"), s.NewAgent("restarts")
	count, flips := s.NewCountingCheck("count", "stays"), s.NewCountingCheck("flips", "restarts")
	stays.Start()
	restarts.Start()
	count.AwaitRuns(1)
	flips.AwaitRuns(1)
	awaitAllResults(t, s.API, "stays", "count", count)
	awaitAllResults(t, s.API, "restarts", "flips", flips)

	s.Kill()
	sleep(t.Context(), harness.OutageDuration(t, 10*time.Second, time.Minute)) // 10 s after a session results are still live
	flips.SetExitCode(int(model.Critical))
	flips.AwaitRuns(3) // late results
	flips.SetExitCode(int(model.OK))
	flips.AwaitRuns(1)
	flips.Block()
	sleep(t.Context(), 2*time.Second) // longer than the spool's linger before a write
	restarts.Kill()
	flips.Unblock()
	restarts.Start()
	flips.AwaitRuns(2) // live results, which the agent sends before late ones
	s.Start()
	awaitAllResults(t, s.API, "stays", "count", count)
	awaitAllResults(t, s.API, "restarts", "flips", flips)

	s.AwaitOutput("describe event restarts/flips", "late result of", "CRITICAL")
	late := s.Metric("muster_event_signals_total", `outcome="late"`)
	assert(t, late >= 3, "%g results were late", late)
	for _, e := range [][2]string{{"stays", "count"}, {"restarts", "flips"}, {"stays", model.KeepaliveCheckName}, {"restarts", model.KeepaliveCheckName}} {
		if got := statusChanges(t, s.API, e[0], e[1]); len(got) != 0 {
			t.Errorf("%s/%s changed its status: %+v", e[0], e[1], got)
		}
		if now := getEvent(t, s.API, e[0], e[1]); now.Status != model.OK || now.Lost != 0 {
			t.Errorf("%s/%s is %+v", e[0], e[1], now)
		}
	}
	got := append(problemsOf(t, s.API, "stays"), problemsOf(t, s.API, "restarts")...)
	assert(t, len(got) == 0, "problems: %s", fmt.Sprint(got))
}

// TestServerPauseReportsOnlyDeadNodes pauses the server, and expects reports about only the nodes that died
// meanwhile. Each dead node is reported once, no living node is, and the server reports the mass loss of
// sessions first.
func TestServerPauseReportsOnlyDeadNodes(t *testing.T) {
	t.Parallel()
	const living, dead, timeout = 20, 10, 4 * time.Second
	for _, c := range []struct {
		name      string
		long      time.Duration // duration with MUSTER_TEST_LONG=1
		away      func(s *harness.Server) (back func())
		sessions  bool // the server had sessions of the dead nodes
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
			lasts := harness.OutageDuration(t, 2*timeout, c.long)
			play := func(agents, groups string) (path string) {
				return tempFile(t, "fleet.yaml", fmt.Sprintf("scenario: muster.load/v1\nagents: [%s]\nchecks: [{name: load, count: 2, interval: 1s, groups: [%s]}]\nphases: [{steady: 1h}]\n", agents, groups))
			}
			mortal := fmt.Sprintf("{name: doomed, count: %d}", dead)
			s.CLI("load", "prepare", play(fmt.Sprintf("{name: load, count: %d}, %s", living, mortal), "load, doomed"), "--data", s.Data)
			s.Start()
			api := s.Client()
			s.Apply(fmt.Sprintf("{apiVersion: muster/v1, kind: Check, metadata: {name: load-000, namespace: load}, spec: {targets: {groups: [load, doomed]}, command: 'true', interval: 1s, ttl: %s}}", timeout))

			// The last nodes die with their process, without a Goodbye.
			doomed := harness.Launch(t, s.Env(), "load", "run", play(mortal, "doomed"), "--uncompared", "--server", s.Listen, "--server-plain", s.Plain, "--data", s.Data,
				"--max-lag", "1h", "--out", t.TempDir()+"/out")
			end, _ := runLoadInBackground(t, s.LoadConfig(harness.Fleet{Agents: living, Checks: 2, Interval: time.Second, Changes: -1}, lasts+12*time.Second))
			awaitEqual(t, "all nodes have results", 2*(living+dead), func() int { return len(s.FleetStates()) })

			back := c.away(s)
			doomed.Signal(syscall.SIGKILL)
			sleep(t.Context(), lasts)
			back()

			harness.Until(t, timeout+20*time.Second, "every dead node is reported", func() (string, bool) {
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
			assert(t, e.err == nil && e.rep.OK(), "the living: %v, %+v", e.err, e.rep)
			harness.Until(t, 20*time.Second, "history has a problem of each of the dead, and no other", func() (string, bool) {
				opened, err := api.Problems.List(t.Context(), "load", "", "", false, 100, "")
				require(t, err == nil && len(opened.Items) <= dead, "problems: %v, %+v", err, opened.Items)
				return fmt.Sprintf("%d of %d", len(opened.Items), dead), len(opened.Items) == dead
			})
			for node, e := range keepaliveEvents(t, api) {
				assert(t, !strings.HasPrefix(node, "load-") || e.Status == model.OK && e.StateChanges == 0,
					"the living %s was reported: %+v", node, e)
				assert(t, !strings.HasPrefix(node, "doomed-") || e.Status != model.OK && e.StateChanges <= 1,
					"the dead %s: want one change, got %+v", node, e)
			}
			var first time.Time // time of the first report of a dead node
			for i := range living + dead {
				want, node := 0, harness.NodeName(i)
				if i >= living {
					want, node = 1, simulated.MemberName("doomed", i-living)
				}
				entries := eventChanges(t, api, "load", node, model.KeepaliveCheckName)
				assert(t, len(entries) == want,
					"history of %s's keepalive: %+v, want %d entries", node, entries, want)
				for _, e := range entries {
					if first.IsZero() || e.At.Before(first) {
						first = e.At
					}
				}
				for _, e := range eventChanges(t, api, "load", node, "load-000") {
					if e.Expired { // only keepalives of dead nodes may have expired
						t.Errorf("a check of %s is reported: %+v", node, e)
					}
				}
			}
			var said []v1.Entry
			for _, e := range eventChanges(t, api, model.DefaultNamespaceName, model.ServerNodeName, model.BuiltinCheckName(model.SessionsCheck)) {
				if e.Status == model.Critical {
					said = append(said, e)
				}
			}
			assert(t, !c.sessions || len(said) == 1 && said[0].At.Before(first),
				"the server says %+v of itself, first of all; the first of the dead is reported at %s", said, first)
		})
	}
}

// keepaliveEvents returns the keepalive events of the simulated fleet by node.
func keepaliveEvents(t *testing.T, api *client.Client) map[string]v1.Event {
	t.Helper()
	list, err := api.Events.List(t.Context(), v1.EventFilter{Namespace: "load", Check: model.KeepaliveCheckName, Limit: 1000})
	require(t, err == nil, "list events: %v", err)
	out := map[string]v1.Event{}
	for _, e := range list.Items {
		out[e.Node] = e
	}
	return out
}

// eventChanges returns the recorded changes of an event. An event that never existed has no changes.
func eventChanges(t *testing.T, api *client.Client, namespace, node, check string) []v1.Entry {
	t.Helper()
	list, err := api.Events.History(t.Context(), namespace, node, check, 100)
	if model.ClassOf(err) == model.NotFound || err != nil && strings.Contains(err.Error(), "no event") {
		return nil
	}
	require(t, err == nil, "history of %s/%s: %v", node, check, err)
	return list.Items
}
