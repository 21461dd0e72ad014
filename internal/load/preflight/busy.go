package preflight

import (
	"fmt"
	"runtime"
	"time"

	"github.com/muster-fleet/muster/internal/load/usage"
)

// disturbs is the share of the machine's CPU that other processes may use; above it, the figures of a run cannot be compared.
const disturbs = 0.1

// Busy returns a warning that other processes use this machine, or an empty text. It measures for a second and a half.
func Busy(server func() int) string {
	began, before := time.Now(), others(server)
	time.Sleep(1500 * time.Millisecond)
	return warning(max(0, (others(server)-before).Seconds()/time.Since(began).Seconds()), runtime.NumCPU())
}

// warning returns the warning about this many cores used by others.
func warning(used float64, cores int) string {
	share := used / float64(cores)
	if share < disturbs {
		return ""
	}
	return fmt.Sprintf("this machine is busy: others use %.2f of its %d cores (%.0f %%), and figures of a machine shared with others cannot be repeated. "+
		"Wait, or end what runs (top)", used, cores, 100*share)
}

// others returns the CPU time so far of all processes except this one and the server.
func others(server func() int) time.Duration {
	used := usage.Busy() - usage.OfProcess(0).CPU
	if server != nil {
		if pid := server(); pid > 0 {
			used -= usage.OfProcess(pid).CPU
		}
	}
	return used
}
