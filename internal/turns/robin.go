package turns

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

// robin is one round-robin check.
type robin struct {
	chunk     *model.CheckChunk
	namespace string
	members   *roaring.Bitmap
	except    window.Set
	location  *time.Location // of cron; nil: by interval
	from      time.Time      // … after which its next due time …
	tick      time.Time      // … is this
	subjects  []directory.ProxyNode
	last      model.NodeID  // who got the last turn
	deserted  time.Duration // until when nobody is looked for: no member was there
}

// patience is how long a member has for a run until it is given to another.
func (r *robin) patience() time.Duration {
	const most = 5 * time.Second
	if r.location != nil {
		return r.chunk.Timeout + most
	}
	return r.chunk.Timeout + min(r.chunk.Interval*3/4, most)
}

// retry is how often a member is looked for while there is none.
func (r *robin) retry() time.Duration {
	if r.location != nil {
		return time.Second
	}
	return min(r.chunk.Interval/10, time.Second)
}

// look follows what was declared.
func (e *Engine) look(now time.Duration) {
	e.looked = now
	revision := e.o.Revision()
	if revision == e.revision {
		return
	}
	first := e.revision < 0
	e.revision = revision
	gone := e.robins
	e.robins = map[model.CheckID]*robin{}
	for _, said := range e.o.RoundRobins() {
		check := said.Chunk.Unit
		r, known := gone[check]
		if !known {
			r = &robin{last: begin(said)}
		}
		delete(gone, check)
		e.robins[check] = r
		same := known && r.chunk.Interval == said.Chunk.Interval && cronOf(r.chunk) == cronOf(said.Chunk) && slices.Equal(r.subjects, said.Subjects)
		if r.chunk != said.Chunk {
			r.location, r.from = e.locationOf(said.Chunk), time.Time{}
			except, err := window.NewSet(said.Chunk.Except)
			if err != nil {
				e.o.Log.Error("BUG: a calendar that was accepted cannot be read", "check", said.Chunk.Name, "err", err)
			}
			r.except = except
		}
		before := r.subjects
		r.chunk, r.namespace, r.members, r.subjects, r.deserted = said.Chunk, said.Namespace, said.Members, said.Subjects, 0
		if !same {
			e.retime(r, before, now)
		}
		if first && r.location != nil {
			e.resume(r, now)
		}
	}
	for check, r := range gone {
		for _, s := range r.subjects {
			e.drop(key{check, s.ID})
		}
	}
}

// begin is before whom a check's first turn is: another member for each check, so that many
// checks of the same members do not all come to one at the same time, and then to the next.
func begin(r directory.RoundRobin) model.NodeID {
	n := r.Members.GetCardinality()
	if n == 0 {
		return 0
	}
	const golden = 0x9e3779b97f4a7c15 // of 2^64: multiples of it spread evenly
	at, _ := bits.Mul64(uint64(r.Chunk.Unit)*golden, n)
	id, err := r.Members.Select(uint32(at))
	if err != nil {
		return 0
	}
	return model.NodeID(id)
}

// onTime says whether a turn that is there has its place as its check has it now.
func (e *Engine) onTime(t *turn, about uuid.UUID, now time.Duration) bool {
	c := t.robin.chunk
	if t.cron != cronOf(c) {
		return false
	}
	return c.Cron != "" || t.next%c.Interval == when.Phase(about, c.Unit, c.Interval) && t.next <= now+c.Interval
}

// retime gives the check's turns their place in its interval, or their next due time.
func (e *Engine) retime(r *robin, before []directory.ProxyNode, now time.Duration) {
	check := r.chunk.Unit
	for _, s := range before {
		if _, still := slices.BinarySearchFunc(r.subjects, s.ID, func(p directory.ProxyNode, id model.NodeID) int { return cmp.Compare(p.ID, id) }); !still {
			e.drop(key{check, s.ID})
		}
	}
	for _, s := range r.subjects {
		k := key{check, s.ID}
		t := e.turns[k]
		if t != nil && e.onTime(t, s.UID, now) {
			continue
		}
		e.drop(k)
		t = &turn{key: k, robin: r, cron: cronOf(r.chunk)}
		if r.location == nil {
			t.next = when.OnGrid(now, r.chunk.Interval, when.Phase(s.UID, check, r.chunk.Interval))
		} else {
			e.plan(t, now)
		}
		t.act = t.next
		e.turns[k] = t
		e.heap.add(t)
	}
}

func (e *Engine) drop(k key) {
	t := e.turns[k]
	if t == nil {
		return
	}
	e.take(t)
	e.heap.remove(t)
	delete(e.turns, k)
}

// faultExamples is how many nodes stand for all that have a fault.
const faultExamples = 3

// Faults are the checks of a namespace (empty: of all) that nobody is there to run, and how
// many nodes have no event by that: proxy nodes, or the members themselves.
func (e *Engine) Faults(namespace string) (list []plan.Fault, nodes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for check, r := range e.robins {
		if namespace != "" && namespace != r.namespace {
			continue
		}
		f := plan.Fault{Check: check, Text: "check " + r.chunk.Name + ": " + r.nobody()}
		add := func(id model.NodeID) bool {
			if f.Nodes++; len(f.Examples) < faultExamples {
				f.Examples = append(f.Examples, id)
			}
			return true
		}
		for _, s := range r.subjects {
			switch t := e.turns[key{check, s.ID}]; {
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
