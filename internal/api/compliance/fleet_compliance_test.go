package compliance_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/inventory"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestReportSumsEqualFullCount applies random operations, and expects each report's sums to equal a full count. The test
// counts from the list of all directives on nodes.
func TestReportSumsEqualFullCount(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := &randomFleet{Server: apitest.NewServer(t), Rand: rand.New(rand.NewPCG(seed, 0))}
			f.Apply(randomTechniques)
			f.DeclareNodes("default", nil, "n0", "n1", "n2", "n3", "n4")
			f.DeclareNodes("team-a", nil, "m0", "n1")
			done := []string{}
			for i := range 4 {
				done = append(done, f.applyDirective(i), f.applyGroup(i))
			}
			for i := range 4 {
				done = append(done, f.applyPolicy(i))
			}
			for range 80 {
				done = append(done, f.change())
				f.compare(t, done)
			}
		})
	}
}

// randomTechniques has a technique that runs once on a node, and one with blocks that runs several times.
const randomTechniques = `
{kind: Namespace, metadata: {name: team-a}}
---
{kind: Technique, metadata: {name: once, namespace: shared}, spec: {parameters: [{name: word}], methods: [{component: a, filePresent: {path: '/{{ .params.word }}'}}, {component: b, filePresent: {path: /b}}]}}
---
{kind: Technique, metadata: {name: often, namespace: shared}, spec: {multiInstance: true, parameters: [{name: word}], methods: [
  {component: c, filePresent: {path: '/{{ .params.word }}'}},
  {component: worst, reporting: worst-case-weighted-sum, block: [{component: d, filePresent: {path: /d}}, {component: e, filePresent: {path: /e}}, {component: f, filePresent: {path: /f}}]},
  {component: off, reporting: disabled, block: [{component: never, filePresent: {path: /g}}]}]}}
`

// randomFleet is a test server whose declarations, nodes and runs of policy directives change at random.
type randomFleet struct {
	*apitest.Server
	*rand.Rand
	ran []assignedDefinition
}

// assignedDefinition is a compiled version of a policy directive that a node has now or had before.
type assignedDefinition struct {
	node       model.NodeID
	definition *model.DirectiveDefinition
}

// pick returns one of the texts, chosen at random.
func (f *randomFleet) pick(list ...string) string { return list[f.IntN(len(list))] }

// subset returns a random selection from a list of texts, joined by commas.
func (f *randomFleet) subset(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(string) bool { return f.IntN(2) == 0 }), ", ")
}

// applyDirective declares directive number i with random settings, and returns the declaration.
func (f *randomFleet) applyDirective(i int) string {
	text := fmt.Sprintf("{kind: Directive, metadata: {name: d%d, namespace: shared, labels: {even: '%v'}}, spec: {technique: %s, priority: %d, %s, parameters: {word: %s}}}",
		i, i%2 == 0, []string{"once", "once", "often", "often"}[i], f.IntN(3), f.pick("interval: 5m", "interval: 10m", "interval: 5m, heartbeat: 15m", "interval: 10m, rollout: {steps: [40%, g1], wait: 1m}", "cron: '30 * * * *'",
			"oneShot: {}", fmt.Sprintf("oneShot: {from: %q, until: %q}", f.Now().Add(10*time.Minute).UTC().Format(time.RFC3339), f.Now().Add(30*time.Minute).UTC().Format(time.RFC3339))), f.pick("x", "y"))
	f.Apply(text)
	return text
}

// applyPolicy declares policy number i with random targets and directives, and returns the declaration.
func (f *randomFleet) applyPolicy(i int) string {
	text := fmt.Sprintf("{kind: Policy, metadata: {name: p%d, namespace: shared, displayName: 'p%d'}, spec: {directives: [%s], disabled: %v, targets: {groups: [%s], nodes: [%s]}}}", i, f.IntN(1000),
		cmp.Or(f.subset("d0", "d1", "d2", "d3"), "d0"), f.IntN(8) == 0, cmp.Or(f.subset("g0", "g1", "g2", "g3"), "g0"), f.subset("n0", "n1", "n4"))
	f.Apply(text)
	return text
}

// applyGroup declares group number i with random members, and returns the declaration.
func (f *randomFleet) applyGroup(i int) string {
	text := fmt.Sprintf("{kind: Group, metadata: {name: g%d, namespace: shared}, spec: {where: 'node.name in [%s]'}}", i, f.subset(`"n0"`, `"n1"`, `"n2"`, `"n3"`, `"n4"`, `"n5"`, `"m0"`))
	f.Apply(text)
	return text
}

// change makes a random change and returns its description.
func (f *randomFleet) change() string {
	switch f.IntN(15) {
	case 0:
		return f.applyDirective(f.IntN(4))
	case 1:
		return f.applyPolicy(f.IntN(4))
	case 2:
		return f.applyGroup(f.IntN(4))
	case 3:
		text := fmt.Sprintf("{kind: Waiver, metadata: {name: w, namespace: shared}, spec: {directive: d%d, targets: {nodes: [n1]}, reason: old, owner: ada, expires: '%s'}}",
			f.IntN(4), f.Now().Add(time.Hour).Format(time.RFC3339))
		f.Apply(text)
		return text
	case 4:
		mode := f.pick("audit", "enforce")
		f.JoinNodeWith("n5", nil, model.NodeSpec{PolicyMode: mode, Facts: map[string]string{"os": f.pick("a", "b")}})
		return "n5: " + mode
	case 5:
		if f.IntN(3) > 0 {
			return "nothing"
		}
		name := f.pick("n2", "n3", "n5")
		if id, ok := f.Directory.NodeByName("default", name); ok {
			testenv.Value(f.Intent.Retire(context.Background(), intent.Actor{User: "admin"}, []intent.Key{{Kind: "Node", Namespace: "default", Name: name}}, intent.ApplyOptions{Yes: true}))(f.T)
			testenv.NoError(f.T, f.Planner.CatchUp(context.Background()))
			f.ran = slices.DeleteFunc(f.ran, func(r assignedDefinition) bool { return r.node == id })
		}
		return "retire " + name
	case 6, 7:
		d := time.Duration(f.IntN(1200)) * time.Second
		f.Advance(d)
		f.Lag += d // what comes next was received before, until the view has caught up
		if f.IntN(2) == 0 {
			f.Lag = 0
		}
		return fmt.Sprintf("%s, lag %s", d, f.Lag)
	case 8:
		f.Lag -= min(f.Lag, time.Duration(f.IntN(1200))*time.Second)
		return fmt.Sprintf("lag %s", f.Lag)
	case 9:
		f.restart()
		return "restart"
	case 10:
		testenv.NoError(f.T, f.RolloutDriver().AdvanceAll(context.Background()))
		testenv.NoError(f.T, f.Planner.CatchUp(context.Background()))
		return "steps of roll-outs"
	}
	reports := ""
	for range 1 + f.IntN(6) {
		reports += f.report()
	}
	return reports
}

// restart replaces the compliance state by a state restored from snapshots, like a restart of the server.
func (f *randomFleet) restart() {
	before := f.View
	f.View = event.New(shard.New(shard.Options{Definitions: f.Directory.Definition}), event.Options{Emit: func([]event.Transition) {}})
	inventory.New(f.View.Shard)
	f.Compliance = reducer.New(f.View.Shard, nil)
	for i := range model.Partitions {
		p := model.Partition(i)
		body, at := before.Snapshot(p, nil)
		testenv.NoError(f.T, f.View.Restore(p, at, body))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func(view *event.View) { done <- view.Run(ctx) }(f.View)
	f.T.Cleanup(func() {
		cancel()
		testenv.NoError(f.T, <-done)
	})
}

// report records the report about one run of a policy directive. The directive's version is one that the node has now
// or had before.
func (f *randomFleet) report() string {
	nodes := f.Directory.Nodes("")
	node := nodes[f.IntN(len(nodes))]
	for _, d := range f.Directory.AssignmentOf(node).Definitions {
		if c := d.AsDirective(); c != nil {
			f.ran = append(f.ran, assignedDefinition{node, c})
		}
	}
	if len(f.ran) == 0 {
		return "no definition"
	}
	at := len(f.ran) - 1 - f.IntN(min(4, len(f.ran)))
	if f.IntN(4) == 0 {
		at = f.IntN(len(f.ran))
	}
	d := f.ran[at]
	n := len(d.definition.Components)
	codes := policy.NewCodes(n)
	statuses := [...]policy.Status{policy.Compliant, policy.Compliant, policy.Compliant, policy.NonCompliant, policy.Error, policy.Waived, policy.NotApplicable, policy.Missing}
	all := f.IntN(2) == 0
	for i := range n {
		if codes.Set(i, policy.Compliant); !all {
			codes.Set(i, statuses[f.IntN(len(statuses))])
		}
	}
	r := &wire.Report{Components: uint32(n), Codes: codes}
	if f.IntN(8) == 0 {
		r.Exceptions = []wire.ReportException{{Position: uint32(n), Message: "surprise"}}
	}
	f.RecordReport(d.node, d.definition.ID, r)
	return fmt.Sprintf("report of node %d: definition %d %x; ", d.node, d.definition.ID, codes)
}

// get requests a path of the API and decodes the answer.
func (f *randomFleet) get(path string, query url.Values, into any) {
	f.T.Helper()
	request := testenv.Value(http.NewRequest(http.MethodGet, f.URL+path+"?"+query.Encode(), http.NoBody))(f.T)
	request.Header.Set("Authorization", "Bearer "+f.Token)
	answer := testenv.Value(http.DefaultClient.Do(request))(f.T)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		f.T.Fatalf("%s: %s", path, answer.Status)
	}
	testenv.NoError(f.T, json.NewDecoder(answer.Body).Decode(into))
}

// countedRow is a row of a report that the test itself has counted. The test counts from the list of directives on
// nodes.
type countedRow struct {
	total policy.Counts
	nodes map[string]*policy.Counts
}

// countAll counts the compliance by policy, directive, component, node or group from the list of directives. With an
// empty namespace, all nodes count. With the selector even=true only directives with an even number do.
func (f *randomFleet) countAll(by, namespace, selector string) map[string]*countedRow {
	var list, selected v1.ComplianceList
	f.get("/api/v1/compliance", url.Values{"namespace": {namespace}, "limit": {"1000"}, "details": {strconv.FormatBool(by == "component")}}, &list)
	f.get("/api/v1/compliance", url.Values{"namespace": {namespace}, "limit": {"1000"}, "directiveLabels": {selector}}, &selected)
	if selector != "" {
		list.Items = slices.DeleteFunc(list.Items, func(c v1.Compliance) bool {
			return !strings.HasSuffix(c.Directive, "0") && !strings.HasSuffix(c.Directive, "2")
		})
	}
	if len(list.Items) != len(selected.Items) {
		f.T.Errorf("%q selects %d rows, want %d", selector, len(selected.Items), len(list.Items))
	}
	rows := map[string]*countedRow{}
	add := func(name, node string, counts *policy.Counts) {
		r := rows[name]
		if r == nil {
			r = &countedRow{nodes: map[string]*policy.Counts{}}
			rows[name] = r
		}
		r.total.Add(counts)
		if r.nodes[node] == nil {
			r.nodes[node] = &policy.Counts{}
		}
		r.nodes[node].Add(counts)
	}
	for _, c := range list.Items {
		if c.Status == "overridden" {
			continue
		}
		var counts policy.Counts
		for s := range counts {
			counts[s] = c.Counts[policy.Status(s).String()]
		}
		node, _ := f.Directory.NodeByName(c.Namespace, c.Node)
		of, names := c.Namespace+"/"+c.Node, []string{"all"}
		switch by {
		case "node":
			names = append(names, c.Namespace+" "+c.Node)
		case "directive":
			names = append(names, strings.Replace(c.Directive, "/", " ", 1))
		case "component":
			for _, x := range c.Components {
				if name := strings.Replace(c.Directive, "/", " ", 1) + " " + x.Name; x.Name != "off/never" {
					var one policy.Counts
					one[slices.IndexFunc(statusNames, func(status string) bool { return status == x.Status })] = 1
					add(name, of, &one)
				}
			}
		case "group":
			for _, g := range f.Directory.NodeGroups(node) {
				names = append(names, c.Namespace+" "+g)
			}
		case "policy":
			for name := range f.policiesOf(node, c.Directive) {
				names = append(names, "shared "+name)
			}
		}
		for _, name := range names {
			add(name, of, &counts)
		}
	}
	return rows
}

// statusNames has the names of all statuses of a component, by their numbers.
var statusNames = func() (names []string) {
	for s := range policy.Statuses {
		names = append(names, policy.Status(s).String())
	}
	return names
}()

// policiesOf returns the names of the policies that assign a directive to a node.
func (f *randomFleet) policiesOf(node model.NodeID, directive string) map[string]bool {
	found := map[string]bool{}
	for i := range 4 {
		r := testenv.Value(f.Intent.Get(context.Background(), intent.Key{Kind: "Policy", Namespace: "shared", Name: fmt.Sprint("p", i)}))(f.T)
		spec := r.Spec.(*model.PolicySpec)
		if !spec.Disabled && slices.Contains(spec.Directives, strings.TrimPrefix(directive, "shared/")) &&
			slices.Contains(testenv.Value(f.Planner.Inspector().Select("shared", spec.Targets))(f.T), node) {
			found[r.Metadata.Name] = true
		}
	}
	return found
}

// compare compares all reports of the server with the counts from the list of policy directives on nodes.
func (f *randomFleet) compare(t *testing.T, done []string) {
	t.Helper()
	for _, by := range []string{"policy", "directive", "component", "node", "group"} {
		for _, q := range [][2]string{{"", ""}, {"team-a", ""}, {"", "even=true"}} {
			namespace, selector := q[0], q[1]
			var report v1.ComplianceReport
			f.get("/api/v1/reports/compliance", url.Values{"by": {by}, "namespace": {namespace}, "directiveLabels": {selector}}, &report)
			want := f.countAll(by, namespace, selector)
			got := map[string]v1.ComplianceSum{}
			for _, s := range append(report.Items, report.Total) {
				got[strings.TrimSpace(s.Namespace+" "+s.Name+" "+s.Component)] = s
			}
			if len(want) == 0 {
				want["all"] = &countedRow{}
			}
			for name, w := range want {
				if problem := w.difference(got[name], by == "component" && name != "all"); problem != "" {
					t.Errorf("by %s in %q, labels %q: %s: %s: %+v, want %+v", by, namespace, selector, name, problem, got[name], w.total)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("by %s in %q, labels %q: nothing has the rows %+v", by, namespace, selector, got)
			}
		}
	}
	if t.Failed() {
		t.Fatalf("after %s", strings.Join(done, "\n"))
	}
}

// difference returns how a counted row differs from the report's row. The text is empty if both are equal. The row of
// a component has no mean of nodes.
func (w *countedRow) difference(got v1.ComplianceSum, ofComponent bool) string {
	for s, n := range w.total {
		if got.Counts[policy.Status(s).String()] != n {
			return policy.Status(s).String()
		}
	}
	sum, having := 0.0, 0
	for _, c := range w.nodes {
		counted := c.Counted()
		fulfilled := counted[policy.NotApplicable] + counted[policy.Compliant] + counted[policy.Success] + counted[policy.Repaired]
		if total := counted.Total(); total > 0 {
			sum, having = sum+float64(fulfilled)/float64(total), having+1
		}
	}
	mean, err := strconv.ParseFloat(got.NodePercent, 64)
	switch {
	case got.Nodes != len(w.nodes):
		return "nodes"
	case got.Percent != w.total.Compliance(2):
		return "percent"
	case ofComponent && got.NodePercent != "":
		return "percent of nodes of a component"
	case ofComponent:
		return ""
	case (having == 0) != (got.NodePercent == ""):
		return "percent of nodes is absent"
	case having > 0 && (err != nil || math.Abs(mean-100*sum/float64(having)) > 0.006):
		return "percent of nodes"
	}
	return ""
}

// TestSumsOfKnownCases compares the sums in reports of small cases with numbers that are written in the test.
func TestSumsOfKnownCases(t *testing.T) {
	f := &randomFleet{Server: apitest.NewServer(t)}
	f.DeclareNodes("default", nil, "n0", "n1")
	expect := func(what, want string) {
		t.Helper()
		var report v1.ComplianceReport
		f.get("/api/v1/reports/compliance", url.Values{"by": {"node"}}, &report)
		slices.SortFunc(report.Items, func(a, b v1.ComplianceSum) int { return strings.Compare(a.Name, b.Name) })
		got := ""
		for _, s := range append(report.Items, report.Total) {
			got += fmt.Sprint(s.Name, " ", s.Nodes, " ", s.Percent, " ", s.Counts, "; ")
		}
		if got != want {
			t.Errorf("%s: %s\nwant %s", what, got, want)
		}
	}
	declare := func(word string) {
		f.Apply(fmt.Sprintf(`
{kind: Technique, metadata: {name: files}, spec: {parameters: [{name: word}], methods: [{component: a, filePresent: {path: '/{{ .params.word }}'}}, {component: b, filePresent: {path: /b}}]}}
---
{kind: Directive, metadata: {name: first}, spec: {technique: files, priority: 1, interval: 10m, parameters: {word: %s}}}
---
{kind: Directive, metadata: {name: second}, spec: {technique: files, priority: 2, interval: 10m, parameters: {word: x}}}
---
{kind: Policy, metadata: {name: all}, spec: {directives: [first, second], targets: {where: 'true'}}}
`, word))
	}
	run := func(node string, statuses ...policy.Status) {
		id, _ := f.Directory.NodeByName("default", node)
		codes := policy.NewCodes(len(statuses))
		for i, s := range statuses {
			codes.Set(i, s)
		}
		definitions := f.Directory.AssignmentOf(id).Definitions
		at := slices.IndexFunc(definitions, func(d *model.Definition) bool { return d.Name == "first" })
		f.RecordReport(id, definitions[at].ID, &wire.Report{Components: uint32(len(statuses)), Codes: codes})
	}
	expect("nothing declared", "all 0  map[]; ")
	declare("x")
	expect("new, the second is overridden", "n0 1  map[pending:2]; n1 1  map[pending:2]; all 2  map[pending:4]; ")
	f.Advance(5 * time.Minute)
	run("n0", policy.Compliant, policy.Waived)
	expect("waived", "n0 1 100.00 map[compliant:1 waived:1]; n1 1  map[pending:2]; all 2 100.00 map[compliant:1 pending:2 waived:1]; ")
	f.Advance(10 * time.Minute)
	expect("interval and grace after the declaration", "n0 1 100.00 map[compliant:1 waived:1]; n1 1  map[pending:2]; all 2 100.00 map[compliant:1 pending:2 waived:1]; ")
	f.Advance(time.Second)
	expect("a second later", "n0 1 100.00 map[compliant:1 waived:1]; n1 1 0.00 map[no report:2]; all 2 33.33 map[compliant:1 no report:2 waived:1]; ")
	run("n1", policy.NonCompliant, policy.Error)
	f.Advance(5 * time.Minute)
	expect("the run of n0 is overdue", "n0 1 0.00 map[no report:2]; n1 1 0.00 map[error:1 non-compliant:1]; all 2 0.00 map[error:1 no report:2 non-compliant:1]; ")
	f.Lag = 6 * time.Minute
	run("n0", policy.Compliant, policy.Waived)
	expect("the view lagged", "n0 1 100.00 map[compliant:1 waived:1]; n1 1 0.00 map[error:1 non-compliant:1]; all 2 33.33 map[compliant:1 error:1 non-compliant:1 waived:1]; ")
	f.Lag = 0
	declare("y")
	expect("changed", "n0 1  map[pending:2]; n1 1  map[pending:2]; all 2  map[pending:4]; ")
	run("n0", policy.Repaired, policy.NotApplicable)
	expect("run of the changed definition", "n0 1 100.00 map[not applicable:1 repaired:1]; n1 1  map[pending:2]; all 2 100.00 map[not applicable:1 pending:2 repaired:1]; ")
}

// TestPolicyThatDoesNotCompile stores a policy with targets that do not compile, and expects right sums of all other
// policies. Another version of the server may have stored such a policy.
func TestPolicyThatDoesNotCompile(t *testing.T) {
	f := &randomFleet{Server: apitest.NewServer(t)}
	f.DeclareNodes("default", nil, "n0")
	f.Apply(`
{kind: Technique, metadata: {name: files}, spec: {methods: [{component: a, filePresent: {path: /a}}]}}
---
{kind: Directive, metadata: {name: files}, spec: {technique: files, interval: 10m}}
---
{kind: Policy, metadata: {name: good}, spec: {directives: [files], targets: {where: 'true'}}}
`)
	body := testenv.Value(json.Marshal(model.Resource{
		APIVersion: model.APIVersion, Kind: "Policy", Metadata: model.Metadata{Name: "bad", Namespace: "default"},
		Spec: &model.PolicySpec{Directives: []string{"files"}, Targets: &model.Targets{Where: "no.such("}},
	}))(t)
	testenv.Value(f.Intent.Store().Commit(t.Context(), intent.Actor{User: "admin"}, []intent.Write{{Key: intent.Key{Kind: "Policy", Namespace: "default", Name: "bad"}, Body: body, Expect: -1}}))(t)
	testenv.NoError(t, f.Planner.CatchUp(t.Context()))
	var report v1.ComplianceReport
	f.get("/api/v1/reports/compliance", url.Values{}, &report)
	if len(report.Items) != 1 || report.Items[0].Name != "good" || report.Items[0].Counts["pending"] != 1 {
		t.Errorf("report %+v", report.Items)
	}
}

// TestComponentSums compares reports by component with numbers that are written in the test. Several versions of a
// directive are on nodes, and the report of one directive has no others.
func TestComponentSums(t *testing.T) {
	f := &randomFleet{Server: apitest.NewServer(t)}
	f.Apply("{kind: Namespace, metadata: {name: team-a}}")
	f.DeclareNodes("default", nil, "n0", "n1")
	f.DeclareNodes("team-a", nil, "m0")
	declare := func(components string) {
		f.Apply(fmt.Sprintf(`
{kind: Technique, metadata: {name: files, namespace: shared}, spec: {methods: [%s]}}
---
{kind: Directive, metadata: {name: files, namespace: shared, labels: {cis: "1"}}, spec: {technique: files, interval: 10m}}
---
{kind: Technique, metadata: {name: other}, spec: {methods: [{component: z, filePresent: {path: /z}}]}}
---
{kind: Directive, metadata: {name: other}, spec: {technique: other, interval: 10m}}
---
{kind: Policy, metadata: {name: all, namespace: shared}, spec: {directives: [files], targets: {where: 'true'}}}
---
{kind: Policy, metadata: {name: all}, spec: {directives: [other], targets: {where: 'true'}}}
`, components))
	}
	report := func(query url.Values) string {
		t.Helper()
		var report v1.ComplianceReport
		query.Set("by", "component")
		f.get("/api/v1/reports/compliance", query, &report)
		got := ""
		for _, s := range append(report.Items, report.Total) {
			got += fmt.Sprint(s.Namespace, "/", s.Name, " ", s.Component, " ", s.Nodes, " ", s.Percent, " ", s.Counts, "; ")
		}
		return got
	}
	run := func(namespace, node string, statuses ...policy.Status) {
		id, _ := f.Directory.NodeByName(namespace, node)
		codes := policy.NewCodes(len(statuses))
		for i, s := range statuses {
			codes.Set(i, s)
		}
		definitions := f.Directory.AssignmentOf(id).Definitions
		at := slices.IndexFunc(definitions, func(d *model.Definition) bool { return d.Name == "files" })
		f.RecordReport(id, definitions[at].ID, &wire.Report{Components: uint32(len(statuses)), Codes: codes})
	}
	declare("{component: a, filePresent: {path: /a}}, {component: b, filePresent: {path: /b}}")
	run("default", "n0", policy.Compliant, policy.NonCompliant)
	run("default", "n1", policy.Compliant, policy.Compliant)
	run("team-a", "m0", policy.Error, policy.Compliant)
	for _, c := range []struct {
		query url.Values
		want  string
	}{
		{url.Values{}, "shared/files a 3 66.67 map[compliant:2 error:1]; shared/files b 3 66.67 map[compliant:2 non-compliant:1]; default/other z 2  map[pending:2]; /all  3 66.68 map[compliant:4 error:1 non-compliant:1 pending:2]; "},
		{url.Values{"namespace": {"team-a"}}, "shared/files a 1 0.00 map[error:1]; shared/files b 1 100.00 map[compliant:1]; /all  1 50.00 map[compliant:1 error:1]; "},
		{url.Values{"directive": {"shared/files"}, "namespace": {"default"}}, "shared/files b 2 50.00 map[compliant:1 non-compliant:1]; shared/files a 2 100.00 map[compliant:2]; /all  2 75.00 map[compliant:3 non-compliant:1]; "},
		{url.Values{"directive": {"other"}}, "default/other z 2  map[pending:2]; /all  2  map[pending:2]; "},
		{url.Values{"directiveLabels": {"!cis"}}, "default/other z 2  map[pending:2]; /all  2  map[pending:2]; "},
		{url.Values{"directive": {"shared/files"}, "directiveLabels": {"cis=1"}, "namespace": {"team-a"}}, "shared/files a 1 0.00 map[error:1]; shared/files b 1 100.00 map[compliant:1]; /all  1 50.00 map[compliant:1 error:1]; "},
		{url.Values{"directive": {"shared/files"}, "directiveLabels": {"!cis"}}, "/all  0  map[]; "},
	} {
		if got := report(c.query); got != c.want {
			t.Errorf("%v: %s\nwant %s", c.query, got, c.want)
		}
	}
	declare("{component: c, filePresent: {path: /c}}, {component: a, filePresent: {path: /a}}")
	run("team-a", "m0", policy.Compliant, policy.NonCompliant)
	if got, want := report(url.Values{"directive": {"shared/files"}}), "shared/files a 3 66.67 map[compliant:2 non-compliant:1]; shared/files c 3 100.00 map[compliant:1 pending:2]; "+
		"/all  3 75.00 map[compliant:3 non-compliant:1 pending:2]; "; got != want {
		t.Errorf("after a change: %s\nwant %s", got, want)
	}
	for query, want := range map[string]int{"by=policy&directive=other": http.StatusUnprocessableEntity, "by=component&directive=none": http.StatusNotFound, "by=components": http.StatusUnprocessableEntity} {
		request := testenv.Value(http.NewRequest(http.MethodGet, f.URL+"/api/v1/reports/compliance?"+query, http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+f.Token)
		answer := testenv.Value(http.DefaultClient.Do(request))(t)
		if answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", query, answer.Status, want)
		}
	}
}
