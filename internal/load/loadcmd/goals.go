package loadcmd

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// writeGoals lists what --goal and a scenario's objectives can be set for.
func writeGoals(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "NAME\tLIMIT\tUNIT\tKIND\tOF A PHASE\tWHAT IT IS\n")
	for _, f := range scenario.Figures() {
		limit := "at most"
		if f.Least {
			limit = "at least"
		}
		phase := ""
		if slices.Contains(scenario.PhaseFigures(), f.Name) {
			phase = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, limit, f.Unit, f.Kind, phase, f.What)
	}
	return w.Flush()
}
