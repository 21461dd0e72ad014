package dispatch

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// TestEndedAcknowledgementNotifiesAgain lets an acknowledgement expire, and expects a reminder under a new
// incident id in the external service. The incident is the alert in an external service.
func TestEndedAcknowledgementNotifiesAgain(t *testing.T) {
	for name, ends := range map[string]func(p *routerScenario){
		"it runs out": func(p *routerScenario) {
			p.runScript(`ack p1 ann 1h; restart; after 1h1m`)
		},
		"it is taken back": func(p *routerScenario) {
			p.runScript(`ack p1 ann; after 1h; unack p1; restart; after 1m`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
			p.compareIncidents()
			p.runScript(`open p1 10; after 1m`)
			ends(p)
			p.runScript(`expect pager opened p1 | pager acknowledged p1 | pager reminder p1.1, unacknowledged, instead of p1
				after 24h; ack p1 bob; expect pager acknowledged p1.1; unack p1; after 1m; ack p1 bob 1m; close p1
				after 1h
				expect pager reminder p1.2, unacknowledged, instead of p1.1 | pager acknowledged p1.2 | pager closed p1.2
				left 0`)
		})
	}
	t.Run("without a route", func(t *testing.T) {
		p := newRouterScenario(t, nil)
		p.names.definition.Handlers = []string{"mail"}
		p.compareIncidents()
		p.runScript(`open p1 10; ack p1 ann 1h; after 1h
			expect mail opened p1 | mail acknowledged p1 | mail reminder p1.1, unacknowledged, instead of p1
			close p1; expect mail closed p1.1`)
	})
	t.Run("it is silenced by then", func(t *testing.T) {
		p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
		p.compareIncidents()
		p.runScript(`open p1 10; after 1m; ack p1 ann 1h`)
		p.declareResource("quiet", &model.SilenceSpec{Until: model.Time{Time: p.now.Add(2 * time.Hour)}, Reason: "new disks"})
		p.runScript(`after 90m; expect pager opened p1 | pager acknowledged p1
			after 1h; expect pager reminder p1.1, unacknowledged, instead of p1`)
	})
	t.Run("it is prolonged", func(t *testing.T) {
		p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
		p.compareIncidents()
		p.runScript(`open p1 10; after 1m; ack p1 ann 1h; ack p1 ann; after 24h
			expect pager opened p1 | pager acknowledged p1 | pager acknowledged p1`)
	})
	t.Run("others were never looked after", func(t *testing.T) {
		p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
		p.compareIncidents()
		p.runScript(`open p1 10; open p2 11; after 1m; ack p1 ann; unack p1; after 1h
			expect pager summary p1 | pager summary p1  # it calls all the time`)
	})
}

// TestEndedAcknowledgementConcernsItsProblemAlone lets one problem's acknowledgement expire, and expects a new
// incident id for that problem only. Other problems of its group must stay acknowledged.
func TestEndedAcknowledgementConcernsItsProblemAlone(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}, Repeat: minutes(120)}}}})
	p.compareIncidents()
	p.runScript(`open p1 10; open p2 11; after 1m; ack p1 ann 1h; ack p2 ann
		expect pager summary p1 | pager summary p1 | pager acknowledged p1
		restart; after 90m; expect pager reminder p1.1, unacknowledged  # p2 is still acknowledged under its own incident
		open p3 12; after 1m; expect pager opened p1.1  # that calls already
		after 40m; expect; close p1; close p2; after 1m; expect pager summary p1.1 | pager closed p1
		ack p3 ann; unack p3; after 1m
		expect pager acknowledged p1.1 | pager reminder p1.2, unacknowledged, instead of p1.1`)
	p.now = p.now.Add(2*time.Hour - 2*time.Minute)
	p.runScript(`open p4 13; after 1m; expect pager opened p1.2; close p3; close p4; after 1m; expect pager closed p1.2
		left 0`)

	// Both end at once, and a third comes: one message, which takes the place of the incident.
	p = newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.compareIncidents()
	p.runScript(`open p1 10; open p2 11; after 1m`)
	until := p.now.Add(time.Hour)
	p.acknowledge("p1", &model.Ack{By: "ann", Until: until})
	p.acknowledge("p2", &model.Ack{By: "ann", Until: until})
	p.runScript(`after 1h; open p3 12; after 1m
		expect pager summary p1 | pager summary p1 | pager acknowledged p1 | pager summary p1.1, instead of p1`)
}

// TestAcknowledgedIncidentIDIsNotReused acknowledges the incident of a message group, and expects a new
// incident id for a later problem. If that incident is acknowledged by the end of the silence, the problem gets
// another id.
func TestAcknowledgedIncidentIDIsNotReused(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil), "quiet": &model.SilenceSpec{
		Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web01"}}}, Until: model.Time{Time: testTime.Add(time.Hour)}, Reason: "new disks"}})
	p.compareIncidents()
	p.runScript(`open p1 10  # is silenced
		open p2 11; after 1m; ack p2 ann; expect pager opened p1 | pager acknowledged p1
		after 1h; expect pager opened p1.1; close p1; close p2; after 1m; expect pager closed p1 | pager closed p1.1`)
}

// TestLaterStepHasItsOwnIncidents notifies the handler of a later route step, and expects incident ids separate
// from the first step. The ids belong to alerts in external services.
func TestLaterStepHasItsOwnIncidents(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"lead"}, After: minutes(30)}}}})
	p.compareIncidents()
	p.runScript(`open p1 10; after 40m; open p2 11; after 1m; expect pager opened p1 | lead opened p1 | pager opened p1
		ack p1 ann; expect pager summary p1 | lead acknowledged p1  # the pager calls for p2 still
		restart; after 30m; expect lead opened p2; ack p2 ann; expect pager acknowledged p1 | lead acknowledged p2
		open p3 12  # is new to both
		after 31m; expect pager opened p3 | lead opened p3; close p1; after 1m
		expect pager summary p1 | lead closed p1; close p2; close p3; after 1m
		expect pager closed p1 | lead closed p2 | pager closed p3 | lead closed p3
		left 0`)
}

// TestAcknowledgementRemovedInServiceKeepsTheIncident removes an acknowledgement in a service such as PagerDuty,
// and expects no new incident in that service.
func TestAcknowledgementRemovedInServiceKeepsTheIncident(t *testing.T) {
	for name, row := range map[string]struct {
		by   string
		want []string
	}{
		"here":               {"ann", []string{"pager reminder p1.1, unacknowledged, instead of p1", "genie reminder p1.1, unacknowledged, instead of p1"}},
		"there":              {"Ada (PagerDuty): https://acme.example.org", []string{"pager reminder p1", "genie reminder p1.1, unacknowledged, instead of p1"}},
		"in another service": {"ada (Opsgenie)", []string{"pager reminder p1.1, unacknowledged, instead of p1", "genie reminder p1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager", "genie"}}}}})
			p.names.handlers = map[string]*model.HandlerSpec{"pager": {PagerDuty: &model.PagerDuty{}}, "genie": {Opsgenie: &model.Opsgenie{}}}
			p.compareIncidents()
			p.runScript(`open p1 10; after 1m; ack p1 ann
				expect pager opened p1 | genie opened p1 | pager acknowledged p1 | genie acknowledged p1`)
			p.open["p1"].Output = row.by
			p.runScript(`unack p1; after 1m`)
			p.expectMessages(row.want...)
		})
	}
}

// TestAcknowledgementAppliesToItsIncident acknowledges the first of two problems with separate incidents, and expects
// the second incident to stay unacknowledged. Both problems are of one message group.
func TestAcknowledgementAppliesToItsIncident(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.compareIncidents()
	p.runScript(`open p1 10; after 1m; ack p1 ann; open p2 11; after 1m
		expect pager opened p1 | pager acknowledged p1 | pager opened p2
		ack p1 bob; open p3 12; after 1m; expect pager acknowledged p1 | pager opened p2  # that calls still`)
}

// TestHigherSeverityKeepsTheTimesOfSteps raises a problem's severity, and expects later steps of its route at their
// planned times. Later route steps must keep their times.
func TestHigherSeverityKeepsTheTimesOfSteps(t *testing.T) {
	pager, both := []string{"pager"}, []string{"pager", "lead"}
	for name, row := range map[string]struct {
		steps  []model.RouteStep
		before time.Duration // from the opening to the higher severity
		worse  []string      // messages about the higher severity
		later  []string      // messages in the hour after it
	}{
		"the reminder is still to come": {[]model.RouteStep{{To: pager}, {To: pager, After: minutes(30)}}, 10 * time.Minute,
			[]string{"pager reminder p1"}, []string{"pager reminder p1"}},
		"the reminder was": {[]model.RouteStep{{To: pager}, {To: pager, After: minutes(30)}}, 40 * time.Minute,
			[]string{"pager reminder p1"}, nil},
		"a repetition is still to begin": {[]model.RouteStep{{To: pager}, {To: pager, After: minutes(30), Repeat: minutes(20)}}, 10 * time.Minute,
			[]string{"pager reminder p1"}, []string{"pager reminder p1", "pager reminder p1", "pager reminder p1"}},
		"the second step names both, and was not": {[]model.RouteStep{{To: pager}, {To: both, After: minutes(30)}}, 10 * time.Minute,
			[]string{"pager reminder p1"}, []string{"pager reminder p1", "lead opened p1"}},
		"the second step names both, and was": {[]model.RouteStep{{To: pager}, {To: both, After: minutes(30)}}, 40 * time.Minute,
			[]string{"pager reminder p1", "lead reminder p1"}, nil},
		"the first step names both": {[]model.RouteStep{{To: both}, {To: pager, After: minutes(30)}}, 40 * time.Minute,
			[]string{"pager reminder p1", "lead reminder p1"}, nil},
		"the reminder is due with it": {[]model.RouteStep{{To: pager}, {To: pager, After: minutes(30)}}, 30*time.Minute - time.Second,
			[]string{"pager reminder p1"}, nil},
		"it repeats": {[]model.RouteStep{{To: pager, Repeat: minutes(50)}}, 10 * time.Minute,
			[]string{"pager reminder p1"}, []string{"pager reminder p1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: row.steps}})
			p.openProblem("p1", 10, model.Warning, model.SeverityWarning)
			p.advanceClock(row.before)
			p.sent = nil
			p.runScript(`restart; status p1 critical high; after 1m`)
			p.expectMessages(row.worse...)
			p.advanceClock(59 * time.Minute)
			p.expectMessages(row.later...)
		})
	}
}

// TestMessagesStateThePreviousSeverity raises a problem's severity, and expects the message to state the
// earlier severity too.
func TestMessagesStateThePreviousSeverity(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"lead"}, After: minutes(30)}}}})
	var sent []history.Delivery
	p.store.beforeRecord = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	notes := func() map[string]*handler.Notification {
		out := map[string]*handler.Notification{}
		for _, d := range sent {
			n, err := handler.Decode(d.Payload)
			if err != nil || out[d.Handler.Name] != nil {
				t.Fatalf("%s hears more than once: %v", d.Handler.Name, err)
			}
			out[d.Handler.Name] = n
		}
		sent = nil
		return out
	}
	p.runScript(`warn p1 10; after 40m`)
	sent = nil
	p.runScript(`status p1 critical high; after 1m`)
	if got := notes(); len(got) != 2 || got["pager"].PreviousSeverity != "warning" || got["lead"].PreviousSeverity != "warning" {
		t.Errorf("pager %+v, lead %+v", got["pager"], got["lead"])
	}
	p.runScript(`status p1 critical disaster; warn p2 11; after 1m`)
	got := notes()
	n := got["pager"]
	if len(got) != 2 || n.Kind != handler.Summary || n.PreviousSeverity != "" || len(n.Problems) != 2 || n.Problems[0].PreviousSeverity != "high" || n.Problems[1].PreviousSeverity != "" ||
		n.Output != "web01/disk CRITICAL (severity disaster, was high): \nweb02/disk WARNING: " {
		t.Errorf("pager %+v", n)
	}
	if got["lead"].PreviousSeverity != "high" || got["lead"].Kind != handler.Reminder {
		t.Errorf("lead %+v", got["lead"])
	}
	p.advanceClock(time.Hour)
	if got := notes(); got["lead"].PreviousSeverity != "" {
		t.Errorf("%+v", got["lead"])
	}
}

// TestOnlyTheWorstSeverityRaisesAnIncident raises problems' severities, and expects a message only above the
// worst severity of the message group. The worst severity of the group's incident counts.
func TestOnlyTheWorstSeverityRaisesAnIncident(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	var sent []history.Delivery
	p.store.beforeRecord = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	expectRaised := func(what string, want bool) {
		t.Helper()
		p.advanceClock(time.Minute)
		if len(sent) != 1 {
			t.Fatalf("%s: %d messages", what, len(sent))
		}
		if n, err := handler.Decode(sent[0].Payload); err != nil || n.SeverityRaised != want || n.Problem != "p1" {
			t.Errorf("%s: %+v, %v", what, n, err)
		}
		sent = nil
	}
	p.openProblem("p1", 10, model.Warning, model.SeverityWarning)
	expectRaised("the first", false)
	p.openProblem("p2", 11, model.Warning, model.SeverityWarning)
	expectRaised("another", false)
	p.openProblem("p3", 12, model.Critical, model.High)
	expectRaised("one that is worse", true)
	p.changeStatus("p1", model.Critical, model.Average)
	expectRaised("worse, and not the worst", false)
	p.runScript(`restart; status p1 critical disaster`)
	expectRaised("the worst", true)
	p.closeProblem("p3")
	expectRaised("an end", false)
}
