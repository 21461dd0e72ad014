package usage

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// Lock waits are a share: the time that goroutines waited for mutexes, divided by elapsed time and GOMAXPROCS. With many
// goroutines it can exceed 100 %. The runtime samples waits, so the share is right over seconds.

// Names of metrics: two of a server's metrics page, and one of this process's runtime.
const (
	WaitMetric       = "go_sync_mutex_wait_total_seconds_total"
	ProcessorsMetric = "go_sched_gomaxprocs_threads"
	ownWaitMetric    = "/sync/mutex/wait/total:seconds"
)

// lockWait returns the time that goroutines of this process waited for locks so far.
func lockWait() time.Duration {
	s := []metrics.Sample{{Name: ownWaitMetric}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return time.Duration(s[0].Value.Float64() * float64(time.Second))
}

// LockShare returns a wait as a share of the processors' time, or 0 if their number is unknown.
func LockShare(wait, span, processors float64) float64 {
	if !(wait > 0 && span > 0 && processors > 0) {
		return 0
	}
	return wait / span / processors
}

// OwnLockShare returns the share of this process.
func OwnLockShare(wait, span time.Duration) float64 {
	return LockShare(wait.Seconds(), span.Seconds(), float64(runtime.GOMAXPROCS(0)))
}
