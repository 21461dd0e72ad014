//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
	"github.com/muster-fleet/muster/test/harness"
)

// getEvent returns a check's event on a node, in the default namespace. While the event does not exist, it
// returns an empty event.
func getEvent(t testing.TB, api *client.Client, node, check string) v1.Event {
	t.Helper()
	e, err := api.Events.Get(t.Context(), model.DefaultNamespaceName, node, check)
	require(t, err == nil || model.ClassOf(err) == model.NotFound, "event %s/%s: %v", node, check, err)
	return e
}

// awaitAllResults pauses a test check, waits until the server has applied all its results, and continues the
// check. The check counts its runs.
func awaitAllResults(t *testing.T, api *client.Client, node, check string, c *harness.CountingCheck) {
	t.Helper()
	awaitLastResult(t, api, node, check, c)
	c.Unblock()
}

// awaitLastResult pauses a test check, and waits until the server has applied the check's last result. The
// check counts its runs. The check stays blocked.
func awaitLastResult(t *testing.T, api *client.Client, node, check string, c *harness.CountingCheck) {
	t.Helper()
	c.Block()
	harness.Until(t, time.Minute, fmt.Sprintf("every run of %s/%s is applied", node, check), func() (string, bool) {
		e := getEvent(t, api, node, check)
		runs := c.Runs()
		require(t, e.Results <= runs, "%s/%s: %d runs, %d results applied", node, check, runs, e.Results)
		return fmt.Sprintf("%d runs, %d results, %q", runs, e.Results, e.Output), e.Results == runs && e.Output == fmt.Sprint("run ", runs)
	})
}

// TestAgentKillLosesNoResult kills agents with unacknowledged results, and expects no result to be lost or applied
// twice. The agent that returns within its keepalive timeout raises no problem, the other agent raises one. No result
// is lost or applied twice.
func TestAgentKillLosesNoResult(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", timeout.String())
	var agents [2]*harness.Agent
	var counters [2]*harness.CountingCheck
	for i, name := range []string{"soon", "late"} {
		agents[i], counters[i] = s.NewAgent(name), s.NewCountingCheck("count-"+name, name)
		agents[i].Start()
	}
	for _, c := range counters {
		c.AwaitRuns(2)
	}
	soon, late := agents[0], agents[1]

	s.Pause()
	for _, c := range counters {
		c.AwaitRuns(3)
		c.Block()
	}
	sleep(t.Context(), 2*time.Second) // longer than the spool's linger before a write
	soon.Kill()
	late.Kill()
	s.Resume()
	for _, c := range counters {
		c.Unblock()
	}
	soon.Start()
	awaitAllResults(t, s.API, "soon", "count-soon", counters[0])

	awaitEvent(t, s.API, "late", model.KeepaliveCheckName, "the agent that stays away is reported", func(e v1.Event) bool { return e.Status == model.Critical && e.Problem != nil })
	late.Start()
	awaitAllResults(t, s.API, "late", "count-late", counters[1])
	awaitEvent(t, s.API, "late", model.KeepaliveCheckName, "its problem is closed", func(e v1.Event) bool { return e.Status == model.OK && e.Problem == nil })

	awaitEqual(t, "status changes in history", 2, func() int { return len(statusChanges(t, s.API, "late", model.KeepaliveCheckName)) })
	if got := problemsOf(t, s.API, "late"); len(got) != 1 || got[0].Check != model.KeepaliveCheckName {
		t.Errorf("the one that stayed away: problems %+v, want one of its keepalive", got)
	}
	got := statusChanges(t, s.API, "soon", model.KeepaliveCheckName)
	assert(t, len(got) == 0, "the agent that returned in time was reported: %+v", got)
	problems := problemsOf(t, s.API, "soon")
	assert(t, len(problems) == 0, "the agent that returned in time has problems: %+v", problems)
}

// statusChanges returns the status changes in an event's history.
func statusChanges(t *testing.T, api *client.Client, node, check string) (out []v1.Entry) {
	t.Helper()
	list, err := api.Events.History(t.Context(), model.DefaultNamespaceName, node, check, 100)
	require(t, err == nil, "history of %s/%s: %v", node, check, err)
	for _, e := range list.Items {
		if e.Kind == "status" {
			out = append(out, e)
		}
	}
	return out
}

// problemsOf returns all problems of a node, open and closed.
func problemsOf(t *testing.T, api *client.Client, node string) []v1.Problem {
	t.Helper()
	list, err := api.Problems.List(t.Context(), model.DefaultNamespaceName, node, "", false, 100, "")
	require(t, err == nil, "problems of %s: %v", node, err)
	return list.Items
}

// TestAgentReportsItsStatistics expects an agent's statistics in muster get agents, and sums over agents in
// /metrics.
func TestAgentReportsItsStatistics(t *testing.T) {
	t.Parallel()
	s, _ := newUpServer(t)
	s.Start()
	var a v1.Agent
	harness.Until(t, 40*time.Second, "get agents shows the agent's statistics", func() (string, bool) {
		var list v1.AgentList
		text := s.CLI("get", "agents", "-o", "json")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return text, false
		}
		if len(list.Items) != 1 || list.Items[0].Session == nil || list.Items[0].Session.Stats == nil {
			return text, false
		}
		a = list.Items[0]
		return text, true
	})
	st := a.Session.Stats
	assert(t, a.Version != "" && (strings.HasPrefix(a.Session.Address, "127.0.0.1:") || strings.HasPrefix(a.Session.Address, "[::1]:")),
		"version %q from %q (this build is %s)", a.Version, a.Session.Address, version.Get().Version)
	days := time.Until(a.Session.CertificateExpires).Hours() / 24
	assert(t, days >= 1, "its certificate expires in %.1f days", days)
	assert(t, st.ResidentBytes >= 1<<20 && st.BytesSent != 0 && a.Session.ClockOffsetMs <= 1000 && a.Session.ClockOffsetMs >= -1000,
		"%+v", a.Session)
	s.Try("get", "agents").Expect(0, "\n1 agent: 1 of "+a.Version+"\n")
	s.Try("describe", "node", a.Name).Expect(0, "\nload  ")
	reporting := s.Metric("muster_agents_reporting")
	assert(t, reporting == 1, "%v agents have statistics on /metrics", reporting)
	s.Stop()
}

// sessionServers returns the servers to which an agent has connected, in order. It reads the agent's log.
func sessionServers(a *harness.Agent) (list []string) {
	for line := range strings.Lines(a.Log()) {
		if _, rest, ok := strings.Cut(line, "msg=connected server="); ok {
			list = append(list, strings.Fields(rest)[0])
		}
	}
	return list
}

// awaitSession waits for an agent's n-th session, and expects a session with the given server.
func awaitSession(t *testing.T, a *harness.Agent, n int, where string) {
	t.Helper()
	harness.Until(t, 90*time.Second, "the agent is connected again", func() (string, bool) {
		list := sessionServers(a)
		return strings.Join(list, " "), len(list) >= n
	})
	list := sessionServers(a)
	require(t, list[n-1] == where, "the agent is connected at %v, want the last at %s", list, where)
}

// TestAgentTakesNextServer stops an agent's server, and expects the agent to connect to its next server. A list from
// the server takes precedence and survives a restart of the agent; a wrong list does not lock the agent out.
func TestAgentTakesNextServer(t *testing.T) {
	skipIfShort(t, "an agent looks for its server eight times")
	t.Parallel()
	s := harness.StartServer(t)
	first, second := harness.NewProxy(t, s.Listen), harness.NewProxy(t, s.Listen)
	a := s.StartAgent("lists", "--server", first.Address+","+second.Address)
	awaitSession(t, a, 1, first.Address)
	first.Stop()
	awaitSession(t, a, 2, second.Address)
	first = harness.NewProxyAt(t, first.Address, s.Listen)
	second.Stop()
	awaitSession(t, a, 3, first.Address)
	second = harness.NewProxyAt(t, second.Address, s.Listen)

	told := harness.NewProxy(t, s.Listen)
	s.Stop()
	s.Args = []string{"--agent-servers", told.Address}
	s.Start()
	awaitSession(t, a, 4, first.Address)
	a.AwaitLog("servers=[" + told.Address + "]")
	a.Stop()
	kept, err := os.ReadFile(filepath.Join(a.State, "session.json"))
	assert(t, err == nil && strings.Contains(string(kept), told.Address), "the list is not kept (%v): %s", err, kept)
	a.Start()
	awaitSession(t, a, 1, told.Address)

	s.Stop()
	nobody := harness.ReservePort(t)
	s.Args = []string{"--agent-servers", nobody} // no server listens there
	s.Start()
	awaitSession(t, a, 2, told.Address)
	a.Stop()
	a.Start()
	awaitSession(t, a, 1, first.Address)

	a.Stop()
	s.Stop()
	s.Args = nil
	s.Start()
	a.Args = []string{"--server", second.Address} // a flag that is newer than the kept list takes precedence
	a.Start()
	awaitSession(t, a, 1, second.Address)
	a.Stop()
	s.Stop()
}

// applyText applies the resources in a YAML text.
func applyText(t *testing.T, s *harness.Server, text string) {
	t.Helper()
	file := tempFile(t, "declared.yaml", text)
	s.CLI("apply", "--yes", "-f", file)
}

// TestEventLimitRefusesResults gives a node more checks than its event limit allows, and expects refused
// results. The results of the surplus checks are refused and reported. A new limit of the namespace is in force
// at once.
func TestEventLimitRefusesResults(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--node-states", "6")
	var checks strings.Builder
	for i := range 12 {
		fmt.Fprintf(&checks, "---\nkind: Check\nmetadata: {name: check-%d}\nspec: {command: 'echo %d', interval: 1s, targets: {groups: [all]}}\n", i, i)
	}
	applyText(t, s, checks.String())
	s.StartAgent("web")
	refused := func() float64 { return s.Metric("muster_session_signals_total", `outcome="states"`) }
	awaitEqual(t, "fourteen results are refused", true, func() bool { return refused() >= 14 })
	s.AwaitOutput("get events -o wide", "limits", "spec.limits.statesPerNode")
	ofWeb := func() int { return strings.Count(s.CLI("get", "events", "-o", "wide"), "web ") }
	if n := ofWeb(); n != 7 { // events of the server itself are never refused
		t.Errorf("%d events, want 6 and that of limits", n)
	}
	s.Try("status").Expect(harness.AnyCode, "namespace default reached a limit ", "spec.limits.statesPerNode")
	s.Try("describe", "namespace", "default").Expect(0, "statesPerNode 6, at most 6 on one node; limit reached ")
	s.Try("describe", "node", "web").Expect(0, "statesPerNode 6 (6 used)")
	applyText(t, s, "kind: Namespace\nmetadata: {name: default}\nspec: {limits: {statesPerNode: 9}}\n")
	awaitEqual(t, "events at the limit of nine, with the event limits", 10, ofWeb)
	// A restart with a lower limit forgets nothing.
	s.Stop()
	s.Args = []string{"--node-states", "2"}
	s.Start()
	n := ofWeb()
	assert(t, n == 10, "%d events after a restart, want 10", n)
}

// TestChangeReachesAffectedAgents changes a check that ten of 2,000 agents run, and expects updates for only
// ten agents. The agents confirm the change within a second, and the server sends ten assignments.
func TestChangeReachesAffectedAgents(t *testing.T) {
	t.Parallel()
	agents := selectIfShort(200, 2000)
	fleet := harness.Fleet{Agents: agents, Checks: 1, Interval: time.Minute}
	s := harness.StartFleet(t, fleet)
	var ten []string
	for i := range 10 {
		ten = append(ten, harness.NodeName(i*agents/10))
	}
	check := func(interval string) {
		t.Helper()
		s.Apply(fmt.Sprintf(`{kind: Check, metadata: {name: of-ten, namespace: load}, spec: {targets: {nodes: [%s]}, interval: %s, command: "true"}}`,
			strings.Join(ten, ", "), interval))
	}
	check("1h")

	cfg := s.LoadConfig(fleet, time.Hour)
	cfg.Before = nil
	runLoadInBackground(t, cfg)
	sent := func() float64 { return s.Metric("muster_session_sent_total", `kind="assignment"`) }
	confirmed := func(want int) {
		t.Helper()
		s.AwaitMetric(float64(want), "muster_session_frames_total", `outcome="confirmed"`)
	}
	confirmed(agents)

	fastest := time.Hour
	for i := range 3 { // the fastest of three: a busy machine may delay one
		before := sent()
		began := time.Now()
		check(fmt.Sprint(2+i, "h"))
		confirmed(agents + 10*(i+1))
		fastest = min(fastest, time.Since(began))
		n := sent() - before
		assert(t, n == 10, "change %d: %g assignments were sent, want 10", i+1, n)
	}
	t.Logf("in force within %s", fastest)
	assert(t, fastest <= time.Second, "a change was in force after %s, want at most a second", fastest)
}
