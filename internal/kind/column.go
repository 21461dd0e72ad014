package kind

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func nodesColumn[S model.Spec]() Column[S] {
	return Column[S]{"NODES", 0, func(v View, _ S) string { return fmt.Sprint(v.State.Nodes) }}
}

func checksColumn[S model.Spec](name string) Column[S] {
	return Column[S]{name, 0, func(v View, _ S) string { return fmt.Sprint(v.State.Checks) }}
}

func usersColumn[S model.Spec]() Column[S] {
	return Column[S]{"USED BY", 0, func(v View, _ S) string { return dash(v.State.UsedBy) }}
}

// usersEffect names users, and the nodes that their checks run on.
func usersEffect[S model.Spec](_ *model.Resource, _ S, l Placement, _ bool) (note, warning string) {
	return "used by " + cmp.Or(l.UsedBy(" on "+l.nodes()), "nothing yet"), ""
}

// assetDetails adds the Assets that a spec names.
func assetDetails(list []Detail, names []string) []Detail {
	if len(names) > 0 {
		list = append(list, Detail{"assets", strings.Join(names, ", ")})
	}
	return list
}

func commandText(c *model.Command) string {
	switch {
	case c == nil:
		return "-"
	case c.Argv != nil:
		return strings.Join(c.Argv, " ")
	}
	return c.Shell
}

// targetText lists groups, nodes and the condition of targets.
func targetText(t *model.Targets) string {
	if t == nil {
		return "-"
	}
	var on []string
	for _, g := range t.Groups {
		on = append(on, "group "+g)
	}
	on = append(on, t.Nodes...)
	if t.Where != "" {
		on = append(on, t.Where)
	}
	return dash(strings.Join(on, ", "))
}

// selection says which problems a selector matches.
func selection(s *model.Selector) string {
	on := strings.TrimPrefix(targetText(s.Targets), "-")
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		on = strings.TrimPrefix(on+" "+name+"="+s.Labels[name], " ")
	}
	var what []string
	if len(s.Checks) > 0 {
		what = append(what, strings.Join(s.Checks, ", "))
	}
	if len(s.Statuses) > 0 {
		what = append(what, "if "+strings.Join(s.Statuses, " or "))
	}
	if s.Severity != "" {
		what = append(what, "from severity "+s.Severity)
	}
	switch {
	case on == "" && len(what) == 0:
		return "everything"
	case len(what) == 0:
		return on
	case on == "":
		return strings.Join(what, " ")
	}
	return strings.Join(what, " ") + " on " + on
}

func dash(text string) string { return cmp.Or(text, "-") }

// secrets requires the Secrets in the environment of a command.
func (c *References) secrets(list []model.CommandSecret) {
	for i := range list {
		c.Require("Secret", fmt.Sprintf("spec.secrets[%d].secret", i), list[i].Secret)
	}
}
