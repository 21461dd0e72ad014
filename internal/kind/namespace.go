package kind

import (
	"fmt"
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

// Namespace returns the kind of namespaces.
func Namespace() Kind {
	return Define(func() *model.NamespaceSpec { return &model.NamespaceSpec{} }, Definition[*model.NamespaceSpec]{
		KindInfo: model.KindInfo{Name: "Namespace", Plural: "namespaces", Short: "ns"},
		LandsAs:  "holds",
		Example: `kind: Namespace
metadata: {name: payments, displayName: Payments team}
spec:
  timeZone: Europe/Paris
  handlers: [shared/oncall]
`,
		Validate: func(v *Validator, r *model.Resource, s *model.NamespaceSpec) {
			validateLimits(v, s.Limits)
			v.namespace = r.Metadata.Name
			v.Bound("spec.handlers", len(s.Handlers))
			v.Names("spec.handlers", s.Handlers, v.SharedName)
			v.timeZone("spec.timeZone", s.TimeZone)
			v.oneOf("spec.notifications", s.Notifications, "send", model.NotificationsShadow)
		},
		References: func(refs *References, s *model.NamespaceSpec) {
			refs.Require("Handler", "spec.handlers", s.Handlers...)
		},
		Columns: []Column[*model.NamespaceSpec]{
			nodesColumn[*model.NamespaceSpec](),
			{"DESCRIPTION", 0, func(v View, _ *model.NamespaceSpec) string { return dash(v.Resource.Metadata.DisplayName) }},
		},
		Details: func(view View, _ *model.NamespaceSpec) []Detail { return limitDetails(view) },
	})
}

// limitDetails shows each limit with its use and its last refusal.
func limitDetails(view View) (list []Detail) {
	name := "limits"
	for _, l := range view.State.Limits {
		text := l.Name + " " + strconv.FormatFloat(l.Limit, 'f', -1, 64)
		if l.Used != nil && l.Name == "statesPerNode" {
			text += fmt.Sprintf(", at most %d on one node", *l.Used)
		} else if l.Used != nil {
			text += fmt.Sprintf(", %d used", *l.Used)
		}
		if l.Met > 0 {
			text += fmt.Sprintf("; reached %s, last %s ago by node %s: %s", model.CountNoun(l.Met, "time"), model.Age(view.Now, l.Last), l.Node, l.Reason)
		}
		list = append(list, Detail{name, text})
		name = ""
	}
	return list
}

func validateLimits(v *Validator, l *model.Limits) {
	if l == nil {
		return
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"states", float64(l.States)}, {"nodes", float64(l.Nodes)}, {"statesPerNode", float64(l.StatesPerNode)}, {"labels", float64(l.Labels)},
		{"outputBytes", float64(l.OutputBytes)}, {"resultsPerSec", l.ResultsPerSec}, {"nodeResultsPerSec", l.NodeResultsSec},
		{"passivePerNode", float64(l.PassivePerNode)},
	} {
		if f.value < 0 {
			v.Flaw("spec.limits."+f.name, "leave it out for the server's default", "cannot be negative")
		}
	}
}
