package plan

import "github.com/prometheus/client_golang/prometheus"

// collector exports the work of the planner. It reads under the planner's lock when Prometheus asks, so
// that counting costs the passes nothing.
type collector struct{ p *Planner }

var (
	passesDesc     = desc("passes_total", "Lists of changes compiled.")
	nodesDesc      = desc("nodes_visited_total", "Nodes whose groups and checks were computed.")
	groupsDesc     = desc("groups_evaluated_total", "Groups whose members were computed.")
	checksDesc     = desc("checks_evaluated_total", "Checks whose holders were computed.")
	conditionsDesc = desc("conditions_evaluated_total", "Conditions evaluated on a node.")
	builtDesc      = desc("assignments_built_total", "Assignments composed, changed or not.")
	changedDesc    = desc("assignments_changed_total", "Assignments that differ from before.")
	brokenDesc     = desc("broken_definitions_total", "Stored resources that this version cannot compile.")
	oversizedDesc  = desc("oversized_nodes", "Nodes that keep their last assignment because the next would be too large.")
	knownDesc      = prometheus.NewDesc("muster_plan_known", "What the planner holds.", []string{"kind"}, nil)
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("muster_plan_"+name, help, nil, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	p := c.p
	p.mu.RLock()
	counts, broken, f := p.fleet.counts, p.broken, p.fleet
	oversized := f.oversized
	known := map[string]int{
		"nodes": len(f.nodes), "groups": len(f.groups), "checks": len(f.units),
		"conditions": len(f.conditions.byKey), "check_sets": len(f.unitSets.byKey), "chunks": p.directory.Chunks(),
	}
	p.mu.RUnlock()
	ch <- prometheus.MustNewConstMetric(oversizedDesc, prometheus.GaugeValue, float64(oversized))
	for kind, n := range known {
		ch <- prometheus.MustNewConstMetric(knownDesc, prometheus.GaugeValue, float64(n), kind)
	}
	for desc, n := range map[*prometheus.Desc]uint64{
		passesDesc: counts.Passes, nodesDesc: counts.Nodes, groupsDesc: counts.Groups, checksDesc: counts.Units,
		conditionsDesc: counts.Conditions, builtDesc: counts.Built, changedDesc: counts.Changed, brokenDesc: broken,
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
}

// Counts returns the work since the start.
func (p *Planner) Counts() Counts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fleet.counts
}
