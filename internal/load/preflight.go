package load

import (
	"cmp"

	"github.com/muster-fleet/muster/internal/load/preflight"
)

// Preflight checks whether this machine can hold a run: it returns all missing resources as an error, and conditions
// that would distort figures as warnings. It opens and starts nothing, and measures the machine for a second and a
// half.
func Preflight(c Config) (warnings []string, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	if err := preflight.Check(c.before()); err != nil {
		return nil, err
	}
	if w := preflight.Busy(c.ServerPID); w != "" {
		warnings = append(warnings, w)
	}
	return warnings, nil
}

// before returns the resources that the run needs, for preflight.
func (c Config) before() preflight.Run {
	return preflight.Run{Scenario: c.Scenario, Servers: cmp.Or(c.Server, c.ServerTLS), Sources: c.Sources, Loaders: c.Part.Of, Here: c.Part.Here,
		OwnServer: c.Control != nil, Data: c.Data}
}
