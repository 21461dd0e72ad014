package window

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/muster-fleet/muster/internal/model"
)

// maxFor is how long a span that begins with a cron tick may last.
const maxFor = 31 * 24 * time.Hour

func parseSpan(s model.WindowSpan, zone *time.Location) (span, error) {
	given := 0
	for _, text := range []string{s.During, s.Cron, s.From + s.To} {
		if text != "" {
			given++
		}
	}
	if given != 1 || s.For != 0 && s.Cron == "" {
		return nil, model.Errorf(model.Invalid, "a span has exactly one of during, cron (with for) and from (with to)")
	}
	switch {
	case s.During != "":
		return parseWeekly(s.During)
	case s.Cron != "":
		return parseCron(s)
	}
	return parseOnce(s, zone)
}

// ticked begins with each tick of a cron expression.
type ticked struct {
	expr   string
	length time.Duration
}

func parseCron(s model.WindowSpan) (span, error) {
	if len(strings.Fields(s.Cron)) != 5 || !gronx.IsValid(s.Cron) {
		return nil, model.Errorf(model.Invalid, "cron %q: want five fields (minute hour day month weekday)", s.Cron).WithHint(`"0 2 * * sun"`)
	}
	if d := time.Duration(s.For); d < time.Minute || d > maxFor {
		return nil, model.Errorf(model.Invalid, "cron %q: for says how long it lasts: from 1m to 31d", s.Cron)
	}
	return ticked{s.Cron, time.Duration(s.For)}, nil
}

// once is from one instant to another.
type once struct{ from, to time.Time }

const onceForm = "2006-01-02 15:04"

func parseOnce(s model.WindowSpan, zone *time.Location) (span, error) {
	var o once
	for _, end := range []struct {
		text string
		last bool
		into *time.Time
	}{{s.From, false, &o.from}, {s.To, true, &o.to}} {
		if at, err := time.Parse(time.RFC3339, end.text); err == nil {
			*end.into = at
			continue
		}
		wall, err := time.Parse(onceForm, strings.Replace(end.text, "T", " ", 1))
		if err != nil {
			return nil, model.Errorf(model.Invalid, "%q is no date with a time", end.text).WithHint("2026-12-24 18:00")
		}
		first, last := dateOf(wall).instants(wall.Hour()*60+wall.Minute(), zone)
		if *end.into = first; end.last {
			*end.into = last
		}
	}
	if !o.from.Before(o.to) {
		return nil, model.Errorf(model.Invalid, "from %s to %s is no time", s.From, s.To)
	}
	return o, nil
}

func (o once) around(t time.Time, _ *time.Location) (from, until time.Time, ok bool) {
	return o.from, o.to, !t.Before(o.from) && t.Before(o.to)
}

func (o once) after(t time.Time, _ *time.Location) time.Time {
	if o.from.After(t) {
		return o.from
	}
	return time.Time{}
}
