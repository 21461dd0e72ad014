package compliance

import (
	"fmt"
	"maps"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// TestReportRowsAreLimited converts more rows than a limit, and expects the least compliant rows. It also expects the
// number of the others.
func TestReportRowsAreLimited(t *testing.T) {
	rows := map[rowKey]*reportRow{}
	for i := range 10 {
		r := &reportRow{nodes: 10}
		r.total[policy.Compliant], r.total[policy.NonCompliant] = i, 10-i
		rows[rowKey{name: "d", component: fmt.Sprint("c", i)}] = r
	}
	all := func(*rowKey) bool { return true }
	shown, more := convertRows(maps.Clone(rows), 3, all)
	if len(shown) != 3 || more != 7 || shown[0].Component != "c0" || shown[2].Component != "c2" {
		t.Errorf("%d rows and %d more: %+v", len(shown), more, shown)
	}
	if shown, more = convertRows(rows, 0, all); len(shown) != 10 || more != 0 {
		t.Errorf("without a limit %d rows and %d more", len(shown), more)
	}
}

// TestComponentsWithOneNameShareARow adds results of two versions of a directive in which several components have the
// same name. A node counts once in the row of the name, and a component that is not defined has a row of its own.
func TestComponentsWithOneNameShareARow(t *testing.T) {
	version := func(names ...string) *model.DirectiveDefinition {
		d := &model.DirectiveDefinition{Definition: model.Definition{Unit: 1000}}
		for _, name := range names {
			d.Components = append(d.Components, model.Component{Name: name})
		}
		return d
	}
	old, new := version("file", "file", "service"), version("service", "file")
	totals := newComplianceTotals(nil)
	for i, d := range []nodeDirective{
		{definition: old, codes: []policy.Status{policy.Compliant, policy.Error, policy.Success}},
		{definition: old, codes: []policy.Status{policy.Compliant, policy.Error, policy.Success}},
		{definition: old, codes: []policy.Status{policy.Pending, policy.Pending, policy.Pending}},
		{definition: new, codes: []policy.Status{policy.NoReport, policy.Waived, policy.Unexpected, policy.Unexpected}},
	} {
		n := &nodeCounts{id: model.NodeID(1 + i), namespace: "default"}
		totals.nodes[n.id] = n
		totals.replaceCounts(n, []directiveCounts{{directive: 1000, result: totals.result(n.namespace, &d)}})
	}
	rows := func() (text string) {
		_, rows := totals.report(&rowSelection{by: "component", included: func(string) bool { return true }}, directory.FleetSnapshot{})
		shown, _ := convertRows(rows, 0, func(*rowKey) bool { return true })
		for _, s := range shown {
			text += fmt.Sprint(s.Component, " ", s.Nodes, " ", s.Counts, "; ")
		}
		return text
	}
	if got, want := rows(), "unexpected 1 map[unexpected:2]; file 4 map[compliant:2 error:2 pending:2 waived:1]; service 4 map[no report:1 pending:1 success:2]; "; got != want {
		t.Errorf("rows %s\nwant %s", got, want)
	}
	totals.remove(totals.nodes[4])
	totals.remove(totals.nodes[1])
	if got, want := rows(), "file 2 map[compliant:1 error:1 pending:2]; service 2 map[pending:1 success:1]; "; got != want {
		t.Errorf("rows after two nodes are removed: %s\nwant %s", got, want)
	}
	totals.remove(totals.nodes[2])
	totals.remove(totals.nodes[3])
	if got := rows(); got != "" || len(totals.directives) != 0 {
		t.Errorf("rows without nodes: %s", got)
	}
}
