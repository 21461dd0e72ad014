package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestGetAgents lists agents in all states and expects the oldest version first.
func TestGetAgents(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	x.runCommandLine("", "get agents")
	rig.JoinNode("db01", map[string]string{"agentVersion": "0.9.1", "os": "linux"})
	rig.JoinNode("web01", nil)
	rig.JoinNode("web02", nil)
	rig.JoinNode("web03", map[string]string{"agentVersion": "0.10.0"})
	rig.RecordSession("web03", true, false)
	rig.RecordSession("web03", false, false)
	rig.JoinNode("web04", map[string]string{"agentVersion": "0.10.0"})
	rig.RecordSession("web04", true, false)
	rig.RecordSession("web04", false, true)
	rig.Advance(3 * time.Hour)
	since := rig.Now().Add(-50 * time.Hour)
	rig.SetSession("db01", &v1.AgentSession{
		Version: "0.9.1", Since: since, Address: "192.0.2.7:4711", ClockOffsetMs: -4200, CertificateExpires: rig.Now().Add(40 * 24 * time.Hour),
		Refuses: []string{"commands"},
		Stats: &v1.AgentStats{
			At: rig.Now(), UptimeSeconds: 90_000, Spooled: 412, OldestSeconds: 600, Runs: 15_000, Forks: 12_000, ForksPerMinute: 8.04, Skipped: 3, Late: 12,
			BytesSent: 6 << 20, BytesPerDay: 5_200_000, ResidentBytes: 17 << 20,
		},
	})
	rig.SetSession("web01", &v1.AgentSession{Version: "0.10.0", Since: since, Address: "[2001:db8::7]:4711", Stats: &v1.AgentStats{ForksPerMinute: 31.6, BytesPerDay: 900}})
	rig.SetSession("web02", &v1.AgentSession{Version: "0.10.0", Since: rig.Now().Add(-2 * time.Second), Address: "192.0.2.9:4711", ClockOffsetMs: 3_600_000})
	x.wide = 80
	x.replayTranscript("agents.golden")
}

// TestOtherNamespaces expects a note about events in other namespaces below a list, unless the user selected a
// namespace.
func TestOtherNamespaces(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.Apply(disk)
	rig.Apply("kind: Namespace\nmetadata: {name: demo}\nspec: {}\n---\nkind: Check\nmetadata: {name: ssh, namespace: demo}\nspec: {targets: {where: 'true'}, interval: 60s, command: x}\n")
	rig.DeclareNodes("default", nil, "web01")
	rig.DeclareNodes("demo", nil, "d1", "d2")
	rig.RecordResult("demo", "d1", "ssh", model.OK, "fine")
	rig.RecordResult("demo", "d2", "ssh", model.Critical, "refused")
	if out, _ := x.runCommandLine("", "get events"); !strings.HasPrefix(out, "no events in namespace default yet. ") || !strings.Contains(out, "in other namespaces: demo 2 events (1 not OK).") {
		t.Errorf("with nothing here: %s", out)
	}
	rig.RecordResult("default", "web01", "disk", model.OK, "fine")
	for _, c := range []struct{ line, want, not string }{
		{"get events", "in other namespaces: demo 2 events (1 not OK). All: -A. One: -n demo\n", ""},
		{"get events -n default", "", "other"}, {"get events -A", "", "other"}, {"get events --node web01", "", "other"}, {"get events -o json", `"otherNamespaces": [`, "-A"},
		{"get nodes", "2 nodes in other namespaces: -A shows all\n", ""}, {"get nodes -n default", "", "other"}, {"get nodes -A", "", "other"},
		{"status", "           demo 2 events (1 not OK), default 1 event; one namespace: -n demo\n", ""}, {"status -n demo", "", "default 1"},
	} {
		if out, code := x.runCommandLine("", c.line); code != 0 || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s: code %d, want %q and not %q in\n%s", c.line, code, c.want, c.not, out)
		}
	}
}

// historyWriter writes made-up entries, problems and deliveries into the test server's history database. Its
// times are relative to the server's now.
type historyWriter struct {
	t      *testing.T
	rig    *apitest.Server
	number int // of the last record
}

// recordBatch writes made-up history entries, problems and deliveries into the test server's history in one
// batch.
func (w *historyWriter) recordBatch(b history.Batch) {
	w.t.Helper()
	testenv.NoError(w.t, w.rig.History.Record(w.t.Context(), b))
}

// recordEntry writes one made-up entry into the test server's history.
func (w *historyWriter) recordEntry(e history.Entry, after time.Duration) {
	w.t.Helper()
	w.number++
	e.At, e.Partition, e.Place = w.rig.Now().Add(after), 1, history.ChangePosition{At: journal.Position{Log: 1, Number: uint64(w.number)}}
	w.recordBatch(history.Batch{Places: map[model.Partition]history.ChangePosition{1: e.Place}, Entries: []history.Entry{e}})
}

// recordStatusChange writes a made-up status change of an event in namespace default into the history.
func (w *historyWriter) recordStatusChange(node model.NodeID, name, check string, after time.Duration, status, previous model.Status, output string) {
	w.t.Helper()
	var since time.Time
	if previous != status {
		since = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	}
	w.recordEntry(history.Entry{Executed: w.rig.Now().Add(after), Kind: history.StatusChanged, Namespace: "default", Node: name, NodeID: node, SourceName: check,
		Source: model.CheckSource(2000), Status: status, Previous: previous, Since: since, First: previous == status, Output: output}, after)
}

// TestGetHistory expects muster get history to list entries of one event, one node, or all nodes.
func TestGetHistory(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01", "web02")
	ids := map[string]model.NodeID{}
	for _, name := range []string{"web01", "web02"} {
		ids[name], _ = rig.Directory.NodeByName("default", name)
	}
	p := &historyWriter{t: t, rig: rig}
	x.runCommandLine("", "get history")
	p.recordStatusChange(ids["web01"], "web01", "disk", -50*time.Hour, model.OK, model.OK, "DISK OK")
	p.recordStatusChange(ids["web01"], "old-name", "disk", -26*time.Hour, model.Critical, model.OK, "DISK CRITICAL: 1 %")
	p.recordStatusChange(ids["web01"], "web01", "disk", -25*time.Hour, model.OK, model.Critical, "DISK OK")
	p.recordStatusChange(ids["web02"], "web02", "load", -2*time.Hour, model.Warning, model.OK, "LOAD WARNING: 7")
	p.recordStatusChange(99, "gone", "load", -time.Hour, model.Unknown, model.OK, "LOAD UNKNOWN")
	x.replayTranscript("history.golden")
	for i := range 1100 { // more than a page
		p.recordStatusChange(ids["web02"], "web02", "ping", time.Duration(i)*time.Second, model.Status(i%2), model.Status(1-i%2), fmt.Sprint("PING ", i))
	}
	out, _ := x.runCommandLine("", "get history web02/ping --limit 0 -o json")
	if n := strings.Count(out, `"status":`); n != 1100 {
		t.Errorf("--limit 0 shows %d rows, want 1100", n)
	}
}

// TestPastEventsAndAvailability lists events and availability of a past time, and compares the output with
// expected text.
func TestPastEventsAndAvailability(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: first}\nspec: {nodes: [web01]}")
	for _, check := range []string{"disk", "load", "ping"} {
		rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + check + "}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	}
	node, _ := rig.Directory.NodeByName("default", "web01")
	p := &historyWriter{t: t, rig: rig}
	rig.RecordResult("default", "web02", "ping", model.OK, "PING OK") // before every queried time
	rig.Advance(48 * time.Hour)
	p.recordStatusChange(node, "web01", "disk", -30*time.Hour, model.OK, model.OK, "DISK OK")
	p.recordStatusChange(node, "web01", "disk", -26*time.Hour, model.Critical, model.OK, "DISK CRITICAL: 1 %")
	p.recordStatusChange(node, "web01", "disk", -25*time.Hour, model.OK, model.Critical, "DISK OK")
	p.recordStatusChange(node, "web01", "disk", 0, model.Warning, model.OK, "DISK WARNING: 9 %")
	rig.RecordResult("default", "web01", "disk", model.Warning, "DISK WARNING: 9 %")
	p.recordStatusChange(node, "web01", "load", 0, model.Unknown, model.Unknown, "LOAD UNKNOWN") // the first entry
	rig.RecordResult("default", "web01", "load", model.Unknown, "LOAD UNKNOWN")
	p.recordStatusChange(node, "web01", "ping", 0, model.Critical, model.OK, "PING CRITICAL") // its earlier entries were removed
	rig.RecordResult("default", "web01", "ping", model.Critical, "PING CRITICAL")
	rig.Advance(time.Hour)
	x.replayTranscript("past_events.golden")
}

// newFailingFleet returns a test server with 60 nodes on which the check disk is critical. The check load is OK on all
// nodes.
func newFailingFleet(t *testing.T) (*apitest.Server, *testTerminal) {
	rig, x := openLoggedInTerminal(t)
	web := numberedNames("web%02d", 60)
	rig.DeclareNodes("default", map[string]string{"role": "web"}, web...)
	for _, check := range []string{"disk", "load"} {
		rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + check + "}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	}
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: first}\nspec: {nodes: [web01, web02]}")
	for _, node := range web {
		rig.RecordResult("default", node, "disk", model.Critical, "DISK CRITICAL")
		rig.RecordResult("default", node, "load", model.OK, "LOAD OK")
	}
	return rig, x
}

// TestBulkActions acknowledges many events by one command, and expects a printed list first and one audit
// record. The command needs --yes.
func TestBulkActions(t *testing.T) {
	rig, x := newFailingFleet(t)
	x.replayTranscript("bulk.golden")
	if n := rig.View.Counts(0).Problems; n != 0 {
		t.Errorf("%d problems are left", n)
	}
}

// TestOperatorsCannotDeleteEvents acts on events as an operator, and expects a refusal of deletions only. Operators
// may acknowledge and resolve events.
func TestOperatorsCannotDeleteEvents(t *testing.T) {
	rig, x := newFailingFleet(t)
	for role, want := range map[string]map[string]int{"operator": {"ack": 0, "resolve": 0, "delete": 6}, "viewer": {"ack": 6, "delete": 6}} {
		token, _, err := rig.Access.CreateToken(t.Context(), intent.Actor{User: "server"}, access.AccessToken{User: "admin", Grants: access.Grants{Role: role}})
		testenv.NoError(t, err)
		x.env["MUSTER_TOKEN"] = token
		for verb, code := range want {
			if _, got := x.runCommandLine("", "event "+verb+" --group first"); got != code {
				t.Errorf("%s %s: exit code %d, want %d", role, verb, got, code)
			}
		}
	}
}

// TestGroupAvailability computes a group's availability by each of the ways worst node, mean, all nodes and any
// node. Deleted nodes must count until their deletion.
func TestGroupAvailability(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02", "web03", "old01")
	rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: http}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: web}\nspec: {nodes: [web01, web02]}")
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: empty}\nspec: {nodes: []}")
	p := &historyWriter{t: t, rig: rig}
	ids := map[string]model.NodeID{}
	for _, name := range []string{"web01", "web02", "web03", "old01"} {
		ids[name], _ = rig.Directory.NodeByName("default", name)
		p.recordStatusChange(ids[name], name, "http", 0, model.OK, model.OK, "HTTP OK")
		rig.RecordResult("default", name, "http", model.OK, "HTTP OK")
	}
	rig.Advance(10 * time.Hour)
	// web01 is down from 2 h to 4 h, web02 from 3 h to 4 h; old01 from 5 h on, and deleted at 10 h.
	for _, one := range []struct {
		node    string
		at      time.Duration
		is, was model.Status
	}{{"web01", 2, model.Critical, model.OK}, {"web02", 3, model.Critical, model.OK}, {"web01", 4, model.Warning, model.Critical}, {"web02", 4, model.OK, model.Critical}, {"old01", 5, model.Critical, model.OK}} {
		p.recordStatusChange(ids[one.node], one.node, "http", (one.at-10)*time.Hour, one.is, one.was, fmt.Sprint("HTTP ", one.is))
		rig.RecordResult("default", one.node, "http", one.is, fmt.Sprint("HTTP ", one.is))
	}
	x.runCommandLines("event delete old01/http", "delete node old01 --yes")
	awaitPlanner(t, rig)
	rig.Advance(time.Hour)
	x.runCommandLines("report availability --by group --since 10h --until 1h",
		"report availability --by group --group web --check http --since 8h --until 7h -o yaml",
		"report availability --by group --since 30d -l env=prod", "report availability --since 11h",
		"report availability old01 --since 11h --by node -o yaml",
		"report availability --since 11h -l env=prod --by node", "report availability --since 11h -l env=test",
		"get events --at 2h", "get events --at 7h --node old01", "get events --at 30m --node old01",
		"get events --at 2h --node nobody")
	rig.DeclareNodes("default", nil, numberedNames("gone%03d", 120)...)
	var words []string
	for i, name := range numberedNames("gone%03d", 120) {
		id, _ := rig.Directory.NodeByName("default", name)
		p.recordStatusChange(id, name, "http", time.Duration(i)*time.Millisecond, model.Unknown, model.Unknown, "HTTP UNKNOWN")
		words = append(words, name)
	}
	rig.Advance(time.Hour)
	x.runCommandLine("", "delete node "+strings.Join(words, " ")+" --yes")
	awaitPlanner(t, rig)
	x.text.Truncate(strings.Index(x.text.String(), "$ muster delete node gone"))
	rig.Advance(time.Hour)
	out, _ := x.runCommandLine("", "get events --at 90m --limit 0 --status unknown")
	if n := strings.Count(out, "(gone)"); n != 120 {
		t.Errorf("%d rows of deleted nodes, want 120", n)
	}
	x.text.Truncate(strings.Index(x.text.String(), "$ muster get events --at 90m"))
	x.assertTranscript("group_availability.golden")
}

// awaitPlanner waits until the test server's planner has compiled all changes of declared resources
func awaitPlanner(t *testing.T, rig *apitest.Server) {
	t.Helper()
	testenv.NoError(t, rig.Planner.CatchUp(t.Context()))
}

// TestProblemTimeline expects notifications, silences, acknowledgement, escalation and end of a problem in its
// timeline.
func TestProblemTimeline(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	id, _ := rig.Directory.NodeByName("default", "web01")
	rig.Apply(`
{kind: Silence, metadata: {name: moving}, spec: {targets: {nodes: [web01]}, reason: racks}}
---
{kind: Silence, metadata: {name: other}, spec: {targets: {nodes: [web02]}, reason: other}}
`)
	opened := rig.Now()
	source := model.CheckSource(2000)
	problem := history.Problem{Namespace: "default", Node: "web01", SourceName: "disk", Problem: model.Problem{
		ID: "p1", NodeID: id, Source: source, Status: model.Critical, Severity: model.High, Opened: opened, Output: "full | used=99%"}}
	at := func(minutes int) time.Time { return opened.Add(time.Duration(minutes) * time.Minute) }
	delivery := func(handler, tells string, minutes, count int, state history.DeliveryState, text string) history.Delivery {
		d := history.Delivery{Key: fmt.Sprint(handler, tells, minutes), Problem: "p1", Handler: history.HandlerRef{Namespace: "default", Name: handler}, Kind: tells, Event: tells,
			Route: "default/default", Count: count, Payload: []byte("{}"), Created: at(minutes), State: state, LastError: text}
		if state != history.Pending {
			d.Ended = at(minutes)
		}
		return d
	}
	w := &historyWriter{t: t, rig: rig}
	w.recordBatch(history.Batch{Opened: []history.Problem{problem}, Deliveries: []history.Delivery{
		delivery("pager", "opened", 2, 3, history.Pending, ""), delivery("lead", "opened", 30, 1, history.Pending, ""),
		delivery("chat", "opened", 31, 1, history.Dead, "answered 404"), delivery("pager", "closed", 50, 1, history.Pending, "")}})
	list, err := rig.History.Deliveries(t.Context(), "p1")
	testenv.NoError(t, err)
	testenv.NoError(t, rig.History.RecordAttempts(t.Context(), history.DeliveryAttempt{ID: list[0].ID, Attempt: history.Attempt{At: at(3), State: history.Delivered, Answer: "202 Accepted"}},
		history.DeliveryAttempt{ID: list[1].ID, Attempt: history.Attempt{At: at(30), State: history.Delivered, Answer: "exit status 0"}}))
	w.recordEntry(history.Entry{Kind: history.StatusChanged, Namespace: "default", Node: "web01", NodeID: id, SourceName: "disk", Source: source, Status: model.Unknown, Previous: model.Critical, Output: "no df"}, 10*time.Minute)
	w.recordEntry(history.Entry{Kind: history.Acknowledged, Namespace: "default", Node: "web01", NodeID: id, SourceName: "disk", Source: source, Output: "ann: on it"}, 40*time.Minute)
	w.recordEntry(history.Entry{Kind: history.StatusChanged, Namespace: "default", Node: "web01", NodeID: id, SourceName: "load", Source: model.CheckSource(2001), Status: model.Critical, Output: "another check"}, 41*time.Minute)
	rig.Advance(time.Minute)
	x.expectOutput("", "silence end moving", 0)
	rig.Advance(time.Hour)
	x.runCommandLine("", "describe problem p1")
	problem.Closed = at(49)
	w.recordBatch(history.Batch{Closed: []history.Problem{problem}})
	x.runCommandLine("", "get history --problem p1")
	x.expectOutput("", "get history --problem", 2, "list the ids: muster get problems")
	x.expectOutput("", "get history --problem p2", 3)
	x.assertTranscript("timeline.golden")
}
