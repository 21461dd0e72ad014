package preflight

import (
	"fmt"
	"runtime"
	"time"

	"github.com/muster-fleet/muster/internal/load/usage"
)

// Busy is the warning that others use this machine; empty: next to nothing. It looks for a second
// and a half.
func Busy(server func() int) string {
	return disturbed(othersFor(server, 1500*time.Millisecond), runtime.NumCPU())
}

// disturbs is the share of a machine from which on others spoil the figures of a run.
const disturbs = 0.1

// disturbed is the warning that others use so many cores; empty: they use next to nothing.
func disturbed(others float64, cores int) string {
	share := others / float64(cores)
	if share < disturbs {
		return ""
	}
	return fmt.Sprintf("this machine is busy: others use %.2f of its %d cores (%.0f %%), and figures of a machine shared with others cannot be repeated. "+
		"Wait, or end what runs (top)", others, cores, 100*share)
}

// othersFor is how many cores everybody but this process and the server used in a while
// from now on.
func othersFor(server func() int, while time.Duration) float64 {
	began, before := time.Now(), others(server)
	time.Sleep(while)
	ended, after := time.Now(), others(server)
	return max(0, (after-before).Seconds()/ended.Sub(began).Seconds())
}

// others is the CPU time that everybody but this process and the server used so far.
func others(server func() int) time.Duration {
	used := usage.Busy() - usage.OfProcess(0).CPU
	if server != nil {
		if pid := server(); pid > 0 {
			used -= usage.OfProcess(pid).CPU
		}
	}
	return used
}
