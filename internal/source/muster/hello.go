package muster

import (
	"crypto/tls"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// helloFacts is the part of Hello that the session keeps. It does not change.
type helloFacts struct {
	version unique.Handle[string]
	refuses unique.Handle[string] // one per line; a handle, because a fleet has few kinds of agents
	kinds   chunkKinds
	origin  origin
	skew    time.Duration // of the machine's clock; positive: ahead of the server's
}

func helloFactsOf(hello *wire.Hello, now time.Time) helloFacts {
	h := helloFacts{version: unique.Make(hello.Version), refuses: unique.Make(strings.Join(hello.Restrictions, "\n")), kinds: chunkKindsOf(hello.Features), origin: originOf(hello)}
	if hello.ClockUnixMs != 0 {
		h.skew = time.UnixMilli(hello.ClockUnixMs).Sub(now.Truncate(time.Millisecond))
	}
	return h
}

// refusesRun returns the reason why the agent announced that it refuses a run; empty: it announced none.
func (h *helloFacts) refusesRun(run *wire.Run) string {
	refuses := strings.Split(h.refuses.Value(), "\n")
	switch {
	case slices.Contains(refuses, wire.RestrictRuns):
		return "refused by the agent's setting --no-run: it runs checks by their schedule only"
	case run.Command != nil && slices.Contains(refuses, wire.RestrictChanges):
		return "refused by the agent's setting --audit-only: it runs no commands of people"
	}
	return ""
}

// agentReport is the last report of an agent on itself.
type agentReport struct {
	wire.Stats
	at          int64   // monotonic time of its arrival, ns
	forksPerMin float64 // since the report before; of the first one: since the agent started
}

// minStatsInterval is the shortest time between two reports of one agent that are read.
const minStatsInterval = 5 * time.Second

// stats keeps a report of the agent on itself, in memory only: people ask for the present state.
func (x *session) stats(body []byte) outcome {
	now, before := x.srv.monotonic(), x.report.Load()
	if before != nil && now-before.at < int64(minStatsInterval) {
		return tooSoon
	}
	r := &agentReport{at: now}
	if err := r.Decode(body); err != nil {
		return x.violation(malformed, err.Error())
	}
	forks, ms := r.Forks, r.UptimeMs
	if before != nil && before.Forks <= r.Forks && before.UptimeMs < r.UptimeMs {
		forks, ms = r.Forks-before.Forks, r.UptimeMs-before.UptimeMs
	}
	if ms > 0 {
		r.forksPerMin = float64(forks) / (float64(ms) / 60e3)
	}
	x.report.Store(r)
	return stats
}

// Agent describes the agent of a node; not ok: it has no session.
func (s *Server) Agent(node model.NodeID) (a core.Agent, ok bool) {
	x := s.registry.Get(node)
	if x == nil {
		return a, false
	}
	nc := x.Conn.NetConn()
	a = core.Agent{Version: x.hello.version.Value(), Since: time.Unix(0, x.Since), Skew: x.hello.skew, Address: nc.RemoteAddr().String()}
	if text := x.hello.refuses.Value(); text != "" {
		a.Refuses = strings.Split(text, "\n")
	}
	if conn, is := nc.(*tls.Conn); is {
		if chain := conn.ConnectionState().PeerCertificates; len(chain) > 0 {
			a.Certificate = chain[0].NotAfter
		}
	}
	x.Mu.Lock()
	if sent := x.assignment.sent; sent != nil {
		a.Assigned, a.Confirmed = sent.Generation.Revision, x.assignment.unconfirmed == 0
	}
	x.Mu.Unlock()
	a.Idle = x.idleUnits()
	if r := x.report.Load(); r != nil {
		a.Report = &core.AgentReport{Stats: r.Stats, ForksPerMin: r.forksPerMin, Age: time.Duration(s.monotonic() - r.at)}
	}
	return a, true
}
