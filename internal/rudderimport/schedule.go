package rudderimport

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

// scheduleCampaign is the type of the campaigns that are schedules of directives.
const scheduleCampaign = "directive-schedule"

// schedule is a schedule of directives in Rudder, a campaign of its API. Each node runs such a directive once in each of
// its windows.
type schedule struct {
	part     *conversion.Mapping
	name     string
	disabled bool
	times    *conversion.Mapping // type, start, end and tz
	used     bool                // a directive names it
}

// importSchedule reads a campaign of Rudder. Directives name it by its id.
func (im *importer) importSchedule(p *conversion.Mapping) {
	info := p.Child("info")
	if info == nil {
		im.noteLoss(p, "campaign", "left out: it has no info")
		return
	}
	s := &schedule{part: p, name: info.TextOf("name"), times: info.Child("schedule")}
	what := "campaign " + s.name
	if kind := p.TextOf("campaignType"); kind != scheduleCampaign {
		im.noteLoss(p, what, "left out: of campaigns, only schedules of directives (%s) are imported, not %s", scheduleCampaign, kind)
		return
	}
	if status := info.Child("status"); status != nil {
		s.disabled = status.TextOf("value") != "enabled"
	}
	id := info.TextOf("id")
	if id == "" || s.times == nil || im.schedules[id] != nil {
		im.noteLoss(p, what, "left out: it has no id or no schedule, or another campaign has its id")
		return
	}
	im.schedules[id] = s
	p.IgnoreFields("details", "version") // how far its events are generated, and the runs on demand of the next minutes
	info.IgnoreFields("description")
	im.noteUnreadFields(p, what)
	im.noteUnreadFields(info, what)
}

// noteUnusedSchedules adds a note about each schedule that no imported directive names.
func (im *importer) noteUnusedSchedules() {
	for id, s := range im.schedules {
		if !s.used {
			im.noteLoss(s.part, "schedule "+s.name, `no directive of the files names it. Answers of Rudder's API leave out the schedule of a directive: write "scheduleId": %q into its directives, or they run every %s`,
				id, model.Duration(model.DefaultPolicyInterval))
		}
	}
}

// addSchedule sets the times at which a directive runs, from its schedule in Rudder. An error says why Muster cannot
// express the schedule.
func (im *importer) addSchedule(p *conversion.Mapping, what, id string, spec *model.DirectiveSpec) error {
	s := im.schedules[id]
	if s == nil {
		return fmt.Errorf("it runs by schedule %s, which the files do not have: curl https://RUDDER/rudder/api/latest/campaigns?campaignType=%s", id, scheduleCampaign)
	}
	s.used = true
	switch kind := s.times.TextOf("type"); kind {
	case "daily", "weekly", "monthly":
		cron, window, err := s.calendar(kind)
		if err == nil && im.Bridge && window > maxSplay {
			err = fmt.Errorf("its windows are longer than a day, and the bridge awaits a run for at most a day")
		}
		if err != nil {
			return fmt.Errorf("its schedule %s: %w", s.name, err)
		}
		if spec.TimeZone = s.times.TextOf("tz"); spec.TimeZone == "" {
			im.noteLoss(p, what, "schedule %s has no time zone, that is the zone of Rudder's server: write timeZone, else UTC counts", s.name)
		}
		spec.Cron, spec.Splay = cron, im.splay(window)
	case "one-shot":
		from, err := time.Parse(time.RFC3339, s.times.TextOf("start"))
		if err != nil {
			return fmt.Errorf("the start of its schedule %s: %w", s.name, err)
		}
		until, err := time.Parse(time.RFC3339, s.times.TextOf("end"))
		switch {
		case err != nil:
			return fmt.Errorf("the end of its schedule %s: %w", s.name, err)
		case !from.Before(until):
			return fmt.Errorf("its schedule %s ends before it begins", s.name)
		case !until.After(im.Now):
			return fmt.Errorf("its schedule %s ended at %s", s.name, until.Format(time.RFC3339))
		case im.Bridge:
			return fmt.Errorf("its schedule %s is a one-shot, whose only run the bridge cannot await", s.name)
		}
		spec.OneShot = &model.OneShotSpec{From: model.Time{Time: from}, Until: model.Time{Time: until}}
		spec.Splay = im.splay(until.Sub(from))
	default:
		return fmt.Errorf("its schedule %s is of type %s, which has no equivalent in Muster", s.name, kind)
	}
	if names := s.times.UnreadFields(); len(names) > 0 {
		return fmt.Errorf("field %s of its schedule %s has no equivalent in Muster", names[0], s.name)
	}
	if s.disabled && !spec.Disabled {
		spec.Disabled = true
		im.noteChange(p, what, "is disabled, because its schedule %s is", s.name)
	}
	return nil
}

// splay returns the time over which nodes spread their runs in a window. It is half the window, as in Rudder. Reports of
// Rudder's agents may come in the whole window.
func (im *importer) splay(window time.Duration) model.Duration {
	if !im.Bridge {
		window /= 2
	}
	return model.Duration(min(window, maxSplay))
}

// maxSplay is the longest splay of a directive.
const maxSplay = 24 * time.Hour

// positions has the weeks of a month in cron's spelling, by Rudder's number.
var positions = map[string]string{"1": "#1", "2": "#2", "3": "#3", "-1": "L"}

// calendar returns the cron expression of the starts of a schedule's windows, and the length of a window.
func (s *schedule) calendar(kind string) (cron string, window time.Duration, err error) {
	start, err := s.timeOfWeek("start", kind != "daily")
	if err != nil {
		return "", 0, err
	}
	end, err := s.timeOfWeek("end", kind != "daily")
	if err != nil {
		return "", 0, err
	}
	const day = 24 * 60
	around := 7 * day
	if kind == "daily" {
		around = day
	}
	length := (end - start + around) % around
	if length == 0 {
		return "", 0, fmt.Errorf("start and end are equal, so Rudder never runs it")
	}
	weekday := "*"
	if kind != "daily" {
		weekday = strconv.Itoa((start/day + 1) % 7)
	}
	if kind == "monthly" {
		position := s.times.TextOf("position")
		if positions[position] == "" {
			return "", 0, fmt.Errorf("week %s of the month has no equivalent in cron", position)
		}
		weekday += positions[position]
	}
	return fmt.Sprintf("%d %d * * %s", start%60, start/60%24, weekday), time.Duration(length) * time.Minute, nil
}

// timeOfWeek returns the start or end of a schedule's windows, in minutes from Monday or from midnight.
func (s *schedule) timeOfWeek(name string, hasDay bool) (minutes int, err error) {
	at := s.times.Child(name)
	if at == nil {
		return 0, fmt.Errorf("it has no %s", name)
	}
	number := func(field string, low, high int) int {
		n, wrong := strconv.Atoi(at.TextOf(field))
		if wrong != nil || n < low || n > high {
			err = cmp.Or(err, fmt.Errorf("%s.%s is no number from %d to %d", name, field, low, high))
		}
		return n
	}
	if hasDay {
		minutes = (number("day", 1, 7) - 1) * 24 * 60
	}
	minutes += number("hour", 0, 24)%24*60 + number("minute", 0, 60)%60
	return minutes, err
}
