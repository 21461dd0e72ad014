package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Action is a person's action on a roll-out, such as approve, pause or undo.
type Action string

// Verbs of roll-outs.
const (
	Approve Action = "approve"
	Start   Action = "start"
	Pause   Action = "pause"
	Stop    Action = "stop"
	Undo    Action = "undo"
)

// Person is the author of an action on a roll-out.
type Person struct {
	intent.Actor
	May func(namespace string) error // says whether the person may change resources of a namespace
}

// List returns all stored roll-outs.
func (d *Driver) List(ctx context.Context) ([]intent.StoredRollout, error) {
	return d.o.Stored.List(ctx)
}

// ApprovalRequests returns the open requests to approve policy changes, the oldest first.
func (d *Driver) ApprovalRequests(ctx context.Context) ([]intent.ChangeRequest, error) {
	return d.o.Stored.Requests(ctx)
}

// Find returns the stored roll-out of a directive.
func (d *Driver) Find(ctx context.Context, unit model.UnitID, name string) (intent.StoredRollout, error) {
	list, err := d.o.Stored.List(ctx)
	if err != nil {
		return intent.StoredRollout{}, err
	}
	for _, r := range list {
		if r.Unit == unit && r.State != model.RolloutNone {
			return r, nil
		}
	}
	return intent.StoredRollout{}, model.Errorf(model.NotFound, "directive %s has no roll-out", name).
		WithHint("declare its steps, and change it: muster explain directive.rollout")
}

// Perform performs a person's action on the roll-out of a directive. key is the directive's.
func (d *Driver) Perform(ctx context.Context, by Person, verb Action, key intent.Key, unit model.UnitID) error {
	r, err := d.Find(ctx, unit, key.Name)
	if err != nil {
		return err
	}
	if by.Message == "" {
		by.Message = "roll-out: " + string(verb)
	}
	if verb == Undo {
		return d.undo(ctx, by, key, &r)
	}
	if err := d.change(by, verb, key.Name, &r.Rollout); err != nil {
		return err
	}
	return d.o.Stored.Update(ctx, by.Actor, r)
}

// change approves, starts, pauses or stops a roll-out at the request of a person.
func (d *Driver) change(by Person, verb Action, name string, r *model.Rollout) error {
	refuse := func(hint string) error {
		return model.Errorf(model.Conflict, "cannot %s the roll-out of %s: it is %s", verb, name, r.State).WithHint(hint+": muster rollout show %s", name)
	}
	switch verb {
	case Approve:
		if r.State != model.RolloutRequested {
			return refuse("only a requested one awaits approval")
		}
		if people := r.ResponsiblePeople(); slices.Contains(people, by.User) || slices.Contains(people, cmp.Or(by.Maker, by.User)) {
			return model.Errorf(model.Forbidden, "permission denied: %s made the change, so another person has to approve it", strings.Join(people, ", ")).
				WithHint("ask another administrator: muster rollout approve %s", name)
		}
		r.State, r.Approver, r.Reason = model.RolloutRunning, by.User, ""
	case Start:
		if r.State == model.RolloutRequested {
			return refuse("another person has to approve it first")
		}
		if r.State != model.RolloutPaused && r.State != model.RolloutStopped {
			return refuse("only a paused or stopped one goes on")
		}
		if unit, fleet := d.Fleet(r); unit != nil {
			r.ExemptNodes(ProgressOf(r, fleet).failed...) // a person has seen them
		}
		r.State, r.Failed, r.Reason = model.RolloutRunning, false, "continued by "+by.User
		if r.Spec.Approve && r.Approver == "" {
			r.State, r.Reason = model.RolloutRequested, "another person than its author has to approve it"
		}
	case Pause:
		if r.State != model.RolloutRunning {
			return refuse("only a running one pauses")
		}
		r.State, r.Reason = model.RolloutPaused, fmt.Sprintf("paused by %s", by.User)
	case Stop:
		if r.State != model.RolloutRunning && r.State != model.RolloutPaused && r.State != model.RolloutRequested {
			return refuse("it is not under way")
		}
		r.State, r.Reason = model.RolloutStopped, fmt.Sprintf("stopped by %s", by.User)
	}
	return nil
}

// undo restores the declarations that a directive and its technique had before the roll-out. A roll-out that
// has ended also accepts the version before it, so that all nodes go back at once.
func (d *Driver) undo(ctx context.Context, by Person, key intent.Key, r *intent.StoredRollout) error {
	if r.UnderWay() {
		return d.o.Stored.Revert(ctx, by.Actor, key, r.Base, nil, by.May)
	}
	if r.State != model.RolloutDone || r.Previous == "" {
		return model.Errorf(model.Conflict, "cannot undo the roll-out of %s: it is %s", key.Name, r.State).WithHint("go back to any revision: muster rollout undo %s --to REVISION; list them: muster audit", key.Name)
	}
	r.Accepted, r.Candidate, r.State, r.Reason = r.Previous, r.Previous, model.RolloutUndone, "undone by "+by.User
	r.Previous = ""
	return d.o.Stored.Revert(ctx, by.Actor, key, r.Base, r, by.May)
}

// RestoreRevision restores the declarations of a directive and its technique from an older revision.
func (d *Driver) RestoreRevision(ctx context.Context, by Person, key intent.Key, revision int64) error {
	if by.Message == "" {
		by.Message = fmt.Sprintf("back to revision %d", revision)
	}
	return d.o.Stored.Revert(ctx, by.Actor, key, revision, nil, by.May)
}
