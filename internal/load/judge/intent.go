package judge

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Intent returns a row for each entry of the scenario's intent: how soon the API answered its changes, and how soon agents
// held them.
func Intent(entries []scenario.Change, list []observe.Intent) (rows []report.Held) {
	for n := range entries {
		row := report.Held{What: entries[n].What(), At: time.Duration(entries[n].At).Seconds()}
		var answered, holds, all observe.Histogram
		for _, x := range list {
			if x.Entry != n {
				continue
			}
			answered.Record(x.Answered-x.Meant, 1)
			if x.Unasked {
				row.Unasked++
				if x.Away {
					row.UnaskedAway++
				}
				continue
			}
			row.Changes++
			row.Agents += x.Agents
			row.Never += x.Never
			for _, at := range x.Held { // an agent that was faster than the answer took no time
				holds.Record(max(0, at-x.Answered), 1)
			}
			if x.Never == 0 {
				all.Record(max(0, slices.Max(append(slices.Clip(x.Held), 0))-x.Answered), 1)
			}
		}
		row.Answered, row.Holds, row.All = answered.Latency(), holds.Latency(), all.Latency()
		rows = append(rows, row)
	}
	return rows
}
