package kind

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// Window returns the kind of calendars.
func Window() Kind {
	return Define(func() *model.WindowSpec { return &model.WindowSpec{} }, Definition[*model.WindowSpec]{
		KindInfo: model.KindInfo{Name: "Window", Plural: "windows", Short: "wi", Namespaced: true},
		Example: `kind: Window
metadata: {name: night}
spec:
  timeZone: Europe/Paris
  spans: [{during: "22:00-07:00"}]
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.WindowSpec) { validateWindow(v, s) },
		Targets: func(s *model.WindowSpec) []FieldTargets {
			if s.Maintenance == nil {
				return nil
			}
			return []FieldTargets{{"spec.maintenance.targets", s.Maintenance.Targets}}
		},
		Columns: []Column[*model.WindowSpec]{
			{"ON NOW", 0, func(v View, _ *model.WindowSpec) string {
				if !v.State.InForce {
					return "no"
				}
				return "until " + v.State.Ends.In(v.Zone).Format("01-02 15:04")
			}},
			{"NEXT", 0, func(v View, _ *model.WindowSpec) string {
				if v.State.Begins.IsZero() {
					return "never"
				}
				return "in " + model.TimeSpan(v.State.Begins.Sub(v.Now)) + ", " + v.State.Begins.In(v.Zone).Format("01-02 15:04")
			}},
			{"MAINTENANCE OF", 40, func(_ View, s *model.WindowSpec) string {
				if s.Maintenance == nil {
					return "-"
				}
				return selection(s.Maintenance)
			}},
			{"WHEN", 50, func(_ View, s *model.WindowSpec) string { return spansText(s) }},
		},
	})
}

func spansText(s *model.WindowSpec) string {
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

// validateWindow requires a window, if one is named.
func (c *References) window(field, name string) {
	if name != "" {
		c.Require("Window", field, name)
	}
}

func validateWindow(v *Validator, s *model.WindowSpec) {
	if len(s.Spans) == 0 {
		v.Missing("spec.spans", `write spans: [{during: "22:00-07:00"}]`, "says no time")
	}
	v.Bound("spec.spans", len(s.Spans))
	v.timeZone("spec.timeZone", s.TimeZone)
	validateSpans(v, "spec.spans", s.Spans)
	if s.Maintenance != nil {
		v.selector("spec.maintenance", s.Maintenance)
	}
	v.Line("spec.reason", s.Reason)
}

// validateSpans compiles each span of a calendar.
func validateSpans(v *Validator, field string, spans []model.WindowSpan) {
	for i := range spans {
		_, err := window.New("", spans[i:i+1])
		v.compiled(fmt.Sprintf("%s[%d]", field, i), err)
	}
}

// validateDuring compiles a time of the week.
func validateDuring(v *Validator, field, text string) {
	_, err := window.ParseDuring(text, "")
	v.compiled(field, err)
}
