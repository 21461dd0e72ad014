package kind

import (
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/muster-fleet/muster/internal/model"
)

func validateExceptions(v *Validator, s *model.Schedule) {
	if s == nil {
		return
	}
	v.Bound("spec.schedule.except", len(s.Except))
	for i, e := range s.Except {
		at := fmt.Sprintf("spec.schedule.except[%d]", i)
		switch {
		case e.During == "" && e.Window == "":
			v.Missing(at, `write during: "22:00-07:00 Europe/Paris", or window: NAME`, "does not say when")
		case e.During != "" && e.Window != "":
			v.Flaw(at+".window", "keep one of them", "both during and window")
		case e.Window != "":
			v.SharedName(at+".window", e.Window)
		default:
			validateDuring(v, at+".during", e.During)
		}
	}
}

func validateSchedule(v *Validator, s *model.CheckSpec) {
	switch {
	case s.Interval == 0 && s.Cron == "":
		v.Missing("spec", "write interval: 60s, or cron", "does not say when to run")
	case s.Interval != 0 && s.Cron != "":
		v.Flaw("spec.cron", "keep one of them", "both interval and cron")
	case s.Cron == "":
		v.InRange("spec.interval", s.Interval, model.Duration(time.Second), maxInterval)
	}
	if s.Cron != "" {
		if fields := strings.Fields(s.Cron); len(s.Cron) > model.MaxText {
			v.Flaw("spec.cron", "", "longer than %d bytes", model.MaxText)
		} else if len(fields) != 5 {
			v.Flaw("spec.cron", `minute, hour, day, month, weekday: "0 3 * * *" is every day at three`, "want five fields, not %d", len(fields))
		} else if !gronx.IsValid(s.Cron) {
			text, hint := wrongCron(fields)
			v.Flaw("spec.cron", hint, "%q is no cron expression%s", s.Cron, text)
		}
	}
	if s.TimeZone != "" {
		if s.Cron == "" {
			v.Missing("spec.timeZone", "leave it out", "means nothing without cron")
		}
		v.timeZone("spec.timeZone", s.TimeZone)
	}
}

// cronFields are the five of an expression.
var cronFields = [...]struct{ name, values string }{
	{"minute", "0 to 59"}, {"hour", "0 to 23"}, {"day of the month", "1 to 31"}, {"month", "1 to 12 or JAN to DEC"}, {"weekday", "0 to 6 or SUN to SAT"},
}

// wrongCron finds the field that makes five of them no cron expression.
func wrongCron(fields []string) (text, hint string) {
	for i, field := range fields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if f := cronFields[i]; !gronx.IsValid(strings.Join(alone, " ")) {
			return fmt.Sprintf(": %q is no %s", field, f.name), fmt.Sprintf("write %s, a list (1,3), a range (1-3), a step (*/2) or *", f.values)
		}
	}
	return "", `minute, hour, day, month, weekday: "0 3 * * *" is every day at three`
}
