package react

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// warns opens a problem that is a warning so far.
func (p *play) warns(id string, node model.NodeID) {
	p.t.Helper()
	p.open[id] = &model.Problem{ID: id, NodeID: node, CheckID: 1001, Chunk: 3, Status: model.Warning, Severity: model.SeverityWarning, Opened: p.now}
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
			p.heard(row.worse...)
			p.after(59 * time.Minute)
			p.heard(row.later...)
		})
	}
}
