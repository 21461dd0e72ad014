package app

import (
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// steadyAfter is the uptime from which an agent's traffic tells its traffic of a day: a new agent sends
// its facts and runs all its checks at first.
const steadyAfter = 10 * time.Minute

// agentSession returns the API's view of a node's session; false: it has none.
func (s *Server) agentSession(node model.NodeID) (out v1.AgentSession, ok bool) {
	a, ok := s.sessions.Agent(node)
	if !ok && s.bridge != nil {
		a, ok = s.bridge.Agent(node)
	}
	if !ok {
		return out, false
	}
	out = v1.AgentSession{
		Version: a.Version, Since: a.Since.UTC(), Address: a.Address, ClockOffsetMs: a.Skew.Milliseconds(), Refuses: a.Refuses,
		Assignment: a.Held, Confirmed: a.Confirmed,
	}
	for _, u := range a.Idle {
		out.IdleUnits = append(out.IdleUnits, v1.IdleUnit{ID: u.Unit, Name: u.Name, Reason: u.Reason})
	}
	if !a.Certificate.IsZero() {
		out.CertificateExpires = a.Certificate.UTC()
	}
	if !a.Told {
		return out, true
	}
	x := &a.Stats
	out.Stats = &v1.AgentStats{
		At: s.now().Add(-a.ToldAgo).UTC(), UptimeSeconds: x.UptimeMs / 1000, Spooled: x.Spooled, OldestSeconds: float64(x.OldestMs) / 1000, SpoolBytes: x.SpoolBytes,
		Runs: x.Runs, Skipped: x.Skipped, Late: x.Late, Forks: x.Forks, ForksPerMinute: a.ForksPerMin, BytesSent: x.BytesSent,
		GaveWay: x.Evicted, Refused: x.Refused, Lost: x.Lost, ResidentBytes: x.ResidentBytes,
	}
	if uptime := time.Duration(x.UptimeMs) * time.Millisecond; uptime >= steadyAfter {
		out.Stats.BytesPerDay = uint64(float64(x.BytesSent) / float64(x.UptimeMs) * 86400e3)
	}
	return out, true
}
