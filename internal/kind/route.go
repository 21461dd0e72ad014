package kind

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Route returns the kind of notification rules.
func Route() Kind {
	return Define(func() *model.RouteSpec { return &model.RouteSpec{} }, Definition[*model.RouteSpec]{
		KindInfo: model.KindInfo{Name: "Route", Plural: "routes", Short: "ro", Namespaced: true},
		Example: `kind: Route
metadata: {name: default}
spec:
  steps:
    - to: [oncall]
    - {to: [lead], after: 30m, repeat: 4h}
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.RouteSpec) { validateRoute(v, s) },
		References: func(refs *References, s *model.RouteSpec) {
			for i := range s.Steps {
				refs.Require("Handler", fmt.Sprintf("spec.steps[%d].to", i), s.Steps[i].To...)
			}
			for i := range s.Mute {
				refs.window(fmt.Sprintf("spec.mute[%d].window", i), s.Mute[i].Window)
			}
		},
		Targets: func(s *model.RouteSpec) (list []FieldTargets) {
			if s.Match != nil {
				list = append(list, FieldTargets{"spec.match.targets", s.Match.Targets})
			}
			for i := range s.Mute {
				list = append(list, FieldTargets{fmt.Sprintf("spec.mute[%d].targets", i), s.Mute[i].Targets})
			}
			return list
		},
		Columns: []Column[*model.RouteSpec]{
			checksColumn[*model.RouteSpec]("CHECKS"),
			{"MATCHES", 40, func(v View, s *model.RouteSpec) string {
				switch {
				case s.Match != nil:
					return selection(s.Match)
				case v.Resource.Metadata.Name == defaultRoute:
					return "the rest"
				}
				return "checks that name it"
			}},
			{"NOTIFIES", 60, func(_ View, s *model.RouteSpec) string { return stepsText(s) }},
		},
		Effect: func(r *model.Resource, s *model.RouteSpec, l Placement, _ bool) (note, warning string) {
			switch {
			case l.Checks > 0:
				return "used by " + model.CountNoun(l.Checks, "check"), ""
			case s.Match != nil:
				return "takes the problems that it matches", ""
			case r.Metadata.Name == defaultRoute:
				return "takes the problems that no other route takes", ""
			}
			return "used by no check yet", "no check names it (alert.route), and it has no match. Add match, or name it default"
		},
	})
}

// defaultRoute is the name of the route for problems that no other route takes.
const defaultRoute = "default"

// stepsText is a route in one line: pager (every 4h); after 30m lead.
func stepsText(s *model.RouteSpec) string {
	steps := slices.Clone(s.Steps)
	slices.SortStableFunc(steps, func(a, b model.RouteStep) int { return cmp.Compare(a.After, b.After) })
	var parts []string
	for _, step := range steps {
		text := strings.Join(step.To, ", ")
		if step.After > 0 {
			text = "after " + step.After.String() + " " + text
		}
		if step.Repeat > 0 {
			text += " (every " + step.Repeat.String() + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// maxHold is how long a step may wait, and a group.
const maxHold = model.Duration(30 * 24 * time.Hour)

func validateRoute(v *Validator, s *model.RouteSpec) {
	if s.Match != nil {
		v.selector("spec.match", s.Match)
	}
	v.Bound("spec.groupBy", len(s.GroupBy))
	v.Names("spec.groupBy", s.GroupBy, func(at, by string) {
		label, isLabel := strings.CutPrefix(by, "label:")
		if !slices.Contains([]string{"node", "check", "namespace", "severity"}, by) && !(isLabel && label != "") {
			v.Flaw(at, "write node, check, namespace, severity or label:NAME", "problems have no %q in common", by)
		}
	})
	if s.GroupWait != nil {
		v.InRange("spec.groupWait", *s.GroupWait, 0, model.Duration(time.Hour))
	}
	if len(s.Steps) == 0 {
		v.Missing("spec.steps", "write steps: [{to: [HANDLER]}]", "says nobody to tell")
	}
	v.Bound("spec.steps", len(s.Steps))
	for i := range s.Steps {
		step, at := &s.Steps[i], fmt.Sprintf("spec.steps[%d]", i)
		if len(step.To) == 0 {
			v.Missing(at+".to", "write to: [HANDLER]", "says nobody to tell")
		}
		v.Bound(at+".to", len(step.To))
		v.Names(at+".to", step.To, v.SharedName)
		v.InRange(at+".after", step.After, 0, maxHold)
		v.InRange(at+".repeat", step.Repeat, model.Duration(time.Minute), maxHold)
	}
	v.Bound("spec.mute", len(s.Mute))
	for i := range s.Mute {
		mute, at := &s.Mute[i], fmt.Sprintf("spec.mute[%d]", i)
		v.selector(at, &mute.Selector)
		switch {
		case mute.During == "" && mute.Window == "":
			v.Missing(at, `write during: "22:00-07:00 Europe/Paris", or window: NAME; without an end, it is a Silence`, "does not say when")
		case mute.During != "" && mute.Window != "":
			v.Flaw(at+".window", "keep one of them", "both during and window")
		case mute.Window != "":
			v.SharedName(at+".window", mute.Window)
		default:
			validateDuring(v, at+".during", mute.During)
		}
	}
	if r := s.Rate; r != nil {
		if r.Messages < 1 || r.Messages > maxCount {
			v.Flaw("spec.rate.messages", "", "want 1 to %d, not %d", maxCount, r.Messages)
		}
		v.InRange("spec.rate.per", r.Per, model.Duration(time.Second), maxHold)
	}
}
