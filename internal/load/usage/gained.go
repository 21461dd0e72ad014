// Package usage measures the use of processor, memory, disk and network by the server under test, the loaders and their
// machine, and the time that goroutines waited for locks.
//
// machine.go reads processes and the machine by procfs; metrics.go a server's metrics; odometer.go sums all processes of a
// server, gained.go parts of a run, with the waits for locks. Goroutines: none; Meter.Run is one of the run's. Locks: those
// of Odometer and Meter, each alone. Start reading at Gained.
package usage

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Gained is the use in several parts of a run, one after the other.
type Gained struct {
	First, Last    SoFar // of them all
	Length         time.Duration
	server, loader time.Duration // CPU
	waited         time.Duration // for locks, by this process
	Busy           time.Duration
	Same           bool // the server was one process, as far as /proc was read
	Anew           bool // its counters were reset in between
	Reads, Writes  int64
	Written        int64
	Sent, Received int64              // bytes of TCP, by the agents
	Metrics        map[string]float64 // growth of counters, last values of gauges

	others, elsewhere time.Duration // CPU of other loaders, and of those on other machines
	rss               int64         // of other loaders, at the end
}

// Join adds the use by other loaders in the last part.
func (g *Gained) Join(loaders []Other) {
	g.rss = 0
	for _, o := range loaders {
		g.others += o.CPU
		g.rss += o.RSS
		if !o.Here {
			g.elsewhere += o.CPU
		}
	}
}

// Other is the use by another loader in a part.
type Other struct {
	Here bool // on this machine
	CPU  time.Duration
	RSS  int64 // at its end
}

// Add adds a part.
func (g *Gained) Add(first, last SoFar) {
	if g.Length == 0 {
		g.First, g.Same, g.Metrics = first, true, map[string]float64{}
	}
	g.Last = last
	g.Length += last.At - first.At
	g.loader += last.Loader.CPU - first.Loader.CPU
	g.waited += last.Waited - first.Waited
	g.Busy += last.Busy - first.Busy
	g.Sent += last.Sent - first.Sent
	g.Received += last.Received - first.Received
	g.Same = g.Same && last.Server.Same(first.Server) && last.Server.Same(g.First.Server)
	if last.Server.Since(first.Server) {
		g.server += last.Server.CPU - first.Server.CPU
		g.Reads += last.Server.Reads - first.Server.Reads
		g.Writes += last.Server.Writes - first.Server.Writes
		g.Written += last.Server.Written - first.Server.Written
	}
	for name, v := range last.Metrics {
		if counter(name) {
			if was := first.Metrics[name]; was <= v {
				v -= was
			} else {
				g.Anew = true
			}
			v += g.Metrics[name]
		}
		g.Metrics[name] = v
	}
}

// Shown returns the server's metrics that are not zero.
func (g *Gained) Shown() map[string]float64 {
	d := map[string]float64{}
	for name, v := range g.Metrics {
		if v != 0 && strings.HasPrefix(name, "muster_") {
			d[name] = v
		}
	}
	return d
}

// Usages returns the use by the server and by all loaders. CPU time is per result.
func (g *Gained) Usages(results uint64) (server, loader report.Usage) {
	use := func(cpu time.Duration, p Process) report.Usage {
		u := report.Usage{RSS: p.RSS}
		if g.Length > 0 && cpu > 0 {
			u.Cores = cpu.Seconds() / g.Length.Seconds()
		}
		if results > 0 && u.Cores > 0 {
			u.MicrosPerItem = float64(cpu.Microseconds()) / float64(results)
		}
		return u
	}
	all := g.Last.Loader
	all.RSS += g.rss
	server, loader = use(g.server, g.Last.Server), use(g.loader+g.others, all)
	if g.Length > 0 {
		loader.Elsewhere = g.elsewhere.Seconds() / g.Length.Seconds()
		loader.LockShare = OwnLockShare(g.waited, g.Length)
		if !g.Anew {
			server.LockShare = LockShare(g.Metrics[WaitMetric], g.Length.Seconds(), g.Metrics[ProcessorsMetric])
		}
	}
	return server, loader
}

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
