package load

import (
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// gained is what was used in some stretches of a run, one after the other.
type gained struct {
	first, last    usage // of them all
	length         time.Duration
	server, loader time.Duration // CPU
	waited         time.Duration // for locks, by this process
	busy           time.Duration
	same           bool // the server was one process all the time, as far as /proc was read
	anew           bool // its counters began at nothing in between
	reads, writes  int64
	written        int64
	sent, received int64              // bytes of TCP, by the agents
	metrics        map[string]float64 // what counters gained, and where gauges stood last

	others, elsewhere time.Duration // CPU of other loaders, and of those on other machines
	rss               int64         // of other loaders, at the end
}

// join adds what other loaders used in the stretch that was added last.
func (g *gained) join(loaders []Joined, used []*Stretch) {
	g.rss = 0
	for i, s := range used {
		if s == nil {
			continue
		}
		g.others += s.CPU
		g.rss += s.RSS
		if !loaders[i].Here {
			g.elsewhere += s.CPU
		}
	}
}

// add takes one more stretch.
func (g *gained) add(first, last usage) {
	if g.length == 0 {
		g.first, g.same, g.metrics = first, true, map[string]float64{}
	}
	g.last = last
	g.length += last.at - first.at
	g.loader += last.loader.cpu - first.loader.cpu
	g.waited += last.waited - first.waited
	g.busy += last.busy - first.busy
	g.sent += last.sent - first.sent
	g.received += last.received - first.received
	g.same = g.same && last.server.same(first.server) && last.server.same(g.first.server)
	if last.server.since(first.server) {
		g.server += last.server.cpu - first.server.cpu
		g.reads += last.server.reads - first.server.reads
		g.writes += last.server.writes - first.server.writes
		g.written += last.server.written - first.server.written
	}
	for name, v := range last.metrics {
		if counter(name) {
			if was := first.metrics[name]; was <= v {
				v -= was
			} else {
				g.anew = true
			}
			v += g.metrics[name]
		}
		g.metrics[name] = v
	}
}

// shown are the server's own metrics that are not zero.
func (g *gained) shown() map[string]float64 {
	d := map[string]float64{}
	for name, v := range g.metrics {
		if v != 0 && strings.HasPrefix(name, "muster_") {
			d[name] = v
		}
	}
	return d
}

// usages are the figures of the server and of all loaders; results is what the CPU is shared between.
func (g *gained) usages(results uint64) (server, loader report.Usage) {
	use := func(cpu time.Duration, p process) report.Usage {
		u := report.Usage{RSS: p.rss}
		if g.length > 0 && cpu > 0 {
			u.Cores = cpu.Seconds() / g.length.Seconds()
		}
		if results > 0 && u.Cores > 0 {
			u.MicrosPerItem = float64(cpu.Microseconds()) / float64(results)
		}
		return u
	}
	all := g.last.loader
	all.rss += g.rss
	server, loader = use(g.server, g.last.server), use(g.loader+g.others, all)
	if g.length > 0 {
		loader.Elsewhere = g.elsewhere.Seconds() / g.length.Seconds()
		loader.LockShare = ownLockShare(g.waited, g.length)
		if !g.anew {
			server.LockShare = lockShare(g.metrics[waitMetric], g.length.Seconds(), g.metrics[processorsMetric])
		}
	}
	return server, loader
}
