package muster

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// registry finds the session of a node: at most one.
type registry struct {
	mu sync.RWMutex
	by map[model.NodeID]*session
}

// swap makes x the node's session and returns the older one, which the caller ends.
// ok is false when limit sessions of other nodes are there.
func (r *registry) swap(x *session, limit int) (old *session, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = make(map[model.NodeID]*session)
	}
	old = r.by[x.node.ID]
	if old == nil && len(r.by) >= limit {
		return nil, false
	}
	r.by[x.node.ID] = x
	return old, true
}

// remove forgets x; false when another session has taken its place.
func (r *registry) remove(x *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[x.node.ID] != x {
		return false
	}
	delete(r.by, x.node.ID)
	return true
}

func (r *registry) get(node model.NodeID) *session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.by[node]
}

func (r *registry) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.by)
}

// each calls fn for every session with the lock held: fn must be short, and must not
// come back here.
func (r *registry) each(fn func(*session)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.by {
		fn(x)
	}
}
