package list

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Period is the span of time that a request asks about.
type Period struct {
	Since time.Time `query:"since" doc:"From this time on (RFC 3339)."`
	Until time.Time `query:"until" doc:"Before this time."`
}

// Validate refuses a period that ends before it begins.
func (p Period) Validate() error {
	if !p.Since.IsZero() && !p.Until.IsZero() && !p.Since.Before(p.Until) {
		return model.Errorf(model.Invalid, "since %s is not before until %s", p.Since.Format(time.RFC3339), p.Until.Format(time.RFC3339))
	}
	return nil
}

// Complete sets missing ends, so that the period ends now and has the default length, and validates it.
func (p *Period) Complete(now time.Time, length time.Duration) error {
	if p.Until.IsZero() || p.Until.After(now) {
		p.Until = now
	}
	if p.Since.IsZero() {
		p.Since = p.Until.Add(-length)
	}
	return p.Validate()
}
