package roundrobin

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/window"
)

// rotation has a round-robin check, its nodes, and the node of the last run. The nodes share the check.
type rotation struct {
	definition    *model.CheckDefinition
	namespace     string
	members       *roaring.Bitmap
	except        window.Set
	location      *time.Location // of cron; nil: by interval
	dueTimeAfter  time.Time      // the time after which nextDueTime lies
	nextDueTime   time.Time      // the first due time after dueTimeAfter
	subjects      []directory.ProxyNode
	lastMember    model.NodeID  // the member of the last turn
	noMemberUntil time.Duration // end of the pause after a search that found no connected member
}

// timeout returns how long a node may take for a run of a round-robin check. Then another node gets the run. A check
// without a time-out is given the default of checks.
func (r *rotation) timeout() time.Duration {
	const most = 5 * time.Second
	if r.location != nil {
		return cmp.Or(r.definition.Timeout, model.DefaultTimeout) + most
	}
	return cmp.Or(r.definition.Timeout, min(r.definition.Interval, model.DefaultTimeout)) + min(r.definition.Interval*3/4, most)
}

// searchInterval returns how long the engine waits between two searches for a connected node.
func (r *rotation) searchInterval() time.Duration {
	if r.location != nil {
		return time.Second
	}
	return min(r.definition.Interval/10, time.Second)
}

// reloadChecks reloads the declared round-robin checks if the declarations have a new revision.
func (e *Engine) reloadChecks(now time.Duration) {
	e.reloaded = now
	revision := e.o.Revision()
	if revision == e.revision {
		return
	}
	first := e.revision < 0
	e.revision = revision
	removed := e.robins
	e.robins = map[model.CheckID]*rotation{}
	for _, declared := range e.o.RoundRobins() {
		check := declared.Definition.Unit
		r, known := removed[check]
		if !known {
			r = &rotation{lastMember: memberBeforeFirstRun(declared)}
		}
		delete(removed, check)
		e.robins[check] = r
		same := known && r.definition.Interval == declared.Definition.Interval && cronOf(r.definition) == cronOf(declared.Definition) && slices.Equal(r.subjects, declared.Subjects)
		if r.definition != declared.Definition {
			r.location, r.dueTimeAfter = e.locationOf(declared.Definition), time.Time{}
			except, err := window.NewSet(declared.Definition.Except)
			if err != nil {
				e.o.Log.Error("BUG: a calendar that was accepted cannot be read", "check", declared.Definition.Name, "err", err)
			}
			r.except = except
		}
		before := r.subjects
		r.definition, r.namespace, r.members, r.subjects, r.noMemberUntil = declared.Definition, declared.Namespace, declared.Members, declared.Subjects, 0
		if !same {
			e.reschedule(r, before, now)
		}
		if first && r.location != nil {
			e.resumeMissedRuns(r, now)
		}
	}
	for check, r := range removed {
		for _, s := range r.subjects {
			e.removeRun(runKey{check, s.ID})
		}
	}
}

// memberBeforeFirstRun returns, by a hash, the node after which the rotation of a new check starts. A hash
// chooses the node, so that checks with the same members start at different ones.
func memberBeforeFirstRun(r directory.RoundRobin) model.NodeID {
	n := r.Members.GetCardinality()
	if n == 0 {
		return 0
	}
	const golden = 0x9e3779b97f4a7c15 // of 2^64: its multiples spread evenly
	at, _ := bits.Mul64(uint64(r.Definition.Unit)*golden, n)
	id, err := r.Members.Select(uint32(at))
	if err != nil {
		return 0
	}
	return model.NodeID(id)
}

// isScheduled reports whether the planned next run still agrees with a round-robin check's interval or cron
// expression.
func (e *Engine) isScheduled(t *recurringRun, about uuid.UUID, now time.Duration) bool {
	c := t.robin.definition
	if t.cron != cronOf(c) {
		return false
	}
	return c.Cron != "" || t.next%c.Interval == when.Phase(about, c.Unit, c.Interval) && t.next <= now+c.Interval
}

// reschedule computes the next due times of a check after the check or its proxy nodes changed.
func (e *Engine) reschedule(r *rotation, before []directory.ProxyNode, now time.Duration) {
	check := r.definition.Unit
	for _, s := range before {
		if _, still := slices.BinarySearchFunc(r.subjects, s.ID, func(p directory.ProxyNode, id model.NodeID) int { return cmp.Compare(p.ID, id) }); !still {
			e.removeRun(runKey{check, s.ID})
		}
	}
	for _, s := range r.subjects {
		k := runKey{check, s.ID}
		t := e.turns[k]
		if t != nil && e.isScheduled(t, s.UID, now) {
			continue
		}
		e.removeRun(k)
		t = &recurringRun{runKey: k, robin: r, cron: cronOf(r.definition)}
		if r.location == nil {
			t.next = when.NextAtPhase(now, r.definition.Interval, when.Phase(s.UID, check, r.definition.Interval))
		} else {
			e.scheduleNext(t, now)
		}
		t.wake = t.next
		e.turns[k] = t
		e.heap.add(t)
	}
}

// removeRun removes the recurring run of a check for a proxy node. An unfinished run is taken away from the assigned
// node.
func (e *Engine) removeRun(k runKey) {
	t := e.turns[k]
	if t == nil {
		return
	}
	e.withdrawRun(t)
	e.heap.remove(t)
	delete(e.turns, k)
}

// faultExamples bounds the nodes named in a fault.
const faultExamples = 3

// Faults returns the round-robin checks of a namespace that no connected node can run, for the server's status.
// It also returns how many nodes have no event because of that; an empty namespace means all.
func (e *Engine) Faults(namespace string) (list []plan.Fault, nodes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for check, r := range e.robins {
		if namespace != "" && namespace != r.namespace {
			continue
		}
		f := plan.Fault{Check: check, Text: "check " + r.definition.Name + ": " + r.noMemberText()}
		add := func(id model.NodeID) bool {
			if f.Nodes++; len(f.Examples) < faultExamples {
				f.Examples = append(f.Examples, id)
			}
			return true
		}
		for _, s := range r.subjects {
			switch t := e.turns[runKey{check, s.ID}]; {
			case !t.missed:
			case s.ID != 0:
				add(s.ID)
			default:
				r.members.Iterate(func(id uint32) bool { return add(model.NodeID(id)) })
			}
		}
		if f.Nodes > 0 {
			list = append(list, f)
			nodes += f.Nodes
		}
	}
	return list, nodes
}
