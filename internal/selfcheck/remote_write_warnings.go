package selfcheck

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/remotesend"
)

// remoteWriteLate is the smallest lag of remote write that the status reports.
const remoteWriteLate = time.Minute

// remoteWriteWarnings returns the warnings about remote write for the server's status.
func remoteWriteWarnings(s *remotesend.State, now time.Time) (list []string) {
	if s.Trouble != nil || s.Lag > remoteWriteLate {
		list = append(list, remoteWriteText(s))
	}
	if s.Refusal != nil && now.Sub(s.RefusedAt) < hitsShown {
		list = append(list, fmt.Sprintf("remote write: the other store refused %d samples: %s", s.Refused, model.OneLine(s.Refusal)))
	}
	return list
}

// remoteWriteText returns the warning that remote write is behind.
func remoteWriteText(s *remotesend.State) string {
	text := "remote write is " + model.TimeSpan(s.Lag) + " behind, and " + model.Size(s.Bytes).Approximate() + " wait"
	if s.Trouble != nil {
		text += ": " + model.OneLine(s.Trouble)
	}
	return text
}
