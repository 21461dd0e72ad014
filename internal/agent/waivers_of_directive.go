package agent

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
)

// waivers is the definitionRunner for Waivers (permitted exceptions from policy rules), which need no run. A
// Waiver runs nothing: the runner directives reads the Waivers of an assignment.
type waivers struct{}

// applyDefinitions does nothing, because Waivers (permitted exceptions from policy rules) have nothing to run.
// Directives read the Waivers from the assignment.
func (waivers) applyDefinitions(*link.Assignment, []*model.Definition) error { return nil }

// suspendDefinitions does nothing, because Waivers (permitted exceptions from policy rules) have nothing to run.
func (waivers) suspendDefinitions() {}

// waiversOf returns the unexpired Waivers (permitted exceptions) that cover any component (checked part) of a
// policy directive.
func waiversOf(a *link.Assignment, c *model.DirectiveDefinition, now time.Time) (list []*model.WaiverDefinition) {
	for _, definition := range a.Definitions {
		if w := definition.AsWaiver(); w != nil && now.Before(w.Expires()) && w.CoversDirective(c) {
			list = append(list, w)
		}
	}
	return list
}

// coversComponent reports whether an unexpired Waiver (permitted exception) covers a component (checked part)
// of a policy directive.
func coversComponent(list []*model.WaiverDefinition, name string, now time.Time) bool {
	return slices.ContainsFunc(list, func(w *model.WaiverDefinition) bool { return now.Before(w.Expires()) && w.CoversComponent(name) })
}
