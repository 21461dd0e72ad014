package policy

import "time"

// Grace is the time in which a report may still arrive after a run's interval.
const Grace = 5 * time.Minute

// Decision is the reason for the statuses of a directive's components, such as an overdue report.
type Decision uint8

// Decisions about a component's status, with the names of Rudder's run analysis.
const (
	NothingExpected   Decision = iota // no directive and no run
	NoExpectedReport                  // a run of a node that has no directive
	ReportsDisabled                   // the directive asks for no reports
	NoReportInTime                    // each component: no report
	AwaitReport                       // pending: unchanged components keep their last status
	ComputeCompliance                 // the codes of the run count
	UnexpectedVersion                 // the run is of a definition that had ended long before it
	UnexpectedUnknown                 // the run names a definition that the server never had
	UnexpectedNone                    // the run names no definition though the node has had one for long
)

// Expectation states which version of a directive a node must run, from Start until End.
type Expectation struct {
	Start    time.Time
	End      time.Time // zero: it is in force
	Interval time.Duration
	// Heartbeat is the longest time between the reports of two equal runs, zero: Interval. The first run of a definition is always reported.
	Heartbeat time.Duration
	// LastDue is the time of the calendar before which a run must have ended until now, Grace included; zero: Interval says it.
	LastDue time.Time
	// OneShot says that the node runs the directive once, so that a run counts without end. Interval and LastDue are zero.
	OneShot bool
	// From is the begin of the time for the only run; zero: Start is.
	From time.Time
	// Due is the time from which the only run is overdue; zero: never, because the node has the directive too late.
	Due time.Time
}

// firstOverdue reports whether a node's first run of the expected version is overdue.
func (e *Expectation) firstOverdue(now time.Time) bool {
	switch {
	case e.OneShot:
		return !e.Due.IsZero() && e.Due.Before(now)
	case !e.LastDue.IsZero():
		return e.Start.Before(e.LastDue)
	}
	return e.Start.Add(e.Interval + Grace).Before(now)
}

// nextOverdue reports whether the next report of a directive, after a given run, is overdue.
func (e *Expectation) nextOverdue(run, now time.Time) bool {
	switch {
	case e.OneShot:
		return e.firstOverdue(now)
	case !e.LastDue.IsZero():
		return run.Before(e.LastDue)
	}
	return e.NextDue(run).Before(now)
}

// NextDue returns the time after which the next report after a run is overdue. It ignores LastDue, the time of a
// calendar.
func (e *Expectation) NextDue(run time.Time) time.Time {
	return run.Add(max(e.Interval, e.Heartbeat) + Grace)
}

// Run is a reported run of a directive on a node, with the compiled version that ran.
type Run struct {
	Start time.Time
	// NamesDefinition says that the run names a definition; Of is that definition, nil if the server does not know it.
	NamesDefinition bool
	Of              *Expectation
	InForce         bool // Of is the definition in force
}

// Decide decides by Rudder's rules whether the last reported run of a directive still counts. current is the
// definition in force, nil if there is none; run is the last run, nil if there is none; first is the begin of the
// oldest known definition; disabled means that the directive asks for no reports.
func Decide(now time.Time, current *Expectation, run *Run, first time.Time, disabled bool) Decision {
	awaited := func() Decision {
		if current.firstOverdue(now) {
			return NoReportInTime
		}
		return AwaitReport
	}
	switch {
	case current == nil && run == nil:
		return NothingExpected
	case current == nil:
		return NoExpectedReport
	case run == nil && disabled:
		return ReportsDisabled
	case run == nil:
		return awaited()
	case !run.NamesDefinition && first.Add(current.Interval+Grace).Before(run.Start):
		return UnexpectedNone
	case !run.NamesDefinition:
		if current.Start.Add(current.Interval + Grace).Before(run.Start) {
			return NoReportInTime
		}
		return AwaitReport
	case current.OneShot && run.InForce:
		return ComputeCompliance // also a run on request before its time: the agent does not run the directive again
	case run.Of == nil && current.nextOverdue(run.Start, now):
		return NoReportInTime
	case run.Of == nil:
		return UnexpectedUnknown
	case run.Of.End.IsZero() && current.nextOverdue(run.Start, now):
		return NoReportInTime
	case run.Of.End.IsZero() && !run.InForce:
		return AwaitReport
	case run.Of.End.IsZero():
		return ComputeCompliance
	case !run.Of.OneShot && run.Of.End.Add(run.Of.Interval+Grace).Before(run.Start): // agents repeat the report of a one-shot
		return UnexpectedVersion
	}
	return awaited()
}
