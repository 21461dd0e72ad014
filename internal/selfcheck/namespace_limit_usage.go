package selfcheck

import (
	"fmt"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// limitFields has the field of spec.limits for each limit that one raises.
var limitFields = [...][2]string{
	{"output", "outputBytes"}, {"node_states", "statesPerNode"}, {"namespace_states", "states"}, {"node_rate", "nodeResultsPerSec"},
	{"namespace_values_rate", "valuesPerSec"}, {"node_values_rate", "nodeValuesPerSec"}, {"namespace_reports_rate", "reportsPerSec"}, {"node_reports_rate", "nodeReportsPerSec"},
	{"node_bytes_rate", "nodeBytesPerSec"}, {"namespace_bytes_rate", "bytesPerSec"}, {"namespace_rate", "resultsPerSec"}, {"namespace_nodes", "nodes"}, {"labels", "labels"}, {"node_passive", "passivePerNode"}, {"discovered_items", "discoveredItems"}, {"series", "series"},
}

// LimitField returns the name of the field in a Namespace's spec.limits that sets the given limit, or "". A
// limit without such a field gives "".
func LimitField(limit string) string {
	for _, f := range limitFields {
		if f[0] == limit {
			return f[1]
		}
	}
	return ""
}

// limitText returns the output text of the built-in event about a reached limit of a namespace. It has the
// namespace, the reached limit and the command that raises the limit.
func limitText(h core.LimitHit) string {
	text := fmt.Sprintf("namespace %s reached a limit %d times, last by sender %s: %s", h.Namespace, h.Count, h.Node, h.Reason)
	if field := LimitField(h.Limit); field != "" {
		text += fmt.Sprintf("; spec.limits.%s: muster edit namespace %s", field, h.Namespace)
	}
	return text
}

// LimitUsages returns the limits of a namespace, and how much of each limit is used. It lists limits that are set or
// were reached; uses are the numbers of event states, nodes, discovered items and series. The use of statesPerNode is left
// out, because it needs a look at every node.
func LimitUsages(namespace string, l *model.Limits, states, nodes, discovered, series uint64, hits []core.LimitHit) (out []v1.LimitUse) {
	for _, use := range []v1.LimitUse{
		{Name: "states", Limit: float64(l.States), Used: &states},
		{Name: "statesPerNode", Limit: float64(l.StatesPerNode)},
		{Name: "nodes", Limit: float64(l.Nodes), Used: &nodes},
		{Name: "labels", Limit: float64(l.Labels)},
		{Name: "outputBytes", Limit: float64(l.OutputBytes)},
		{Name: "resultsPerSec", Limit: l.ResultsPerSec},
		{Name: "nodeResultsPerSec", Limit: l.NodeResultsSec},
		{Name: "discoveredItems", Limit: float64(l.DiscoveredItems), Used: &discovered},
		{Name: "series", Limit: float64(l.Series), Used: &series},
		{Name: "valuesPerSec", Limit: l.ValuesPerSec},
		{Name: "nodeValuesPerSec", Limit: l.NodeValuesPerSec},
		{Name: "reportsPerSec", Limit: l.ReportsPerSec},
		{Name: "nodeReportsPerSec", Limit: l.NodeReportsPerSec},
		{Name: "bytesPerSec", Limit: l.BytesPerSec},
		{Name: "nodeBytesPerSec", Limit: l.NodeBytesPerSec},
		{Name: "passivePerNode", Limit: float64(l.PassivePerNode)},
	} {
		for _, h := range hits {
			if h.Namespace == namespace && LimitField(h.Limit) == use.Name {
				use.Reached, use.Last, use.Node, use.Reason = h.Count, h.Last, h.Node, h.Reason
			}
		}
		if use.Limit > 0 || use.Reached > 0 {
			out = append(out, use)
		}
	}
	return out
}
