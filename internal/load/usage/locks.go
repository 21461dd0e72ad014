package usage

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// How much a process waits for locks is shown as a share: the time that its goroutines waited for
// mutexes, of the time that passed times the processors that its Go code may use (GOMAXPROCS).
// 100 % is as many goroutines waiting, all the time, as could run; with many goroutines it can be
// more. The runtime counts waits of a sample and scales them up, so it is right over seconds.

const (
	WaitMetric       = "go_sync_mutex_wait_total_seconds_total" // of a server, on its metrics page …
	ProcessorsMetric = "go_sched_gomaxprocs_threads"
	ownWaitMetric    = "/sync/mutex/wait/total:seconds" // … and of this process
)

// lockWait is how long goroutines of this process waited for locks so far.
func lockWait() time.Duration {
	s := []metrics.Sample{{Name: ownWaitMetric}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return time.Duration(s[0].Value.Float64() * float64(time.Second))
}

// LockShare is a wait as a share, 0 where it is not known of how many processors.
func LockShare(wait, span, processors float64) float64 {
	if !(wait > 0 && span > 0 && processors > 0) {
		return 0
	}
	return wait / span / processors
}

// OwnLockShare is this process's.
func OwnLockShare(wait, span time.Duration) float64 {
	return LockShare(wait.Seconds(), span.Seconds(), float64(runtime.GOMAXPROCS(0)))
}
