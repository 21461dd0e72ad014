package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// reportWriter writes problems and their notifications into a rig's history.
type reportWriter struct {
	t   *testing.T
	rig *apitest.Server
	n   int
}

func (o *reportWriter) record(b history.Batch) {
	o.t.Helper()
	testenv.NoError(o.t, o.rig.History.Record(context.Background(), b))
}

// problem records a problem of that age and duration; zero: it is open.
func (o *reportWriter) problem(namespace, node, check string, ago, lasted time.Duration) string {
	o.t.Helper()
	o.n++
	id, ok := o.rig.Directory.NodeByName(namespace, node)
	if !ok {
		o.t.Fatalf("no node %s", node)
	}
	checkID, _ := o.rig.Directory.CheckByName(namespace, check)
	p := history.Problem{Namespace: namespace, Node: node, SourceName: check, Problem: model.Problem{ID: fmt.Sprint("p", o.n), NodeID: id, Source: model.CheckSource(checkID),
		Status: model.Critical, Severity: model.High, Opened: o.rig.Now().Add(-ago), Output: check + " is bad"}}
	b := history.Batch{Opened: []history.Problem{p}}
	if lasted > 0 {
		p.Closed = p.Opened.Add(lasted)
		b.Closed = []history.Problem{p}
	}
	o.record(b)
	return p.ID
}

// deliver records one notification of a problem, of that age.
func (o *reportWriter) deliver(problem, route, handler, tells string, state history.DeliveryState, ago time.Duration) {
	o.t.Helper()
	o.n++
	p, err := o.rig.History.Problem(context.Background(), problem)
	testenv.NoError(o.t, err)
	at := o.rig.Now().Add(-ago)
	payload, err := json.Marshal(map[string]any{"version": 1, "kind": tells, "problem": problem, "namespace": p.Namespace, "node": p.Node, "check": p.SourceName, "source": map[string]any{"kind": "check", "name": p.SourceName},
		"status": "CRITICAL", "severity": "high", "opened": p.Opened, "summary": "CRITICAL: " + p.SourceName + " on " + p.Node + ": " + p.Output})
	testenv.NoError(o.t, err)
	o.record(history.Batch{Deliveries: []history.Delivery{{Key: fmt.Sprint(o.n), Problem: problem, Handler: history.HandlerRef{Namespace: "beside", Name: handler}, Kind: tells,
		Route: route, Tells: tells, Count: 1, Payload: payload, Created: at, State: state, Ended: at}}})
}

// mark records an acknowledgement, or the begin of flapping.
func (o *reportWriter) mark(kind history.EntryKind, namespace, node, check string, ago time.Duration) {
	o.t.Helper()
	o.n++
	id, _ := o.rig.Directory.NodeByName(namespace, node)
	checkID, _ := o.rig.Directory.CheckByName(namespace, check)
	place := history.Place{At: journal.Position{Log: 1, Number: uint64(o.n)}}
	o.record(history.Batch{Places: map[model.Partition]history.Place{1: place}, Entries: []history.Entry{{At: o.rig.Now().Add(-ago), Kind: kind, Namespace: namespace, Node: node, NodeID: id,
		SourceName: check, Source: model.CheckSource(checkID), Partition: 1, Place: place}}})
}

// shadowFleet returns a namespace in shadow mode with two weeks of problems: disk pages often and is
// never acknowledged, load is acknowledged, swap has no problem, and two checks run nowhere.
func shadowFleet(t *testing.T) (*apitest.Server, *terminal) {
	rig, x := openTerminal(t)
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
	o := &reportWriter{t: t, rig: rig}
	for i := range 5 {
		ago := time.Duration(10-2*i) * day
		id := o.problem("beside", "web01", "disk", ago, 10*time.Minute)
		o.deliver(id, "beside/default", "pager", "opened", history.Shadow, ago)
		o.deliver(id, "beside/default", "pager", "closed", history.Shadow, ago-10*time.Minute)
	}
	id := o.problem("beside", "web02", "load", 3*day, 5*hour)
	o.deliver(id, "beside/default", "pager", "opened", history.Delivered, 3*day)
	o.deliver(id, "beside/default", "pager", "reminder", history.Dead, 3*day-4*hour)
	o.mark(history.Acknowledged, "beside", "web02", "load", 3*day-2*hour)
	o.mark(history.FlappingStarted, "beside", "web01", "disk", day)
	id = o.problem("beside", "web02", "disk", hour, 0)
	o.deliver(id, "", "mail", "opened", history.Shadow, hour)
	o.deliver(id, "", "mail", "reminder", history.Shadow, 10*time.Minute)
	return rig, x
}

func TestReports(t *testing.T) {
	_, x := shadowFleet(t)
	x.play("report noise -n beside --since 14d", "report noise -n beside --since 14d --limit 1 -A",
		"report noise --since 14d", "report noise -n beside --since 3000d", "report noise -n nowhere",
		"report shadow -n beside --since 14d", "report shadow -n beside --since 14d --by day,check -o wide",
		"report shadow -n beside --since 5d --each", "report shadow -n beside --since 5d -o csv",
		"report shadow -n beside --since 2h -o yaml", "report shadow", "report shadow --by moon")
	x.wide = 80
	x.play("report noise -n beside --since 30d", "report shadow -n beside --since 14d",
		"report shadow -n beside --since 5d --each")
	x.golden("reports.golden")
}

// TestShadowPages reads every page once, and escapes formulas in the CSV.
func TestShadowPages(t *testing.T) {
	rig, x := shadowFleet(t)
	o := &reportWriter{t: t, rig: rig}
	id := o.problem("beside", "web01", "disk", time.Hour, 0)
	p, _ := rig.History.Problem(context.Background(), id)
	var b history.Batch
	for i := range 2500 {
		at := rig.Now().Add(-time.Duration(i/3+1) * time.Second) // three at a time: pages end among equals
		b.Deliveries = append(b.Deliveries, history.Delivery{Key: fmt.Sprint("many", i), Problem: p.ID, Handler: history.HandlerRef{Namespace: "beside", Name: "pager"}, Kind: "reminder",
			Tells: "reminder", Payload: []byte(`{"version":1,"node":"web01","check":"disk","namespace":"beside","summary":"=HYPERLINK(1)"}`), Created: at, State: history.Shadow, Ended: at})
	}
	o.record(b)
	out, _ := x.run("", "report shadow -n beside --since 1h -o csv")
	if n := strings.Count(out, "'=HYPERLINK"); n != 2500 {
		t.Errorf("%d messages, want 2500", n)
	}
}
