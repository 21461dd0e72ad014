package sensuctl

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

var weekdays = map[string]string{
	"mon": "monday", "tue": "tuesday", "wed": "wednesday", "thu": "thursday", "fri": "friday", "sat": "saturday", "sun": "sunday",
}

// days are times of days of the week in UTC, as Sensu writes them; not ok: there are others.
func days(spans []string) (out object, ok bool) {
	by := object{}
	for _, during := range spans {
		day, times, found := strings.Cut(during, " ")
		if !found {
			day, times = "all", during
		} else if day = weekdays[day]; day == "" {
			return nil, false
		}
		from, to, _ := strings.Cut(times, "-")
		begin, err1 := time.Parse("15:04", from)
		end, err2 := time.Parse("15:04", strings.Replace(to, "24:00", "00:00", 1))
		if err1 != nil || err2 != nil {
			return nil, false
		}
		list, _ := by[day].([]object)
		by[day] = append(list, object{"begin": begin.Format("3:04PM"), "end": end.Format("3:04PM")})
	}
	return object{"days": by}, true
}

// whenOf are the times of a filter.
func whenOf(w *model.FilterWhen) (out object, ok bool) {
	if w == nil {
		return nil, true
	}
	var spans []string
	for _, s := range w.Spans {
		if s.During == "" {
			return nil, false
		}
		spans = append(spans, s.During)
	}
	if w.Window != "" || w.TimeZone != "UTC" {
		return nil, false
	}
	return days(spans)
}

// subdued are the times in which a check does not run, where Sensu has words for all of them.
func subdued(s *model.Schedule) any {
	if s == nil {
		return nil
	}
	var spans []string
	for _, e := range s.Except {
		during, utc := strings.CutSuffix(e.During, " UTC")
		if !utc || e.Window != "" {
			return nil
		}
		spans = append(spans, during)
	}
	if out, ok := days(spans); ok {
		return out
	}
	return nil
}
