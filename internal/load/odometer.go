package load

import (
	"sync"
	"time"
)

// odometer adds up what all lives of a server used. One that ends takes along what it used
// since it was looked at last: it is looked at every second, and before the run ends it.
type odometer struct {
	mu   sync.Mutex
	pid  int
	last process // as it was read last
	past process // of the lives before
}

// read looks at the server; 0: it does not run.
func (o *odometer) read(pid int) process {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pid == 0 {
		return o.add(0, process{})
	}
	return o.add(pid, readProcess(pid))
}

// add is the sum with one more look. Caller holds the lock.
func (o *odometer) add(pid int, p process) process {
	resident := p.rss
	switch {
	case p.cpu == 0 && (pid == 0 || pid == o.pid): // it has ended
	case pid == o.pid && p.cpu >= o.last.cpu:
		o.last = p
	default:
		if o.pid != 0 {
			o.past.life++
		}
		o.past.cpu += o.last.cpu
		o.past.reads += o.last.reads
		o.past.writes += o.last.writes
		o.past.written += o.last.written
		o.pid, o.last = pid, p
	}
	return process{life: o.past.life, cpu: o.past.cpu + o.last.cpu, rss: resident,
		reads: o.past.reads + o.last.reads, writes: o.past.writes + o.last.writes, written: o.past.written + o.last.written}
}

// usage is what both processes, and all of the machine, used so far.
type usage struct {
	at             time.Duration
	server, loader process       // the server's sums are of all its lives
	busy           time.Duration // of all cores, by everybody
	metrics        map[string]float64
	sent, received int64         // bytes of TCP, by the agents of this process
	waited         time.Duration // for locks, by the goroutines of this process
}

// use looks at both; server says which process it is now, nil: nobody knows.
func (o *odometer) use(at time.Duration, server func() int) usage {
	u := usage{at: at, loader: readProcess(0), busy: busyTime(), waited: lockWait()}
	if server != nil {
		u.server = o.read(server())
	}
	return u
}
