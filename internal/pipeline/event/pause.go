package event

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// pause is how long the TTL of a check still runs that did not run for a while because it is
// not to (schedule.except): it begins anew with the end of the last such time since its last
// run. Zero: it has passed. Only the journal's time is asked, so that a replay says the same.
func (w *worker) pause(c *model.CheckChunk, s *slot) int64 {
	set, known := w.calendars[c.ID]
	if !known {
		set, _ = window.NewSet(c.Except) // apply refused calendars that do not parse
		if w.calendars == nil {
			w.calendars = map[model.ChunkID]window.Set{}
		}
		w.calendars[c.ID] = set
	}
	from := max(s.executed, w.Received-int64(c.TTL)) // pauses that ended before do not matter
	end, ok := set.LastEnd(unixNano(from), unixNano(w.Received))
	if !ok {
		return 0
	}
	return max(0, end.UnixNano()+int64(c.TTL)-w.Received)
}
