package react

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// warns opens a problem that is a warning so far.
func (p *play) warns(id string, node model.NodeID) {
	p.t.Helper()
	p.open[id] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Chunk: 3, Status: model.Warning, Severity: model.SeverityWarning, Opened: p.now}
	p.turn(event.ProblemOpened, id, nil)
}

// Who is told that a problem is worse hears it once, and the steps that are still to come come when
// they would have come.
func TestWorseIsToldOnceAndBringsNoStepForward(t *testing.T) {
	pager, both := []string{"pager"}, []string{"pager", "lead"}
	for name, row := range map[string]struct {
		steps  []model.RouteStep
		before time.Duration // until it is worse
		worse  []string      // that is heard then
		later  []string      // in the hour from then on
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
			p := newPlay(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: row.steps}})
			p.warns("p1", 10)
			p.after(row.before)
			p.sent = nil
			p.restart()
			p.status("p1", model.Critical, model.High)
			p.after(time.Minute)
			p.expect(row.worse...)
			p.after(59 * time.Minute)
			p.expect(row.later...)
		})
	}
}

// Everybody who knows reads that it is worse and what it was: the second step too, and in a message
// that tells of others for the first time.
func TestWhatWasToldBeforeIsSaidToAll(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"lead"}, After: minutes(30)}}}})
	var sent []history.Delivery
	p.store.record = func(b history.Batch) error {
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
	p.warns("p1", 10)
	p.after(40 * time.Minute)
	sent = nil
	p.status("p1", model.Critical, model.High)
	p.after(time.Minute)
	if got := notes(); len(got) != 2 || got["pager"].Was != "warning" || got["lead"].Was != "warning" {
		t.Errorf("pager %+v, lead %+v", got["pager"], got["lead"])
	}
	p.status("p1", model.Critical, model.Disaster)
	p.warns("p2", 11)
	p.after(time.Minute)
	got := notes()
	n := got["pager"]
	if len(got) != 2 || n.Kind != handler.Summary || n.Was != "" || len(n.Problems) != 2 || n.Problems[0].Was != "high" || n.Problems[1].Was != "" ||
		n.Output != "web01/disk CRITICAL (severity disaster, was high): \nweb02/disk WARNING: " {
		t.Errorf("pager %+v", n)
	}
	if got["lead"].Was != "high" || got["lead"].Kind != handler.Reminder {
		t.Errorf("lead %+v", got["lead"])
	}
	p.after(time.Hour)
	if got := notes(); got["lead"].Was != "" {
		t.Errorf("%+v", got["lead"])
	}
}

// A service that keeps one alert for a group is told to raise it only by what is worse than all that
// it was told of the group.
func TestWhatRaisesTheIncidentOfAGroup(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	var sent []history.Delivery
	p.store.record = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	told := func(what string, want bool) {
		t.Helper()
		p.after(time.Minute)
		if len(sent) != 1 {
			t.Fatalf("%s: %d messages", what, len(sent))
		}
		if n, err := handler.Decode(sent[0].Payload); err != nil || n.Raised != want || n.Problem != "p1" {
			t.Errorf("%s: %+v, %v", what, n, err)
		}
		sent = nil
	}
	p.warns("p1", 10)
	told("the first", false)
	p.warns("p2", 11)
	told("another", false)
	p.opens("p3", 12)
	told("one that is worse", true)
	p.status("p1", model.Critical, model.Average)
	told("worse, and not the worst", false)
	p.restart()
	p.status("p1", model.Critical, model.Disaster)
	told("the worst", true)
	p.closes("p3")
	told("an end", false)
}
