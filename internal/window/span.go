package window

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/muster-fleet/muster/internal/model"
)

// maxFor limits the length of a span that begins with a cron tick.
const maxFor = 31 * 24 * time.Hour

func parseSpan(s model.WindowSpan, zone *time.Location) (span, error) {
	forms := 0
	for _, text := range []string{s.During, s.Cron, s.From + s.To} {
		if text != "" {
			forms++
		}
	}
	if forms != 1 || s.For != 0 && s.Cron == "" {
		return nil, model.Errorf(model.Invalid, "a span has exactly one of during, cron (with for) and from (with to)")
	}
	switch {
	case s.During != "":
		return parseWeekly(s.During)
	case s.Cron != "":
		return parseCron(s)
	}
	return parseFixed(s, zone)
}

// cronSpan begins with each tick of a cron expression.
type cronSpan struct {
	expr   string
	length time.Duration
}

func parseCron(s model.WindowSpan) (span, error) {
	if len(strings.Fields(s.Cron)) != 5 || !gronx.IsValid(s.Cron) {
		return nil, model.Errorf(model.Invalid, "cron %q: expected five fields (minute hour day month weekday)", s.Cron).WithHint(`"0 2 * * sun"`)
	}
	if d := time.Duration(s.For); d < time.Minute || d > maxFor {
		return nil, model.Errorf(model.Invalid, "cron %q: for is its length: expected 1m to 31d", s.Cron)
	}
	return cronSpan{s.Cron, time.Duration(s.For)}, nil
}

// fixedSpan occurs once, from one instant to another.
type fixedSpan struct{ from, to time.Time }

const dateForm = "2006-01-02 15:04"

func parseFixed(s model.WindowSpan, zone *time.Location) (span, error) {
	var o fixedSpan
	for _, end := range []struct {
		text string
		last bool
		into *time.Time
	}{{s.From, false, &o.from}, {s.To, true, &o.to}} {
		if at, err := time.Parse(time.RFC3339, end.text); err == nil {
			*end.into = at
			continue
		}
		wall, err := time.Parse(dateForm, strings.Replace(end.text, "T", " ", 1))
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

func (o fixedSpan) containing(t time.Time, _ *time.Location) (from, until time.Time, ok bool) {
	return o.from, o.to, !t.Before(o.from) && t.Before(o.to)
}

func (o fixedSpan) next(t time.Time, _ *time.Location) time.Time {
	if o.from.After(t) {
		return o.from
	}
	return time.Time{}
}
