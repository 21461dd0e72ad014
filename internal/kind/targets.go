package kind

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

func (v *Validator) targets(field string, t *model.Targets, inner bool) {
	if t == nil {
		return
	}
	v.Names(field+".groups", t.Groups, v.SharedName)
	v.Names(field+".nodes", t.Nodes, v.NodeName)
	v.where(field+".where", t.Where, nil)
	if t.Except != nil {
		if inner {
			v.Flaw(field+".except", "", "except cannot stand within except")
			return
		}
		v.targets(field+".except", t.Except, true)
	}
	if len(t.Groups)+len(t.Nodes) == 0 && t.Where == "" {
		v.Missing(field, "write groups, nodes or where; groups: [all] means every node of the namespace", "names nothing")
	}
}

func (v *Validator) selector(field string, s *model.Selector) {
	v.targets(field+".targets", s.Targets, false)
	if s.Where != "" {
		v.compiled(field+".where", route.CheckCondition(s.Where))
	}
	v.Bound(field+".checks", len(s.Checks))
	v.Names(field+".checks", s.Checks, v.SharedName)
	v.Bound(field+".statuses", len(s.Statuses))
	v.Names(field+".statuses", s.Statuses, func(at, word string) {
		if status, ok := model.ParseStatus(word); !ok || status == model.OK {
			v.Flaw(at, "write warning, critical or unknown", "%q is no status of a problem", word)
		}
	})
	v.labels(field+".labels", s.Labels)
	if _, ok := model.ParseSeverity(s.Severity); s.Severity != "" && !ok {
		v.Flaw(field+".severity", "write "+strings.Join(model.SeverityNames(), ", "), "%q is no severity", s.Severity)
	}
}
