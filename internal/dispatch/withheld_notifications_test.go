package dispatch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// limitedRoute returns a test route with a rate limit of two messages per hour. Each problem has its own message,
// which is sent at once.
func limitedRoute(steps ...model.RouteStep) *model.RouteSpec {
	at := model.Duration(0)
	return &model.RouteSpec{GroupBy: []string{"node", "check"}, GroupWait: &at, Rate: &model.RouteRate{Messages: 2}, Steps: append([]model.RouteStep{{To: []string{"pager"}}}, steps...)}
}

// TestProblemsAboveTheRateLimitShareOneMessage opens more problems than a rate limit allows, and expects one message
// about the excess. Their closings must be in one message, too.
func TestProblemsAboveTheRateLimitShareOneMessage(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": limitedRoute()})
	p.runScript(`open p1 10; after 1m; open p2 11; expect pager opened p1 | pager opened p2`)
	for i, id := range []string{"p3", "p4", "p5"} {
		p.advanceClock(time.Minute)
		p.openProblem(id, model.NodeID(12+i), model.Critical, model.High)
	}
	p.runScript(`close p4  # it is counted all the same
		close p1  # the end of a notified problem is notified at once
		expect pager closed p1; ack p5 ann; unack p5  # nothing of it lets it pass
		restart; open p6 20  # the rate is still used up
		open p6b 23; open p6c 24; after 55m; expect; after 1m; expect pager summary p3+p5+p6+p6b+p6c+p4
		open p7 21  # the summary was the first message of the next hour
		expect pager opened p7; open p8 22; expect; close p3; close p5
		expect pager summary p3 | pager summary p3+p5; close p6b; close p6c
		expect pager summary p3+p6b | pager summary p3+p6c; close p6; close p8; expect pager closed p3+p6
		after 1h; expect pager closed p8  # it came and went in that hour
		close p2; close p7; expect pager closed p2 | pager closed p7
		left 0`)
}

// TestRateLimitDelaysOpeningsOnly expects a route's rate limit to delay only the first message about a problem. Later
// steps, repeats and messages after a silence must pass the limit. It ends with its route.
func TestRateLimitDelaysOpeningsOnly(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": limitedRoute(model.RouteStep{To: []string{"lead"}, After: minutes(10)})})
	p.runScript(`open p1 10; open p2 11; open p3 12; expect pager opened p1 | pager opened p2
		after 11m; expect lead opened p1 | lead opened p2`)
	p.declareResource("default", routeTo("pager", nil))
	p.runScript(`after 0s; expect pager opened p3`)

	p = newRouterScenario(t, map[string]model.Spec{"default": limitedRoute()})
	p.runScript(`open p1 10; open p2 11; open p3 12; open p4 13; close p4; expect pager opened p1 | pager opened p2`)
	hour := model.Time{Time: testTime.Add(2 * time.Hour)}
	p.declareResource("work", &model.SilenceSpec{Selector: model.Selector{Checks: []string{"disk"}}, Until: hour, Reason: "new disks"})
	p.runScript(`after 1h; expect pager closed p4  # of p3 the silence says nothing
		after 1h; expect pager opened p3`)
}

// TestProblemsAboveTheRateLimitWaitOneHourOnly opens a problem when the rate limit's hour ends, and expects the
// delayed messages then. Earlier problems above the limit must not wait another hour.
func TestProblemsAboveTheRateLimitWaitOneHourOnly(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		p := newRouterScenario(t, map[string]model.Spec{"default": limitedRoute()})
		p.runScript(`open p1 10; open p2 11; open p3 12; open p4 13; expect pager opened p1 | pager opened p2`)
		p.now = p.now.Add(time.Hour + time.Millisecond) // history was busy at the hour, so nothing was evaluated then
		if restarts {
			p.restart()
		}
		p.runScript(`open p5 20; after 0s; expect pager opened p5 | pager summary p3+p4
			open p6 21  # the summary was the second message of this hour
			expect; after 1h; expect pager opened p6`)
	}
}

// TestClockSetBackExtendsNoRateHold sets the clock back while a rate limit delays messages, and expects no
// longer delay.
func TestClockSetBackExtendsNoRateHold(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": limitedRoute()})
	p.runScript(`open p1 10; open p2 11; open p3 12; expect pager opened p1 | pager opened p2
		after 30m`)
	p.now = p.now.Add(-24 * time.Hour)
	p.recordBatch(func(o *deliveryBatch) error { p.r.shiftTimes(o, 24*time.Hour); return nil })
	p.runScript(`after 31m; expect pager opened p3`)
}

// TestMessageAfterTheRateLimitStatesItsReason checks that a message delayed by the rate limit names the route and its limit.
// Messages of a shadow namespace have a rate of their own.
func TestMessageAfterTheRateLimitStatesItsReason(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": limitedRoute()})
	p.runScript(`open p1 10; open p2 11; open p3 12; open p4 13`)
	p.shadow = true
	p.runScript(`open p5 20; expect pager opened p1 | pager opened p2 | shadow: pager opened p5`)
	o := newDeliveryBatch(p.r, p.now.Add(time.Hour))
	if err := p.r.notifyDue(o); err != nil || len(o.deliveries) != 1 {
		t.Fatal(err, o.deliveries)
	}
	var note handler.Notification
	testenv.NoError(t, json.Unmarshal(o.deliveries[0].Payload, &note))
	if !strings.HasSuffix(note.Output, "delayed until now by the rate limit of route default/default: no more than 2 messages in 1h") || note.Count != 2 {
		t.Errorf("%+v", note)
	}
	var b history.Batch
	if o.addRowsTo(&b); b.Escalations[0].Hold != nil {
		t.Errorf("%+v", b.Escalations[0])
	}
}

// TestRateLimitCountSurvivesRestart restarts the server, and expects the count of a route's rate limit to survive. Counted
// problems may have closed.
func TestRateLimitCountSurvivesRestart(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": limitedRoute()})
	p.runScript(`open p1 10; close p1; expect pager opened p1 | pager closed p1
		restart; after 10m; open p2 11; expect pager opened p2; restart; open p3 12; expect
		after 51m; expect pager opened p3; restart; open p4 13; open p5 14; expect pager opened p4  # p3 was the first of this hour`)
}

// dependOn makes the problems of all other nodes depend on a check of the node named front. The server detects
// a failure of front within a minute.
func (p *routerScenario) dependOn(front model.NodeID) {
	p.dependencies = func(node model.NodeID, source model.Source) []route.Dependency {
		if node == front {
			return nil
		}
		return []route.Dependency{{Node: front, Source: model.CheckSource(1001), Name: route.Name{Namespace: "default", Name: "sw7/ping"}, OnUpstream: true, Settle: time.Minute}}
	}
	p.names.definition.Interval = 30 * time.Second
}

// TestFailedSwitchSendsOneMessage lets a network switch in front of 4,000 nodes fail, and expects one message.
// Problems that remain two intervals after its recovery are notified.
func TestFailedSwitchSendsOneMessage(t *testing.T) {
	nodes := 4000
	if testing.Short() {
		nodes = 200
	}
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.dependOn(10)
	byNode, present := map[model.NodeID]string{}, p.r.Present
	p.r.Present = func(node model.NodeID, source model.Source) *event.Transition {
		switch problem := p.open[byNode[node]]; {
		case problem != nil && source.Check() == 1001:
			return stateOf(problem, problem.Status)
		case node == 10:
			return &event.Transition{Status: model.OK, Executed: testTime.Add(-time.Minute).UnixNano()}
		}
		return present(node, source)
	}
	// several applies a range of problem changes in one transaction, as the dispatcher does.
	several := func(kind event.TransitionKind, from, to int) {
		p.recordBatch(func(o *deliveryBatch) error {
			for i := from; i <= to; i++ {
				id, node := fmt.Sprint("p", i), model.NodeID(10+i)
				if kind == event.ProblemOpened {
					byNode[node] = id
					p.open[id] = newProblem(id, node, p.now)
				}
				if err := p.r.applyProblemChange(o, p.problemChange(kind, id, nil)); err != nil {
					return err
				}
				if kind == event.ProblemClosed {
					delete(p.open, id)
				}
			}
			return nil
		})
	}
	several(event.ProblemOpened, 1, 50)
	p.runScript(`after 20s; expect  # groupWait is over; whether the switch is down is not known yet`)
	several(event.ProblemOpened, 0, 0)
	several(event.ProblemOpened, 51, nodes)
	p.runScript(`after 3h; expect pager opened p1+p0  # of p0, under the id of its group, which is that of the first`)
	// It is back, and so is all but three of them: one interval later.
	p.runScript(`close p0; after 30s`)
	several(event.ProblemClosed, 4, nodes)
	withheld := 0
	var rest []string
	for _, text := range p.sent {
		if strings.Contains(text, " withheld ") && strings.Contains(text, "(unreachable behind default/sw7/ping until it closed: ") {
			withheld++
		} else {
			rest = append(rest, text)
		}
	}
	if withheld != nodes-3 {
		t.Errorf("%d were withheld with the reason", withheld)
	}
	p.sent = rest
	p.runScript(`expect pager closed p1+p0; after 29s; expect; after 1m; expect pager summary p1+p2+p3`)
}

// TestProblemsOfAHealthyDependencyAreNotified expects messages that waited for a failed dependency as soon as
// the dependency is OK again. A hold survives a restart.
func TestProblemsOfAHealthyDependencyAreNotified(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.dependOn(10)
	p.runScript(`open sw 10; open p1 11; after 1h; expect pager opened sw; restart; after 1h; expect`)
	p.dependencies = func(model.NodeID, model.Source) []route.Dependency { return nil } // an operator removes the dependency
	p.r.reevaluateAll(p.now)
	p.runScript(`after 1m; expect pager opened sw+p1`)

	p = newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.dependOn(10)
	present := p.r.Present
	seen := testTime.Add(-time.Second)
	p.r.Present = func(node model.NodeID, source model.Source) *event.Transition {
		if node == 10 {
			return &event.Transition{Status: model.OK, Executed: seen.UnixNano()}
		}
		return present(node, source)
	}
	p.runScript(`open p1 11; after 50s; expect; after 20s; expect pager opened p1  # a minute was enough to notice`)
	seen = p.now.Add(time.Second)
	p.runScript(`open p2 12; after 11s; expect pager opened p1+p2  # it was seen to be well after p2 opened`)
}

// TestWarningOfADependencyHoldsNoProblem opens a problem whose dependency has status WARNING, and expects its
// messages. Only CRITICAL or UNKNOWN delays messages.
func TestWarningOfADependencyHoldsNoProblem(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.dependOn(10)
	p.openProblem("sw", 10, model.Critical, model.High)
	p.open["sw"].Status = model.Warning
	p.runScript(`after 2m; expect pager opened sw; open p1 11; after 2m; expect pager opened sw+p1`)
}

// TestDependencyBelowCriticalHoldsNoProblem improves a dependency from CRITICAL to WARNING, and expects the held
// messages two intervals later.
func TestDependencyBelowCriticalHoldsNoProblem(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.dependOn(10)
	p.runScript(`open sw 10; open p1 11; after 10m; expect pager opened sw`)
	p.presentStatus = map[string]model.Status{"sw": model.Warning}
	p.applyTransition(event.StatusChanged, "sw", func(t *event.Transition) {
		t.Problem, t.Status, t.Received = nil, model.Warning, p.now.UnixNano()
	})
	p.runScript(`after 50s; expect; after 30s; expect pager opened sw+p1; open p2 12; after 2m; expect pager opened sw+p2`)
}
