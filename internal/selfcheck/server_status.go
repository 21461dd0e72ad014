package selfcheck

import (
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/remotesend"
	"github.com/muster-fleet/muster/internal/version"
)

// StatusParts has the parts of the server's status that the caller of Monitor.Status provides.
type StatusParts struct {
	Started       time.Time
	Journal       string            // the journal's folder
	Data          string            // the data folder, if the journal lies elsewhere
	Head, Applied uint64            // commits: the journal's last one, and the event view's
	Troubles      []error           // of the stores; nil: none
	Oversized     []string          // units that are too large for one assignment
	Remote        *remotesend.State // of remote write; nil: not configured
}

const (
	hitsShown = 10 * time.Minute // age of the last refusal by a limit, or by the store of remote write, until which the status shows it
	maxHits   = 5                // reached limits in the status
)

// Status returns the state of the server itself, for the command status. It sets Server, Started, Connected, Journal,
// Reactions and Warnings.
func (m *Monitor) Status(p StatusParts) v1.Status {
	st := m.o.Journal()
	out := v1.Status{
		Server: version.Get().Version, Started: p.Started, Connected: m.o.Connected(),
		Journal: v1.Journal{SizeBytes: st.SizeBytes, BudgetBytes: st.BudgetBytes, QueuedBytes: st.QueuedBytes, BehindCommits: p.Head - min(p.Applied, p.Head)},
	}
	if st.Blocked != nil {
		out.Journal.Blocked = st.Blocked.Error()
	}
	if free, err := (disk.OS{}).Free(p.Journal); err == nil {
		out.Journal.FreeBytes = free
	}
	if free, err := (disk.OS{}).Free(p.Data); err == nil && p.Data != "" {
		out.Journal.DataFreeBytes = free
	}
	lag := m.o.Lag()
	out.Reactions = v1.Reactions{
		Waiting: int64(lag.Changes), BehindSeconds: lag.Age.Seconds(), BehindBytes: lag.Bytes, BehindCommits: lag.Commits,
		Rederiving: lag.Overflowed, Late: lag.Age > lagWarning,
	}
	for _, err := range p.Troubles {
		if err != nil {
			out.Warnings = append(out.Warnings, model.OneLine(err))
		}
	}
	if p.Remote != nil {
		out.Warnings = append(out.Warnings, remoteWriteWarnings(p.Remote, m.o.Now())...)
	}
	out.Warnings = append(out.Warnings, m.warnings()...)
	hits := m.o.Hits(m.o.Now().Add(-hitsShown))
	for _, h := range hits[:min(maxHits, len(hits))] {
		out.Warnings = append(out.Warnings, limitText(h))
	}
	for _, text := range p.Oversized {
		out.Warnings = append(out.Warnings, "too large for one assignment: "+text)
	}
	return out
}
