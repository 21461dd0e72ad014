// Package rollout rolls out changes of directives in steps: first to a few nodes, then to more once these have
// reported. It stops the roll-out if too many nodes fail. When a directive changes, the planner stores a roll-out
// (model.Rollout), and gives each node the old or new version according to it. This package only writes the record of
// the next step. The record is stored before any node gets the new version, so a crash neither loses nor repeats a
// step.
//
// One goroutine (Driver.Run); no locks. Start reading at advance_step.go, which decides.
package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
)

// Options has the functions of the server that a Driver of roll-outs calls.
type Options struct {
	Stored    *intent.Rollouts
	Directory *directory.Directory
	// LastRun returns the last run of a directive on a node.
	LastRun   func(model.NodeID, model.UnitID) (compliance.Run, bool)
	Connected func(model.NodeID) bool
	Grace     time.Duration // after New, in which agents connect again
	Now       func() time.Time
	Log       *slog.Logger
}

// Driver advances roll-outs step by step, and carries out people's actions on roll-outs. It is safe for concurrent
// use.
type Driver struct {
	o         Options
	listening time.Time
	failed    atomic.Pointer[[]string] // texts of Failed
}

// New returns a Driver, which advances roll-outs. Its work starts with Run.
func New(o Options) *Driver { return &Driver{o: o, listening: o.Now().Add(o.Grace)} }

// FailedRollouts returns one sentence for each roll-out that stopped because nodes failed. A person can start or undo such a
// roll-out.
func (d *Driver) FailedRollouts() []string {
	if list := d.failed.Load(); list != nil {
		return *list
	}
	return nil
}

// recordFailed stores the sentences about failed roll-outs for later calls of FailedRollouts.
func (d *Driver) recordFailed(list []intent.StoredRollout) {
	var texts []string
	for i := range list {
		if r := &list[i].Rollout; r.State == model.RolloutStopped && r.Failed && r.UnderWay() {
			namespace, name, _ := d.o.Directory.SourceName(model.DirectiveSource(r.Unit))
			texts = append(texts, fmt.Sprintf("the roll-out of directive %s/%s stopped: %s; muster rollout show %[2]s -n %[1]s", namespace, name, r.Reason))
		}
	}
	d.failed.Store(&texts)
}

// pollEvery is the time from one look at the roll-outs to the next.
const pollEvery = 2 * time.Second

// Run advances the roll-outs until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := d.AdvanceAll(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Error("cannot advance the roll-outs; the server tries again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// AdvanceAll advances each running roll-out by at most one step.
func (d *Driver) AdvanceAll(ctx context.Context) error {
	list, err := d.o.Stored.List(ctx)
	if err != nil {
		return err
	}
	d.recordFailed(list)
	for _, r := range list {
		if !r.UnderWay() {
			continue
		}
		unit, fleet := d.Fleet(&r.Rollout)
		if unit == nil { // the planner has not compiled the stored roll-out yet
			continue
		}
		next, changed := Advance(r.Rollout, fleet)
		if !changed {
			continue
		}
		text := stepText(&next)
		by := intent.Actor{User: "server", Address: "local", Message: "roll-out of " + unit.Name.String() + ": " + text}
		err := d.o.Stored.Update(ctx, by, intent.StoredRollout{Rollout: next, Revision: r.Revision})
		if err != nil && model.ClassOf(err) != model.Conflict { // else a person or a change came first
			return err
		}
		if next.State == model.RolloutStopped {
			d.o.Log.Warn("a roll-out stopped", "directive", unit.Name.String(), "reason", next.Reason)
		}
	}
	return nil
}

// stepText describes one step of a roll-out for the audit log.
func stepText(r *model.Rollout) string {
	if r.State != model.RolloutRunning {
		return string(r.State) + ": " + r.Reason
	}
	step := r.Steps[len(r.Steps)-1]
	return fmt.Sprintf("step %s, the new version is on %s", step.Step, model.CountNoun(step.Nodes, "node"))
}

// Fleet returns the directive of a roll-out, with the state of each of its nodes. It returns nil if the planner has
// not compiled the present state of the roll-out yet.
func (d *Driver) Fleet(r *model.Rollout) (*directory.Unit, *Fleet) {
	unit := d.o.Directory.SourceUnit(model.DirectiveSource(r.Unit))
	if unit == nil || unit.Rollout == nil || !reflect.DeepEqual(unit.Rollout.Rollout, *r) {
		return nil, nil
	}
	f := &Fleet{Now: d.o.Now(), Listening: d.listening, Timeout: unit.Rollout.New.AsDirective().Timeout, InGroup: func(group string, node model.NodeID) bool {
		_, member := slices.BinarySearch(d.o.Directory.GroupMembers(model.SplitRef(unit.Namespace, group)), node)
		return member
	}}
	for _, id := range d.o.Directory.UnitNodes(r.Unit) {
		assigned := d.o.Directory.AssignmentOf(id)
		if assigned == nil {
			continue
		}
		namespace, name, _ := d.o.Directory.NodeName(id)
		if namespace != unit.Namespace {
			name = namespace + "/" + name
		}
		n := Node{ID: id, Name: name, Connected: d.o.Connected(id), New: (r.UnderWay() || r.State == model.RolloutDone) && assigned.Definition(unit.Rollout.New.ID) != nil}
		version := unit.Rollout.Old
		if n.New {
			version = unit.Rollout.New
		}
		if run, ok := d.o.LastRun(id, r.Unit); ok && run.Definition == version.ID {
			n.Verdict, n.Reason = outcomeOf(&run, version.AsDirective())
		}
		f.Nodes = append(f.Nodes, n)
	}
	return unit, f
}

// outcomeOf returns the outcome of a directive's last run on a node, such as compliant. The run is compliant
// only if every component that counts is compliant or waived. The text names the first other component.
func outcomeOf(run *compliance.Run, directive *model.DirectiveDefinition) (Outcome, string) {
	if counts, _ := run.Codes.CountStatuses(len(directive.Components), directive.Blocks); counts.Unfulfilled() == 0 {
		return Compliant, ""
	}
	for i := range directive.Components {
		status := run.Codes.At(i)
		if status.Fulfilled() || status == policy.Waived || policy.NeverCounts(i, directive.Blocks) {
			continue
		}
		text := directive.Components[i].Name + ": " + status.String()
		if message := run.Message(i); message != "" {
			text += ": " + message
		} else if status == policy.Missing {
			text += ": " + run.EarlyEndReason()
		}
		return NotCompliant, text
	}
	return Compliant, ""
}
