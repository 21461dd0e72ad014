package app

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
)

// hostNames is the interface that looks up the name and the facts of a node. The directory implements it.
type hostNames interface {
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodeFacts(id model.NodeID) map[string]string
}

// setHostMacros replaces macros of the host, such as {HOST.NAME}, in the texts of a verdict. The node's name and addresses of
// now are the values. The map of labels is shared with the metric view and stays unchanged.
func setHostMacros(d hostNames, v *metric.Verdict) {
	replace := func(text string) string {
		if !strings.Contains(text, "{HOST") {
			return text
		}
		return model.ReplaceBuiltinMacros(text, func(m model.BuiltinMacro) (string, bool) { return hostMacro(d, v.Node, m.Name) })
	}
	v.Description, v.Output = model.Truncate(replace(v.Description), model.MaxProblemDescription), []byte(model.Truncate(replace(string(v.Output)), metric.MaxVerdictText))
	var labels map[string]string
	for name, value := range v.Labels {
		if labels == nil {
			labels = make(map[string]string, len(v.Labels))
		}
		labels[name] = model.LabelValue(replace(value))
	}
	v.Labels = labels
}

// hostMacro returns the value of a macro of Zabbix about a host, such as HOST.NAME, for a node.
func hostMacro(d hostNames, node model.NodeID, macro string) (string, bool) {
	_, name, _ := d.NodeName(node)
	facts := d.NodeFacts(node)
	address, _, _ := strings.Cut(facts["addresses"], ",")
	value := map[string]string{
		"HOST.NAME": name, "HOST.HOST": name, "HOSTNAME": name, "HOST.DNS": facts["fqdn"], "HOST.IP": address, "HOST.CONN": address,
	}[macro]
	return value, value != ""
}
