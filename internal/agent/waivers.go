package agent

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
)

// waivers is the definitionRunner of Waivers, which have nothing to run. A Waiver runs nothing: the runner directives
// reads the Waivers of an assignment.
type waivers struct{}

// applyDefinitions does nothing, because Waivers are not run: directives read them from the assignment.
func (waivers) applyDefinitions(*link.Assignment, []*model.Definition) error { return nil }

// suspendDefinitions does nothing, because Waivers are not run.
func (waivers) suspendDefinitions() {}

// waiversOf returns the Waivers of an assignment that cover components of a directive and have not expired.
func waiversOf(a *link.Assignment, c *model.DirectiveDefinition, now time.Time) (list []*model.WaiverDefinition) {
	for _, definition := range a.Definitions {
		if w := definition.AsWaiver(); w != nil && now.Before(w.Expires()) && w.CoversDirective(c) {
			list = append(list, w)
		}
	}
	return list
}

// coversComponent reports whether one of the Waivers covers a component and has not expired.
func coversComponent(list []*model.WaiverDefinition, name string, now time.Time) bool {
	return slices.ContainsFunc(list, func(w *model.WaiverDefinition) bool { return now.Before(w.Expires()) && w.CoversComponent(name) })
}
