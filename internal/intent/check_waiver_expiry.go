package intent

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// checkWaiverExpiry returns an error if a Waiver expires too far in the future. It returns a warning if the
// Waiver has expired. Other resources pass.
func (a *pendingApply) checkWaiverExpiry(key Key, spec model.Spec) (warnings []string, err error) {
	waiver, ok := spec.(*model.WaiverSpec)
	if !ok {
		return nil, nil
	}
	switch now := a.repo.opts.Now(); {
	case !waiver.Expires.After(now):
		return []string{"it expired at " + waiver.Expires.UTC().Format(time.RFC3339) + ": it waives nothing. Write a later spec.expires, or delete it"}, nil
	case waiver.Expires.Sub(now) > model.MaxWaiver:
		return nil, model.Errorf(model.Invalid, "%s: spec.expires is %s away, at most 366 days are allowed", key, model.TimeSpan(waiver.Expires.Sub(now))).
			WithHint("write a time up to %s, and renew the waiver then", now.Add(model.MaxWaiver).UTC().Format(time.DateOnly))
	}
	return nil, nil
}
