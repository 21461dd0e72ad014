package sensu

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// registry adds to the sessions of nodes the connections that have sent nothing yet, and the state of nodes that outlives
// their sessions. Lock order: mu, then core.Registry.
type registry struct {
	core.Registry[session]

	mu        sync.Mutex
	anonymous map[*session]struct{} // connections without a node yet
	numbers   map[model.NodeID]*numbers
	given     map[model.NodeID]*given // of nodes whose agents have proved their identity
}

// numbers are the stream that the server makes of the messages of a node's agent.
type numbers struct {
	stream wire.StreamID
	last   uint64
	broken atomic.Bool // a commit failed: the next session begins another stream
}

// enter adds a connection without a node.
func (r *registry) enter(x *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.anonymous == nil {
		r.anonymous = map[*session]struct{}{}
	}
	r.anonymous[x] = struct{}{}
}

// hasPriority reports whether a session keeps its name against another one that has come: a proven identity wins, then
// the later connection.
func (x *session) hasPriority(y *session) bool {
	if x.proven != y.proven {
		return x.proven
	}
	return x.since > y.since
}

// swap makes x the node's session, gives it its numbers, and returns the older session; not ok: that one stays.
func (r *registry) swap(x *session, stream wire.StreamID) (old *session, ok bool) {
	if old, ok = r.Swap(x.node.ID, x, 0, func(old *session) bool { return old.hasPriority(x) }); !ok {
		return old, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.anonymous, x)
	if x.given != nil {
		x.given.uid = x.uid
	}
	if r.numbers == nil {
		r.numbers = map[model.NodeID]*numbers{}
	}
	n := r.numbers[x.node.ID]
	if n == nil || n.broken.Load() {
		n = &numbers{stream: stream}
		r.numbers[x.node.ID] = n
	}
	x.numbers = n
	if len(r.numbers) > 2*r.Len()+1024 { // most are of machines that left: one that returns begins another stream
		maps.DeleteFunc(r.numbers, func(id model.NodeID, _ *numbers) bool { return r.Get(id) == nil })
	}
	return old, true
}

// remove removes x; false: it is no node's session (any more).
func (r *registry) remove(x *session) bool {
	r.mu.Lock()
	delete(r.anonymous, x)
	r.mu.Unlock()
	return x.node.ID != 0 && r.Remove(x.node.ID, x)
}

// Each calls fn for every connection with a lock held: fn must be short.
func (r *registry) ForEach(fn func(*session)) {
	r.Registry.ForEach(fn)
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := range r.anonymous {
		fn(x)
	}
}

// givenOf returns the values that a node's agent was given; nil: it gets none.
func (r *registry) givenOf(node model.NodeID, proven bool) *given {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.given[node]
	if g == nil && proven {
		if r.given == nil {
			r.given = map[model.NodeID]*given{}
		}
		g = &given{}
		r.given[node] = g
	}
	return g
}

// givenAway returns the nodes whose agents were given values and have no session.
func (r *registry) givenAway() map[model.NodeID]uuid.UUID {
	r.mu.Lock()
	defer r.mu.Unlock()
	away := map[model.NodeID]uuid.UUID{}
	for id, g := range r.given {
		if g.uid != uuid.Nil && r.Get(id) == nil {
			away[id] = g.uid
		}
	}
	return away
}

// forgetGiven forgets the values of nodes without a session.
func (r *registry) forgetGiven(nodes map[model.NodeID]uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range nodes {
		if r.Get(id) == nil {
			delete(r.given, id)
		}
	}
}
