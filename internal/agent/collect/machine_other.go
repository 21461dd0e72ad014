//go:build !windows

package collect

import "context"

// counterSamples has nothing, because only Windows has performance counters.
type counterSamples struct{}

// run does nothing, because only Windows has performance counters.
func (*counterSamples) run(context.Context) {}
