package sensuimport

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// subdued are the times in which a check does not run: subdue by days of the week, subdues by a
// first time and how it comes again.
func (im *importer) subdued(o *object, c *model.CheckSpec) {
	add := func(e model.Except) {
		if c.Schedule == nil {
			c.Schedule = &model.Schedule{}
		}
		c.Schedule.Except = append(c.Schedule.Except, e)
	}
	days := o.spec.object("subdue").object("days")
	for _, day := range slices.Sorted(maps.Keys(days.values)) {
		for _, span := range days.objects(day) {
			if during, ok := dayTime(day, span.text("begin"), span.text("end")); ok {
				add(model.Except{During: during + " UTC"})
			} else {
				im.lost(o, "subdue: %s %s to %s is no time", day, span.values["begin"], span.values["end"])
			}
		}
	}
	for i, s := range o.spec.objects("subdues") {
		begin, err1 := time.Parse(time.RFC3339, s.text("begin"))
		end, err2 := time.Parse(time.RFC3339, s.text("end"))
		repeat := s.texts("repeat")
		if err1 != nil || err2 != nil || !end.After(begin) {
			im.lost(o, "subdues: %v to %v is no time", s.values["begin"], s.values["end"])
			continue
		}
		zone, in := zoneOf(begin)
		spans, err := repeated(begin.In(in), end.In(in), repeat)
		if err != nil {
			im.lost(o, "subdues: %v", err)
			continue
		}
		window := name("subdue-" + o.name)
		if i > 0 {
			window = name(fmt.Sprintf("subdue-%s-%d", o.name, i+1))
		}
		im.add(im.ns(o), window, &model.WindowSpec{TimeZone: zone, Spans: spans, Reason: "subdues of check " + o.name})
		add(model.Except{Window: window})
		im.said(o, "subdues became the window %s in %s, which knows no summer time: give it the zone in which the times are meant", window, zone)
	}
}

// zoneOf is the zone of a time that was written with an offset; UTC where no zone has it.
func zoneOf(t time.Time) (name string, in *time.Location) {
	_, offset := t.Zone()
	if offset == 0 || offset%3600 != 0 {
		return "UTC", time.UTC
	}
	return fmt.Sprintf("Etc/GMT%+d", -offset/3600), t.Location()
}

var weekdays = map[string]time.Weekday{
	"sundays": time.Sunday, "mondays": time.Monday, "tuesdays": time.Tuesday, "wednesdays": time.Wednesday, "thursdays": time.Thursday,
	"fridays": time.Friday, "saturdays": time.Saturday,
}

// repeated are the spans of one time that comes again.
func repeated(begin, end time.Time, repeat []string) (spans []model.WindowSpan, err error) {
	if len(repeat) == 0 {
		const layout = "2006-01-02 15:04"
		return []model.WindowSpan{{From: begin.Format(layout), To: end.Format(layout)}}, nil
	}
	for _, how := range repeat {
		day, month, weekday := "*", "*", "*"
		switch how {
		case "daily":
		case "weekdays":
			weekday = "1-5"
		case "weekends":
			weekday = "0,6"
		case "weekly":
			weekday = fmt.Sprint(int(begin.Weekday()))
		case "monthly":
			day = fmt.Sprint(begin.Day())
		case "annually":
			day, month = fmt.Sprint(begin.Day()), fmt.Sprint(int(begin.Month()))
		default:
			of, ok := weekdays[strings.ToLower(how)]
			if !ok {
				return spans, fmt.Errorf("repeat %s is not known", how)
			}
			weekday = fmt.Sprint(int(of))
		}
		spans = append(spans, model.WindowSpan{Cron: fmt.Sprintf("%d %d %s %s %s", begin.Minute(), begin.Hour(), day, month, weekday), For: model.Duration(end.Sub(begin))})
	}
	return spans, nil
}
