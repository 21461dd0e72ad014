package muster

import (
	"crypto/tls"
	"strings"
	"time"
	"unique"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// about is what Hello said of the agent; it does not change while the session lasts.
type about struct {
	version unique.Handle[string]
	refuses unique.Handle[string] // one per line: few fleets have many kinds of agents
	kinds   chunkKinds
	since   int64 // Unix ns
	skew    int64 // ns that the machine's clock was ahead of ours
}

func aboutOf(hello *wire.Hello, now time.Time) about {
	a := about{version: unique.Make(hello.Version), refuses: unique.Make(strings.Join(hello.Restrictions, "\n")), kinds: chunkKindsOf(hello.Features), since: now.UnixNano()}
	if hello.ClockUnixMs != 0 {
		a.skew = time.UnixMilli(hello.ClockUnixMs).Sub(now.Truncate(time.Millisecond)).Nanoseconds()
	}
	return a
}

// report is what an agent told of itself last, and what the difference to the one before
// comes to.
type report struct {
	wire.Stats
	at          int64   // server clock, ns
	forksPerMin float64 // since the report before; the first one: since the agent began
}

// statsAtMost is the least time between two Stats of one agent that are read.
const statsAtMost = 5 * time.Second

// hearStats keeps what the agent says of itself. It is not journaled: whoever asks wants to
// know how it is now.
func (x *session) hearStats(body []byte) outcome {
	now, before := x.srv.sinceBegan(), x.report.Load()
	if before != nil && now-before.at < int64(statsAtMost) {
		return hasty
	}
	r := &report{at: now}
	if err := r.Decode(body); err != nil {
		return x.broken(malformed, err.Error())
	}
	forks, over := r.Forks, r.UptimeMs
	if before != nil && before.Forks <= r.Forks && before.UptimeMs < r.UptimeMs {
		forks, over = r.Forks-before.Forks, r.UptimeMs-before.UptimeMs
	}
	if over > 0 {
		r.forksPerMin = float64(forks) / (float64(over) / 60e3)
	}
	x.report.Store(r)
	return stats
}

// Agent is an agent that is connected, as its session knows it.
type Agent struct {
	Version     string
	Refuses     []string // what it does not do, whatever a server says
	Idle        []IdleUnit
	Since       time.Time
	Address     string
	Skew        time.Duration // of its clock at the beginning of the session; more than zero: ahead
	Certificate time.Time     // when that of this session expires; zero: there is none
	Held        uint64        // intent revision of the assignment that it holds or was sent; zero: none
	Confirmed   bool          // it has said that it holds it
	Told        bool          // it has told of itself: what follows is known
	Stats       wire.Stats
	ToldAgo     time.Duration
	ForksPerMin float64
}

// Agent says what the session of a node knows; not ok: there is none.
func (s *Server) Agent(node model.NodeID) (a Agent, ok bool) {
	x := s.registry.Get(node)
	if x == nil {
		return a, false
	}
	a = Agent{Version: x.about.version.Value(), Since: time.Unix(0, x.about.since), Skew: time.Duration(x.about.skew)}
	if text := x.about.refuses.Value(); text != "" {
		a.Refuses = strings.Split(text, "\n")
	}
	nc := x.conn.NetConn()
	a.Address = nc.RemoteAddr().String()
	if conn, is := nc.(*tls.Conn); is {
		if chain := conn.ConnectionState().PeerCertificates; len(chain) > 0 {
			a.Certificate = chain[0].NotAfter
		}
	}
	x.Mu.Lock()
	if x.pushed != nil {
		a.Held, a.Confirmed = x.pushed.Generation.Revision, x.unconfirmed == 0
	}
	x.Mu.Unlock()
	a.Idle = x.idleUnits()
	if r := x.report.Load(); r != nil {
		a.Told, a.Stats, a.ForksPerMin = true, r.Stats, r.forksPerMin
		a.ToldAgo = time.Duration(s.sinceBegan() - r.at)
	}
	return a, true
}
