package sensuimport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// cronMacros maps names such as @daily to cron expressions.
var cronMacros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// importTimes imports the interval or cron expression of a Sensu check.
func importTimes(o *object, c *model.CheckSpec) {
	c.Interval = seconds(o.spec.integer("interval"))
	cron := o.spec.text("cron")
	if cron == "" {
		return
	}
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(cron, prefix); ok {
			c.TimeZone, cron, _ = strings.Cut(rest, " ")
			cron = strings.TrimSpace(cron)
		}
	}
	if every, ok := strings.CutPrefix(cron, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil {
			c.Interval, c.TimeZone = model.Duration(d), ""
			return
		}
	}
	c.Interval, c.Cron = 0, cmp.Or(cronMacros[cron], cron)
	if c.TimeZone == "" {
		c.TimeZone = "UTC"
		o.noteChange("the cron expression has no time zone, and Sensu used the backend's: the import assumes UTC")
	}
}

// weekdays are Sensu's names of days, by time.Weekday. Muster writes the first three letters.
var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// weekdaySpans converts weekday times of Sensu to UTC spans such as "mon 15:00-17:00". The field has the form {days:
// {monday: [{begin, end}]}}. The day "all" has no name. Sensu compares times within one day, so a span of Monday that
// ends before its begin covers the first and the last hours of Monday.
func (o *object) weekdaySpans(field string) (spans []string) {
	days := o.spec.object(field).object("days")
	for _, day := range slices.Sorted(maps.Keys(days.values)) {
		for _, span := range days.objects(day) {
			from, okFrom := timeOfDay(span.text("begin"))
			to, okTo := timeOfDay(span.text("end"))
			day, name := strings.ToLower(day), ""
			if slices.Contains(weekdays, day) {
				name = day[:3] + " "
			}
			if !okFrom || !okTo || name == "" && day != "all" {
				o.noteLoss("%s: %s %s to %s is not a valid time", field, day, span.values["begin"], span.values["end"])
				continue
			}
			if from == to {
				o.noteLoss("%s: %s %s to %s has no length", field, day, span.values["begin"], span.values["end"])
				continue
			}
			if name != "" && to < from && to != "00:00" {
				spans = append(spans, name+"00:00-"+to)
				to = "00:00"
			}
			if to == "00:00" {
				to = "24:00"
			}
			spans = append(spans, name+from+"-"+to)
		}
	}
	return spans
}

// timeOfDay converts a time of day such as "3:00 PM" to "15:00".
func timeOfDay(text string) (string, bool) {
	for _, layout := range []string{"3:04 PM", "3:04PM", "15:04"} {
		if t, err := time.Parse(layout, strings.ToUpper(strings.TrimSpace(text))); err == nil {
			return t.Format("15:04"), true
		}
	}
	return "", false
}

// WeekdayTimes converts weekly times in UTC, such as "mon 15:00-17:00", to Sensu's weekday times. The format is {days:
// {monday: [{begin, end}]}}. An import of the result makes the same spans. not ok: a span has another form.
func WeekdayTimes(spans []string) (out map[string]any, ok bool) {
	byDay := map[string]any{}
	for _, during := range spans {
		day, times, found := strings.Cut(during, " ")
		if !found {
			day, times = "all", during
		} else if i := slices.IndexFunc(weekdays, func(long string) bool { return long[:3] == day }); i >= 0 {
			day = weekdays[i]
		} else {
			return nil, false
		}
		from, to, _ := strings.Cut(times, "-")
		begin, err1 := time.Parse("15:04", from)
		end, err2 := time.Parse("15:04", strings.Replace(to, "24:00", "00:00", 1))
		if err1 != nil || err2 != nil {
			return nil, false
		}
		list, _ := byDay[day].([]map[string]any)
		byDay[day] = append(list, map[string]any{"begin": begin.Format("3:04PM"), "end": end.Format("3:04PM")})
	}
	return map[string]any{"days": byDay}, true
}

// importSubdues imports the times in which a check does not run (subdues). They are given by weekday, or by start time
// and repetition rule.
func importSubdues(o *object, c *model.CheckSpec) {
	var except []model.ScheduleException
	for _, during := range o.weekdaySpans("subdue") {
		except = append(except, model.ScheduleException{During: during + " UTC"})
	}
	for i, s := range o.spec.objects("subdues") {
		begin, err1 := time.Parse(time.RFC3339, s.text("begin"))
		end, err2 := time.Parse(time.RFC3339, s.text("end"))
		repeat := s.texts("repeat")
		if err1 != nil || err2 != nil || !end.After(begin) {
			o.noteLoss("subdues: %v to %v is not a valid time", s.values["begin"], s.values["end"])
			continue
		}
		zone, in := zoneOf(begin)
		spans, err := repeatedSpans(begin.In(in), end.In(in), repeat)
		if err != nil {
			o.noteLoss("subdues: %v", err)
			continue
		}
		window := musterName("subdue-" + o.name)
		if i > 0 {
			window = musterName(fmt.Sprintf("subdue-%s-%d", o.name, i+1))
		}
		o.addResource(window, &model.WindowSpec{TimeZone: zone, Spans: spans, Reason: "subdues of check " + o.name})
		except = append(except, model.ScheduleException{Window: window})
		o.noteChange("subdues became the window %s in %s, which has no daylight saving time: set the window's timeZone to the intended time zone", window, zone)
	}
	if len(except) > 0 {
		c.Schedule = &model.Schedule{Except: except}
	}
}

// zoneOf returns a fixed time zone with the UTC offset that a time has. It returns UTC if no zone has whole hours of
// that offset.
func zoneOf(t time.Time) (name string, in *time.Location) {
	_, offset := t.Zone()
	if offset == 0 || offset%3600 != 0 {
		return "UTC", time.UTC
	}
	return fmt.Sprintf("Etc/GMT%+d", -offset/3600), t.Location()
}

// repeatRules maps Sensu's rules of repetition to the day, month and weekday fields of a cron expression. %d stands for the
// value in the first time.
var repeatRules = []struct{ rule, day, month, weekday string }{
	{"daily", "*", "*", "*"}, {"weekdays", "*", "*", "1-5"}, {"weekends", "*", "*", "0,6"},
	{"sundays", "*", "*", "0"}, {"mondays", "*", "*", "1"}, {"tuesdays", "*", "*", "2"}, {"wednesdays", "*", "*", "3"},
	{"thursdays", "*", "*", "4"}, {"fridays", "*", "*", "5"}, {"saturdays", "*", "*", "6"},
	{"weekly", "*", "*", "%d"}, {"monthly", "%d", "*", "*"}, {"annually", "%d", "%d", "*"},
}

// spanTime is the layout of begin and end of a time span that is not repeated.
const spanTime = "2006-01-02 15:04"

// repeatedSpans converts a begin, an end and Sensu's repetition rules, such as weekly, to spans of a Window. A
// rule is, for example, weekly.
func repeatedSpans(begin, end time.Time, rules []string) (spans []model.WindowSpan, err error) {
	if len(rules) == 0 {
		return []model.WindowSpan{{From: begin.Format(spanTime), To: end.Format(spanTime)}}, nil
	}
	of := func(field string, n int) string { return strings.ReplaceAll(field, "%d", strconv.Itoa(n)) }
	for _, rule := range rules {
		i := slices.IndexFunc(repeatRules, func(r struct{ rule, day, month, weekday string }) bool { return strings.EqualFold(r.rule, rule) })
		if i < 0 {
			return spans, fmt.Errorf("unknown repetition rule %s", rule)
		}
		r := repeatRules[i]
		cron := fmt.Sprintf("%d %d %s %s %s", begin.Minute(), begin.Hour(),
			of(r.day, begin.Day()), of(r.month, int(begin.Month())), of(r.weekday, int(begin.Weekday())))
		spans = append(spans, model.WindowSpan{Cron: cron, For: model.Duration(end.Sub(begin))})
	}
	return spans, nil
}

// Subdue converts the Window of an imported check back to the check's subdue (times without runs). An import has made
// the Window from the subdue. not ok: the window is not from a subdue.
func Subdue(w *model.WindowSpec) (subdue map[string]any, ok bool) {
	in, err := time.LoadLocation(w.TimeZone)
	if err != nil || len(w.Spans) == 0 {
		return nil, false
	}
	form := func(begin, end time.Time, rules []string) map[string]any {
		return map[string]any{"begin": begin.Format(time.RFC3339), "end": end.Format(time.RFC3339), "repeat": rules}
	}
	first := w.Spans[0]
	if first.Cron == "" {
		begin, err1 := time.ParseInLocation(spanTime, first.From, in)
		end, err2 := time.ParseInLocation(spanTime, first.To, in)
		return form(begin, end, []string{}), err1 == nil && err2 == nil && len(w.Spans) == 1
	}
	var minute, hour int
	day, month := 1, 1
	var rules []string
	for _, s := range w.Spans {
		cron := strings.Fields(s.Cron)
		if len(cron) != 5 || s.For != first.For {
			return nil, false
		}
		for i, at := range []*int{&minute, &hour, &day, &month} {
			if cron[i] == "*" {
				continue
			}
			if *at, err = strconv.Atoi(cron[i]); err != nil {
				return nil, false
			}
		}
		rule := ""
		for _, r := range repeatRules {
			fits := func(field, cron string) bool { return field == cron || field == "%d" && cron != "*" }
			if rule == "" && fits(r.day, cron[2]) && fits(r.month, cron[3]) && fits(r.weekday, cron[4]) {
				rule = r.rule
			}
		}
		rules = append(rules, rule)
	}
	begin := time.Date(2026, time.Month(month), day, hour, minute, 0, 0, in)
	return form(begin, begin.Add(time.Duration(first.For)), rules), true
}
