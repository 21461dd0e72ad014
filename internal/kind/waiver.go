package kind

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Waiver returns the resource kind Waiver, a temporary exemption of nodes from a directive or technique. It
// covers single components.
func Waiver() Kind {
	return Define(Definition[*model.WaiverSpec]{
		KindInfo: model.KindInfo{Name: "Waiver", Plural: "waivers", Short: "wv", Namespaced: true},
		Unit:     model.DefinitionWaiver,
		LandsAs:  "covers",
		Example: `kind: Waiver
metadata: {name: old-backup-login}
spec:
  directive: sshd-no-root
  components: [root login]
  targets: {nodes: [db1]}
  reason: the old backup logs in as root until it is replaced
  owner: storage team
  expires: 2026-12-24T18:00:00Z
`,
		Validate: validateWaiver,
		Columns: []Column[*model.WaiverSpec]{
			nodesColumn[*model.WaiverSpec](),
			{"COVERS", 50, func(_ ResourceView, s *model.WaiverSpec) string { return waivedText(s) }},
			{"EXPIRES", 0, waiverEndText},
			{"OWNER", 30, func(_ ResourceView, s *model.WaiverSpec) string { return s.Owner }},
			{"REASON", 50, func(_ ResourceView, s *model.WaiverSpec) string { return s.Reason }},
		},
		Details: func(v ResourceView, s *model.WaiverSpec) []Detail {
			return []Detail{{"covers", waivedText(s)}, {"targets", targetText(s.Targets)}, {"expires", waiverEndText(v, s)}, {"owner", s.Owner}, {"reason", s.Reason}}
		},
		Effect: func(_ *model.Resource, s *model.WaiverSpec, l ResourceUsage, _ bool) (note, warning string) {
			if l.Nodes == 0 {
				return "covers no node", "no node matches the targets of the waiver. List nodes: muster get nodes"
			}
			return "covers " + l.nodesText() + " until " + s.Expires.Format("2006-01-02 15:04Z"), ""
		},
	})
}

// waivedText names the directive or technique that a waiver excuses, with the waived components (checked
// parts), if limited.
func waivedText(s *model.WaiverSpec) string {
	of := s.Directive
	if s.Technique != "" {
		of = "technique " + s.Technique
	}
	if len(s.Components) == 0 {
		return of
	}
	return of + ": " + strings.Join(s.Components, ", ")
}

// waiverEndText says when a waiver ends, relative to now.
func waiverEndText(v ResourceView, s *model.WaiverSpec) string {
	if !s.Expires.After(v.Now) {
		return "expired " + model.Age(v.Now, s.Expires.Time) + " ago"
	}
	return "in " + model.TimeSpan(s.Expires.Sub(v.Now)) + ", " + s.Expires.In(v.Zone).Format("2006-01-02 15:04")
}

// validateWaiver validates the spec of a Waiver. Intent tests how far its end is away.
func validateWaiver(v *Validator, s *model.WaiverSpec) {
	v.MissingIf(s.Directive+s.Technique == "", "spec", "write directive: NAME, or technique: NAME for all its directives", "the directive is missing")
	v.FlawIf(s.Directive != "" && s.Technique != "", "spec.technique", "remove one", "directive and technique exclude each other")
	v.LimitElements("spec.components", len(s.Components))
	seen := map[string]bool{}
	for i, name := range s.Components {
		v.requireUniqueTitle(fmt.Sprintf("spec.components[%d]", i), "component", name, "write the name of a component of the technique", seen)
	}
	v.MissingIf(s.Targets == nil, "spec.targets", "write the nodes, such as {nodes: [db1]}", "missing")
	v.validateTargets("spec.targets", s.Targets, false)
	v.MissingIf(strings.TrimSpace(s.Reason) == "", "spec.reason", "write the reason for the auditor who reads the report", "missing")
	v.RequireLine("spec.reason", s.Reason, maxNote)
	v.MissingIf(strings.TrimSpace(s.Owner) == "", "spec.owner", "write the person or team who answers for it", "missing")
	v.RequireLine("spec.owner", s.Owner, model.MaxName)
	v.MissingIf(s.Expires.IsZero(), "spec.expires", "write its end, such as 2026-12-24T18:00:00Z", "missing")
}
