package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// TestHigherSeverityIsRoutedAgain raises a problem's severity, and expects notifications on routes that match only the
// higher severity.
func TestHigherSeverityIsRoutedAgain(t *testing.T) {
	warnings := &model.SilenceSpec{Selector: model.Selector{Statuses: []string{"warning"}}, Reason: "known"}
	p := newRouterScenario(t, map[string]model.Spec{
		"chat": routeTo("chat", &model.Selector{}), "night": routeTo("pager", &model.Selector{Severity: "high"}), "known": warnings})
	p.open["p1"] = &model.Problem{ID: "p1", NodeID: 10, Source: model.CheckSource(1001), Definition: 3, Status: model.Warning, Severity: model.SeverityWarning, Opened: p.now}
	p.applyTransition(event.ProblemOpened, "p1", nil)
	p.runScript(`after 1m; expect; status p1 critical high; after 1m; expect chat opened p1 | pager opened p1
		status p1 critical high; after 1m; expect; close p1; after 1m; expect chat closed p1 | pager closed p1
		left 0`)
}

// TestHigherSeverityIsNotifiedOnce raises a group of warnings to critical, and expects one message to each
// handler notified before. While the group is acknowledged, none is sent.
func TestHigherSeverityIsNotifiedOnce(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"lead"}, After: minutes(30)}}}})
	p.runScript(`warn p1 10; warn p2 11`)
	p.runScript(`after 1m; expect pager summary p1+p2; restart; status p1 critical high; after 9s; status p2 critical high
		expect; after 1s; expect pager summary p1+p2; status p1 warning high  # the severity of a problem is its worst
		status p1 critical high; after 10m; expect; restart; after 20m; expect lead summary p1+p2
		status p1 critical disaster; after 1m; expect lead reminder p1 | pager reminder p1
		ack p2 ann; expect lead summary p1+p2 | pager summary p1+p2
		status p2 critical disaster; after 1h; expect; unack p2; after 0s
		expect lead reminder p1+p2 | pager reminder p1+p2`)

	o := newDeliveryBatch(p.r, p.now)
	e := p.r.of["p1"][0]
	e.Severity, e.present = model.SeverityWarning, stateOf(p.open["p1"], model.Critical)
	if note, err := p.r.notificationOf(&message{id: e.Problem, list: []*escalation{e}}, e.Notified[0].HandlerRef, handler.Reminder); err != nil || note.PreviousSeverity != "warning" || !o.empty() {
		t.Errorf("%+v, %v", note, err)
	} else if _, err := note.Encode(); err != nil || note.Summary != "WORSE, CRITICAL: disk on web01:" {
		t.Errorf("%q, %v", note.Summary, err)
	}

	p = newRouterScenario(t, nil) // handlers without a route hear of a higher severity too
	p.names.definition.Handlers = []string{"mail"}
	p.runScript(`warn p3 10`)
	p.runScript(`expect mail opened p3; after 1m; status p3 critical high; after 0s; expect mail reminder p3`)
}

// TestDeletedRouteFinishesItsEscalations deletes a route, and expects its open problems to end on the route or
// move to another. Each problem ends on that route or moves to another route.
func TestDeletedRouteFinishesItsEscalations(t *testing.T) {
	both := func() map[string]model.Spec {
		return map[string]model.Spec{"a": routeTo("pager", &model.Selector{}), "b": routeTo("chat", &model.Selector{})}
	}
	t.Run("another route has it already", func(t *testing.T) {
		p := newRouterScenario(t, both())
		p.runScript(`open p1 10; after 1m; expect chat opened p1 | pager opened p1
			remove Route a; after 1m; expect; restart; close p1; after 1m; expect chat closed p1 | pager closed p1
			left 0`)
	})
	t.Run("no route is left", func(t *testing.T) {
		p := newRouterScenario(t, map[string]model.Spec{"a": onCallRoute()})
		_ = p.table.Apply([]route.Declaration{{Kind: "Route", Name: routeName("a")}})
		p.declareResource("default", onCallRoute())
		p.runScript(`open p1 10; after 1m; expect pager opened p1; remove Route default; after 1h; expect  # not the lead: the step is gone
			close p1; after 1m; expect pager closed p1; left 0`)
	})
	t.Run("another takes it on", func(t *testing.T) {
		p := newRouterScenario(t, map[string]model.Spec{"a": routeTo("pager", &model.Selector{}), "default": onCallRoute()})
		p.runScript(`open p1 10; after 1m; expect pager opened p1; remove Route a; after 40m; expect lead opened p1  # the pager knows
			close p1; after 1m; expect lead closed p1 | pager closed p1
			left 0`)
	})
}

// TestAddedRouteStepIsNotified adds a step to a route after all steps were sent, and expects the new step's
// message.
func TestAddedRouteStepIsNotified(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.runScript(`open p1 10; after 1h; expect pager opened p1`)
	p.declareResource("default", &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"lead"}, After: minutes(90)}}})
	p.runScript(`after 1h; expect lead opened p1`)
}

// TestClosingsAreGroupedLikeOpenings closes problems whose openings shared one message, and expects one closing
// message.
func TestClosingsAreGroupedLikeOpenings(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.runScript(`open p1 10; open p2 11; open p3 12; open p4 13; after 1m; expect pager summary p1+p2+p3+p4`)
	for _, id := range []string{"p1", "p2", "p3"} {
		p.closeProblem(id)
		p.advanceClock(2 * time.Second)
	}
	p.runScript(`restart; close p4; after 1m; expect pager closed p1+p2+p3+p4
		left 0`)
}

// TestDroppedProblemIsNeverNotified opens a problem under a silence that discards messages, and expects no message
// even afterwards
func TestDroppedProblemIsNeverNotified(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute(),
		"drop": &model.SilenceSpec{Drop: true, Until: model.Time{Time: testTime.Add(time.Minute)}, Reason: "a test"}})
	p.runScript(`open p1 10; after 1h; remove Silence drop; restart; ack p1 ann; unack p1; after 1h; expect
		close p1; expect pager withheld p1 (silenced by default/drop until it closed: a test)`)
}

// TestSilenceDeletedWhileDownHoldsNoProblem deletes a silence while the server is down, and expects the delayed
// messages after the start.
func TestSilenceDeletedWhileDownHoldsNoProblem(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute(), "forever": &model.SilenceSpec{Reason: "until somebody says so"}})
	p.runScript(`open p1 10; after 1m`)
	_ = p.table.Apply([]route.Declaration{{Kind: "Silence", Name: routeName("forever")}})
	p.runScript(`restart; after 0s; expect pager opened p1`)
}

// TestNewAcknowledgementReplacesTheExpiryTime acknowledges a problem twice with different expiry times, and expects the
// second expiry time to count.
func TestNewAcknowledgementReplacesTheExpiryTime(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute()})
	p.runScript(`open p1 10; after 1m; ack p1 ann; after 2h; expect pager opened p1 | pager acknowledged p1
		ack p1 ann 1m; after 1h; expect pager acknowledged p1 | lead opened p1 | pager reminder p1`)
}

// TestClockSetBackDelaysNoStep sets the system clock back by hours, and expects the steps of a route without
// delay.
func TestClockSetBackDelaysNoStep(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute()})
	p.runScript(`open p1 10; after 1m; expect pager opened p1`)
	p.now = p.now.Add(-3 * time.Hour)
	p.recordBatch(func(o *deliveryBatch) error { p.r.shiftTimes(o, 3*time.Hour); return nil })
	p.runScript(`restart; after 30m; expect lead opened p1`)
	// The journal's time does not go back: what opens now seems to come from the future.
	p.open["p2"] = &model.Problem{ID: "p2", NodeID: 11, Source: model.CheckSource(1001), Definition: 3, Status: model.Critical, Opened: p.now.Add(3 * time.Hour)}
	p.applyTransition(event.ProblemOpened, "p2", nil)
	p.runScript(`after 20m; expect pager opened p1+p2`)
}

// TestUnreadableMessageDelaysNoOther stores one message with unreadable content in the outbox, and expects all
// other messages to be sent.
func TestUnreadableMessageDelaysNoOther(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{GroupBy: []string{"node", "check"}, Steps: []model.RouteStep{{To: []string{"pager"}}}}})
	p.runScript(`open p1 10; open p2 11; after 1m; expect pager opened p1 | pager opened p2
		close p1; close p2`)
	p.r.of["p1"][0].Closing = []byte("no JSON")
	o := newDeliveryBatch(p.r, p.now.Add(time.Minute))
	if err := p.r.notifyDue(o); err == nil || len(o.deliveries) != 1 || o.deliveries[0].Problem != "p2" || p.r.nextDue().IsZero() {
		t.Errorf("%v, %+v", err, o.deliveries)
	}
}

// TestSummaryHasALineForEachProblem checks that a summary message has one line per problem with node, check, status
// and output.
func TestSummaryHasALineForEachProblem(t *testing.T) {
	criticalOn := func(node string) *handler.Notification {
		return &handler.Notification{Node: node, Check: "disk", Source: handler.Source{Name: "disk"}, Status: "CRITICAL", Output: "97% full\nand more"}
	}
	if n := summarizeNotifications([]*handler.Notification{criticalOn("web02"), criticalOn("web01")}, "p1", handler.Summary); n.Output != "web01/disk CRITICAL: 97% full\nweb02/disk CRITICAL: 97% full" || n.Count != 2 {
		t.Errorf("%q", n.Output)
	}
}

// TestWithheldDeliveriesAreNotQueued expects a delivery that is recorded but never sent (withheld) not to count as
// waiting.
func TestWithheldDeliveriesAreNotQueued(t *testing.T) {
	r := New(Options{Store: openSQLiteStore(t)})
	ref := history.HandlerRef{Namespace: "default", Name: "pager"}
	r.deliver.countEnqueued([]history.Delivery{{Handler: ref, State: history.Withheld}, {Handler: ref}, {Handler: ref, State: history.Dead}})
	if n := r.deliver.outbox.undelivered(ref); n != 1 {
		t.Errorf("%d wait, want 1", n)
	}
}

// TestMessageWaitsForItsJournalRecord expects no message to be sent before the journal records that the message
// is stored.
func TestMessageWaitsForItsJournalRecord(t *testing.T) {
	o := newOutbox(&queue.Registry{}, func(history.HandlerRef) int { return 1 })
	o.limit = 10
	list := []history.Delivery{{ID: 1, Key: "p1/opened", Handler: history.HandlerRef{Namespace: "default", Name: "pager"}}}
	o.prepare(list)
	if _, ok := o.reserve(&list[0]); ok {
		t.Error("the message leaves before the mark")
	}
	o.add(list)
	if _, ok := o.reserve(&list[0]); !ok || len(o.unmarked) != 0 {
		t.Errorf("the message waits after the mark; unmarked: %v", o.unmarked)
	}
}

// TestRestoredRouteKeepsItsEscalation removes and restores a problem's progress on a route in one batch, and
// expects no deleted row.
func TestRestoredRouteKeepsItsEscalation(t *testing.T) {
	e := &escalation{Escalation: history.Escalation{EscalationKey: history.EscalationKey{Problem: "p1", Route: "default/a"}}}
	o := newDeliveryBatch(nil, testTime)
	o.finished[e.EscalationKey] = true
	o.writeEscalation(e) // the route was applied again
	var b history.Batch
	if o.addRowsTo(&b); len(b.Finished) != 0 || len(b.Escalations) != 1 {
		t.Errorf("%+v", b)
	}
}

// TestSilenceUntilResolvedEndsWithItsProblem closes a problem under a silence with untilResolved, and expects the
// silence to end.
func TestSilenceUntilResolvedEndsWithItsProblem(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute(),
		"known": &model.SilenceSpec{Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web01"}}}, UntilResolved: true, Reason: "known"}})
	p.r.EndSilences = func(context.Context, []SilenceEnd) error { return nil }
	made := func(kind event.TransitionKind, node model.NodeID) problemChange {
		problem := model.Problem{ID: "p", NodeID: node, Source: model.CheckSource(1001), Status: model.Critical}
		return problemChange{Transition: &event.Transition{Kind: kind, Node: node, Source: model.CheckSource(1001), Received: p.now.UnixNano(), Problem: &problem}, problem: history.Problem{Problem: problem}}
	}
	end := func(kind event.TransitionKind, node model.NodeID) int {
		return len(p.r.endedSilences([]problemChange{made(kind, node)}))
	}
	if n := end(event.ProblemClosed, 11); n != 0 {
		t.Errorf("%d silences end with another node's problem", n)
	}
	if n := end(event.ProblemOpened, 10); n != 0 {
		t.Errorf("%d silences end with a problem that opens", n)
	}
	if n := end(event.ProblemClosed, 10); n != 1 {
		t.Errorf("%d silences end, want 1", n)
	}
	old := made(event.ProblemClosed, 10) // history is behind, and records the closing an hour later
	p.now = p.now.Add(time.Hour)
	if ends := p.r.endedSilences([]problemChange{made(event.ProblemClosed, 10), old}); len(ends) != 1 || !ends[0].At.Equal(p.now) {
		t.Errorf("%v: one silence ends, with the last of these problems", ends)
	}
	p.declareResource("known", &model.SilenceSpec{Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web01"}}}, Begin: model.Time{Time: p.now}, UntilResolved: true, Reason: "again"})
	if ends := p.r.endedSilences([]problemChange{old}); len(ends) != 0 {
		t.Errorf("%v: it had not begun when that problem closed", ends)
	}
}

// TestFailedEndOfSilencesIsRetried checks that the deletion of ended silences is tried again after an error.
func TestFailedEndOfSilencesIsRetried(t *testing.T) {
	fails := true
	var ended []route.Name
	r := New(Options{Store: openSQLiteStore(t), Now: func() time.Time { return testTime }, Routing: RoutingOptions{EndSilences: func(_ context.Context, ends []SilenceEnd) error {
		if fails {
			return errors.New("no database")
		}
		for _, e := range ends {
			ended = append(ended, e.Silence)
		}
		return nil
	}}})
	r.endSilences(t.Context(), []SilenceEnd{{routeName("a"), testTime}})
	r.endSilences(t.Context(), []SilenceEnd{{routeName("b"), testTime}, {routeName("a"), testTime}})
	fails = false
	r.endSilences(t.Context(), nil)
	if len(ended) != 2 || len(r.pendingEnds) != 0 {
		t.Errorf("ended %v, left %v", ended, r.pendingEnds)
	}
}
