package window

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Calendar is a union of spans in one zone. Safe for concurrent use.
type Calendar struct {
	zone  *time.Location
	spans []span
}

// span is one of a calendar's spans.
type span interface {
	// around is the time from a beginning to an end that holds t, beginning included.
	around(t time.Time, zone *time.Location) (from, until time.Time, ok bool)
	// after is the first beginning later than t; zero: there is none.
	after(t time.Time, zone *time.Location) time.Time
}

// New makes a calendar of spans. zone is an IANA name; empty means UTC. Errors say which
// span, and what is allowed.
func New(zone string, spans []model.WindowSpan) (*Calendar, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, model.Errorf(model.Invalid, "there is no time zone %q", zone).WithHint("an IANA name such as Europe/Paris or UTC")
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

// ParseDuring reads one line, "22:00-07:00 Europe/Paris" or "sat,sun": a Span's During with
// a zone behind it. Without one, zone is taken.
func ParseDuring(text, zone string) (*Calendar, error) {
	s := Inline(text, zone)
	return New(s.Zone, s.Spans)
}

// Inline is a line of ParseDuring as a span and its zone.
func Inline(text, zone string) model.Span {
	words := strings.Fields(text)
	if n := len(words); n > 1 && strings.ContainsAny(words[n-1], "/ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		zone, words = words[n-1], words[:n-1]
	}
	return model.Span{Zone: zone, Spans: []model.WindowSpan{{During: strings.Join(words, " ")}}}
}

// Set is several calendars, each with its zone. Safe for concurrent use.
type Set []*Calendar

// NewSet makes the calendars of a check.
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

// Inside says whether an instant lies in one of them, and until when that goes on.
func (s Set) Inside(t time.Time) (until time.Time, inside bool) {
	until = t
	for range maxJoined {
		longest := until
		for _, c := range s {
			if end, in := c.Inside(until); in && end.After(longest) {
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

// LastEnd is when the last stretch ends that holds an instant of [from, to]; it may lie
// behind to. False: there is none.
func (s Set) LastEnd(from, to time.Time) (end time.Time, ok bool) {
	for at := from; !at.After(to); {
		if until, in := s.Inside(at); in {
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

// maxJoined is how many spans that touch are followed to find an end: a span of each day
// of more than a year.
const maxJoined = 400

// Inside says whether an instant lies in one of the spans, and if so, until when that
// goes on: spans that touch or overlap count as one. An end more than a year away may be
// said too early; ask again then.
func (c *Calendar) Inside(t time.Time) (until time.Time, inside bool) {
	until = t
	for range maxJoined {
		longest := until
		for _, s := range c.spans {
			if _, end, ok := s.around(until, c.zone); ok && end.After(longest) {
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

// Next is when the next span begins, later than t, whether or not t lies in another; zero:
// never.
func (c *Calendar) Next(t time.Time) (next time.Time) {
	for _, s := range c.spans {
		if at := s.after(t, c.zone); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
