package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// pipelineInput returns an event of check 1001 on node 10, as input for pipelines in tests. The statuses are its
// history, oldest first.
func pipelineInput(commit uint64, statuses ...model.Status) event.Transition {
	t := statusTransition(1, commit, 0)
	t.Kind, t.Output = event.Observed, ""
	t.Observation = &event.Observation{State: event.State{Node: 10, Check: 1001, Definition: 3, Namespace: 1, Received: t.Received, Executed: t.Executed,
		Changed: testTime.UnixNano(), Output: fmt.Sprintf("result %d", commit), StatusHistory: event.StatusHistory{HistoryLen: uint8(len(statuses))}, Occurrences: 1}}
	for i, s := range statuses {
		t.Observation.History = t.Observation.History<<2 | uint64(s)
		t.Observation.Occurrences++
		if t.Observation.Status = s; i == 0 || statuses[i-1] != s {
			t.Observation.Occurrences = 1
		}
	}
	t.Status = t.Observation.Status
	return t
}

// pipelineTable returns a table of compiled Sensu pipelines, filters and mutators from their declarations.
func pipelineTable(t *testing.T, specs map[string]model.Spec) *pipes.Table {
	t.Helper()
	table := pipes.NewTable()
	for name, spec := range specs {
		testenv.NoError(t, table.Apply([]route.Declaration{{Name: route.Name{Namespace: "default", Name: name}, Spec: spec}}))
	}
	return table
}

// pipelineOf returns a test pipeline with one workflow (filters, mutator and handler).
func pipelineOf(handler string, mutator string, filters ...string) *model.PipelineSpec {
	return &model.PipelineSpec{Workflows: []model.Workflow{{Name: "w", Filters: filters, Mutator: mutator, Handler: handler}}}
}

// allowFilter returns a Sensu filter that passes only events for a true expression.
func allowFilter(expression string) *model.FilterSpec {
	return &model.FilterSpec{Action: "allow", Expressions: []string{expression}}
}

// TestHandlersGetEventsThatPassFilters sends events through filters, and expects the handler to get exactly the passed
// events. The events are in Sensu's JSON and in order. Other events leave only a verdict.
func TestHandlersGetEventsThatPassFilters(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", nil)
	n.definition.Handlers, n.definition.Pipelines, n.definition.Interval = nil, []string{"alerts"}, time.Minute
	n.defaults = []string{"slack"}
	table := pipelineTable(t, map[string]model.Spec{"alerts": pipelineOf("slack", "", "is_incident", "not_silenced", "odd"), "odd": allowFilter("event.check.occurrences % 2 == 1")})
	store := openSQLiteStore(t)
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}})
	x := wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 1.5}}})
	first := pipelineInput(2, 0, 2)
	first.Observation.Extra = x
	r.Emit([]event.Transition{pipelineInput(1, 0), first, openingTransition("p1", 3), pipelineInput(4, 0, 2, 2), pipelineInput(5, 0, 2, 2, 2), pipelineInput(6, 0, 2, 2, 2, 0)})
	for _, want := range []string{"result 2", "result 5", "result 6"} {
		var e struct {
			ID     string
			Entity struct{ Metadata struct{ Name string } }
			Check  struct {
				Output, State string
				Interval      int
				History       []struct{ Status int }
			}
			Metrics *struct{ Points []struct{ Name string } }
		}
		body := receiveFrom(t, want, got).body
		testenv.NoError(t, json.Unmarshal([]byte(body), &e))
		if e.Check.Output != want || e.Entity.Metadata.Name != "web01" || e.Check.Interval != 60 || len(e.ID) != 36 || (e.Metrics != nil) != (want == "result 2") {
			t.Errorf("%s, want %s", body, want)
		}
	}
	r.waitRecorded(positionAt(6))
	v, ok := r.PipelineDecisions(10, 1001)
	if !ok || len(v.List) != 1 || !v.List[0].Pass || !v.At.Equal(testTime.Add(6*time.Second)) {
		t.Errorf("%+v", v)
	}
	// The problem opened, and no other handler was notified of it.
	if list, err := store.Deliveries(t.Context(), "p1"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := store.Deliveries(t.Context(), "event-10-1001"); err != nil || len(list) != 3 || list[0].Kind != "event" {
		t.Errorf("%+v, %v", list, err)
	}
	// A restart shows what the journal brings again, and nothing comes twice.
	for range 3 {
		receiveFrom(t, "an outcome", store.attempts)
	}
	r.stop()
	again := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}})
	again.Emit([]event.Transition{pipelineInput(1, 0), first, pipelineInput(4, 0, 2, 2), pipelineInput(5, 0, 2, 2, 2), pipelineInput(6, 0, 2, 2, 2, 0), pipelineInput(7, 0, 2, 2, 2, 0, 1)})
	if body := receiveFrom(t, "what came since", got).body; !strings.Contains(body, "result 7") {
		t.Error(body)
	}
	again.waitRecorded(positionAt(7))
	select {
	case p := <-got:
		t.Errorf("a second time: %s", p.body)
	default:
	}
}

// TestMetricsWithoutCheckPassPipelines sends metrics that belong to no check, and expects the named pipelines to get
// the metrics.
func TestMetricsWithoutCheckPassPipelines(t *testing.T) {
	n, got := newWebhookDirectory(t, "influx", nil)
	table := pipelineTable(t, map[string]model.Spec{"sensu-influx": pipelineOf("influx", "", "has_metrics", "alone"), "alone": allowFilter("!event.check && !event.has_check")})
	r := startDispatcher(t, Options{Store: openSQLiteStore(t), Names: n, Pipelines: PipelineOptions{Table: table}})
	x := pipelineInput(1, 0)
	x.Source, x.Definition, x.Observation.Check, x.Observation.Definition = model.CheckSource(model.MetricsCheck), model.BuiltinDefinitionID(model.MetricsCheck), model.MetricsCheck, model.BuiltinDefinitionID(model.MetricsCheck)
	x.Observation.Extra = wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 1.5}}, Pipelines: []string{"sensu-influx", "sensu-gone"}})
	r.Emit([]event.Transition{x})
	var e map[string]any
	testenv.NoError(t, json.Unmarshal([]byte(receiveFrom(t, "the values", got).body), &e))
	if e["check"] != nil || e["metrics"] == nil || e["entity"] == nil {
		t.Errorf("%+v", e)
	}
	r.waitRecorded(positionAt(1))
	if v, _ := r.PipelineDecisions(10, model.MetricsCheck); len(v.List) != 2 || !v.List[0].Pass || v.List[1].Pass {
		t.Errorf("%+v", v)
	}
}

// TestOutputMutatorDropsMetricsWithoutCheck sends metrics without a check to a workflow with only_check_output, and
// expects no message, as in Sensu.
func TestOutputMutatorDropsMetricsWithoutCheck(t *testing.T) {
	n, got := newWebhookDirectory(t, "carbon", nil)
	table := pipelineTable(t, map[string]model.Spec{"sensu-carbon": pipelineOf("carbon", model.MutatorOnlyOutput)})
	r := startDispatcher(t, Options{Store: openSQLiteStore(t), Names: n, Pipelines: PipelineOptions{Table: table}})
	x := pipelineInput(1, 0)
	x.Source, x.Definition, x.Observation.Check, x.Observation.Definition = model.CheckSource(model.MetricsCheck), model.BuiltinDefinitionID(model.MetricsCheck), model.MetricsCheck, model.BuiltinDefinitionID(model.MetricsCheck)
	x.Observation.Extra = wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 1.5}}, Pipelines: []string{"sensu-carbon"}})
	r.Emit([]event.Transition{x})
	r.waitRecorded(positionAt(1))
	if v, _ := r.PipelineDecisions(10, model.MetricsCheck); len(v.List) != 1 || v.List[0].Pass || !strings.Contains(v.List[0].Reason, "no check") || len(got) != 0 {
		t.Errorf("%+v", v)
	}
}

// TestSilenceUntilResolvedPassesTheResolution silences a failing check, and expects pipelines to pass the
// recovery if the silence ends then. The filter not_silenced passes only the end under a silence with
// untilResolved, as in Sensu.
func TestSilenceUntilResolvedPassesTheResolution(t *testing.T) {
	for _, untilResolved := range []bool{true, false} {
		n, _ := newWebhookDirectory(t, "pager", nil)
		n.definition.Handlers, n.definition.Pipelines = nil, []string{"alerts"}
		table := pipelineTable(t, map[string]model.Spec{"alerts": pipelineOf("pager", "", "not_silenced", "open"), "open": allowFilter("!event.is_silenced")})
		silences := route.NewTable()
		testenv.NoError(t, silences.Apply([]route.Declaration{{Kind: "Silence", Name: routeName("known"), Spec: &model.SilenceSpec{UntilResolved: untilResolved, Reason: "known"}}}))
		r := startDispatcher(t, Options{Store: openSQLiteStore(t), Names: n, Pipelines: PipelineOptions{Table: table}, Routing: RoutingOptions{Table: silences}})
		for i, c := range []struct {
			input event.Transition
			pass  bool
		}{{pipelineInput(1, 2), false}, {pipelineInput(2, 2, 0), untilResolved}, {pipelineInput(3, 2, 0, 0), false}} {
			r.Emit([]event.Transition{c.input})
			r.waitRecorded(positionAt(uint64(i + 1)))
			if v, _ := r.PipelineDecisions(10, 1001); len(v.List) != 1 || v.List[0].Pass != c.pass {
				t.Errorf("untilResolved %t, event %d: %+v", untilResolved, i+1, v.List)
			}
		}
	}
}

// TestFailedExpressionIsReported uses filter expressions that fail or never end, and expects other work to continue
// without delay. Each expression gives an error. The verdict reports it, and the event passes.
func TestFailedExpressionIsReported(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", nil)
	n.definition.Handlers, n.definition.Pipelines = nil, []string{"loops", "throws", "gone"}
	table := pipelineTable(t, map[string]model.Spec{
		"loops": pipelineOf("slack", "", "loop"), "loop": allowFilter("for (;;) {}\ntrue"),
		"throws": pipelineOf("slack", "", "throw", "never"), "throw": allowFilter("event.nothing.there"), "never": allowFilter("false"),
	})
	store := openSQLiteStore(t)
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}})
	r.Emit([]event.Transition{pipelineInput(1, 2), openingTransition("p1", 2)})
	if body := receiveFrom(t, "the event that loops", got).body; !strings.Contains(body, "result 1") {
		t.Error(body)
	}
	r.waitRecorded(positionAt(2))
	v, _ := r.PipelineDecisions(10, 1001)
	if len(v.List) != 3 || len(v.List[0].Failed) != 1 || !v.List[0].Pass || !strings.Contains(v.List[0].Failed[0], "longer than 100ms") ||
		v.List[1].Pass || v.List[1].Filter != "never" || !strings.Contains(v.List[1].Failed[0], "Cannot read property") ||
		v.List[2].Pass || !strings.Contains(v.List[2].Reason, "there is no pipeline default/gone") {
		t.Errorf("%+v", v.List)
	}
	// Many of them: history does not wait.
	const many = 300
	var ts []event.Transition
	for i := range uint64(many) {
		ts = append(ts, pipelineInput(3+2*i, 2, 2), statusTransition(1, 4+2*i, 0))
	}
	r.Emit(ts)
	testenv.NoError(t, r.consumer.awaitRecorded(t.Context(), positionAt(3+2*many)))
	r.waitRecorded(positionAt(3 + 2*many))
	for range many {
		receiveFrom(t, "an event", got)
	}
}

// TestHandlersGetTheOutputOfMutators expects a handler's command to get the output of the workflow's mutator. A
// mutator that fails finally makes a dead letter.
func TestHandlersGetTheOutputOfMutators(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", nil)
	n.definition.Handlers, n.definition.Pipelines = nil, []string{"output", "command", "javascript"}
	table := pipelineTable(t, map[string]model.Spec{
		"output": pipelineOf("slack", "only_check_output"), "command": pipelineOf("slack", "upper"), "javascript": pipelineOf("slack", "short"),
		"upper": &model.MutatorSpec{Command: &model.Command{Shell: `tr a-z A-Z | head -c "$N"`}, Env: map[string]string{"N": "7"}},
		"short": &model.MutatorSpec{Javascript: "if (event.check.status == 1) { throw 'no' }\nreturn event.entity.name + ':' + event.check.output"},
	})
	store := openSQLiteStore(t)
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Retry: Retry{First: time.Millisecond, Most: time.Millisecond}}})
	r.Emit([]event.Transition{pipelineInput(1, 2)})
	for _, want := range []string{"result 1", `{"CHECK`, "web01:result 1"} {
		if p := receiveFrom(t, want, got); p.body != want {
			t.Errorf("%q, want %q", p.body, want)
		}
	}
	n.change(func() { n.definition.Pipelines = []string{"javascript"} })
	r.Emit([]event.Transition{pipelineInput(2, 1)})
	for a := receiveFrom(t, "the end of it", store.attempts); a.State != history.Dead; a = receiveFrom(t, "the end of it", store.attempts) {
		if a.State == history.Pending {
			t.Errorf("%+v", a)
		}
	}
	dead, err := store.DeadLetters(t.Context(), history.HandlerRef{Namespace: "default", Name: "slack"}, 0, 10)
	if err != nil || len(dead) != 1 || !strings.Contains(dead[0].LastError, "mutator default/short: the expression failed: no") {
		t.Errorf("%+v, %v", dead, err)
	}
}

// TestSlowMutatorIsRetried checks that a message is tried again when its JavaScript mutator exceeds the time limit.
func TestSlowMutatorIsRetried(t *testing.T) {
	n, _ := newWebhookDirectory(t, "slack", nil)
	n.definition.Handlers, n.definition.Pipelines = nil, []string{"slow"}
	table := pipelineTable(t, map[string]model.Spec{"slow": pipelineOf("slack", "endless"), "endless": &model.MutatorSpec{Javascript: "for (;;) {}"}})
	store := openSQLiteStore(t)
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Retry: Retry{First: 10 * time.Millisecond, Most: 10 * time.Millisecond}}})
	r.Emit([]event.Transition{pipelineInput(1, 2)})
	for _, want := range []string{"stopped: it took longer than 100ms", "stopped: ", "stopped: ", "suspended: it took longer than 100ms 3 times in a row"} { // a slow mutator is suspended
		store.expectAttempt(t, history.Pending, want)
	}
}

// TestMutatorSecretsAreNotRecorded checks that a secret in a mutator's output reaches the handler but no database
// record.
func TestMutatorSecretsAreNotRecorded(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", func(webhookRequest) int { return 400 })
	n.definition.Handlers, n.definition.Pipelines = nil, []string{"keyed", "broken"}
	secret := []model.CommandSecret{{Env: "KEY", Secret: "key"}}
	table := pipelineTable(t, map[string]model.Spec{
		"keyed": pipelineOf("slack", "key"), "key": &model.MutatorSpec{Command: &model.Command{Shell: `echo "key $KEY"`}, Secrets: secret},
		"broken": pipelineOf("slack", "break"), "break": &model.MutatorSpec{Command: &model.Command{Shell: `echo "key $KEY" >&2; exit 1`}, Secrets: secret},
	})
	store := openSQLiteStore(t)
	secretText := func(_ context.Context, namespace, name string) (string, error) {
		return "s3cret-" + namespace + "-" + name, nil
	}
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Options: handler.Options{Secret: secretText}}})
	r.Emit([]event.Transition{pipelineInput(1, 2)})
	if p := receiveFrom(t, "the event", got); p.body != "key s3cret-default-key\n" {
		t.Errorf("%q", p.body)
	}
	for range 2 {
		if a := receiveFrom(t, "an outcome", store.attempts); a.Error == "" || strings.Contains(a.Error, "s3cret") {
			t.Errorf("%+v", a)
		}
	}
	list, err := store.Deliveries(t.Context(), "event-10-1001")
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, d := range list {
		if text := fmt.Sprintf("%s %s %+v", d.Payload, d.LastError, d); strings.Contains(text, "s3cret") {
			t.Error(text)
		}
	}
}

// TestOverflowedPipelineQueueLosesNoEvent overflows the pipeline queue, and expects no lost event. The dropped events
// are computed again from the journal.
func TestOverflowedPipelineQueueLosesNoEvent(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", nil)
	n.definition.Handlers, n.definition.Pipelines = nil, []string{"all"}
	table := pipelineTable(t, map[string]model.Spec{"all": pipelineOf("slack", "only_check_output")})
	var all []event.Transition
	for i := range uint64(200) {
		all = append(all, pipelineInput(1+i, 2))
	}
	j := &memoryJournal{commits: map[uint64][]event.Transition{}, reading: func() error { return nil }}
	j.add(all...)
	r := startDispatcher(t, Options{Store: openSQLiteStore(t), Names: n, Pipelines: PipelineOptions{Table: table}, Batches: BatchOptions{Capacity: 4000}, Rederive: j.beginReplay})
	for i := range all {
		r.Emit(all[i : i+1])
	}
	testenv.Until(t, "all is seen", func() bool { return r.pipeline.backlog.depth() == 0 && !r.pipeline.backlog.needsReplay() })
	r.waitRecorded(positionAt(200))
	seen := map[string]bool{}
	for range all {
		seen[receiveFrom(t, "an event", got).key] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d", len(seen), len(all))
	}
}

// TestKeepalivesPassPipelinesOfTheirNode expects keepalive events to be evaluated by the pipelines that the node
// names. Like a check with pipelines, it notifies no handler of the namespace.
func TestKeepalivesPassPipelinesOfTheirNode(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", nil)
	n.defaults = []string{"slack"}
	n.keepalive = func(c *model.CheckDefinition) { c.Namespace, c.Pipelines = 1, []string{"alerts"} }
	store := openSQLiteStore(t)
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: pipelineTable(t, map[string]model.Spec{"alerts": pipelineOf("slack", "", "is_incident")})}})
	of := func(x event.Transition, number uint64) event.Transition {
		x.At, x.Source, x.Definition = positionAt(number), model.CheckSource(model.KeepaliveCheck), model.BuiltinDefinitionID(model.KeepaliveCheck)
		if x.Problem != nil {
			p := *x.Problem
			p.Source, p.Definition, x.Problem = x.Source, x.Definition, &p
		}
		return x
	}
	down, gone, back := of(pipelineInput(1, 0, 2), 1), of(openingTransition("p1", 1), 1), of(pipelineInput(2, 0, 2, 0), 2)
	r.Emit([]event.Transition{gone, down, back})
	for _, want := range []string{"result 1", "result 2"} {
		if body := receiveFrom(t, want, got).body; !strings.Contains(body, want) || !strings.Contains(body, `"interval":60`) {
			t.Errorf("%s, want %s", body, want)
		}
	}
	r.waitRecorded(positionAt(2))
	if list, err := store.Deliveries(t.Context(), "p1"); err != nil || len(list) != 0 {
		t.Errorf("the namespace's handler is notified too: %+v, %v", list, err)
	}
	// Without pipelines nobody remembers a verdict, and the handlers that the node names are notified.
	n.change(func() {
		n.defaults, n.keepalive = nil, func(c *model.CheckDefinition) { c.Namespace, c.Handlers = 1, []string{"slack"} }
	})
	other := of(openingTransition("p2", 3), 3)
	other.Node, other.Problem.NodeID = 11, 11
	seen := of(pipelineInput(3, 0, 2), 3)
	seen.Node = 11
	r.Emit([]event.Transition{other, seen})
	if body := receiveFrom(t, "the node's handler", got).body; !strings.Contains(body, `"p2"`) {
		t.Error(body)
	}
	r.waitRecorded(positionAt(3))
	if v, ok := r.PipelineDecisions(11, model.KeepaliveCheck); ok {
		t.Errorf("%+v", v)
	}
}

// TestDeregistrationHandlersGetSensusEvent removes a node with a pipeline handler, and expects Sensu's event for the
// deregistration. The event has the entity that the agent reported, and Muster's own notification is not sent.
func TestDeregistrationHandlersGetSensusEvent(t *testing.T) {
	n, got := newWebhookDirectory(t, "cmdb", nil)
	store := openSQLiteStore(t)
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: pipelineTable(t, map[string]model.Spec{"sensu-cmdb": pipelineOf("cmdb", "", "is_incident"), "sensu-registration": pipelineOf("cmdb", "")})}})
	left := event.Transition{
		At: positionAt(1), Partition: 1, Kind: event.Deregistered, Node: 10, Source: model.CheckSource(model.KeepaliveCheck), Definition: model.BuiltinDefinitionID(model.KeepaliveCheck), Received: testTime.UnixNano(), Executed: testTime.UnixNano(),
		Deregistered: &wire.ForgetRecord{Deleted: true, Deregistered: "default/web01", Handlers: "default/cmdb", Reason: "no session for 1h", Entity: `{"entity_class":"agent","labels":{"rack":"a"}}`},
	}
	seen := left
	seen.Kind, seen.Observation = event.Observed, &event.Observation{State: event.State{Status: model.Warning, Received: left.Received, Executed: left.Executed}}
	r.Emit([]event.Transition{left, seen})
	body := receiveFrom(t, "the deregistration", got).body
	for _, want := range []string{`"name":"deregistration"`, `"entity_class":"agent"`, `"rack":"a"`, `"status":1`, `"handlers":["cmdb"]`, `"name":"web01"`, `"metadata":{},"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %s", want, body)
		}
	}
	joined := seen
	joined.At, joined.Registered, joined.Deregistered = positionAt(2), true, nil
	r.Emit([]event.Transition{joined})
	if body := receiveFrom(t, "the registration", got).body; !strings.Contains(body, `"name":"registration"`) || !strings.Contains(body, `"handlers":["registration"]`) {
		t.Error(body)
	}
	r.waitRecorded(positionAt(1))
	if list, err := store.Deliveries(t.Context(), "left-10"); err != nil || len(list) != 0 {
		t.Errorf("the handler gets a notification too: %+v, %v", list, err)
	}
}
