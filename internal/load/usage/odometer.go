package usage

import (
	"sync"
	"time"
)

// Odometer sums the use of all processes of a server, across restarts. One that ends takes along what it used Since it
// was looked at last: it is looked at every second, and before the run ends it.
type Odometer struct {
	mu   sync.Mutex
	pid  int
	last Process // as it was read last
	past Process // of the lives before
}

// add returns the sum with one more look. Caller holds the lock.
func (o *Odometer) add(pid int, p Process) Process {
	resident := p.RSS
	switch {
	case p.CPU == 0 && (pid == 0 || pid == o.pid): // it has ended
	case pid == o.pid && p.CPU >= o.last.CPU:
		o.last = p
	default:
		if o.pid != 0 {
			o.past.Life++
		}
		o.past.CPU += o.last.CPU
		o.past.Reads += o.last.Reads
		o.past.Writes += o.last.Writes
		o.past.Written += o.last.Written
		o.pid, o.last = pid, p
	}
	return Process{Life: o.past.Life, CPU: o.past.CPU + o.last.CPU, RSS: resident,
		Reads: o.past.Reads + o.last.Reads, Writes: o.past.Writes + o.last.Writes, Written: o.past.Written + o.last.Written}
}

// SoFar holds the use of loader, server and machine so far.
type SoFar struct {
	At             time.Duration
	Server, Loader Process       // the server's sums are of all its lives
	Busy           time.Duration // of all cores, by everybody
	Metrics        map[string]float64
	Sent, Received int64         // bytes of TCP, by the agents of this process
	Waited         time.Duration // for locks, by the goroutines of this process
}

// Use reads the use of loader and server; server returns the present process id, and nil means that it is unknown.
func (o *Odometer) Use(at time.Duration, server func() int) SoFar {
	u := SoFar{At: at, Loader: OfProcess(0), Busy: Busy(), Waited: lockWait()}
	if server == nil {
		return u
	}
	pid, p := server(), Process{}
	o.mu.Lock()
	defer o.mu.Unlock()
	if pid != 0 {
		p = OfProcess(pid)
	}
	u.Server = o.add(pid, p)
	return u
}
