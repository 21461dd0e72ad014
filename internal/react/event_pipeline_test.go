package react

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

// sighting is the event of node 10, check 1001, at a result: statuses are its history, oldest
// first.
func sighting(commit uint64, statuses ...model.Status) event.Transition {
	t := changed(1, commit, 0)
	t.Kind, t.Output = event.Observed, ""
	t.Observation = &event.Observation{State: event.State{Node: 10, Check: 1001, Chunk: 3, Namespace: 1, Received: t.Received, Executed: t.Executed,
		Changed: noon.UnixNano(), Output: fmt.Sprintf("result %d", commit), StatusHistory: event.StatusHistory{HistoryLen: uint8(len(statuses))}, Occurrences: 1}}
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

// kept puts pipelines in force.
func pipelineTable(t *testing.T, specs map[string]model.Spec) *pipes.Table {
	t.Helper()
	table := pipes.NewTable()
	for name, spec := range specs {
		if err := table.Apply([]route.Declaration{{Name: route.Name{Namespace: "default", Name: name}, Spec: spec}}); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func one(handler string, mutator string, filters ...string) *model.PipelineSpec {
	return &model.PipelineSpec{Workflows: []model.Workflow{{Name: "w", Filters: filters, Mutator: mutator, Handler: handler}}}
}

func allow(expression string) *model.FilterSpec {
	return &model.FilterSpec{Action: "allow", Expressions: []string{expression}}
}

// What passes a workflow's filters is what its handler gets, in Sensu's shape, in order; what
// passes none leaves nothing behind but a verdict.
func TestEventsPassPipelines(t *testing.T) {
	hook, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"slack": hook})
	n.chunk.Handlers, n.chunk.Pipelines, n.chunk.Interval = nil, []string{"alerts"}, time.Minute
	n.defaults = []string{"slack"}
	table := pipelineTable(t, map[string]model.Spec{"alerts": one("slack", "", "is_incident", "not_silenced", "odd"), "odd": allow("event.check.occurrences % 2 == 1")})
	store := sqlite(t)
	r := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}})
	x := wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 1.5}}})
	first := sighting(2, 0, 2)
	first.Observation.Extra = x
	r.Emit([]event.Transition{sighting(1, 0), first, opening("p1", 3), sighting(4, 0, 2, 2), sighting(5, 0, 2, 2, 2), sighting(6, 0, 2, 2, 2, 0)})
	for _, want := range []string{"result 2", "result 5", "result 6"} {
		var e struct {
			ID     string
			Entity struct{ Name string }
			Check  struct {
				Output, State string
				Interval      int
				History       []struct{ Status int }
			}
			Metrics *struct{ Points []struct{ Name string } }
		}
		body := receive(t, want, got).body
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatal(err)
		}
		if e.Check.Output != want || e.Entity.Name != "web01" || e.Check.Interval != 60 || len(e.ID) != 36 || (e.Metrics != nil) != (want == "result 2") {
			t.Errorf("%s, want %s", body, want)
		}
	}
	r.recorded(pos(6))
	v, ok := r.Verdicts(10, 1001)
	if !ok || len(v.List) != 1 || !v.List[0].Pass || !v.At.Equal(noon.Add(6*time.Second)) {
		t.Errorf("%+v", v)
	}
	// The problem opened, and nobody else was told of it.
	if list, err := store.Deliveries(t.Context(), "p1"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := store.Deliveries(t.Context(), "event-10-1001"); err != nil || len(list) != 3 || list[0].Kind != "event" {
		t.Errorf("%+v, %v", list, err)
	}
	// A restart shows what the journal brings again, and nothing comes twice.
	for range 3 {
		receive(t, "an outcome", store.tried)
	}
	r.stop()
	again := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}})
	again.Emit([]event.Transition{sighting(1, 0), first, sighting(4, 0, 2, 2), sighting(5, 0, 2, 2, 2), sighting(6, 0, 2, 2, 2, 0), sighting(7, 0, 2, 2, 2, 0, 1)})
	if body := receive(t, "what came since", got).body; !strings.Contains(body, "result 7") {
		t.Error(body)
	}
	again.recorded(pos(7))
	select {
	case p := <-got:
		t.Errorf("a second time: %s", p.body)
	default:
	}
}

// Values of no check reach the pipelines that their result names, of the node's namespace, without a
// check, as Sensu has them.
func TestValuesOfNoCheckPassPipelines(t *testing.T) {
	hook, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"influx": hook})
	table := pipelineTable(t, map[string]model.Spec{"sensu-influx": one("influx", "", "has_metrics", "alone"), "alone": allow("!event.check && !event.has_check")})
	r := run(t, Options{Store: sqlite(t), Names: n, Pipelines: PipelineOptions{Table: table}})
	x := sighting(1, 0)
	x.Source, x.Chunk, x.Observation.Check, x.Observation.Chunk = model.CheckSource(model.MetricsCheck), model.BuiltinChunk(model.MetricsCheck), model.MetricsCheck, model.BuiltinChunk(model.MetricsCheck)
	x.Observation.Extra = wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 1.5}}, Pipelines: []string{"sensu-influx", "sensu-gone"}})
	r.Emit([]event.Transition{x})
	var e map[string]any
	if err := json.Unmarshal([]byte(receive(t, "the values", got).body), &e); err != nil {
		t.Fatal(err)
	}
	if e["check"] != nil || e["metrics"] == nil || e["entity"] == nil {
		t.Errorf("%+v", e)
	}
	r.recorded(pos(1))
	if v, _ := r.Verdicts(10, model.MetricsCheck); len(v.List) != 2 || !v.List[0].Pass || v.List[1].Pass {
		t.Errorf("%+v", v)
	}
}

// One expression that never ends, and one that throws, hold back neither history nor routes;
// the event says which, and passes.
func TestFailedExpressionIsReported(t *testing.T) {
	hook, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"slack": hook})
	n.chunk.Handlers, n.chunk.Pipelines = nil, []string{"loops", "throws", "gone"}
	table := pipelineTable(t, map[string]model.Spec{
		"loops": one("slack", "", "loop"), "loop": allow("for (;;) {}\ntrue"),
		"throws": one("slack", "", "throw", "never"), "throw": allow("event.nothing.there"), "never": allow("false"),
	})
	store := sqlite(t)
	r := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}})
	r.Emit([]event.Transition{sighting(1, 2), opening("p1", 2)})
	if body := receive(t, "the event that loops", got).body; !strings.Contains(body, "result 1") {
		t.Error(body)
	}
	r.recorded(pos(2))
	v, _ := r.Verdicts(10, 1001)
	if len(v.List) != 3 || len(v.List[0].Failed) != 1 || !v.List[0].Pass || !strings.Contains(v.List[0].Failed[0], "longer than 100ms") ||
		v.List[1].Pass || v.List[1].Filter != "never" || !strings.Contains(v.List[1].Failed[0], "Cannot read property") ||
		v.List[2].Pass || !strings.Contains(v.List[2].Reason, "there is no pipeline default/gone") {
		t.Errorf("%+v", v.List)
	}
	// Many of them: history does not wait.
	const many = 300
	var ts []event.Transition
	for i := range uint64(many) {
		ts = append(ts, sighting(3+2*i, 2, 2), changed(1, 4+2*i, 0))
	}
	r.Emit(ts)
	if err := r.lane.awaitRecorded(t.Context(), pos(3+2*many)); err != nil {
		t.Fatal(err)
	}
	r.recorded(pos(3 + 2*many))
	for range many {
		receive(t, "an event", got)
	}
}

// What a mutator makes is what programs get; one that fails for good is a dead letter.
func TestMutators(t *testing.T) {
	hook, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"slack": hook})
	n.chunk.Handlers, n.chunk.Pipelines = nil, []string{"output", "command", "javascript"}
	table := pipelineTable(t, map[string]model.Spec{
		"output": one("slack", "only_check_output"), "command": one("slack", "upper"), "javascript": one("slack", "short"),
		"upper": &model.MutatorSpec{Command: &model.Command{Shell: `tr a-z A-Z | head -c "$N"`}, Env: map[string]string{"N": "7"}},
		"short": &model.MutatorSpec{Javascript: "if (event.check.status == 1) { throw 'no' }\nreturn event.entity.name + ':' + event.check.output"},
	})
	store := sqlite(t)
	r := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Retry: Retry{First: time.Millisecond, Most: time.Millisecond}}})
	r.Emit([]event.Transition{sighting(1, 2)})
	for _, want := range []string{"result 1", `{"CHECK`, "web01:result 1"} {
		if p := receive(t, want, got); p.body != want {
			t.Errorf("%q, want %q", p.body, want)
		}
	}
	n.mu.Lock()
	n.chunk.Pipelines = []string{"javascript"}
	n.mu.Unlock()
	r.Emit([]event.Transition{sighting(2, 1)})
	for a := receive(t, "the end of it", store.tried); a.State != history.Dead; a = receive(t, "the end of it", store.tried) {
		if a.State == history.Pending {
			t.Errorf("%+v", a)
		}
	}
	dead, err := store.DeadLetters(t.Context(), history.HandlerRef{Namespace: "default", Name: "slack"}, 0, 10)
	if err != nil || len(dead) != 1 || !strings.Contains(dead[0].LastError, "mutator default/short: the expression failed: no") {
		t.Errorf("%+v, %v", dead, err)
	}
}

// JavaScript that comes to its time limit is tried again: a server that stood still must not cost a message.
func TestSlowMutatorIsRetried(t *testing.T) {
	spec, _ := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"slack": spec})
	n.chunk.Handlers, n.chunk.Pipelines = nil, []string{"slow"}
	table := pipelineTable(t, map[string]model.Spec{"slow": one("slack", "endless"), "endless": &model.MutatorSpec{Javascript: "for (;;) {}"}})
	store := sqlite(t)
	r := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Retry: Retry{First: 10 * time.Millisecond, Most: 10 * time.Millisecond}}})
	r.Emit([]event.Transition{sighting(1, 2)})
	for _, want := range []string{"stopped: it took longer than 100ms", "stopped: ", "stopped: ", "suspended: it took longer than 100ms 3 times in a row"} { // that one rests
		if a := receive(t, want, store.tried); a.State != history.Pending || !strings.Contains(a.Error, want) {
			t.Errorf("%+v, want one to come with %q", a, want)
		}
	}
}

// What a mutator's secret is comes with the message to its handler, and into no record.
func TestMutatorSecretsAreNotRecorded(t *testing.T) {
	hook, got := hook(t, func(posted) int { return 400 })
	n := someNames(map[string]*model.HandlerSpec{"slack": hook})
	n.chunk.Handlers, n.chunk.Pipelines = nil, []string{"keyed", "broken"}
	secret := []model.CommandSecret{{Env: "KEY", Secret: "key"}}
	table := pipelineTable(t, map[string]model.Spec{
		"keyed": one("slack", "key"), "key": &model.MutatorSpec{Command: &model.Command{Shell: `echo "key $KEY"`}, Secrets: secret},
		"broken": one("slack", "break"), "break": &model.MutatorSpec{Command: &model.Command{Shell: `echo "key $KEY" >&2; exit 1`}, Secrets: secret},
	})
	store := sqlite(t)
	secretText := func(_ context.Context, namespace, name string) (string, error) {
		return "s3cret-" + namespace + "-" + name, nil
	}
	r := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Options: handler.Options{Secret: secretText}}})
	r.Emit([]event.Transition{sighting(1, 2)})
	if p := receive(t, "the event", got); p.body != "key s3cret-default-key\n" {
		t.Errorf("%q", p.body)
	}
	for range 2 {
		if a := receive(t, "an outcome", store.tried); a.Error == "" || strings.Contains(a.Error, "s3cret") {
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

// A queue that overflowed loses nothing: the pass makes again what pipelines did not see.
func TestMissedPipelineEventsAreDerivedAgain(t *testing.T) {
	hook, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"slack": hook})
	n.chunk.Handlers, n.chunk.Pipelines = nil, []string{"all"}
	table := pipelineTable(t, map[string]model.Spec{"all": one("slack", "only_check_output")})
	var all []event.Transition
	for i := range uint64(200) {
		all = append(all, sighting(1+i, 2))
	}
	j := &inMemory{commits: map[uint64][]event.Transition{}, reading: func() error { return nil }}
	j.add(all...)
	r := run(t, Options{Store: sqlite(t), Names: n, Pipelines: PipelineOptions{Table: table}, Batches: BatchOptions{Capacity: 4000}, Rederive: j.beginPass})
	for i := range all {
		r.Emit(all[i : i+1])
	}
	testenv.Until(t, "all is seen", func() bool { return r.pipeline.backlog.depth() == 0 && !r.pipeline.backlog.lags() })
	r.recorded(pos(200))
	seen := map[string]bool{}
	for range all {
		seen[receive(t, "an event", got).key] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d", len(seen), len(all))
	}
}

// A change of a keepalive passes the pipelines that its node names, whatever the builtin check
// is; routes hear of it as of a check with pipelines.
func TestKeepalivesPassPipelines(t *testing.T) {
	hook, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"slack": hook})
	n.defaults = []string{"slack"}
	n.keepalive = func(c *model.CheckChunk) { c.Namespace, c.Pipelines = 1, []string{"alerts"} }
	store := sqlite(t)
	r := run(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: pipelineTable(t, map[string]model.Spec{"alerts": one("slack", "", "is_incident")})}})
	of := func(x event.Transition, number uint64) event.Transition {
		x.At, x.Source, x.Chunk = pos(number), model.CheckSource(model.KeepaliveCheck), model.BuiltinChunk(model.KeepaliveCheck)
		if x.Problem != nil {
			p := *x.Problem
			p.Source, p.Chunk, x.Problem = x.Source, x.Chunk, &p
		}
		return x
	}
	down, gone, back := of(sighting(1, 0, 2), 1), of(opening("p1", 1), 1), of(sighting(2, 0, 2, 0), 2)
	r.Emit([]event.Transition{gone, down, back})
	for _, want := range []string{"result 1", "result 2"} {
		if body := receive(t, want, got).body; !strings.Contains(body, want) || !strings.Contains(body, `"interval":60`) {
			t.Errorf("%s, want %s", body, want)
		}
	}
	r.recorded(pos(2))
	if list, err := store.Deliveries(t.Context(), "p1"); err != nil || len(list) != 0 {
		t.Errorf("the namespace's handler is told besides: %+v, %v", list, err)
	}
	// Without pipelines nobody remembers a verdict, and the handlers that the node names are told.
	n.mu.Lock()
	n.defaults, n.keepalive = nil, func(c *model.CheckChunk) { c.Namespace, c.Handlers = 1, []string{"slack"} }
	n.mu.Unlock()
	other := of(opening("p2", 3), 3)
	other.Node, other.Problem.NodeID = 11, 11
	seen := of(sighting(3, 0, 2), 3)
	seen.Node = 11
	r.Emit([]event.Transition{other, seen})
	if body := receive(t, "the node's handler", got).body; !strings.Contains(body, `"p2"`) {
		t.Error(body)
	}
	r.recorded(pos(3))
	if v, ok := r.Verdicts(11, model.KeepaliveCheck); ok {
		t.Errorf("%+v", v)
	}
}
