package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// DefaultName is the name of the route for problems that no other route takes.
const DefaultName = "default"

// DefaultGroupWait is the time for which the first message of a group waits for more problems.
const DefaultGroupWait = 10 * time.Second

// Route is a compiled model.RouteSpec. Immutable.
type Route struct {
	Name      Name
	GroupWait time.Duration
	Steps     []Step // ascending by After
	Rate      *model.RouteRate

	groupBy []string
	mutes   []mute
	matches bool // the route selects problems by match
}

// Step names the handlers to notify after a problem has been open for a time.
type Step struct {
	To            []Name // handlers
	After, Repeat time.Duration
}

type mute struct {
	selector *selector
	calendar *window.Calendar // nil: a named window's
	window   Name
	during   string
}

func newRoute(name Name, zone string, spec *model.RouteSpec) (*Route, error) {
	r := &Route{Name: name, GroupWait: DefaultGroupWait, Rate: spec.Rate, groupBy: spec.GroupBy, matches: spec.Match != nil}
	if spec.GroupWait != nil {
		r.GroupWait = time.Duration(*spec.GroupWait)
	}
	if len(r.groupBy) == 0 {
		r.groupBy = []string{"check"}
	}
	for _, s := range spec.Steps {
		step := Step{After: time.Duration(s.After), Repeat: time.Duration(s.Repeat)}
		for _, to := range s.To {
			ns, handler := model.SplitRef(name.Namespace, to)
			step.To = append(step.To, Name{ns, handler})
		}
		r.Steps = append(r.Steps, step)
	}
	slices.SortStableFunc(r.Steps, func(a, b Step) int { return cmp.Compare(a.After, b.After) })
	for _, s := range spec.Mute {
		m := mute{during: s.During}
		var err error
		if m.selector, err = compile(name.Namespace, &s.Selector); err != nil {
			return nil, err
		}
		if s.Window != "" {
			ns, of := model.SplitRef(name.Namespace, s.Window)
			m.window = Name{ns, of}
		} else if m.calendar, err = window.ParseDuring(s.During, zone); err != nil {
			return nil, err
		}
		r.mutes = append(r.mutes, m)
	}
	return r, nil
}

// Group returns the text that problems of one message have in common.
func (r *Route) Group(m *Problem) string {
	parts := make([]string, len(r.groupBy))
	for i, by := range r.groupBy {
		switch by {
		case "node":
			parts[i] = m.Node.String()
		case "check":
			if parts[i] = m.Source.Name.String(); m.Source.Kind != model.SourceCheck {
				parts[i] = m.Source.Kind.String() + ":" + parts[i]
			}
		case "namespace":
			parts[i] = m.Node.Namespace
		case "severity":
			parts[i] = m.Severity.String()
		default:
			parts[i] = by + "=" + m.Labels[strings.TrimPrefix(by, "label:")]
		}
	}
	return strings.Join(parts, "\x00")
}

// GroupBy returns the fields that problems of one message have in common.
func (r *Route) GroupBy() []string { return r.groupBy }
