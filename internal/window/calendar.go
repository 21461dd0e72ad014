package window

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Calendar is a set of time spans in one time zone, such as weekly maintenance hours. Safe for concurrent use.
type Calendar struct {
	zone  *time.Location
	spans []span
}

// span is a time span of a calendar, such as a weekly maintenance hour.
type span interface {
	// containing returns the bounds of the occurrence that contains t; from belongs to the occurrence, until does not.
	containing(t time.Time, zone *time.Location) (from, until time.Time, ok bool)
	// next returns the beginning of the first occurrence later than t; zero: there is none.
	next(t time.Time, zone *time.Location) time.Time
}

// New returns a calendar that is active during the given time spans. zone is an IANA name; empty means UTC. An error
// names the span and the allowed form.
func New(zone string, spans []model.WindowSpan) (*Calendar, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, model.Errorf(model.Invalid, "unknown time zone %q", zone).WithHint("use an IANA name such as Europe/Paris or UTC")
	}
	c := &Calendar{zone: location}
	for _, s := range spans {
		parsed, err := parseSpan(s, location)
		if err != nil {
			return nil, err
		}
		c.spans = append(c.spans, parsed)
	}
	return c, nil
}

// ParseDuring parses one line of weekly times, such as "22:00-07:00 Europe/Paris" or "sat,sun". A zone in the line wins
// over the argument zone.
func ParseDuring(text, zone string) (*Calendar, error) {
	s := SpanOfLine(text, zone)
	return New(s.Zone, s.Spans)
}

// SpanOfLine converts a line such as "22:00-07:00 Europe/Paris" to a model.Span of weekly times.
func SpanOfLine(text, zone string) model.Span {
	words := strings.Fields(text)
	if n := len(words); n > 1 && strings.ContainsAny(words[n-1], "/ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		zone, words = words[n-1], words[:n-1]
	}
	return model.Span{Zone: zone, Spans: []model.WindowSpan{{During: strings.Join(words, " ")}}}
}

// Set combines several calendars, each in its own time zone. Safe for concurrent use.
type Set []*Calendar

// NewSet returns a set that is active while any of its calendars is active.
func NewSet(list []model.Span) (set Set, err error) {
	for _, s := range list {
		c, err := New(s.Zone, s.Spans)
		if err != nil {
			return nil, err
		}
		set = append(set, c)
	}
	return set, nil
}

// Active reports whether any calendar is active at t, and the end of the active time. Calendars that follow each other
// without a gap count as one active time.
func (s Set) Active(t time.Time) (until time.Time, active bool) {
	until = t
	for range maxJoined {
		longest := until
		for _, c := range s {
			if end, in := c.Active(until); in && end.After(longest) {
				longest = end
			}
		}
		if longest.Equal(until) {
			break
		}
		until = longest
	}
	return until, until.After(t)
}

// LastEnd returns the latest end of an active time of any calendar within a range of times. ok is false if no
// active time overlaps.
func (s Set) LastEnd(from, to time.Time) (end time.Time, ok bool) {
	for at := from; !at.After(to); {
		if until, in := s.Active(at); in {
			end, ok, at = until, true, until
			continue
		}
		var next time.Time
		for _, c := range s {
			if n := c.Next(at); !n.IsZero() && (next.IsZero() || n.Before(next)) {
				next = n
			}
		}
		if next.IsZero() || !next.After(at) {
			break
		}
		at = next
	}
	return end, ok
}

// maxJoined limits the adjacent occurrences that Active joins to find an end: one per day for more than a year.
const maxJoined = 400

// Active reports whether the calendar is active at t, and when the active time then ends. For an end more than
// a year away the result may be too early, so callers ask again at that time.
func (c *Calendar) Active(t time.Time) (until time.Time, active bool) {
	until = t
	for range maxJoined {
		longest := until
		for _, s := range c.spans {
			if _, end, ok := s.containing(until, c.zone); ok && end.After(longest) {
				longest = end
			}
		}
		if longest.Equal(until) {
			break
		}
		until = longest
	}
	return until, until.After(t)
}

// Next returns when, after t, the next time span of the calendar starts. It returns the zero time if no time span
// starts later.
func (c *Calendar) Next(t time.Time) (next time.Time) {
	for _, s := range c.spans {
		if at := s.next(t, c.zone); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
