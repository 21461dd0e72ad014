package dispatch

import (
	"reflect"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// chooseRoutesAgain chooses the routes of the test's open problems again, like the dispatcher after a change.
func (p *routerScenario) chooseRoutesAgain(c *rerouteRequest) (taken []AffectedProblems) {
	p.t.Helper()
	p.recordBatch(func(o *deliveryBatch) error {
		taken = o.routeOpenProblems(c)
		return nil
	})
	return taken
}

// TestNewRouteNotifiesOfOpenProblems creates a route while problems are open, and expects one message about the
// problems. With --only-new there must be no message.
func TestNewRouteNotifiesOfOpenProblems(t *testing.T) {
	p := newRouterScenario(t, nil)
	p.names.handlers = map[string]*model.HandlerSpec{"pager": {}}
	for id, node := range map[string]model.NodeID{"p1": 10, "p2": 11, "p3": 12} {
		p.openProblem(id, node, model.Critical, model.High)
	}
	p.runScript(`after 1h; expect`)
	p.declareResource("default", routeTo("pager", nil))
	var sent []history.Delivery
	p.store.beforeRecord = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	taken := p.chooseRoutesAgain(&rerouteRequest{})
	if len(taken) != 1 || taken[0].Route != "default/default" || taken[0].Problems != 3 || taken[0].OnHold != 0 || !taken[0].At.Equal(p.now.Add(route.DefaultGroupWait)) ||
		taken[0].Handlers[0].Name != "pager" {
		t.Fatalf("%+v", taken)
	}
	if again := p.chooseRoutesAgain(&rerouteRequest{}); len(again) != 0 {
		t.Errorf("taken twice: %+v", again)
	}
	p.runScript(`restart; after 1m; expect pager summary p1+p2+p3`)
	if n, err := handler.Decode(sent[0].Payload); err != nil || !strings.HasSuffix(n.Output, "\n3 of these problems opened before this route applied, the oldest at 2026-03-01T12:00:00Z") {
		t.Errorf("%+v, %v", n, err)
	}

	for id, problem := range p.open { // history knows them
		p.r.open[id] = sourceOnNode{problem.NodeID, problem.Source}
	}
	p.declareResource("default", routeTo("lead", nil)) // another handler in a step that was sent
	if taken = p.chooseRoutesAgain(&rerouteRequest{}); len(taken) != 1 || taken[0].Problems != 3 || taken[0].Handlers[0].Name != "lead" {
		t.Errorf("%+v", taken)
	}
	p.runScript(`after 1m; expect lead summary p1+p2+p3`)
}

// TestRoutingPreviewCountsOpenProblems compares the problem counts in a preview of a route change with the real
// change. The preview must change nothing.
func TestRoutingPreviewCountsOpenProblems(t *testing.T) {
	p := newRouterScenario(t, nil)
	p.names.handlers = map[string]*model.HandlerSpec{"pager": {}}
	for id, node := range map[string]model.NodeID{"p1": 10, "p2": 11, "p3": 12} {
		p.openProblem(id, node, model.Critical, model.High)
	}
	preview := func(c *ReceiverEdits, onlyNew bool, want ...AffectedProblems) {
		t.Helper()
		if c.Sees == nil {
			c.Sees = func(string) bool { return true }
		}
		var taken []AffectedProblems
		p.recordBatch(func(o *deliveryBatch) error {
			taken = o.previewOpenProblems(&rerouteRequest{RoutingChange: RoutingChange{OnlyNew: onlyNew}, edits: c, preview: true})
			if !o.empty() {
				t.Error("a preview writes")
			}
			return nil
		})
		for i := range taken {
			taken[i].Handlers = nil
		}
		if !reflect.DeepEqual(taken, want) {
			t.Errorf("%+v, want %+v", taken, want)
		}
	}
	name := route.Name{Namespace: "default", Name: "default"}
	declared := func(spec model.Spec) []route.Declaration {
		return []route.Declaration{{Kind: "Route", Name: name, Spec: spec}}
	}
	preview(&ReceiverEdits{Routes: declared(routeTo("pager", nil))}, false, AffectedProblems{Route: "default/default", Problems: 3})
	preview(&ReceiverEdits{Routes: declared(routeTo("pager", nil))}, true, AffectedProblems{Route: "default/default", Problems: 3, OnHold: 3})
	preview(&ReceiverEdits{Routes: declared(routeTo("pager", nil)), Sees: func(string) bool { return false }}, false)
	preview(&ReceiverEdits{Namespaces: map[string]*model.NamespaceSpec{"default": {Handlers: []string{"pager"}}}}, false, AffectedProblems{Problems: 3})
	namespace, check, _ := p.names.SourceName(model.CheckSource(1001))
	preview(&ReceiverEdits{Checks: map[route.Name]*model.CheckSpec{{Namespace: namespace, Name: check}: {Alert: &model.Alert{Handlers: []string{"pager"}}}}}, false, AffectedProblems{Problems: 3})
	p.runScript(`after 1h; expect`)
	p.declareResource("default", routeTo("pager", nil))
	preview(&ReceiverEdits{Routes: declared(routeTo("pager", nil))}, false, AffectedProblems{Route: "default/default", Problems: 3}) // not taken yet
	p.chooseRoutesAgain(&rerouteRequest{})
	p.runScript(`after 1m; expect pager summary p1+p2+p3`)
	for id, problem := range p.open { // history knows them
		p.r.open[id] = sourceOnNode{problem.NodeID, problem.Source}
	}
	preview(&ReceiverEdits{Routes: declared(routeTo("pager", nil))}, false, AffectedProblems{Route: "default/default", Problems: 3, Notified: 3})
	preview(&ReceiverEdits{Routes: declared(nil)}, false)
	preview(&ReceiverEdits{Routes: declared(routeTo("lead", nil))}, false, AffectedProblems{Route: "default/default", Problems: 3})
	if again := p.chooseRoutesAgain(&rerouteRequest{}); len(again) != 0 {
		t.Errorf("a preview changed the escalations: %+v", again)
	}
}

// TestReplacedRouteNotifiesNobodyTwice replaces a route by another, and expects no second message to handlers
// notified before. Each closing must be notified once.
func TestReplacedRouteNotifiesNobodyTwice(t *testing.T) {
	for _, order := range []string{"create, delete", "delete, create"} {
		p := newRouterScenario(t, map[string]model.Spec{"a": routeTo("pager", &model.Selector{})})
		p.runScript(`open p1 10; open p2 11; after 1m; expect pager summary p1+p2`)
		next := &model.RouteSpec{Match: &model.Selector{}, Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"lead"}, After: minutes(30)}}}
		edits := &ReceiverEdits{Sees: func(string) bool { return true },
			Routes: []route.Declaration{{Kind: "Route", Name: routeName("b"), Spec: next}, {Kind: "Route", Name: routeName("a")}}}
		if order == "delete, create" {
			p.runScript("remove Route a; after 1m; expect")
		}
		want := []AffectedProblems{{Route: "default/b", Handlers: []history.HandlerRef{{Namespace: "default", Name: "pager"}}, Problems: 2, Notified: 2}}
		if would := newDeliveryBatch(p.r, p.now).previewOpenProblems(&rerouteRequest{edits: edits, preview: true}); !reflect.DeepEqual(would, want) {
			t.Errorf("%s: preview %+v, want %+v", order, would, want)
		}
		testenv.NoError(t, p.table.Apply(edits.Routes))
		p.r.reevaluateAll(p.now)
		p.advanceClock(0) // the dispatcher may send a due message before it reads the change
		if taken := p.chooseRoutesAgain(&rerouteRequest{edits: edits}); !reflect.DeepEqual(taken, want) {
			t.Errorf("%s: %+v, want %+v", order, taken, want)
		}
		if again := p.chooseRoutesAgain(&rerouteRequest{edits: edits}); !reflect.DeepEqual(again, want) {
			t.Errorf("%s: the same route applied again: %+v, want %+v", order, again, want)
		}
		p.runScript(`after 20m; expect; after 10m; expect lead summary p1+p2; close p1; close p2; after 1m
			expect lead closed p1+p2 | pager closed p1+p2; left 0`)
	}
}

// TestFlagOnlyNewSkipsOpenProblems changes routes with --only-new, and expects no message about problems that
// are already open. A changed status or a person's request ends the wait.
func TestFlagOnlyNewSkipsOpenProblems(t *testing.T) {
	p := newRouterScenario(t, nil)
	p.openProblem("p1", 10, model.Critical, model.High)
	p.openProblem("p2", 11, model.Critical, model.High)
	p.declareResource("default", routeTo("pager", nil))
	taken := p.chooseRoutesAgain(&rerouteRequest{RoutingChange: RoutingChange{OnlyNew: true, By: "ann"}})
	if len(taken) != 1 || taken[0].Problems != 2 || taken[0].OnHold != 2 || !taken[0].At.IsZero() {
		t.Fatalf("%+v", taken)
	}
	if again := p.chooseRoutesAgain(&rerouteRequest{}); len(again) != 0 { // another route changed
		t.Errorf("taken again: %+v", again)
	}
	p.runScript(`restart; after 1h; expect`)
	p.r.open["p1"] = sourceOnNode{10, model.CheckSource(1001)} // history knows it
	if taken = p.chooseRoutesAgain(&rerouteRequest{problem: "p1"}); len(taken) != 1 || taken[0].Problems != 1 || taken[0].OnHold != 0 {
		t.Errorf("%+v", taken)
	}
	p.runScript(`after 1m; expect pager opened p1`)
	p.declareResource("default", routeTo("lead", nil))
	if taken = p.chooseRoutesAgain(&rerouteRequest{RoutingChange: RoutingChange{OnlyNew: true}}); len(taken) != 1 || taken[0].Problems != 1 {
		t.Errorf("%+v", taken)
	}
	if again := p.chooseRoutesAgain(&rerouteRequest{}); len(again) != 0 {
		t.Errorf("the added handler is notified: %+v", again)
	}
	p.runScript(`after 1h; expect`)
}

// TestChangeOfRoutesIsRecordedBeforeItReturns changes routes, and expects the changed open problems in the
// database when the call returns. The next start must redo a change that a crash interrupted.
func TestChangeOfRoutesIsRecordedBeforeItReturns(t *testing.T) {
	spec, got := newWebhook(t, nil)
	s, n, v := openSQLiteStore(t), newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), &testView{}
	n.definition.Handlers = nil
	table := route.NewTable()
	o := Options{Store: s, Names: n, Routing: RoutingOptions{Table: table, Present: v.present}}
	r := startDispatcher(t, o)
	v.openProblem(10, "p1")
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	r.waitRecorded(positionAt(1))
	wait := model.Duration(0)
	apply := func(spec model.Spec) func() (*ReceiverEdits, error) {
		return func() (*ReceiverEdits, error) {
			return nil, table.Apply([]route.Declaration{{Kind: "Route", Name: route.Name{Namespace: "default", Name: "default"}, Spec: spec}})
		}
	}
	to := &model.RouteSpec{GroupWait: &wait, Steps: []model.RouteStep{{To: []string{"pager"}}}}
	taken, late, err := r.ChangeRouting(t.Context(), RoutingChange{OnlyNew: true, By: "ann"}, apply(to))
	if err != nil || late || len(taken) != 1 || taken[0].Problems != 1 || taken[0].OnHold != 1 {
		t.Fatalf("%+v, %v, %v", taken, late, err)
	}
	rows, err := s.EscalationsOf(t.Context(), "p1")
	if err != nil || len(rows) != 1 || rows[0].Hold == nil || rows[0].Hold.Kind != route.Earlier || rows[0].Hold.Creator != "ann" {
		t.Errorf("%+v, %v", rows, err)
	}
	if taken, late, err = r.ChangeRouting(t.Context(), RoutingChange{}, func() (*ReceiverEdits, error) { return nil, nil }); len(taken) > 0 || late || err != nil {
		t.Errorf("%+v, %v, %v", taken, late, err)
	}
	another := &ReceiverEdits{Sees: func(string) bool { return true },
		Routes: []route.Declaration{{Kind: "Route", Name: route.Name{Namespace: "default", Name: "other"}, Spec: &model.RouteSpec{Match: &model.Selector{}, Steps: to.Steps}}}}
	if taken, late = r.PreviewRouting(t.Context(), RoutingChange{}, another); len(taken) != 1 || taken[0].Problems != 1 || late {
		t.Errorf("%+v, %v", taken, late)
	}
	if taken, late = r.NotifyOpen(t.Context(), "p1", "ann"); len(taken) != 1 || late {
		t.Errorf("%+v, %v", taken, late)
	}
	if m := decodeRequest(t, receiveFrom(t, "message", got)); m.Problem != "p1" || m.Kind != handler.Opened {
		t.Errorf("%+v", m)
	}
	r.stop()

	testenv.NoError(t, table.Apply([]route.Declaration{{Kind: "Route", Name: route.Name{Namespace: "default", Name: "web"},
		Spec: &model.RouteSpec{GroupWait: &wait, Match: &model.Selector{}, Steps: []model.RouteStep{{To: []string{"pager"}}}}}})) // and the server dies
	startDispatcher(t, o)
	if m := decodeRequest(t, receiveFrom(t, "message", got)); m.Problem != "p1" {
		t.Errorf("%+v", m)
	}
}
