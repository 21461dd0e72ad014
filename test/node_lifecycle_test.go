//go:build linux

package test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestRenamedNodeKeepsItsEvents renames a node while results arrive, and expects no lost result. Its event, history
// and declarations continue under the new name.
func TestRenamedNodeKeepsItsEvents(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	a, runs := s.NewAgent("old"), s.NewCountingCheck("count", "old")
	runs.SetExitCode(1) // exit code 1: a problem opens
	s.Apply("apiVersion: muster/v1\nkind: Property\nmetadata: {name: p}\nspec: {scope: 'node:old', value: 7}")
	a.Start()
	runs.AwaitRuns(2)
	awaitEvent(t, s.API, "old", "count", "its results are there", func(e v1.Event) bool { return e.Results >= 2 })
	said := s.CLI("node", "rename", "old", "new", "-m", "moved to the shop")
	expectTexts(t, said, "node/old renamed new", "check/count updated", "property/p updated", "your files")
	a.AwaitLog("name=new")
	runs.SetExitCode(2) // exit code 2: the problem gets worse
	runs.AwaitRuns(2)
	runs.Block()
	awaitEvent(t, s.API, "new", "count", "every run is applied, under the new name", func(e v1.Event) bool { return e.Results == runs.Runs() && e.Lost == 0 })
	s.Try("why", "new/count").Expect(0, "new")
	s.Try("audit", "node", "old").Expect(0, "renamed node/old to new", "moved to the shop")
	out := s.CLI("get", "problems", "--node", "new")
	assert(t, regexp.MustCompile(`OPEN CRITICAL +new +count`).MatchString(out), "get problems:\n%s", out)
	s.Try("describe", "event", "new/count").Expect(0, "WARNING, the first result")
	s.Try("why", "old").Expect(3, `node "old" no longer exists: admin renamed it to new at `)
	_, err := s.API.Events.Get(t.Context(), "default", "old", "count")
	assert(t, err != nil, "an event under the former name still exists")
	runs.Unblock()
}

// TestReplacedAndRetiredMachinesAreRefused expects the server to refuse former machines of a replaced or retired node.
// The error has the reason, also after a kill. Everybody who was notified of a problem is notified of its end.
func TestReplacedAndRetiredMachinesAreRefused(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	told := filepath.Join(t.TempDir(), "told")
	s.Apply(fmt.Sprintf("apiVersion: muster/v1\nkind: Handler\nmetadata: {name: tell}\nspec: {command: %q}", "cat >>"+told+"; echo >>"+told))
	first, runs := s.NewAgent("web01"), s.NewCountingCheck("count", "web01", "  alert: {handlers: [tell]}")
	runs.SetExitCode(2)
	first.Start()
	applied := func() (results uint64) {
		harness.Until(t, 30*time.Second, "results are applied", func() (string, bool) {
			e, err := s.API.Events.Get(t.Context(), "default", "web01", "count")
			results = e.Results
			return fmt.Sprintf("%+v, %v", e, err), err == nil && e.Results > 0 && e.Lost == 0
		})
		return results
	}
	runs.AwaitRuns(1)
	was := applied()
	hears := func(a *harness.Agent, parts ...string) {
		t.Helper()
		harness.Until(t, 30*time.Second, "the machine is refused with the reason", func() (string, bool) {
			log := a.Log()
			return log, !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(log, p) })
		})
	}

	line := s.CLI("node", "replace", "web01", "-m", "new disk")
	token := regexp.MustCompile(`mj1\.\S+`).FindString(line)
	second := s.NewAgent("some-other-name")
	second.Token = token
	second.Start()
	hears(first, "(replaced)", "web01", "by admin", "new disk", "muster node replace web01")
	first.Kill()
	runs.AwaitRuns(2)
	awaitEvent(t, s.API, "web01", "count", "the new machine's results go on with the node's event", func(e v1.Event) bool { return e.Results > was+1 && e.Lost == 0 })
	first.Start()
	first.AwaitLog("(replaced)", "new disk")
	first.Kill()
	problem := problemsOf(t, s.API, "web01")
	require(t, len(problem) == 1, "problems: %+v", problem)

	s.Try("node", "retire", "web01", "-m", "scrapped", "--yes").Expect(0, "node/web01 retired")
	for _, words := range [][]string{{"audit", "node", "web01"}, {"status", "-o", "wide"}} {
		s.Try(words...).Expect(0, "retired node/web01").ExpectNot("deleted node/web01")
	}
	hears(second, "(retired)", "node web01 was retired by admin", "scrapped", "muster node token")
	awaitFile(t, told, 2, problem[0].ID)
	s.Kill()
	s.Start()
	s.Try("get", "events").Expect(0).ExpectNot("web01")
	second.Kill()
	second.Start()
	second.AwaitLog("(retired)", "scrapped")
	list := s.CLI("node", "list", "--retired")
	expectTexts(t, list, "web01", "retired", "replaced", "scrapped", "new disk", "admin")
}

// TestEphemeralNodeExpiresAndRejoins expects the server to delete an ephemeral node after a long absence. Its
// machine can join again as a new node. A clean stop before the limit alerts nobody.
func TestEphemeralNodeExpiresAndRejoins(t *testing.T) {
	t.Parallel()
	if harness.OutageDuration(t, 0, 90*time.Second) == 0 {
		t.Skip("waits for more than a minute: forgetAfter is at least that")
	}
	s := harness.StartServer(t)
	var token struct{ Token string }
	told := filepath.Join(t.TempDir(), "told")
	s.Apply(fmt.Sprintf("{kind: Handler, metadata: {name: cmdb}, spec: {command: 'cat >> %s'}}", told))
	text := s.CLI("node", "token", "--ephemeral", "--forget-after", "1m", "--notify", "cmdb", "-o", "json")
	decodeJSON(t, text, &token)
	a := s.NewAgent("worker")
	a.Token = token.Token
	a.Start()
	there := func(want bool) {
		t.Helper()
		harness.Until(t, 120*time.Second, fmt.Sprintf("the node is there: %v", want), func() (string, bool) {
			list, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Limit: 10})
			ok := slices.ContainsFunc(list.Items, func(n v1.NodeState) bool { return n.Name == "worker" && n.Connected })
			gone := !slices.ContainsFunc(list.Items, func(n v1.NodeState) bool { return n.Name == "worker" })
			return fmt.Sprintf("%+v, %v", list, err), err == nil && (want && ok || !want && gone)
		})
	}
	there(true)
	a.AwaitLog("msg=connected")
	s.Apply("{kind: Node, metadata: {name: worker}, spec: {}}") // applying its file keeps the token's settings
	a.Stop()
	s.AwaitOutput("describe node worker", "stopped on purpose")
	got := problemsOf(t, s.API, "worker")
	assert(t, len(got) == 0, "a clean stop opened problems: %+v", got)
	there(false)
	// The token's handler is notified once.
	awaitFile(t, told, 1, `"kind":"deregistered"`)
	awaitFile(t, told, 1, "DEREGISTERED: node worker was forgotten: no session for 1m")
	s.Stop()
	s.Start()
	s.Try("get", "history", "worker/keepalive").Expect(0, "forgotten")
	s.Try("audit", "node", "worker").Expect(0, "disconnected for too long")
	a.Start()
	there(true)
	notified := readFile(t, told)
	assert(t, strings.Count(string(notified), "\n") == 1, "notified more than once: %s", notified)
	log := a.Log()
	assert(t, strings.Contains(log, "(forgotten)") && strings.Contains(log, "disconnected for too long"), "the agent's log:\n%s", log)
}

// TestDeclaredNodeKeepsItsMachine applies the resource file of a node again, and expects the same machine and
// labels. The labels come from its join token. No file takes the machine away or restores a retired one.
// Trusting a machine that chose its own name prints a warning.
func TestDeclaredNodeKeepsItsMachine(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	dir := t.TempDir()
	apply := func(text string) harness.Result {
		t.Helper()
		file := filepath.Join(dir, "nodes.yaml")
		writeFile(t, file, text)
		return harness.Run(t, s.Env(), "apply", "-f", file)
	}
	says := func(r harness.Result, code int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			r.Expect(code, want)
		}
	}
	const trusted = "kind: Group\nmetadata: {name: payment}\nspec: {trusted: true, where: 'node.labels.role == \"payment\"'}\n---\n"
	declared := func(name, labels string) string {
		return "kind: Node\nmetadata: {name: " + name + ", labels: {" + labels + "}}\nspec: {groups: [web]}\n---\n"
	}
	says(apply(trusted+declared("web01", "")+declared("pay01", "role: payment")), 0, "node/web01 created", "node/pay01 created")

	line := newJoinArguments(t, s, "--groups", "canary", "--labels", "os=x", "--uses", "2")
	m := newJoiningMachine(t)
	id := m.mustJoin(line[1], "--name", "web01")
	require(t, id.Name == "web01", "the machine is %s", id.Name)
	id = newJoiningMachine(t).mustJoin(line[1], "--name", "pay01")
	assert(t, id.Name == "pay01-2", "a name gave a trusted node: %s", id.Name)
	newJoiningMachine(t).expectRefusal(5, "was used 2 times", "join", line[1], "--name", "web03")

	says(apply(declared("web01", "")), 0, "node/web01 unchanged")
	page := s.CLI("describe", "node", "web01")
	expectTexts(t, page, "canary         the join token or an operator set it (spec.given.groups): join token ", "os             x                    join token ")
	says(apply(declared("web01", "role: payment")), 0, "node/web01 updated", "it joins the trusted group payment, and its machine joined with join token ")

	exported := s.CLI("get", "node", "web01", "-o", "yaml")
	says(apply(strings.ReplaceAll(exported, "web01", "copy2")), model.Conflict.Exit(), "the spec.uid of node/web01", "omit spec.uid")
	s.CLI("node", "retire", "web01", "--yes")
	says(apply(exported), model.Conflict.Exit(), "was retired", "muster node unblock "+m.identity().Node.String())
}

// Hundreds of nodes are renamed, replaced and retired while results arrive, and no other node loses a result. No
// other node loses a result, no event of a retired node remains, and the planner's work grows with the changed nodes
// only.
func TestFleetLifecycle(t *testing.T) {
	skipIfShort(t, "two thousand agents take their time")
	t.Parallel()
	const each, stay = 100, 1700 // stay: nodes that are kept, of which the first hundred are renamed
	fleet := harness.Fleet{Agents: 2000, Checks: 2, Interval: 4 * time.Second}
	s := harness.StartFleet(t, fleet)
	harness.LogMeasurement(t, "%d simulated agents with %d checks each, every %s; %d are renamed, %d get another machine, %d are retired", fleet.Agents, fleet.Checks, fleet.Interval, each, each, 2*each)

	members := simulated.Members(fleet.Scenario(0))
	play := func(cfg load.Config, first, agents int) (begun <-chan struct{}, end chan loadResult, stop func()) {
		cfg.Members = members[first : first+agents]
		begun = measurementStart(&cfg)
		end, stop = runLoadInBackground(t, cfg)
		return begun, end, stop
	}
	over := make(chan string, 1)
	lasting := s.LoadConfig(fleet, 10*time.Minute) // it lasts until the test stops it, after the kill
	lasting.Stop = over
	staying, stayed, _ := play(lasting, 0, stay)
	ending := s.LoadConfigTLS(fleet, 40*time.Second) // agents with certificates
	ending.Before, ending.Scenario.Phases[1].Drain = nil, model.Duration(time.Second)
	going, gone, stopGoing := play(ending, stay, 3*each)
	for _, begun := range []<-chan struct{}{staying, going} {
		select {
		case <-begun:
		case e := <-stayed:
			t.Fatalf("the run ended early: %+v, %v", e.rep, e.err)
		case e := <-gone:
			t.Fatalf("the run ended early: %+v, %v", e.rep, e.err)
		}
	}
	remaining := map[uint64]bool{}
	for i := range stay {
		list, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: harness.NodeName(i), Limit: 1})
		require(t, err == nil && len(list.Items) == 1, "%s: %+v, %v", harness.NodeName(i), list, err)
		remaining[uint64(list.Items[0].ID)] = true
	}
	numbers := map[string]uint64{}
	for i := range 3 * each {
		name := harness.NodeName(stay + i)
		list, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: name, Limit: 1})
		require(t, err == nil && len(list.Items) == 1, "%s: %+v, %v", name, list, err)
		numbers[name] = uint64(list.Items[0].ID)
	}
	counts := func() map[string]float64 {
		out := map[string]float64{}
		for _, name := range []string{"nodes_visited", "assignments_built", "conditions_evaluated", "assignments_changed"} {
			out[name] = s.Metric("muster_plan_" + name + "_total")
		}
		return out
	}
	work := func(what string, do func()) {
		t.Helper()
		before, began := counts(), time.Now()
		do()
		took, after := time.Since(began), counts()
		maps.DeleteFunc(after, func(name string, n float64) bool { after[name] = n - before[name]; return false })
		harness.LogMeasurement(t, "%d %s in %.1f s: %g nodes visited, %g conditions evaluated, %g assignments built, %g changed", each, what, took.Seconds(),
			after["nodes_visited"], after["conditions_evaluated"], after["assignments_built"], after["assignments_changed"])
		// The planner may also compile the first facts of each agent meanwhile, in two rounds and three conditions.
		for name, n := range after {
			assert(t, n <= float64(10*each+6*fleet.Agents), "%s: %g %s for %d nodes", what, n, name, each)
		}
	}
	work("renamed", func() {
		for i := range each {
			name := harness.NodeName(i)
			if _, err := s.API.Nodes.Rename(t.Context(), "load", name, v1.NodeRename{ChangeOptions: v1.ChangeOptions{Message: "moved"}, To: "new-" + name}); err != nil {
				t.Fatal(err)
			}
		}
	})
	ofReplaced := func() (n int) {
		for place := range s.FleetStates() {
			for i := range each {
				if place.Node == numbers[harness.NodeName(stay+i)] {
					n++
				}
			}
		}
		return n
	}
	had := ofReplaced()
	work("replaced", func() {
		for i := range each {
			name := harness.NodeName(stay + i)
			made, err := s.API.Nodes.Replace(t.Context(), "load", name, v1.NodeReplace{ExpiresIn: 600, Message: "new disk"})
			testenv.NoError(t, err)
			token, err := pki.ParseToken(made.Token)
			testenv.NoError(t, err)
			token.Addresses = []string{s.Listen}
			id, err := pki.Enrol(t.Context(), pki.EnrolConfig{Token: token, StateDir: t.TempDir(), Request: pki.EnrolRequest{Name: "anything"}})
			require(t, err == nil && id.Name == name, "%s: %+v, %v", name, id, err)
		}
	})
	replaced := func() float64 {
		return s.Metric("muster_session_handshakes_total", `outcome="replaced"`)
	}
	awaitEqual(t, "a former machine is refused", true, func() bool { return replaced() > 0 })
	retire := func(first int) {
		r := v1.NodeRetire{ChangeOptions: v1.ChangeOptions{Message: "scrapped", Yes: true}}
		for i := first; i < first+each; i++ {
			r.Nodes = append(r.Nodes, v1.NodeRef{Namespace: "load", Name: harness.NodeName(stay + i)})
		}
		if _, err := s.API.Nodes.Retire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	work("retired", func() {
		before := s.Metric("muster_plan_known", `kind="nodes"`)
		retire(each)
		awaitEqual(t, "nodes that the planner knows", before-each, func() float64 { return s.Metric("muster_plan_known", `kind="nodes"`) })
	})
	retire(2 * each)
	s.Kill() // the kill may come before their events were removed
	s.Start()
	stopGoing()
	<-gone
	harness.Until(t, 30*time.Second, "no event of a retired node is left", func() (string, bool) {
		left := 0
		for place := range s.FleetStates() {
			for i := each; i < 3*each; i++ {
				if place.Node == numbers[harness.NodeName(stay+i)] {
					left++
				}
			}
		}
		return fmt.Sprint(left), left == 0
	})
	harness.Until(t, 30*time.Second, "each check of the remaining nodes has sent a result", func() (string, bool) {
		n := 0
		for place := range s.FleetStates() {
			if remaining[place.Node] {
				n++
			}
		}
		return fmt.Sprint(n), n >= stay*fleet.Checks
	})
	over <- "the test"
	e := <-stayed
	require(t, e.err == nil && e.rep.Balance.OK() && e.rep.Balance.Compared == stay*fleet.Checks,
		"of those that stay: %+v, %v", e.rep, e.err)
	assert(t, slices.ContainsFunc(e.rep.Outages, func(o report.Outage) bool { return o.Lost > stay/2 && o.Seconds > 0 }),
		"the server was killed, and those that stay were not away and back: %+v", e.rep.Outages)
	b := e.rep.Balance
	harness.LogMeasurement(t, "the others, over a kill -9 of the server: %d results sent = %d acknowledged + %d refused + %d missing; %d event states compared, %d differ",
		b.Sent, b.Acknowledged, b.Refused, b.Missing, b.Compared, b.Differ)
	kept := ofReplaced()
	assert(t, kept >= had && had != 0, "%d events of nodes with another machine are left of %d", kept, had)
	if list, err := s.API.Nodes.Tombstones(t.Context(), 1); err != nil || list.All != 3*each {
		t.Errorf("%d tombstones, %v; want %d of nodes, and %d of machines that were replaced", list.All, err, 2*each, each)
	}
	list, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: "new-" + harness.NodeName(0), Limit: 1})
	assert(t, err == nil && len(list.Items) == 1 && !list.Items[0].LastHeartbeat.IsZero(), "under its new name: %+v, %v", list, err)
}
