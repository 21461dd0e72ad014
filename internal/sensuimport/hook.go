package sensuimport

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func importHook(o *object) {
	s := o.spec
	spec := &model.HookSpec{Command: &model.Command{Shell: translateTokens(o, "command", s.text("command"))}, Timeout: seconds(s.integer("timeout")), Stdin: s.boolean("stdin")}
	if most := seconds(60); spec.Timeout > most {
		o.noteChange("timeout: a hook may take 60s at most: the result leaves when it has ended")
		spec.Timeout = most
	}
	assets := s.texts("runtime_assets")
	if r := o.declare(spec); r.Spec == spec && len(assets) > 0 {
		o.importer.hookAssets[resourceKey{"Hook", o.targetNamespace(), r.Metadata.Name}] = assets
	}
}

func importMutator(o *object) {
	s := o.spec
	spec := &model.MutatorSpec{Env: environment(o, s.texts("env_vars")), Timeout: seconds(s.integer("timeout"))}
	if s.text("type") == "javascript" {
		spec.Javascript = s.text("eval")
	} else {
		spec.Command = &model.Command{Shell: s.text("command")}
		spec.Secrets = commandSecrets(o, "mutator")
	}
	spec.Assets = assetsOf(o, "mutator")
	o.declare(spec)
}

func importFilter(o *object) {
	s := o.spec
	spec := &model.FilterSpec{Action: s.text("action"), Expressions: s.texts("expressions")}
	spec.Assets = assetsOf(o, "filter")
	days := s.object("when").object("days")
	var spans []model.WindowSpan
	for _, day := range slices.Sorted(maps.Keys(days.values)) {
		for _, span := range days.objects(day) {
			during, ok := dayTime(day, span.text("begin"), span.text("end"))
			if !ok {
				o.noteLoss("when: %s %s to %s is not a valid time", day, span.values["begin"], span.values["end"])
				continue
			}
			spans = append(spans, model.WindowSpan{During: during})
		}
	}
	if len(spans) > 0 {
		spec.When = &model.FilterWhen{TimeZone: "UTC", Spans: spans}
	}
	o.declare(spec)
}

// dayTime is a span of one day of the week, or of all: begin and end are "3:00 PM", in UTC.
func dayTime(day, begin, end string) (during string, ok bool) {
	from, okFrom := clock(begin)
	to, okTo := clock(end)
	if !okFrom || !okTo {
		return "", false
	}
	if to == "00:00" {
		to = "24:00"
	}
	during = from + "-" + to
	if day = strings.ToLower(day); day != "all" {
		if len(day) < 3 || !slices.Contains([]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}, day) {
			return "", false
		}
		during = day[:3] + " " + during
	}
	return during, true
}

func clock(text string) (string, bool) {
	for _, layout := range []string{"3:04 PM", "3:04PM", "15:04"} {
		if t, err := time.Parse(layout, strings.ToUpper(strings.TrimSpace(text))); err == nil {
			return t.Format("15:04"), true
		}
	}
	return "", false
}

// subdued are the times in which a check does not run: subdue by days of the week, subdues by a
// first time and how it comes again.
func importSubdues(o *object, c *model.CheckSpec) {
	add := func(e model.ScheduleException) {
		if c.Schedule == nil {
			c.Schedule = &model.Schedule{}
		}
		c.Schedule.Except = append(c.Schedule.Except, e)
	}
	days := o.spec.object("subdue").object("days")
	for _, day := range slices.Sorted(maps.Keys(days.values)) {
		for _, span := range days.objects(day) {
			if during, ok := dayTime(day, span.text("begin"), span.text("end")); ok {
				add(model.ScheduleException{During: during + " UTC"})
			} else {
				o.noteLoss("subdue: %s %s to %s is not a valid time", day, span.values["begin"], span.values["end"])
			}
		}
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
		spans, err := repeated(begin.In(in), end.In(in), repeat)
		if err != nil {
			o.noteLoss("subdues: %v", err)
			continue
		}
		window := name("subdue-" + o.name)
		if i > 0 {
			window = name(fmt.Sprintf("subdue-%s-%d", o.name, i+1))
		}
		o.add(window, &model.WindowSpec{TimeZone: zone, Spans: spans, Reason: "subdues of check " + o.name})
		add(model.ScheduleException{Window: window})
		o.noteChange("subdues became the window %s in %s, which knows no summer time: give it the zone in which the times are meant", window, zone)
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
				return spans, fmt.Errorf("unknown repeat %s", how)
			}
			weekday = fmt.Sprint(int(of))
		}
		spans = append(spans, model.WindowSpan{Cron: fmt.Sprintf("%d %d %s %s %s", begin.Minute(), begin.Hour(), day, month, weekday), For: model.Duration(end.Sub(begin))})
	}
	return spans, nil
}

// Subdue writes a window that an import made of one of a check's subdues as Sensu had it. not ok: it has another form.
func Subdue(w *model.WindowSpec) (subdue map[string]any, ok bool) {
	in, err := time.LoadLocation(w.TimeZone)
	if err != nil || len(w.Spans) == 0 {
		return nil, false
	}
	first := w.Spans[0]
	if first.Cron == "" {
		const layout = "2006-01-02 15:04"
		begin, err1 := time.ParseInLocation(layout, first.From, in)
		end, err2 := time.ParseInLocation(layout, first.To, in)
		return map[string]any{"begin": begin.Format(time.RFC3339), "end": end.Format(time.RFC3339), "repeat": []string{}}, err1 == nil && err2 == nil && len(w.Spans) == 1
	}
	var minute, hour int
	day, month := 1, 1
	var repeat []string
	for _, s := range w.Spans {
		cron := strings.Fields(s.Cron)
		if len(cron) != 5 || s.For != first.For {
			return nil, false
		}
		var err error
		for i, at := range []*int{&minute, &hour, &day, &month} {
			if cron[i] != "*" && err == nil {
				*at, err = strconv.Atoi(cron[i])
			}
		}
		how := map[string]string{"* * *": "daily", "* * 1-5": "weekdays", "* * 0,6": "weekends"}[strings.Join(cron[2:], " ")]
		for name, weekday := range weekdays {
			if strings.Join(cron[2:], " ") == fmt.Sprint("* * ", int(weekday)) {
				how = name
			}
		}
		switch {
		case err != nil:
			return nil, false
		case how == "" && cron[3] != "*":
			how = "annually"
		case how == "" && cron[2] != "*":
			how = "monthly"
		}
		repeat = append(repeat, how)
	}
	begin := time.Date(2026, time.Month(month), day, hour, minute, 0, 0, in)
	return map[string]any{"begin": begin.Format(time.RFC3339), "end": begin.Add(time.Duration(first.For)).Format(time.RFC3339), "repeat": repeat}, true
}
