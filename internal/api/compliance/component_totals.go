package compliance

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// componentTotals counts the nodes with each status of each component, for one version of a policy directive.
type componentTotals struct {
	nodes           int
	counts          []policy.Counts // by position
	unexpected      int             // components that the directive does not define
	unexpectedNodes int             // nodes with such components
}

// add adds the result of some nodes to the totals. Its effort does not depend on the number of nodes.
func (c *componentTotals) add(r *directiveResult) {
	c.nodes += r.nodes
	for i := range c.counts {
		c.counts[i][r.at(i)] += r.nodes
	}
	if more := r.components - len(c.counts); more > 0 {
		c.unexpected += r.nodes * more
		c.unexpectedNodes += r.nodes
	}
}

// addComponents adds the numbers of the directive's components by status to the rows of a report. Components with the
// same name share a row, even in several versions of the directive. Each component counts by its own status,
// whatever the reporting mode of its block; a component that never counts has no row.
func (d *directiveTotals) addComponents(id model.UnitID, at func(rowKey) *reportRow) {
	versions := map[*model.DirectiveDefinition]*componentTotals{}
	for _, result := range d.results {
		c := versions[result.definition]
		if c == nil {
			c = &componentTotals{counts: make([]policy.Counts, len(result.definition.Components))}
			versions[result.definition] = c
		}
		c.add(result)
	}
	for definition, c := range versions {
		counted := map[*reportRow]bool{} // rows that include the nodes of the version
		for i := range definition.Components {
			if policy.NeverCounts(i, definition.Blocks) {
				continue
			}
			row := at(rowKey{directive: id, component: definition.Components[i].Name})
			row.total.Add(&c.counts[i])
			if !counted[row] {
				counted[row] = true
				row.nodes += c.nodes
			}
		}
		if c.unexpected > 0 {
			row := at(rowKey{directive: id, component: policy.Unexpected.String()})
			row.total[policy.Unexpected] += c.unexpected
			row.nodes += c.unexpectedNodes
		}
	}
}
