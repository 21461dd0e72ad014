package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// recordProblem writes a made-up problem into the test server's history. It opened `ago` before now and closed
// after `lasted`; with a zero `lasted` it is open.
func (w *historyWriter) recordProblem(namespace, node, check string, ago, lasted time.Duration) string {
	w.t.Helper()
	w.number++
	id, ok := w.rig.Directory.NodeByName(namespace, node)
	if !ok {
		w.t.Fatalf("no node %s", node)
	}
	checkID, _ := w.rig.Directory.CheckByName(namespace, check)
	p := history.Problem{Namespace: namespace, Node: node, SourceName: check, Problem: model.Problem{ID: fmt.Sprint("p", w.number), NodeID: id, Source: model.CheckSource(checkID),
		Status: model.Critical, Severity: model.High, Opened: w.rig.Now().Add(-ago), Output: check + " is bad"}}
	b := history.Batch{Opened: []history.Problem{p}}
	if lasted > 0 {
		p.Closed = p.Opened.Add(lasted)
		b.Closed = []history.Problem{p}
	}
	w.recordBatch(b)
	return p.ID
}

// recordDelivery writes a made-up notification about a problem into the test server's history.
func (w *historyWriter) recordDelivery(problem, route, handler, tells string, state history.DeliveryState, ago time.Duration) {
	w.t.Helper()
	w.number++
	p, err := w.rig.History.Problem(context.Background(), problem)
	testenv.NoError(w.t, err)
	at := w.rig.Now().Add(-ago)
	payload, err := json.Marshal(map[string]any{"version": 1, "kind": tells, "problem": problem, "namespace": p.Namespace, "node": p.Node, "check": p.SourceName, "source": map[string]any{"kind": "check", "name": p.SourceName},
		"status": "CRITICAL", "severity": "high", "opened": p.Opened, "summary": "CRITICAL: " + p.SourceName + " on " + p.Node + ": " + p.Output})
	testenv.NoError(w.t, err)
	w.recordBatch(history.Batch{Deliveries: []history.Delivery{{Key: fmt.Sprint(w.number), Problem: problem, Handler: history.HandlerRef{Namespace: "beside", Name: handler}, Kind: tells,
		Route: route, Event: tells, Count: 1, Payload: payload, Created: at, State: state, Ended: at}}})
}

// recordAckOrFlapStart writes an acknowledgement of an event, or the start of flapping, into the test server's
// history.
func (w *historyWriter) recordAckOrFlapStart(kind history.EntryKind, namespace, node, check string, ago time.Duration) {
	w.t.Helper()
	id, _ := w.rig.Directory.NodeByName(namespace, node)
	checkID, _ := w.rig.Directory.CheckByName(namespace, check)
	w.recordEntry(history.Entry{Kind: kind, Namespace: namespace, Node: node, NodeID: id, SourceName: check, Source: model.CheckSource(checkID)}, -ago)
}

// newShadowFleet returns a test server with a namespace in shadow mode, whose history has two weeks of
// problems. The check disk pages often and is never acknowledged, load is acknowledged, swap has no problem,
// and two checks run nowhere.
func newShadowFleet(t *testing.T) (*apitest.Server, *testTerminal) {
	rig, x := openLoggedInTerminal(t)
	rig.Apply("apiVersion: muster/v1\nkind: Namespace\nmetadata: {name: beside}\nspec: {notifications: shadow}")
	rig.DeclareNodes("beside", nil, "web01", "web02")
	for _, check := range []string{"disk", "load", "swap"} {
		rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + check + ", namespace: beside}\nspec: {targets: {nodes: [web01, web02]}, interval: 60s, command: x}")
	}
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: none, namespace: beside}\nspec: {nodes: []}")
	rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: raid, namespace: beside}\nspec: {targets: {groups: [none]}, interval: 60s, command: x}")
	for name, spec := range map[string]string{"forgotten": "targets: {nodes: [web09]}, reason: moved", "oldcheck": "checks: [gone], reason: noisy, until: 2027-01-01T00:00:00Z", "fresh": "checks: [disk], reason: work"} {
		rig.Apply("apiVersion: muster/v1\nkind: Silence\nmetadata: {name: " + name + ", namespace: beside}\nspec: {" + spec + "}")
	}
	rig.Advance(31 * 24 * time.Hour)
	const day, hour = 24 * time.Hour, time.Hour
	w := &historyWriter{t: t, rig: rig}
	for i := range 5 {
		ago := time.Duration(10-2*i) * day
		id := w.recordProblem("beside", "web01", "disk", ago, 10*time.Minute)
		w.recordDelivery(id, "beside/default", "pager", "opened", history.Shadow, ago)
		w.recordDelivery(id, "beside/default", "pager", "closed", history.Shadow, ago-10*time.Minute)
	}
	id := w.recordProblem("beside", "web02", "load", 3*day, 5*hour)
	w.recordDelivery(id, "beside/default", "pager", "opened", history.Delivered, 3*day)
	w.recordDelivery(id, "beside/default", "pager", "reminder", history.Dead, 3*day-4*hour)
	w.recordAckOrFlapStart(history.Acknowledged, "beside", "web02", "load", 3*day-2*hour)
	w.recordAckOrFlapStart(history.FlappingStarted, "beside", "web01", "disk", day)
	id = w.recordProblem("beside", "web02", "disk", hour, 0)
	w.recordDelivery(id, "", "mail", "opened", history.Shadow, hour)
	w.recordDelivery(id, "", "mail", "reminder", history.Shadow, 10*time.Minute)
	return rig, x
}

// TestTranscriptOfNoiseAndShadowReports compares the output of muster report noise and muster report shadow with a
// golden file.
func TestTranscriptOfNoiseAndShadowReports(t *testing.T) {
	_, x := newShadowFleet(t)
	x.runCommandLines("report noise -n beside --since 14d", "report noise -n beside --since 14d --limit 1 -A",
		"report noise --since 14d", "report noise -n beside --since 3000d", "report noise -n nowhere",
		"report shadow -n beside --since 14d", "report shadow -n beside --since 14d --by day,check -o wide",
		"report shadow -n beside --since 5d --each", "report shadow -n beside --since 5d -o csv",
		"report shadow -n beside --since 2h -o yaml", "report shadow", "report shadow --by moon")
	x.wide = 80
	x.replayTranscript("reports.golden")
}

// TestShadowReportReadsEveryPageOnce reads a shadow report of several pages, and expects each row once. CSV output
// must escape formulas.
func TestShadowReportReadsEveryPageOnce(t *testing.T) {
	rig, x := newShadowFleet(t)
	w := &historyWriter{t: t, rig: rig}
	id := w.recordProblem("beside", "web01", "disk", time.Hour, 0)
	p, _ := rig.History.Problem(context.Background(), id)
	var b history.Batch
	for i := range 2500 {
		at := rig.Now().Add(-time.Duration(i/3+1) * time.Second) // three at a time: pages end among equals
		b.Deliveries = append(b.Deliveries, history.Delivery{Key: fmt.Sprint("many", i), Problem: p.ID, Handler: history.HandlerRef{Namespace: "beside", Name: "pager"}, Kind: "reminder",
			Event: "reminder", Payload: []byte(`{"version":1,"node":"web01","check":"disk","namespace":"beside","summary":"=HYPERLINK(1)"}`), Created: at, State: history.Shadow, Ended: at})
	}
	w.recordBatch(b)
	out, _ := x.runCommandLine("", "report shadow -n beside --since 1h -o csv")
	if n := strings.Count(out, "'=HYPERLINK"); n != 2500 {
		t.Errorf("%d messages, want 2500", n)
	}
}
