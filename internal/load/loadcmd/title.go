package loadcmd

import (
	"cmp"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// entitle names a report, unless --title does, and says what has to be said wherever its
// figures are shown.
func (o *options) entitle(rep *report.Report, sc *scenario.Scenario, title string) {
	rep.Title = cmp.Or(o.title, title)
	if rep.Stopped != nil {
		rep.Title += ", " + rep.Stopped.String()
	}
	if label := sc.Label(); label != "" {
		rep.Label = append(rep.Label, label)
	}
}
