package agent

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// reportedRuns stores the last reported run of each policy directive, and decides whether to report a new run.
// The agent reports the first run after a start and after each connection, and each run that differs from the
// reported run before it or that repaired something. It reports the first run after a grace period that delays
// a problem. It reports one of equal runs in each heartbeat. Any goroutine may call its methods.
type reportedRuns struct {
	mu      sync.Mutex
	last    map[model.UnitID]reportedRun // the last reported run of each directive with a heartbeat
	forgets uint64                       // calls of keep and forget
}

// reportedRun is a run of a policy directive whose report the agent has sent.
type reportedRun struct {
	definition model.DefinitionID
	report     wire.Report
	bootMs     uint64 // end of the run by the boot clock, ms
}

// mustReport decides whether the agent sends the report of a directive's run, or skips an unchanged report.
// bootMs is the end of the run by the boot clock, in ms. The caller gives forgets to record after the report.
func (r *reportedRuns) mustReport(c *model.DirectiveDefinition, report *wire.Report, bootMs uint64) (due bool, forgets uint64) {
	if c.Heartbeat == 0 {
		return true, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.differs(c, report, bootMs), r.forgets
}

// differs reports whether a directive's run differs from its last reported run, or a regular report is due. It
// also returns true if a report is due without a difference. The caller holds mu.
func (r *reportedRuns) differs(c *model.DirectiveDefinition, report *wire.Report, bootMs uint64) bool {
	last, ok := r.last[c.Unit]
	if !ok || last.definition != c.ID || !equalReports(report, &last.report) {
		return true
	}
	if counts, _ := policy.Codes(report.Codes).Counts(int(report.Components)); counts[policy.Repaired] > 0 {
		return true
	}
	if grace := uint64(c.Grace / time.Millisecond); last.report.HeldMs < grace && report.HeldMs >= grace {
		return true // the grace period is over: the server opens a problem at this report
	}
	next := time.Duration(bootMs-last.bootMs)*time.Millisecond + c.Interval // age of the last report at the next run
	return next > c.Heartbeat
}

// equalReports reports whether two reports of a directive differ only in their times.
func equalReports(a, b *wire.Report) bool {
	return a.Enforced == b.Enforced && a.Ended == b.Ended && bytes.Equal(a.Codes, b.Codes) && slices.Equal(a.Exceptions, b.Exceptions)
}

// record stores a run of a policy directive as the run that was reported last. It records nothing if keep or
// forget was called since due returned forgets. The caller must not change the report afterwards.
func (r *reportedRuns) record(c *model.DirectiveDefinition, report *wire.Report, bootMs, forgets uint64) {
	if c.Heartbeat == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if forgets != r.forgets {
		return
	}
	if r.last == nil {
		r.last = map[model.UnitID]reportedRun{}
	}
	r.last[c.Unit] = reportedRun{definition: c.ID, report: *report, bootMs: bootMs}
}

// removeUnassigned removes the stored runs of policy directives that are no longer assigned to the node.
func (r *reportedRuns) removeUnassigned(directives map[model.UnitID][]model.DefinitionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgets++
	for unit := range r.last {
		if directives[unit] == nil {
			delete(r.last, unit)
		}
	}
}

// removeAll removes all stored runs, so that the agent reports the next run of each directive. A server opens
// no problem from a run that waited for the connection.
func (r *reportedRuns) removeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgets++
	clear(r.last)
}
