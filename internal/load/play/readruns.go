package play

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/evidence"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
)

// RunReader is the Reader of runs of directives.
type RunReader struct {
	API       *client.Client
	Plan      *plan.Directives
	Namespace string
	Name      func(node int) string
	queries   atomic.Uint64
}

// Query asks for the compliance of the fleet, by policy, directive, group and node in turn.
func (r *RunReader) Query(ctx context.Context) error {
	by := [...]string{"policy", "directive", "group", "node"}[r.queries.Add(1)%4]
	_, err := r.API.Reports.Compliance(ctx, v1.ComplianceQuery{Namespace: r.Namespace, By: by})
	return err
}

// Read reads the compliance of all nodes, and all that the server has of some.
func (r *RunReader) Read(ctx context.Context) (observe.Line, error) {
	s, err := r.read(ctx)
	return observe.Line{Runs: s}, err
}

// Unused returns an error if the server has runs of one of the nodes that are compared run by run: their chain would go on.
func (r *RunReader) Unused(ctx context.Context) error {
	for _, node := range r.compared() {
		found, err := r.API.Reports.Evidence(ctx, r.Namespace, r.Name(node), time.Time{}, time.Time{})
		if err != nil && model.ClassOf(err) != model.NotFound { // else there is no run, or no such node yet
			return err
		}
		if len(found.Entries) > 0 {
			return used("node %s has directive runs", r.Name(node))
		}
	}
	return nil
}

// compared returns the nodes whose runs are all compared.
func (r *RunReader) compared() (list []int) {
	for k := range min(rawNodes, r.Plan.Nodes) {
		list = append(list, k*max(1, r.Plan.Nodes/rawNodes))
	}
	return list
}

// read reads the compliance of all nodes and the histories of some.
func (r *RunReader) read(ctx context.Context) (*observe.Runs, error) {
	out := &observe.Runs{Nodes: make([]map[string]int, r.Plan.Nodes), Directives: map[string]int{}, Machines: map[int]observe.MachineHistory{}}
	numbers := map[string]int{}
	for node := range r.Plan.Nodes {
		numbers[r.Name(node)] = node
	}
	rows, err := r.API.Reports.Compliance(ctx, v1.ComplianceQuery{Namespace: r.Namespace, By: "node"})
	if err != nil {
		return nil, err
	}
	for _, row := range rows.Items {
		if node, ok := numbers[row.Name]; ok {
			out.Nodes[node] = row.Counts
		} else {
			out.Unknown++
		}
	}
	if rows, err = r.API.Reports.Compliance(ctx, v1.ComplianceQuery{Namespace: r.Namespace, By: "directive"}); err != nil {
		return nil, err
	}
	for _, row := range rows.Items {
		out.Directives[row.Name] = row.Nodes
	}
	for _, node := range r.compared() {
		if out.Machines[node], err = r.readMachine(ctx, r.Name(node)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readMachine reads all that the server has of a node.
func (r *RunReader) readMachine(ctx context.Context, name string) (m observe.MachineHistory, err error) {
	m.Statuses, m.History = map[string][]string{}, map[string][][]byte{}
	for after := ""; ; {
		page, err := r.API.Compliance(ctx, v1.ComplianceFilter{Namespace: r.Namespace, Node: name, Details: true}, 1000, after)
		if err != nil {
			return m, err
		}
		for i := range page.Items {
			row := &page.Items[i]
			if row.OverriddenBy != "" {
				continue
			}
			m.Statuses[row.Directive] = nil
			for _, c := range row.Components {
				m.Statuses[row.Directive] = append(m.Statuses[row.Directive], c.Status)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	found, err := r.API.Reports.Evidence(ctx, r.Namespace, name, time.Time{}, time.Time{})
	if err != nil && model.ClassOf(err) != model.NotFound { // else no run came
		return m, err
	}
	findings := evidence.Verify(&found)
	m.Runs, m.Covered, m.Faults, m.Breaks = findings.Runs, findings.Covered, findings.Faults, findings.Breaks
	for _, e := range found.Entries {
		if e.Run != nil {
			m.History[e.Run.Directive] = append(m.History[e.Run.Directive], e.Run.Codes)
		}
	}
	if r.Plan.Entries() == 0 {
		return m, nil
	}
	list, err := r.API.Nodes.Inventory(ctx, r.Namespace, name, "packages", time.Time{})
	if err != nil && model.ClassOf(err) != model.NotFound { // else no inventory came
		return m, err
	}
	slices.SortFunc(list.Items, func(a, b v1.InventoryEntry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range list.Items {
		m.Packages = append(m.Packages, e.Fields["version"])
	}
	return m, nil
}
