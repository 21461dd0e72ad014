package load

import (
	"cmp"

	"github.com/muster-fleet/muster/internal/load/preflight"
)

// Preflight names what on this machine would break a run, all at once, as an error; and
// what would spoil its figures. It opens and starts nothing, and looks at the machine for
// a second and a half.
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

// before is what is asked of a machine before the run begins.
func (c Config) before() preflight.Run {
	return preflight.Run{Scenario: c.Scenario, Servers: cmp.Or(c.Server, c.ServerTLS), Sources: c.Sources, Loaders: c.Part.Of, Here: c.Part.Here,
		OwnServer: c.Control != nil, Data: c.Data}
}
