package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
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

// routerScenario is a test bench that runs a router step by step and collects the resulting messages.
type routerScenario struct {
	t             *testing.T
	names         *testDirectory
	table         *route.Table
	store         *testStore
	r             *router
	massOutage    *route.Hold
	now           time.Time
	open          map[string]*model.Problem
	shadow        bool                    // all namespaces are shadow namespaces
	presentStatus map[string]model.Status // present status of problems that were worse
	dependencies  func(model.NodeID, model.Source) []route.Dependency
	sent          []string

	incidents bool // describe messages by their incidents
}

// newRouterScenario returns a scenario that tests a router with a database and the given routes and silences.
func newRouterScenario(t *testing.T, resources map[string]model.Spec) *routerScenario {
	p := &routerScenario{t: t, names: newTestDirectory(nil), table: route.NewTable(), store: openSQLiteStore(t), now: testTime, open: map[string]*model.Problem{}}
	for ref, spec := range resources {
		p.declareResource(ref, spec)
	}
	p.restart()
	return p
}

// declareResource declares a resource, such as a route or silence, in the scenario's routing table.
func (p *routerScenario) declareResource(ref string, spec model.Spec) {
	p.t.Helper()
	ns, name := model.SplitRef("default", ref)
	testenv.NoError(p.t, p.table.Apply([]route.Declaration{{Name: route.Name{Namespace: ns, Name: name}, Zone: "UTC", Spec: spec}}))
	if p.r != nil {
		p.r.reevaluateAll(p.now)
	}
}

// restart replaces the router by a new one with the state from the database, as after a restart.
func (p *routerScenario) restart() {
	p.r = newRouter(Options{Store: p.store, Names: p.names, Routing: RoutingOptions{Table: p.table, Present: func(node model.NodeID, source model.Source) *event.Transition {
		for _, problem := range p.open {
			if problem.NodeID == node && problem.Source == source {
				status := problem.Status
				if now, ok := p.presentStatus[problem.ID]; ok {
					status = now
				}
				return stateOf(problem, status)
			}
		}
		return nil
	}, MassOutage: func(now time.Time) *route.Hold {
		if p.massOutage == nil || !p.massOutage.Until.After(now) {
			return nil
		}
		return p.massOutage
	}, Dependencies: func(node model.NodeID, source model.Source) []route.Dependency {
		if p.dependencies == nil {
			return nil
		}
		return p.dependencies(node, source)
	}, Shadow: func(string) bool { return p.shadow }}})
	testenv.NoError(p.t, p.r.load(context.Background()))
	p.r.reevaluateAll(p.now)
}

// applyTransition applies one event change about a problem to the router.
func (p *routerScenario) applyTransition(kind event.TransitionKind, id string, change func(*event.Transition)) {
	p.t.Helper()
	of := p.problemChange(kind, id, change)
	p.recordBatch(func(o *deliveryBatch) error { return p.r.applyProblemChange(o, of) })
}

// problemChange returns one change of a problem as input for the router
func (p *routerScenario) problemChange(kind event.TransitionKind, id string, change func(*event.Transition)) *problemChange {
	problem := *p.open[id]
	t := &event.Transition{Kind: kind, Node: problem.NodeID, Source: problem.Source, Namespace: 1, Definition: 3, Status: problem.Status, Severity: problem.Severity,
		Output: problem.Output, Problem: &problem}
	if change != nil {
		change(t)
	}
	if t.Problem != nil {
		problem = *t.Problem
	}
	ns, node, _ := p.names.NodeName(problem.NodeID)
	return &problemChange{Transition: t, problem: history.Problem{Problem: problem, Namespace: ns, Node: node, SourceName: "disk"}}
}

// recordBatch lets the router decide once, and writes the resulting messages and rows to the database.
func (p *routerScenario) recordBatch(do func(*deliveryBatch) error) {
	p.t.Helper()
	o := newDeliveryBatch(p.r, p.now)
	testenv.NoError(p.t, do(o))
	var b history.Batch
	o.addRowsTo(&b)
	testenv.NoError(p.t, p.store.Record(context.Background(), b))
	for _, d := range b.Deliveries {
		if p.incidents {
			p.sent = append(p.sent, p.describeIncident(&d))
			continue
		}
		text := d.Handler.Name + " " + d.Kind + " " + d.Problem
		if len(d.FurtherProblems) > 0 {
			text += "+" + strings.Join(d.FurtherProblems, "+")
		}
		if d.State == history.Shadow {
			text = "shadow: " + text
		}
		if d.State == history.Withheld {
			text = d.Handler.Name + " withheld " + d.Problem + " (" + d.LastError + ")"
		}
		p.sent = append(p.sent, text)
	}
}

// runScript runs a test script of steps separated by semicolons, such as "open p1 10". Example: "open p1 10;
// after 1m; ack p1 ann; expect pager opened p1". The rest of a line behind # is a comment.
func (p *routerScenario) runScript(text string) {
	p.t.Helper()
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for step := range strings.SplitSeq(line, ";") {
			verb, rest, _ := strings.Cut(strings.TrimSpace(step), " ")
			if verb != "expect" {
				p.runStep(verb, strings.Fields(rest))
			} else if rest == "" {
				p.expectMessages()
			} else {
				p.expectMessages(strings.Split(rest, " | ")...)
			}
		}
	}
}

// runStep runs one step of the test script, such as "open p1 10".
func (p *routerScenario) runStep(verb string, args []string) {
	p.t.Helper()
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		testenv.NoError(p.t, err)
		return d
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		testenv.NoError(p.t, err)
		return n
	}
	switch verb {
	case "": // the end of a line
	case "open":
		p.openProblem(args[0], model.NodeID(number(args[1])), model.Critical, model.High)
	case "warn":
		p.openProblem(args[0], model.NodeID(number(args[1])), model.Warning, model.SeverityWarning)
	case "close":
		p.closeProblem(args[0])
	case "ack":
		ack := &model.Ack{By: args[1]}
		if len(args) > 2 {
			ack.Until = p.now.Add(duration(args[2]))
		}
		p.acknowledge(args[0], ack)
	case "unack":
		p.acknowledge(args[0], nil)
	case "status":
		status, _ := model.ParseStatus(args[1])
		severity, _ := model.ParseSeverity(args[2])
		p.changeStatus(args[0], status, severity)
	case "remove":
		p.removeResource(args[0], args[1])
	case "after":
		p.advanceClock(duration(args[0]))
	case "restart":
		p.restart()
	case "left":
		p.expectEscalations(number(args[0]))
	default:
		p.t.Fatalf("unknown step %q", verb)
	}
}

// openProblem opens a problem on a node with the given status and severity.
func (p *routerScenario) openProblem(id string, node model.NodeID, status model.Status, severity model.Severity) {
	p.t.Helper()
	p.open[id] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Definition: 3, Status: status, Severity: severity, Opened: p.now}
	if status == model.Critical {
		p.open[id].Output = "bad"
	}
	p.applyTransition(event.ProblemOpened, id, nil)
}

// changeStatus changes the status and severity of a problem in the scenario.
func (p *routerScenario) changeStatus(id string, status model.Status, severity model.Severity) {
	p.t.Helper()
	p.open[id].Status, p.open[id].Severity = status, severity
	p.applyTransition(event.StatusChanged, id, func(t *event.Transition) {
		t.Problem, t.Received = nil, p.now.UnixNano()
	})
}

// removeResource removes a resource, such as a route or silence, from the scenario's routing table.
func (p *routerScenario) removeResource(kind, name string) {
	_ = p.table.Apply([]route.Declaration{{Kind: kind, Name: routeName(name)}})
	p.r.reevaluateAll(p.now)
	if kind == "Route" {
		p.chooseRoutesAgain(&rerouteRequest{})
	}
}

// closeProblem closes a problem of the scenario.
func (p *routerScenario) closeProblem(id string) {
	p.t.Helper()
	p.applyTransition(event.ProblemClosed, id, func(t *event.Transition) {
		closed := *t.Problem
		closed.Closed, t.Status, t.Problem = p.now, model.OK, &closed
	})
	delete(p.open, id)
}

// acknowledge sets or removes the acknowledgement of a problem in the scenario. With a nil ack, it removes the
// acknowledgement.
func (p *routerScenario) acknowledge(id string, ack *model.Ack) {
	p.t.Helper()
	p.open[id].Ack = ack
	kind := event.Acknowledged
	if ack == nil {
		kind = event.Unacknowledged
	}
	p.applyTransition(kind, id, nil)
}

// advanceClock moves the clock of the test forward. The router decides about everything that becomes due, in order.
func (p *routerScenario) advanceClock(d time.Duration) {
	p.t.Helper()
	end := p.now.Add(d)
	for next := p.r.nextDue(); !next.IsZero() && !next.After(end); next = p.r.nextDue() {
		if next.After(p.now) {
			p.now = next
		}
		p.recordBatch(p.r.notifyDue)
	}
	p.now = end
}

// compareIncidents makes later calls of expectMessages also compare the incident ids of messages.
func (p *routerScenario) compareIncidents() { p.incidents = true }

// describeIncident formats the handler, kind and incident id of a message for comparison in tests. If the
// incident replaces an earlier one, the text has its id, too.
func (p *routerScenario) describeIncident(d *history.Delivery) string {
	n, err := handler.Decode(d.Payload)
	testenv.NoError(p.t, err)
	text := fmt.Sprintf("%s %s %s", d.Handler.Name, n.Kind, cmp.Or(n.Incident, n.Problem))
	if n.AckExpired {
		text += ", unacknowledged"
	}
	if n.Replaces != "" {
		text += ", instead of " + n.Replaces
	}
	return text
}

// expectMessages compares the messages sent since its last call with the wanted messages, in any order.
func (p *routerScenario) expectMessages(want ...string) {
	p.t.Helper()
	slices.Sort(p.sent)
	slices.Sort(want)
	if !slices.Equal(p.sent, want) {
		p.t.Errorf("after %s was sent:\n  %s\nwant:\n  %s", p.now.Sub(testTime), strings.Join(p.sent, "\n  "), strings.Join(want, "\n  "))
	}
	p.sent = nil
}

// expectEscalations compares the number of problems on routes, in the database and the router, with a wanted
// number.
func (p *routerScenario) expectEscalations(want int) {
	p.t.Helper()
	list, err := p.store.Escalations(context.Background())
	if err != nil || len(list) != want || len(p.r.all) != want {
		p.t.Errorf("%d escalations in the store and %d in memory, want %d, %v", len(list), len(p.r.all), want, err)
	}
}

// minutes returns n minutes as a duration.
func minutes(n int) model.Duration { return model.Duration(n) * model.Duration(time.Minute) }

// routeTo returns a test route with one step, which notifies one handler.
func routeTo(to string, match *model.Selector) *model.RouteSpec {
	return &model.RouteSpec{Match: match, Steps: []model.RouteStep{{To: []string{to}}}}
}

// routeName returns the qualified name of a route in the namespace default.
func routeName(name string) route.Name { return route.Name{Namespace: "default", Name: name} }

// onCallRoute returns a route with an hourly repetition and a second step after 30 minutes. The second step notifies
// the handler lead.
func onCallRoute() *model.RouteSpec {
	return &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}, Repeat: minutes(60)}, {To: []string{"lead"}, After: minutes(30)}}}
}

// TestStepsAndRepeatsKeepTheirTimes expects the steps and repetitions of a route at their planned times, also
// after a restart.
func TestStepsAndRepeatsKeepTheirTimes(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute()})
	p.runScript(`open p1 10; expect; after 10s; expect pager opened p1; after 30m; expect lead opened p1
		restart; after 31m; expect pager reminder p1; close p1; after 10s; expect pager closed p1 | lead closed p1
		left 0; after 24h; expect`)
}

// TestProblemsOfAGroupShareMessages opens and closes several problems of one message group, and expects common
// messages.
func TestProblemsOfAGroupShareMessages(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.runScript(`open p1 10; after 9s; open p2 11; after 2s; expect pager summary p1+p2
		open p3 12; after 10s; expect pager opened p1+p3  # under the id of the group
		close p1; after 10s; expect pager summary p1  # the others are open
		close p2; close p3; restart; after 10s; expect pager closed p1+p2+p3
		left 0`)
}

// TestHandlersWithoutRouteAreNotifiedAtOnce opens problems without a route, and expects one immediate message per
// problem. The check or the namespace names the handlers.
func TestHandlersWithoutRouteAreNotifiedAtOnce(t *testing.T) {
	p := newRouterScenario(t, nil)
	p.names.definition.Handlers = []string{"mail"}
	p.runScript(`open p1 10; expect mail opened p1; open p2 11; expect mail opened p2
		close p1; expect mail closed p1; left 1`)
	p.names.definition.Handlers, p.names.defaults = nil, []string{"shared/chat"}
	p.runScript(`open p3 12; expect chat opened p3`)
	p.names.defaults = nil
	p.runScript(`open p4 13; close p4; expect`)
}

// TestMessagesAboutManySilentNodesAreHeld makes many nodes stop sending keepalives, and expects no separate
// message about each node.
func TestMessagesAboutManySilentNodesAreHeld(t *testing.T) {
	p := newRouterScenario(t, nil)
	p.names.definition.Handlers = []string{"mail"}
	p.names.keepalive = func(c *model.CheckDefinition) { c.Handlers = []string{"mail"} }
	p.massOutage = &route.Hold{Kind: route.ManySilent, Reason: "400 of 1000 nodes became silent within 2m", Until: testTime.Add(4 * time.Minute)}
	silent := func(id string, node model.NodeID) {
		p.open[id] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(model.KeepaliveCheck), Definition: 3, Status: model.Critical, Severity: model.High, Opened: p.now, Output: "silent"}
		p.applyTransition(event.ProblemOpened, id, nil)
	}
	silent("p1", 10)
	silent("p2", 11)
	p.runScript(`open p3 12  # a check's is none of them
		expect mail opened p3; close p1
		expect mail withheld p1 (one of many nodes that became silent at once until it closed: 400 of 1000 nodes became silent within 2m)
		after 2m`)
	p.massOutage = nil // the mass outage ends, and the server restarts
	p.runScript(`restart; after 1m59s; expect; after 1s; expect mail opened p2
		close p2; expect mail closed p2`)
}

// TestSilencesHoldAndDropMessages silences a problem, and expects its messages after the end of the silence. A problem
// that closes meanwhile is recorded as withheld, which means not sent.
func TestSilencesHoldAndDropMessages(t *testing.T) {
	hour := model.Time{Time: testTime.Add(time.Hour)}
	disk := model.Selector{Checks: []string{"disk"}}
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute(), "work": &model.SilenceSpec{Selector: disk, Until: hour, Reason: "new disks"}})
	p.runScript(`open p1 10; open p2 11; after 20m; close p2
		expect pager withheld p2 (silenced by default/work until it closed: new disks)
		restart; after 41m; expect pager opened p1 | lead opened p1  # it is an hour old: both steps are due
		close p1; after 1m; expect pager closed p1 | lead closed p1`)

	p.declareResource("forever", &model.SilenceSpec{Selector: disk, Reason: "until somebody says so"})
	p.runScript(`open p3 12; after 2m; expect`)
	_ = p.table.Apply([]route.Declaration{{Kind: "Silence", Name: route.Name{Namespace: "default", Name: "forever"}}})
	p.r.reevaluateAll(p.now)
	p.runScript(`after 0s; expect pager opened p3`)

	p.declareResource("drop", &model.SilenceSpec{Selector: disk, Until: model.Time{Time: p.now.Add(time.Minute)}, Drop: true, Reason: "a test"})
	p.runScript(`open p4 13; after 2h; expect lead opened p3 | pager reminder p3 | pager reminder p3  # p4 is never notified
		close p3; after 10s; expect pager closed p3 | lead closed p3`)
}

// TestMutedProblemIsNotifiedAtTheEnd opens a problem during a mute or maintenance window, and expects the message
// afterwards. A problem that has closed meanwhile gets none.
func TestMutedProblemIsNotifiedAtTheEnd(t *testing.T) {
	lunch := "13:00-14:00 Europe/Paris" // noon in UTC
	muted := routeTo("pager", nil)
	muted.Mute = []model.RouteMute{{During: lunch}}
	for why, specs := range map[string]map[string]model.Spec{
		"muted by default/default":    {"default": muted},
		"maintenance by default/rack": {"default": routeTo("pager", nil), "rack": &model.WindowSpec{TimeZone: "Europe/Paris", Spans: []model.WindowSpan{{During: "13:00-14:00"}}, Maintenance: &model.Selector{Checks: []string{"disk"}}}},
	} {
		t.Run(why, func(t *testing.T) {
			p := newRouterScenario(t, specs)
			p.runScript(`open p1 10; after 20m; open p2 11; after 20m; close p2`)
			p.expectMessages("pager withheld p2 (" + why + " until it closed)")
			p.runScript(`restart; after 19m; expect; after 2m; expect pager opened p1
				open p3 12; after 1m; expect pager opened p1+p3  # under the id of the group`)
		})
	}
}

// TestAcknowledgementHoldsStepsAndRepeats checks that an acknowledged problem sends neither later steps nor repeated
// messages.
func TestAcknowledgementHoldsStepsAndRepeats(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute()})
	p.runScript(`open p1 10; after 1m; expect pager opened p1; ack p1 ann 2h; expect pager acknowledged p1
		after 119m; expect  # neither the lead nor a repetition
		after 2m; expect lead opened p1 | pager reminder p1; ack p1 bob
		expect lead acknowledged p1 | pager acknowledged p1; after 24h; expect
		unack p1; expect pager reminder p1; ack p1 bob; close p1; after 1m
		expect lead acknowledged p1 | pager acknowledged p1 | lead closed p1 | pager closed p1`)
}

// TestChangedRouteKeepsElapsedTimes changes a route while a problem is open, and expects step times counted
// from the problem's opening.
func TestChangedRouteKeepsElapsedTimes(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute()})
	p.runScript(`open p1 10; after 1m; expect pager opened p1`)
	p.declareResource("default", &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}, {To: []string{"boss"}, After: minutes(5)}, {To: []string{"chief"}, After: minutes(10)}}})
	p.runScript(`after 30m; expect boss opened p1 | chief opened p1  # when the step before was due; and the new one at once`)
	_ = p.table.Apply([]route.Declaration{{Kind: "Route", Name: route.Name{Namespace: "default", Name: "default"}}})
	p.runScript(`close p1; after 1m; expect pager closed p1 | boss closed p1 | chief closed p1
		left 0`)
}

// TestStormOfOneGroupIsOneMessage opens many problems of one message group together, and expects one message
// and a row per problem.
func TestStormOfOneGroupIsOneMessage(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute()})
	const many = 2000
	p.recordBatch(func(o *deliveryBatch) error {
		for i := range many {
			id := fmt.Sprintf("p%04d", i)
			p.open[id] = newProblem(id, model.NodeID(10+i), p.now)
			t := &event.Transition{Kind: event.ProblemOpened, Node: model.NodeID(10 + i), Source: model.CheckSource(1001), Namespace: 1, Definition: 3, Status: model.Critical, Problem: p.open[id]}
			if err := p.r.applyProblemChange(o, &problemChange{Transition: t, problem: history.Problem{Problem: *p.open[id]}}); err != nil {
				return err
			}
		}
		return nil
	})
	p.expectEscalations(many)
	before := p.open
	p.r.Present = func(node model.NodeID, source model.Source) *event.Transition {
		problem := before[fmt.Sprintf("p%04d", node-10)]
		return stateOf(problem, problem.Status)
	}
	p.advanceClock(time.Minute)
	if len(p.sent) != 1 || !strings.HasPrefix(p.sent[0], "pager summary p0000+p0001") {
		t.Errorf("%d messages: %.100s", len(p.sent), p.sent)
	}
}

// TestAcknowledgedProblemLeavesItsGroupOpen acknowledges one problem and expects the other problems of its message
// group to stay unacknowledged
func TestAcknowledgedProblemLeavesItsGroupOpen(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.runScript(`open p1 10; open p2 11; after 1m; expect pager summary p1+p2
		ack p1 ann; expect pager summary p1; ack p2 ann; expect pager acknowledged p1+p2  # now of all of it`)
}

// TestNewProblemInAnAcknowledgedGroupIsNotified opens a problem in a message group with an acknowledged
// incident, and expects a new incident.
func TestNewProblemInAnAcknowledgedGroupIsNotified(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.runScript(`open p1 10; open p2 11; after 1m; ack p1 ann; open p3 12; after 1m
		expect pager summary p1+p2 | pager summary p1 | pager opened p1+p3  # it calls for p2 still
		ack p2 ann; ack p3 ann; expect pager summary p1+p2 | pager acknowledged p1+p3
		open p4 13; close p3  # before its message leaves
		after 1m; expect pager opened p4 | pager summary p1+p3; restart; open p5 14; after 1m
		expect pager opened p4+p5; ack p4 bob; expect pager summary p4
		unack p1  # it calls again, under its own id
		expect; close p4; close p1; close p2; after 1m; expect pager summary p4 | pager closed p1+p2
		close p5; after 1m; expect pager closed p4+p5; left 0`)

	// One problem is acknowledged while another waits for its group; a silenced one is notified at the end of the silence.
	p = newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil), "quiet": &model.SilenceSpec{
		Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web02"}}}, Until: model.Time{Time: testTime.Add(time.Hour)}, Reason: "new disks"}})
	p.runScript(`open p1 10; after 1m; open p2 11  # is silenced
		open p3 12; ack p1 ann; after 1m; expect pager opened p1 | pager acknowledged p1 | pager opened p3
		ack p3 ann; after 1h; expect pager acknowledged p3 | pager opened p2`)
}

// TestAcknowledgedIncidentEndsWhenTheNextOpens closes an acknowledged problem while another of its group opens, and
// expects the first incident to end
func TestAcknowledgedIncidentEndsWhenTheNextOpens(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.runScript(`open p1 10; after 1m; ack p1 ann; expect pager opened p1 | pager acknowledged p1
		close p1; open p2 11; after 1m; expect pager closed p1 | pager opened p2
		close p2; after 1m; expect pager closed p2; left 0`)
}

// TestAlertmanagerGetsEachProblem checks that an Alertmanager handler gets one alert per problem, even for
// problems of one message group.
func TestAlertmanagerGetsEachProblem(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("am", nil)})
	p.names.handlers = map[string]*model.HandlerSpec{"am": {Alertmanager: &model.Alertmanager{}}}
	p.runScript(`open p1 10; open p2 11; after 1m; expect am opened p1 | am opened p2
		close p1; close p2; after 1m; expect am closed p1 | am closed p2`)
}

// TestSummaryListsTenProblems summarises 25 problems in one message, and expects its text to list ten. A summary for
// programs must list all.
func TestSummaryListsTenProblems(t *testing.T) {
	var notes []*handler.Notification
	for range 25 {
		notes = append(notes, &handler.Notification{Problem: "p", Node: "web01", Check: "disk", Source: handler.Source{Name: "disk"}, Status: "CRITICAL", Output: "bad"})
	}
	n := summarizeNotifications(notes, "p1", handler.Summary)
	if lines := strings.Split(n.Output, "\n"); len(lines) != 11 || lines[10] != "and 15 more" || len(n.Problems) != 25 || n.Count != 25 || n.Problem != "p1" {
		t.Errorf("%d lines, %d problems, %q", len(lines), len(n.Problems), n.Output)
	}
}

// TestProblemClosedDuringItsMessageIsNotified closes a problem while its opening message is composed, and
// expects an opening, then a closing message. The closing must follow the opening.
func TestProblemClosedDuringItsMessageIsNotified(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	present, looks := p.r.Present, 0
	p.r.Present = func(node model.NodeID, source model.Source) *event.Transition {
		if looks++; looks > 2 { // the first two are for the opening and for the step
			return &event.Transition{}
		}
		return present(node, source)
	}
	p.openProblem("p1", 10, model.Critical, model.High)
	looks = 1
	p.runScript(`after 10s; expect pager opened p1`)
	p.r.Present = present
	p.runScript(`close p1; after 10s; expect pager closed p1; left 0`)
}

// TestShadowMessagesAreRecordedOnly checks that messages of a namespace in shadow mode are recorded and not sent. A
// problem keeps the mode of its opening to its end and over a restart.
func TestShadowMessagesAreRecordedOnly(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	p.openProblem("p1", 10, model.Critical, model.High)
	p.shadow = true
	p.runScript(`open p2 11; after 1m; expect pager opened p1 | shadow: pager opened p2  # no message in common
		restart; ack p2 ann; close p1`)
	p.shadow = false
	p.runScript(`close p2; after 1m; expect shadow: pager acknowledged p2 | pager closed p1 | shadow: pager closed p2`)
	due, _, err := p.store.Due(context.Background(), p.now, 100, nil)
	if err != nil || len(due) != 1 || due[0].Problem != "p1" || due[0].State != history.Pending {
		t.Errorf("to be sent: %+v, %v", due, err)
	}
	p.expectEscalations(0)
}
