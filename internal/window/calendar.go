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
	words := strings.Fields(text)
	if n := len(words); n > 1 && strings.ContainsAny(words[n-1], "/ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		zone, words = words[n-1], words[:n-1]
	}
	return New(zone, []model.WindowSpan{{During: strings.Join(words, " ")}})
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
