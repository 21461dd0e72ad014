package judge

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Faults returns the faults that struck, in the order of the scenario.
func Faults(c *observe.Checks) []report.Struck {
	members := observe.Members(c.Ledgers)
	var numbers []int
	for _, f := range c.Faults {
		if !f.Over {
			numbers = append(numbers, f.Number)
		}
	}
	slices.Sort(numbers)
	rows, zero := make([]report.Struck, len(numbers)), time.Duration(c.Score.Zero()).Seconds()
	for _, f := range c.Faults {
		i := slices.Index(numbers, f.Number)
		switch {
		case i < 0:
			continue
		case f.Over:
			rows[i].Until = f.At - zero
		default:
			rows[i] = report.Struck{What: f.What, At: f.At - zero, Places: f.Places}
		}
		if len(f.Struck) > 0 {
			rows[i].Back = sessionsBack(members, &f)
		}
	}
	return rows
}

// sessionsBack returns the seconds until all agents whose sessions a fault ended had one again, or zero if some had
// none.
func sessionsBack(members map[int]*observe.Ledger, f *observe.Fault) float64 {
	at := int64(f.At * 1e9)
	last := at
	for _, m := range f.Struck {
		a := members[m]
		if a != nil && a.Stopped {
			continue
		}
		if a == nil {
			return 0
		}
		i := slices.IndexFunc(a.Stays, func(s observe.Stay) bool { return s.From > at })
		if i < 0 {
			return 0
		}
		last = max(last, a.Stays[i].From)
	}
	return time.Duration(last - at).Seconds()
}
