package measure

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// nagios reads perfdata: 'label'=value[unit];[warn];[crit];[min];[max] behind a |. The unit
// becomes the tag unit.
func (s *scan) nagios(output []byte) {
	out := model.ParseOutput(output)
	s.bad += out.Malformed
	for _, d := range out.PerfData {
		var tags map[string]string
		if d.Unit != "" {
			tags = map[string]string{"unit": d.Unit}
		}
		if !s.add(d.Label, d.Value, time.Time{}, tags) {
			s.bad++
		}
	}
}
