package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// shownValues is how many values of an event are listed; -o yaml has all.
const shownValues = 20

// describeBeside shows what the last result carries beside its output.
func (a *app) describeBeside(e *v1.Event) {
	for _, h := range e.Hooks {
		status := ""
		if h.Status != model.OK {
			status = ", " + h.Status.String()
		}
		fmt.Fprintf(a.Stdout, "\nhook %s (took %s%s)\n%s\n", clean(h.Name, false), h.Duration, status, indent(clean(strings.TrimRight(h.Output, "\n"), true)))
	}
	if len(e.Values) == 0 {
		return
	}
	fmt.Fprintln(a.Stdout, "\nvalues")
	for i, v := range e.Values {
		if i == shownValues {
			fmt.Fprintf(a.Stdout, "  and %d more: muster get event %s/%s -o yaml\n", len(e.Values)-i, e.Node, e.Check)
			break
		}
		fmt.Fprintf(a.Stdout, "  %s\n", clean(valueLine(v), false))
	}
}

func valueLine(v model.Value) string {
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(v.Tags)) {
		tags = append(tags, k+"="+v.Tags[k])
	}
	name := v.Name
	if len(tags) > 0 {
		name += "{" + strings.Join(tags, ",") + "}"
	}
	return fmt.Sprintf("%s = %v", name, v.Value)
}
