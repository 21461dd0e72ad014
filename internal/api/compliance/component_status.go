package compliance

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// statusEvaluator computes the status of each component (checked part) of policy directives on nodes, as of one
// time.
type statusEvaluator struct {
	Options
	now    time.Time
	begins map[model.UnitID]time.Time       // when the present definition of each directive was declared
	due    map[model.DefinitionID]time.Time // last times of calendars
	codes  []policy.Status                  // of all directives since reset
}

// startEvaluation sets the time of a new evaluation, and discards the statuses of the previous evaluation. The
// codes of the last list are overwritten.
func (j *statusEvaluator) startEvaluation(now time.Time) {
	if !now.Equal(j.now) {
		clear(j.due)
	}
	j.now, j.codes = now, j.codes[:0]
}

// nodeDirective is a policy directive on one node, with the statuses of its components (checked parts).
type nodeDirective struct {
	node       model.NodeID
	definition *model.DirectiveDefinition // as it is assigned
	run        *reducer.Run               // the last one; nil: none
	codes      []policy.Status            // of the components, as they count now; behind them a code for each unexpected component
	notCounted string                     // why the run does not count; empty: it does
	until      time.Time                  // time alone changes no status until then; zero: never
}

// status returns the present status of one component (checked part) of the policy directive on the node.
func (d *nodeDirective) status(position int) policy.Status { return d.codes[position] }

// counts counts the directive's components (checked parts) by status, and returns the worst status too. The
// modes of blocks of components decide how a component counts.
func (d *nodeDirective) counts() (counts policy.Counts, worst policy.Status) {
	return policy.CountStatuses(d.status, len(d.codes), d.definition.Blocks)
}

// evaluateDirective computes the state of a policy directive on a node from the directive's last run. The run
// is nil for a directive that has not run.
func (j *statusEvaluator) evaluateDirective(node model.NodeID, unit *directory.Unit, run *reducer.Run) nodeDirective {
	d := nodeDirective{node: node, definition: j.Version(unit, node).AsDirective(), run: run}
	begin := j.begins[unit.ID]
	if r := unit.Rollout; r != nil && d.definition.ID == r.New.ID && r.LastStepTime().After(begin) {
		begin = r.LastStepTime()
	}
	if o := d.definition.OneShot; run == nil && (o == nil || o.UntilUnixMs == 0) {
		if at := j.Since(node, unit.ID); at.After(begin) {
			begin = at // a group may have brought the node under an old directive
		}
	}
	j.computeStatuses(&d, begin)
	return d
}

// computeStatuses computes the component statuses of a policy directive, and the end of their validity. begin is
// the time of the directive's present assignment.
func (j *statusEvaluator) computeStatuses(d *nodeDirective, begin time.Time) {
	current := &policy.Expectation{Start: begin, Interval: d.definition.Interval, Heartbeat: d.definition.Heartbeat, LastDue: j.lastDueTime(d.definition)}
	if o := d.definition.OneShot; o != nil {
		current.OneShot, current.From, current.Due = true, o.From(), oneShotDue(d.definition, begin)
	}
	var run *policy.Run
	var old *model.DirectiveDefinition
	if d.run != nil {
		run = &policy.Run{Start: time.Unix(0, d.run.Executed), NamesDefinition: true, InForce: d.run.Definition == d.definition.ID, Of: current}
		if !run.InForce {
			if old = j.Definition(d.run.Definition).AsDirective(); old == nil {
				run.Of = nil
			} else {
				run.Of = &policy.Expectation{End: current.Start, Interval: old.Interval, OneShot: old.OneShot != nil}
			}
		}
	}
	start, n := len(j.codes), len(d.definition.Components)
	j.codes = slices.Grow(j.codes, n)[:start+n]
	d.codes = j.codes[start : start+n : start+n]
	fill := func(status policy.Status, why string) {
		for i := range d.codes {
			d.codes[i] = status
		}
		d.notCounted = why
	}
	decision := policy.Decide(j.now, current, run, current.Start, false)
	switch decision {
	case policy.ComputeCompliance:
		for i := range d.codes {
			d.codes[i] = d.run.Codes.At(i)
		}
		for range wire.UnexpectedComponents(d.run.Exceptions(), len(d.definition.Components)) {
			d.codes = append(d.codes, policy.Unexpected)
		}
		d.notCounted = d.run.EarlyEndReason()
	case policy.AwaitReport:
		fill(policy.Pending, awaitText(current))
		if old != nil {
			copyUnchanged(d, old)
		}
	case policy.UnexpectedUnknown, policy.UnexpectedVersion, policy.UnexpectedNone:
		fill(policy.Unexpected, "the last run was of a definition that the node must not have any more: muster describe node NAME shows its assignment")
	default:
		fill(policy.NoReport, "no run was reported in time: muster why NODE shows whether the agent is connected")
	}
	d.until = j.nextStatusChange(current, run, decision)
}

// oneShotDue returns the time from which the only run of a one-shot directive is overdue. begin is the time of its
// declaration or assignment. It is zero if no node runs the directive any more.
func oneShotDue(d *model.DirectiveDefinition, begin time.Time) time.Time {
	switch until := d.OneShot.Until(); {
	case until.IsZero():
		if from := d.OneShot.From(); from.After(begin) {
			begin = from
		}
		return begin.Add(d.Splay + d.Timeout + policy.Grace)
	case begin.Before(until):
		return until.Add(d.Timeout + policy.Grace)
	}
	return time.Time{}
}

// awaitText returns the reason for which the components of a directive are pending.
func awaitText(current *policy.Expectation) string {
	switch {
	case !current.OneShot:
		return "the directive is new on the node or has changed, and the node's next run is awaited"
	case current.Due.IsZero():
		return "the time for the only run of the directive ended before its last change, so no node runs it: change spec.oneShot, or muster run --directive"
	case current.From.After(current.Start):
		return "the only run of the directive is awaited, from " + current.From.Format(time.RFC3339) + " on"
	}
	return "the only run of the directive is awaited"
}

// nextStatusChange returns the earliest time at which a directive's statuses change without new data. The time
// is zero if the decision never changes. It ignores the due times of calendars.
func (j *statusEvaluator) nextStatusChange(current *policy.Expectation, run *policy.Run, decision policy.Decision) (at time.Time) {
	later := func(t time.Time) {
		if !t.Before(j.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	later(current.Start.Add(current.Interval + policy.Grace))
	later(current.Due)
	switch {
	case run == nil:
	case run.Of != nil && run.Of.OneShot: // agents repeat such a report at any time
	case run.InForce || run.Of == nil:
		later(current.NextDue(run.Start))
	case decision != policy.UnexpectedVersion:
		// An equal run of the old definition, which nobody lists, is unexpected from then on.
		if t := run.Of.End.Add(run.Of.Interval + policy.Grace); t.Before(j.now) {
			at = j.now
		} else {
			later(t)
		}
	}
	return at
}

// lastDueTime returns the newest cron time of a directive whose run must have ended by now. The time is zero
// for a directive with an interval.
func (j *statusEvaluator) lastDueTime(d *model.DirectiveDefinition) time.Time {
	if d.Cron == "" {
		return time.Time{}
	}
	last, known := j.due[d.ID]
	if !known {
		location, err := when.ParseCron(d.Cron, d.TimeZone)
		if err == nil {
			last = when.LastCron(d.Cron, location, j.now.Add(-d.Splay-d.Timeout-policy.Grace))
		}
		if last.IsZero() {
			last = time.Unix(0, 0) // it is never due
		}
		if j.due == nil {
			j.due = map[model.DefinitionID]time.Time{}
		}
		j.due[d.ID] = last
	}
	return last
}

// copyUnchanged copies component statuses from a directive's last run, if the component is declared as before.
func copyUnchanged(d *nodeDirective, old *model.DirectiveDefinition) {
	if !maps.Equal(old.Parameters, d.definition.Parameters) || !slices.Equal(old.Secrets, d.definition.Secrets) || !reflect.DeepEqual(old.Assets, d.definition.Assets) {
		return
	}
	for i := range d.definition.Components {
		is := &d.definition.Components[i]
		k := slices.IndexFunc(old.Components, func(was model.Component) bool {
			return was.Name == is.Name && was.Method == is.Method && was.When == is.When && was.Mode == is.Mode && bytes.Equal(was.Arguments, is.Arguments) && maps.Equal(was.Item, is.Item)
		})
		if k >= 0 && k < d.run.Components {
			d.codes[i] = d.run.Codes.At(k)
		}
	}
}
