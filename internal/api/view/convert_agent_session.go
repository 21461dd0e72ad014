package view

import (
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/source/core"
)

// steadyAfter is the age of a session from which its traffic per day is extrapolated: a new agent first sends its facts
// and runs all its checks.
const steadyAfter = 10 * time.Minute

// AgentSession converts the session of an agent to the API type AgentSession.
func AgentSession(a *core.Agent, now time.Time) v1.AgentSession {
	out := v1.AgentSession{
		Version: a.Version, Since: a.Since.UTC(), Address: a.Address, ClockOffsetMs: a.Skew.Milliseconds(), Refuses: a.Refuses,
		Assignment: a.Assigned, Confirmed: a.Confirmed,
	}
	for _, u := range a.Idle {
		out.IdleUnits = append(out.IdleUnits, v1.IdleUnit{ID: u.Unit, Name: u.Name, Reason: u.Reason})
	}
	if !a.Certificate.IsZero() {
		out.CertificateExpires = a.Certificate.UTC()
	}
	if a.Report == nil {
		return out
	}
	x := &a.Report.Stats
	out.Stats = &v1.AgentStats{
		At: now.Add(-a.Report.Age).UTC(), UptimeSeconds: x.UptimeMs / 1000, Spooled: x.Spooled, OldestSeconds: float64(x.OldestMs) / 1000, SpoolBytes: x.SpoolBytes,
		Runs: x.Runs, Skipped: x.Skipped, Late: x.Late, Forks: x.Forks, ForksPerMinute: a.Report.ForksPerMin, BytesSent: x.BytesSent,
		GaveWay: x.Evicted, Refused: x.Refused, Lost: x.Lost, ResidentBytes: x.ResidentBytes,
	}
	if uptime := time.Duration(x.UptimeMs) * time.Millisecond; uptime >= steadyAfter {
		out.Stats.BytesPerDay = uint64(float64(x.BytesSent) / float64(x.UptimeMs) * 86400e3)
	}
	return out
}
