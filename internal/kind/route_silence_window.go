package kind

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// Route returns the resource kind Route, the rules that send problems to handlers.
func Route() Kind {
	return Define(Definition[*model.RouteSpec]{
		KindInfo: model.KindInfo{Name: "Route", Plural: "routes", Short: "ro", Namespaced: true},
		Example: `kind: Route
metadata: {name: default}
spec:
  steps:
    - to: [oncall]
    - {to: [lead], after: 30m, repeat: 4h}
`,
		Validate: validateRoute,
		Columns: []Column[*model.RouteSpec]{
			checksColumn[*model.RouteSpec]("CHECKS"),
			{"MATCHES", 40, func(v ResourceView, s *model.RouteSpec) string {
				switch {
				case s.Match != nil:
					return selectorText(s.Match)
				case v.Resource.Metadata.Name == defaultRoute:
					return "the rest"
				}
				return "checks that name it"
			}},
			{"NOTIFIES", 60, func(_ ResourceView, s *model.RouteSpec) string { return routeStepsText(s) }},
		},
		Effect: func(r *model.Resource, s *model.RouteSpec, l ResourceUsage, _ bool) (note, warning string) {
			switch {
			case l.Checks > 0:
				return "used by " + model.CountNoun(l.Checks, "check"), ""
			case s.Match != nil:
				return "takes matching problems", ""
			case r.Metadata.Name == defaultRoute:
				return "takes problems that match no other route", ""
			}
			return "used by no check yet", "no check names the route (alert.route), and it has no match. Add match, or name it default"
		},
	})
}

// defaultRoute is the name of the route for problems that no other route takes.
const defaultRoute = "default"

// routeStepsText formats the steps of a route in one line, such as "pager (every 4h); after 30m lead"
func routeStepsText(s *model.RouteSpec) string {
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

// maxHold is the longest wait of a step, of its repetition and of a rate.
const maxHold = model.Duration(30 * 24 * time.Hour)

// validateRoute validates the spec of a Route.
func validateRoute(v *Validator, s *model.RouteSpec) {
	v.validateSelector("spec.match", s.Match)
	v.LimitElements("spec.groupBy", len(s.GroupBy))
	v.RequireNames("spec.groupBy", s.GroupBy, func(at, by string) {
		label, isLabel := strings.CutPrefix(by, "label:")
		v.FlawIf(!slices.Contains([]string{"node", "check", "namespace", "severity"}, by) && !(isLabel && label != ""),
			at, "write node, check, namespace, severity or label:NAME", "cannot group problems by %q", by)
	})
	if s.GroupWait != nil {
		v.InRange("spec.groupWait", *s.GroupWait, 0, model.Duration(time.Hour))
	}
	v.MissingIf(len(s.Steps) == 0, "spec.steps", "write steps: [{to: [HANDLER]}]", "the handlers are missing")
	v.LimitElements("spec.steps", len(s.Steps))
	for i := range s.Steps {
		step, at := &s.Steps[i], fmt.Sprintf("spec.steps[%d]", i)
		v.MissingIf(len(step.To) == 0, at+".to", "write to: [HANDLER]", "the handlers are missing")
		v.InRange(at+".after", step.After, 0, maxHold)
		v.InRange(at+".repeat", step.Repeat, model.Duration(time.Minute), maxHold)
	}
	v.LimitElements("spec.mute", len(s.Mute))
	for i := range s.Mute {
		mute, at := &s.Mute[i], fmt.Sprintf("spec.mute[%d]", i)
		v.validateSelector(at, &mute.Selector)
		const hint = `write during: "22:00-07:00 Europe/Paris", or window: NAME; without an end, declare a Silence`
		requireTimeOrWindow(v, at, mute.During, mute.Window, hint)
	}
	if r := s.Rate; r != nil {
		v.FlawIf(r.Messages < 1 || r.Messages > maxCount,
			"spec.rate.messages", "", "expected 1 to %d, got %d", maxCount, r.Messages)
		v.InRange("spec.rate.per", r.Per, model.Duration(time.Second), maxHold)
	}
}

// Silence returns the resource kind Silence.
func Silence() Kind {
	return Define(Definition[*model.SilenceSpec]{
		KindInfo: model.KindInfo{Name: "Silence", Plural: "silences", Short: "si", Namespaced: true},
		Example: `kind: Silence
metadata: {name: web01-disk}
spec:
  targets: {nodes: [web01]}
  checks: [disk]
  until: 2026-12-24T18:00:00Z
  reason: the new disk arrives on Thursday
`,
		Validate: validateSilence,
		Columns: []Column[*model.SilenceSpec]{
			{"COVERS", 50, func(_ ResourceView, s *model.SilenceSpec) string { return selectorText(&s.Selector) }},
			{"UNTIL", 0, silenceEndText},
			{"BY", 0, func(_ ResourceView, s *model.SilenceSpec) string { return dashIfEmpty(s.Creator) }},
			{"HOLDS", 0, func(v ResourceView, _ *model.SilenceSpec) string { return fmt.Sprint(v.State.Holds) }},
			{"REASON", 50, func(_ ResourceView, s *model.SilenceSpec) string { return s.Reason }},
		},
		Details: func(v ResourceView, s *model.SilenceSpec) []Detail {
			state := "active; ends "
			switch {
			case !s.Until.IsZero() && !s.Until.After(v.Now):
				state = "expired; "
			case s.Begin.After(v.Now):
				state = "pending; "
			case s.Until.IsZero():
				state = "active; ends when "
			}
			return []Detail{{"state", state + silenceEndText(v, s)}, {"covers", selectorText(&s.Selector)}}
		},
	})
}

// silenceEndText says when a silence ends, relative to now.
func silenceEndText(v ResourceView, s *model.SilenceSpec) string {
	switch {
	case !s.Until.IsZero() && !s.Until.After(v.Now):
		return "ended " + model.Age(v.Now, s.Until.Time) + " ago"
	case s.Begin.After(v.Now):
		return "begins in " + model.TimeSpan(s.Begin.Sub(v.Now))
	case !s.Until.IsZero():
		return "in " + model.TimeSpan(s.Until.Sub(v.Now)) + ", " + s.Until.In(v.Zone).Format("01-02 15:04")
	case s.UntilResolved:
		return "the problem closes"
	}
	return "a user ends it"
}

// validateSilence validates the spec of a Silence.
func validateSilence(v *Validator, s *model.SilenceSpec) {
	v.validateSelector("spec", &s.Selector)
	v.MissingIf(strings.TrimSpace(s.Reason) == "",
		"spec.reason", "write the reason for the colleague on call at 3 a.m.", "missing")
	v.RequireLine("spec.reason", s.Reason, maxNote)
	v.RequireLine("spec.creator", s.Creator, maxNote)
	v.FlawIf(!s.Until.IsZero() && !s.Until.After(s.Begin.Time), "spec.until", "", "the end is before the start")
}

// Window returns the resource kind Window, a calendar of weekly or dated times.
func Window() Kind {
	return Define(Definition[*model.WindowSpec]{
		KindInfo: model.KindInfo{Name: "Window", Plural: "windows", Short: "wi", Namespaced: true},
		Example: `kind: Window
metadata: {name: night}
spec:
  timeZone: Europe/Paris
  spans: [{during: "22:00-07:00"}]
`,
		Validate: validateWindow,
		Effect: func(_ *model.Resource, s *model.WindowSpec, l ResourceUsage, _ bool) (note, warning string) {
			switch {
			case s.Maintenance == nil:
				return "", ""
			case l.Maintained == 0:
				return "maintenance of no node", "no node matches spec.maintenance. List nodes: muster get nodes"
			}
			return "maintenance of " + model.CountNoun(l.Maintained, "node"), ""
		},
		Columns: []Column[*model.WindowSpec]{
			{"ON NOW", 0, func(v ResourceView, _ *model.WindowSpec) string {
				if !v.State.InForce {
					return "no"
				}
				return "until " + v.State.Ends.In(v.Zone).Format("01-02 15:04")
			}},
			{"NEXT", 0, func(v ResourceView, _ *model.WindowSpec) string {
				if v.State.NextStart.IsZero() {
					return "never"
				}
				return "in " + model.TimeSpan(v.State.NextStart.Sub(v.Now)) + ", " + v.State.NextStart.In(v.Zone).Format("01-02 15:04")
			}},
			{"MAINTENANCE OF", 40, func(_ ResourceView, s *model.WindowSpec) string {
				if s.Maintenance == nil {
					return "-"
				}
				return selectorText(s.Maintenance)
			}},
			{"WHEN", 50, func(_ ResourceView, s *model.WindowSpec) string { return windowSpansText(s) }},
		},
	})
}

// windowSpansText formats the times of a calendar in one line.
func windowSpansText(s *model.WindowSpec) string {
	var parts []string
	for _, span := range s.Spans {
		switch {
		case span.During != "":
			parts = append(parts, span.During)
		case span.Cron != "":
			parts = append(parts, fmt.Sprintf("%s for %s", span.Cron, span.For))
		default:
			parts = append(parts, span.From+" to "+span.To)
		}
	}
	return strings.Join(parts, "; ") + strings.TrimSuffix(" "+s.TimeZone, " ")
}

// validateWindow validates the spec of a Window.
func validateWindow(v *Validator, s *model.WindowSpec) {
	v.MissingIf(len(s.Spans) == 0, "spec.spans", `write spans: [{during: "22:00-07:00"}]`, "the time is missing")
	v.LimitElements("spec.spans", len(s.Spans))
	v.validateTimeZone("spec.timeZone", s.TimeZone)
	validateWindowSpans(v, "spec.spans", s.Spans)
	v.validateSelector("spec.maintenance", s.Maintenance)
	v.RequireLine("spec.reason", s.Reason, maxNote)
}

// validateWindowSpans validates each time span of a calendar.
func validateWindowSpans(v *Validator, field string, spans []model.WindowSpan) {
	for i := range spans {
		_, err := window.New("", spans[i:i+1])
		v.recordCompileError(fmt.Sprintf("%s[%d]", field, i), err)
	}
}

// requireTimeOrWindow records an error unless either a weekly time (during) or a Window is set, not both.
func requireTimeOrWindow(v *Validator, at, during, windowName, hint string) {
	switch {
	case during == "" && windowName == "":
		v.Missing(at, hint, "the time is missing")
	case during != "" && windowName != "":
		v.Flaw(at+".window", "keep one of these fields", "during and window exclude each other")
	case during != "":
		_, err := window.ParseDuring(during, "")
		v.recordCompileError(at+".during", err)
	}
}
