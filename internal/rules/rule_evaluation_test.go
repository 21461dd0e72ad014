package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testEngine is a test setup with a rules engine, a real series store and simulated events. Nodes and events are simulated.
// It applies the records of the engine as the views of a server do.
type testEngine struct {
	t       testing.TB
	store   series.Store
	now     time.Time
	nodes   map[string]model.NodeID
	spec    model.RuleGroupSpec
	units   []*directory.Unit
	changed int64
	events  map[eventKey]event.State
	changes []string // verdicts as text
	fail    error    // of the next records
	engine  *Engine
	of      *evaluator // of the namespace of the test's rule group
}

// newTestEngine returns a test engine with nodes web1 and web2 and one group of rules.
func newTestEngine(t *testing.T, spec model.RuleGroupSpec) *testEngine {
	store, err := series.Open(t.TempDir(), series.Options{LateWindow: 24 * time.Hour, Range: 2 * time.Hour})
	testenv.NoError(t, err)
	t.Cleanup(func() { testenv.NoError(t, store.Close()) })
	r := &testEngine{t: t, store: store, now: time.Unix(0, 0), nodes: map[string]model.NodeID{"web1": 11, "web2": 12}, events: map[eventKey]event.State{}}
	r.declare(spec)
	r.start()
	return r
}

// declare puts a new version of the test's rule group into the test directory.
func (r *testEngine) declare(spec model.RuleGroupSpec) {
	r.changed++
	c := model.CompileRuleGroup(model.Definition{ID: model.DefinitionID(r.changed), Unit: 7, Name: "load"}, &spec)
	r.spec = spec
	r.units = []*directory.Unit{{ID: 7, Kind: directory.RuleGroupKind, Name: route.Name{Namespace: "default", Name: "load"}, Definition: c.ToDefinition(), Disabled: spec.Disabled}}
}

// start starts a new rules engine in place of the old, to simulate a restart of the server.
func (r *testEngine) start() {
	r.engine = New(r.options())
	r.of = r.engine.declareGroups(r.units, true)[0]
	testenv.NoError(r.t, r.of.reloadGroups(r.t.Context(), r.units))
}

// options returns the settings of the test's rules engine.
func (r *testEngine) options() Options {
	return Options{
		Series:    func(string) storage.Queryable { return r.store },
		Groups:    func() []*directory.Unit { return r.units },
		Directory: r, Intent: r, CatchUp: func(context.Context) error { return nil },
		Events: func(context.Context, event.Query) (event.Page, error) {
			return event.Page{States: slices.Collect(maps.Values(r.events))}, nil
		},
		RecordSamples: r.recordSamples, RecordVerdicts: r.applyEventChanges, Now: func() time.Time { return r.now },
	}
}

// Revision returns a number that grows with each change of the test's resources.
func (r *testEngine) Revision() int64 { return r.changed }

// NodeByName returns the id of a node that the test has declared.
func (r *testEngine) NodeByName(_, name string) (model.NodeID, bool) {
	id, ok := r.nodes[name]
	return id, ok
}

// Node returns the node with the given id among the nodes that the test has declared.
func (r *testEngine) Node(model.NodeID) *directory.Node { return &directory.Node{UID: uuid.UUID{1}} }

// Apply creates, in the test's directory, the proxy nodes that the rules engine asks for.
func (r *testEngine) Apply(_ context.Context, _ intent.Actor, list []model.Resource, _ intent.ApplyOptions) (intent.ApplyResult, error) {
	for i := range list {
		r.nodes[list[i].Metadata.Name] = model.NodeID(100 + len(r.nodes))
	}
	return intent.ApplyResult{}, nil
}

// recordSamples inserts the engine's recorded samples into the series store of the test.
func (r *testEngine) recordSamples(_ context.Context, entries []journal.Entry) error {
	if r.fail != nil {
		return r.fail
	}
	for _, e := range entries {
		var record wire.Record
		testenv.NoError(r.t, record.Decode(e.Data))
		var reader wire.SampleReader
		testenv.NoError(r.t, reader.Reset(record.Samples.Block))
		for reader.Next() {
			b := labels.NewScratchBuilder(8)
			for _, l := range reader.Labels {
				b.Add(l.Name, l.Value)
			}
			var s series.Series
			for _, x := range reader.Samples {
				r.store.Insert(model.Partition(e.Section), &s, b.Labels(), x.Ms, x.Value)
			}
		}
		testenv.NoError(r.t, reader.Err())
	}
	return nil
}

// applyEventChanges applies the engine's changes of events to the simulated events.
func (r *testEngine) applyEventChanges(_ context.Context, list []metric.Verdict, _ []model.Partition) error {
	if r.fail != nil {
		return r.fail
	}
	for i := range list {
		v, key := &list[i], eventKey{list[i].Node, list[i].Trigger}
		text := fmt.Sprintf("%s node %d %s", time.Unix(0, v.Executed).Sub(time.Unix(0, 0)), v.Node, v.Trigger)
		switch {
		case v.Removed:
			delete(r.events, key)
			text += " removed"
		case v.Problem:
			r.events[key] = event.State{Node: v.Node, Check: 7, Instance: v.Trigger, Status: model.Critical, Severity: v.Severity}
			text += fmt.Sprintf(" %s: %s", v.Severity, v.Output)
		default:
			r.events[key] = event.State{Node: v.Node, Check: 7, Instance: v.Trigger}
			text += " resolved"
		}
		r.changes = append(r.changes, text)
	}
	return nil
}

// insert adds a value to a series of the test at the present time.
func (r *testEngine) insert(name, node string, value float64) {
	var s series.Series
	l := labels.FromStrings("__name__", name, "namespace", "default", "node", node)
	r.store.Insert(3, &s, l, r.now.UnixMilli(), value)
}

// evaluate evaluates the rule group of the test at the present time.
func (r *testEngine) evaluate() {
	g := r.engine.Groups()[0]
	g.due = r.now
	r.of.evaluate(r.t.Context(), g)
}

// query evaluates a PromQL expression at the present time, and returns the series as text.
func (r *testEngine) query(expr string) (list []string) {
	v, err := promrules.EngineQueryFunc(r.engine.query, r.store)(r.t.Context(), expr, r.now)
	testenv.NoError(r.t, err)
	for _, s := range v {
		list = append(list, fmt.Sprintf("%s %v", s.Metric, s.F))
	}
	slices.Sort(list)
	return list
}

// step is the interval of the groups of the tests. A value of TestRulesAgreeWithPrometheus comes each 15 s, so that none is exactly
// as old as the lookback: Prometheus 2 finds such a value, Prometheus 3 does not.
const step = 14 * time.Second

// groupOfRules returns a test rule group that contains each form of recording and alerting rules.
func groupOfRules() model.RuleGroupSpec {
	return model.RuleGroupSpec{Interval: model.Duration(step), Rules: []model.Rule{
		{Record: "site:load:avg", Expr: "avg(load)"},
		{Record: "site:load:twice", Expr: "site:load:avg * 2", Labels: map[string]string{"kind": "twice"}},
		{Alert: "LoadIsHigh", Expr: "load > 4", For: model.Duration(2 * step), Labels: map[string]string{"severity": "critical"}, Annotations: map[string]string{"summary": "load {{ $value }} on {{ $labels.node }}"}},
		{Alert: "AverageIsHigh", Expr: "site:load:avg > 3", KeepFiringFor: model.Duration(2 * step), Annotations: map[string]string{"summary": "{{ $value | humanize }}"}},
		{Alert: "Absent", Expr: "absent(load)", Labels: map[string]string{"severity": "info"}},
	}}
}

// loads has the values of load by step; web2 ends early.
var loads = map[string][]float64{
	"web1": {1, 2, 5, 6, 7, 5, 1, 1, 9, 1, 1, 1, 1, 1, 8, 8, 8, 8, 8, 1, 1, 1},
	"web2": {1, 1, 1, 5, 5, 1, 9},
}

// TestRulesAgreeWithPrometheus evaluates rules in Muster and in Prometheus's promtool, and expects equal series and
// alerts. The rules have every form; each step is compared.
func TestRulesAgreeWithPrometheus(t *testing.T) {
	promtool := testenv.Program(t, "promtool", "prometheus")
	r := newTestEngine(t, groupOfRules())
	type sample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
	type exprTest struct {
		Expr     string   `json:"expr"`
		EvalTime string   `json:"eval_time"`
		Samples  []sample `json:"exp_samples"`
	}
	type alertTest struct {
		EvalTime string           `json:"eval_time"`
		Name     string           `json:"alertname"`
		Alerts   []map[string]any `json:"exp_alerts"`
	}
	var exprs []exprTest
	var alerts []alertTest
	const expr = `{__name__=~"site:.+|ALERTS|ALERTS_FOR_STATE"}`
	compared, sent := 0, time.Duration(0)
	for i := range 50 { // beyond the end of all series, and the lookback
		r.now = time.Unix(0, 0).Add(time.Duration(i) * step)
		at := r.now
		for ; sent*15*time.Second <= time.Duration(i)*step; sent++ {
			for node, values := range loads {
				if r.now = time.Unix(0, 0).Add(sent * 15 * time.Second); int(sent) < len(values) {
					r.insert("load", node, values[sent])
				}
			}
		}
		r.now = at
		r.evaluate()
		elapsed := fmt.Sprint(time.Duration(i) * step)
		v, err := promrules.EngineQueryFunc(r.engine.query, r.store)(t.Context(), expr, r.now)
		testenv.NoError(t, err)
		one := exprTest{Expr: expr, EvalTime: elapsed, Samples: []sample{}}
		for _, s := range v {
			one.Samples = append(one.Samples, sample{s.Metric.String(), s.F})
		}
		exprs, compared = append(exprs, one), compared+len(v)
		for _, rule := range r.engine.Groups()[0].AlertingRules() {
			test := alertTest{EvalTime: elapsed, Name: rule.Name(), Alerts: []map[string]any{}}
			for _, a := range rule.ActiveAlerts() {
				if a.State == promrules.StateFiring {
					l := a.Labels.Map()
					delete(l, "alertname")
					test.Alerts = append(test.Alerts, map[string]any{"exp_labels": l, "exp_annotations": a.Annotations.Map()})
				}
			}
			alerts, compared = append(alerts, test), compared+len(test.Alerts)
		}
	}
	if compared < 200 {
		t.Fatalf("only %d series and alerts to compare", compared)
	}
	var inputs []map[string]string
	for node, values := range loads {
		inputs = append(inputs, map[string]string{"series": fmt.Sprintf(`load{namespace="default",node=%q}`, node), "values": strings.Trim(fmt.Sprint(values), "[]")})
	}
	spec := groupOfRules()
	for i := range spec.Rules { // the server adds this label
		spec.Rules[i].Labels = maps.Collect(maps.All(promrules.FromMaps(spec.Rules[i].Labels, map[string]string{"namespace": "default"}).Map()))
	}
	dir := t.TempDir()
	write := func(name string, v any) string {
		data, err := json.Marshal(v)
		testenv.NoError(t, err)
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		return filepath.Join(dir, name)
	}
	write("rules.yml", map[string]any{"groups": []any{map[string]any{"name": "load", "interval": spec.Interval, "rules": spec.Rules}}})
	tests := write("tests.yml", map[string]any{"rule_files": []string{"rules.yml"}, "evaluation_interval": step.String(), "tests": []any{map[string]any{
		"interval": "15s", "input_series": inputs, "promql_expr_test": exprs, "alert_rule_test": alerts,
	}}})
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", tests).CombinedOutput()
	if err != nil {
		t.Errorf("promtool: %v\n%.3000s", err, out)
	}
}

// TestAlertsChangeEvents evaluates alerts with and without server restarts, and expects the same changes of events.
func TestAlertsChangeEvents(t *testing.T) {
	play := func(t *testing.T, restartAfter ...int) []string {
		r := newTestEngine(t, groupOfRules())
		for i := range 90 {
			r.now = time.Unix(0, 0).Add(time.Duration(i) * step)
			r.insert("load", "web1", append(loads["web1"], slices.Repeat([]float64{1}, 90)...)[i])
			r.evaluate()
			if slices.Contains(restartAfter, i) {
				r.start()
			}
		}
		return r.changes
	}
	whole := play(t)
	want := []string{
		`28s node 102 AverageIsHigh{} warning: 5`,
		`56s node 11 LoadIsHigh{severity="critical"} high: load 7 on web1 (node=web1 severity=critical)`,
	}
	if !slices.Equal(whole[:2], want) {
		t.Errorf("changes begin with %q, expected %q", whole, want)
	}
	if last := whole[len(whole)-1]; !strings.HasSuffix(last, "removed") {
		t.Errorf("the last change is %q: events of alerts that ended remain", last)
	}
	// A restart while problems are open opens none again. It may close them one evaluation later, and forgets alerts that ended.
	withoutTimes := func(list []string) (short []string) {
		for _, change := range list {
			if _, text, _ := strings.Cut(change, " "); !strings.HasSuffix(text, "removed") {
				short = append(short, text)
			}
		}
		return short
	}
	for _, at := range []int{4, 5, 8, 17} {
		if again := play(t, at); !slices.Equal(withoutTimes(again), withoutTimes(whole)) {
			t.Errorf("restarted at step %d:\n%s\nnot restarted:\n%s", at, strings.Join(again, "\n"), strings.Join(whole, "\n"))
		}
	}
}

// TestEditsAndFailures edits a rule group while its alerts fire, and expects the right changes of events. Rules and
// journal records also fail.
func TestEditsAndFailures(t *testing.T) {
	r := newTestEngine(t, groupOfRules())
	tick := func(value float64) {
		r.now = r.now.Add(step)
		r.insert("load", "web1", value)
		r.evaluate()
	}
	open := func() (list []string) {
		for key, st := range r.events {
			if st.Status != model.OK {
				list = append(list, key.instance)
			}
		}
		slices.Sort(list)
		return list
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := open(); !slices.Equal(got, want) {
			t.Fatalf("%s: open problems %q, expected %q", what, got, want)
		}
	}
	refresh := func() { testenv.NoError(t, r.of.reloadGroups(t.Context(), r.units)) }
	r.fail = errors.New("disk full")
	for range 4 {
		tick(9)
	}
	if g := r.engine.Groups()[0]; len(r.changes) > 0 || g.Rules()[0].LastError() == nil {
		t.Fatalf("the journal refuses records, but rules work: %q", r.changes)
	}
	r.fail = nil
	tick(9)
	tick(9)
	expect("the journal works again", "AverageIsHigh{}", `LoadIsHigh{severity="critical"}`)
	// A failing expression closes no problem.
	spec := groupOfRules()
	spec.Rules[2].Expr = "load > 4 and on() (load * on(nosuch) group_left count(load) by (node, nosuch))"
	spec.Limit = 1
	r.declare(spec)
	refresh()
	r.insert("load", "web2", 9)
	tick(9)
	if rule := r.engine.Groups()[0].Rules()[2]; rule.Health() != promrules.HealthBad {
		t.Fatalf("the rule is %s: %v", rule.Health(), rule.LastError())
	}
	expect("a rule fails", "AverageIsHigh{}", `LoadIsHigh{severity="critical"}`)
	// A removed rule loses its alerts.
	spec = groupOfRules()
	spec.Rules = spec.Rules[:3]
	r.declare(spec)
	refresh()
	tick(9)
	expect("a rule was removed", `LoadIsHigh{severity="critical"}`)
	// A disabled group loses all, and its series end.
	spec.Disabled, r.now = true, r.now.Add(time.Second)
	r.declare(spec)
	refresh()
	if len(r.events) > 0 || len(r.query(`ALERTS`)) > 0 || len(r.engine.Groups()) > 0 {
		t.Errorf("a disabled group has events %v and series %q", r.events, r.query("ALERTS"))
	}
}

// TestMissedEvaluations makes one rule evaluation slow, and expects the next due evaluations to be skipped. Skipped
// evaluations are counted.
func TestMissedEvaluations(t *testing.T) {
	r := newTestEngine(t, groupOfRules())
	g := r.engine.Groups()[0]
	first := g.due
	r.now = first.Add(3*step + time.Second)
	r.of.evaluate(t.Context(), g)
	if g.Missed() != 3 || !g.due.Equal(first.Add(4*step)) || !g.GetLastEvalTimestamp().Equal(first.Add(3*step)) {
		t.Errorf("missed %d, next at %s, last at %s", g.Missed(), g.due, g.GetLastEvalTimestamp())
	}
}

// TestUnboundedTemplatesAreNotEvaluated declares a rule group whose template may need all memory, and expects a
// refusal of the group. It expects that the engine does not have the group.
func TestUnboundedTemplatesAreNotEvaluated(t *testing.T) {
	for _, template := range []string{`{{ $a := $labels.node }}` + strings.Repeat(`{{ $a = print $a $a }}`, 60), "{{ range 1000000000 }}{{ end }}"} {
		spec := groupOfRules()
		spec.Rules[2].Annotations["summary"] = template
		if r := newTestEngine(t, spec); len(r.engine.Groups()) != 0 {
			t.Errorf("%.30s: the engine has the group", template)
		}
	}
}

// TestInstances converts alerts to names for their events, and expects names that people can type in commands. No
// instance may look like the name of a trigger.
func TestInstances(t *testing.T) {
	for want, l := range map[string]labels.Labels{
		`High{}`:                           labels.FromStrings("alertname", "High", "namespace", "default", "node", "web1"),
		`High{disk="/", severity="page"}`:  labels.FromStrings("alertname", "High", "severity", "page", "disk", "/", "node", "web1"),
		`High{labels="45b3db4fbfbc6a30"}`:  labels.FromStrings("alertname", "High", "path", strings.Repeat("x", 200)),
		`Very long name{a="b", c="d{}\""}`: labels.FromStrings("alertname", "Very long name", "a", "b", "c", `d{}"`),
	} {
		got := instanceOf(l, "node")
		if strings.Contains(want, "labels=") {
			got = got[:len(`High{labels="`)] + want[len(`High{labels="`):]
		}
		if got != want || model.InstanceSource(1, got).Kind != model.SourceRule {
			t.Errorf("%s: instance %s, a %s", want, got, model.InstanceSource(1, got).Kind)
		}
	}
	for _, trigger := range []string{"load is high", "{#FSNAME} is full", `over {$MAX:"x"}`, "{HOST.NAME}", "a {b}", ""} {
		if model.IsAlertInstance(trigger) {
			t.Errorf("trigger %q counts as an alert", trigger)
		}
	}
}
